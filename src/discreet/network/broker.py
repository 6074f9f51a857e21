"""The broker: a Mosquitto of our own, and whether that of a site reloads and whom it lets in.

The demo, the tests and the benchmarks run one from a folder with a ``mosquitto.conf``; a site in
earnest leaves it to systemd or Compose, with the same configuration.

*Have the broker of a site reload, and see whom it lets in.* Which clients a broker accepts is
found out by trying it, with certificates made for the purpose, not by believing that a signal has
arrived.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from paho.mqtt.client import Client

from discreet.errors import InputError
from discreet.files import PRIVATE, write_whole
from discreet.network.site.settings import BrokerEndpoint, SiteFiles
from discreet_sensor.connecting import BrokerAddress, make_client

# --- A broker of our own --------------------------------------------------------------------

CONFIG = "mosquitto.conf"
LOG = "mosquitto.log"
_START_SECONDS = 20.0
_STOP_SECONDS = 10.0
_ADMIN_PATHS = "/usr/local/sbin:/usr/sbin:/sbin:/opt/homebrew/sbin"


def find_mosquitto() -> Path | None:
    """Return the program if it is installed; Debian keeps it where a user's PATH does not look.

    The environment variable DISCREET_MOSQUITTO names another one, or with "none" that there is
    none.
    """
    named = os.environ.get("DISCREET_MOSQUITTO")
    if named:
        return None if named == "none" else Path(named)
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path=_ADMIN_PATHS)
    return None if found is None else Path(found)


def free_port() -> int:
    """Return a TCP port on loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def plain_config(port: int) -> str:
    """Return a configuration without TLS and rights: loopback only, for tests and benchmarks."""
    return (
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
        "max_inflight_messages 1000\nmax_queued_messages 100000\nset_tcp_nodelay true\n"
    )


class Broker:
    """A Mosquitto that runs from a folder.

    ``folder``: holds ``mosquitto.conf``, whose paths are relative to it; gets ``mosquitto.log``.
    ``port``: port that the configuration listens on.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = Path(folder), port
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def plain(cls, folder: Path, port: int | None = None) -> Self:
        """Return a broker without TLS on loopback, with its configuration written."""
        port = free_port() if port is None else port
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(plain_config(port))
        return cls(folder, port)

    @classmethod
    def of_site(cls, site: Path) -> Self:
        from discreet.network.site.settings import SiteFiles, load_site

        return cls(SiteFiles(site).broker, load_site(site).broker.port)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises InputError: if Mosquitto is not installed, or ends at once: with the end of its log.
        """
        program = find_mosquitto()
        if program is None:
            raise InputError("Mosquitto is not installed. On Debian: apt install mosquitto.")
        if answers(self.port):  # or another program would pass for this one
            raise InputError(f"port {self.port} is in use. Stop what listens there.")
        command = [str(program), "-c", self._config()]
        with (self.folder / LOG).open("ab") as log:
            try:
                self.process = subprocess.Popen(
                    command,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for this process, which ends it in order
                )
            except OSError as error:
                raise InputError(f"{program} cannot be run ({error.strerror}).") from None
        self._wait_until_up()

    def _config(self) -> str:
        """Return the configuration to start with; started as root, Mosquitto must stay root."""
        if os.name != "posix" or os.geteuid() != 0:
            return CONFIG
        # It would switch to the user mosquitto, which cannot read keys of root alone.
        own = self.folder / f"as-root-{CONFIG}"
        own.touch(mode=0o600)
        own.write_text(f"user root\n{(self.folder / CONFIG).read_text()}")
        return own.name

    def _wait_until_up(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if not self.running:
                raise InputError(f"Mosquitto did not start: {self.log_end()}")
            if answers(self.port):
                return
            time.sleep(0.02)
        self.stop()
        raise InputError(f"Mosquitto does not answer on port {self.port}: {self.log_end()}")

    def log_end(self) -> str:
        lines = (self.folder / LOG).read_text(errors="replace").strip().splitlines()
        return " ".join(lines[-2:]) or f"see {self.folder / LOG}"

    def reload(self) -> None:
        """Have it read rights, certificates and the revocation list again."""
        if self.process is not None:
            self.process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            end(self.process, _STOP_SECONDS)


def end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Terminate a process; kill it if it does not react in time."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    """Whether something listens on a port of loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


# --- The broker of a site -------------------------------------------------------------------

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
