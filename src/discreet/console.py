"""What a person at a terminal sees and does: progress, Ctrl-C, the closing summary."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from discreet.design.results import Progress
from discreet.errors import InputError
from discreet.learning import Learned, Prepared, Task, learn, prepare
from discreet.splitting import Split

_QUIET_SECONDS = 2.0  # shorter work needs no bar
_LINE_SECONDS = 10.0  # how often a log file, which cannot hold a bar, gets a line


class ProgressReport:
    """Shows how the learning goes, and passes on the wish to stop."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console, self.quiet = console, quiet
        self.stop_asked = False
        self._began = self._last_line = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __call__(self, progress: Progress) -> bool:
        now = time.monotonic()
        if not self.quiet and now - self._began > _QUIET_SECONDS:
            if self.console.is_terminal:
                self._show_bar(progress)
            elif now - self._last_line > _LINE_SECONDS:
                self._last_line = now
                self.console.print(f"{progress.phase}: {_standing(progress)}", highlight=False)
        return self.stop_asked

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.stop()

    def _show_bar(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[standing]}"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self._task = self._bar.add_task(progress.phase, total=1.0, standing="")
            self._bar.start()
        assert self._task is not None
        self._bar.update(
            self._task,
            completed=progress.done,
            description=progress.phase,
            standing=_standing(progress),
        )


def _standing(progress: Progress) -> str:
    text = f"public risk {progress.public_risk:.4f}"
    if progress.private_risk is not None and progress.floor is not None:
        text += f", private risk {progress.private_risk:.4f} (floor {progress.floor:.4f})"
    return text


@contextmanager
def stop_on_interrupt(report: ProgressReport) -> Iterator[None]:
    """Let the first Ctrl-C ask for a stop and the second one end everything."""

    def ask(_signal: int, _frame: FrameType | None) -> None:
        if report.stop_asked:
            raise KeyboardInterrupt
        report.stop_asked = True
        # os.write, not print: a handler may run in the middle of another print.
        os.write(2, b"\nStopping; the best mapping so far is kept. Ctrl-C again to drop it.\n")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        report.close()


def run_learn(
    *,
    table: Path,
    public: str,
    private: Sequence[str],
    out: Path,
    method: str,
    sensors: Sequence[str] | None,
    exclude: Sequence[str],
    holdout: float,
    group: str | None,
    seed: int,
    options: dict[str, Any],
    quiet: bool,
) -> Learned:
    """Learn as told, write the mapping, and say what was done."""
    console = Console(stderr=True, soft_wrap=True)
    _check_out(out)
    if not 0.0 <= holdout < 1.0:
        raise InputError(f"--holdout must be at least 0 and below 1, got {holdout}.")
    if seed < 0:
        raise InputError(f"--seed must not be negative, got {seed}.")
    split = Split(holdout=holdout, seed=seed, group=group)
    task = Task(table, public, private, sensors, exclude, method, split, options)
    prepared = prepare(task)
    if not quiet:
        console.print(_announce(prepared, split), highlight=False)
    report = ProgressReport(console, quiet=quiet)
    with warnings.catch_warnings(record=True) as caught, stop_on_interrupt(report):
        warnings.simplefilter("always")
        learned = learn(task, prepared, report=report)
    for warning in caught:
        console.print(f"warning: {warning.message}", style="yellow", highlight=False)
    learned.mapping.save(out)
    if not quiet:
        for line in summarise(learned, out):
            console.print(line, highlight=False)
    return learned


def _check_out(out: Path) -> None:
    """Find out before the work, not after it, that the result has nowhere to go."""
    folder = out.parent
    if out.is_dir():
        raise InputError(f"--out {out} is a directory. Name a file in it.")
    if not folder.is_dir():
        raise InputError(f"--out {out}: there is no directory {folder}. Make it first.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"--out {out}: the directory {folder} cannot be written to.")


def _announce(prepared: Prepared, split: Split) -> str:
    rows = f"{len(prepared.train)} rows to learn from"
    sensors = f"{len(prepared.sensors)} sensors ({', '.join(prepared.sensors[:8])}"
    sensors += ", ...)" if len(prepared.sensors) > 8 else ")"
    if not len(prepared.audit):
        return f"{sensors}; {rows}; none held out, so this table cannot audit the mapping"
    by = f" by {split.group!r}" if split.group else ""
    return f"{sensors}; {rows}, {len(prepared.audit)} held out{by} for the audit"


def summarise(learned: Learned, out: Path) -> list[str]:
    """Return the closing lines: what was written and what may be said of it."""
    mapper, mapping = learned.mapper, learned.mapping
    lines = [f"wrote {out}  {mapping.id[:19]}"]
    if mapper.stopped_:
        lines.append("stopped early: this is the best mapping found until then")
    if mapper.privacy_ratio_ is not None and mapper.expected_ is None:
        lines.append(
            f"private risk {mapper.private_risk_:.4f} on the training rows, "
            f"floor {mapper.threshold_:.4f}"
        )
    expected = mapper.expected_
    if expected is not None:
        lines.append(
            f"expected on new rows ({expected.folds} folds, an estimate and no certificate): "
            f"attacker's advantage {expected.advantage:.3f} ± {expected.advantage_error:.3f}, "
            f"public error {expected.public_error:.3f}"
            + ("" if expected.epsilon is None else f", epsilon {expected.epsilon:.2f}")
        )
    bound = mapper.structural_epsilon_
    lines.append(
        f"structural bound C1, any distribution, one release: epsilon <= {bound:.2f}"
        if bound < float("inf")
        else "structural bound C1: none, some table rows are certain"
    )
    return lines


def plain_print(text: str = "") -> None:
    """Print a line of results to stdout."""
    print(text, file=sys.stdout)
