"""Shows how far the work is: a bar on a terminal, a line now and then elsewhere.

``ShareReport`` is for work that knows which share of it is done, ``StepsReport`` for steps that
take long and come in any order, each in a process of its own.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.progress import Task as BarTask
from rich.text import Text

_QUIET_SECONDS = 2.0  # shorter work needs no bar
_LINE_SECONDS = 10.0  # how often a log file, which cannot hold a bar, gets a line


def time_left(seconds: float, done: float) -> str:
    """Return how long the rest takes at the pace so far, or nothing when it is too soon."""
    if done < 0.01 or seconds <= 0:
        return ""
    minutes, rest = divmod(round(seconds * (1.0 - done) / done), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


def is_live(console: Console) -> bool:
    """Return whether a bar can be shown."""
    # Not console.is_terminal, which is also true of a file where colours are forced.
    return console.file.isatty() and not console.is_dumb_terminal


class ShareReport:
    """Shows which share of the work is done.

    ``console``: where to show it. ``quiet``: show nothing.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console, self.quiet, self.live = console, quiet, is_live(console)
        self._began = self._phase_began = self._last_line = time.monotonic()
        self._done = 0.0
        self._bar: Bar | None = None

    def show(self, what: str, done: float, detail: str = "") -> None:
        """Show what is being done and how much of it is; a share that falls begins a new phase."""
        now = time.monotonic()
        if done < self._done:
            self._phase_began = now
        self._done = done
        if self.quiet or now - self._began <= _QUIET_SECONDS:
            return
        left = time_left(now - self._phase_began, done)
        if self.live:
            self._show_bar(what, completed=done, detail=detail, left=left)
        elif now - self._last_line > _LINE_SECONDS:
            self._last_line = now
            self.console.print(f"{what} {done:.0%}: {detail}{left and ', '}{left}")

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show_bar(self, what: str, **fields: Any) -> None:
        if self._bar is None:
            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=10),
                TextColumn("{task.fields[detail]}", markup=False),
                TextColumn("{task.fields[left]}", markup=False),
                console=self.console,
                transient=True,
            )
            self._bar.add_task(what, total=1.0, **fields)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], description=what, **fields)


class StepsReport:
    """Shows how far the work is; it begins when the report is made.

    ``console``: where to show it. ``what``: what a step is called, in the plural. ``found``: steps
    that are done already and took no time. ``planned``: all steps.
    """

    def __init__(self, console: Console, what: str, found: int, planned: int) -> None:
        self.console, self.what, self.found, self.planned = console, what, found, planned
        self.live = is_live(console)
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
