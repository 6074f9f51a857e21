"""Encoders from one pass over rows that do not fit in memory (stage 2).

A column is remembered by its distinct values and their counts, while they are few: the encoder
is then the one that ``fit_codes`` chooses with all rows at hand. Numbers with more distinct
values go into a t-digest, whose quantiles are near the true ones. It is the one sketch of
Apache DataSketches that throws no dice: the same files give the same edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from discreet.codes import MAX_CODES, BinsEncoder, CategoriesEncoder, CodesEncoder, Encoder
from discreet.errors import InputError
from discreet.fit_codes import MAX_CATEGORIES, is_infinite, plain_edges, sort_categories
from discreet.readings import check_kind
from discreet.values import (
    Column,
    Plain,
    as_floats,
    explain,
    is_missing,
    is_numeric,
    plain,
    shown,
    written,
)

Floats = NDArray[np.float64]

EXACT_VALUES = 4096
"""Most distinct numbers of a column that are counted one by one."""
SKETCH_SIZE = 2000
"""The t-digest's k; the larger, the nearer to the true quantiles."""
_AT_ONCE = 1 << 16  # values handed to the sketch


class ColumnScan:
    """What one sensor's readings look like, gathered batch by batch.

    Parameters
    ----------
    sensor : str
    strategy : str
        As in ``fit_codes.fit_encoders``, but for "supervised", which needs all rows.
    n_bins : int
    numeric : bool
        Whether the column holds numbers.
    """

    def __init__(self, sensor: str, strategy: str, n_bins: int, *, numeric: bool) -> None:
        if strategy == "supervised":
            raise InputError(
                f"binning 'supervised' for {sensor!r} needs all rows in memory. "
                "Choose 'quantile' or 'uniform'."
            )
        self.sensor, self.strategy, self.n_bins = sensor, strategy, n_bins
        self.as_numbers = numeric and strategy != "categories"
        self.rows = self.missing = 0
        self._numbers = _Numbers(sensor)
        self._categories: dict[str, Plain] = {}

    def add(self, column: Column) -> None:
        """Look at some readings."""
        check_kind(column, self.sensor)
        self.rows += len(column)
        gone = is_missing(column)
        self.missing += int(gone.sum())
        if self.as_numbers:
            self._numbers.add(as_floats(column))
        elif self.strategy == "codes":
            raise InputError(
                f"sensor {self.sensor!r} does not hold numbers. Binning 'codes' needs whole "
                "numbers from 0; choose 'categories'."
            )
        else:
            self._add_categories(column[~gone])

    def encoder(self) -> Encoder:
        """Return the encoder for what was seen.

        Raises
        ------
        InputError
            If the readings say nothing, or do not suit the strategy.
        """
        self._check_says_something()
        if not self.as_numbers:
            return self._category_encoder()
        if self.strategy == "codes":
            return self._numbers.codes_encoder()
        return BinsEncoder(edges=tuple(self._numbers.edges(self.strategy, self.n_bins)),
                           missing=True)  # fmt: skip

    def _check_says_something(self) -> None:
        leave_out = f"Leave it out with --exclude {self.sensor!r}."
        if self.missing == self.rows:
            raise InputError(
                f"sensor {self.sensor!r} is missing in all {self.rows} rows to learn from. "
                f"{leave_out}"
            )
        single = self._numbers.n_distinct == 1 if self.as_numbers else len(self._categories) == 1
        if single and not self.missing:
            raise InputError(
                f"sensor {self.sensor!r} reads the same in all {self.rows} rows to learn from, so "
                f"it says nothing. {leave_out}"
            )

    def _add_categories(self, present: Column) -> None:
        distinct: Any = present if present.dtype == object else present.unique()
        for value in distinct:
            found = plain(value)
            if found is not None and not is_infinite(found):
                self._categories.setdefault(written(found), found)
        if len(self._categories) > MAX_CATEGORIES:
            raise InputError(
                f"sensor {self.sensor!r} has more than {MAX_CATEGORIES} different values, like "
                f"{shown(found)}; so many cannot be categories. It seems to be a time or an "
                f"identifier: leave it out with --exclude {self.sensor!r}, or group its values."
            )

    def _category_encoder(self) -> CategoriesEncoder:
        try:
            categories = sort_categories(self._categories.values())
            return CategoriesEncoder(categories=categories, missing=True)
        except ValidationError as error:
            raise InputError(
                f"sensor {self.sensor!r} cannot be encoded: {explain(error)}."
            ) from None


class _Numbers:
    """Numbers, counted one by one while their values are few, sketched beyond."""

    def __init__(self, sensor: str) -> None:
        self.sensor = sensor
        self._values, self._counts = np.empty(0), np.empty(0, dtype=np.int64)
        self._sketch: Any = None
        self._least, self._most, self._whole = np.inf, -np.inf, True

    @property
    def n_distinct(self) -> int:
        """Number of different values; of the many, at least ``EXACT_VALUES``."""
        return len(self._values)

    def add(self, readings: Floats) -> None:
        present = readings[~np.isnan(readings)]
        self._whole = self._whole and bool(np.all(np.floor(present) == present))
        finite = present[np.isfinite(present)] + 0.0  # -0.0 becomes 0.0
        if not len(finite):
            return
        self._least = min(self._least, float(finite.min()))
        self._most = max(self._most, float(finite.max()))
        if self._sketch is not None:
            self._sketch.update(finite)
            return
        places, values = pd.factorize(finite)
        values, back = np.unique(np.concatenate([self._values, values]), return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, back[: len(self._values)], self._counts)
        np.add.at(counts, back[len(self._values) :], np.bincount(places))
        if len(values) > EXACT_VALUES:
            self._sketch = self._begin_sketch()
            self._sketch.update(finite)
        else:
            self._values, self._counts = values, counts

    def _begin_sketch(self) -> Any:
        try:
            from datasketches import tdigest_double
        except ImportError:
            raise InputError(
                f"sensor {self.sensor!r} has more than {EXACT_VALUES} different readings, which "
                'takes a sketch of them. Run: pip install "discreet[large]"'
            ) from None
        sketch = tdigest_double(SKETCH_SIZE)
        for value, count in zip(self._values, self._counts.tolist(), strict=True):
            for begin in range(0, count, _AT_ONCE):
                sketch.update(np.full(min(_AT_ONCE, count - begin), value))
        return sketch

    def edges(self, strategy: str, n_bins: int) -> Floats:
        """Return where to cut the numbers into bins."""
        if self._sketch is None:
            return plain_edges(self._values, self._counts, strategy, n_bins)
        if strategy == "uniform":
            ends = np.array([self._least, self._most])
            return plain_edges(ends, np.ones(2, dtype=np.int64), strategy, n_bins, few=False)
        ranks = np.arange(1, n_bins) / n_bins
        cuts = np.unique([self._sketch.get_quantile(rank) for rank in ranks])
        return cuts[(cuts >= self._least) & (cuts < self._most)]

    def codes_encoder(self) -> CodesEncoder:
        """Return the encoder of readings that are codes already."""
        if not self._whole or self._least < 0 or self._most >= MAX_CODES - 1:
            raise InputError(
                f"sensor {self.sensor!r} reads from {self._least:g} to {self._most:g}. Binning "
                f"'codes' needs whole numbers from 0 to {MAX_CODES - 2}; choose 'quantile'."
            )
        return CodesEncoder(size=int(self._most) + 1, missing=True)


def holds_numbers(column: Column, kind: str) -> bool:
    """Whether a column of this kind holds numbers; a rare type is told by its first values."""
    if kind in ("number", "boolean", "text"):
        return kind == "number"
    return is_numeric(column)
