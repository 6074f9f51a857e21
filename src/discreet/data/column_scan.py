"""What the readings of one sensor look like, batch by batch, and the encoder that suits them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats
from discreet.data.categories import Categories
from discreet.data.columns import (
    Column,
    NotNumberError,
    Values,
    as_floats,
    as_series,
    check_kind,
    is_missing,
    is_numeric,
    plain,
    understood,
    written,
)
from discreet.data.edges import Numbers, supervised_edges
from discreet.data.encoders import MAX_CODES, BinsEncoder, CodesEncoder, Encoder
from discreet.data.labels import Labels
from discreet.data.merging import FINER, MOST_MERGED, CellCounts, choose_bins
from discreet.errors import InputError, Parameter, shown, suggest

STRATEGIES = ("merged", "quantile", "uniform", "supervised", "categories", "codes")
DEFAULT_STRATEGY = "merged"
DEFAULT_BINS = 10
_BINS = ("merged", "quantile", "uniform", "supervised")


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
        self.rows = self._gaps = 0
        self._by_name = by_name
        self._holds_numbers: bool | None = None
        self._numbers = Numbers(sensor)
        self._categories = Categories(sensor, may_be_numbers=strategy in _BINS)
        self._supervised: Floats | None = None
        self._fine: BinsEncoder | None = None
        self._cells: CellCounts | None = None

    def add(self, column: Column, public: "Values | None" = None) -> None:
        """Look at some readings; ``public`` is their public label."""
        check_kind(column, self.sensor)
        gone = is_missing(column)
        if self._holds_numbers is None:  # gaps alone, as objects, do not tell
            self._tell_numbers(column, gone)
        if self.strategy == "codes":
            self._numbers.add(_codes(column, self.sensor))
        elif self._holds_numbers and self.strategy in _BINS:
            self._numbers.add(as_floats(column))
        else:
            self._add_categories(column[~gone])
        if self._cut and self.strategy == "supervised":
            self._supervise(as_floats(column), public)
        self.rows += len(column)
        self._gaps += int(gone.sum())

    def _add_categories(self, present: Column) -> None:
        self._categories.add(present)
        if self._categories.may_be_numbers:
            self._numbers.add(as_floats(present))
        else:
            self._numbers = Numbers(self.sensor)

    @property
    def counts_cells(self) -> bool:
        """Whether all readings have to be shown once more, to ``count``."""
        merged = self.strategy == "merged" and self._cut and self.n_bins <= MOST_MERGED
        return merged and len(self._fine_edges()) > len(self._plain_edges())

    def count(self, column: Column, facts: Sequence[Labels]) -> None:
        """Look again at some readings, and at the facts of the same rows, the public one first."""
        if self._fine is None or self._cells is None:
            self._fine = BinsEncoder(edges=tuple(self._fine_edges()), missing=True)
            self._cells = CellCounts(self._fine.n_codes, facts, self.rows)
        self._cells.add(self._fine.encode(column, self.sensor), facts)

    def encoder(self) -> Encoder:
        """Return the encoder for what was seen."""
        if self.strategy == "codes":
            return CodesEncoder(size=int(self._numbers.most) + 1, missing=True)
        if not self._cut:
            return self._categories.encoder()
        return BinsEncoder(edges=tuple(self._edges()), missing=True)

    def _edges(self) -> Floats:
        if self._supervised is not None:
            return self._supervised
        plain = self._plain_edges()
        if self._cells is None:
            return plain
        fine = self._fine_edges()
        present = [counts[:, :-1] for counts in self._cells.counts]  # the last code is for missing
        last = np.append(np.searchsorted(fine, plain), len(fine))
        return fine[choose_bins(present, last, self.n_bins)[:-1]]

    def _plain_edges(self) -> Floats:
        return self._numbers.edges(self.strategy, self.n_bins)

    def _fine_edges(self) -> Floats:
        return self._numbers.edges(self.strategy, FINER * self.n_bins)

    def check_worth(self) -> None:
        """Refuse readings that nothing can be learned from, or that seem to identify the row."""
        leave_out = f"Leave it out with --exclude {self.sensor!r}"
        missing, different = self._gaps + self._categories.missing, len(self._categories.values)
        present = self.rows - missing
        if not present:
            raise InputError(
                f"sensor {self.sensor!r} is missing in all {self.rows} rows to learn from. "
                f"{leave_out}."
            )
        # A sensor with one value and gaps still says something by its gaps.
        if (different or self._numbers.n_distinct) == 1 and not missing:
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
        found = self._categories.values
        return shown(found[0]) if found else written(self._numbers.most)

    @property
    def _cut(self) -> bool:
        """Whether the readings are numbers that are cut into bins."""
        numbers = bool(self._holds_numbers) or self._categories.are_numbers
        return numbers and self.strategy in _BINS

    def _tell_numbers(self, column: Column, gone: NDArray[np.bool_]) -> None:
        if column.dtype == object and gone.all():
            return
        self._holds_numbers = is_numeric(column)
        if self._by_name and self.strategy in _BINS and not is_numeric(understood(column)):
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
