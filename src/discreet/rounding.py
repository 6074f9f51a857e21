"""How figures are rounded and written: one unit, and a bound never better than it is.

A gain over guessing is in points of balanced accuracy. What is promised as a most is rounded up and
what is promised as a least is rounded down; an estimate is rounded to the nearest.
"""

from __future__ import annotations

import math

_NOISE = 1e-6  # of the last digit: what arithmetic adds to a bound, to be on the safe side
_MOST_DIGITS = 7


def up(value: float, digits: int = 3) -> float:
    """Round a bound from above."""
    scaled = 10.0**digits * value
    return math.ceil(scaled - _NOISE) / 10.0**digits if math.isfinite(scaled) else value


def down(value: float, digits: int = 3) -> float:
    """Round a bound from below."""
    scaled = 10.0**digits * value
    return math.floor(scaled + _NOISE) / 10.0**digits if math.isfinite(scaled) else value


def at_most(share: float, limit: float = math.inf) -> str:
    """Write a bound from above on a gain, in points; what is within the limit reads so, too."""
    digits = 3
    while share <= limit < up(share, digits) - 1e-9 and digits < _MOST_DIGITS:
        digits += 1
    return points(up(share, digits), digits - 2)


def at_least(share: float, limit: float = math.inf) -> str:
    """Write a bound from below on a gain, in points; what is beyond the limit reads so, too."""
    digits = 3
    while share > limit >= down(share, digits) - 1e-9 and digits < _MOST_DIGITS:
        digits += 1
    return points(down(share, digits), digits - 2)


def points(share: float, digits: int = 1) -> str:
    """Write a gain over guessing in points."""
    return f"{gain(share, digits)} points"


def gain(share: float, digits: int = 1) -> str:
    """Write a gain over guessing, the unit following later."""
    value = round(100 * share, digits) + 0.0  # no minus in front of a zero
    return f"{value:.{digits}f}".replace("-", "−")


def with_error(share: float, error: float) -> str:
    """Write a gain over guessing with its standard error, in points."""
    if not math.isfinite(error):
        return f"{points(share)}, error unknown"
    return f"{gain(share)} ± {points(error)}"


def plain_points(share: float) -> str:
    """Write points as they were stated."""
    said = f"{100 * share:.4g}"
    return f"{said} point{'s' * (said != '1')}"


def percent(share: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * share:.1f} %"


def percents(low: float, high: float) -> str:
    """Write an interval of shares: its ends outwards, the unit standing beside it."""
    return f"{100 * down(low):.1f} to {100 * up(high):.1f}"


def gains(low: float, high: float) -> str:
    """Write an interval of gains over guessing: its ends outwards, the unit standing beside it."""
    return f"{gain(down(low))} to {gain(up(high))}"


def confidence(share: float) -> str:
    """Write a confidence in percent, the unit following: as it is, or rounded down to a tenth."""
    value = 100 * share
    return f"{value:.6g}" if abs(value - round(value, 3)) < 1e-9 else f"{100 * down(share):.1f}"


def factor(epsilon: float) -> str:
    """Write by how much an epsilon may change odds, in three digits, rounded up."""
    if epsilon > 700:
        return "inf"
    found = math.exp(epsilon)
    digits = 2 - math.floor(math.log10(found))
    return f"{up(found, digits):.3g}"


def number(value: float | None) -> str:
    """Write an epsilon, a distance or an information; what is infinite is unbounded."""
    if value is None or math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "unbounded"
    return f"{value:.3f}".replace("-", "−")


def bounded(name: str, value: float) -> str:
    """Write a certified upper bound on what ``name`` says, in its unit."""
    return measured(name, up(value))


def measured(name: str, value: float) -> str:
    """Write an estimate of what ``name`` says, in its unit."""
    if name.startswith("advantage"):
        return points(value)
    return percent(value) if name == "accuracy" else number(value)


def say_span(rounds: int, seconds: float | None) -> str:
    """Return how long a promise holds, in a few words."""
    if seconds is None:
        return f"{rounds} rounds"
    hours = rounds * seconds / 3600.0
    spans = {1.0: "an hour", 24.0: "a day"}
    span = spans.get(hours, f"{hours / 24:.3g} days" if hours > 48 else f"{hours:.3g} hours")
    return f"{rounds} rounds of {seconds:g} s, {span}"
