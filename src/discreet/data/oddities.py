"""Values and classes that are odd: what is refused, and what a user should know of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from discreet.arrays import Floats
from discreet.data.columns import Column, as_floats, is_missing, is_numeric, understood, word_kind
from discreet.data.labels import Labels
from discreet.data.roles import Role, has_decimal_comma, mostly_numbers
from discreet.errors import InputError, shown

_FEWEST_ROWS = 20  # of a class that something can be learned of
_FEWEST_NUMBERS = 10  # different ones, that make a column of numbers out of one with odd texts
_OFTEN_MISSING = 0.5
_FAR = 3.0  # times the range of all other readings
_STAND_INS = (-999.0, -9999.0, -127.0, 999.0, 9999.0, 99999.0, 32767.0, 65535.0, -32768.0)


def check_mixed(name: str, column: Column) -> None:
    """Refuse numbers with texts among them, which would all be taken for texts.

    Raises InputError: with the texts, their rows and what to do.
    """
    if is_numeric(understood(column)) or pd.api.types.is_bool_dtype(column.dtype):
        return
    present = column[~is_missing(column)]
    if not len(present) or not mostly_numbers(present):
        return
    kinds = np.array([word_kind(value) for value in present])
    odd, different = present[kinds == "other"], present[kinds == "number"].map(str).nunique()
    if not len(odd) or (different < _FEWEST_NUMBERS and not _commas(odd)):
        return
    where = f"{shown(odd.iloc[0])} in row {int(odd.index[0]) + 1}"
    if _commas(odd):
        raise InputError(
            f"sensor {name!r} writes numbers with a decimal comma, like {where}"
            f"{' and others with a point' if (kinds == 'number').any() else ''}. Write points, or "
            "separate columns by semicolons and write commas throughout."
        )
    raise InputError(
        f"sensor {name!r} holds numbers, but {where}; {len(odd)} of {len(present)} rows have such "
        "texts. Fix them, write unavailable where there was no reading, or leave it out with "
        f"--exclude {name!r}."
    )


def _commas(values: Column) -> bool:
    return bool(values.map(has_decimal_comma).mean() > 0.5)


def odd_readings(name: str, column: Column) -> Iterator[str]:
    """Yield what is odd about the readings of a sensor, a sentence each."""
    column = understood(column)
    gone = is_missing(column)
    if gone.mean() > _OFTEN_MISSING and not gone.all():
        yield (
            f"sensor {name!r} is missing in {int(gone.sum())} of {len(column)} rows: what it tells "
            "is mostly whether it reports."
        )
    if is_numeric(column):
        yield from _odd_numbers(name, as_floats(column))


def _odd_numbers(name: str, numbers: Floats) -> Iterator[str]:
    endless = np.isinf(numbers)
    if endless.any():
        yield f"sensor {name!r} is infinite in {int(endless.sum())} rows. Fix them, or empty them."
    usual = numbers[np.isfinite(numbers)]
    for value in _STAND_INS:
        rest = usual[usual != value]
        if len(rest) in (0, len(usual)):
            continue
        low, high = float(rest.min()), float(rest.max())
        if max(low - value, value - high) > _FAR * max(high - low, 1.0):
            yield (
                f"sensor {name!r} reads {value:g} in {len(usual) - len(rest)} rows and otherwise "
                f"{low:g} to {high:g}: if that stands for a missing reading, empty those cells."
            )


def odd_columns(roles: Sequence[Role]) -> Iterator[str]:
    """Yield what is odd about columns beside others, a sentence each."""
    for each in roles:
        if each.role == "copy":
            yield (
                f"sensor {each.column!r} {each.why}: a copy, or the same in another unit. Leave "
                f"one out with --exclude {each.column!r}."
            )
        if each.role == "answer":
            yield (
                f"sensor {each.column!r} {each.why}. If it is known only afterwards, or is that "
                f"fact in other words, leave it out with --exclude {each.column!r}."
            )


def odd_classes(fact: Labels, role: str) -> Iterator[str]:
    """Yield the classes that are too rare to learn or certify much of."""
    for label, count in zip(fact.classes, fact.counts, strict=True):
        if count < _FEWEST_ROWS:
            yield (
                f"{role} {fact.name!r} has {count} of {sum(fact.counts)} rows of class "
                f"{shown(label)}: hardly anything can be learned or certified of it. Add rows, or "
                "merge it with another class."
            )
