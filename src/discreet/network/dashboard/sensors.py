"""The devices of a site: which report, which are silent, what each has spent and sends.

How often each symbol is sent is a weak check of drift. Whatever is read, a symbol's share lies
between the least and the largest entry of its column: that is all a mapping guarantees about it. A
device whose symbols leave that range does not draw from its table. Drift that raises the leak stays
inside it; only labelled rows show that (``guarantee``).

A device repeats the symbol of a code for a period, so that thousands of messages may hold a handful
of draws. The ledger shows how many at least: what was spent, divided by what a whole period can
cost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as ReadMapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from discreet.export.lasting import DAY, Schedule
from discreet.export.neutral import MICRO, NONE, Policy, SensorTable
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import TOTAL, Sensor
from discreet.network.health import (
    BAD,
    GOOD,
    LATE,
    NEVER,
    REPORTING,
    REVOKED,
    SILENT,
    SUSPENDED,
    WARN,
    Finding,
    device_states,
)
from discreet.network.observed import Stored
from discreet.network.site.settings import Client, Site
from discreet.network.store.rows import UNBOUNDED, ClientState

_LITTLE_LEFT = 0.1

_LEVELS = {REPORTING: GOOD, LATE: WARN, SILENT: BAD, SUSPENDED: BAD, NEVER: WARN, REVOKED: ""}


@dataclass(frozen=True)
class Device:
    """One enrolled client.

    ``state``: as ``device_states`` has it. ``spent``, ``budget``: in nats; a budget of None is no
    limit, a spending of None cannot be bounded. ``cost``: what one release of a sensor reveals at
    most, the worst of the device; None without a bound. ``days_left``: that the rest of its budget
    lasts at least, if it has one. ``refused``: messages that were not accepted. ``revoked``: when.
    ``foreign``: whether its tables are of another mapping than the one that runs.
    """

    name: str
    sensors: tuple[str, ...]
    state: str
    last_seen: float | None
    last_round: int | None
    messages: int
    spent: float | None
    budget: float | None
    cost: float | None
    days_left: float | None
    refused: int
    revoked: datetime | None = None
    foreign: bool = False

    @property
    def level(self) -> str:
        """How bad the state is; nothing for a device that is meant to be out."""
        return _LEVELS[self.state]

    @property
    def left(self) -> float | None:
        """Nats that may still be released, or None if there is no limit."""
        if self.budget is None:
            return None
        return max(0.0, self.budget - (self.budget if self.spent is None else self.spent))

    @property
    def left_share(self) -> float | None:
        return None if self.left is None or not self.budget else self.left / self.budget

    @property
    def budget_level(self) -> str:
        """Bad when no release is left: then the symbols no longer depend on the readings."""
        if self.left_share is None:
            return ""
        if self.is_spent:
            return BAD
        return WARN if self.left_share < _LITTLE_LEFT else GOOD

    @property
    def is_spent(self) -> bool:
        """Whether no release is left; the rest of a budget may be less than one costs."""
        return self.left is not None and (not self.left or self.days_left == 0)


def describe_devices(
    site: Site,
    clients: ReadMapping[str, Client],
    stored: Stored,
    tables: ReadMapping[str, SensorTable],
    mapping_id: str,
    now: float,
) -> tuple[Device, ...]:
    """Return every device of a site, those that need attention first.

    ``tables``: of each sensor of the mapping.
    """
    known = {each.client: each for each in stored.clients}
    refused = Counter[str]()
    for each in stored.refusals:
        refused[each.client] += each.times if each.kept_out else 0
    found = []
    states = device_states(site, clients, stored, now)
    for name, client in clients.items():
        state = known.get(name)
        own = [tables[sensor] for sensor in client.sensors if sensor in tables]
        own = own if len(own) == len(client.sensors) else []
        worst = max((table.micro_epsilon for table in own), default=NONE)
        found.append(
            Device(
                name=name,
                sensors=client.sensors,
                state=states[name],
                last_seen=state.last_seen if state else None,
                last_round=state.last_round if state else None,
                messages=state.messages if state else 0,
                spent=_spent(state),
                budget=client.budget,
                cost=None if worst == NONE else worst / MICRO,
                days_left=_days_left(site, client, own, _spent(state)),
                refused=refused[name],
                revoked=client.revoked,
                foreign=client.mapping not in (None, mapping_id),
            )
        )
    order = (SUSPENDED, SILENT, LATE, NEVER, REPORTING, REVOKED)
    return tuple(sorted(found, key=lambda each: (order.index(each.state), each.name)))


def _spent(heard: ClientState | None) -> float | None:
    if heard is None:
        return 0.0
    return None if heard.spent >= UNBOUNDED else heard.spent / MICRO


def _days_left(
    site: Site, client: Client, tables: Sequence[SensorTable], spent: float | None
) -> float | None:
    """Return how long the rest of a budget lasts if every round costs as much as it can."""
    if client.budget is None or not tables or any(each.ratio is None for each in tables):
        return None
    policy = Policy(client.budget, client.period or site.period, client.repeat or site.repeat)
    left = 0 if spent is None else max(0, policy.micro_budget - round(spent * MICRO))
    interval = Fraction(str(site.interval))
    rounds = [
        Schedule(policy, interval, len(each.tops)).answered(left // each.micro_epsilon)
        for each in tables
        if each.micro_epsilon
    ]
    return min(rounds) * site.interval / DAY if rounds else None


# --- Symbols against the tables ------------------------------------------------------------


ERROR = 0.001
"""Probability of a false alarm over a whole site."""


@dataclass(frozen=True)
class Sent:
    """What a device has sent lately.

    ``symbols``: of each message; the sensors of one round follow one another. ``spent``: nats that
    were spent over these messages; None if they cannot be counted. ``cost``: what one release of
    its worst sensor costs.
    """

    device: str
    sensors: tuple[str, ...]
    symbols: tuple[bytes, ...]
    spent: float | None
    cost: float | None


@dataclass(frozen=True)
class Outside:
    """A symbol that is sent more or less often than its table can explain."""

    device: str
    sensor: str
    symbol: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Marginals:
    """The outcome for a site: how many sensors were tested, and what was found."""

    checked: int
    unsure: int
    outside: tuple[Outside, ...]
    finding: Finding


def check_marginals(mapping: Mapping, sent: Iterable[Sent]) -> Marginals:
    """Compare what devices have sent with the tables."""
    tables = {sensor.name: sensor for sensor in mapping.sensors}
    tests = sum(sensor.symbols for sensor in mapping.sensors)
    checked, unsure, outside = 0, 0, list[Outside]()
    for each in sent:
        known = [tables[name] for name in each.sensors if name in tables]
        draws = _draws(each, known)
        if len(known) < len(each.sensors) or not draws:
            unsure += len(each.sensors)
            continue
        slack = math.sqrt(math.log(2 * tests / ERROR) / (2 * draws))  # Hoeffding, for all at once
        tellable = [
            sensor
            for sensor in known
            if any(low - slack > 0 or high + slack < 1 for low, high in _ranges(sensor))
        ]
        checked, unsure = checked + len(tellable), unsure + len(known) - len(tellable)
        for sensor in tellable:
            outside += _outside(each, sensor, slack)
    return Marginals(checked, unsure, tuple(outside), _finding(checked, outside))


def _draws(sent: Sent, sensors: Sequence[Sensor]) -> int:
    """Return how many periods, at least, the messages cover: draws of different ones are apart."""
    if not sent.spent or not sent.cost or not sensors:
        return 0
    rows = max(len(sensor.weights) for sensor in sensors)
    return int(sent.spent / (sent.cost * rows) + 1e-9)


def _ranges(sensor: Sensor) -> list[tuple[float, float]]:
    columns = zip(*sensor.weights, strict=True)
    return [(min(column) / TOTAL, max(column) / TOTAL) for column in columns]


def _outside(sent: Sent, sensor: Sensor, slack: float) -> list[Outside]:
    place, step = sent.sensors.index(sensor.name), len(sent.sensors)
    counts = Counter(symbol for message in sent.symbols for symbol in message[place::step])
    total = counts.total()
    found = []
    for symbol, (low, high) in enumerate(_ranges(sensor)):
        share = counts[symbol] / total if total else low
        if not low - slack <= share <= high + slack:
            found.append(Outside(sent.device, sensor.name, symbol, share, low, high))
    return found


def _finding(checked: int, outside: Sequence[Outside]) -> Finding:
    if outside:
        first = outside[0]
        words = (
            f"{first.device}: symbol {first.symbol} of “{first.sensor}” is {first.share:.0%} of "
            f"all; its table allows {first.low:.0%} to {first.high:.0%}. The device does not draw "
            "from it: enrol it again."
        )
        return Finding(BAD, "Symbols do not fit the tables", words)
    if not checked:
        words = "There are too few independent draws for a test yet."
        return Finding("", "Symbols not tested yet", words)
    return Finding(GOOD, "The symbols fit the tables", "That rules out broken devices, not drift.")
