"""From the readings of a round to the bytes of a message, by the edge runtime and its ledgers."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from discreet.errors import InputError
from discreet.export.runtimes.python.discreet_sensor import LedgerError, Sensor, SensorError
from discreet.network.sensor.outbox import Outbox, OutboxError, Waiting
from discreet.network.sensor.values import row_of
from discreet.network.site.enrolment import Enrolment
from discreet.network.site.files import write_private
from discreet.network.site.settings import message_topic
from discreet.network.wire import Message, encode, mapping_tag

Readings = Mapping[str, object]


class Releaser:
    """Draws the symbols of all sensors of a client and writes them to the outbox.

    Parameters
    ----------
    enrolment : Enrolment
    folder : Path
        Holds the bundles and ledgers; never copied to another device.
    outbox : Outbox

    Raises
    ------
    InputError
        If a bundle or a ledger cannot be used.
    """

    def __init__(self, enrolment: Enrolment, folder: Path, outbox: Outbox) -> None:
        self._enrolment, self._outbox = enrolment, outbox
        self._topic = message_topic(enrolment.site, enrolment.client)
        self._key = bytes.fromhex(enrolment.mac_key)
        self._tag = mapping_tag(enrolment.mapping)
        pairs = zip(enrolment.sensors, enrolment.bundle_bytes, strict=True)
        self._sensors = [self._open(folder, name, bundle) for name, bundle in pairs]

    def _open(self, folder: Path, name: str, bundle: bytes) -> Sensor:
        stem = hashlib.sha256(name.encode()).hexdigest()[:16]
        file, note = folder / f"{stem}.bundle", f"ledger {stem}"
        write_private(file, bundle)
        try:
            sensor = Sensor(
                file,
                public_key=self._enrolment.public_key,
                ledger=folder / f"{stem}.ledger",
                make_new=not self._outbox.note(note),
            )
            if sensor.table.name != name or sensor.table.mapping_id != self._enrolment.mapping:
                raise InputError(
                    f"the bundle for {name!r} is of another sensor or mapping. Enrol again."
                )
            if not os.path.exists(sensor.ledger.path):
                sensor.ledger.store(sensor.ledger.record)
            self._outbox.set_note(note, 1)
        except (SensorError, OutboxError) as error:
            raise InputError(str(error)) from None
        return sensor

    @property
    def spent(self) -> int:
        """The most that any of the ledgers has counted, in millionths of a nat."""
        return max(sensor.spent for sensor in self._sensors)

    def release(self, number: int, rounds: Sequence[Readings]) -> Waiting:
        """Draw and store the message for some rounds.

        Parameters
        ----------
        number : int
            The first of the rounds.
        rounds : sequence of dict
            For each round, the readings by sensor; who is not named has none.

        Raises
        ------
        OutboxError
            If nothing can be released now; nothing is sent then.
        """
        try:
            symbols = self._draw(rounds)
        except (LedgerError, SensorError) as error:
            raise OutboxError(str(error)) from None
        return self._outbox.append(
            number, len(rounds), lambda boot, seq: self._sealed(boot, seq, number, symbols)
        )

    def _draw(self, rounds: Sequence[Readings]) -> bytes:
        now, width = int(time.time()), len(self._sensors)
        symbols = bytearray(width * len(rounds))
        for t, sensor in enumerate(self._sensors):
            rows = [row_of(sensor.table, each.get(sensor.table.name)) for each in rounds]
            symbols[t::width] = bytes(sensor.release_rows(rows, now // sensor.table.period))
        return bytes(symbols)

    def _sealed(self, boot: int, seq: int, number: int, symbols: bytes) -> bytes:
        message = Message(boot, seq, number, self.spent, symbols, self._tag)
        return encode(message, self._key, self._topic)

    def close(self) -> None:
        """Let another process use the ledgers."""
        for sensor in self._sensors:
            sensor.close()
