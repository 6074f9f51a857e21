"""What the readings of one sensor look like, batch by batch, and the encoder that suits them."""

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from discreet.arrays import Floats
from discreet.data.checks import check_kind
from discreet.data.columns import (
    Column,
    NotNumberError,
    Plain,
    Values,
    as_floats,
    as_series,
    is_missing,
    is_numeric,
    plain,
    written,
)
from discreet.data.edges import Numbers, supervised_edges
from discreet.data.encoders import MAX_CODES, BinsEncoder, CategoriesEncoder, CodesEncoder, Encoder
from discreet.data.strict_model import explain
from discreet.errors import InputError, Parameter, shown, suggest

MAX_CATEGORIES = 1_000
"""Most categories that fitting accepts; more is nearly always an identifier."""
STRATEGIES = ("quantile", "uniform", "supervised", "categories", "codes")
DEFAULT_STRATEGY = "quantile"
DEFAULT_BINS = 10
_BINS = ("quantile", "uniform", "supervised")


class ColumnScan:
    """What one sensor's readings look like, gathered batch by batch.

    ``strategy``, ``n_bins``: as in ``fit_encoders``. "supervised" needs all rows in one batch.
    ``by_name``: whether the strategy was chosen for this column, so that one that does not suit it
    is refused. Raises InputError: from here on if the column holds dates, lists or complex numbers,
    too many categories, or does not suit the strategy.
    """

    def __init__(
        self,
        sensor: str,
        strategy: str = DEFAULT_STRATEGY,
        n_bins: int = DEFAULT_BINS,
        *,
        by_name: bool = False,
    ) -> None:
        if strategy not in STRATEGIES:
            raise InputError(
                f"no binning {strategy!r} for {sensor!r}. {suggest(strategy, STRATEGIES)}"
            )
        if type(plain(n_bins)) is not int or not 1 <= n_bins < MAX_CODES:
            raise InputError(
                f"n_bins must be a whole number from 1 to {MAX_CODES - 1}; for {sensor!r} it is "
                f"{shown(n_bins)}."
            )
        self.sensor, self.strategy, self.n_bins = sensor, strategy, n_bins
        self.rows = self.missing = 0
        self._by_name = by_name
        self._holds_numbers: bool | None = None
        self._numbers = Numbers(sensor)
        self._categories: dict[str, Plain] = {}
        self._supervised: Floats | None = None

    def add(self, column: Column, public: "Values | None" = None) -> None:
        """Look at some readings; ``public`` is their public label."""
        check_kind(column, self.sensor)
        gone = is_missing(column)
        if self._holds_numbers is None:  # gaps alone, as objects, do not tell
            self._tell_numbers(column, gone)
        if self.strategy == "codes":
            self._numbers.add(_codes(column, self.sensor))
        elif self._cut:
            self._numbers.add(as_floats(column))
        else:
            self._add_categories(column[~gone])
        if self._cut and self.strategy == "supervised":
            self._supervise(as_floats(column), public)
        self.rows += len(column)
        self.missing += int(gone.sum())

    def encoder(self) -> Encoder:
        """Return the encoder for what was seen."""
        if self.strategy == "codes":
            return CodesEncoder(size=int(self._numbers.most) + 1, missing=True)
        if not self._cut:
            return self._category_encoder()
        edges = self._supervised
        if edges is None:
            edges = self._numbers.edges(self.strategy, self.n_bins)
        return BinsEncoder(edges=tuple(edges), missing=True)

    def check_worth(self) -> None:
        """Refuse readings that nothing can be learned from, or that seem to identify the row."""
        leave_out = f"Leave it out with --exclude {self.sensor!r}"
        present, different = self.rows - self.missing, len(self._categories)
        if not present:
            raise InputError(
                f"sensor {self.sensor!r} is missing in all {self.rows} rows to learn from. "
                f"{leave_out}."
            )
        # A sensor with one value and gaps still says something by its gaps.
        if self._numbers.n_distinct + different == 1 and not self.missing:
            raise InputError(
                f"sensor {self.sensor!r} reads {self._one_value()} in all {self.rows} rows "
                f"to learn from, so it says nothing. {leave_out}, or hold out less."
            )
        if not self._holds_numbers and different > max(10, present / 2):
            raise InputError(
                f"sensor {self.sensor!r} has {different} different texts in {present} rows, like "
                f"{self._one_value()}; it seems to be a time or an "
                f"identifier. {leave_out}, or group its values first."
            )

    def _one_value(self) -> str:
        found = next(iter(self._categories.values()), None)
        return written(self._numbers.most) if found is None else shown(found)

    @property
    def _cut(self) -> bool:
        """Whether the readings are numbers that are cut into bins."""
        return bool(self._holds_numbers) and self.strategy in _BINS

    def _tell_numbers(self, column: Column, gone: NDArray[np.bool_]) -> None:
        if column.dtype == object and gone.all():
            return
        self._holds_numbers = is_numeric(column)
        if self._by_name and self.strategy in _BINS and not self._holds_numbers:
            raise InputError(
                Parameter("binning"),
                f" {self.strategy!r} was asked for {self.sensor!r}, which does not hold "
                "numbers. Ask for 'categories' there, or convert the column to numbers.",
            )

    def _supervise(self, readings: Floats, public: "Values | None") -> None:
        if self.rows:
            raise needs_all_rows(self.sensor)
        labels = _public_codes(public, len(readings), self.sensor)
        self._supervised = supervised_edges(readings, labels, self.n_bins)

    def _add_categories(self, present: Column) -> None:
        distinct: Any = present if present.dtype == object else present.unique()
        for value in distinct:
            found = plain(value)
            # JSON has no infinity; such a reading shares the code of the unknown.
            if found is not None and not is_infinite(found):
                self._categories[written(found)] = found
        if len(self._categories) > MAX_CATEGORIES:
            raise InputError(
                f"sensor {self.sensor!r} has {len(self._categories)} different values, like "
                f"{shown(found)}; at most {MAX_CATEGORIES} can be categories. Group them, convert "
                f"the column to numbers, or leave it out with --exclude {self.sensor!r}."
            )

    def _category_encoder(self) -> CategoriesEncoder:
        try:
            categories = tuple(sorted(self._categories.values(), key=_rank))
            return CategoriesEncoder(categories=categories, missing=True)
        except ValidationError as error:
            raise InputError(
                f"sensor {self.sensor!r} cannot be encoded: {explain(error)}."
            ) from None


