"""Large tables: the one pass that counts, and a whole fit, beside one fit of a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet import Mapper
from discreet.data.encoders import CodesEncoder
from discreet.design.counts.counting import Part, Plan, pass_over
from research.bench.measure import Promise, Setup
from research.bench.tables import CODES, Size, draw_large, one_hot

Ints = NDArray[np.int64]

_PASS, _CSR, _PANDAS = "ours", "SciPy CSR, one product", "pandas value_counts"
_FIT, _PEER = "ours, a whole fit", "scikit-learn LogisticRegression"


def prepare_pass(size: Size) -> Setup:
    """Draw a table for the pass: every row coded, counted and added to the digest.

    The peers count the same: codes by combination of facts, as a product of the one-hot table with
    the facts' (SciPy CSR; the tables are made beforehand), and by pandas, column after column.
    """
    codes, public, private = draw_large(size.rows, size.sensors)
    frame = pd.DataFrame(codes, columns=[f"s{t}" for t in range(size.sensors)])
    cells = np.eye(4)[2 * public + private]
    transposed = one_hot(codes, CODES, np.float64).T
    kinds = pd.Series(2 * public + private)

    def by_pandas(_: int) -> object:
        return [pd.DataFrame({"a": frame[name], "b": kinds}).value_counts() for name in frame]

    return Setup(
        name="one-pass",
        title="One pass over the rows: coded, counted, digested",
        size=size.text(),
        contestants={
            _PASS: lambda _: count(frame, public, private),
            _CSR: lambda _: transposed @ cells,
            _PANDAS: by_pandas,
        },
        rounds=size.rounds_of(5),
        ours=_PASS,
        yardstick=_CSR,
        unit="ns per code",
        factor=1e9 / (size.rows * size.sensors),
        warm=True,
    )


def count(frame: pd.DataFrame, public: Ints, private: Ints) -> object:
    """Go over a table of codes once."""
    sensors = tuple((str(name), CodesEncoder(size=CODES)) for name in frame)
    kept = np.ones(len(frame), dtype=bool)
    return pass_over(Plan(sensors, (2, 2)), Part(frame, 0, kept, 0, (public, private)))


def prepare_fit(size: Size) -> Setup:
    """Draw a table for a whole default fit, beside one fit of a classifier.

    scikit-learn's LogisticRegression gets the one-hot table and its own defaults; making that
    table is not counted. Ours begins with the array of codes.
    """
    codes, public, private = draw_large(size.rows, size.sensors)
    matrix = one_hot(codes, CODES, np.float64)
    fitted: list[Mapper] = []

    def ours(_: int) -> None:
        fitted.append(Mapper(random_state=0).fit(codes, public, private=private))

    def notes() -> list[str]:
        expected = fitted[-1].expected_
        if expected is None:
            return []
        return [f"error {expected.public_error:.4f}, advantage {expected.advantage:.4f}"]

    return Setup(
        name="fit",
        title="A whole default fit, beside one fit of a classifier, one thread",
        size=size.text(),
        contestants={_FIT: ours, _PEER: lambda _: fit_classifier(matrix, public)},
        rounds=size.rounds_of(3),
        ours=_FIT,
        yardstick=_PEER,
        promised=() if size.quick else [_HALF],
        notes=notes,
    )


_HALF = Promise("times as long as scikit-learn", lambda t: t[_FIT].over(t[_PEER]), 0.5, True)


def fit_classifier(matrix: Any, labels: Ints) -> object:
    """Fit scikit-learn's classifier."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(matrix, labels)
