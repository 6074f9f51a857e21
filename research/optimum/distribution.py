"""A known distribution of codes and facts, in the form that makes p(facts, z) cheap.

It is a weighted list of *profiles*. Within a profile sensors are independent: profile i has
one distribution over the codes of each sensor and one weight for each *cell*, a combination
of the public class and the private ones. So

    p(cell, z) = sum_i weights[i, cell] prod_t (profiles[t] Q^t)[i, z^t].

A table of rows is one profile per distinct row, with all its mass on one code per sensor.
Sensors that are independent given all facts are one profile per cell, and a mixture of the
two is both lists, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.errors import InputError

_ROUNDING = 1e-9  # how far from 1 a sum of probabilities may be


@dataclass(frozen=True)
class Distribution:
    """p(public, private facts, codes) as a weighted list of profiles.

    ``weights`` of shape (n_profiles, n_cells): p(profile, cell); sums to 1. ``profiles`` of shape
    (n_profiles, n_codes): one per sensor: the distribution of its code in each profile. ``public``
    of shape (n_cells,): the public class of each cell, 0 to n - 1. ``private`` of shape (n_cells,):
    one per private fact: its class in each cell.
    """

    weights: Floats
    profiles: tuple[Floats, ...]
    public: Ints
    private: tuple[Ints, ...]

    def __post_init__(self) -> None:
        _check_sums("weights", np.array([self.weights.sum()]))
        for t, profile in enumerate(self.profiles):
            _check_sums(f"the profiles of sensor {t}", profile.sum(axis=1))
            if len(profile) != len(self.weights):
                raise InputError(
                    f"Sensor {t} has {len(profile)} profiles where there are "
                    f"{len(self.weights)} rows of weights: give one for each."
                )
        for fact in (self.public, *self.private):
            if len(fact) != self.weights.shape[1]:
                raise InputError(
                    f"A fact gives classes to {len(fact)} cells where there are "
                    f"{self.weights.shape[1]}: give one class for each."
                )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each sensor has."""
        return tuple(profile.shape[1] for profile in self.profiles)

    @classmethod
    def from_rows(
        cls,
        codes: Ints,
        public: Ints,
        private: Sequence[Ints],
        sizes: Sequence[int],
        weights: Floats | None = None,
    ) -> Distribution:
        """Return the distribution that draws one of the rows, evenly unless ``weights`` are given.

        Rows with the same codes share a profile.
        """
        share = np.full(len(codes), 1.0 / len(codes)) if weights is None else weights
        facts, cell = np.unique(np.column_stack([public, *private]), axis=0, return_inverse=True)
        distinct, row = np.unique(codes, axis=0, return_inverse=True)
        joint = np.zeros((len(distinct), len(facts)))
        np.add.at(joint, (row.ravel(), cell.ravel()), share)
        profiles = tuple(np.eye(size)[distinct[:, t]] for t, size in enumerate(sizes))
        return cls(joint, profiles, facts[:, 0], tuple(facts[:, 1:].T))

    @classmethod
    def independent(
        cls, given: Sequence[Floats], prior: Floats, public: Ints, private: Sequence[Ints]
    ) -> Distribution:
        """Return sensors that are independent given the cell.

        ``given`` of shape (n_cells, n_codes): one per sensor: p(code|cell). ``prior`` of shape
        (n_cells,): p(cell). Cells that never occur are left out. ``public``, ``private``: classes
        of the cells.
        """
        kept = prior > 0
        return cls(
            np.diag(prior[kept]),
            tuple(np.asarray(table)[kept] for table in given),
            np.asarray(public)[kept],
            tuple(np.asarray(fact)[kept] for fact in private),
        )

    def mixed_with(self, other: Distribution, share: float) -> Distribution:
        """Return ``share`` of the other distribution and the rest of this one."""
        if self.sizes != other.sizes:
            raise InputError(
                f"A mixture needs the same codes on both sides, got {self.sizes} and {other.sizes}."
            )
        mine, theirs = self._facts(), other._facts()
        facts = np.unique(np.concatenate([mine, theirs]), axis=0)
        weights = np.zeros((len(self.weights) + len(other.weights), len(facts)))
        weights[: len(self.weights), _places(mine, facts)] = (1 - share) * self.weights
        weights[len(self.weights) :, _places(theirs, facts)] = share * other.weights
        both = zip(self.profiles, other.profiles, strict=True)
        profiles = tuple(np.concatenate(pair) for pair in both)
        return Distribution(weights, profiles, facts[:, 0], tuple(facts[:, 1:].T))

    def _facts(self) -> Ints:
        return np.column_stack([self.public, *self.private])

    def class_rows(self, fact: Ints) -> Floats:
        """Return one 0/1 row over the cells for each class of a fact, empty classes left out."""
        present = np.unique(fact[self.weights.sum(axis=0) > 0])
        return np.asarray(fact == present[:, None], dtype=np.float64)

    def shares(self, fact: Ints) -> Floats:
        """Return the probability of each class of a fact, empty classes left out."""
        return np.asarray(self.class_rows(fact) @ self.weights.sum(axis=0))

    def given_rows(self, fact: Ints) -> Floats:
        """Return rows that turn p(cell, z) into p(z|class), one for each class that occurs."""
        return np.asarray(self.class_rows(fact) / self.shares(fact)[:, None])

    def joint_outputs(self, tables: Sequence[Floats]) -> Floats:
        """Return p(cell, z) for every output z, the first sensor slowest."""
        product = np.ones((len(self.weights), 1))
        for profile, table in zip(self.profiles, tables, strict=True):
            wider = product[:, :, None] * (profile @ table)[:, None, :]
            product = wider.reshape(len(product), -1)
        outputs: Floats = self.weights.T @ product
        return outputs


def _check_sums(what: str, sums: Floats) -> None:
    worst = sums[np.argmax(np.abs(sums - 1.0))]
    if not abs(worst - 1.0) <= _ROUNDING:
        raise InputError(f"Probabilities in {what} must add up to 1, got {worst:.9g}.")


def _places(facts: Ints, among: Ints) -> Ints:
    """Return where each row of ``facts`` stands among the rows of another list."""
    matches = (facts[:, None, :] == among[None, :, :]).all(axis=2)
    return np.asarray(np.argmax(matches, axis=1), dtype=np.int64)
