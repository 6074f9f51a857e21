"""Which share of the groups may give more away than the limit, each judged by its own rows.

A mean over homes can hide the one home that tells all. So every group with rows of several
classes is judged by itself: half the largest total variation between the mean outputs of two
of its classes. Groups are independent draws, so whether a group goes beyond the limit is a
coin with one unknown chance, and Clopper and Pearson bound it. Nothing is assumed about what
happens inside a group, so nothing is said of what its other rows would tell: a group is judged by
those that were recorded, and few of them may show more or less than many would.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.certificates import percent
from discreet.auditing.intervals import clopper_pearson_upper
from discreet.auditing.outputs_given import AuditRows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TellingGroups:
    """How many groups go beyond a level, and the share of such groups at most.

    Attributes
    ----------
    level : float
        The advantage within a group from which on it counts.
    judged : int
        Groups with rows of several classes; the others have nothing to tell apart.
    beyond : int
    upper : float
        Of all such groups, the share that goes beyond the level is at most this.
    confidence : float
    words : str
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
        f"more than {100 * level:.2f} percentage points in their own rows. At confidence "
        f"{percent(1 - alpha)}, at most {100 * upper:.1f} % of such {rows.unit}s, recorded "
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
