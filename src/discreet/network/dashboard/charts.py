"""What the charts draw: lines, bands and cells over time, and the frontier as SVG."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as ReadMapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from discreet.auditing.audit_file import AuditSummary
from discreet.frontiers.results import Frontier, describe
from discreet.mapping.mapping import Mapping
from discreet.network.site.settings import Client, Site
from discreet.network.store.rows import Decision, Sample, slope

WINDOWS = {900: "15 min", 3600: "hour", 21_600: "6 hours", 86_400: "day"}
DEFAULT_WINDOW = 3600
MOST_POINTS = 600


# --- Lines over time -----------------------------------------------------------------------


def traffic_series(history: Callable[[str, float], list[Sample]], window: float) -> dict[str, Any]:
    """Return messages a second and the lag over time."""
    counts, lags = (thinned(history(name, window)) for name in ("messages", "lag_seconds"))
    return {
        "at": [each.at for each in counts[1:]],
        "rate": [slope(before, after) for before, after in pairwise(counts)],
        "lag_at": [each.at for each in lags],
        "lag": [
            float(each.value) if isinstance(each.value, int | float) else None for each in lags
        ],
    }


def thinned(points: Sequence[Any]) -> list[Any]:
    """Return every n-th point, the last one always."""
    step = -(-len(points) // MOST_POINTS)
    return list(points[::-1][:: max(step, 1)])[::-1]


def _blocks(columns: Iterable[int]) -> str:
    """Return columns of height 1 as an SVG path, neighbours joined."""
    runs = groupby(enumerate(sorted(columns)), key=lambda each: each[1] - each[0])
    spans = [[column for _, column in run] for _, run in runs]
    return "".join(f"M{span[0]} 0h{len(span)}v1h-{len(span)}z" for span in spans)


# --- Bands of decisions --------------------------------------------------------------------


MOST_LANES = 8
_MOST_COLUMNS = 180


@dataclass(frozen=True)
class Lane:
    """When one class was decided.

    ``number``: of the class. ``sure``, ``unsure``: columns as SVG paths; one column may be in both,
    and in several lanes. ``share``: of the rounds of the window.
    """

    number: int
    name: str
    sure: str
    unsure: str
    share: float


@dataclass(frozen=True)
class Bands:
    """Decisions over time.

    ``heard``: share of the sensors that were heard, as an SVG path. ``times``: at equal distances
    from the first to the last column. ``unsure``: share of the rounds.
    """

    columns: int
    lanes: tuple[Lane, ...]
    heard: str
    times: tuple[float, ...]
    rounds: int
    unsure: float
    heard_share: float


def draw_bands(
    site: Site,
    classes: Sequence[str],
    decided: Sequence[tuple[Decision, bool]],
    window: int,
    now: float,
) -> Bands:
    """Return the bands of a window; each decision comes with whether it is sure.

    Columns begin at multiples of their width, so that a picture changes only with its content.
    """
    columns = max(1, min(_MOST_COLUMNS, int(window / site.interval)))
    width = window / columns
    end = math.ceil(now / width)
    placed = []
    for each, sure in decided:
        middle = site.epoch + (each.round + 0.5) * site.interval
        placed.append((each, sure, int(middle // width) - end + columns))
    seen = [each for each in placed if 0 <= each[2] < columns]
    answered = [each for each in seen if each[0].reported]  # the others have a prior, no answer
    counts = Counter(each.decision for each, _, _ in answered)
    kept = [name for name, _ in counts.most_common(MOST_LANES)]
    kept += [name for name in classes if name not in counts][: MOST_LANES - len(kept)]

    def lane(number: int, name: str) -> Lane:
        own = [(sure, column) for each, sure, column in answered if each.decision == name]
        paths = [_blocks({c for s, c in own if s is wanted}) for wanted in (True, False)]
        return Lane(number, name, paths[0], paths[1], counts[name] / max(len(answered), 1))

    return Bands(
        columns=columns,
        lanes=tuple(lane(k, name) for k, name in enumerate(classes) if name in kept),
        heard=_steps(columns, [(each, column) for each, _, column in seen]),
        times=tuple((end - columns) * width + window * k / 4 for k in range(5)),
        rounds=len(answered),
        unsure=sum(not sure for _, sure, _ in answered) / max(len(answered), 1),
        heard_share=_mean([_heard(each) for each, _, _ in seen]),
    )


def _heard(decision: Decision) -> float:
    return min(1.0, decision.reported / decision.expected) if decision.expected else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _steps(columns: int, placed: Sequence[tuple[Decision, int]]) -> str:
    """Return the mean share of sensors in each column as an area."""
    shares = [list[float]() for _ in range(columns)]
    for each, column in placed:
        shares[column].append(_heard(each))
    tops = [round(1 - _mean(each), 2) for each in shares]
    path, place = "M0 1", 0
    for top, run in groupby(tops):
        place += len(list(run))
        path += f"V{top:g}H{place}"
    return path + "V1z"


# --- Cells by device and minute ------------------------------------------------------------


HEARD, PARTLY, SILENT, SUSPENDED = "heard", "partly", "silent", "suspended"
CELLS = 60
_CELL_SECONDS = 60.0
_LEAST_CELLS = 12
_STARTING = 2  # cells after the enrolment within which a device may begin
_MOST_ROUNDS = 720  # to be counted for each device


@dataclass(frozen=True)
class Cells:
    """The minutes of one device: columns of each state as SVG paths, and how many there are."""

    paths: dict[str, str]
    counts: Counter[str]

    @property
    def share(self) -> float | None:
        """Share of its minutes in which the device was heard in every round, in time."""
        total = self.counts.total()
        return self.counts[HEARD] / total if total else None


@dataclass(frozen=True)
class Strip:
    """Who was heard when; ``seconds``: of a cell. ``rows``: by device."""

    columns: int
    seconds: float
    times: tuple[float, ...]
    rows: dict[str, Cells]

    def total(self, names: Iterable[str]) -> Counter[str]:
        """Return how many cells of some devices are in which state."""
        return sum((self.rows[each].counts for each in names if each in self.rows), Counter())


class StripPlan:
    """Which rounds the cells of a strip hold; the last cell is the last that is complete."""

    def __init__(self, site: Site, now: float) -> None:
        self.site, self.now = site, now
        self.rounds = max(1, round(_CELL_SECONDS / site.interval))
        self.seconds = self.rounds * site.interval
        self.columns = max(_LEAST_CELLS, min(CELLS, _MOST_ROUNDS // self.rounds))
        self._end = math.floor((now - site.deadline - site.epoch) / self.seconds)
        self.begin = self._end - self.columns
        self.first_round = self.begin * self.rounds

    def column(self, at: float) -> int:
        return math.floor((at - self.site.epoch) / self.seconds) - self.begin

    def time(self, column: float) -> float:
        return self.site.epoch + (self.begin + column) * self.seconds

    def draw(
        self,
        clients: ReadMapping[str, Client],
        heard: Iterable[tuple[str, int, int, float]],
        suspended: Iterable[Sample],
    ) -> Strip:
        """Return the cells; ``heard``: see ``Reader.heard``; ``suspended``: as noted over time."""
        counted = {(client, column): (rounds, late) for client, column, rounds, late in heard}
        shut = {(name, self.column(each.at)) for each in suspended for name in dict(each.value)}
        rows = {
            name: _cells(self._states(name, client, counted, shut))
            for name, client in clients.items()
        }
        times = tuple(self.time(self.columns * k / 4) for k in range(5))
        return Strip(self.columns, self.seconds, times, rows)

    def _states(
        self,
        name: str,
        client: Client,
        counted: ReadMapping[tuple[str, int], tuple[int, float]],
        shut: Collection[tuple[str, int]],
    ) -> Iterator[tuple[int, str]]:
        message = client.batch * self.site.interval
        reach = (client.batch - 1) // self.rounds  # cells that a message goes on for
        due = self.column(self.now - self.site.deadline - message + self.site.interval)
        revoked = None if client.revoked is None else self.column(client.revoked.timestamp())
        enrolled = self.column(client.enrolled.timestamp())
        first = min((column for own, column in counted if own == name), default=None)
        for column in range(self.columns):
            found = [counted[name, k] for k in range(column - reach, column + 1)
                     if (name, k) in counted]  # fmt: skip
            if (name, column) in shut:
                yield column, SUSPENDED
            elif found:
                late = max(late for _, late in found) - self.site.epoch - message
                whole = client.batch > 1 or found[0][0] >= self.rounds
                timely = late <= self.site.deadline + message
                if timely and not whole and column == first and column - enrolled <= _STARTING:
                    continue  # it was started in this minute, which it was not to fill
                yield column, HEARD if whole and timely else PARTLY
            elif enrolled < column < due and (revoked is None or column < revoked):
                yield column, SILENT


def _cells(states: Iterable[tuple[int, str]]) -> Cells:
    columns: dict[str, list[int]] = {}
    for column, state in states:
        columns.setdefault(state, []).append(column)
    counts = Counter({state: len(found) for state, found in columns.items()})
    return Cells({state: _blocks(found) for state, found in columns.items()}, counts)


# --- The frontier --------------------------------------------------------------------------


WIDTH, HEIGHT = 360.0, 250.0
_PARTS = {1: 5, 2: 4, 3: 3, 4: 4, 5: 5, 6: 3, 8: 4, 10: 5}
"""Where an axis may end, and in how many parts it is then cut."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 12.0, 12.0, 40.0


