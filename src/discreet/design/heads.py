"""Labelled rows to heads: what the fusion centre may learn, and what it may not.

Equal rows of codes are collapsed first. A head is then two weight vectors over the
distinct rows, one for each sign (``solvers``), so that every risk in the design,
public or private, normalised or not, has the same form and differs in weights only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.data.labels import Labels
from discreet.errors import InputError


@dataclass(frozen=True)
class Head:
    """One binary question, as weights on the distinct rows."""

    name: str
    pos: Floats
    neg: Floats


@dataclass(frozen=True)
class Rows:
    """Distinct rows of codes.

    ``codes`` is of shape (n_distinct, n_sensors). ``inverse`` of shape (n_rows,): the distinct row
    of every original row. ``sizes``: number of codes of every sensor, seen or not.
    """

    codes: Ints
    inverse: Ints
    sizes: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return len(self.inverse)

    def total(self, weights: Floats) -> Floats:
        """Add up weights of the original rows on the distinct ones."""
        return np.bincount(self.inverse, weights, minlength=len(self.codes)).astype(np.float64)

    def class_weights(self, labels: Labels) -> Floats:
        """Return one row per class: its share of each distinct row, summing to 1."""
        parts = [self.total((labels.index == k).astype(float)) for k in range(labels.n_classes)]
        return np.stack([part / part.sum() for part in parts])

    def seen(self) -> list[NDArray[np.bool_]]:
        """Return, for every sensor, which codes occur at all."""
        return [
            np.bincount(c, minlength=k) > 0 for c, k in zip(self.codes.T, self.sizes, strict=True)
        ]


def collapse(codes: Ints, sizes: Sequence[int]) -> Rows:
    """Collapse equal rows of codes."""
    found = distinct_rows(codes)
    return Rows(found.rows, found.inverse, tuple(sizes))


def public_heads(rows: Rows, public: Labels) -> list[Head]:
    """Return the public heads: one for two classes, one against the rest beyond.

    Their weights add up to 1 over all heads, so that F is an average risk.
    """
    if public.n_classes == 2:
        return [_head(rows, f"{public.name}", public.index == 1, public.index == 0)]
    return [
        _head(rows, f"{public.name}={k}", public.index == k, public.index != k, public.n_classes)
        for k in range(public.n_classes)
    ]


def private_heads(
    rows: Rows, private: Labels, *, pairs: str = "all", normalised: bool = True
) -> list[Head]:
    """Return the private heads of one fact: pairs of classes.

    ``pairs``: every pair, or the paper's choice of class 0 against each other one, whose bound on
    the remaining pairs is twice as loose. ``normalised``: weights 1/(2 n_g), so that rare classes
    count as much as frequent ones. False gives the older Bayes-error risk: every row of the pair
    counts the same.
    """
    if pairs not in ("all", "reference"):
        raise InputError(f"pairs must be 'all' or 'reference', got {pairs!r}.")
    chosen = list(combinations(range(private.n_classes), 2))
    if pairs == "reference":
        chosen = [(a, b) for a, b in chosen if a == 0]
    heads = []
    for a, b in chosen:
        minus, plus = private.index == a, private.index == b
        name = f"{private.name}:{a}|{b}"
        if normalised:
            pos, neg = rows.total(plus.astype(float)), rows.total(minus.astype(float))
            heads.append(Head(name, pos / (2.0 * pos.sum()), neg / (2.0 * neg.sum())))
        else:
            heads.append(_head(rows, name, plus, minus))
    return heads


def _head(
    rows: Rows, name: str, plus: NDArray[np.bool_], minus: NDArray[np.bool_], parts: int = 1
) -> Head:
    """Return the head in which every row counts the same."""
    pos, neg = rows.total(plus.astype(float)), rows.total(minus.astype(float))
    each = 1.0 / (float(pos.sum() + neg.sum()) * parts)
    return Head(name, each * pos, each * neg)
