"""Certificates for epsilon: how much any single output can tell about the private class.

``PointwiseAudit`` holds the rows, split at random into a pilot, which chooses bets and
rare outputs, and the main rows, which bound. The seed is recorded with the split. What
alpha covers, certificate by certificate:

* ``pairwise``: max log p(z|a)/p(z|b). All of alpha goes to the one ratio that is truly
  largest; see ``ratios`` for why there is no union over outputs.
* ``information``: max |log p(g|z)/p(g)|, at one output and class, unknown but fixed. It
  is a function of the m - 1 ratios of that class and of the prior. A tenth of alpha goes
  to the prior if it has to be estimated, the rest is divided by m - 1.
* ``nested``: the same, and epsilon outside a set of outputs with a mass of at most delta in
  every class, for several delta. All of these hold at once, and each implies the next: leaving
  outputs aside can only lower epsilon. So the smallest bound so far counts for all that follow.
  Most of alpha goes to epsilon without exceptions, the rest is divided by the number of
  deltas. The pilot orders outputs by the bound they are expected to get and proposes one
  set of the worst ones for each delta; a quarter of a delta's share, divided by m, goes to the
  proof on the main rows that its mass is at most delta, the rest to the ratios outside it.

More outputs than ``MAX_AUDIT_OUTPUTS`` are not listed: only the structural bound is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.certificates import (
    Certificate,
    NotCertifiable,
    check_alpha,
    many,
    opening,
    row_assumptions,
    share_assumption,
)
from discreet.auditing.bounds.intervals import clopper_pearson_lower, clopper_pearson_upper
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.ratios import PILOT_SHARE, bound_ratios
from discreet.auditing.bounds.spread import mean_upper, overall_lower, overall_upper
from discreet.errors import InputError
from discreet.leakage.exact import structural_epsilons
from discreet.quoting import factor, up

Box = tuple[Floats, Floats]

DELTAS = (0.001, 0.01, 0.05)
_PRIOR_SHARE = 0.1  # of alpha, for an estimated prior
_MASS_SHARE = 0.25  # of alpha, for the mass of the rare set
_WHOLE_SHARE = 0.8  # of alpha, for epsilon without exceptions
_AIM = 0.8  # of delta, what the pilot expects the proven mass of a rare set to be at most
_INFORMATION = "information epsilon"
BEYOND_MASS = f"{_INFORMATION} beyond a mass of "
"""How the names of certificates begin that leave rare outputs aside; their mass follows."""
_ROUND_UP = 1 + 1e-9


class PointwiseAudit:
    """Epsilon certificates for one private fact.

    ``seed``: of the split into pilot and main rows. It is to be fixed before the audit: the best of
    several splits holds less often than promised. ``prior`` of shape (n_classes,): exact
    probabilities of the classes. If not given they are estimated from the rows, which must then be
    drawn at random, classes and all.
    """

    def __init__(self, rows: AuditRows, seed: int, prior: Floats | None = None) -> None:
        if prior is not None and (len(prior) != rows.n_classes or not np.isclose(sum(prior), 1)):
            raise InputError("prior must hold one probability per class and sum to 1.")
        self.rows, self.seed, self.prior = rows, seed, prior
        self.pilot, self.main = rows.split(PILOT_SHARE, seed)
        self.limit = float(structural_epsilons(rows.tables).sum())

    def pairwise(self, alpha: float) -> Certificate:
        """Bound max log p(z|a)/p(z|b); it needs no prior."""
        check_alpha(alpha)
        cells = None
        if self.rows.listable:
            cells = bound_ratios(self.pilot, self.main, alpha).logs.max(axis=(0, 1))
        return self._certificate("pairwise epsilon", alpha, cells, self.limit)

    def information(self, alpha: float) -> Certificate:
        """Bound max |log p(g|z)/p(g)| over classes and outputs."""
        return self.nested(alpha, ())[0]

    def nested(self, alpha: float, deltas: Sequence[float] = DELTAS) -> tuple[Certificate, ...]:
        """Bound the information epsilon, then that outside a mass of at most each delta.

        All bounds hold at once, and none is above the one before it; ``deltas`` must grow. The
        mass counts in every class, so it also bounds the probability of those outputs overall,
        whatever the prior.
        """
        check_alpha(alpha)
        if not all(0 < delta < 1 for delta in deltas) or list(deltas) != sorted(deltas):
            raise InputError(f"every delta must be between 0 and 1, in order, got {tuple(deltas)}.")
        box, left = self._prior_box(alpha)
        limit = self._information_limit(box)
        whole = left if not deltas else _WHOLE_SHARE * left
        cells = self._information_cells(whole, box)
        found = [self._certificate(_INFORMATION, alpha, cells, limit, information=True)]
        if deltas:
            each = (left - whole) / len(deltas)
            found += self._beyond(alpha, each, deltas, box, found[0])
        return tuple(found)

    def _beyond(
        self, alpha: float, each: float, deltas: Sequence[float], box: Box, whole: Certificate
    ) -> list[Certificate]:
        """Bound what is left when the outputs that the pilot proposes are set aside."""
        names = [f"{BEYOND_MASS}{delta:g}" for delta in deltas]
        if not self.rows.listable:
            return [replace(whole, name=name) for name in names]
        share = (1 - _MASS_SHARE) * each / (self.rows.n_classes - 1)
        bounds = bound_ratios(self.pilot, self.main, share)
        # Outputs are ordered and proposed by the pilot alone.
        foreseen_prior = box if self.rows.groups is None else (self.pilot.shares,) * 2
        order = np.argsort(-_information_cells(bounds.expected, foreseen_prior), kind="stable")
        cells = _information_cells(bounds.logs, box)
        foreseen, proven = self._masses(order, _MASS_SHARE * each)
        found, least = [], np.inf if whole.bound is None else whole.bound / _ROUND_UP
        for name, delta in zip(names, deltas, strict=True):
            aside = int(np.searchsorted(foreseen, _AIM * delta, "right"))
            kept = order[aside if aside and proven[aside - 1] <= delta else 0 :]
            own = self._certificate(
                name, alpha, cells[kept], least, kept, information=True, delta=delta
            )
            least = min(least, np.inf if own.bound is None else own.bound / _ROUND_UP)
            found.append(own)
        return found

    def _information_cells(self, alpha: float, box: Box) -> Floats | None:
        if not self.rows.listable:
            return None
        ratios = bound_ratios(self.pilot, self.main, alpha / (self.rows.n_classes - 1))
        return _information_cells(ratios.logs, box)

    def _information_limit(self, box: Box) -> float:
        """Return the bound without listed outputs: every ratio is as large as the tables allow."""
        m = self.rows.n_classes
        widest = np.full((m, m, 1), self.limit)
        widest[np.arange(m), np.arange(m)] = 0.0
        return float(_information_cells(widest, box)[0])

    def _masses(self, order: Ints, alpha: float) -> tuple[Floats, Floats]:
        """Bound the mass of the first 1, 2, ... outputs: as the pilot foresees it, and proven."""
        share = alpha / self.rows.n_classes
        # How many rows of a class there are is given; how many groups have it is random.
        known = self.main if self.rows.groups is None else self.pilot
        foreseen, proven = (
            np.stack([
                mean_upper(sizes, k, np.minimum(np.cumsum(given[order]), 1.0), share)
                for k, given in enumerate(part.average)
            ]).max(axis=0)
            for part, sizes in ((self.pilot, known), (self.main, self.main))
        )  # fmt: skip
        return np.maximum.accumulate(foreseen), np.maximum.accumulate(proven)

    def _prior_box(self, alpha: float) -> tuple[Box, float]:
        """Return bounds on the prior and what is left of alpha."""
        if self.prior is not None:
            return (self.prior, self.prior), alpha
        rows = self.rows
        each = _PRIOR_SHARE * alpha / (2 * rows.n_classes)
        left = (1 - _PRIOR_SHARE) * alpha
        counts, n_rows = np.array(rows.counts), sum(rows.counts)
        if not n_rows:
            return (np.zeros(len(counts)), np.ones(len(counts))), left
        if rows.groups is None:
            low = clopper_pearson_lower(counts, n_rows, each)
            return (low, clopper_pearson_upper(counts, n_rows, each)), left
        low = overall_lower(rows, rows.shares, each)
        return (low, overall_upper(rows, rows.shares, each)), left

    def _certificate(
        self,
        name: str,
        alpha: float,
        cells: Floats | None,
        limit: float,
        numbers: Ints | None = None,
        *,
        information: bool = False,
        delta: float | None = None,
    ) -> Certificate:
        """Make the certificate from bounds by output, or from the tables alone."""
        epsilon = limit if cells is None else min(limit, float(np.max(cells, initial=0.0)))
        value: float | NotCertifiable = epsilon * _ROUND_UP
        words = f"{opening(self.rows, alpha)} {_say(epsilon, information, delta)}."
        if not np.isfinite(epsilon):
            value = NotCertifiable(self._why(cells, numbers))
            words = value.words
        assumptions = row_assumptions(self.rows)
        if information:
            assumptions += (share_assumption(self.rows, self.prior),)
        counts, counted = self.rows.counts, self.rows.counted
        of_tables = np.isfinite(epsilon) and epsilon * _ROUND_UP >= self.limit
        return Certificate(
            name, value, 1 - alpha, counts, assumptions, words, counted, of_tables=bool(of_tables)
        )

    def _why(self, cells: Floats | None, numbers: Ints | None) -> str:
        if cells is None:
            return (
                f"{many(self.rows.n_outputs)} outputs are too many to list, and some table sends a "
                "symbol only for some codes"
            )
        open_cells = np.flatnonzero(~np.isfinite(cells))
        first = int(open_cells[0] if numbers is None else numbers[open_cells].min())
        symbols = np.unravel_index(first, [table.shape[1] for table in self.rows.tables])
        names = self.rows.sensors or [str(t) for t in range(len(symbols))]
        shown = ", ".join(f"{name}={z}" for name, z in zip(names, symbols, strict=True))
        return (
            f"with {self.rows.counted}, {len(open_cells)} of {self.rows.n_outputs} outputs are "
            f"too rare to rule out that some class never sends them, for example ({shown})"
        )


def _information_cells(logs: Floats, box: Box) -> Floats:
    """Return the largest |log p(g|z)/p(g)| by output that ratios and priors allow.

    p(z)/p(z|g) = sum_h prior_h p(z|h)/p(z|g) is linear in the prior and lies between the
    sums with the smallest and the largest ratios.
    """
    worst = np.zeros(logs.shape[2])
    for g in range(len(logs)):
        least = _linear_extreme(np.exp(-logs[g]), box, np.argsort)
        with np.errstate(over="ignore"):
            most = _linear_extreme(np.exp(logs[:, g]), box, lambda c, axis: np.argsort(-c, axis))
        with np.errstate(divide="ignore"):
            worst = np.maximum(worst, np.maximum(-np.log(least), np.log(most)))
    return worst


def _linear_extreme(coefficients: Floats, box: Box, rank: Callable[..., Ints]) -> Floats:
    """Return the extreme of sum prior_h coefficient_h over the box and the simplex.

    Everybody gets the lower end first; the rest is handed out in the order of ``rank``.
    """
    low, high = box
    order = rank(coefficients, axis=0)
    total: Floats = _weighted(low[:, None], coefficients).sum(axis=0)
    left = np.full(coefficients.shape[1], 1.0 - low.sum())
    for place in order:
        part = np.clip(np.minimum(left, (high - low)[place]), 0.0, None)
        own = np.take_along_axis(coefficients, place[None, :], axis=0)[0]
        total += _weighted(part, own)
        left -= part
    return total


def _weighted(weights: Floats, values: Floats) -> Floats:
    """Multiply, with nothing of infinity being nothing."""
    with np.errstate(invalid="ignore"):
        product: Floats = np.where(weights > 0, weights * values, 0.0)
    return product


def _say(epsilon: float, information: bool, delta: float | None) -> str:
    rare = "" if delta is None else f"outside outputs that occur in at most {delta:.3%} of cases, "
    if information:
        what = (
            "no output makes any private class more than "
            f"exp({up(epsilon):.3f}) = {factor(epsilon)} times as likely, or as unlikely, as before"
        )
    else:
        what = (
            f"no output is more than exp({up(epsilon):.3f}) = {factor(epsilon)} times as likely "
            "for one private class as for another"
        )
    return f"{rare}{what}"
