"""The processes of the demo: started in order, watched, and ended in reverse.

One of them, where Mosquitto is not installed, is amqtt on loopback: ``python -m`` with this module
and a port runs it. It speaks MQTT 3.1.1, without TLS and rights, so that only the demo may use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from discreet.errors import InputError
from discreet.network.broker import end

_SECONDS = 8.0


class Children:
    """Processes that end when the demo does.

    ``logs``: folder for what they print.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, *arguments: str) -> None:
        """Start Python with some arguments, in a session that Ctrl-C does not reach."""
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append((name, process))

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def printed(self, name: str) -> str:
        file = self.log(name)
        return file.read_text(errors="replace") if file.exists() else ""

    def check(self) -> None:
        """Check that all still run.

        Raises InputError: with the last line that an ended one printed.
        """
        for name, process in self._running:
            if process.poll() is not None:
                printed = self.printed(name).strip().splitlines()
                last = printed[-1] if printed else f"exit code {process.returncode}"
                raise InputError(f"the demo's {name} has ended: {last}. See {self.log(name)}.")

    def stop(self) -> None:
        """End all, the last one first; one that does not react is killed."""
        until = time.monotonic() + _SECONDS
        for _, process in reversed(self._running):
            end(process, max(0.1, until - time.monotonic()))
        self._running = []


def _config(port: int) -> dict[str, Any]:
    return {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }


async def _serve(port: int) -> None:
    from amqtt.broker import Broker

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    broker = Broker(_config(port))
    await broker.start()
    await stop.wait()
    with contextlib.suppress(Exception):  # it is the demo's end in any case
        await asyncio.wait_for(broker.shutdown(), 3)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_serve(int(sys.argv[1])))
