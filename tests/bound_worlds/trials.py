"""Audit rows of a world again and again, and count how often each certificate holds."""

from dataclasses import dataclass

import numpy as np

from bound_worlds.laws import DELTA
from discreet.auditing.certificates import (
    certify_accuracy,
    certify_advantage,
    certify_total_variation,
)
from discreet.auditing.pointwise import PointwiseAudit

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
        "information epsilon": lambda: audit.information(ALPHA),
    }
    if not world.quick:
        calls |= {
            "pairwise epsilon": lambda: audit.pairwise(ALPHA),
            f"pairwise beyond {DELTA}": lambda: audit.beyond(ALPHA, (DELTA,))[0],
            f"information beyond {DELTA}": lambda: audit.beyond(ALPHA, (DELTA,), information=True)[
                0
            ],
        }
    return {name: _number(call()) for name, call in calls.items() if only is None or name in only}


def _number(certificate):
    return np.inf if certificate.bound is None else certificate.bound


@dataclass(frozen=True)
class Coverage:
    """How often one certificate held in one world."""

    bounds: np.ndarray
    truth: float

    @property
    def holds(self):
        return float(np.mean(self.bounds >= self.truth - _ROUNDING))

    @property
    def exists(self):
        return float(np.isfinite(self.bounds).mean())

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
    rng = np.random.default_rng(seed)
    found = [certify(world, world.draw(rng), trial, only) for trial in range(trials)]
    return {
        name: Coverage(np.array([each[name] for each in found]), world.law.truths[name])
        for name in found[0]
    }
