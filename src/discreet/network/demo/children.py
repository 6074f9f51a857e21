"""The processes of the demo: started in order, watched, and ended in reverse."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from discreet.errors import InputError

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
        """Return where a process prints to."""
        return self._logs / f"{name}.log"

    def printed(self, name: str) -> str:
        """Return what a process has printed so far."""
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
        end = time.monotonic() + _SECONDS
        for _, process in reversed(self._running):
            process.terminate()
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running = []
