"""How p(cell, z) moves with the tables, without listing every derivative.

A *pattern* is an array S over cells and outputs and stands for sum S[c, z] p(c, z): the
public accuracy of a fusion rule, the success of an attacker's rule. Its value and its slope
in all tables come from one sweep, split into *blocks* of outputs that share the symbols of
the first sensors. With all sensors among the first, each output is a block of its own.

Slopes are in the *free* entries: the last symbol of a row takes what the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.arrays import Floats
from research.optimum.distribution import Distribution

Tables = Sequence[Floats]


def free_entries(tables: Tables) -> Floats:
    """Return all entries but those of each table's last symbol, in one vector."""
    return np.concatenate([table[:, :-1].ravel() for table in tables])


def tables_from(free: Floats, like: Tables) -> list[Floats]:
    """Return the tables with these free entries, tiny ones set to 0."""
    tables, start = [], 0
    for table in like:
        n_codes, n_symbols = table.shape
        end = start + n_codes * (n_symbols - 1)
        entries = free[start:end].reshape(n_codes, n_symbols - 1)
        full = np.column_stack([entries, 1.0 - entries.sum(axis=1)])
        full[full < 1e-10] = 0.0
        tables.append(full / full.sum(axis=1, keepdims=True))
        start = end
    return tables


class Slopes:
    """Values and slopes of patterns at given tables."""

    def __init__(self, distribution: Distribution, tables: Tables) -> None:
        self._distribution = distribution
        self._shapes = [table.shape for table in tables]
        pairs = zip(distribution.profiles, tables, strict=True)
        self._sent = [profile @ table for profile, table in pairs]

    def of_blocks(self, patterns: Floats, n_lead: int) -> tuple[Floats, Floats]:
        """Return values, patterns x blocks, and slopes, patterns x blocks x free entries.

        ``patterns`` is of shape (n_patterns, n_cells, n_outputs). ``n_lead``: outputs that share
        the symbols of so many first sensors form a block.
        """
        lead, trail = self._sent[:n_lead], self._sent[n_lead:]
        together = _product(lead, len(self._distribution.weights))
        slopes: list[Floats] = []
        rest = np.matmul(self._distribution.weights, patterns)
        for t in range(len(trail) - 1, -1, -1):
            between = _product(trail[:t], len(together))
            shape = (*rest.shape[:2], together.shape[1], between.shape[1], trail[t].shape[1])
            block = rest.reshape(shape)
            own = np.einsum("im,pibmz->pibz", between, block) * together[:, :, None]
            slopes.insert(0, self._in_entries(n_lead + t, own))
            rest = np.einsum("pibmz,iz->pibm", block, trail[t])
        left = rest.reshape(len(patterns), *together.shape)
        values = np.einsum("pib,ib->pb", left, together)
        leading = [self._leading(t, left, lead) for t in range(n_lead)]
        return values, np.concatenate(leading + slopes, axis=2)

    def _leading(self, t: int, left: Floats, lead: Sequence[Floats]) -> Floats:
        """Return slopes in a table whose symbol is fixed within a block."""
        ones = [np.ones_like(sent) if u == t else sent for u, sent in enumerate(lead)]
        others = left * _product(ones, left.shape[1])
        by_code = np.matmul(others.transpose(0, 2, 1), self._distribution.profiles[t])
        symbols = [shape[1] for shape in self._shapes[: len(lead)]]
        sent = np.unravel_index(np.arange(left.shape[2]), symbols)[t]
        slope = np.zeros((*by_code.shape, symbols[t]))
        slope[:, np.arange(len(sent)), :, sent] = by_code.transpose(1, 0, 2)
        return _drop_last(slope)

    def _in_entries(self, t: int, own: Floats) -> Floats:
        by_code = np.tensordot(self._distribution.profiles[t], own, axes=([0], [1]))
        return _drop_last(by_code.transpose(1, 2, 0, 3))


def _product(sent: Sequence[Floats], n_profiles: int) -> Floats:
    """Return the probability of all sensors' symbols together, profiles x outputs."""
    product = np.ones((n_profiles, 1))
    for one in sent:
        product = (product[:, :, None] * one[:, None, :]).reshape(n_profiles, -1)
    return product


def _drop_last(slope: Floats) -> Floats:
    """Turn slopes in all entries, codes x symbols last, into slopes in the free ones."""
    free = slope[..., :-1] - slope[..., -1:]
    return np.asarray(free.reshape(*slope.shape[:-2], -1))
