"""Shows how many of so many steps are done: a bar on a terminal, a line now and then elsewhere.

For work whose steps take long and come in any order, each in a process of its own.
"""

from __future__ import annotations

import threading
import time

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.progress import Task as BarTask
from rich.text import Text

from discreet.console import time_left

_QUIET_SECONDS = 2.0  # shorter work needs no bar
_LINE_SECONDS = 10.0  # how often a log file, which cannot hold a bar, gets a line


class StepsReport:
    """Shows how far the work is; it begins when the report is made.

    Parameters
    ----------
    console : Console
        Where to show it.
    what : str
        What a step is called, in the plural.
    found : int
        Steps that are done already and took no time.
    planned : int
        All steps.
    """

    def __init__(self, console: Console, what: str, found: int, planned: int) -> None:
        self.console, self.what, self.found, self.planned = console, what, found, planned
        # Not console.is_terminal, which is also true of a file where colours are forced.
        self.live = console.file.isatty() and not console.is_dumb_terminal
        self.began = time.monotonic()
        self._next_line = self.began + _QUIET_SECONDS
        self._bar: Bar | None = None
        self._timer: threading.Timer | None = None
        if self.live and found < planned:
            self._begin()

    def __call__(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)
        now = time.monotonic()
        if not self.live and now > self._next_line:
            self._next_line = now + _LINE_SECONDS
            left = time_left(now - self.began, _share(done, self.found, self.planned))
            self.console.print(f"{done} of {self.planned} {self.what}{left and ', '}{left}")

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    def _begin(self) -> None:
        self._bar = Bar(
            TextColumn(self.what, markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f} of {task.total:.0f}"),
            TimeLeft(self.found, self.planned),
            console=self.console,
            transient=True,
        )
        self._bar.add_task("", total=self.planned, completed=self.found)
        self._timer = threading.Timer(_QUIET_SECONDS, self._bar.start)
        self._timer.daemon = True
        self._timer.start()


class TimeLeft(ProgressColumn):
    """Counts down between steps, too, each of which may take minutes."""

    def __init__(self, found: int, planned: int) -> None:
        super().__init__()
        self.found, self.planned, self.began = found, planned, time.monotonic()
        self._seen, self._seen_at = found, self.began

    def render(self, task: BarTask) -> Text:
        """Return the time that the rest takes at the pace so far."""
        done, now = int(task.completed), time.monotonic()
        if done != self._seen:
            self._seen, self._seen_at = done, now
        share = _share(done, self.found, self.planned)
        spent = self._seen_at - self.began
        # Such that the time left at this share is shorter by what has passed since then.
        passed = min((now - self._seen_at) * share / (1 - share), spent) if share < 1 else 0.0
        return Text(time_left(spent - passed, share))


def _share(done: int, found: int, planned: int) -> float:
    """Return the share of the steps that had to be done; those found took no time."""
    return (done - found) / max(planned - found, 1)
