"""A run in words: one table for each benchmark, and what was promised below it."""

from __future__ import annotations

import numpy as np

from discreet.bench.results import Contest, Run

_COLUMNS = ("", "median", "least", "most", "processor", "ratio: clock", "processor")


def contest_lines(contest: Contest) -> list[str]:
    """Return the table of one benchmark; ratios are to ours, round by round."""
    ours = contest.reference()
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for each in contest.times:
        clock = contest.factor * np.array(each.clock)
        figures = (np.median(clock), clock.min(), clock.max())
        spent = contest.factor * float(np.median(each.processor))
        ratios = (each.over(ours), each.work_over(ours))
        rows.append((each.name, *map(_figure, (*figures, spent)), *(f"{r:.2f}" for r in ratios)))
    rounds = len(ours.clock)
    lines = [contest.title, f"{contest.size}; {rounds} rounds in turn; {contest.unit}", ""]
    lines += aligned(rows)
    lines += [f"{name}: not installed" for name in contest.missing]
    lines += list(contest.notes)
    return lines + [check.text() for check in contest.checks]


def run_line(run: Run) -> str:
    """Return what was measured on, in one line."""
    versions = ", ".join(f"{name} {text}" for name, text in run.machine.versions.items())
    cores = f"{run.machine.cores} core{'s'[: run.machine.cores > 1]}"
    return f"discreet {run.discreet}, {cores}, Python {run.machine.python}, {versions}"


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines: the first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _figure(value: float) -> str:
    return f"{value:.3f}" if value < 100 else f"{value:.1f}"
