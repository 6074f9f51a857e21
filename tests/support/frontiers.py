"""Made-up frontiers, shared by the tests of the trade-off."""

from discreet.data.split import Split
from discreet.frontiers.results import (
    FAMILIES,
    About,
    Bound,
    Estimate,
    Frontier,
    Leak,
    Point,
    Worth,
)
from discreet.mapping.parts import Source

ABOUT = About(
    public="fall",
    private=["who"],
    sensors=["hall", "door"],
    source=Source(digest="sha256:" + "0" * 64, rows=100, split=Split()),
    held_out=30,
    independent_rows=30.0,
    confidence=0.95,
    rule="balanced",
    guessing=Worth(error=0.4, balanced_accuracy=0.5),
    raw=Worth(error=0.05, balanced_accuracy=0.94, leak=0.44),
    parameters={"kernel": "product", "n_bins": {"hall": 3}, "reg": None},
    discreet="0.1.0",
)


def bounds(least=0.3, certifiable=True):
    if not certifiable:
        return [Bound(among=n, certifiable=False, reason="too few rows") for n in FAMILIES]
    return [
        Bound(among=n, certifiable=True, value=least + 0.01 * k) for k, n in enumerate(FAMILIES)
    ]


def estimate(value):
    return Estimate(value=value, low=max(value - 0.05, 0), high=min(value + 0.05, 1))


def point(advantage=0.1, error=0.2, ratio=0.9, method="npo", certifiable=True, **changes):
    figures = {
        "method": method,
        "n_symbols": 2,
        "ratio": ratio,
        "public_error": estimate(error),
        "balanced_accuracy": estimate(1 - error),
        "advantage": Leak(value=advantage, low=advantage / 2),
        "fact": "who",
        "bounds": bounds(min(advantage + 0.1, 0.9), certifiable),
        "exact": True,
        "useful": True,
        "mapping": "sha256:" + "1" * 64,
    }
    return Point(**figures | changes)


def three():
    """A frontier whose middle point is the knee, with a dominated one beside."""
    places = [(0.05, 0.30, 0.99), (0.08, 0.12, 0.9), (0.30, 0.10, 0.5), (0.3, 0.3, 0.6)]
    return Frontier.of(ABOUT, [point(a, e, r) for a, e, r in places])
