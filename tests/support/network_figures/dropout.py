"""Public error against loss: silence summed out, read as 0, or left out of the sum."""

import numpy as np
import pandas as pd

from discreet import RandomizedResponseMapper
from discreet.network.fusion.closing import MISSING, rule_of

STYLES = {"summed out": "C0o-", "left out": "C1s:", "read as zero": "C2^--"}


def made_up_house(rows, sensors, rng):
    """Sensors that see a fall with different certainty, and a little of who it was."""
    fall, who = rng.random(rows) < 0.4, rng.random(rows) < 0.5
    table = {}
    for t in range(sensors):
        certain = 0.72 + 0.16 * t / max(1, sensors - 1)
        sees = np.where(rng.random(rows) < certain, fall, ~fall)
        tells = np.where(rng.random(rows) < 0.65, who, ~who)
        table[f"s{t}"] = 2 * sees + tells
    return pd.DataFrame(table), fall, who


def learned(sensors, rng):
    """Return a mapping and held-out symbols with their labels."""
    X, fall, who = made_up_house(3000, sensors, rng)
    mapper = RandomizedResponseMapper(ldp_epsilon=1.5, random_state=0)
    mapper.fit(X, fall, private=who)
    X, fall, _ = made_up_house(20_000, sensors, rng)
    return mapper.mapping_, mapper.mapping_.transform(X, rng), fall


def errors(mapping, Z, fall, loss, rng):
    """Return the public error of each way to bear so much loss."""
    gone = rng.random(Z.shape) < loss
    heard = np.where(gone, MISSING, Z)
    rule = rule_of(mapping)
    rule.observe(heard)
    scores = {"summed out": rule.scores(heard)}
    if mapping.fusion.kind != "table":  # where silence could also be left out of a sum
        scores["left out"] = _left_out(mapping, Z, gone)
    scores["read as zero"] = mapping.fusion.scores(np.where(gone, 0, Z), mapping.n_symbols)
    classes = mapping.public.array
    return {way: np.mean(classes[each.argmax(axis=1)] != fall) for way, each in scores.items()}


def _left_out(mapping, Z, gone):
    """Scores to which a silent sensor adds nothing."""
    total = np.full(len(Z), mapping.fusion.bias)
    for t, weights in enumerate(mapping.fusion.weights):
        total += np.where(gone[:, t], 0, np.array(weights)[Z[:, t]])
    return np.column_stack([np.zeros(len(Z)), total])


def curves(houses=(8, 14), losses=None, seed=0):
    """Return, by number of sensors and way, the error at each loss."""
    losses = np.arange(0, 0.61, 0.1) if losses is None else losses
    found = {}
    for sensors in houses:
        rng = np.random.default_rng(seed)
        mapping, Z, fall = learned(sensors, rng)
        by_loss = [errors(mapping, Z, fall, loss, rng) for loss in losses]
        name = f"{sensors} sensors, {mapping.fusion.kind} rule"
        found[name] = {way: [each[way] for each in by_loss] for way in by_loss[0]}
    return losses, found


def draw(losses, found, path):
    """Draw the curves side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(found), 3.6), layout="constrained")
    axes = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axis, (name, lines) in zip(axes, found.items(), strict=True):
        for way, values in lines.items():
            axis.plot(100 * losses, values, STYLES[way], label=way)
        axis.set(title=name, xlabel="messages lost (%)")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    axes[0].set_ylabel("public error")
    axes[0].set_ylim(
        0, 1.05 * max(max(each) for lines in found.values() for each in lines.values())
    )
    figure.savefig(path, dpi=150)
