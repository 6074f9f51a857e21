"""Certificates for epsilon: how much any single output can tell about the private class.

``PointwiseAudit`` holds the rows, split at random into a pilot, which chooses bets and
rare outputs, and the main rows, which bound. The seed is recorded with the split. What
alpha covers, certificate by certificate:

* ``pairwise``: max log p(z|a)/p(z|b). All of alpha goes to the one ratio that is truly
  largest; see ``ratios`` for why there is no union over outputs.
* ``information``: max |log p(g|z)/p(g)|, at one output and class, unknown but fixed. It
  is a function of the m - 1 ratios of that class and of the prior. A tenth of alpha goes
  to the prior if it has to be estimated, the rest is divided by m - 1.
* ``beyond``: epsilon outside a set of outputs with a mass of at most delta in every
  class. alpha is divided by the number of deltas, so that the whole curve holds at once.
  The pilot orders outputs by the bound they are expected to get and proposes up to two sets
  of the worst ones, besides the empty set. On the main rows the largest set is taken whose
  mass is shown to be at most delta: the sets are nested, so a mistake means that the first
  set that is really too large passed, and the sets need no union, only the classes (a
  quarter of alpha, divided by m). The rest is divided by the number of sets, since the
  output that is worst outside depends on the set; then as above. If the pilot proposes
  nothing, all of alpha goes to the ratios.

More outputs than ``MAX_AUDIT_OUTPUTS`` are not listed: only the structural bound is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.certificates import (
    PRIOR_GIVEN,
    SHARES,
    Certificate,
    NotCertifiable,
    check_alpha,
    many,
    percent,
    row_assumptions,
    structural_epsilons,
)
from discreet.auditing.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
)
from discreet.auditing.outputs_given import AuditRows
from discreet.auditing.ratios import PILOT_SHARE, bound_ratios
from discreet.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Box = tuple[Floats, Floats]

DELTAS = (0.001, 0.01, 0.05)
_PRIOR_SHARE = 0.1  # of alpha, for an estimated prior
_MASS_SHARE = 0.25  # of alpha, for the mass of the rare set
_PROPOSALS = (0.9, 0.5)  # shares of delta that the pilot aims the rare sets at
_ROUND_UP = 1 + 1e-9


class PointwiseAudit:
    """Epsilon certificates for one private fact.

    Parameters
    ----------
    rows : AuditRows
    seed : int
        Of the split into pilot and main rows. It is to be fixed before the audit: the best
        of several splits holds less often than promised.
    prior : ndarray of shape (n_classes,), optional
        Exact probabilities of the classes. If not given they are estimated from the rows,
        which must then be drawn at random, classes and all.
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
            cells = _pairwise_cells(bound_ratios(self.pilot, self.main, alpha).logs)
        return self._certificate("pairwise epsilon", alpha, cells, self.limit)

    def information(self, alpha: float) -> Certificate:
        """Bound max |log p(g|z)/p(g)| over classes and outputs."""
        check_alpha(alpha)
        box, left = self._prior_box(alpha)
        cells = None
        if self.rows.listable:
            ratios = bound_ratios(self.pilot, self.main, left / (self.rows.n_classes - 1))
            cells = _information_cells(ratios.logs, box)
        # Without listing outputs every ratio is as large as the tables allow.
        m = self.rows.n_classes
        widest = np.full((m, m, 1), self.limit)
        widest[np.arange(m), np.arange(m)] = 0.0
        limit = float(_information_cells(widest, box)[0])
        return self._certificate("information epsilon", alpha, cells, limit, information=True)

    def beyond(
        self, alpha: float, deltas: Sequence[float] = DELTAS, *, information: bool = False
    ) -> tuple[Certificate, ...]:
        """Bound epsilon outside outputs with a mass of at most delta, for every delta.

        The mass counts in every class, so it also bounds the probability of those outputs
        overall, whatever the prior.
        """
        check_alpha(alpha)
        if not all(0 < delta < 1 for delta in deltas):
            raise InputError(f"every delta must be between 0 and 1, got {tuple(deltas)}.")
        kind = "information epsilon" if information else "pairwise epsilon"
        names = [f"{kind} beyond a mass of {delta:g}" for delta in deltas]
        if not self.rows.listable:
            plain = self.information(alpha) if information else self.pairwise(alpha)
            return tuple(replace(plain, name=name) for name in names)
        each = alpha / len(deltas)
        box, left = self._prior_box(each) if information else (None, each)
        share = left / (self.rows.n_classes - 1 if information else 1)
        bounds = cache(lambda part: bound_ratios(self.pilot, self.main, share * part))
        parts = [1.0] + [(1 - _MASS_SHARE) / (1 + k) for k in range(1, len(_PROPOSALS) + 1)]
        order = np.argsort(-_cells(bounds(parts[-1]).expected, box), kind="stable")
        foreseen, proven = self._masses(order, _MASS_SHARE * left)
        found = []
        for name, delta in zip(names, deltas, strict=True):
            aims = {int(np.searchsorted(foreseen, s * delta, "right")) for s in _PROPOSALS}
            sets = sorted(aims - {0})
            cells = _cells(bounds(parts[len(sets)]).logs, box)
            aside = max((k for k in sets if proven[k - 1] <= delta), default=0)
            kept = order[aside:]
            found.append(
                self._certificate(
                    name, alpha, cells[kept], self.limit, kept, information=information, delta=delta
                )
            )
        return tuple(found)

    def _masses(self, order: Ints, alpha: float) -> tuple[Floats, Floats]:
        """Bound the mass of the first 1, 2, ... outputs: as the pilot foresees it, and proven."""
        size = self.main.moments.size[:, None]
        if not size.all():
            return np.ones(len(order)), np.ones(len(order))
        level = np.log(self.rows.n_classes / alpha) / size
        foreseen = _mass_bounds(self.pilot.average[:, order], level)
        return foreseen, _mass_bounds(self.main.average[:, order], level)

    def _prior_box(self, alpha: float) -> tuple[Box, float]:
        """Return bounds on the prior and what is left of alpha."""
        if self.prior is not None:
            return (self.prior, self.prior), alpha
        each = _PRIOR_SHARE * alpha / (2 * self.rows.n_classes)
        left = (1 - _PRIOR_SHARE) * alpha
        counts, n_rows = np.array(self.rows.counts), sum(self.rows.counts)
        if not n_rows:
            return (np.zeros(len(counts)), np.ones(len(counts))), left
        if self.rows.groups is None:
            low = clopper_pearson_lower(counts, n_rows, each)
            return (low, clopper_pearson_upper(counts, n_rows, each)), left
        level = np.log(1.0 / each) / self.rows.independent_rows
        return (kl_lower(counts / n_rows, level), kl_upper(counts / n_rows, level)), left

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
        words = _say(epsilon, alpha, information, delta)
        if not np.isfinite(epsilon):
            reason = self._why(cells, numbers)
            value, words = NotCertifiable(reason), f"Nothing is promised: {reason}."
        assumptions = row_assumptions(self.rows)
        if information:
            assumptions += (SHARES if self.prior is None else PRIOR_GIVEN,)
        return Certificate(name, value, 1 - alpha, self.rows.counts, assumptions, words)

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
        counts = ", ".join(map(str, self.rows.counts))
        return (
            f"with {counts} rows by class, {len(open_cells)} of {self.rows.n_outputs} outputs are "
            f"too rare to rule out that some class never sends them, for example ({shown})"
        )


def _cells(logs: Floats, box: Box | None) -> Floats:
    return _pairwise_cells(logs) if box is None else _information_cells(logs, box)


def _pairwise_cells(logs: Floats) -> Floats:
    found: Floats = logs.max(axis=(0, 1))
    return found


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


def _mass_bounds(given: Floats, level: Floats) -> Floats:
    """Return upper bounds on the mass of the first k outputs in every class, k = 1, 2, ..."""
    masses = np.minimum(np.cumsum(given, axis=1), 1.0)
    found: Floats = np.maximum.accumulate(kl_upper(masses, level).max(axis=0))
    return found


def _say(epsilon: float, alpha: float, information: bool, delta: float | None) -> str:
    rare = "" if delta is None else f"outside outputs that occur in at most {delta:.3%} of cases, "
    if information:
        what = (
            "no output makes any private class more than "
            f"exp({epsilon:.3f}) = {np.exp(epsilon):.3g} times as likely, or as unlikely, as before"
        )
    else:
        what = (
            f"no output is more than exp({epsilon:.3f}) = {np.exp(epsilon):.3g} times as likely "
            "for one private class as for another"
        )
    return f"At confidence {percent(1 - alpha)}, {rare}{what}."
