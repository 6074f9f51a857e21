"""Where the leak is: which sensors, which symbol, which class, which share of the groups.

A certificate bounds how much leaks; this says where to look. Each finding is a sentence. No bound
needs them, and an empty list promises nothing.

**Contributions** are plug-in estimates on the audited rows: they rank sensors and promise
nothing. With few outputs the best attacker is computed exactly from p^(z|class), and a
sensor is left out by summing over its symbols. With too many to list, the attacker is the
one that looks at each sensor by itself, and the figures say so.

**Groups.** A mean over homes can hide the one home that gives everything away. So every group
with rows of several classes is judged by itself: half the largest total variation between the
mean outputs of two of its classes. Groups are independent draws, so whether a group exceeds
the limit is a coin with one unknown chance, and Clopper and Pearson bound it. Nothing is assumed
about the rows inside a group, so nothing is claimed about rows that were not recorded: few rows
may show more or less than many would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from discreet import rounding
from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.certificates import percent
from discreet.auditing.bounds.deviations import mean_lower, mean_upper
from discreet.auditing.bounds.intervals import clopper_pearson_upper
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.data import AuditData
from discreet.data.columns import Labels
from discreet.errors import shown
from discreet.leakage.exact import advantage
from discreet.rounding import down, gain, plain_points, points, up

# --- What each sensor adds -------------------------------------------------------------------


@dataclass(frozen=True)
class Contribution:
    """What one sensor adds to an advantage over guessing.

    ``alone``: the advantage with this sensor only. ``lost``: by how much the advantage of all
    sensors falls without it; None where the outputs are too many to list.
    """

    sensor: str
    alone: float
    lost: float | None


def contributions(rows: AuditRows, names: Sequence[str]) -> tuple[Contribution, ...]:
    """Return what each sensor adds.

    Where outputs are too many to list, what is lost without a sensor is not known: it takes the
    joint distribution.
    """
    if not rows.listable:
        alone = (advantage(outputs_of((t,), rows)) for t in range(len(names)))
        return tuple(Contribution(*each, None) for each in zip(names, alone, strict=True))
    cube = rows.average.reshape(rows.n_classes, *(table.shape[1] for table in rows.tables))
    everything = advantage(rows.average)
    found = []
    for t, name in enumerate(names):
        without = cube.sum(axis=t + 1).reshape(len(cube), -1)
        own = cube.sum(axis=tuple(a for a in range(1, cube.ndim) if a != t + 1))
        found.append(Contribution(name, advantage(own), everything - advantage(without)))
    return tuple(found)


def outputs_of(sensors: Sequence[int], rows: AuditRows) -> Floats:
    """Return p^(z|class) of a few sensors by themselves, from counts of their codes."""
    index, m = rows.index, rows.n_classes
    sizes = [len(rows.tables[t]) for t in sensors]
    label = index
    for t, size in zip(sensors, sizes, strict=True):
        label = label * size + rows.codes[:, t]
    counts = np.bincount(label, minlength=m * prod(sizes)).reshape(m, *sizes)
    held = np.bincount(index, minlength=m).reshape(-1, *[1] * len(sizes))
    given: Floats = counts / np.maximum(held, 1)
    for t in sensors:  # the first axis of codes becomes the last one of symbols
        given = np.tensordot(given, rows.tables[t], axes=(1, 0))
    return given.reshape(m, -1)


def telling_pair(rows: AuditRows) -> tuple[int, int, float] | None:
    """Return the two sensors that tell most beyond what each tells alone, if any do.

    The gain is the pair's advantage less the larger of the two: large for a secret that
    shows only in the combination.
    """
    alone = [advantage(outputs_of((t,), rows)) for t in range(len(rows.tables))]
    pairs = combinations(range(len(alone)), 2)
    gains = (
        (t, u, advantage(outputs_of((t, u), rows)) - max(alone[t], alone[u])) for t, u in pairs
    )
    return max(gains, key=lambda each: each[2], default=None)


# --- Findings in words -----------------------------------------------------------------------


_TELLING_GAIN = 0.05  # of an advantage, for two sensors together over the better one alone
_TELLING_RATIO = 1.5  # lower bound on how much likelier a symbol is for one class
_RARE_SYMBOL = 0.2  # symbols sent more often show up in the advantage itself
_RARE_CLASS = 0.05
_SAME = 0.9  # share of a sensor's information that another one repeats
_COMPARED_ROWS = 5_000
_COMPARED_SENSORS = 200


def find_leaks(
    data: AuditData, rows: AuditRows, labelled: Labels, lower: float, alpha: float
) -> tuple[str, ...]:
    """Name what leaks about one private fact.

    ``lower``: what a real attacker gains for certain; without it a joint leak may be chance.
    ``alpha``: chance that a symbol is named wrongly.
    """
    found = [*_rare_classes(labelled), *_telling_symbols(data, rows, labelled, alpha)]
    if rows.listable and lower > 0:
        found += _joint_leak(data, rows)
    return tuple(found)


def _joint_leak(data: AuditData, rows: AuditRows) -> list[str]:
    """Name two sensors; chosen on half of the rows and confirmed by the other half."""
    names = data.mapping.names
    first, second = rows.split(0.5, 0)
    pair = telling_pair(first)
    if pair is None or pair[2] < _TELLING_GAIN:
        return []
    t, u, _ = pair
    together, *alone = (advantage(outputs_of(each, second)) for each in ((t, u), (t,), (u,)))
    if together - max(alone) < _TELLING_GAIN:
        return []
    return [
        f"sensors {shown(names[t])} and {shown(names[u])} tell together what neither tells alone: "
        f"the advantage of the pair is {points(together)}, by themselves {gain(alone[0])} and "
        f"{gain(alone[1])}"
    ]


def _telling_symbols(data: AuditData, rows: AuditRows, labelled: Labels, alpha: float) -> list[str]:
    """Name symbols that are rare and surely much likelier for one class than for another."""
    tables = data.mapping.tables
    tests = sum(table.shape[1] for table in tables) * labelled.n_classes * 2
    found = []
    for t, (name, table) in enumerate(zip(data.mapping.names, tables, strict=True)):
        sent = replace(rows, tables=(table,), codes=rows.codes[:, [t]])
        share = sent.average
        low, high = (
            np.stack([bound(sent, k, mean, alpha / tests) for k, mean in enumerate(share)])
            for bound in (mean_lower, mean_upper)
        )
        for z in range(table.shape[1]):
            a, b = int(np.argmax(low[:, z])), int(np.argmin(high[:, z]))
            if a == b or low[a, z] < _TELLING_RATIO * high[b, z] or share[a, z] > _RARE_SYMBOL:
                continue
            one, other = (shown(labelled.classes[k]) for k in (a, b))
            found.append(
                f"symbol {z} of sensor {shown(name)} is rare and telling: sent in "
                f"{share[a, z]:.2%} of the rows of class {one} and in {share[b, z]:.2%} of those "
                f"of {other}, at confidence {percent(1 - alpha)} at least "
                f"{down(low[a, z] / high[b, z], 1):.1f} times as often"
            )
    return found


def _rare_classes(labelled: Labels) -> list[str]:
    counts, total = labelled.counts, sum(labelled.counts)
    return [
        f"class {shown(cls)} is rare: {count} of {total} rows ({count / total:.1%}); whatever is "
        "said of it rests on those"
        for cls, count in zip(labelled.classes, counts, strict=True)
        if count < _RARE_CLASS * total
    ]


def find_copies(data: AuditData) -> tuple[str, ...]:
    """Name pairs of sensors that read nearly the same, whose noise averages out."""
    names = data.mapping.names
    if len(names) > _COMPARED_SENSORS:
        return ()
    codes = data.codes[:_COMPARED_ROWS].astype(np.int64)
    sizes = [len(table) for table in data.mapping.tables]
    entropies = [_entropy(codes[:, t]) for t in range(len(names))]
    found = []
    for t, u in combinations(range(len(names)), 2):
        least = min(entropies[t], entropies[u])
        if least <= 0:
            continue
        shared = entropies[t] + entropies[u] - _entropy(codes[:, t] * sizes[u] + codes[:, u])
        # With many codes and few rows any two columns seem to share much; less the bias.
        shared -= (sizes[t] - 1) * (sizes[u] - 1) / (2 * len(codes))
        if shared >= _SAME * least:
            found.append(
                f"sensors {shown(names[t])} and {shown(names[u])} read nearly the same: each sends "
                "its own draw, so together they tell more about one reading than either alone"
            )
    return tuple(found)


def _entropy(values: Ints) -> float:
    shares = np.bincount(values)[np.unique(values)] / len(values)
    return float(-(shares * np.log(shares)).sum())


# --- Groups ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TellingGroups:
    """How many groups go beyond a level, and the share of such groups at most.

    ``level``: the advantage within a group from which on it counts. ``judged``: groups with rows of
    several classes; the others have nothing to tell apart. ``upper``: of all such groups, the share
    that goes beyond the level is at most this.
    """

    level: float
    judged: int
    beyond: int
    upper: float
    confidence: float
    words: str


def count_telling_groups(rows: AuditRows, level: float, alpha: float) -> TellingGroups | None:
    """Bound the share of groups whose own rows tell classes apart by more than ``level``.

    None without groups, where outputs are too many to list, or if no group has two classes.
    """
    if rows.groups is None or not rows.means_listable:
        return None
    judged = np.flatnonzero(np.count_nonzero(rows.held, axis=0) > 1)
    if not len(judged):
        return None
    beyond = int(np.sum(group_advantages(rows)[judged] > level))
    upper = float(clopper_pearson_upper(beyond, len(judged), alpha))
    words = (
        f"Of {len(judged)} {rows.unit}s with rows of several classes, {beyond} tell them apart by "
        f"more than {plain_points(level)} in their own rows. At confidence "
        f"{percent(1 - alpha)}, at most {rounding.percent(up(upper))} of such {rows.unit}s, "
        "recorded "
        "likewise, do."
    )
    return TellingGroups(level, len(judged), beyond, upper, 1 - alpha, words)


def group_advantages(rows: AuditRows) -> Floats:
    """Return half the largest total variation between two classes of each group, by its rows."""
    found = np.zeros(rows.n_groups)
    for a, b in combinations(range(rows.n_classes), 2):
        both = np.flatnonzero((rows.held[a] > 0) & (rows.held[b] > 0))
        means = ((mean for block in rows.group_means(k, both) for mean in block) for k in (a, b))
        for j, one, other in zip(both, *means, strict=True):
            found[j] = max(found[j], 0.25 * float(np.abs(one - other).sum()))
    return found
