"""Values and classes that are odd: what is refused, and what a user should know of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from discreet.arrays import Floats
from discreet.data.columns import (
    Column,
    as_floats,
    is_missing,
    is_numeric,
    understood,
    unusable_kind,
    word_kind,
)
from discreet.data.labels import Labels
from discreet.data.roles import Role, has_decimal_comma, mostly_numbers, unit_of, with_unit
from discreet.errors import InputError, shown

_FEWEST_ROWS = 20  # of a class that something can be learned of
_FEWEST_NUMBERS = 10  # different ones, that make a column of numbers out of one with odd texts
_OFTEN_MISSING = 0.5
_FAR = 3.0  # times the range of all other readings
_NO_WORDS = ("?", "??", "-", "--", "n.a.", "#n/a", "missing", "undefined")
_STAND_INS = (-999.0, -9999.0, -127.0, 999.0, 9999.0, 99999.0, 32767.0, 65535.0, -32768.0)


def check_mixed(name: str, column: Column) -> None:
    """Refuse numbers with texts among them, which would all be taken for texts.

    Raises InputError: with the texts, their rows and what to do.
    """
    if is_numeric(understood(column)) or pd.api.types.is_bool_dtype(column.dtype):
        return
    present = column[~is_missing(column)]
    if not len(present):
        return
    _check_units(name, present)
    if not mostly_numbers(present):
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


def _check_units(name: str, present: Column) -> None:
    unit = unit_of(present)
    if unit is not None and present.nunique() >= _FEWEST_NUMBERS:
        seen = present[present.map(with_unit).notna()]  # others may be plain numbers
        raise InputError(
            f"sensor {name!r} writes the unit {unit!r} behind its numbers, like "
            f"{shown(seen.iloc[0])} in row {int(seen.index[0]) + 1}, so that they would be "
            f"taken for {present.nunique()} words. Write numbers alone."
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
    elif unusable_kind(column) is None:
        yield from _odd_words(f"sensor {name!r}", Counter(column[~gone]))


def _odd_words(who: str, counts: Mapping[object, int]) -> Iterator[str]:
    """Yield words that stand for nothing, and those that are one word written in several ways."""
    alike: dict[str, list[str]] = {}
    for word in (each for each in counts if isinstance(each, str)):
        alike.setdefault(" ".join(word.split()).casefold(), []).append(word)
        if word.strip().lower() in _NO_WORDS:
            yield (
                f"{who} reads {shown(word)} in {counts[word]} of {sum(counts.values())} rows: if "
                "that stands for a missing value, empty those cells."
            )
    for words in alike.values():
        if len(words) > 1:
            yield (
                f"{who} has {' and '.join(shown(each) for each in words[:3])}, which differ by "
                "case or blanks only. Write them alike if they are the same."
            )


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
    """Yield the classes that are too rare to learn or certify much of, and those that look odd."""
    counts = dict(zip(fact.classes, fact.counts, strict=True))
    yield from _odd_words(f"{role} {fact.name!r}", counts)
    for label, count in zip(fact.classes, fact.counts, strict=True):
        if count < _FEWEST_ROWS:
            yield (
                f"{role} {fact.name!r} has {count} of {sum(fact.counts)} rows of class "
                f"{shown(label)}: hardly anything can be learned or certified of it. Add rows, or "
                "merge it with another class."
            )
