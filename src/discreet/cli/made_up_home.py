"""The home of ``discreet demo``: four sensors, two residents, a known distribution.

The care service should learn whether somebody has fallen; it should not learn which of the two
residents it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from discreet.arrays import Floats
from discreet.data.columns import written
from discreet.leakage.chains import Chain, figures_between
from discreet.leakage.exact import bayes_error
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.mapping import Mapping

SENSORS = ("floor_vibration", "hall_motion", "bed_pressure", "door_light")
RESIDENTS = ("Ada", "Ben")
STAY = 0.99
"""Probability that the next round is about the same resident, when the home is lived in."""
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


def moments_of(seed: int) -> Iterator[tuple[dict[str, int], str]]:
    """Yield the readings of one moment of the home after the other, and whether somebody fell.

    Each moment has the law of ``make_home``; only the resident has to do with the one before.
    """
    rng = np.random.default_rng((seed, 1))
    who = int(rng.integers(2))
    while True:
        fall = bool(rng.random() < 0.5)
        level = _LEVELS[fall, RESIDENTS[who]]
        yield {name: int(level + rng.integers(-1, 2)) for name in SENSORS}, written(fall)
        who ^= int(rng.random() >= STAY)


def _by_resident(outputs: dict[tuple[bool, str], Floats]) -> Floats:
    return np.array([(outputs[False, who] + outputs[True, who]) / 2 for who in RESIDENTS])


def errors(outputs: dict[tuple[bool, str], Floats]) -> tuple[float, float]:
    """Return the least error about the fall and about the resident."""
    by_fall = np.array([sum(outputs[fall, who] for who in RESIDENTS) / 2 for fall in (False, True)])
    half = np.array([0.5, 0.5])
    return bayes_error(by_fall, half), bayes_error(_by_resident(outputs), half)


def error_over(rounds: int, mapping: Mapping) -> float:
    """Return the least error about the resident of a round for whoever sees all the rounds."""
    given, chain = _by_resident(exact_outputs(mapping)), Chain.of_stay(STAY, [0.5, 0.5])
    ((_, most),) = figures_between(given, chain, [rounds])
    return 0.5 - most.advantage


def odds_factor(outputs: dict[tuple[bool, str], Floats]) -> float:
    """Return by how much symbols change the odds of one resident against the other."""
    ada, ben = _by_resident(outputs)
    return float(np.exp(np.abs(np.log(ada) - np.log(ben)).max()))
