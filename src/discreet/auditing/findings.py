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

**Answers and the paper's epsilon** stand beside the bounds. epsilon^, the maximum of
|log p^(g,z) / (p^(g) p^(z))| over the outputs seen, is a plug-in and no bound: an output seen once
has ratio 1/p^(g) whatever the mapping does. So it is never shown without its null floor, the range
it would have on the same rows if the outputs had nothing to do with the fact: the labels are
shuffled among the rows and it is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from discreet import rounding
from discreet.arrays import Floats, Ints, distinct_rows
from discreet.auditing.bounds.certificates import percent
from discreet.auditing.bounds.deviations import mean_lower, mean_upper
from discreet.auditing.bounds.intervals import (
    Interval,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
)
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.data import AuditData
from discreet.data.columns import Labels
from discreet.errors import shown
from discreet.leakage.exact import advantage
from discreet.mapping.mapping import Mapping
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


# --- Answers ---------------------------------------------------------------------------------

_DRAWN = 200_000  # decisions about drawn symbols, where the rows are few
_FEWEST_DRAWS = 20
_LISTED_AT_ONCE = 2**16


def score_answers(
    mapping: Mapping, rows: AuditRows, seed: int, listed: bool
) -> tuple[float, Floats, bool]:
    """Return the share of wrong answers, that of right ones by class, and if all are the same.

    ``rows``: with the public class as their class. ``listed``: average over Q, for which all
    outputs are listed, and not over drawn symbols.
    """
    if listed:
        every = [mapping.decide(part) for part in list_outputs(mapping.n_symbols)]
        classes, decided = range(rows.n_classes), np.concatenate(every)
        hits = [rows.joint[h, decided == h].sum() for h in classes]
        by_class = [rows.average[h, decided == h].sum() for h in classes]
        constant = len(np.unique(decided[rows.average.sum(axis=0) > 0])) == 1
        return float(np.clip(1.0 - sum(hits), 0, 1)), np.clip(by_class, 0, 1), constant
    rng = np.random.default_rng([seed, 5])
    draws = max(_FEWEST_DRAWS, -(-_DRAWN // len(rows.codes)))
    right, named = np.zeros(len(rows.codes)), np.zeros(rows.n_classes)
    for _ in range(draws):
        decided = mapping.decide(mapping.sample(rows.codes, rng))
        right += decided == rows.index
        named += np.bincount(decided, minlength=rows.n_classes)
    return *score_rows(rows, right / draws), bool(np.count_nonzero(named) == 1)


def score_rows(rows: AuditRows, right: Floats) -> tuple[float, Floats]:
    """Return the share of wrong answers, and that of right ones by class.

    ``right`` of shape (n_rows,): how often the answer about each row is right.
    """
    by_class = np.bincount(rows.index, rows.row_weights * right, minlength=rows.n_classes)
    group_rows = np.bincount(rows.group)[rows.group]
    error = 1.0 - float(np.sum(right / group_rows) / rows.n_groups)
    return float(np.clip(error, 0, 1)), np.clip(by_class, 0, 1)


def list_outputs(sizes: Sequence[int]) -> Iterator[Ints]:
    """Yield all outputs, the first sensor slowest, as some rows of symbols at a time."""
    total = prod(sizes)
    for begin in range(0, total, _LISTED_AT_ONCE):
        numbers = np.arange(begin, min(begin + _LISTED_AT_ONCE, total))
        yield np.stack(np.unravel_index(numbers, tuple(sizes)), axis=1)


def error_interval(rows: AuditRows, error: float, alpha: float) -> Interval:
    """Return the share of wrong answers with Chernoff's interval, half of alpha on each side."""
    level = np.log(2.0 / alpha) / rows.n_groups
    return Interval(error, float(kl_lower(error, level)), float(kl_upper(error, level)))


def balanced_interval(rows: AuditRows, right: Floats, alpha: float) -> Interval:
    """Return the mean over classes of how often each is named rightly, with its interval."""
    return weighted_interval(rows, right, np.full(len(right), 1.0 / len(right)), alpha)


def weighted_interval(rows: AuditRows, right: Floats, worth: Floats, alpha: float) -> Interval:
    """Return the same where classes have other weights, which sum to 1."""
    share = alpha / (2 * rows.n_classes)
    low, high = (
        float(worth @ [bound(rows, k, each, share) for k, each in enumerate(right)])
        for bound in (mean_lower, mean_upper)
    )
    return Interval(float(worth @ right), low, high)


# --- Plug-in epsilon -------------------------------------------------------------------------

_SHUFFLES = 200
_FEWER_SHUFFLES = 50  # for long tables, where the range is narrow anyway
_LONG = 20_000


@dataclass(frozen=True)
class PlugInEpsilon:
    """The estimate, and the 5th to 95th percentile of it under shuffled labels."""

    value: float
    null_low: float
    null_high: float
    outputs_seen: int

    @property
    def beyond_chance(self) -> bool:
        return self.value > self.null_high

    def words(self) -> str:
        """Return what may be said of the estimate."""
        seen = "more than chance" if self.beyond_chance else "no more than chance"
        return (
            f"plug-in estimate {self.value:.2f}; a mapping that leaks nothing would show "
            f"{self.null_low:.2f} to {self.null_high:.2f} on these rows, so it shows {seen}. "
            "It is no bound"
        )


def plug_in_epsilon(
    symbols: Ints,
    index: Ints,
    n_classes: int,
    rng: np.random.Generator,
    groups: Ints | None = None,
) -> PlugInEpsilon:
    """Estimate epsilon from drawn symbols, with its null floor.

    Rows of one group resemble each other, so groups are shuffled and not rows: each keeps its
    own run of labels.
    """
    outputs = distinct_rows(symbols).inverse
    n_outputs = int(outputs.max()) + 1
    shuffles = _SHUFFLES if len(index) <= _LONG else _FEWER_SHUFFLES
    null = [
        _largest_ratio(outputs, n_outputs, _shuffled(index, groups, rng), n_classes)
        for _ in range(shuffles)
    ]
    low, high = np.quantile(null, [0.05, 0.95])
    value = _largest_ratio(outputs, n_outputs, index, n_classes)
    return PlugInEpsilon(value, float(low), float(high), n_outputs)


def _shuffled(index: Ints, groups: Ints | None, rng: np.random.Generator) -> Ints:
    if groups is None:
        return rng.permutation(index)
    rows = np.argsort(groups, kind="stable")
    turn = rng.permutation(int(groups.max()) + 1)[groups]
    shuffled = np.empty_like(index)
    shuffled[rows] = index[np.argsort(turn, kind="stable")]
    return shuffled


def _largest_ratio(outputs: Ints, n_outputs: int, index: Ints, n_classes: int) -> float:
    counts = np.bincount(index * n_outputs + outputs, minlength=n_classes * n_outputs)
    joint = counts.reshape(n_classes, n_outputs) / len(index)
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    # A class never seen with an output has log-ratio minus infinity; the paper leaves it out.
    seen = joint > 0
    ratios = joint[seen] / independent[seen]
    return float(max(np.log(ratios.max()), -np.log(ratios.min())))
