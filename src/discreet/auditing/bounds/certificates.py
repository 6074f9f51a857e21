"""What may honestly be claimed about a mapping, whatever the attacker.

A certificate is an upper bound that holds with a stated confidence, under stated
assumptions, and comes with the words that may be said. Where nothing can be promised its
value is ``NotCertifiable``, which is neither a number nor zero.

``alpha`` is spent on one certificate. Claims about several private facts, or several
certificates that must hold at once, share it: divide it among them.

The pointwise certificates (epsilon, and epsilon beyond a rare set) are in ``epsilon``; what the
tables alone promise, and many releases add up to, is in ``over_time``.

*What the symbols tell about a private fact beyond the public one, which they are meant to tell.*
The fusion centre knows the public fact, almost. So beside what any attacker gains from the symbols
there is what one gains from them who knows the public fact: within each public class h, half the
total variation between p(z|h, a) and p(z|h, b). And the public fact by itself gives something
away, however little the symbols add.

Within a public class the rows are those of that class, and every bound of ``certificates``
holds for them as it stands. Only the largest bound over public classes is claimed as a whole: the
class where the truth is largest is fixed, if unknown, so no confidence is shared among classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from discreet.arrays import Floats
from discreet.auditing.audit_file import BEYOND
from discreet.auditing.bounds.deviations import (
    VARIANCE_SHARE,
    deviation,
    kernel_balanced_gain,
    kernel_total_variation,
    overall_upper,
)
from discreet.auditing.bounds.intervals import check_alpha, clopper_pearson_upper, kl_upper
from discreet.auditing.bounds.kernel_rows import KernelRows
from discreet.auditing.bounds.lower_side import certify_lower
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.data.columns import Labels
from discreet.errors import shown
from discreet.leakage.exact import ROUND_UP, advantage, advantage_at, structural_epsilons
from discreet.rounding import at_most, down, up
from discreet.rounding import confidence as quoted_confidence

_NO_BETTER = 0.99  # share of the worst that can be, from which on a bound is none

SHIPPED = "the integer tables in the mapping file are what the sensors draw from"
ONE_RELEASE = "every sensor sends one symbol"
HELD_OUT = "the audit rows were not used to learn or to choose the mapping"
SAME_WORLD = "rows are independent draws from what the sensors will see, given the private class"
GROUPS_APART = (
    "every {unit} is an independent draw from those that the sensors will see; nothing is assumed "
    "about the rows within one"
)
SHARES = "the private classes are as frequent in {drawn} as they will be"
PRIOR_GIVEN = "the private classes are as frequent as stated"


@dataclass(frozen=True)
class NotCertifiable:
    """Nothing can be promised, and why."""

    reason: str

    @property
    def words(self) -> str:
        """What may be said."""
        return f"Nothing is promised: {self.reason}."


@dataclass(frozen=True)
class Certificate:
    """An upper bound, or the fact that there is none.

    ``confidence``: probability, over the audit rows, with which the bound holds; 1 if no rows are
    used. ``rows``: audit rows of each private class; empty if no rows are used. ``words``: what may
    be said, in plain English. ``counted``: the independent observations behind it, rows or groups;
    empty if no rows are used. ``of_tables``: whether the tables alone guarantee as much, so that
    the rows add nothing.
    """

    name: str
    value: float | NotCertifiable
    confidence: float
    rows: tuple[int, ...]
    assumptions: tuple[str, ...]
    words: str
    counted: str = ""
    of_tables: bool = False

    @property
    def bound(self) -> float | None:
        """The number, or None where there is none."""
        return None if isinstance(self.value, NotCertifiable) else self.value

    def as_dict(self) -> dict[str, Any]:
        """Return the certificate for JSON; without a bound there is no number for one."""
        found: dict[str, Any] = {"name": self.name}
        if isinstance(self.value, NotCertifiable):
            found |= {"certifiable": False, "reason": self.value.reason}
        else:
            found |= {"certifiable": True, "value": self.value}
        return found | {
            "confidence": self.confidence,
            "rows": list(self.rows),
            "counted": self.counted,
            "of_tables": self.of_tables,
            "assumptions": list(self.assumptions),
            "words": self.words,
        }


def row_assumptions(rows: AuditRows) -> tuple[str, ...]:
    """Return what every certificate from rows takes for granted."""
    apart = SAME_WORLD if rows.groups is None else GROUPS_APART.format(unit=rows.unit)
    return (SHIPPED, ONE_RELEASE, HELD_OUT, apart)


def share_assumption(rows: AuditRows, prior: Floats | None) -> str:
    """Return where the frequencies of the private classes come from."""
    return SHARES.format(drawn=rows.drawn_first) if prior is None else PRIOR_GIVEN


def opening(rows: AuditRows, alpha: float, *, any_class: bool = False) -> str:
    """Begin a sentence about a bound: its confidence and, with groups, what is drawn."""
    sure = f"At confidence {percent(1 - alpha)}"
    drawn = rows.drawn_first if any_class else rows.drawn
    return f"{sure}, for {drawn}," if rows.groups is not None else sure


def percent(confidence: float) -> str:
    """Write a confidence for a sentence."""
    return f"{quoted_confidence(confidence)} %"


def many(count: int) -> str:
    """Write a count that may have thousands of digits."""
    return f"{count:,}" if count < 10**9 else f"about 10^{len(str(count)) - 1}"


# --- Any attacker ----------------------------------------------------------------------------


def certify_total_variation(rows: AuditRows, alpha: float) -> Certificate:
    """Bound the total variation between the outputs of the two most distinguishable classes.

    Let A be the best set of outputs for the truly worst pair (a, b): it is fixed, if
    unknown. TV = p(A|a) - p(A|b), and the rows' version of that is at most their plug-in
    TV. Q(A|x) has a range of at most eta, the Dobrushin coefficient, so Hoeffding's
    inequality gives TV <= TV^ + eta sqrt(ln(1/alpha)/2 (1/n_a + 1/n_b)); ``deviations`` has the
    sharper Bernstein version that is used. Because only the worst pair has to hold, the
    maximum over pairs needs no union bound. ``deviations`` has the bounds for groups, too. Where
    outputs are too many to list, the kernel of ``deviations`` stands in.

    Without rows: eta, and tanh(epsilon/2) from the structural epsilon.
    """
    check_alpha(alpha)
    value = min(_pair_limit(rows), _worst_pair(rows, alpha))
    return _attack_certificate(
        "total variation",
        value,
        1.0,
        rows,
        alpha,
        f"{opening(rows, alpha)} the outputs of any two private classes overlap "
        f"by at least {down(1 - min(value, 1)):.3f} (total variation at most {up(value):.3f})",
        ceiling=_pair_limit(rows),
    )


def certify_advantage(rows: AuditRows, alpha: float) -> Certificate:
    """Bound how far any attacker beats guessing: ``exact.advantage``.

    The advantage is the larger of balanced accuracy - 1/m and half the worst pair's total
    variation. Balanced accuracy is (1/m) sum_g p(A_g|g) for a fixed best partition, and
    the argument of ``certify_total_variation`` gives
    (1/m) (sum_z max_g p^(z|g) + eta sqrt(ln(1/alpha)/2 sum_g 1/n_g)). One of the two is the
    larger one in truth, and only that one has to hold: no union bound.

    Without rows: eta (m - 1)/m, and e^eps/(e^eps + m - 1) - 1/m.
    """
    check_alpha(alpha)
    pair = 0.5 * min(_pair_limit(rows), _worst_pair(rows, alpha))
    m = rows.n_classes
    balanced = min(_balanced_limit(rows), _balanced_gain(rows, alpha)) if m > 2 else pair
    value = max(pair, balanced)
    return _attack_certificate(
        "advantage",
        value,
        1 - 1 / m,
        rows,
        alpha,
        f"{opening(rows, alpha)} no attacker, with any method and the mapping file "
        f"in hand, beats guessing by more than {at_most(value)}",
        ceiling=max(0.5 * _pair_limit(rows), _balanced_limit(rows)),
    )


def certify_accuracy(rows: AuditRows, alpha: float, prior: Floats | None = None) -> Certificate:
    """Bound the plain accuracy of any attacker, with the classes as frequent as they are.

    With a known prior: sum_z max_g prior_g p^(z|g) plus the deviation, or the inverse of kl
    there if that is less (rows weigh prior_g/n_g, and the largest weight stands for 1/n;
    both are about one and the same average, see ``deviations``), and without rows
    max prior + (1 - max prior) eta.

    Otherwise the rows must be drawn at random, classes and all. For the fixed best
    partition, accuracy is the mean of Q(A_g|x) in [0, 1] over rows, so Chernoff's bound
    inverts kl at the plug-in accuracy with n rows. Half of alpha goes there; half to an upper
    bound on the largest prior, which with eta bounds the accuracy as above. With groups, one
    is drawn and then any of its rows: the means over groups are what is averaged.
    """
    check_alpha(alpha)
    if prior is not None:
        value = _accuracy_with_prior(rows, alpha, prior)
    else:
        value = _accuracy_from_shares(rows, alpha)
    return _attack_certificate(
        "accuracy",
        value,
        1.0,
        rows,
        alpha,
        f"{opening(rows, alpha, any_class=True)} no attacker names the private class correctly "
        f"more often than {100 * up(value):.1f} times in 100",
        (share_assumption(rows, prior),),
    )


def _attack_certificate(
    name: str,
    value: float,
    trivial: float,
    rows: AuditRows,
    alpha: float,
    words: str,
    extra: tuple[str, ...] = (),
    ceiling: float = np.inf,
) -> Certificate:
    """Make the certificate, or say that the bound is no better than none.

    ``ceiling`` is what the tables alone guarantee.
    """
    found: float | NotCertifiable = value * ROUND_UP
    if not rows.listable and (left_out := KernelRows.of(rows).left_out) and name != "accuracy":
        words += f" (from {left_out})"
    words += "."
    # An accuracy just below 1 says much where one class is nearly always the right guess.
    if value >= trivial * (1 - 1e-12 if name == "accuracy" else _NO_BETTER):
        reason = f"{rows.counted} do not rule out that an attacker is always right"
        if not rows.listable:
            reason += f"; {many(rows.n_outputs)} outputs are too many to list"
        found = NotCertifiable(reason)
        words = found.words
    return Certificate(
        name,
        found,
        1 - alpha,
        rows.counts,
        (*row_assumptions(rows), *extra),
        words,
        rows.counted,
        of_tables=not isinstance(found, NotCertifiable) and found >= ceiling,
    )


def _structural_total(rows: AuditRows) -> float:
    return float(structural_epsilons(rows.tables).sum())


def _pair_limit(rows: AuditRows) -> float:
    return min(rows.eta, float(np.tanh(0.5 * _structural_total(rows))))


def _balanced_limit(rows: AuditRows) -> float:
    m = rows.n_classes
    by_ratio = advantage_at(_structural_total(rows), m)
    return min(rows.eta * (m - 1) / m, by_ratio)


def _worst_pair(rows: AuditRows, alpha: float) -> float:
    if 0 in rows.counts:
        return 1.0
    if not rows.listable:
        return kernel_total_variation(KernelRows.of(rows), alpha)
    given, worst = rows.average, 0.0
    for a, b in combinations(range(rows.n_classes), 2):
        factors = np.zeros(rows.n_classes)
        factors[[a, b]] = 1.0
        distance = 0.5 * float(np.abs(given[a] - given[b]).sum())
        worst = max(worst, distance + deviation(rows, alpha, factors))
    return worst


def _balanced_gain(rows: AuditRows, alpha: float) -> float:
    if 0 in rows.counts:
        return 1.0
    if not rows.listable:
        return kernel_balanced_gain(KernelRows.of(rows), alpha)
    m = rows.n_classes
    found = float(rows.average.max(axis=0).sum())
    return (found + deviation(rows, alpha, np.ones(m)) - 1.0) / m


def _accuracy_with_prior(rows: AuditRows, alpha: float, prior: Floats) -> float:
    limit = _accuracy_limit(rows, float(prior.max()))
    if not rows.listable or any(n == 0 and p > 0 for n, p in zip(rows.counts, prior, strict=True)):
        return limit
    found = min(1.0, float((prior[:, None] * rows.average).max(axis=0).sum()))
    stray = deviation(rows, alpha, prior)
    if rows.groups is not None:
        return min(limit, found + stray)
    weight = float(np.max(prior / np.maximum(rows.counts, 1)))
    by_kl = float(kl_upper(found, np.log(1.0 / ((1 - VARIANCE_SHARE) * alpha)) * weight))
    return min(limit, by_kl, found + stray)


def _accuracy_from_shares(rows: AuditRows, alpha: float) -> float:
    if not len(rows.index):
        return 1.0
    if rows.groups is None:
        largest = clopper_pearson_upper(rows.counts, len(rows.index), alpha / 2).max()
    else:
        largest = overall_upper(rows, rows.shares, alpha / 2).max()
    limit = _accuracy_limit(rows, float(largest))
    if not rows.listable:
        return limit
    found = np.minimum(1.0, rows.joint.max(axis=0).sum())
    return min(limit, float(overall_upper(rows, found, alpha / 2)))


def _accuracy_limit(rows: AuditRows, largest: float) -> float:
    """Bound the accuracy by the largest prior and the tables alone."""
    odds = (1.0 - largest) * float(np.exp(-_structural_total(rows)))
    by_ratio = largest / (largest + odds) if largest + odds else 1.0
    return min(largest + (1.0 - largest) * rows.eta, by_ratio)


# --- Beyond the answer ----------------------------------------------------------------------


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
    share, lower = alpha / public.n_classes, None
    if rows.cap is None:
        reached = (certify_lower(own, share, seed) for own in within)
        lower = max((each.advantage for each in reached if each is not None), default=None)
    names = [f"{public.name}={shown(cls)}" for cls in public.classes]
    by_class = tuple(
        _reworded(
            certify_advantage(own, alpha),
            f"{BEYOND}, {where}",
            f"{opening(own, alpha)} no attacker who knows that {where} beats guessing by more than",
            f"within {where}, ",
        )
        for where, own in zip(names, within, strict=True)
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
        estimates=tuple(
            advantage(own.average) if own.listable and 0 not in own.counts else None
            for own in within
        ),
        answer=_reworded(
            certify_advantage(alone, alpha),
            "advantage of the public fact by itself",
            f"{opening(alone, alpha)} knowing {public.name!r} and nothing else beats guessing by "
            "at most",
        ),
        answer_estimate=advantage(alone.average),
        lower=lower,
    )


def rows_within(rows: AuditRows, public: Labels) -> list[AuditRows]:
    """Return the rows of each public class."""
    return [rows.take(public.index == h) for h in range(public.n_classes)]


def _reworded(found: Certificate, name: str, words: str, where: str = "") -> Certificate:
    """Return a certificate under another name; its words, or its reason, begin with these."""
    if isinstance(found.value, NotCertifiable):
        nothing = NotCertifiable(where + found.value.reason)
        return replace(found, name=name, value=nothing, words=nothing.words)
    return replace(found, name=name, words=f"{words} {at_most(found.value)}.")


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
