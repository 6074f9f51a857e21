"""What a person at a terminal sees and does: progress, Ctrl-C, the closing summary.

Progress, warnings and errors go to stderr; what a script may want to read, to stdout.
"""

from __future__ import annotations

import math
import os
import signal
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from discreet.cluster.connect import connected
from discreet.design.base import PrivacyMapper
from discreet.design.calibration import Expected
from discreet.design.results import Progress
from discreet.errors import DiscreetWarning, InputError
from discreet.learning import Learned, Task, check_task, describe_order, learn, prepare
from discreet.splitting import Split

_QUIET_SECONDS = 2.0  # shorter work needs no bar
_LINE_SECONDS = 10.0  # how often a log file, which cannot hold a bar, gets a line
_LISTED_SENSORS = 8


# --- Progress ------------------------------------------------------------------------------


class ProgressReport:
    """Shows how the learning goes, and passes on the wish to stop.

    Parameters
    ----------
    console : Console
        Where to show it: as a bar on a terminal, as a line now and then elsewhere.
    quiet : bool
        Show nothing, but still pass on the wish to stop.

    Attributes
    ----------
    phase : str or None
        What is being done: None before the first report, "search" while a privacy
        level is looked for, "design" once there is a mapping that may be kept.
    stop_asked : bool
        Whether the next report answers that the work should stop.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console, self.quiet = console, quiet
        # Not console.is_terminal, which is also true of a file where colours are forced.
        self.live = console.file.isatty() and not console.is_dumb_terminal
        self.stop_asked = False
        self.phase: str | None = None
        self._began = self._phase_began = self._last_line = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __call__(self, progress: Progress) -> bool:
        now = time.monotonic()
        if progress.phase != self.phase:
            self.phase, self._phase_began = progress.phase, now
        if not self.quiet and now - self._began > _QUIET_SECONDS:
            left = time_left(now - self._phase_began, progress.done)
            if self.live:
                self._show_bar(progress, left)
            elif now - self._last_line > _LINE_SECONDS:
                self._last_line = now
                share = f"{progress.phase} {progress.done:.0%}"
                self.console.print(f"{share}: {standing(progress)}{left and ', '}{left}")
        return self.stop_asked

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show_bar(self, progress: Progress, left: str) -> None:
        fields: dict[str, Any] = {
            "completed": progress.done,
            "standing": standing(progress),
            "left": left,
        }
        if self._bar is None:
            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=10),
                TextColumn("{task.fields[standing]}", markup=False),
                TextColumn("{task.fields[left]}", markup=False),
                console=self.console,
                transient=True,
            )
            self._task = self._bar.add_task(progress.phase, total=1.0, **fields)
            self._bar.start()
        assert self._task is not None
        self._bar.update(self._task, description=progress.phase, **fields)


def standing(progress: Progress) -> str:
    """Return the risks in words, short enough for a bar on a terminal of 80 columns."""
    if math.isnan(progress.public_risk):  # there is no mapping yet
        return "reading rows"
    text = f"public risk {progress.public_risk:.4f}"
    if progress.private_risk is not None and progress.floor is not None:
        text += f", private {progress.private_risk:.4f} (floor {progress.floor:.4f})"
    return text


def time_left(seconds: float, done: float) -> str:
    """Return how long the rest takes at the pace so far, or nothing when it is too soon."""
    if done < 0.01 or seconds <= 0:
        return ""
    minutes, rest = divmod(round(seconds * (1.0 - done) / done), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


@contextmanager
def stop_on_interrupt(report: ProgressReport) -> Iterator[None]:
    """Let the first Ctrl-C ask for a stop and the second one end everything.

    Before there is a mapping to keep, the first one ends everything.

    Raises
    ------
    KeyboardInterrupt
        With what to tell the user.
    """

    def ask(_signal: int, _frame: FrameType | None) -> None:
        if report.stop_asked:
            raise KeyboardInterrupt("stopped at once. No mapping was written.")
        if report.phase != "design":
            during = "during the search for a privacy level, " if report.phase == "search" else ""
            raise KeyboardInterrupt(
                f"stopped {during}before there was a mapping to keep. No mapping was written."
            )
        report.stop_asked = True
        # os.write, not print: a handler may run in the middle of another print.
        clear = b"\r\x1b[2K" if report.live else b""
        os.write(2, clear + b"Stopping with the best mapping so far. Ctrl-C again drops it.\n")

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # a shell that starts us in the background says: ignore it
        signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        report.close()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait, so that what is said of the file is true."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- The command ---------------------------------------------------------------------------


def run_learn(task: Task, out: Path, *, dask: str | None = None, quiet: bool = False) -> Learned:
    """Learn as told, write the mapping, and say what was done.

    Parameters
    ----------
    task : Task
    out : Path
        Where the mapping goes. Nothing is written unless all goes well.
    dask : str, optional
        The cluster that goes over the rows: a scheduler's address, or "local:N".
    quiet : bool, default=False
        Print warnings only.

    Raises
    ------
    InputError
        Before the work where possible, with what to do.
    ClusterError
        If the cluster does not answer, or has lost all its workers.
    KeyboardInterrupt
        If the user wanted an end and no mapping.
    """
    console = plain_console()
    for file in task.files():
        check_out(out, file)
    with told_warnings(console):
        learned = _learn_reporting(task, dask, console, quiet)
    save(learned.mapper, out, quiet)
    return learned


def plain_console() -> Console:
    """Return stderr, where names of columns and files may look like markup and are none."""
    return Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


@contextmanager
def told_warnings(console: Console) -> Iterator[None]:
    """Gather warnings and tell each of ours once, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(
        str(each.message) for each in caught if issubclass(each.category, DiscreetWarning)
    ):
        console.print(f"warning: {message}", style="yellow")


