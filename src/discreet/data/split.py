"""Which rows learn and which are kept for the audit.

A mapping records the digest of its table and the split, never the rows. Whoever has the
table can check that it is the same one and draw the same split.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from discreet.arrays import Ints
from discreet.data.columns import check_column, written_column
from discreet.data.groups import group_values
from discreet.data.labels import Labels, count_classes, written_labels
from discreet.data.strict_model import Model
from discreet.errors import InputError, shown

Flags = NDArray[np.bool_]

_SPLIT_ATTEMPTS = 200
_DRAWN = 1 << 16  # rows that are drawn from together, in little memory


class Split(Model):
    """Which rows learn and which are kept for the audit.

    With the rows themselves, this is all that ``hold_out`` needs to draw the same split again.

    ``holdout``: share of the rows kept for the audit, from 0 up to but not including 1. ``seed``:
    seed of the shuffle. ``group``: which rows stay together: a column such as a home, the unit of a
    column of times (``date:day``) or ``rows:60``; see ``data.groups``. Neighbouring rows of a time
    series are near copies; split apart they would flatter the audit.
    """

    holdout: float = Field(default=0.3, ge=0, lt=1)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    group: Annotated[str, Field(max_length=1_000)] | None = None


def hold_out(split: Split, facts: Sequence[Labels], groups: Labels | None = None) -> Flags:
    """Return which rows are kept for the audit.

    The answer depends on the order and the labels of the rows and on ``split`` alone, not on how
    the table is read. Among each 65536 rows that follow one another, every combination of classes
    is divided in proportion, to the nearest row. Groups are drawn whole.

    ``facts``: every class of each has rows on both sides. ``groups``: which rows stay together, if
    ``split`` asks for groups. Raises InputError: if a class would have no rows on one side, or
    there is one group only.
    """
    if split.holdout == 0:
        return np.zeros(len(facts[0].index), dtype=bool)
    rng = np.random.default_rng(split.seed)
    if groups is not None:
        _check_several(split, groups)
    for _ in range(_SPLIT_ATTEMPTS):
        if groups is not None:
            chosen = _draw_groups(groups, split, rng)
        else:
            chosen = _draw_rows(facts, split.holdout, rng)
        if _absent_class(facts, chosen) is None:
            break
    # The last draw is as good as any to show what is wrong.
    _check_sides(facts, chosen, groups)
    return chosen


def split_rows(table: pd.DataFrame, split: Split, strata: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the positions of a table's rows to learn from and to audit with, in order.

    ``strata``: the columns with the facts. Raises InputError: as ``hold_out``, and if a column is
    not there.
    """
    for name in strata:
        check_column(table.columns, name, "labels")
    facts = [written_labels(name, table[name]) for name in strata]
    groups = None
    if split.group is not None and split.holdout > 0:
        texts = pd.Series(group_values(table, split.group), dtype=object)
        groups = written_labels(split.group, texts)
    chosen = hold_out(split, facts, groups)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _texts(fact: Labels) -> list[str]:
    return written_column(pd.Series(np.asarray(fact.classes)))


def _draw_rows(facts: Sequence[Labels], holdout: float, rng: np.random.Generator) -> Flags:
    """Draw some rows after the other, each with the same probability."""
    places = [np.argsort(np.argsort(np.array(_texts(fact), dtype=str))) for fact in facts]
    chosen = np.empty(len(facts[0].index), dtype=bool)
    for begin in range(0, len(chosen), _DRAWN):
        part = slice(begin, begin + _DRAWN)
        stratum = np.zeros(len(chosen[part]), dtype=np.int64)
        for fact, place in zip(facts, places, strict=True):
            combined = stratum * fact.n_classes + place[fact.index[part]]
            stratum = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        chosen[part] = _draw_part(stratum, holdout, rng)
    return chosen


def _draw_part(stratum: Ints, holdout: float, rng: np.random.Generator) -> Flags:
    """Draw every row with the same probability, and of each stratum as near as can be its share.

    Systematic sampling: rows shuffled within strata, strata shuffled among themselves, then
    every 1/holdout-th row from a random start. A rule that favoured small strata would make
    the held-out rows a biased sample, and every bound from them wrong.
    """
    place = rng.permutation(int(stratum.max()) + 1)[stratum]
    order = np.lexsort((rng.random(len(stratum)), place))
    steps = np.floor(rng.random() + holdout * np.arange(len(stratum) + 1))
    chosen = np.zeros(len(stratum), dtype=bool)
    chosen[order] = np.diff(steps) > 0
    return chosen


def _draw_groups(groups: Labels, split: Split, rng: np.random.Generator) -> Flags:
    count = held_out_groups(split, groups.n_classes)
    chosen: Flags = (rng.permutation(groups.n_classes) < count)[groups.index]
    return chosen


def held_out_groups(split: Split, count: int) -> int:
    """Return how many of so many groups are held out.

    A number of groups, whatever their sizes: filling up to a share of the rows would favour
    small groups, and what is held out has to be like the rest.
    """
    return min(max(round(split.holdout * count), 1), count - 1)


def _check_several(split: Split, groups: Labels) -> None:
    if groups.n_classes < 2:
        raise InputError(
            f"group {split.group!r} has one group only, {shown(groups.classes[0])}, which cannot "
            "be on both sides. Choose another column or a shorter time, or split without groups."
        )


def _absent_class(facts: Sequence[Labels], chosen: Flags) -> tuple[Labels, str, str] | None:
    for fact in facts:
        all_rows = count_classes(fact.index, fact.n_classes)
        audit = count_classes(fact.index[chosen], fact.n_classes)
        absent = np.flatnonzero((audit > 0) != (all_rows > audit))
        if len(absent):
            text, k = min((_texts(fact)[k], k) for k in absent)
            return fact, text, "audit" if audit[k] == 0 else "learning"
    return None


def _check_sides(facts: Sequence[Labels], chosen: Flags, groups: Labels | None) -> None:
    absent = _absent_class(facts, chosen)
    if absent is None:
        return
    fact, text, side = absent
    there = fact.index == _texts(fact).index(text)
    where = f"{int(there.sum())} rows"
    advice = "Add rows of that class, or change the holdout."
    if groups is not None:
        count = len(np.unique(groups.index[there]))
        where += f" in {count} of {groups.n_classes} groups by {groups.name!r}, which stay whole,"
        advice = "Add groups with that class, or name finer groups"
        advice += "." if count == 1 else ", or change the holdout or its seed."
    raise InputError(
        f"class {text!r} of {fact.name!r} has {where} and none would be on the {side} side. "
        f"{advice}"
    )
