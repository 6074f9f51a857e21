"""Fuse the symbols that came, with the sensors that are silent summed out.

A silent sensor is not a sensor that sends 0. What the others send is worth
p(class | symbols heard), the sum over all that the silent ones might have sent.

A fusion table holds the joint probabilities, so that the sum is a sum over its axes. An additive
rule holds scores only. It is the exact posterior of one simple family of distributions: sensors
that are independent given the public class, with

    p(z_t = z | k) = q_t(z) exp(w_kt(z) - a_kt),    a_kt = log sum_z q_t(z) exp(w_kt(z)),

and there a silent sensor adds a_kt to the score of class k and nothing else. The free part q_t is
what makes the symbols as frequent as they are: sum_k p(k) p(z_t = z | k) = m_t(z). The
frequencies m_t are counted from what arrives; before anything has, codes are taken to be equally
frequent. How this compares with other ways to bear silence: docs/network.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from discreet.arrays import Floats
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveClassesFusion, AdditiveFusion, TableFusion

MISSING = -1
"""Stands for the symbol of a silent sensor."""
_STRENGTH = 50.0  # the frequencies at the start count like so many symbols
_GROWTH = 1.2  # refit when so many times the symbols have been counted

_AT_ONCE = 500_000  # symbols whose weights are looked up together
_MOST_SUMS = 256  # kept for the next round with the same silence

Symbols = NDArray[np.int64]


class Rule(Protocol):
    """Scores of the public classes, from symbols some of which are ``MISSING``."""

    def scores(self, Z: Symbols) -> Floats:
        """Return logarithms of what is proportional to the posterior, rows by classes."""

    def observe(self, Z: Symbols) -> None:
        """Count symbols that arrived."""


def rule_of(mapping: Mapping) -> Rule:
    """Return how to fuse the symbols of a mapping when some are missing."""
    fusion, symbols = mapping.fusion, mapping.n_symbols
    if isinstance(fusion, TableFusion):
        return TableRule(np.array(fusion.joint), symbols)
    start = [table.mean(axis=0) for table in mapping.tables]
    if isinstance(fusion, AdditiveFusion):
        weights = [np.array([np.zeros(len(row)), row]) for row in fusion.weights]
        return AdditiveRule(weights, np.array([0.0, fusion.bias]), start)
    assert isinstance(fusion, AdditiveClassesFusion)
    by_sensor = [np.array(rows) for rows in zip(*fusion.weights, strict=True)]
    return AdditiveRule(by_sensor, np.array(fusion.bias), start)


def posterior(scores: Floats) -> Floats:
    """Return probabilities from scores, rows by classes."""
    return np.asarray(softmax(scores, axis=1))


def decide(mapping: Mapping, scores: Floats, Z: Symbols) -> NDArray[np.int64]:
    """Return the number of the class decided for each row, by the rule that the mapping states.

    Where no sensor reported, only the frequencies of the classes are known.
    """
    found, rule = mapping.fusion.choose(scores), mapping.fusion.decide
    if rule is not None:
        unheard = (Z == MISSING).all(axis=1)
        found[unheard] = rule.choose(np.log([rule.shares]))
    return found


class TableRule:
    """A table of joint probabilities, summed over the axes of the silent.

    ``symbols``: how many each sensor has.
    """

    def __init__(self, joint: Floats, symbols: Sequence[int]) -> None:
        self._joint = joint.reshape(len(joint), *symbols)
        self._classes = joint.sum(axis=1)
        self._sums: dict[tuple[int, ...], Floats] = {}

    def scores(self, Z: Symbols) -> Floats:
        found = np.empty((len(Z), len(self._joint)))
        patterns, which = np.unique(Z == MISSING, axis=0, return_inverse=True)
        for i, silent in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == i)
            heard = Z[np.ix_(rows, np.flatnonzero(~silent))]
            found[rows] = self._summed(tuple(np.flatnonzero(silent) + 1))[:, *heard.T].T
        return found

    def _summed(self, axes: tuple[int, ...]) -> Floats:
        found = self._sums.get(axes)
        if found is None:
            joint = self._joint.sum(axis=axes)
            classes = self._classes.reshape(-1, *[1] * (joint.ndim - 1))
            # What never happened in the design is no evidence: the classes are as frequent as ever.
            joint = np.where(joint.sum(axis=0) == 0, classes, joint)
            with np.errstate(divide="ignore"):
                found = np.log(joint)
            if len(self._sums) < _MOST_SUMS:
                self._sums[axes] = found
        return found

    def observe(self, Z: Symbols) -> None:
        """Do nothing: the table knows how frequent the symbols are."""


class AdditiveRule:
    """Scores that add up; a silent sensor adds what it would on the average of its model.

    ``weights``: one per sensor. ``bias``: one per class. ``start``: how frequent each sensor's
    symbols are before any was counted.
    """

    def __init__(self, weights: Sequence[Floats], bias: Floats, start: Sequence[Floats]) -> None:
        room = max(each.shape[1] for each in weights)
        # Sensors by classes by symbols; the last place is for silence.
        self._weights = np.array(
            [np.pad(each, ((0, 0), (0, room + 1 - each.shape[1]))) for each in weights]
        )
        self._plain, self._bias = list(weights), bias
        self._sensors = np.arange(len(weights))
        self._counts = _STRENGTH * np.array([np.pad(each, (0, room - len(each))) for each in start])
        self._fitted_at = 0.0
        self._refit()

    def _refit(self) -> None:
        self._fitted_at = self._counts.sum()
        frequencies = self._counts / self._counts.sum(axis=1, keepdims=True)
        short = [
            often[: rows.shape[1]] for often, rows in zip(frequencies, self._plain, strict=True)
        ]
        self.absent = absent_scores(self._plain, self._bias, short)
        self._weights[:, :, MISSING] = self.absent.T

    def scores(self, Z: Symbols) -> Floats:
        found = np.tile(self._bias, (len(Z), 1))
        some = max(1, _AT_ONCE // self._weights.shape[0])
        for first in range(0, len(Z), some):
            part = Z[first : first + some]
            found[first : first + some] += self._weights[self._sensors, :, part].sum(axis=1)
        return found

    def observe(self, Z: Symbols) -> None:
        """Count symbols that arrived, and fit again when they are many more than before."""
        room = self._counts.shape[1]
        heard = (self._sensors * room + Z)[Z != MISSING]
        self._counts += np.bincount(heard, minlength=self._counts.size).reshape(-1, room)
        if self._counts.sum() > _GROWTH * self._fitted_at:
            self._refit()


def absent_scores(
    weights: Sequence[Floats], bias: Floats, frequencies: Sequence[Floats], *, steps: int = 2000
) -> Floats:
    """Return what a silent sensor adds to the score of each class, classes by sensors.

    ``frequencies``: how frequent the symbols of each sensor are, each summing to 1. ``steps``: most
    steps of the fixed-point iteration, which ends when nothing moves any more.
    """
    # All sensors at once, with room for the most symbols; those that one lacks never occur.
    room = max(each.shape[1] for each in weights)
    padded = np.array([np.pad(each, ((0, 0), (0, room - each.shape[1]))) for each in weights])
    with np.errstate(divide="ignore"):
        often = np.log([np.pad(each, (0, room - len(each))) for each in frequencies])
    absent = np.zeros((len(weights), len(bias)))
    for _ in range(steps):
        prior = log_softmax(bias + absent.sum(axis=0))
        moved = _absent_now(padded, absent, prior, often)
        change = np.abs(moved - absent).max()
        absent = (absent + moved) / 2  # halfway, so that it cannot swing
        if change < 1e-10:
            break
    return absent.T


def _absent_now(weights: Floats, absent: Floats, prior: Floats, often: Floats) -> Floats:
    """Sensors by classes, from weights of sensors by classes by symbols."""
    given = prior[:, None] + weights - absent[:, :, None]
    base = often - np.logaddexp.reduce(given, axis=1)
    base -= np.logaddexp.reduce(base, axis=1, keepdims=True)
    return np.asarray(np.logaddexp.reduce(weights + base[:, None, :], axis=2))
