"""The paper's small cases with default settings, beside a classifier chosen on folds.

80 rows of the synthetic case, and 180 rows of five attributes shaped like the Adult
experiment: the census file itself if it is found, made-up rows with the same alphabets if not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from discreet.errors import DiscreetWarning, InputError
from discreet.mappers.risk_mappers import NPOMapper
from research.bench.measure import Promise, Setup
from research.bench.tables import Size
from research.paper.datasets import ADULT_FILE, draw_cells, load_adult
from research.paper.files import find_file
from research.paper.synthetic import draw_table

Drawn = tuple[pd.DataFrame, Any, Any]
_MOST_SECONDS = 1.0
_SYNTHETIC, _PEER = "ours, synthetic, 80 rows", "scikit-learn LogisticRegressionCV, 180 rows"


def prepare(size: Size) -> Setup:
    """Find the rows; each round learns from other ones."""
    census = _has_adult()
    source = "Adult" if census else "made up like Adult"
    adult = f"ours, {source}, 180 rows"
    draw = _adult_rows if census else _made_up_rows
    rounds = size.rounds_of(7)
    # Drawn before the clock runs: reading the census takes as long as learning.
    synthetic = [draw_table(80, 0.2, round_) for round_ in range(rounds + 1)]
    drawn = [draw(round_) for round_ in range(rounds + 1)]
    promised = [
        Promise(f"s for {name.removeprefix('ours, ')}", _median_of(name), _MOST_SECONDS, True)
        for name in (_SYNTHETIC, adult)
    ]
    return Setup(
        name="small",
        title="The paper's small cases, default settings",
        size="80 and 180 rows, other ones in each round",
        contestants={
            _SYNTHETIC: lambda round_: _learn(synthetic[round_], round_),
            adult: lambda round_: _learn(drawn[round_], round_),
            _PEER: lambda round_: _classify(*drawn[round_][:2]),
        },
        rounds=rounds,
        ours=adult,
        yardstick=_PEER,
        promised=() if size.quick else promised,
    )


def _median_of(name: str) -> Callable[[Any], float]:
    return lambda times: float(times[name].median)


def _learn(drawn: Drawn, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscreetWarning)  # some draws say little; time is all here
        NPOMapper(random_state=seed).fit(drawn[0], drawn[1], private=drawn[2])


def _classify(readings: pd.DataFrame, public: Any) -> None:
    from sklearn.linear_model import LogisticRegressionCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn announces changes of defaults
        LogisticRegressionCV(cv=5).fit(pd.get_dummies(readings.astype(str)), public)


def _adult_rows(seed: int) -> Drawn:
    """Return 30 rows from each cell of income and marital status."""
    drawn, _ = draw_cells(load_adult(), seed)
    return drawn.readings, drawn.public.to_numpy(), drawn.private.to_numpy()


def _made_up_rows(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    sizes = {"age": 15, "education": 16, "occupation": 15, "relationship": 6, "sex": 2}
    made = pd.DataFrame({name: rng.integers(size, size=180) for name, size in sizes.items()})
    return made, np.arange(180) % 2, np.arange(180) // 2 % 3


def _has_adult() -> bool:
    try:
        find_file(ADULT_FILE, download=False)
    except InputError:
        return False
    return True
