"""Audit rows of a world again and again, and count how often each certificate holds."""

from dataclasses import dataclass

import numpy as np

from discreet.auditing.bounds.certificates import (
    certify_accuracy,
    certify_advantage,
    certify_total_variation,
)
from discreet.auditing.bounds.epsilon import PointwiseAudit
from support.bound_worlds.laws import INFORMATION

ALPHA = 0.05
_ROUNDING = 1e-12  # of the truths, which are sums of some thousand terms


def certify(world, rows, seed, only=None):
    """The bounds by certificate, infinite where there is none; ``only`` some of them."""
    # Where rows were drawn class by class their shares say nothing about the prior.
    prior = world.law.prior if world.stated else None
    audit = PointwiseAudit(rows, seed, prior)
    calls = {
        "advantage": lambda: certify_advantage(rows, ALPHA),
        "total variation": lambda: certify_total_variation(rows, ALPHA),
        "accuracy": lambda: certify_accuracy(rows, ALPHA, prior),
        "pairwise epsilon": lambda: audit.pairwise(ALPHA),
    }
    found = {name: call() for name, call in calls.items() if only is None or name in only}
    if only is None or "information epsilon" in only:
        found |= zip(INFORMATION, _nested(audit), strict=True)
    return {name: _number(certificate) for name, certificate in found.items()}


def _nested(audit):
    """The bounds on the information epsilon as an audit has them, which hold all at once."""
    if hasattr(audit, "nested"):
        return audit.nested(ALPHA)
    # Before they were nested; only for comparisons with older checkouts.
    return audit.information(ALPHA), *audit.beyond(ALPHA, information=True)


def _number(certificate):
    return np.inf if certificate.bound is None else certificate.bound


@dataclass(frozen=True)
class Coverage:
    """How often one certificate held in one world; or several at once, by their least slack."""

    bounds: np.ndarray
    truth: float
    limit: float  # what the tables alone promise

    @property
    def holds(self):
        return float(np.mean(self.bounds >= self.truth - _ROUNDING))

    @property
    def exists(self):
        return float(np.isfinite(self.bounds).mean())

    @property
    def informs(self):
        """How often rows say more than the tables alone; else that it holds says nothing."""
        return float(np.mean(self.bounds < self.limit * (1 - 1e-6)))

    @property
    def median(self):
        return float(np.median(self.bounds))

    @property
    def two_errors(self):
        """Two standard errors of a share that is as promised."""
        return 2 * float(np.sqrt(ALPHA * (1 - ALPHA) / len(self.bounds)))

    @property
    def good(self):
        return self.holds >= 1 - ALPHA - self.two_errors


def try_world(world, trials, seed=1, only=None):
    """Return the coverage of every certificate over so many draws."""
    rng, only = np.random.default_rng(seed), only or world.only
    drawn = [certify(world, world.draw(rng), trial, only) for trial in range(trials)]
    truths, limits = world.law.truths, _without_rows(world, only)
    found = {
        name: Coverage(np.array([each[name] for each in drawn]), truths[name], limits[name])
        for name in limits
    }
    if "information epsilon" in found:
        found["all of information"] = _all_of([found[name] for name in INFORMATION])
    return found


def _without_rows(world, only):
    rows = world.draw(np.random.default_rng(0))
    with np.errstate(invalid="ignore"):
        return certify(world, rows.take(np.zeros(len(rows.index), dtype=bool)), 0, only)


def _all_of(several):
    """How far bounds are above their truths: the nearest of several, in every trial."""
    with np.errstate(invalid="ignore"):  # where there is no bound, even an infinite truth is fine
        slack = [np.where(np.isinf(c.bounds), np.inf, c.bounds - c.truth) for c in several]
        limit = min(c.limit - c.truth for c in several)
    return Coverage(np.min(slack, axis=0), 0.0, limit)
