"""What an attacker could know of a world, and what the certificates bound of it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.auditing.bounds.epsilon import DELTAS
from discreet.leakage.exact import advantage, information_epsilon, pairwise_epsilon, total_variation

INFORMATION = ("information epsilon", *(f"information beyond {delta}" for delta in DELTAS))


@dataclass(frozen=True)
class Law:
    """p(z|class), p(class), and p(class, z) where that is not their product.

    The product fails if a home is drawn first: classes that share a home divide its weight.
    """

    given: np.ndarray
    prior: np.ndarray
    joint: np.ndarray | None = None

    @cached_property
    def truths(self):
        """What each certificate has to be above."""
        given, prior = self.given, self.prior
        joint = prior[:, None] * given if self.joint is None else self.joint
        changes = information_changes(given, prior)
        beyond = [least_beyond(given, changes, delta) for delta in DELTAS]
        return {
            "advantage": advantage(given),
            "total variation": total_variation(given),
            "accuracy": float(joint.max(axis=0).sum()),
            "pairwise epsilon": pairwise_epsilon(given),
            "information epsilon": information_epsilon(given, prior),
            **dict(zip(INFORMATION[1:], beyond, strict=True)),
        }


def information_changes(given, prior):
    """The largest |log p(class|z)/p(class)|, by output."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(given) - np.log(prior @ given))
    return np.where(given.max(axis=0) > 0, ratios, 0.0).max(axis=0)


def least_beyond(given, changes, delta):
    """The least epsilon outside a set that has a mass of at most delta in every class.

    A set that leaves a smaller one holds every output with a larger change, so the best sets
    are the first so many outputs in the order of their changes.
    """
    order = np.argsort(-changes, kind="stable")
    masses = np.cumsum(given[:, order], axis=1).max(axis=0)
    kept = order[masses > delta * (1 + 1e-12)]
    return float(np.max(changes[kept], initial=0.0))