@dataclass(frozen=True)
class Dot:
    """A mapping in the picture and in the table beside it."""

    x: float
    y: float
    kind: str
    name: str
    leak: float
    error: float
    bound: float | None


@dataclass(frozen=True)
class Tick:
    """A number on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class FrontierPicture:
    """The whole picture.

    ``here``: the mapping that runs. ``line``: through the points that no other beats, as SVG wants
    it. ``levels``: the errors of guessing and from raw readings. ``limit``: the one that the audit
    of the running mapping was asked for, of one report.
    """

    dots: tuple[Dot, ...]
    here: Dot | None
    line: str
    across: tuple[Tick, ...]
    upwards: tuple[Tick, ...]
    levels: tuple[Tick, ...]
    limit: Tick | None = None


def draw(
    frontier: Frontier, mapping: Mapping, audit: AuditSummary | None
) -> FrontierPicture | None:
    """Return the picture, or None if there is nothing to draw."""
    if not frontier.points:
        return None
    own = _own_place(frontier, mapping, audit)
    about, rule = frontier.about, frontier.about.rule
    beside = {"guessing": about.guessing.judged(rule), "raw readings": about.raw.judged(rule)}
    leaks = [point.advantage.value for point in frontier.points] + ([own[0]] if own else [])
    errors = [point.judged(rule).value for point in frontier.points] + ([own[1]] if own else [])
    errors += beside.values()
    limit = _limit_of(mapping, audit)
    leaks += [] if limit is None else [limit]
    most_leak, most_error = _round_up(max(leaks)), _round_up(max(errors))

    def place(leak: float, error: float) -> tuple[float, float]:
        x = _LEFT + leak / most_leak * (WIDTH - _LEFT - _RIGHT)
        y = HEIGHT - _BOTTOM - error / most_error * (HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    dots = tuple(
        Dot(
            *place(point.advantage.value, point.judged(rule).value),
            "knee" if point.knee else "beaten" if point.dominated else "point",
            describe(point),
            point.advantage.value,
            point.judged(rule).value,
            point.bound_if_chosen.value if point.bound_if_chosen else None,
        )
        for point in frontier.points
    )
    best = sorted((dot.x, dot.y) for dot in dots if dot.kind != "beaten")
    return FrontierPicture(
        dots=dots,
        here=Dot(*place(*own), "here", "the mapping that runs", *own, None) if own else None,
        line=" ".join(f"{x},{y}" for x, y in best),
        across=tuple(Tick(place(each, 0)[0], f"{100 * each:.4g}") for each in _ticks(most_leak)),
        upwards=tuple(Tick(place(0, each)[1], f"{100 * each:.4g}") for each in _ticks(most_error)),
        levels=tuple(Tick(place(0, each)[1], name) for name, each in beside.items()),
        limit=None if limit is None else Tick(place(limit, 0)[0], f"limit {100 * limit:.4g}"),
    )


def _limit_of(mapping: Mapping, audit: AuditSummary | None) -> float | None:
    """Return the limit on one report, which is what the frontier compares."""
    if audit is None or audit.mapping_id != mapping.id or audit.span != "one report":
        return None
    return None if audit.stated is None or audit.stated.name != "advantage" else audit.stated.limit


def _own_place(
    frontier: Frontier, mapping: Mapping, audit: AuditSummary | None
) -> tuple[float, float] | None:
    """Return leak and error of the running mapping: as a point of the frontier, else as audited."""
    rule = frontier.about.rule
    for point in frontier.points:
        if point.mapping == mapping.id:
            return point.advantage.value, point.judged(rule).value
    if audit is None or audit.mapping_id != mapping.id or not audit.private:
        return None
    error = audit.public.error if rule == "likely" else None
    if rule == "balanced" and audit.public.balanced is not None:
        error = 1.0 - audit.public.balanced.estimate
    return None if error is None else (max(fact.estimate for fact in audit.private), error)


def _round_up(value: float) -> float:
    """Return the end of an axis: a round number that is not much larger."""
    if value <= 0:
        return 0.01
    unit = 10.0 ** math.floor(math.log10(value))
    return next(end * unit for end in _PARTS if value <= end * unit * (1 + 1e-9))


def _ticks(end: float) -> list[float]:
    unit = 10.0 ** math.floor(math.log10(end * (1 + 1e-9)))
    parts = _PARTS[round(end / unit)]
    return [round(end * k / parts, 12) for k in range(parts + 1)]
