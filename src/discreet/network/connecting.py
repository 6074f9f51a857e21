"""Have the broker of a site reload, and see whom it lets in.

Which clients a broker accepts is found out by trying it, with certificates made for the purpose,
not by believing that a signal has arrived.
"""

from __future__ import annotations

import os
import signal
import ssl
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from paho.mqtt.client import Client

from discreet.errors import InputError
from discreet.files import PRIVATE, write_whole
from discreet.network.site.settings import BrokerEndpoint, SiteFiles
from discreet_sensor.connecting import BrokerAddress, make_client

_SECONDS = 10.0  # for the broker to answer

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
