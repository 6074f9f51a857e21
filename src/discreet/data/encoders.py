"""Readings become integer codes (stage 2).

An encoder says, for one sensor, which code a reading gets. Encoders are small
immutable models because they live in the mapping file: what a device does with a
reading is part of what is audited. There are three kinds:

``bins``
    A number gets the count of edges strictly below it, so a reading that equals
    an edge belongs to the bin that the edge closes: ``edges[i-1] < x <= edges[i]``.
``categories``
    A value gets the place of the category that is written the same way; any other
    value gets the code for the unknown.
``codes``
    The reading already is a code, 0 to ``size - 1``.

A missing reading has the last code of its own when ``missing`` is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from discreet.data.columns import (
    Column,
    NotNumberError,
    Plain,
    Values,
    as_floats,
    as_series,
    is_missing,
    is_missing_word,
    map_distinct,
    plain,
    written,
)
from discreet.data.groups import with_clock
from discreet.data.strict_model import Items, Model, Scalar, check_distinct
from discreet.errors import CodeRangeError, InputError, shown, suggest

MAX_CODES = 100_000
"""Most codes that one sensor may have."""
_FEW_INTEGERS = 1024
_LONGEST_BOOK = 2**16  # codes that are listed for readings of several columns together


class BinsEncoder(Model):
    """Numbers cut at edges.

    ``edges``: strictly increasing and finite. A reading gets the number of edges strictly below it:
    the first bin is ``x <= edges[0]``, the last ``x > edges[-1]``, and infinite readings fall in
    the end bins. ``missing``: whether a missing reading has a code, the last.
    """

    ordered: ClassVar[bool] = True  # whether neighbouring codes mean neighbouring readings
    kind: Literal["bins"] = "bins"
    edges: Items[float] = Field(max_length=MAX_CODES - 2)
    missing: bool = False

    @field_validator("edges")
    @classmethod
    def _check_edges(cls, edges: tuple[float, ...]) -> tuple[float, ...]:
        for i, (low, high) in enumerate(pairwise(edges), start=1):
            if not low < high:
                problem = f"must be more than the edge before it, {low!r}; it is {high!r}"
                raise PydanticCustomError("discreet_edges", problem, {"place": f"[{i}]"})
        return edges

    @property
    def n_codes(self) -> int:
        """Total number of codes, the one for missing included."""
        return len(self.edges) + 1 + self.missing

    def encode(self, values: Values, sensor: str) -> NDArray[np.int64]:
        """Return the code of each reading.

        Raises CodeRangeError: if a reading is no number, or missing while ``missing`` is false.
        """
        series = as_series(values)
        try:
            readings = as_floats(series)
        except NotNumberError as error:
            raise CodeRangeError(
                f"sensor {sensor!r} read {shown(error.value)} where its encoder expects a number. "
                "Fix the reading, leave it empty, or learn a mapping with categories."
            ) from None
        gone = np.isnan(readings)
        _refuse_missing(gone, self.missing, sensor)
        codes = np.searchsorted(np.asarray(self.edges, dtype=float), readings, side="left")
        return np.where(gone, len(self.edges) + 1, codes).astype(np.int64)

    def labels(self) -> list[str]:
        """Return a name for each code, for reports."""
        texts = [f"{edge:.6g}" for edge in self.edges]
        if len(set(texts)) < len(texts):  # edges that differ from the seventh digit on
            texts = [repr(edge) for edge in self.edges]
        names = [f"{low} to {high}" for low, high in pairwise(texts)]
        names = [f"<= {texts[0]}", *names, f"> {texts[-1]}"] if texts else ["any number"]
        return names + ["missing"] * self.missing


class CategoriesEncoder(Model):
    """Values out of a list, with a code for the unknown.

    ``categories``: code ``i`` is for a reading written like ``categories[i]`` (see ``written``);
    ``len(categories)`` is for every other reading. ``missing``: whether a missing reading has a
    code, the last.
    """

    ordered: ClassVar[bool] = False  # whether neighbouring codes mean neighbouring readings
    kind: Literal["categories"] = "categories"
    categories: Items[Scalar] = Field(max_length=MAX_CODES - 2)
    missing: bool = False

    @field_validator("categories")
    @classmethod
    def _check_categories(cls, categories: tuple[Plain, ...]) -> tuple[Plain, ...]:
        check_distinct(categories)
        return categories

    @property
    def n_codes(self) -> int:
        """Total number of codes, those for unknown and missing included."""
        return len(self.categories) + 1 + self.missing

    def encode(self, values: Values, sensor: str) -> NDArray[np.int64]:
        """Return the code of each reading.

        Raises CodeRangeError: if a reading is missing while ``missing`` is false, or is neither
        text, true, false nor a number.
        """
        series = as_series(values)
        gone = is_missing(series)
        _refuse_missing(gone, self.missing, sensor)
        places = {written(category): i for i, category in enumerate(self.categories)}
        unknown = len(self.categories)

        def place(value: object) -> int:
            found = plain(value)
            if found is None:
                raise CodeRangeError(
                    f"sensor {sensor!r} read {shown(value)}, a {type(value).__name__}, where its "
                    "encoder expects text, true, false or a number. Convert the reading first."
                )
            return places.get(written(found), unknown)

        codes = np.full(len(series), unknown + 1, dtype=np.int64)
        codes[~gone] = map_distinct(series[~gone], place)
        return codes

    def labels(self) -> list[str]:
        """Return a name for each code, for reports."""
        names = [written(each) for each in self.categories]
        names.append("any other" if "unknown" in names else "unknown")
        return names + ["no reading" if "missing" in names else "missing"] * self.missing


class CodesEncoder(Model):
    """Readings that already are codes.

    ``size``: the plain codes are 0 to ``size - 1``; the code for missing is not counted.
    ``missing``: whether a missing reading has a code, the last.
    """

    ordered: ClassVar[bool] = False  # whether neighbouring codes mean neighbouring readings
    kind: Literal["codes"] = "codes"
    size: int = Field(ge=1, le=MAX_CODES - 1)
    missing: bool = False

    @property
    def n_codes(self) -> int:
        """Total number of codes, the one for missing included."""
        return self.size + self.missing

    def encode(self, values: Values, sensor: str) -> NDArray[np.int64]:
        """Return the readings as integers, once checked.

        Raises CodeRangeError: if a reading is no integer from 0 to ``size - 1``, or missing while
        ``missing`` is false.
        """
        series = as_series(values)
        try:
            readings = as_floats(series)
        except NotNumberError as error:
            raise self._out_of_range(sensor, error.value) from None
        gone = np.isnan(readings)
        _refuse_missing(gone, self.missing, sensor)
        with np.errstate(invalid="ignore"):
            wrong = ~gone & ~((readings >= 0) & (readings < self.size) & (readings % 1 == 0))
        if wrong.any():
            raise self._out_of_range(sensor, series.iloc[int(np.argmax(wrong))])
        return np.where(gone, self.size, readings).astype(np.int64)

    def labels(self) -> list[str]:
        """Return a name for each code, for reports."""
        return [str(code) for code in range(self.size)] + ["missing"] * self.missing

    def _out_of_range(self, sensor: str, value: object) -> CodeRangeError:
        return CodeRangeError(
            f"sensor {sensor!r} produced code {shown(value)}; the mapping covers "
            f"0..{self.size - 1}. Clip the reading, or train a mapping on data that reaches it."
        )


Encoder = Annotated[
    BinsEncoder | CategoriesEncoder | CodesEncoder,
    Field(discriminator="kind"),
]


def encode_table(table: pd.DataFrame, sensors: Sequence[tuple[str, Encoder]]) -> NDArray[np.int64]:
    """Return one column of codes per sensor.

    ``table``: columns are found by name, in any order; others are left alone. A sensor such as
    ``date:hour`` is the part of a column of times, see ``data.groups``. ``sensors``: the
    columns wanted, in the order wanted. Raises InputError: if a column is not there, or there
    twice. Raises CodeRangeError: if a reading does not fit its encoder.
    """
    codes = np.empty((len(table), len(sensors)), dtype=np.int64, order="F")
    for k, column in enumerate(look_up_table(table, sensors)):
        codes[:, k] = column.codes()
    return codes


@dataclass(frozen=True)
class LookedUp:
    """A column of readings, each with its place in a short list of codes.

    ``size``: how many codes there are, in the list or not.
    """

    places: NDArray[Any]
    book: NDArray[np.int64]
    size: int

    def codes(self) -> NDArray[np.int64]:
        """Return the code of each reading."""
        return self.book.take(self.places)

    def _shortened(self) -> LookedUp:
        """Return it with the codes as places, where readings are more than codes."""
        if len(self.book) <= self.size:
            return self
        return LookedUp(self.codes(), np.arange(self.size), self.size)

    def joined(self, other: LookedUp) -> LookedUp:
        """Return two columns as one, whose code is that of both, this one's digit first."""
        if len(self.book) * len(other.book) > max(_LONGEST_BOOK, self.size * other.size):
            return self._shortened().joined(other._shortened())
        wide = np.min_scalar_type(len(self.book) * len(other.book))
        places = self.places.astype(wide) * wide.type(len(other.book))
        places += other.places.astype(wide, copy=False)
        book = np.add.outer(self.book * other.size, other.book).ravel()
        return LookedUp(places, book, self.size * other.size)


