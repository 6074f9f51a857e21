"""The enrolled clients and what each may send."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InputError
from discreet.mapping.mapping import Mapping
from discreet.network.site.files import read_model
from discreet.network.site.settings import Client, Clients
from discreet.network.wire import MAX_SYMBOLS, ack_topic, message_topic

_REMEDY = "Restore it from a good copy; until then the clients known before stay in force."


@dataclass(frozen=True)
class ClientSpec:
    """A client and what its messages must look like.

    ``topic``: where its messages come from. ``columns``: the place of each of its sensors in the
    mapping. ``batch``: rounds in one message. ``symbols``: how many symbols a message has. ``own``:
    for each sensor, the symbols that it can send.
    """

    name: str
    key: bytes
    topic: bytes
    ack_topic: str
    columns: NDArray[np.intp]
    batch: int
    symbols: int
    own: tuple[bytes, ...]
    revoked: bool

    @cached_property
    def _alike(self) -> bool:
        return len(set(self.own)) == 1

    def sends_only_its_own(self, symbols: bytes) -> bool:
        """Whether every symbol is one that its sensor can send."""
        if self._alike:
            return not symbols.translate(None, self.own[0])
        width = len(self.own)
        return not any(symbols[t::width].translate(None, own) for t, own in enumerate(self.own))


class Registry:
    """The clients of a site, read again whenever the file changes.

    ``file``: ``clients.json`` of the site. ``problem``: why the file could not be read the last
    time.
    """

    def __init__(self, file: Path, site: str, mapping: Mapping) -> None:
        self._file, self._site, self._mapping = file, site, mapping
        self._seen = self._stamp()
        self.by_topic: dict[str, ClientSpec] = {}
        self.by_name: dict[str, ClientSpec] = {}
        self.problem: str | None = None
        self._load()

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._file)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _load(self) -> None:
        clients = read_model(self._file, Clients, _REMEDY)
        known = [self._spec(name, each) for name, each in clients.clients.items()]
        self.by_name = {each.name: each for each in known}
        self.by_topic = {each.topic.decode(): each for each in known}

    def _spec(self, name: str, client: Client) -> ClientSpec:
        places = {sensor: t for t, sensor in enumerate(self._mapping.names)}
        unknown = [sensor for sensor in client.sensors if sensor not in places]
        if unknown and client.revoked is None:
            raise InputError(
                f"{self._file}: client {name!r} has the sensor {unknown[0]!r}, which the mapping "
                "does not know. Enrol it again with the mapping that runs."
            )
        columns = [places[sensor] for sensor in client.sensors if sensor in places]
        count = len(client.sensors) * client.batch
        if count > MAX_SYMBOLS:
            raise InputError(
                f"{self._file}: client {name!r} has {count} symbols in a message; {MAX_SYMBOLS} "
                "are possible. Enrol it again with a smaller batch."
            )
        sizes = [self._mapping.n_symbols[column] for column in columns]
        return ClientSpec(
            name=name,
            key=bytes.fromhex(client.key),
            topic=message_topic(self._site, name).encode(),
            ack_topic=ack_topic(self._site, name),
            columns=np.array(columns, dtype=np.intp),
            batch=client.batch,
            symbols=count,
            own=tuple(bytes(range(size)) for size in sizes),
            revoked=client.revoked is not None,
        )

    def refresh(self) -> bool:
        """Read the file again if it has changed; return whether the clients did.

        A file that cannot be read changes nothing but ``problem``.
        """
        stamp = self._stamp()
        if stamp is None or stamp == self._seen:
            return False
        self._seen = stamp
        try:
            self._load()
        except InputError as error:
            self.problem = str(error)
            return False
        self.problem = None
        return True

    @property
    def longest_batch(self) -> int:
        """Most rounds that any client puts into one message."""
        return max((each.batch for each in self.by_name.values()), default=1)
