"""``discreet demo``: the main job end to end on made-up data, no hardware needed.

A small home has four sensors. The care service should learn whether somebody has
fallen; it should not learn which of the two residents it is. Rows are drawn from a
known distribution, so the figures printed for the mapping are exact for this home.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.console import plain_print, run_learn
from discreet.exact import bayes_error, information_epsilon, pair_risk
from discreet.learning import Learned
from discreet.mapping import Mapping
from discreet.outputs import output_probabilities

Floats = NDArray[np.float64]

SENSORS = ("floor_vibration", "hall_motion", "bed_pressure", "door_light")
RESIDENTS = ("Ada", "Ben")
_ROWS = 1500
# Level of each sensor for (fall, resident); a reading is the level -1, 0 or +1.
_LEVELS = {(False, "Ada"): 2, (False, "Ben"): 4, (True, "Ada"): 6, (True, "Ben"): 8}


def make_home(n_rows: int, seed: int) -> pd.DataFrame:
    """Draw rows of the made-up home."""
    rng = np.random.default_rng(seed)
    fall = rng.random(n_rows) < 0.5
    who = np.array(RESIDENTS)[rng.integers(2, size=n_rows)]
    level = np.array([_LEVELS[bool(f), str(w)] for f, w in zip(fall, who, strict=True)])
    table = {name: level + rng.integers(-1, 2, n_rows) for name in SENSORS}
    return pd.DataFrame(table | {"fall": fall, "who": who})


def exact_outputs(mapping: Mapping | None) -> dict[tuple[bool, str], Floats]:
    """Return p(output | fall, resident), exactly; of the raw readings for no mapping."""
    found = {}
    for key, level in _LEVELS.items():
        readings = np.array(np.meshgrid(*[[level - 1, level, level + 1]] * len(SENSORS)))
        rows = readings.reshape(len(SENSORS), -1).T
        if mapping is None:
            cells = np.ravel_multi_index(tuple(rows.T), (10,) * len(SENSORS))
            found[key] = np.bincount(cells, minlength=10 ** len(SENSORS)) / len(rows)
        else:
            codes = mapping.encode(pd.DataFrame(rows, columns=list(SENSORS)))
            found[key] = output_probabilities(mapping.tables, codes).mean(axis=0)
    return found


def run_demo(folder: Path, seed: int) -> Learned:
    """Make the table, learn from it, and show what symbols and raw readings tell."""
    folder.mkdir(parents=True, exist_ok=True)
    table, out = folder / "home.csv", folder / "home.json"
    make_home(_ROWS, seed).to_csv(table, index=False)
    plain_print(f"A made-up home, {_ROWS} rows in {table}: did somebody fall, and not who.")
    plain_print(f"$ discreet learn {table} --public fall --private who --out {out}")
    learned = run_learn(
        table=table,
        public="fall",
        private=["who"],
        out=out,
        method="npo",
        sensors=None,
        exclude=[],
        holdout=0.3,
        group=None,
        seed=seed,
        options={"random_state": seed},
        quiet=False,
    )
    mapping = Mapping.load(out)
    plain_print()
    _show_figures(mapping)
    _show_sending(mapping, learned.held_out)
    return learned


def _show_figures(mapping: Mapping) -> None:
    plain_print("What the best rule can infer, exact for this home:")
    plain_print(f"{'':18}{'fall: error':>14}{'who: error':>14}{'who: epsilon':>14}")
    for title, outputs in (
        ("raw readings", exact_outputs(None)),
        ("the mapping", exact_outputs(mapping)),
    ):
        half = np.array([0.5, 0.5])
        fall = np.array([sum(outputs[f, w] for w in RESIDENTS) / 2 for f in (False, True)])
        who = np.array([sum(outputs[f, w] for f in (False, True)) / 2 for w in RESIDENTS])
        error, epsilon = pair_risk(who), information_epsilon(who, half)
        plain_print(f"{title:18}{bayes_error(fall, half):14.3f}{error:14.3f}{epsilon:14.2f}")
    plain_print("An error of 0.5 is guessing.")


def _show_sending(mapping: Mapping, held_out: pd.DataFrame) -> None:
    sent = mapping.transform(held_out)
    right = float((mapping.fuse(sent) == held_out["fall"].to_numpy()).mean())
    plain_print()
    plain_print(f"Four of the {len(held_out)} held-out rows, as the sensors would send them:")
    for i in range(4):
        row = held_out.iloc[i]
        readings = " ".join(str(row[name]) for name in SENSORS)
        symbols = " ".join(map(str, sent[i]))
        answer = "fall" if mapping.fuse(sent[i : i + 1])[0] else "no fall"
        truth = "fall" if row["fall"] else "no fall"
        plain_print(f"  readings {readings}  ->  symbols {symbols}  ->  {answer} (truth: {truth})")
    plain_print(f"All held-out rows: {right:.1%} of the answers are right.")
