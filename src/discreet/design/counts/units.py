"""Units that are independent given the cell: single sensors, and blocks of sensors that depend.

p(output|cell) is the product of p(unit's output|cell) over the units, which are linear in each
table. Single sensors are computed at once, padded to the same size; blocks one by one.

*What one round adds to what is known of a private fact, beyond the public one.*

x = sum (p - p')**2 / (2 (p + p')) of two private classes adds up at most: over units that are
independent given the cell, and over rounds. So what many rounds may tell limits the sum of the x
of all units, and no output is listed. The attacker knows the public fact of every round, which
takes each class as often as it does in the rows.

Rows are few where rounds are many: that two classes look alike in them does not make them so. The
variance of the estimate of p - p' is therefore part of x, as if the truth were drawn around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats
from discreet.design.counts.estimate import CountModel
from discreet.leakage.joint_outputs import Products

_LEAST_CHANCE = 1e-300
_KEPT_BYTES = 2**26  # of products over blocks: beyond, they are multiplied again on the way back
Singles: TypeAlias = "NDArray[np.float32]"
Again: TypeAlias = Callable[[], Products]
"""Returns products over a block, which were kept or are multiplied again."""


class Units:
    """The tables of all sensors, padded to one array, and p(symbols of a unit|cell).

    Columns are the outputs of the units, one unit after the other: first the single sensors,
    each padded to the most symbols, then the blocks.
    """

    def __init__(self, model: CountModel, n_symbols: Sequence[int]) -> None:
        self.model, self.n_symbols = model, tuple(n_symbols)
        self.sizes = [table.shape[1] for table in model.given]
        blocked = {t for block in model.blocks for t in block.sensors}
        self.singles = np.array([t for t in range(len(self.sizes)) if t not in blocked], dtype=int)
        self.used = np.arange(max(n_symbols)) < np.array(n_symbols)[:, None]
        self.given = np.zeros((len(self.singles), max(self.sizes), len(model.prior)))
        for k, t in enumerate(self.singles):
            self.given[k, : self.sizes[t]] = model.given[t].T
        self.widths = [max(n_symbols)] * len(self.singles) + [
            int(np.prod([n_symbols[t] for t in block.sensors])) for block in model.blocks
        ]
        self.outputs = [int(self.n_symbols[t]) for t in self.singles] + self.widths[
            len(self.singles) :
        ]
        self.edges = np.cumsum([0, *self.widths])
        # What an output shows: of every unit, which of its outputs but the first it is, if any.
        self.first = self.edges[:-1]
        self.rest = np.setdiff1d(np.arange(self.edges[-1]), self.first)
        self.owner = np.repeat(np.arange(len(self.widths)), np.array(self.widths) - 1)
        wide = self.widths[len(self.singles) :]
        # Products over all sensors of a block, and over the first of them.
        self.product_bytes = sum(
            16 * len(block.codes) * width for block, width in zip(model.blocks, wide, strict=True)
        )

    def pad(self, tables: Sequence[Floats]) -> Floats:
        found = np.full((len(tables), max(self.sizes), max(self.n_symbols)), 0.0)
        found += self.used[:, None, :] / np.array(self.n_symbols)[:, None, None]
        for t, table in enumerate(tables):
            found[t, : len(table), : table.shape[1]] = table
        return found

    def cut(self, padded: Floats) -> list[Floats]:
        pairs = enumerate(zip(self.sizes, self.n_symbols, strict=True))
        return [padded[t, :size, :n].copy() for t, (size, n) in pairs]

    def chances(self, padded: Floats) -> tuple[Floats, list[Again]]:
        """Return p(unit's output|cell), columns by cells, and what the way back needs.

        Of many sets of tables at once, too: the last three axes are those of one.
        """
        before = padded.shape[:-3]
        singles = padded[..., self.singles, :, :].swapaxes(-1, -2) @ self.given
        parts, products = [singles.reshape(*before, -1, len(self.model.prior))], []
        keeps = math.prod(before) * self.product_bytes <= _KEPT_BYTES
        for block in self.model.blocks:
            tables = [padded[..., t, : self.sizes[t], : self.n_symbols[t]] for t in block.sensors]
            again: Again = partial(Products, tables, block.codes)
            product = again()
            products.append(partial(_same, product) if keeps else again)
            parts.append(product.by_output @ block.given.T)
        return np.concatenate(parts, axis=-2), products

    def pull_back(self, slope: Floats, products: Sequence[Again]) -> Floats:
        """Turn the slope in p(unit's output|cell) into that in the padded tables."""
        before, widest = slope.shape[:-2], max(self.n_symbols)
        found = np.zeros((*before, len(self.sizes), max(self.sizes), widest))
        n_single = len(self.singles) * widest
        shape = (*before, len(self.singles), widest, slope.shape[-1])
        singles = slope[..., :n_single, :].reshape(shape)
        found[..., self.singles, :, :] = self.given @ singles.swapaxes(-1, -2)
        places = self.edges[len(self.singles) :]
        for k, (block, product) in enumerate(zip(self.model.blocks, products, strict=True)):
            own = slope[..., places[k] : places[k + 1], :] @ block.given
            for t, table in zip(block.sensors, product().pull_back(own), strict=True):
                found[..., t, : self.sizes[t], : self.n_symbols[t]] = table
        return found

    @property
    def n_outputs(self) -> float:
        return float(np.prod([float(n) for n in self.outputs]))

    def log_chances(self, chances: Floats, shown: NDArray[Any]) -> NDArray[Any]:
        """Return log p(output|cell), cells by outputs."""
        logs = np.log(np.maximum(chances, _LEAST_CHANCE))
        first = logs[..., self.first, :]
        more = logs[..., self.rest, :] - first[..., self.owner, :]
        found: NDArray[Any] = more.swapaxes(-1, -2).astype(shown.dtype) @ shown
        found += first.sum(axis=-2)[..., None].astype(shown.dtype)
        return found

    def add_up(self, values: NDArray[Any], shown: NDArray[Any]) -> Floats:
        """Return the sum of values, cells by outputs, over the outputs that show each column."""
        found = np.empty((*values.shape[:-2], self.edges[-1], values.shape[-2]))
        found[..., self.rest, :] = rest = shown @ values.swapaxes(-1, -2)
        begins = self.first - np.arange(len(self.first))
        added = np.add.reduceat(rest, begins, axis=-2)
        found[..., self.first, :] = values.sum(axis=-1)[..., None, :] - added
        return found

    def list_outputs(self) -> Floats:
        """Return what every output shows, as columns of zeros and ones."""
        index = np.indices(self.outputs).reshape(len(self.outputs), -1)
        return self._shown(index, np.dtype(np.float64))

    def draw_outputs(self, chances: Floats, count: int, rng: np.random.Generator) -> Singles:
        """Draw about so many outputs, the same number from each cell.

        Sixteen bits decide on a symbol, and once more with all of them turned round: what is high
        in one output is low in the other. Single precision is enough for what is drawn.
        """
        n_cells, n_single, widest = chances.shape[1], len(self.singles), max(self.n_symbols)
        some = min(n_cells, count)
        if some < n_cells:
            cell = ((np.arange(some) + rng.random()) * n_cells / some).astype(np.int64)
            chances = chances[:, cell]
        bits = _draw_bits((len(self.widths), some, -(-count // some // 2)), rng)
        bits = np.concatenate([bits, ~bits], axis=2)
        index = np.zeros(bits.shape, dtype=np.uint8)
        single = chances[: n_single * widest].reshape(n_single, widest, some)
        for sums in _as_bits(single.cumsum(axis=1)).transpose(1, 0, 2)[:-1]:
            index[:n_single] += (bits[:n_single] > sums[:, :, None]).view(np.uint8)
        for k in range(n_single, len(self.widths)):
            sums = _as_bits(chances[self.edges[k] : self.edges[k + 1] - 1].cumsum(axis=0))
            index[k] = (bits[k] > sums[:, :, None]).sum(axis=0)
        return self._shown(index.reshape(len(index), -1), np.dtype(np.float32))

    def _shown(self, index: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        shown = np.zeros((len(self.rest), index.shape[1]), dtype=dtype)
        n_single, more = len(self.singles), max(self.n_symbols) - 1
        for z in range(more):
            shown[z : n_single * more : more] = index[:n_single] == z + 1
        for k in range(n_single, len(index)):
            columns = np.flatnonzero(index[k])
            shown[self.first[k] - k + index[k, columns] - 1, columns] = 1.0
        return shown


def _same(products: Products) -> Products:
    return products


def _draw_bits(shape: tuple[int, int, int], rng: np.random.Generator) -> NDArray[np.uint16]:
    count = math.prod(shape)
    words = rng.bit_generator.random_raw(-(-count // 4))
    return words.view(np.uint16)[:count].reshape(shape)


def _as_bits(chances: Floats) -> NDArray[np.uint16]:
    """Return the largest of 65536 numbers that fall below probabilities; one has all of them."""
    return (np.rint(chances * 65536.0) - 1.0).clip(0.0, 65535.0).astype(np.uint16)


# --- Evidence of one round ------------------------------------------------------------------

_TINY = 1e-100


class Evidence:
    """The x of a round as a function of the tables, and its slope."""

    def __init__(self, units: Units) -> None:
        self.units = units
        model = units.model
        self.pairs = [
            self._within_classes(fact, a, b)
            for fact in range(1, model.facts.shape[1])
            for a, b in combinations(np.unique(model.facts[:, fact]), 2)
        ]
        # One over the rows behind each estimate, columns by cells.
        rows = np.full((len(units.sizes), len(model.prior)), np.inf)
        if model.rows is not None:
            rows = model.rows
        own = [rows[t] for t in units.singles]
        own += [rows[list(block.sensors)].min(axis=0) for block in model.blocks]
        self.unsure = np.repeat(1.0 / np.array(own), units.widths, axis=0)

    def _within_classes(self, fact: int, a: int, b: int) -> list[tuple[float, Floats, Floats]]:
        """Return each public class that has both private ones: its share, and p(cell|class)."""
        model, found = self.units.model, []
        for h, share in enumerate(model.public_shares()):
            inside = model.prior * (model.facts[:, 0] == h)
            one, other = (inside * (model.facts[:, fact] == k) for k in (a, b))
            if one.any() and other.any():
                found.append((float(share), one / one.sum(), other / other.sum()))
        return found

    def worst(self, padded: Floats) -> tuple[float, Floats]:
        """Return the x of the two most distinguishable classes, and its slope in the tables."""
        chances, products = self.units.chances(padded)
        squares, squared = self.units.chances(padded**2)
        parts = [self._of_pair(pair, chances, squares) for pair in self.pairs]
        if not parts:
            return 0.0, np.zeros_like(padded)
        x, slope, square_slope = max(parts, key=lambda part: part[0])
        back = self.units.pull_back(square_slope, squared)
        return x, self.units.pull_back(slope, products) + 2.0 * padded * back

    def _of_pair(
        self, pair: list[tuple[float, Floats, Floats]], chances: Floats, squares: Floats
    ) -> tuple[float, Floats, Floats]:
        """Return x, and its slopes in p(output|cell) and in the mean of its square."""
        total, slope, square_slope = 0.0, np.zeros_like(chances), np.zeros_like(chances)
        for share, one, other in pair:
            apart = (chances @ (one - other))[:, None]
            both = np.maximum(chances @ (one + other), _TINY)[:, None]
            weights = self.unsure * (one**2 + other**2)
            spread = np.maximum(squares - chances**2, 0.0)
            top = apart**2 + np.sum(weights * spread, axis=1, keepdims=True)
            total += share * float(np.sum(top / (2.0 * both)))
            slope += share * (
                apart / both * (one - other)
                - top / (2.0 * both**2) * (one + other)
                - weights * chances / both
            )
            square_slope += share * weights / (2.0 * both)
        return total, slope, square_slope
