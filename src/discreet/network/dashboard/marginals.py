"""How often each symbol is sent, against what the tables allow: a weak check of drift.

Whatever is read, a symbol's share lies between the least and the largest entry of its column: that
is all a mapping says about it. A device whose symbols leave that range does not draw from its
table. Drift that raises the leak stays inside it; only labelled rows show that (``guarantee``).

A device repeats the symbol of a code for a period, so that thousands of messages may hold a handful
of draws. The ledger tells how many at least: what was spent, divided by what a whole period can
cost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from discreet.mapping import Mapping
from discreet.mapping_parts import TOTAL, Sensor
from discreet.network.dashboard.levels import BAD, GOOD, Finding

ERROR = 0.001
"""Probability of a false alarm over a whole site."""


@dataclass(frozen=True)
class Sent:
    """What a device has sent lately.

    Attributes
    ----------
    sensors : tuple of str
    symbols : tuple of bytes
        Of each message; the sensors of one round follow one another.
    spent : float or None
        Nats that were spent over these messages; None if they cannot be counted.
    cost : float or None
        What one release of its worst sensor costs.
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
    """The outcome for a site: how many sensors were looked at, and what was found."""

    checked: int
    unsure: int
    outside: tuple[Outside, ...]
    finding: Finding


def check_marginals(mapping: Mapping, sent: Iterable[Sent]) -> Marginals:
    """Hold what devices have sent against the tables."""
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
        tellable = [sensor for sensor in known if _tellable(sensor, slack)]
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


def _tellable(sensor: Sensor, slack: float) -> bool:
    return any(low - slack > 0 or high + slack < 1 for low, high in _ranges(sensor))


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
            "from it: enrol it anew."
        )
        return Finding(BAD, "Symbols do not fit the tables", words)
    if not checked:
        words = "There are too few independent draws to say anything yet."
        return Finding("", "No word on the symbols yet", words)
    return Finding(GOOD, "The symbols fit the tables", "That rules out broken devices, not drift.")
