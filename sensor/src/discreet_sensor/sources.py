"""Where readings come from: lines, files, commands, tables and MQTT topics.

A source is asked once a round, at its end, for the readings by sensor; a sensor that it does not
name has no reading in that round. The output of a source is not trusted before it has been checked.
"""

from __future__ import annotations

import csv
import logging
import os
import shlex
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from discreet_sensor.errors import InputError
from discreet_sensor.parsing import MAX_TEXT, parse

logger = logging.getLogger(__name__)

STDIN = "-"
PASSWORD = "DISCREET_MQTT_PASSWORD"
"""Environment variable with the password of the broker that readings come from."""


class Source(ABC):
    """Gives readings, round by round.

    ``lead``: seconds before the end of a round at which it wants to be asked, if it may take long:
    how long it takes must not show in when the message leaves.
    """

    lead = 0.0

    @property
    def finished(self) -> bool:
        """Whether there are no more readings."""
        return False

    @abstractmethod
    def take(self) -> dict[str, Any]:
        """Return the readings of the round that ends now, by sensor."""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Free what the source uses."""


class Latest:
    """The last reading of each sensor, for sources that send at any time.

    ``hold``: seconds for which a reading stands; 0 for the round in which it came only.
    """

    def __init__(self, hold: float) -> None:
        self._hold, self._alone = hold, threading.Lock()
        self._found: dict[str, tuple[float, Any]] = {}
        self._fresh: set[str] = set()

    def put(self, sensor: str, value: Any) -> None:
        with self._alone:
            self._found[sensor] = (time.monotonic(), value)
            self._fresh.add(sensor)

    @property
    def fresh(self) -> bool:
        return bool(self._fresh)

    def take(self) -> dict[str, Any]:
        oldest = time.monotonic() - self._hold
        with self._alone:
            self._found = {
                sensor: each
                for sensor, each in self._found.items()
                if sensor in self._fresh or (self._hold and each[0] >= oldest)
            }
            self._fresh = set()
            return {sensor: value for sensor, (_, value) in self._found.items()}


class LineSource(Source):
    """Lines from a stream: a reading each, or JSON objects of readings by sensor."""

    def __init__(self, stream: TextIO, sensors: Sequence[str], hold: float = 0.0) -> None:
        self._stream, self._sensors, self._latest = stream, sensors, Latest(hold)
        self._ended = False
        threading.Thread(target=self._read, name="lines", daemon=True).start()

    def _read(self) -> None:
        try:
            while line := self._stream.readline(MAX_TEXT):
                self._note(parse(line))
        except (OSError, ValueError) as error:  # undecodable bytes are a ValueError
            logger.warning("the input can no longer be read (%s)", error)
        self._ended = True

    @property
    def finished(self) -> bool:
        return self._ended and not self._latest.fresh

    def _note(self, content: Any) -> None:
        if isinstance(content, dict):
            for sensor in self._sensors:
                if sensor in content:
                    self._latest.put(sensor, content[sensor])
        elif len(self._sensors) == 1:
            self._latest.put(self._sensors[0], content)

    def take(self) -> dict[str, Any]:
        return self._latest.take()


class PolledSource(Source):
    """What holds or prints the present reading; a problem is logged when it begins."""

    def __init__(self, sensor: str) -> None:
        self._sensor, self._problem = sensor, ""

    @abstractmethod
    def _read(self) -> bytes: ...

    @abstractmethod
    def _explained(self, error: Exception) -> str: ...

    def take(self) -> dict[str, Any]:
        """Return the present reading; nothing if it cannot be had."""
        try:
            data, problem = self._read(), ""
        except (OSError, subprocess.SubprocessError) as error:
            data, problem = None, self._explained(error)
        if problem and problem != self._problem:
            logger.warning("%s", problem)
        self._problem = problem
        return {} if data is None else {self._sensor: parse(data.decode(errors="replace").strip())}


class FileSource(PolledSource):
    """A file that always holds the present reading, such as those below /sys."""

    def __init__(self, sensor: str, path: Path) -> None:
        super().__init__(sensor)
        self._path = path

    def _read(self) -> bytes:
        with open(self._path, "rb", buffering=0, opener=_open_at_once) as stream:
            return stream.read(MAX_TEXT) or b""  # None from a pipe that is empty now

    def _explained(self, error: Exception) -> str:
        return f"{self._path}: cannot be read ({getattr(error, 'strerror', None)})"


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # or opening a pipe would block


class CommandSource(PolledSource):
    """A program that prints the present reading; started each round, without a shell.

    ``command``: program and arguments, quoted as for a shell. ``timeout``: seconds that it may
    take.
    """

    def __init__(self, sensor: str, command: str, timeout: float) -> None:
        super().__init__(sensor)
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise InputError(f"the command {command[:60]!r} cannot be read ({error}).") from None
        if not self._command:
            raise InputError("the command is empty. Give a program: command:PROGRAM ARGUMENTS")
        self.lead = timeout

    def _read(self) -> bytes:
        return subprocess.run(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=self.lead,
            check=True,
            # The password of a broker is none of its business.
            env={name: value for name, value in os.environ.items() if name != PASSWORD},
        ).stdout[:MAX_TEXT]

    def _explained(self, error: Exception) -> str:
        return f"{self._command[0]} failed ({type(error).__name__})"


class CsvSource(Source):
    """A table played back, a row each round; ends with it.

    ``sensors``: columns to read.
    """

    def __init__(self, path: Path, sensors: Sequence[str]) -> None:
        try:
            self._stream = path.open(newline="", encoding="utf-8-sig")
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}). Name a CSV table."
            ) from None
        self._rows = self._read(path, sensors)
        try:
            self._next = next(self._rows, None)
        except InputError:
            self._stream.close()
            raise

    @property
    def finished(self) -> bool:
        return self._next is None

    def _read(self, path: Path, sensors: Sequence[str]) -> Iterator[dict[str, Any]]:
        try:
            table = csv.DictReader(self._stream)
            unknown = [sensor for sensor in sensors if sensor not in (table.fieldnames or ())]
            if unknown:
                raise InputError(f"{path}: has no column {unknown[0]!r}. Name another table.")
            for row in table:
                yield {sensor: row[sensor] for sensor in sensors if row[sensor] is not None}
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}: is no CSV table ({error}).") from None

    def take(self) -> dict[str, Any]:
        found, self._next = self._next, next(self._rows, None)
        return found or {}

    def close(self) -> None:
        self._stream.close()


class Sources:
    """Several sources as one; finished when any of them is."""

    def __init__(self, parts: Sequence[Source]) -> None:
        self._parts = parts

    @property
    def lead(self) -> float:
        """How long before the end of a round to start reading, one source after the other."""
        return sum(part.lead for part in self._parts)

    @property
    def finished(self) -> bool:
        return any(part.finished for part in self._parts)

    def take(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in self._parts:
            found |= part.take()
        return found

    def close(self) -> None:
        for part in self._parts:
            part.close()


def open_sources(
    specs: Sequence[str], sensors: Sequence[str], *, interval: float, hold: float
) -> Sources:
    """Return the sources of the options ``--read``.

    ``specs``: ``[SENSOR=]SOURCE``, where SOURCE is ``-`` for standard input, ``csv:PATH``,
    ``file:PATH``, ``command:PROGRAM ARGUMENTS`` or ``mqtt://HOST/TOPIC#FIELD``. ``sensors``: all
    sensors of the client. ``interval``: seconds of a round. ``hold``: seconds for which a reading
    from a line or a topic stays valid.
    """
    opened: list[Source] = []
    # Programs run one after the other, and have half of a round together.
    programs = sum("command:" in spec for spec in specs)
    try:
        for spec in specs:
            opened.append(_open(spec, sensors, interval / 2 / max(1, programs), hold))
    except InputError:
        Sources(opened).close()
        raise
    return Sources(opened)


def _open(spec: str, sensors: Sequence[str], patience: float, hold: float) -> Source:
    named = [sensor for sensor in sensors if spec.startswith(f"{sensor}=")]
    sensor = max(named, key=len, default=None)
    rest = spec if sensor is None else spec[len(sensor) + 1 :]
    mine = sensors if sensor is None else [sensor]
    kind, _, place = rest.partition(":")
    if rest == STDIN:
        return LineSource(sys.stdin, mine, hold)
    if kind == "csv" and place:
        return CsvSource(Path(place), mine)
    if len(mine) != 1:
        raise InputError(
            f"--read {spec[:80]!r}: there are {len(mine)} sensors. Name one: --read SENSOR=SOURCE"
        )
    if kind == "file" and place:
        return FileSource(mine[0], Path(place))
    if kind == "command" and place:
        return CommandSource(mine[0], place, patience)
    if kind in ("mqtt", "mqtts"):
        from discreet_sensor.mqtt_source import MqttSource

        return MqttSource(mine[0], rest, hold)
    raise InputError(
        f"--read {spec[:80]!r} is no source. Use -, csv:PATH, file:PATH, command:PROGRAM or "
        "mqtt://HOST/TOPIC#FIELD, with SENSOR= before it where there are several sensors."
    )
