"""A product kernel of rows of codes, whose values need no list of outputs.

Let w be a product law on the outputs and phi_x(z) = Q(z|x)/sqrt(w(z)). Then

    k(x, x') = <phi_x, phi_x'> = prod_t sum_z Q_t(z|x) Q_t(z|x') / w_t(z)

needs one small table per sensor. The law is half of the one that suits the tables best, whatever
the sensors read, and half of what they send for some rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints

_BLOCK_NUMBERS = 2**21  # entries of the kernel matrix made at once, which bounds memory
_FEW_KINDS = 16  # of codes; a sensor with more is looked up, entry by entry
_LAW_STEPS = 200
_LAW_GAP = 1e-6  # from the optimum, relative
_TOO_LARGE = 600.0  # logarithm of a kernel value from which on nothing can be promised
_LOG_ZERO = -2_000.0  # exp of this is 0, also after adding _TOO_LARGE


def minimax_law(table: Floats) -> Floats:
    """Return the law w on symbols with the smallest max_x sum_z Q(z|x)^2 / w(z), nearly.

    For a mixture pi of the codes the best law is proportional to the root of
    sum_x pi_x Q(z|x)^2; the mixture moves towards the codes that have the largest sums. Every
    law that reaches all symbols in use is valid, so nothing hangs on convergence.
    """
    squares = table**2
    mixture = np.full(len(table), 1.0 / len(table))
    for _ in range(_LAW_STEPS):
        root = np.sqrt(mixture @ squares)
        sums = squares @ np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        average = float(mixture @ sums)
        if sums.max() < (1.0 + _LAW_GAP) * average:
            break
        mixture *= sums / average
    law: Floats = np.sqrt(mixture @ squares) + 1e-9 * (squares.max(axis=0) > 0)
    law /= law.sum()
    return law


def mixed_law(table: Floats, counts: NDArray[Any]) -> Floats:
    """Return half of ``minimax_law``, half of what is sent for codes with these counts."""
    law = minimax_law(table)
    if not counts.sum():
        return law
    sent: Floats = counts @ table / counts.sum()
    mixed: Floats = 0.5 * (law + sent / sent.sum())
    return mixed


@dataclass(frozen=True)
class ProductKernel:
    """The kernel of all sensors together, as far as it depends on the tables alone.

    ``kinds``: for every sensor, which of its codes have the same row of the table. ``logs``:
    logarithms of the sensors' kernel tables, one row per kind of code.
    """

    kinds: tuple[Ints, ...]
    logs: tuple[Floats, ...]

    @classmethod
    def of(cls, tables: Sequence[Floats], laws: Sequence[Floats]) -> ProductKernel:
        kinds, logs = [], []
        for table, law in zip(tables, laws, strict=True):
            rows, kind = np.unique(table[:, law > 0], axis=0, return_inverse=True)
            values = (rows / law[law > 0]) @ rows.T
            kinds.append(kind.ravel())
            logs.append(np.log(values, out=np.full(values.shape, _LOG_ZERO), where=values > 0))
        return cls(tuple(kinds), tuple(logs))

    @property
    def n_rows(self) -> float:
        """How many different rows of kinds there can be."""
        return float(np.exp(min(700.0, sum(np.log(len(log)) for log in self.logs))))

    @property
    def reach(self) -> float:
        """Return D: the largest distance between phi_x and phi_x', from above.

        D^2 <= 2 (max k(x, x) - min k(x, x')), and both extremes are products over sensors.
        """
        largest = sum(float(log.diagonal().max()) for log in self.logs)
        if largest > _TOO_LARGE:
            return float("inf")
        smallest = sum(float(log.min()) for log in self.logs)
        return float(np.sqrt(2.0 * max(0.0, np.exp(largest) - np.exp(smallest))))

    def kinds_of(self, codes: Ints) -> Ints:
        """Return the kinds of the codes, for sensors that have several."""
        columns = [
            kind.astype(np.min_scalar_type(len(log)))[codes[:, t]]
            for t, (kind, log) in enumerate(zip(self.kinds, self.logs, strict=True))
            if len(log) > 1
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(codes), 0), np.int64)

    def blocks(self, kinds: Ints, upper: bool = False) -> Iterator[tuple[int, Floats]]:
        """Yield rows of the matrix k(x_i, x_j), with the number of the first.

        ``upper`` leaves out the columns before the first row's own.
        """
        # Sensors with one kind send the same whatever they read, and their factor is one.
        sensors = list(zip(kinds.T, (log for log in self.logs if len(log) > 1), strict=True))
        alone, picked, values = _factors([s for s in sensors if len(s[1]) <= _FEW_KINDS], kinds)
        looked_up = [s for s in sensors if len(s[1]) > _FEW_KINDS]
        step = max(1, _BLOCK_NUMBERS // max(1, len(kinds)))
        for start in range(0, len(kinds), step):
            rows, columns = slice(start, start + step), slice(start if upper else 0, None)
            block = picked[rows] @ values[columns].T
            block += alone[rows, None]
            block += alone[columns]
            for own, log in looked_up:
                block += log[own[rows]].take(own[columns], axis=1)
            yield start, np.exp(block, out=block)


def _factors(sensors: Sequence[tuple[Ints, Floats]], kinds: Ints) -> tuple[Floats, Floats, Floats]:
    """Return a, B and C with log k(x_i, x_j) = a_i + a_j + B_i . C_j for some sensors.

    Relative to the first kind of every sensor, so that it needs no column.
    """
    alone = np.zeros(len(kinds))
    picked, values = [np.zeros((len(kinds), 0))], [np.zeros((len(kinds), 0))]
    for own, log in sensors:
        alone += log[own, 0] - 0.5 * log[0, 0]
        rest = log - log[:, :1] - log[:1] + log[0, 0]
        picked.append(np.eye(len(log))[own, 1:])
        values.append(rest[own, 1:])
    return alone, np.concatenate(picked, axis=1), np.concatenate(values, axis=1)