def look_up_table(
    table: pd.DataFrame, sensors: Sequence[tuple[str, Encoder]]
) -> Iterator[LookedUp]:
    """Yield the codes of one sensor after the other, as ``encode_table`` returns them."""
    table = with_clock(table, (name for name, _ in sensors))
    names = [str(column) for column in table.columns]
    columns = dict(zip(names, _columns(table), strict=True))
    for name, encoder in sensors:
        if name not in columns:
            raise InputError(f"no column {name!r} in the table. {suggest(name, names)}")
        if len(columns) < len(names) and names.count(name) > 1:
            raise InputError(
                f"{names.count(name)} columns are called {name!r}. Rename all but one."
            )
        yield look_up_column(columns[name], encoder, name)


def _columns(table: pd.DataFrame) -> Iterable[Column | NDArray[Any]]:
    """Return the columns; as plain arrays where all are whole numbers, of which there are many."""
    kinds = set(table.dtypes)
    if len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind in "iu":
        return table.to_numpy().T
    return (column for _, column in table.items())


def encode_column(column: Column, encoder: Encoder, name: str) -> NDArray[np.int64]:
    """Return the code of each reading."""
    return look_up_column(column, encoder, name).codes()


def look_up_column(column: Column | NDArray[Any], encoder: Encoder, name: str) -> LookedUp:
    """Look up the code of each reading; where they are few whole numbers, each is coded once."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iu" and len(column) > _FEW_INTEGERS:
        values = np.ascontiguousarray(column)  # of a table in rows, it is scattered
        least, most = _ends(values)
        # A code out of range is refused below, by its name.
        known = not isinstance(encoder, CodesEncoder) or 0 <= least <= most < encoder.size
        if known and most - least < _FEW_INTEGERS:
            book = _codes_of(encoder, least, most)
            places = values if least == 0 else values.astype(np.int64) - least
            return LookedUp(places, book, encoder.n_codes)
    series = column if isinstance(column, pd.Series) else pd.Series(column)
    codes = encoder.encode(_as_read(series, encoder), name)
    return LookedUp(codes, np.arange(encoder.n_codes), encoder.n_codes)


def _ends(values: NDArray[Any]) -> tuple[int, int]:
    """Return the least and the largest of whole numbers; 0 for the least if that is as good."""
    least, most = int(values.min()), int(values.max())
    return (0 if 0 <= least <= most < _FEW_INTEGERS else least), most


@lru_cache(maxsize=1024)
def _codes_of(encoder: Encoder, least: int, most: int) -> NDArray[np.int64]:
    """Return the codes of whole numbers that follow one another."""
    return encoder.encode(pd.Series(np.arange(least, most + 1)), "")


def _as_read(column: Column, encoder: Encoder) -> Column:
    """Return a column in which words such as ``unavailable`` are missing, as sensors read them.

    Unless they are categories themselves, or there is no code for a missing reading.
    """
    if not isinstance(encoder, CategoriesEncoder) or not encoder.missing:
        return column
    known = {written(category) for category in encoder.categories}
    words = [each for each in column.dropna().unique() if is_missing_word(each)]
    return column.mask(column.isin([each for each in words if each not in known]))


def _refuse_missing(gone: NDArray[np.bool_], allowed: bool, sensor: str) -> None:
    if not allowed and gone.any():
        raise CodeRangeError(
            f"sensor {sensor!r} has no reading in row {int(np.argmax(gone)) + 1} and the mapping "
            "has no code for missing. Fill it in, or learn a mapping from rows that miss some."
        )
