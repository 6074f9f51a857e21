"""Codes held in as few bytes as a look-up allows.

Neighbouring sensors whose joint alphabet has at most 256 codes share a byte, as digits of
one number: two sensors of up to 16 codes, four of up to 4, eight of 2. A sensor with more
than 256 codes of its own takes two bytes or four. Each row is then a short line of *cells*,
and whatever is additive over sensors is additive over cells: a table of the sum for each
value of a cell costs one look-up where the sensors would cost several.

The bytes of a row lie in *words* of eight, and what is left over in words of four, two and one:
a word is fetched at once, and its tables and sums leave room in a cache of 32 kB.

A table over all codes is a vector, one sensor's codes after the other's. ``Layout`` turns
such vectors into tables over cells and sums over cells back into sums over codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet.arrays import Floats, Ints
from discreet.errors import InputError

_NARROW = 256  # values of one byte
_WIDTHS = (8, 4, 2, 1)  # bytes of a word
_BLOCK = 1 << 13  # rows packed together: they stay in a cache from the first column to the last


@dataclass(frozen=True)
class Layout:
    """Which sensors share a cell.

    ``sizes``: number of codes of every sensor. ``narrow``: for each byte of a row, the first sensor
    in it and the one after the last. ``wide``: the sensors with more codes than a byte has values.
    """

    sizes: tuple[int, ...]
    narrow: tuple[tuple[int, int], ...]
    wide: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Layout:
        """Put neighbours together for as long as their joint alphabet fits in a byte."""
        narrow: list[tuple[int, int]] = []
        wide, room = [], 0
        for t, size in enumerate(sizes):
            if size > _NARROW:
                wide.append(t)
                room = 0
            elif size <= room:
                narrow[-1] = (narrow[-1][0], t + 1)
                room //= size
            else:
                narrow.append((t, t + 1))
                room = _NARROW // size
        return cls(tuple(int(size) for size in sizes), tuple(narrow), tuple(wide))

    @property
    def n_codes(self) -> int:
        """Number of codes of all sensors together."""
        return sum(self.sizes)

    @cached_property
    def words(self) -> tuple[tuple[int, int], ...]:
        """For each word of a row, its first byte and its width in bytes."""
        words, left = [], len(self.narrow)
        for width in _WIDTHS:
            while left >= width:
                words.append((len(self.narrow) - left, width))
                left -= width
        return tuple(words)

    @cached_property
    def offsets(self) -> Ints:
        """Where each sensor's codes begin in a vector over all codes."""
        return np.cumsum([0, *self.sizes])[:-1].astype(np.int64)

    @property
    def wide_size(self) -> int:
        """Length of the longest table of a wide cell."""
        return max((self.sizes[t] for t in self.wide), default=0)

    def strides(self, cell: tuple[int, int]) -> list[tuple[int, int]]:
        """Return (sensor, its weight in the cell's number) for every sensor of a byte."""
        pairs, stride = [], 1
        for t in range(*cell):
            pairs.append((t, stride))
            stride *= self.sizes[t]
        return pairs

    def spread(self, tables: Floats) -> tuple[Floats, Floats]:
        """Turn tables over all codes, one row each, into tables over cells.

        Those of the narrow cells have the axes (table, byte, value), those of the wide ones
        (table, sensor, code).
        """
        n = len(tables)
        narrow = (self._narrow @ tables.T).T.reshape(n, len(self.narrow), _NARROW)
        wide = (self._wide @ tables.T).T.reshape(n, len(self.wide), self.wide_size)
        return np.ascontiguousarray(narrow), np.ascontiguousarray(wide)

    def fold(self, narrow: Floats, wide: Floats) -> Floats:
        """Turn sums over cells into sums over all codes: the transpose of ``spread``."""
        heads = len(narrow)
        total = self._narrow.T @ narrow.reshape(heads, -1).T
        total += self._wide.T @ wide.reshape(heads, -1).T
        return np.ascontiguousarray(total.T)

    @cached_property
    def _narrow(self) -> Any:
        """Which codes each value of each byte stands for, as a matrix of zeros and ones."""
        rows, columns = [], []
        for g, cell in enumerate(self.narrow):
            pairs = self.strides(cell)
            values = np.arange(pairs[-1][1] * self.sizes[pairs[-1][0]])
            for t, stride in pairs:
                rows.append(g * _NARROW + values)
                columns.append(self.offsets[t] + values // stride % self.sizes[t])
        return _indicator(rows, columns, (len(self.narrow) * _NARROW, self.n_codes))

    @cached_property
    def _wide(self) -> Any:
        rows = [k * self.wide_size + np.arange(self.sizes[t]) for k, t in enumerate(self.wide)]
        columns = [self.offsets[t] + np.arange(self.sizes[t]) for t in self.wide]
        return _indicator(rows, columns, (len(self.wide) * self.wide_size, self.n_codes))


@dataclass(frozen=True)
class Packed:
    """Rows of codes, packed.

    ``narrow``: the words of a row, the first byte in the lowest bits.
    """

    layout: Layout
    narrow: tuple[NDArray[Any], ...]
    wide: NDArray[Any]

    def __len__(self) -> int:
        return len(self.wide)

    @property
    def nbytes(self) -> int:
        return sum(word.nbytes for word in self.narrow) + self.wide.nbytes

    def take(self, index: Ints | slice) -> Packed:
        """Return some of the rows."""
        words = tuple(word[index] for word in self.narrow)
        return Packed(self.layout, words, self.wide[index])

    def byte(self, g: int) -> NDArray[np.uint8]:
        """Return one byte of every row."""
        for word, (first, width) in zip(self.narrow, self.layout.words, strict=True):
            if first <= g < first + width:
                return word[:, None].view(np.uint8)[:, g - first]
        raise IndexError(f"a row has {len(self.layout.narrow)} bytes, there is no byte {g}")

    def column(self, t: int) -> Ints:
        """Return the codes of one sensor."""
        if t in self.layout.wide:
            return self.wide[:, self.layout.wide.index(t)].astype(np.int64)
        g = next(k for k, (first, end) in enumerate(self.layout.narrow) if first <= t < end)
        stride = dict(self.layout.strides(self.layout.narrow[g]))[t]
        codes: Ints = self.byte(g).astype(np.int64) // stride % self.layout.sizes[t]
        return codes

    def totals(self) -> Floats:
        """Return how many rows have each code, one sensor's codes after the other's."""
        layout = self.layout
        narrow = np.zeros((1, len(layout.narrow), _NARROW))
        for g in range(len(layout.narrow)):
            narrow[0, g] = np.bincount(self.byte(g), minlength=_NARROW)
        wide = [np.bincount(column, minlength=layout.wide_size) for column in self.wide.T]
        totals: Floats = layout.fold(narrow, np.array([wide], dtype=np.float64))[0]
        return totals

    def unpack(self) -> Ints:
        """Return the codes as they were before packing."""
        columns = [self.column(t) for t in range(len(self.layout.sizes))]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0), dtype=np.int64)


