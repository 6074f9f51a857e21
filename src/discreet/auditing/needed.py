"""About how many more rows or groups would certify what these do not.

Extrapolated from the rows at hand, so that it is an estimate and promises nothing: what they show
beyond noise is taken to be the leak, and what a bound adds to it shrinks like one over the root
of their number.
"""

from __future__ import annotations

import numpy as np

from discreet.auditing.certificates import Certificate
from discreet.auditing.outputs_given import AuditRows
from discreet.auditing.planning import rows_needed
from discreet.exact import pairwise_epsilon

_ENOUGH = 10.0  # observations of the rarest output, from which on its ratios are bounded
_MOST = 10**9


def say_needed(rows: AuditRows, limit: float, alpha: float) -> str:
    """Say about how many more observations would certify an advantage within the limit."""
    return _sentence(rows, rows_needed(rows, limit, alpha), f"an advantage of {limit:g}")


def say_needed_within(parts: list[AuditRows], limit: float, alpha: float) -> str:
    """Say the same of rows within each public class: the class that needs most decides."""
    total = sum(part.n_groups for part in parts)
    needed = [(part, rows_needed(part, limit, alpha)) for part in parts]
    worst = max(needed, key=lambda each: np.inf if each[1] is None else each[1] / each[0].n_groups)
    count = None if worst[1] is None else int(np.ceil(worst[1] * total / worst[0].n_groups))
    return _sentence(worst[0], count, f"an advantage of {limit:g} beyond the answer")


def say_needed_for_epsilon(rows: AuditRows, found: Certificate, limit: float) -> str:
    """Say about how many more observations would certify an epsilon within the limit."""
    if not rows.listable or 0 in rows.counts:
        return ""
    return _sentence(rows, _for_epsilon(rows, found, limit), f"an epsilon of {limit:g}")


def _for_epsilon(rows: AuditRows, found: Certificate, limit: float) -> int | None:
    shown = pairwise_epsilon(rows.average)
    if not shown < limit:
        return None
    if found.bound is None:  # some output is too rare
        rarest = float(rows.average[rows.average > 0].min())
        needed = _ENOUGH / rarest / max(min(rows.observations), 1)
    else:
        needed = ((found.bound - shown) / (limit - shown)) ** 2
    return int(np.ceil(rows.n_groups * max(needed - 1.0, 0.0))) if needed < _MOST else None


def _sentence(rows: AuditRows, count: int | None, what: str) -> str:
    unit = "row" if rows.groups is None else rows.unit
    if count is None:
        return (
            f"More {unit}s are not expected to certify {what}: as far as these tell, more leaks "
            "or their number is out of reach."
        )
    more = "One more" if count <= 1 else f"About {rounded(count)} more"
    return f"{more} {unit}{'' if count <= 1 else 's'} like these would certify {what}."


def rounded(count: int) -> str:
    """Write a count with two digits that mean something, rounded up: it is an estimate."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return f"{-(-count // step) * step:,}"