def needs_all_rows(sensor: str) -> InputError:
    """Return what to say of bins that cannot be learned batch by batch."""
    return InputError(
        Parameter("binning"),
        f" 'supervised' for {sensor!r} needs all rows in memory. Choose 'quantile' or 'uniform'.",
    )


def _public_codes(public: "Values | None", rows: int, sensor: str) -> NDArray[np.int64]:
    if public is None:
        raise InputError(
            f"binning 'supervised' for {sensor!r} needs the public label. "
            "Pass `public`, or choose 'quantile'."
        )
    codes, _ = pd.factorize(as_series(public), use_na_sentinel=True)
    if len(codes) != rows:
        raise InputError(
            f"the public label has {len(codes)} rows and {sensor!r} has {rows}. "
            "Pass labels and readings of the same rows."
        )
    if (codes < 0).any():
        raise InputError(
            f"the public label is missing in {int((codes < 0).sum())} rows. Drop those rows first."
        )
    return codes.astype(np.int64)


def _codes(series: Column, sensor: str) -> Floats:
    """Return readings that are codes already, or refuse them."""
    advice = "Binning 'codes' needs whole numbers from 0; choose 'categories' or 'quantile'."
    try:
        readings = as_floats(series)
    except NotNumberError as error:
        raise InputError(f"sensor {sensor!r} holds {shown(error.value)}. {advice}") from None
    present = readings[~np.isnan(readings)]
    wrong = ~((present >= 0) & (present < MAX_CODES - 1) & (np.floor(present) == present))
    if wrong.any():
        value = present[int(np.argmax(wrong))]
        limit = f" The largest code allowed is {MAX_CODES - 2}." if value >= MAX_CODES - 1 else ""
        raise InputError(f"sensor {sensor!r} holds {value:g}. {advice}{limit}")
    return readings


def _rank(value: Plain) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 2, 0.0, value
    return (0 if isinstance(value, bool) else 1), value, written(value)


def is_infinite(value: Plain) -> bool:
    """Whether a value is a number that JSON cannot hold."""
    return isinstance(value, float) and math.isinf(value)
