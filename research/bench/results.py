"""What a run of the benchmarks found: every measured time, and on what it was measured.

A ``Run`` is also its own file. The file may come from anybody, so that every part is checked.
It tells cores and versions, and nothing that would tell whose machine it was.
"""

from __future__ import annotations

from os import PathLike
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field

from discreet.data.strict_model import Items, Model
from discreet.mapping.file_format import format_text, load_result, write_file

MAX_BYTES = 2**20
MAX_ROUNDS = 1_000
_REMEDY = "Give a file that `python -m research.bench --out` wrote."

Text = Annotated[str, Field(max_length=500)]
Seconds = Annotated[float, Field(gt=0)]


class Timed(Model):
    """How long one contestant took, round by round.

    ``clock``, ``processor``: seconds that passed, and seconds that the processor spent. Where
    others use the machine too, the latter say more.
    """

    name: Text
    clock: Items[Seconds] = Field(min_length=1, max_length=MAX_ROUNDS)
    processor: Items[Annotated[float, Field(ge=0)]] = Field(min_length=1, max_length=MAX_ROUNDS)

    @property
    def median(self) -> float:
        return float(np.median(self.clock))

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        low, high = np.quantile(self.clock, [0.25, 0.75])
        return float(high - low) / 2.0 / self.median

    def over(self, other: Timed) -> float:
        """Return the ratio to another contestant, taken round by round."""
        pairs = zip(self.clock, other.clock, strict=True)
        return float(np.median([mine / theirs for mine, theirs in pairs]))

    def work_over(self, other: Timed) -> float:
        """Return the same ratio by the processor's seconds; NaN where they were none."""
        mine, theirs = np.median(self.processor), np.median(other.processor)
        return float(mine / theirs) if theirs > 0 else float("nan")


class Check(Model):
    """A figure that is promised, and the one that was measured."""

    words: Text
    value: float
    limit: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def text(self) -> str:
        """Return the outcome in one line."""
        sign = "<=" if self.at_most else ">="
        verdict = "PASS" if self.met else "MISSED"
        return f"{verdict:7}{self.words}: {self.value:.3g} (target {sign} {self.limit:g})"


class Contest(Model):
    """One benchmark: the contestants, ours among them.

    ``unit``: what the times are shown in. ``factor``: such units in a second. ``ours``: the
    contestant that is compared with the others. ``yardstick``: the one of somebody else that
    machines are compared by. ``missing``: contestants that are not installed here. ``notes``: what
    the contestants ended at, in words. ``checks``: empty in a quick run, whose sizes promise
    nothing.
    """

    name: Text
    title: Text
    size: Text
    unit: Text
    factor: float = Field(gt=0)
    ours: Text
    yardstick: Text
    times: Items[Timed] = Field(min_length=1, max_length=50)
    missing: Items[Text] = Field(default=(), max_length=50)
    notes: Items[Text] = Field(default=(), max_length=50)
    checks: Items[Check] = Field(default=(), max_length=50)

    def model_post_init(self, _: Any) -> None:
        """Refuse a contest whose rounds do not fit together."""
        names = [each.name for each in self.times]
        if len(set(names)) < len(names) or not {self.ours, self.yardstick} <= set(names):
            raise ValueError("names contestants twice, or compares with one that is not there")
        if len({len(part) for each in self.times for part in (each.clock, each.processor)}) > 1:
            raise ValueError("has contestants with different numbers of rounds")

    def of(self, name: str) -> Timed | None:
        """Return the times of one contestant, if it took part."""
        return next((each for each in self.times if each.name == name), None)

    def reference(self) -> Timed:
        """Return the times of ours."""
        return next(each for each in self.times if each.name == self.ours)


class Machine(Model):
    """What was measured on: nothing that would tell whose machine it is."""

    cores: int = Field(ge=1)
    python: Text
    versions: dict[Text, Text] = Field(max_length=50)


class Run(Model):
    """One run of the benchmarks."""

    format: Literal["discreet-bench"] = "discreet-bench"
    version: Literal[1] = 1
    discreet: Text
    quick: bool
    machine: Machine
    contests: Items[Contest] = Field(min_length=1, max_length=50)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file whole or not at all.

        Raises InputError: if it cannot be written.
        """
        write_file(path, format_text(self.model_dump()))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that ``save`` wrote.

        Raises InputError: if it is not a sound run.
        """
        return load_result(cls, path, command="make bench", most=MAX_BYTES, remedy=_REMEDY)
