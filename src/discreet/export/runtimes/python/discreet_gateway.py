"""Release many readings at once, on a gateway with NumPy and ``cryptography``.

Bundles, ledgers and symbols are those of ``discreet_sensor``, which must lie beside this file.
The random words are an AES-256-CTR keystream with a key from the operating system for every
call, and whole arrays are compared at a time.

    from discreet_gateway import GatewaySensor

    hall = GatewaySensor("hall.bundle", public_key="...", ledger="hall.ledger", name="hall")
    symbols = hall.release_many(readings)

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING or __package__:
    from discreet_sensor import runtime as device
else:  # beside it in an export
    import discreet_sensor as device

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK_WORDS = 2**15  # compared at once, so that all of it stays in the cache


class Keystream:
    """Random words by the block: AES-256 in counter mode, keyed by the operating system.

    One for each call, so that there is nothing to share: not by threads, not by a forked
    process, not by the copy of a running machine.

    Parameters
    ----------
    most : int
        How many words are asked for at once.

    Raises
    ------
    RandomnessError
        If the system's source is broken.
    """

    def __init__(self, most: int) -> None:
        key = device.random_bytes(48)
        self._cipher = Cipher(algorithms.AES(key[:32]), modes.CTR(key[32:48])).encryptor()
        self._zeros = bytes(4 * most)
        self._buffer = bytearray(4 * most + 15)  # the cipher wants room for a block

    def words(self, count: int) -> NDArray[np.uint32]:
        """Return fresh words, to be used before the next call."""
        self._cipher.update_into(memoryview(self._zeros)[: 4 * count], self._buffer)
        return np.frombuffer(self._buffer, dtype="<u4", count=count)


class VectorTable:
    """A table in arrays.

    Parameters
    ----------
    table : Table
    """

    def __init__(self, table: device.Table) -> None:
        self.table = table
        thresholds = np.array(table.thresholds, dtype=np.uint32)
        self._columns = [np.ascontiguousarray(column) for column in thresholds.T]
        self._tops = np.frombuffer(table.tops, dtype=np.uint8)
        self._edges = np.array(table.edges)
        self._clamped = bool((self._tops < table.symbols - 1).any())

    def rows(self, readings: Sequence[device.Reading] | NDArray[Any]) -> NDArray[np.intp]:
        """Return the row of every reading; arrays of numbers are fastest."""
        if not isinstance(readings, np.ndarray):
            return np.array([self.table.row(reading) for reading in readings], dtype=np.intp)
        if self.table.kind != device.BINS or readings.dtype.kind not in "fiu":
            return self.rows(readings.tolist())
        found = np.searchsorted(self._edges, readings, side="left")
        return np.where(np.isnan(readings), self.table.row(None), found)

    def draw(
        self, rows: NDArray[np.intp], stream: Callable[[int], Keystream] = Keystream
    ) -> NDArray[np.uint8]:
        """Draw a fresh symbol for each row. Nothing is remembered and nothing counted.

        Raises
        ------
        RandomnessError
        """
        symbols = np.empty(len(rows), dtype=np.uint8)
        if not len(rows):
            return symbols
        source = stream(min(len(rows), _BLOCK_WORDS))
        for start in range(0, len(rows), _BLOCK_WORDS):
            block, out = rows[start : start + _BLOCK_WORDS], symbols[start : start + _BLOCK_WORDS]
            words = source.words(len(block))
            # Every threshold is compared, whatever the word.
            np.greater_equal(words, self._columns[0].take(block), out=out.view(np.bool_))
            for column in self._columns[1:]:
                out += words >= column.take(block)
            if self._clamped:
                np.minimum(out, self._tops.take(block), out=out)
        return symbols


class GatewaySensor(device.Sensor):
    """A sensor that releases many readings at a time; the parameters are those of ``Sensor``."""

    def __init__(self, bundle: device.PathName, **options: Any) -> None:
        super().__init__(bundle, **options)
        self.vectors = VectorTable(self.table)

    def release_many(
        self, readings: Sequence[device.Reading] | NDArray[Any], *, uptime: int | None = None
    ) -> NDArray[np.uint8]:
        """Return one counted symbol for each reading, in order, as ``release_rows`` would.

        Raises
        ------
        SensorError
        """
        self.ledger.check_owner()
        rows = self.vectors.rows(readings)
        with self._alone:
            return np.asarray(self._released(rows, uptime), dtype=np.uint8)

    def _answers(self, answered: Any, idle: int, memory: Sequence[int]) -> Any:
        answered, unread = np.asarray(answered, dtype=np.intp), np.full(idle, self.table.rows - 1)
        if self.table.repeat == device.REPEAT_NEVER:
            return self.vectors.draw(np.concatenate([answered, unread]))
        known = np.array(memory, dtype=np.uint8).take(answered)
        return np.concatenate([known, self.vectors.draw(unread)])
