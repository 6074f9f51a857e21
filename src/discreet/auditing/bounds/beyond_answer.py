"""What the symbols tell about a private fact beyond the public one, which they are meant to tell.

The fusion centre knows the public fact, almost. So beside what any attacker gains from the
symbols there is what one gains from them who knows the public fact: within
each public class h, half the total variation between p(z|h, a) and p(z|h, b). And the public
fact by itself gives something away, however little the symbols add.

Within a public class the rows are those of that class, and every bound of ``certificates``
holds for them as it stands. Only the largest bound over public classes is claimed as a whole: the
class where the truth is largest is fixed, if unknown, so no confidence is shared among classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from discreet.auditing.audit_file import BEYOND
from discreet.auditing.bounds.certificates import (
    Certificate,
    NotCertifiable,
    certify_advantage,
    opening,
)
from discreet.auditing.bounds.lower_side import certify_lower
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.data.labels import Labels
from discreet.errors import shown
from discreet.leakage.exact import advantage
from discreet.quoting import at_most


@dataclass(frozen=True)
class BeyondAnswer:
    """What leaks to somebody who knows the public fact, and what that fact tells by itself.

    ``total``: holds within every public class. ``by_class``: within each public class, in their
    order; each holds by itself. ``estimates``: the same on the audited rows; they promise nothing.
    None where outputs are not listed. ``answer``: what the public fact alone, true and undisturbed,
    gives away. ``lower``: within some public class an attacker gains at least this; None where it
    is not known.
    """

    total: Certificate
    by_class: tuple[Certificate, ...]
    estimates: tuple[float | None, ...]
    answer: Certificate
    answer_estimate: float
    lower: float | None


def certify_beyond_answer(
    rows: AuditRows, public: Labels, private: str, alpha: float, seed: int
) -> BeyondAnswer:
    """Certify what is gained within each public class, at confidence 1 - alpha.

    The seed is that of ``certify_lower``.
    """
    within = rows_within(rows, public)
    lower = None if rows.cap is not None else _lower(within, alpha / public.n_classes, seed)
    by_class = tuple(
        _told(certify_advantage(own, alpha), own, f"{public.name}={shown(cls)}", alpha)
        for cls, own in zip(public.classes, within, strict=True)
    )
    alone = replace(
        rows,
        tables=(np.eye(public.n_classes),),
        codes=public.index[:, None],
        sensors=(public.name,),
    )
    return BeyondAnswer(
        total=_total(by_class, rows, public.name, private, alpha),
        by_class=by_class,
        estimates=tuple(_estimate(own) for own in within),
        answer=_alone(certify_advantage(alone, alpha), alone, public.name, alpha),
        answer_estimate=advantage(alone.average),
        lower=lower,
    )


def rows_within(rows: AuditRows, public: Labels) -> list[AuditRows]:
    """Return the rows of each public class."""
    return [rows.take(public.index == h) for h in range(public.n_classes)]


def _lower(within: list[AuditRows], share: float, seed: int) -> float | None:
    """Return what an attacker gains at least within some public class."""
    found = [certify_lower(own, share, seed) for own in within]
    return max((each.advantage for each in found if each is not None), default=None)


def _estimate(rows: AuditRows) -> float | None:
    seen = rows.listable and 0 not in rows.counts
    return advantage(rows.average) if seen else None


def _told(found: Certificate, rows: AuditRows, where: str, alpha: float) -> Certificate:
    name = f"{BEYOND}, {where}"
    if isinstance(found.value, NotCertifiable):
        nothing = NotCertifiable(f"within {where}, {found.value.reason}")
        return replace(found, name=name, value=nothing, words=nothing.words)
    words = (
        f"{opening(rows, alpha)} no attacker who knows that {where} beats guessing by more than "
        f"{at_most(found.value)}."
    )
    return replace(found, name=name, words=words)


def _total(
    by_class: tuple[Certificate, ...], rows: AuditRows, public: str, private: str, alpha: float
) -> Certificate:
    """Claim the largest bound; none if some class has none."""
    open_class = next((each for each in by_class if each.bound is None), None)
    if open_class is not None:
        return replace(open_class, name=BEYOND, rows=rows.counts)
    worst = max(by_class, key=lambda each: each.bound or 0.0)
    words = (
        f"{opening(rows, alpha)} no attacker who knows {public!r} beats guessing at "
        f"{private!r} by more than {at_most(worst.bound or 0.0)}, whatever "
        "that truth is."
    )
    return replace(worst, name=BEYOND, rows=rows.counts, words=words)


def _alone(found: Certificate, rows: AuditRows, public: str, alpha: float) -> Certificate:
    name = "advantage of the public fact by itself"
    if isinstance(found.value, NotCertifiable):
        return replace(found, name=name)
    words = (
        f"{opening(rows, alpha)} knowing {public!r} and nothing else beats guessing by at most "
        f"{at_most(found.value)}."
    )
    return replace(found, name=name, words=words)
