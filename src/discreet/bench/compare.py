"""Two runs side by side: what became faster or slower by more than the spread.

Machines have slow days. So ours is also held against the yardstick of the same run, somebody
else's program that did not change, and that ratio decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.bench.results import Contest, Run, Timed
from discreet.bench.text import aligned, run_line
from discreet.errors import InputError

LEAST_CHANGE = 0.05
"""Smaller changes are not marked, however small the spread."""


@dataclass(frozen=True)
class Change:
    """One contestant in two runs.

    Attributes
    ----------
    contest, name : str
    old, new : float
        Medians, in seconds.
    relative : float
        New over old, each by the yardstick of its own run.
    spread : float
        What the two ratios may differ by without a reason.
    """

    contest: str
    name: str
    old: float
    new: float
    relative: float
    spread: float

    @property
    def verdict(self) -> str:
        """Say whether the change is larger than the spread."""
        if abs(math.log(self.relative)) <= max(self.spread, math.log1p(LEAST_CHANGE)):
            return ""
        return "slower" if self.relative > 1.0 else "faster"


def compare(old: Run, new: Run) -> list[Change]:
    """Return the change of every contestant that both runs have, the yardsticks aside.

    Raises
    ------
    InputError
        If nothing in them can be compared.
    """
    found = []
    for contest in new.contests:
        before = next((each for each in old.contests if each.name == contest.name), None)
        if before is None or (before.size, before.yardstick) != (contest.size, contest.yardstick):
            continue
        found += _changes(before, contest)
    if not found:
        raise InputError(
            "the two runs have no benchmark of the same size in common. Run both with the same "
            "options."
        )
    return found


def _changes(old: Contest, new: Contest) -> list[Change]:
    changes = []
    for after in new.times:
        before = old.of(after.name)
        if before is None or after.name == new.yardstick:
            continue
        (then, then_spread), (now, now_spread) = _relative(old, before), _relative(new, after)
        spread = math.hypot(then_spread, now_spread)
        changes.append(
            Change(new.name, after.name, before.median, after.median, now / then, spread)
        )
    return changes


def _relative(contest: Contest, timed: Timed) -> tuple[float, float]:
    """Return the ratio to the yardstick, round by round, and its relative spread."""
    yardstick = contest.of(contest.yardstick)
    assert yardstick is not None  # which the contest itself has checked
    ratios = tuple(a / b for a, b in zip(timed.clock, yardstick.clock, strict=True))
    each = Timed(name=timed.name, clock=ratios, processor=timed.processor)
    return each.median, each.spread


def change_lines(old: Run, new: Run) -> list[str]:
    """Return the comparison as text."""
    rows: list[tuple[str, ...]] = [("", "old, s", "new, s", "new/old", "by the peer", "spread", "")]
    for each in compare(old, new):
        rows.append(
            (
                f"{each.contest}: {each.name}",
                f"{each.old:.4g}",
                f"{each.new:.4g}",
                f"{each.new / each.old:.2f}",
                f"{each.relative:.2f}",
                f"{each.spread:.2f}",
                each.verdict,
            )
        )
    return [
        f"old: {run_line(old)}",
        f"new: {run_line(new)}",
        "",
        *aligned(rows),
        "",
        "by the peer: the same ratio with both times divided by the peer's of their own run, which",
        "takes the machine out. Marked is what changed there by more than the spread and 5 %.",
    ]
