"""Leaks that a reader should be able to name: which sensors, which symbol, which class.

A certificate says how much leaks at most; this says where to look. Each finding is a
sentence. Nothing here is needed for a bound, and an empty list promises nothing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.certificates import percent
from discreet.auditing.contributions import outputs_of, telling_pair
from discreet.auditing.outputs_given import AuditRows
from discreet.auditing.spread import mean_lower, mean_upper
from discreet.auditing.subjects import Labelled, Subject
from discreet.exact import advantage
from discreet.values import shown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TELLING_GAIN = 0.05  # of an advantage, for two sensors together over the better one alone
_TELLING_RATIO = 1.5  # lower bound on how much likelier a symbol is for one class
_RARE_SYMBOL = 0.2  # symbols sent more often show up in the advantage itself
_RARE_CLASS = 0.05
_SAME = 0.9  # share of a sensor's information that another one repeats
_COMPARED_ROWS = 5_000
_COMPARED_SENSORS = 200


def find_leaks(
    subject: Subject, rows: AuditRows, labelled: Labelled, lower: float, alpha: float
) -> tuple[str, ...]:
    """Name what leaks about one private fact.

    Parameters
    ----------
    lower : float
        What a real attacker gains for certain; without it a joint leak may be chance.
    alpha : float
        Chance that a symbol is named wrongly.
    """
    found = [*_rare_classes(labelled), *_telling_symbols(subject, rows, labelled, alpha)]
    if rows.listable and lower > 0:
        found += _joint_leak(subject, rows)
    return tuple(found)


def _joint_leak(subject: Subject, rows: AuditRows) -> list[str]:
    """Name two sensors; chosen on half of the rows and confirmed by the other half."""
    names = subject.mapping.names
    first, second = rows.split(0.5, 0)
    pair = telling_pair(first.tables, first.codes, first.index, first.n_classes)
    if pair is None or pair[2] < _TELLING_GAIN:
        return []
    t, u, _ = pair
    together, *alone = (
        advantage(outputs_of(each, second.tables, second.codes, second.index, second.n_classes))
        for each in ((t, u), (t,), (u,))
    )
    if together - max(alone) < _TELLING_GAIN:
        return []
    return [
        f"sensors {shown(names[t])} and {shown(names[u])} tell together what neither tells alone: "
        f"the advantage of the pair is {together:.3f}, by themselves {alone[0]:.3f} and "
        f"{alone[1]:.3f}"
    ]


def _telling_symbols(
    subject: Subject, rows: AuditRows, labelled: Labelled, alpha: float
) -> list[str]:
    """Name symbols that are rare and surely much likelier for one class than for another."""
    tables = subject.mapping.tables
    tests = sum(table.shape[1] for table in tables) * labelled.n_classes * 2
    found = []
    for t, (name, table) in enumerate(zip(subject.mapping.names, tables, strict=True)):
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
            one, other = (shown(labelled.fact.classes[k]) for k in (a, b))
            found.append(
                f"symbol {z} of sensor {shown(name)} is rare and telling: sent in "
                f"{share[a, z]:.2%} of the rows of class {one} and in {share[b, z]:.2%} of those "
                f"of {other}, at confidence {percent(1 - alpha)} at least "
                f"{low[a, z] / high[b, z]:.1f} times as often"
            )
    return found


def _rare_classes(labelled: Labelled) -> list[str]:
    counts, total = labelled.counts, sum(labelled.counts)
    return [
        f"class {shown(cls)} is rare: {count} of {total} rows ({count / total:.1%}); whatever is "
        "said of it rests on those"
        for cls, count in zip(labelled.fact.classes, counts, strict=True)
        if count < _RARE_CLASS * total
    ]


def find_copies(subject: Subject) -> tuple[str, ...]:
    """Name pairs of sensors that read nearly the same, whose noise averages out."""
    names = subject.mapping.names
    if len(names) > _COMPARED_SENSORS:
        return ()
    codes = subject.codes[:_COMPARED_ROWS]
    sizes = [len(table) for table in subject.mapping.tables]
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
