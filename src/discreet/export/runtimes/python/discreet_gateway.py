"""Release many readings at once, on a gateway with NumPy and ``cryptography``.

Bundles, ledgers and symbols are those of ``discreet_sensor``, which must lie beside this file.
The random words are an AES-256-CTR keystream whose keys the operating system draws, and whole
arrays are compared at a time.

    from discreet_gateway import GatewaySensor, Keystream

    stream = Keystream()  # one for all sensors of the gateway
    hall = GatewaySensor(stream, "hall.bundle", public_key="...", ledger="hall.ledger")
    symbols = hall.release_many(readings, period)

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING or __package__:
    from . import discreet_sensor as device
else:  # beside it in an export
    import discreet_sensor as device

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REKEY_BYTES = 2**26  # a key that leaked would tell no more than this many bytes
_BLOCK_WORDS = 2**15  # compared at once, so that all of it stays in the cache


class Keystream:
    """Random words by the block: AES-256 in counter mode, keyed by the operating system.

    Threads may share it; a forked process gets a key of its own.

    Raises
    ------
    RandomnessError
        If the system's source is broken; also later, when a new key is due.
    """

    def __init__(self) -> None:
        device.check_randomness()
        self._zeros = bytes(4 * _BLOCK_WORDS)
        self._buffer = bytearray(4 * _BLOCK_WORDS + 15)  # the cipher wants room for a block
        self._left, self._owner = 0, 0
        self.alone = threading.Lock()  # held from asking for words until they are used

    def words(self, count: int) -> NDArray[np.uint32]:
        """Return up to 2^15 fresh words, to be used before the next call."""
        if self._left < 4 * count or self._owner != os.getpid():
            self._owner = os.getpid()
            key = device.random_bytes(48)
            self._cipher = Cipher(algorithms.AES(key[:32]), modes.CTR(key[32:48])).encryptor()
            self._left = _REKEY_BYTES
        self._left -= 4 * count
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

    def draw(self, rows: NDArray[np.intp], stream: Keystream) -> NDArray[np.uint8]:
        """Draw a fresh symbol for each row. Nothing is remembered and nothing counted.

        Raises
        ------
        RandomnessError
        """
        symbols = np.empty(len(rows), dtype=np.uint8)
        for start in range(0, len(rows), _BLOCK_WORDS):
            block, out = rows[start : start + _BLOCK_WORDS], symbols[start : start + _BLOCK_WORDS]
            with stream.alone:
                words = stream.words(len(block))
                # Every threshold is compared, whatever the word.
                np.greater_equal(words, self._columns[0].take(block), out=out.view(np.bool_))
                for column in self._columns[1:]:
                    out += words >= column.take(block)
            if self._clamped:
                np.minimum(out, self._tops.take(block), out=out)
        return symbols


class GatewaySensor(device.Sensor):
    """A sensor that releases many readings at a time.

    Parameters
    ----------
    stream : Keystream
    bundle, public_key, ledger, make_new
        See ``discreet_sensor.Sensor``.
    """

    def __init__(self, stream: Keystream, bundle: str, **options: Any) -> None:
        super().__init__(bundle, **options)
        self.stream, self.vectors = stream, VectorTable(self.table)

    def release_many(
        self, readings: Sequence[device.Reading] | NDArray[Any], period: int
    ) -> NDArray[np.uint8]:
        """Return one counted symbol for each reading, in order, as ``release`` would.

        Raises
        ------
        SensorError
        """
        self.ledger.check_owner()
        rows = self.vectors.rows(readings)
        with self._alone:
            return self._release_many(rows, period)

    def _release_many(self, rows: NDArray[np.intp], period: int) -> NDArray[np.uint8]:
        record = self._turned(period)
        memory = self._memory
        if record.key != self.ledger.record.key:
            memory = self._symbols_of(record.key)
        record, answered = self._charged(record, len(rows))
        if self.table.repeat == device.REPEAT_PERIOD and answered and record.held == device.NONE:
            record = record._replace(held=memory[rows[0]])
        drawn = rows.copy()
        drawn[answered:] = self.table.rows - 1
        fresh = 0 if self.table.repeat == device.REPEAT_NEVER else answered
        symbols = np.empty(len(rows), dtype=np.uint8)
        symbols[fresh:] = self.vectors.draw(drawn[fresh:], self.stream)
        if self.table.repeat == device.REPEAT_CODE:
            symbols[:answered] = np.array(memory, dtype=np.uint8).take(rows[:answered])
        elif self.table.repeat == device.REPEAT_PERIOD and answered:
            symbols[:answered] = record.held
        if record != self.ledger.record:
            self.ledger.store(record)  # before any symbol is handed out
        self._memory = memory
        return symbols
