"""Shows how far the work is, a bar on a terminal, a line every ten seconds elsewhere; Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.progress import Task as BarTask
from rich.table import Column
from rich.text import Text

from discreet.cli.terminal import print_on
from discreet.progress import Progress, cost, standing
from discreet.stopping import HANGUP, STOPS, UNDONE, give_back, ignore, let_go_of_terminal, say

_QUIET_SECONDS = 2.0  # shorter work needs no bar
_LINE_SECONDS = 10.0  # how often a log file, which cannot hold a bar, gets a line


def time_left(seconds: float, done: float, most: float | None = None) -> str:
    """Return how long the rest takes at the pace so far, or nothing when it is too soon.

    ``most``: seconds that are left at most.
    """
    if done < 0.01 or seconds <= 0:
        return ""
    rest = seconds * (1.0 - done) / done
    minutes, rest = divmod(round(rest if most is None else min(rest, max(most, 0.0))), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


class ProgressReport:
    """Shows what is being done, how much of it is done and how long the rest takes.

    The time left counts down between calls, each of which may come minutes after the last.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        # Not console.is_terminal, which is also true of a file where colours are forced.
        self.live = console.file.isatty() and not console.is_dumb_terminal
        self._what, self._detail, self.done = "", "", 0.0
        self._began = self._reached = time.monotonic()  # the phase, and the share that is done
        self._end: float | None = None  # when the work ends anyway
        self._bar: Bar | None = None
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    def __call__(self, progress: Progress) -> bool:
        self.show(progress.phase, progress.done)
        return False  # never asks to stop

    def say(self, line: str) -> None:
        """Print one line, unless the user wants quiet."""
        if not self.quiet:
            print_on(self.console, line)

    def show(self, what: str, done: float, detail: str = "", limit: float | None = None) -> None:
        """Show what is being done and how much of it is; a share that falls begins a new phase.

        ``limit``: seconds after which the work ends anyway.
        """
        self._what, self._detail, now = what, detail, time.monotonic()
        self._end = None if limit is None else now + limit
        if done < self.done:
            self._began = now
        if done != self.done:
            self.done, self._reached = done, now
        if self._bar is not None:
            self._update(self._bar)
        elif self._watch is None and not self.quiet:
            self._watch = threading.Thread(target=self._show_in_time, daemon=True)
            self._watch.start()

    def count(self, what: str, planned: int) -> Callable[[int], None]:
        """Return what is called with the steps done, after showing that none is."""

        def tell(done: int) -> None:
            self.show(what, done / max(planned, 1), f"{done} of {planned}")

        tell(0)
        return tell

    def left(self) -> str:
        """Return how long the rest takes, shorter by what has passed since the last call.

        Or that the time is up that there was.
        """
        spent, since = self._reached - self._began, time.monotonic() - self._reached
        passed = since * self.done / (1.0 - self.done) if self.done < 1.0 else 0.0
        most = None if self._end is None else self._end - time.monotonic()
        if most is not None and most <= 0.0:
            return "time is up"  # what has begun is brought to its end
        return time_left(spent - min(passed, spent), self.done, most)

    def close(self) -> None:
        """Take the bar off the screen."""
        self._closed.set()
        if self._watch is not None:
            self._watch.join()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show_in_time(self) -> None:
        seconds = _QUIET_SECONDS if self.live else _LINE_SECONDS
        while not self._closed.wait(seconds):
            if self.live:
                return self._begin_bar()
            rest = ", ".join(filter(None, (self._detail, self.left())))
            line = f"{self._what} {self.done:.0%}" + (f": {rest}" if rest else "")
            self.console.print(line)
            seconds = _LINE_SECONDS

    def _begin_bar(self) -> None:
        # However narrow the terminal is, bar, share and time left stay; the rest is cut.
        cut: Any = {"no_wrap": True, "overflow": "ellipsis"}
        bar = Bar(
            TextColumn(
                "{task.description}", markup=False, table_column=Column(**cut, max_width=24)
            ),
            BarColumn(bar_width=10, table_column=Column(min_width=10)),
            TextColumn("{task.percentage:.0f} %", table_column=Column(no_wrap=True, min_width=5)),
            _TimeLeft(self, table_column=Column(no_wrap=True, min_width=9)),
            TextColumn("{task.fields[detail]}", markup=False, table_column=Column(**cut, ratio=1)),
            console=self.console,
            transient=True,
            expand=True,
        )
        bar.add_task("", total=1.0, detail="")
        self._update(bar)
        bar.start()
        self._bar = bar

    def _update(self, bar: Bar) -> None:
        bar.update(
            bar.task_ids[0],
            description=self._what,
            completed=self.done,
            detail=self._detail,
        )


class _TimeLeft(ProgressColumn):
    def __init__(self, report: ProgressReport, table_column: Column) -> None:
        super().__init__(table_column)
        self._report = report

    def render(self, task: BarTask) -> Text:
        return Text(self._report.left())


# --- Learning, and Ctrl-C in the middle of it ------------------------------------------------


class LearnReport:
    """Shows how the learning goes, and passes on the wish to stop.

    ``phase``: what is being done: None before the first report. ``keeps``: whether a stop now would
    leave a mapping. ``stop_asked``: whether the next report answers that the work should stop.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.shown = ProgressReport(console, quiet=quiet)
        self.stop_asked = False
        self.phase: str | None = None
        self.keeps = False

    def __call__(self, progress: Progress) -> bool:
        self.phase = progress.phase
        self.keeps = progress.phase == "design" if progress.keeps is None else progress.keeps
        if progress.seconds is not None:
            self.shown.say(cost(progress))
        else:
            self.shown.show(progress.phase, progress.done, standing(progress), progress.left)
        return self.stop_asked


@contextmanager
def stop_on_interrupt(report: LearnReport, *, last: bool = False) -> Iterator[None]:
    """Let the first Ctrl-C, SIGTERM or SIGHUP ask for a stop and the second one end everything.

    Before there is a mapping to keep, the first one ends everything. ``last``: after it there is
    but a mapping to write, or one line to print; signals are ignored from there on.

    Raises KeyboardInterrupt: with what to tell the user.
    """
    give_back()
    ended: list[tuple[str, int]] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        if number == HANGUP:
            let_go_of_terminal()
            if ended or report.stop_asked:
                return  # a terminal that is closed sends it, and its shell sends it again
        if report.stop_asked:
            ended.append(("stopped at once. No mapping was written.", number))
            raise KeyboardInterrupt(*ended[0])
        if not report.keeps:
            ended.append((UNDONE, number))
            raise KeyboardInterrupt(*ended[0])
        report.stop_asked = True
        clear = "\r\x1b[2K" if report.shown.live else ""
        say(f"{clear}Stopping with the best mapping so far. Ctrl-C again drops it.")

    before = {number: signal.getsignal(number) for number in STOPS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # a shell that starts us in the background says so
            signal.signal(number, ask)
    try:
        yield
    except Exception:
        if ended:  # a library, while it was loaded, made something else of the interrupt
            raise KeyboardInterrupt(*ended[0]) from None
        raise
    finally:
        if not (last and ignore()):
            for number, handler in before.items():
                signal.signal(number, handler)
        report.shown.close()
