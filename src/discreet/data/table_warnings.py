"""What a user should know of a table: odd values and classes, rows that depend on one another."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.data.columns import (
    Column,
    Labels,
    as_floats,
    count_together,
    is_missing,
    is_missing_word,
    is_nested,
    is_numeric,
    understood,
    unusable_kind,
    word_kind,
)
from discreet.data.dependence import (
    MIN_GROUPS,
    MIN_ROWS,
    Dependence,
    check_copies,
    check_dependence,
    correlation_length,
    occur_too_often,
    worse_of,
)
from discreet.data.groups import as_noun, group_values
from discreet.data.roles import Role, has_decimal_comma, mostly_numbers, unit_of, with_unit
from discreet.data.split import Split, held_out_groups
from discreet.data.tables import Table
from discreet.data.time_order import clock_parts, find_clocks, has_times, in_time, parts_in_order
from discreet.errors import InputError, UnfitSensorError, shown

# --- Rows that depend, and groups to propose ------------------------------------------------

_FEWEST_SHARED = 4  # values of a column that rows may belong together by
_CHANCE = 0.001  # that a private fact is the same in all rows of each value, by luck
_DIFFERENT = 0.3  # least share of different rows: of few readings, equal rows are no copies
_OVERRIDE = "audit with --assume-independent"
_SIZES = [digit * 10**power for power in range(1, 9) for digit in (1, 2, 5)]


def propose_group(
    found: Dependence,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
) -> str | None:
    """Return what to group dependent rows by, as ``--group`` takes it, or None.

    Proposed is a column whose values repeat as those of a home do, or days of a column of times
    (weeks if days still resemble each other, hours if there are few days), or else stretches of
    rows that are longer than their resemblance lasts. There are at least ``MIN_GROUPS`` groups,
    and no order is found among them.

    ``found``: of the rows. ``table``: in the order that the rows came in, each with its place in
    the whole table for an index.
    """
    if found.kind == "copies":
        return None
    facts = (public, *private)
    times = [str(name) for name in table.columns if name not in facts and has_times(table[name])]
    specs = [f"{name}:{unit}" for name in times for unit in ("day", "week", "hour")]
    by_time = {spec: each for spec in specs if (each := _groups(table, spec)) is not None}
    shared = [each.column for each in find_shared(table, sensors, public, private)
              if _same_apart(each.codes, found.lag or 1)]  # fmt: skip
    by_column = {name: each for name in shared if (each := _groups(table, name)) is not None}
    usable = by_column | (by_time or _stretches(found, table, sensors, private))
    for spec, groups in usable.items():
        read = [name for name in sensors if name != spec]
        if read and not _order_of(groups, table, read, public, private).found:
            return spec
    return min(by_time, key=lambda spec: len(np.unique(by_time[spec])), default=None)


def _order_of(
    groups: NDArray[Any] | None,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
) -> Dependence:
    facts, read = [table[name] for name in private], table[list(sensors)]
    clock = parts_in_order(table, sensors)
    return check_dependence(read, facts, public=table[public], groups=groups, told_by_order=clock)


# --- Columns that rows may belong together by ------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """A column whose values repeat as those of a home or a session do.

    ``codes``: the value of every row, as a number from 0. ``fact``: a private fact that is the same
    in all rows of each value, and not by luck.
    """

    column: str
    codes: Ints
    fact: str | None

    @property
    def values(self) -> int:
        """How many different values there are."""
        return int(self.codes.max()) + 1


def find_shared(
    table: pd.DataFrame, sensors: Sequence[str], public: str, private: Sequence[str]
) -> list[Shared]:
    """Return the columns that rows may belong together by.

    A sensor counts only if it holds text and a private fact is the same in all rows of each
    of its values: readings repeat, too.
    """
    found = []
    for name in map(str, table.columns):
        if name in (public, *private) or (name in sensors and is_numeric(table[name])):
            continue
        codes = _repeating(table[name])
        if codes is None:
            continue
        fact = next((each for each in private if _settles(codes, table[each])), None)
        if fact is not None or name not in sensors:
            found.append(Shared(name, codes, fact))
    return found


def _same_apart(codes: Ints, lag: int) -> bool:
    """Whether rows that far apart mostly have the same value, so that it may make them alike."""
    return bool(np.mean(codes[lag:] == codes[:-lag]) > 0.5)


def _repeating(column: Column) -> Ints | None:
    """Return numbers for the values of a column that may name homes; None for any other one."""
    if is_missing(column).any() or is_nested(column) or has_times(column):
        return None
    if is_numeric(column) and np.any(as_floats(column) % 1):
        return None
    codes: Ints = pd.factorize(column)[0].astype(np.int64)
    return codes if _FEWEST_SHARED <= codes.max() + 1 <= len(codes) / 2 else None


def _settles(codes: Ints, fact: Column) -> bool:
    """Whether all rows of each value have one class, where by luck they would not."""
    classes = pd.factorize(fact)[0].astype(np.int64)
    n_values, n_classes = int(codes.max()) + 1, int(classes.max()) + 1
    if n_values <= n_classes or len(np.unique(codes * n_classes + classes)) > n_values:
        return False
    shares, sizes = np.bincount(classes) / len(classes), np.bincount(codes)
    sole = np.logaddexp.reduce(sizes[:, None] * np.log(shares), axis=1)
    return float(sole.sum()) < math.log(_CHANCE)


# --- Order -----------------------------------------------------------------------------------


def say_shared(
    table: pd.DataFrame, sensors: Sequence[str], public: str, private: Sequence[str]
) -> str:
    """Return how rows may belong together by a column that settles a private fact, or nothing."""
    shared = _shared_fact(table, sensors, public, private)
    return "" if shared is None else _say_shared(shared, len(table))


def _shared_fact(
    table: pd.DataFrame, sensors: Sequence[str], public: str, private: Sequence[str]
) -> Shared | None:
    """Return the first column that settles a private fact, if there is one."""
    every = find_shared(table, sensors, public, private)
    return next((each for each in every if each.fact is not None), None)


def _say_shared(shared: Shared, rows: int) -> str:
    return (
        f"column {shared.column!r} has {shared.values} values in {rows} rows, and "
        f"{shared.fact!r} is the same in all rows of each: rows of one {as_noun(shared.column)} "
        f"may belong together. If they do, learn again with {_by_group(shared)}"
    )


def _by_group(shared: Shared) -> str:
    return f"--group {shlex.quote(shared.column)}"


def check_both_orders(
    rows: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
    table: Table | None = None,
) -> Dependence:
    """Look at the rows as they come and, if columns tell times, in the order of each of them.

    ``rows``: those of a ``table`` whose order is looked at; all there are if there is none.
    """
    used = [*sensors, public, *private]
    found = _order_of(None, rows, sensors, public, private)
    clocks = dict.fromkeys(chain(*clock_parts(rows, sensors).values()))
    for clock in find_clocks(rows, used):
        if found.found:
            break
        ordered = in_time(clock, rows, table, list(dict.fromkeys([*used, *clocks])))
        here = _order_of(None, ordered, sensors, public, private)
        if here.found:
            here = here.model_copy(update={"in_order_of": clock.column})
        found = worse_of(found, here)
    return found


def check_groups(
    groups: Labels,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
) -> Dependence:
    """Look at the groups of rows, each of which has its place among all for an index."""
    return _order_of(groups.index[table.index], table, sensors, public, private)


def check_group_copies(
    groups: Labels, table: pd.DataFrame, sensors: Sequence[str], facts: Sequence[str]
) -> Dependence:
    """Look for rows that occur again and again in different groups."""
    clock = clock_parts(table, sensors)
    read = table[[name for name in sensors if name not in clock]]
    return check_copies(read, [table[name] for name in facts], groups.index[table.index])


def _groups(table: pd.DataFrame, spec: str) -> Ints | None:
    """Return the number of every row's group, if there are any and enough of them."""
    try:
        texts = group_values(table, spec, positions=table.index.to_numpy())
    except InputError:
        return None
    codes, found = pd.factorize(texts)  # of many rows, texts would take much more memory
    return codes if len(found) >= MIN_GROUPS else None