def save(mapper: PrivacyMapper, out: Path, quiet: bool) -> None:
    """Write the mapping and say what was done."""
    with _undisturbed():
        mapper.mapping_.save(out)
        for line in () if quiet else summarise(mapper, out):
            plain_print(line)


def _learn_reporting(task: Task, dask: str | None, console: Console, quiet: bool) -> Learned:
    if dask is not None:
        check_task(task)
    with connected(dask) as client:
        prepared = prepare(task)
        if not quiet:
            counts = len(prepared.train), len(prepared.audit)
            console.print(announce(prepared.sensors, *counts, task.split))
        if prepared.dependence is not None and prepared.dependence.found:
            order = prepared.dependence, prepared.table, prepared.sensors, task
            console.print(f"warning: {describe_order(*order)}", style="yellow")
        report = ProgressReport(console, quiet=quiet)
        with stop_on_interrupt(report):
            return learn(task, prepared, report=report, client=client)


def check_out(out: Path, table: Path | None, option: str = "--out") -> None:
    """Find out before the work, not after it, that the result has nowhere to go."""
    try:
        target = out.resolve()
        if target.is_dir():
            raise InputError(f"{option} {out} is a directory. Name a file in it.")
        if target.exists():
            if not stat.S_ISREG(target.stat().st_mode):
                raise InputError(f"{option} {out} is not a regular file. Name another.")
            if table is not None and table.exists() and target.samefile(table):
                raise InputError(f"{option} {out} is what is read. Name another file.")
        if not target.parent.is_dir():
            raise InputError(
                f"{option} {out}: there is no directory {target.parent}. Make it first."
            )
        # The permissions do not tell all: a file system may be read-only or full.
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except (OSError, RuntimeError) as error:  # the latter: links that lead in circles
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{option} {out}: cannot be written there ({reason}). Name another place."
        ) from None


def announce(sensors: Sequence[str], training: int, held_out: int, split: Split) -> str:
    """Return what will be learned from how many rows, in one line."""
    names = ", ".join(sensors[:_LISTED_SENSORS])
    more = ", ..." if len(sensors) > _LISTED_SENSORS else ""
    listed = f"{len(sensors)} sensor{'s'[: len(sensors) > 1]} ({names}{more})"
    rows = f"{training} rows to learn from"
    if not held_out:
        return f"{listed}; {rows}, none held out: this table cannot audit the mapping"
    by = f" by {split.group!r}" if split.group else ""
    return f"{listed}; {rows}, {held_out} held out{by} for the audit"


def summarise(mapper: PrivacyMapper, out: Path) -> list[str]:
    """Return the closing lines: what was written and what may be said of it."""
    lines = [f"wrote {out}, id {mapper.mapping_.id[:19]}"]
    if mapper.stopped_:
        lines.append("stopped early: this is the best mapping found until then")
    expected = mapper.expected_
    if expected is not None:
        lines += [_privacy_line(expected), *_answer_lines(expected, mapper.mapping_.public.name)]
    elif mapper.privacy_ratio_ is not None:
        lines.append(
            f"private risk {mapper.private_risk_:.4f} on the training rows, "
            f"floor {mapper.threshold_:.4f}"
        )
    if not mapper.useful_:
        public = mapper.mapping_.public.name
        lines.append(
            f"useless: it answers {public!r} no better than guessing, as far as the rows show"
        )
    bound = mapper.structural_epsilon_
    lines.append(
        f"structural bound C1, any fact and distribution, one release: epsilon <= {bound:.2f}"
        if bound < float("inf")
        else "structural bound C1: none, some symbols are certain for some codes"
    )
    return lines


def _privacy_line(expected: Expected) -> str:
    verdict = {None: "", True: "; what was asked for is met", False: "; NOT MET"}[expected.met]
    return (
        f"expected on new rows ({expected.folds} folds, an estimate and no certificate): "
        f"attacker's advantage {expected.advantage:.3f} ± {expected.advantage_error:.3f}"
        + ("" if expected.epsilon is None else f", epsilon {expected.epsilon:.2f}")
        + verdict
    )


def _answer_lines(expected: Expected, public: str) -> list[str]:
    """Say what the answers are worth, and what guessing and raw readings are worth beside them."""
    return [
        f"answers {public!r} with error {expected.public_error:.3f} and balanced accuracy "
        f"{expected.balanced_accuracy:.3f} ({expected.balanced_low:.3f} to "
        f"{expected.balanced_high:.3f})",
        f"beside it, guessing: {expected.guessing_error:.3f} and "
        f"{expected.guessing_balanced_accuracy:.3f}; raw readings: {expected.raw_error:.3f} and "
        f"{expected.raw_balanced_accuracy:.3f}",
    ]


def plain_print(text: str = "") -> None:
    """Print a line of results, in order with what goes to stderr."""
    print(text, file=sys.stdout, flush=True)