def pack(codes: NDArray[Any], sizes: Sequence[int]) -> Packed:
    """Pack rows of codes.

    Raises InputError: if a code lies outside its sensor's alphabet.
    """
    layout = Layout.of(sizes)
    kind = np.uint16 if layout.wide_size <= 1 << 16 else np.uint32
    packed = Packed(
        layout,
        tuple(np.zeros(len(codes), dtype=f"<u{width}") for _, width in layout.words),
        np.empty((len(codes), len(layout.wide)), dtype=kind),
    )
    for begin in range(0, len(codes), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        _pack_block(codes[rows], packed.take(rows))
    return packed


def _pack_block(codes: NDArray[Any], packed: Packed) -> None:
    """Fill ``packed``, whose bytes are zero, with so many rows."""
    layout = packed.layout
    _check_range(codes, layout.sizes)
    packed.wide[:] = codes[:, list(layout.wide)]
    small = codes.astype(np.uint8)
    for g, cell in enumerate(layout.narrow):
        byte = packed.byte(g)
        for t, stride in layout.strides(cell):
            # A stride of 256 belongs to sensors of one code, which is 0.
            byte += small[:, t] * np.uint8(stride % _NARROW)


def concatenate(parts: Sequence[Packed]) -> Packed:
    """Return the rows of all parts, one below the other; the parts have one layout."""
    words = zip(*(part.narrow for part in parts), strict=True)
    narrow = tuple(np.concatenate(word) for word in words)
    return Packed(parts[0].layout, narrow, np.concatenate([part.wide for part in parts]))


def _check_range(codes: NDArray[Any], sizes: tuple[int, ...]) -> None:
    if not len(codes):
        return
    for t, (least, most) in enumerate(zip(codes.min(axis=0), codes.max(axis=0), strict=True)):
        if least < 0 or most >= sizes[t]:
            worst = least if least < 0 else most
            raise InputError(f"sensor {t} has code {worst}; its codes are 0 to {sizes[t] - 1}.")


def _indicator(rows: list[Ints], columns: list[Ints], shape: tuple[int, int]) -> Any:
    row = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
    column = np.concatenate([*columns, np.empty(0, dtype=np.int64)])
    return csr_array((np.ones(len(row)), (row, column)), shape=shape)