def _stretches(
    found: Dependence, table: pd.DataFrame, sensors: Sequence[str], private: Sequence[str]
) -> dict[str, Ints]:
    """Return groups of successive rows, shortest first, that resemblance does not reach across."""
    length = correlation_length(table[list(sensors)], [table[name] for name in private])
    longest = int(table.index[-1] - table.index[0] + 1) // MIN_GROUPS
    if found.kind == "apart" and (found.lag or 0) * MIN_GROUPS > found.rows and length == 1:
        return {}  # only rows far apart are alike, as in a table appended to itself
    sizes = [size for size in _SIZES if 2 * length <= size <= longest]
    by_size = {spec: _groups(table, spec) for spec in (f"rows:{size}" for size in sizes)}
    return {spec: groups for spec, groups in by_size.items() if groups is not None}


def _count_copies(
    dependence: Dependence,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
) -> int:
    """Return how many rows repeat an earlier one, if no order is left without them; else 0."""
    used = table[[*sensors, public, *private]]
    again = used.duplicated()
    rest = table[~again]
    if not again.any() or len(rest) < MIN_ROWS:
        return 0
    few = len(rest) < _DIFFERENT * len(table)
    if few and not _repeats(dependence, table[[*sensors]], table[[public, *private]]):
        return 0
    found = check_both_orders(rest, sensors, public, private).found
    return 0 if found else int(again.sum())


def _repeats(dependence: Dependence, readings: pd.DataFrame, facts: pd.DataFrame) -> bool:
    """Whether rows are those so far before, as in a table appended to itself, and not by chance."""
    if dependence.kind != "apart" or dependence.in_order_of is not None:
        return False
    return occur_too_often(readings, [facts[name] for name in facts])


@dataclass(frozen=True)
class Doubt:
    """Why rows cannot be taken to be independent: all of it, the cause alone, and what to do."""

    warning: str
    cause: str
    advice: str


