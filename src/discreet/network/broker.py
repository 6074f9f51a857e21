"""A Mosquitto of our own: started, reloaded and stopped by us, on a port of its own.

The demo, the tests and the benchmarks run one from a folder with a ``mosquitto.conf``; a site in
earnest leaves it to systemd or Compose, with the same configuration.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from discreet.errors import InputError

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
