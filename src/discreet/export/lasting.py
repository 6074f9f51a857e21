"""What a day of releases tells by C1, and how long a budget lasts: by the schedule alone.

A ledger counts C1 once for each release that may be a fresh draw. A day begins where a period does,
and a device counts at least the length of a period before the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InputError, shown
from discreet.export.neutral import MICRO, NONE, Policy, SensorTable

DAY = 86_400
ALL_OF_THEM = "no bound on all of them"
_SETTLES = math.log(199)  # nats; two classes can then be distinguished in 99.5 % of the cases


@dataclass(frozen=True)
class Schedule:
    """One release in every ``interval`` seconds of a sensor whose table has so many rows."""

    policy: Policy
    interval: Fraction
    rows: int

    @property
    def a_day(self) -> int:
        """How many releases a day has at most."""
        return math.ceil(DAY / self.interval)

    @property
    def counted_a_period(self) -> int:
        """How many releases of a period are counted at most."""
        releases = math.ceil(self.policy.period / self.interval)
        most = {"never": releases, "code": self.rows, "period": 1}[self.policy.repeat]
        return min(most, releases)

    @property
    def counted_a_day(self) -> int:
        """How many releases of a day are counted at most."""
        if self.policy.repeat == "never":
            return self.a_day
        period = self.policy.period
        latest = period - math.gcd(DAY, period)  # that a day begins in a period
        periods = (latest + DAY - 1) // period + 1  # that a day has a part of at most
        return min(self.a_day, periods * self.counted_a_period)

    def answered(self, counted: int) -> int:
        """Return how many releases in a row are answered if so many may be counted.

        The first one begins a period; periods with fewer releases than others may make it more.
        """
        if self.policy.repeat == "never":
            return counted
        periods, rest = divmod(counted, self.counted_a_period)
        seconds = max(Fraction(self.policy.period), self.interval)
        return int(periods * seconds // self.interval) + rest


@dataclass(frozen=True)
class Lasting:
    """What sensors with one policy tell in a day, all together, and how long their budget lasts.

    ``a_day``: releases of each in a day. ``day``: the largest log-ratio of all symbols of a day for
    any two sequences of readings, in nats; infinite if there is no bound. ``counted``: what the
    ledgers count in a day. ``budget``: of each sensor. ``releases``: that the budget of the sensor
    called ``first`` lasts, which is spent first; None if it is never spent. ``enough``: a budget
    that lasts a day. ``spent``: nats that the fullest ledger holds already.
    """

    repeat: str
    a_day: int
    day: float
    counted: float
    budget: float | None
    releases: int | None
    first: str
    enough: float
    spent: float = 0.0

    @property
    def days(self) -> float:
        """How long the budget lasts."""
        return math.inf if self.releases is None else self.releases / self.a_day

    @property
    def shortage(self) -> str:
        """What is wrong with a budget that lasts less than a day; empty if it lasts."""
        if self.days >= 1.0:
            return ""
        return (
            f"{self._left()} lasts {_count(self.releases or 0)} of sensor "
            f"{shown(self.first)}, less than a day of {self.a_day:,}. For a day take "
            f"{_up(self.enough)}, one symbol for each --period (--repeat period), or tables with a "
            "smaller --ldp-epsilon"
        )

    def lines(self) -> list[str]:
        """Return the figure of a day, and how long the budget lasts."""
        return [f"a day of {_count(self.a_day)} of each sensor: {self._day()}", self._budget()]

    def _day(self) -> str:
        if math.isfinite(self.day):
            much = "; that much may settle any fact" if self.day > _SETTLES else ""
            return f"all tell at most {_up(self.day)} (C1), whatever is read{much}"
        if math.isfinite(self.counted):
            return (
                f"{ALL_OF_THEM}, since --repeat code shows which readings are equal; beyond that "
                f"at most {_up(self.counted)} (C1)"
            )
        return f"{ALL_OF_THEM}: some symbol is sent only for some codes"

    def _budget(self) -> str:
        if self.budget is None:
            rest = "all days together tell nothing" if self.day == 0 else "no bound on all days"
            return f"no budget: {rest}"
        if self.releases is None:
            return f"the budget of {self.budget:g} nats is never spent: the symbols tell nothing"
        return (
            f"{self._left()} lasts {self.days:,.4g} days, "
            f"{_count(self.releases)}; from then on symbols depend on no reading"
        )

    def _left(self) -> str:
        budget = self.budget or 0.0
        spent = min(self.spent, budget)  # a smaller budget than before may be given
        before = f", of which {spent:.4g} were spent before," if spent else ""
        return f"the budget of {budget:g} nats{before}"


def lasting(
    tables: Sequence[SensorTable], interval: float, anyway: bool = True, spent: int = 0
) -> Lasting:
    """Return what the sensors tell in a day with one release in every so many seconds.

    ``spent``: millionths of a nat that the fullest of their ledgers holds already.

    Raises InputError: if their budget lasts less than a day, unless that is wanted ``anyway``.
    """
    policy, seconds = tables[0].policy, Fraction(str(interval))
    schedules = [Schedule(policy, seconds, len(table.tops)) for table in tables]
    counts = [
        math.inf if table.micro_epsilon == NONE
        else schedule.counted_a_day * table.micro_epsilon / MICRO
        for table, schedule in zip(tables, schedules, strict=True)
    ]  # fmt: skip
    spans = [
        (schedule.answered(max(0, policy.micro_budget - spent) // table.micro_epsilon), table.name)
        for table, schedule in zip(tables, schedules, strict=True)
        if policy.budget is not None and table.micro_epsilon
    ]
    releases, first = min(spans, default=(None, tables[0].name))
    kept = counts if policy.budget is None else [min(each, policy.budget) for each in counts]
    found = Lasting(
        repeat=policy.repeat,
        a_day=schedules[0].a_day,
        day=math.inf if policy.repeat == "code" and any(counts) else sum(kept),
        counted=sum(kept),
        budget=policy.budget,
        releases=releases,
        first=first,
        enough=max(counts) + spent / MICRO,
        spent=spent / MICRO,
    )
    if found.shortage and not anyway:
        raise InputError(f"--budget: {found.shortage}; or give --anyway.")
    return found


def _up(nats: float) -> str:
    """Return nats with four digits, rounded up: a bound must not be shown too small."""
    if not nats:
        return "0 nats"
    unit = 10.0 ** (math.floor(math.log10(nats)) - 3)
    return f"{math.ceil(nats / unit - 1e-9) * unit:,.6g} nats"


def _count(releases: int) -> str:
    return f"{releases:,} release{'s'[: releases != 1]}"