def doubt_rows(
    dependence: Dependence,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
) -> Doubt | None:
    """Return what speaks against rows, or the groups named, being independent, if anything does."""
    if dependence.found:
        advice = _advise(dependence, table, sensors, public, private, None)
        return Doubt(_say_order(dependence, advice), dependence.cause, advice)
    if dependence.unit == "groups":
        return None
    shared = _shared_fact(table, sensors, public, private)
    if shared is None:
        return None
    cause, advice = f"rows of one {as_noun(shared.column)} may belong together", _by_group(shared)
    warning = f"{_say_shared(shared, len(table))}; split one by one, such rows make an audit too "
    return Doubt(f"{warning}sure.", cause, f"If they do, learn again with {advice}.")


def warn_of_groups(split: Split, count: int) -> str | None:
    """Return what to say about groups that leave too few of them to an audit, if they do."""
    if split.group is None or split.holdout == 0 or held_out_groups(split, count) > 1:
        return None
    more = "" if count == 2 else "hold out more, "
    return (
        f"group {split.group!r} has {count} groups, 1 of which is held out: an audit needs at "
        f"least 2, and many more to certify anything. Add groups, {more}or name finer ones."
    )


def describe_order(
    dependence: Dependence,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
    group: str | None,
    *,
    override: str = _OVERRIDE,
) -> str:
    """Return what to say about rows that depend on one another: what was found, what to do.

    ``group``: what rows are grouped by already. ``override``: what to do if they are independent
    all the same.
    """
    advice = _advise(dependence, table, sensors, public, private, group)
    return _say_order(dependence, advice, override)


def _advise(
    dependence: Dependence,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
    group: str | None,
) -> str:
    """Return what to do about rows that depend on one another."""
    if dependence.kind == "copies":
        return "Drop the copies, or name what they share with --group."
    if group is None and (copies := _count_copies(dependence, table, sensors, public, private)):
        return (
            f"It is gone without the {copies} rows that repeat an earlier one: drop them if they "
            "are copies, or name what they share with --group."
        )
    found = propose_group(dependence, table, sensors, public, private)
    if found is not None and found != group:
        return f"Run again with --group {shlex.quote(found)}."
    return (
        "No stretches of rows, ten or more, are free of it: name what such rows share, as a "
        "home, with --group, or gather more rows."
    )


def _say_order(dependence: Dependence, advice: str, override: str = _OVERRIDE) -> str:
    return (
        f"{dependence.words}. Nothing is certified from such {dependence.unit}. {advice} If they "
        f"are independent all the same, {override}."
    )


# --- Odd values and classes -----------------------------------------------------------------

_FEWEST_ROWS = 20  # of a class that something can be learned of
_FEWEST_NUMBERS = 10  # different ones, that make a column of numbers out of one with odd texts
_OFTEN_MISSING = 0.5
_SAME = 0.99  # share of the rows of every class that have one class of the same fact
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
    raise UnfitSensorError(
        name,
        f"sensor {name!r} holds numbers, but {where}; {len(odd)} of {len(present)} rows have such "
        "texts. Fix them, write unavailable where there was no reading, or leave it out with "
        f"--exclude {name!r}.",
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
        yield (
            f"sensor {name!r} is infinite in {int(endless.sum())} of {len(numbers)} rows. Fix "
            "them, or empty them."
        )
    usual = numbers[np.isfinite(numbers)]
    for value in _STAND_INS:
        rest = usual[usual != value]
        if len(rest) in (0, len(usual)):
            continue
        low, high = float(rest.min()), float(rest.max())
        if max(low - value, value - high) > _FAR * max(high - low, 1.0):
            yield (
                f"sensor {name!r} reads {value:g} in {len(usual) - len(rest)} of {len(numbers)} "
                f"rows and otherwise {low:g} to {high:g}: if that stands for a missing reading, "
                "empty those cells."
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
        if is_missing_word(label):
            yield (
                f"{role} {fact.name!r} is {shown(label)} in {count} of {sum(fact.counts)} rows, "
                "which is learned as a class. If it stands for a missing label, label these rows "
                "or drop them."
            )
        if count < _FEWEST_ROWS:
            yield (
                f"{role} {fact.name!r} has {count} of {sum(fact.counts)} rows of class "
                f"{shown(label)}: hardly anything can be learned or certified of it. Add rows, or "
                "merge it with another class."
            )


def under_another_name(public: Labels, private: Sequence[Labels]) -> Iterator[Labels]:
    """Yield the private facts that are the public one: each nearly always tells the other."""
    for fact in private:
        counts = count_together(public, fact)
        if all(np.all(each.max(axis=1) >= _SAME * each.sum(axis=1)) for each in (counts, counts.T)):
            yield fact


def same_facts(public: Labels, private: Sequence[Labels]) -> Iterator[str]:
    """Yield the private facts that are the public one under another name, in words.

    No word depends on how many rows there are: of a table and of a part of it, one is enough.
    """
    for fact in under_another_name(public, private):
        yield (
            f"private fact {fact.name!r} is the public fact {public.name!r} under another "
            f"name: in {_SAME:.0%} of the rows of every class, or more, each tells the other. "
            f"Whatever answers {public.name!r} reveals it just as well: a limit on what is "
            "revealed is one on the answers. Name another private or public fact."
        )
