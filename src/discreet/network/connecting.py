"""Reach the broker: where it is, with which certificate, how soon again; and have it reload.

Which clients a broker accepts is found out by trying it, with certificates made for the purpose,
not by believing that a signal has arrived.
"""

from __future__ import annotations

import os
import random
import signal
import ssl
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion

from discreet.errors import InputError
from discreet.files import PRIVATE, write_whole
from discreet.network.site.settings import BrokerEndpoint, SiteFiles

KEEPALIVE = 30  # seconds
_SECONDS = 10.0  # for the broker to answer

AnyClient = TypeVar("AnyClient", bound=Client)


@dataclass(frozen=True)
class BrokerAddress:
    """Where the broker is, and what to show it.

    ``ca``, ``certificate``, ``key``: in PEM. Without them there is no TLS, which only the demo and
    tests on loopback do. ``mqtt5``: false for the embedded broker of the demo.
    """

    host: str
    port: int
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    mqtt5: bool = True

    @classmethod
    def of(cls, broker: BrokerEndpoint, ca: Path, certificate: Path, key: Path) -> Self:
        """Return the address of a site's broker, which is shown nothing if it has no TLS."""
        tls = {"ca": ca, "certificate": certificate, "key": key} if broker.tls else {}
        return cls(broker.host, broker.port, mqtt5=broker.mqtt == "5", **tls)


def make_client(
    address: BrokerAddress, name: str, kind: type[AnyClient], *, reconnect: bool = True
) -> AnyClient:
    """Return a client of a kind that is not connected yet.

    Raises InputError: if a certificate cannot be read.
    """
    client = kind(
        CallbackAPIVersion.VERSION2,
        client_id=name,
        protocol=MQTTv5 if address.mqtt5 else MQTTv311,
        clean_session=None if address.mqtt5 else True,
        reconnect_on_failure=reconnect,
    )
    client.connect_timeout = _SECONDS
    if address.ca is not None:
        client.tls_set_context(_context(address))
    return client


def _context(address: BrokerAddress) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=address.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if address.certificate is not None:
            context.load_cert_chain(address.certificate, address.key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"the certificates for the broker cannot be used ({reason}). Enrol again, or run "
            "`discreet doctor`."
        ) from None
    return context


class Backoff:
    """How long to wait before trying again: doubled each time, and a part of it by chance.

    After a broker comes back, all clients would otherwise knock at the same moment.

    ``first``, ``most``: seconds.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._next = first

    def wait(self) -> float:
        now, self._next = self._next, min(self._most, 2 * self._next)
        return now * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start over after a success."""
        self._next = self._first


# --- The broker of a site ------------------------------------------------------------------


Answer = Literal["accepted", "refused", "unreachable"]


@dataclass(frozen=True)
class Attempt:
    """How a connection attempt ended, and the broker's reason."""

    answer: Answer
    words: str = ""


def broker_process(folder: Path) -> int | None:
    """Return the number of the Mosquitto process that runs from a site here, if there is one."""
    broker = SiteFiles(folder).broker
    try:
        pid = int((broker / "mosquitto.pid").read_text()[:20])
        command = Path(f"/proc/{pid}/cmdline").read_bytes() if Path("/proc").is_dir() else None
    except (OSError, ValueError):
        return None
    # The number may be of another process by now; SIGHUP would end most of them.
    return pid if pid > 1 and (command is None or b"mosquitto" in command) else None


def reload_broker(folder: Path) -> bool:
    """Have the broker read rights and revocation list again; return whether it was signalled."""
    pid = broker_process(folder)
    if pid is None or not hasattr(signal, "SIGHUP"):
        return False
    try:
        os.kill(pid, signal.SIGHUP)
    except OSError:  # another user's, or it has ended
        return False
    return True


def try_connection(
    broker: BrokerEndpoint, ca: Path, name: str, certificate: bytes, key: bytes
) -> Attempt:
    """Connect with a certificate, take the session of that name if there is one, and leave.

    ``ca``: certificate of the authority that the broker must be of. ``name``: client id.
    """
    answered = threading.Event()
    found: list[Attempt] = []

    def note(attempt: Attempt) -> None:
        found.append(attempt)
        answered.set()

    def connected(_client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        note(Attempt("refused" if reason.is_failure else "accepted", str(reason)))

    def disconnected(_client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        note(Attempt("refused", str(reason)))  # with TLS 1.3 a refusal comes after the handshake

    try:
        with tempfile.TemporaryDirectory(prefix="discreet-") as scratch:
            shown = Path(scratch, "crt"), Path(scratch, "key")
            for file, data in zip(shown, (certificate, key), strict=True):
                write_whole(file, data, PRIVATE)
            address = BrokerAddress(broker.host, broker.port, ca, *shown)
            client = make_client(address, name, Client, reconnect=False)
        client.on_connect, client.on_disconnect = connected, disconnected
        client.connect(broker.host, broker.port, keepalive=10, clean_start=True)
    except ssl.SSLError as error:
        return Attempt("refused", error.reason or "TLS")
    except (OSError, InputError) as error:
        return Attempt("unreachable", getattr(error, "strerror", None) or str(error))
    client.loop_start()
    try:
        answered.wait(_SECONDS)
    finally:
        client.disconnect()
        client.loop_stop()
    return found[0] if found else Attempt("unreachable", "no answer")
