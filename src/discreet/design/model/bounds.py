"""What no tables can beat: the best of a curator who sees all readings at once.

Whatever tables and rule are used, the rule's answer is a random function of all codes, and it
tells no more about the private facts than the symbols did. So the best random answer to all
codes together, a linear program, errs no more than any tables. Where the codes together are
too many to list, the curator is told the profile instead, which says more still.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from discreet.design.model.distribution import Distribution
from discreet.design.model.limits import Ceiling

Floats = NDArray[np.float64]

_MAX_CODES = 100_000  # joint codes to list
_MAX_MEANINGS = 2_000  # distinct posteriors that the program is worth its time for


def lower_bound(
    distribution: Distribution, ceilings: Sequence[Ceiling], ldp_total: float = np.inf
) -> float:
    """Return a public error that no tables within the ceilings go below.

    ``ldp_total``: sum of the sensors' local epsilons: the answer to all codes keeps that sum.
    """
    answers = _Answers(distribution, ceilings, _meanings(distribution))
    answers.add_ceilings()
    if np.isfinite(ldp_total):
        answers.add_local(np.exp(ldp_total))
    return answers.least_error()


def _meanings(distribution: Distribution) -> Floats:
    """Return p(cell, meaning), where codes with the same posterior mean the same."""
    n_codes = float(np.prod([float(size) for size in distribution.sizes]))
    if all(np.isin(profile, (0.0, 1.0)).all() for profile in distribution.profiles):
        return _merged(distribution.weights.T)
    if n_codes * len(distribution.weights) <= 50 * _MAX_CODES and n_codes <= _MAX_CODES:
        merged = _merged(distribution.joint_outputs([np.eye(size) for size in distribution.sizes]))
        if merged.shape[1] <= _MAX_MEANINGS:
            return merged
    return _merged(distribution.weights.T)


def _merged(joint: Floats) -> Floats:
    """Add up columns that are the same up to a factor."""
    joint = joint[:, joint.sum(axis=0) > 0]
    posterior = np.round(joint / joint.sum(axis=0), 12)
    _, group = np.unique(posterior, axis=1, return_inverse=True)
    merged = np.zeros((int(group.max()) + 1, len(joint)))
    np.add.at(merged, group.ravel(), joint.T)
    return np.ascontiguousarray(merged.T)


class _Answers:
    """The program in q(answer|meaning); an answer is a public class.

    Columns: q, answer by answer; then one per ceiling and answer; then one per answer for
    its least probability.
    """

    def __init__(
        self, distribution: Distribution, ceilings: Sequence[Ceiling], meanings: Floats
    ) -> None:
        self._ceilings, self._meanings = ceilings, meanings
        self._public = distribution.class_rows(distribution.public)
        self._n, self._m = meanings.shape[1], len(self._public)
        self._after_q = self._n * self._m
        self._least = self._after_q + len(ceilings) * self._m
        self._n_columns = self._least + self._m
        self._rows: list[Floats] = []
        self._bounds: list[Floats] = []

    def _new_rows(self, count: int, bounds: float) -> Floats:
        self._rows.append(np.zeros((count, self._n_columns)))
        self._bounds.append(np.full(count, bounds))
        return self._rows[-1]

    def _q(self, answer: int) -> slice:
        return slice(answer * self._n, (answer + 1) * self._n)

    def add_ceilings(self) -> None:
        for k, ceiling in enumerate(self._ceilings):
            price = self._after_q + k * self._m + np.arange(self._m)
            for answer in range(self._m):
                rows = self._new_rows(len(ceiling.steps), 0.0)
                rows[:, self._q(answer)] = ceiling.steps @ self._meanings
                rows[:, price[answer]] = -1.0
            self._new_rows(1, ceiling.room)[0, price] = 1.0

    def add_local(self, factor: float) -> None:
        each = np.arange(self._n)
        for answer in range(self._m):
            for sign, scale in ((1.0, factor), (-1.0, 1.0)):
                rows = self._new_rows(self._n, 0.0)
                rows[each, self._q(answer).start + each] = sign
                rows[:, self._least + answer] = -sign * scale

    def least_error(self) -> float:
        cost = np.zeros(self._n_columns)
        cost[: self._after_q] = -(self._public @ self._meanings).ravel()
        one = np.zeros((self._n, self._n_columns))
        for answer in range(self._m):
            one[:, self._q(answer)] = np.eye(self._n)
        self._new_rows(1, 0.0)  # a program without wishes needs some row too
        rows, bounds = np.concatenate(self._rows), np.concatenate(self._bounds)
        found = linprog(cost, rows, bounds, one, np.ones(self._n))
        return max(0.0, 1.0 + float(cost @ found.x)) if found.success else 0.0
