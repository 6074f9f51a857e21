"""Pages and their live parts, from templates that escape everything they are given.

A page is made on the server and reads well without a script. Its live parts are templates of their
own: the same text goes into the page and, when it has changed, down the stream of events.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreet import rounding
from discreet.network.dashboard.charts import (
    DEFAULT_WINDOW,
    HEIGHT,
    WIDTH,
    WINDOWS,
    Bands,
    draw,
    draw_bands,
)
from discreet.network.dashboard.sensors import Device
from discreet.network.dashboard.snapshot import MOST_DECISIONS, UNSURE, SiteView, Snapshot
from discreet.rounding import confidence, down, gain, up

MOST_STREAMS = 64
_PAUSE = 1.0
_HEARTBEAT = 10.0


class Streams:
    """The open streams of a dashboard.

    ``look``: returns the snapshot of this second. ``pause``: seconds between two looks.
    """

    def __init__(
        self, site: SiteView, look: Callable[[], Awaitable[Snapshot]], pause: float = _PAUSE
    ) -> None:
        self._site, self._look, self._pause = site, look, pause
        self._open = 0
        self._stopping = False
        self._made: tuple[float, dict[Choices, dict[str, str]]] = (0.0, {})

    @property
    def full(self) -> bool:
        """Whether another stream would be one too many."""
        return self._open >= MOST_STREAMS

    def stop(self) -> None:
        """End all streams, so that the server need not wait for them."""
        self._stopping = True

    async def events(
        self, view: View, choices: Choices, is_in: Callable[[], bool]
    ) -> AsyncIterator[str]:
        """Yield events until the reader goes or is logged out.

        ``is_in``: whether the login still counts.
        """
        self._open += 1
        sent: dict[str, str] = {}
        spoken = 0.0
        try:
            yield "retry: 3000\n\n"
            while not self._stopping:
                if not is_in():
                    yield "event: logout\ndata: {}\n\n"
                    return
                now = await self._look()
                parts = await self._parts(view, now, choices)
                changed = {name: text for name, text in parts.items() if sent.get(name) != text}
                sent |= changed
                if changed or time.monotonic() - spoken > _HEARTBEAT:
                    news = {"parts": changed, "status": status(now), "level": now.level}
                    spoken = time.monotonic()
                    yield f"event: state\ndata: {json.dumps(news)}\n\n"
                await asyncio.sleep(self._pause)
        finally:
            self._open -= 1

    async def _parts(self, view: View, now: Snapshot, choices: Choices) -> dict[str, str]:
        """Return the parts of a page, made once for all viewers of the same one."""
        if self._made[0] != now.at:
            self._made = (now.at, {})
        made = self._made[1]
        if choices not in made:
            made[choices] = await asyncio.to_thread(live_parts, view, now, self._site, choices)
        return made[choices]


def status(now: Snapshot) -> str:
    """Return what a screen reader announces when it changes: short, without running numbers."""
    decision = now.stored.decision
    if decision is None:
        return "No decision yet." if now.begun else "First steps are left to do."
    unsure = "" if now.is_sure(decision) else "unsure, rather "
    answer = f"{unsure}{now.answer(decision.decision)}" if now.present else "not known"
    first = f"{now.public}: {answer}."
    return " ".join([first, *(f"{each.short}." for each in now.findings[:3])])


@dataclass(frozen=True)
class View:
    """One page of the dashboard.

    ``live``: templates of the parts that change.
    """

    name: str
    path: str
    title: str
    live: tuple[str, ...]


VIEWS = {
    view.name: view
    for view in (
        View(
            "overview",
            "/",
            "Overview",
            ("banner", "decision", "unknown", "figures", "bands", "decisions"),
        ),
        View("sensors", "/sensors", "Sensors", ("banner", "strip", "devices", "device_counts")),
        View("guarantee", "/guarantee", "Guarantee", ("banner", "certificate", "drift")),
        View("system", "/system", "System", ("banner", "traffic", "store", "refused")),
    )
}
REASONS = {
    "mac": "the seal does not fit: another key, or a changed message",
    "replay": "came before: acknowledged again, counted once",
    "conflict": "another message was stored under the same number",
    "reordered": "number and round contradict an earlier message",
    "numbers": "a round or a start that an enrolled device does not have",
    "late": "after its round was closed: stored, not decided on",
    "early": "for a round that is still far off",
    "mapping": "drawn from the tables of another mapping",
    "length": "of a wrong length",
    "malformed": "not a message at all",
    "unknown-client": "from no enrolled device",
    "revoked": "from a device that is shut out",
    "symbol": "a symbol that the table does not have",
    "qos": "sent without asking for an acknowledgement",
    "forgotten": "of a round that was deleted",
    "clone": "of a second device with the same name",
    "excess": "more for one round than a device may send",
    "suspended": "from a device that has sent too much",
}
STATES = ("all", "suspended", "silent", "late", "reporting", "never seen", "revoked")
SORTS: dict[str, tuple[str, Callable[[Device], Any]]] = {
    "": ("what needs attention", lambda each: 0),
    "name": ("name", lambda each: each.name),
    "heard": ("last heard, longest ago", lambda each: each.last_seen or 0.0),
    "budget": (
        "budget, least left",
        lambda each: math.inf if each.days_left is None else each.days_left,
    ),
    "refused": ("refused, most", lambda each: -each.refused),
}
_LONGEST_SEARCH = 64
_LONGEST_NAME = 40  # of a fact, as in the report


@dataclass(frozen=True)
class Choices:
    """What a reader has chosen to see.

    ``view``: name of the page. ``window``: seconds that charts go back. ``state``, ``find``: which
    devices are listed; ``sort``: in which order.
    """

    view: str = "overview"
    window: int = DEFAULT_WINDOW
    state: str = "all"
    find: str = ""
    sort: str = ""

    @classmethod
    def of(cls, view: str, query: Mapping[str, str]) -> Choices:
        """Read choices from an address; what is not known counts as not chosen."""
        window, state = query.get("window", ""), query.get("state", "all")
        sort = query.get("sort", "")
        known = window.isascii() and window.isdecimal() and len(window) < 9
        return cls(
            view,
            int(window) if known and int(window) in WINDOWS else DEFAULT_WINDOW,
            state if state in STATES else "all",
            query.get("find", "").strip()[:_LONGEST_SEARCH],
            sort if sort in SORTS else "",
        )

    def chosen(self, devices: Iterable[Device]) -> list[Device]:
        """Return the devices that were asked for, in their order."""
        sought = self.find.casefold()
        found = [
            each
            for each in devices
            if self.state in ("all", each.state)
            and any(sought in name.casefold() for name in (each.name, *each.sensors))
        ]
        return sorted(found, key=SORTS[self.sort][1])

    def address(self, **changes: object) -> str:
        """Return the query of an address with these choices, some of them changed."""
        chosen = {"window": self.window, "state": self.state, "find": self.find, "sort": self.sort}
        plain = {"window": DEFAULT_WINDOW, "state": "all", "find": "", "sort": ""}
        kept = {name: each for name, each in (chosen | changes).items() if each != plain[name]}
        return f"?{urlencode(kept)}"


def page(
    view: View, snapshot: Snapshot, site: SiteView, choices: Choices, user: str, token: str
) -> str:
    """Return a whole page."""
    about = {"view": view, "views": VIEWS, "user": user, "token": token, "sorts": SORTS}
    return plain_page(view.name, **about, **_content(snapshot, site, choices))


def live_parts(view: View, snapshot: Snapshot, site: SiteView, choices: Choices) -> dict[str, str]:
    """Return the parts of a page that change, by their id."""
    part = _content(snapshot, site, choices)["part"]
    return {name: part(name) for name in view.live}


def plain_page(template: str, /, **content: Any) -> str:
    """Return a page that shows nothing of the site: the login, an error."""
    return _templates().get_template(f"{template}.html").render(content)


_STORED = {"decision", "figures", "bands", "decisions", "strip", "devices", "traffic", "refused"}
"""Parts that show what the database holds."""


def _content(snapshot: Snapshot, site: SiteView, choices: Choices) -> dict[str, Any]:
    def part(name: str) -> Markup:
        shown = "unread" if snapshot.unread and name in _STORED else name
        return Markup(_templates().get_template(f"live/{shown}.html").render(content))

    frontier = site.frontier
    interval = site.settings.interval
    content = {
        "now": snapshot,
        "part": part,
        "choices": choices,
        "devices": choices.chosen(snapshot.devices),
        "windows": {
            each: name
            for each, name in WINDOWS.items()
            if each <= max(MOST_DECISIONS * interval, DEFAULT_WINDOW)
        },
        "bands": _bands(snapshot, choices.window) if choices.view == "overview" else None,
        "mapping": site.mapping,
        "unsure": UNSURE,
        "states": STATES,
        "mapping_file": site.settings.mapping,
        "frontier": frontier,
        "picture": draw(frontier, site.mapping, site.audit) if frontier else None,
        "picture_size": (WIDTH, HEIGHT),
        "reasons": REASONS,
    }
    return content


def _bands(now: Snapshot, window: int) -> Bands:
    since = now.at - window - now.settings.interval
    recent = [(each, now.is_sure(each)) for each in now.decisions if each.closed >= since]
    return draw_bands(now.settings, now.classes, recent, window, now.at)


# --- Templates -----------------------------------------------------------------------------


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("discreet.network.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = (moment, clock, percent, days, size, count, seconds, code, confidence)
    found.filters |= {each.__name__: each for each in written} | {
        "right": rounding.percent,
        "about_points": gain,
        "points": lambda share: gain(up(share)),
        "least_points": lambda share: gain(down(share)),
        "most_epsilon": lambda value: f"{up(value, 2):.2f}",
        "short": lambda name: (
            name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        ),
    }
    return found


def moment(at: float | None) -> Markup | str:
    """Return a moment as text that the script turns into "12 s ago"."""
    if at is None:
        return "never"
    try:
        when = datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return "unknown"
    return Markup('<time datetime="{}" data-ago>{}</time>').format(
        when.isoformat(timespec="seconds"), when.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def code(text: str) -> Markup:
    """Return a text in which what stands between backticks is to be typed."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd one out is only a backtick
        return Markup.escape(text)
    pairs = (Markup("<code>{}</code>") if k % 2 else Markup("{}") for k in range(len(parts)))
    return Markup("").join(form.format(part) for form, part in zip(pairs, parts, strict=True))


def percent(share: float | None, digits: int = 0) -> str:
    """Write a share; never 100 % or 0 % for what is only close."""
    if share is None:
        return "–"
    edge = 10.0 ** -(digits + 2)
    if 0 < share < edge / 2:
        return f"< {100 * edge:.{digits}f} %"
    if 1 - edge / 2 < share < 1:
        return f"> {100 * (1 - edge):.{digits}f} %"
    return f"{100 * share:.{digits}f} %"


def clock(at: float) -> Markup:
    """Return the time of day at a moment, which the script turns into the reader's."""
    when = datetime.fromtimestamp(at, UTC)
    text = Markup('<time datetime="{}" data-clock>{}</time>')
    return text.format(when.isoformat(timespec="seconds"), when.strftime("%H:%M"))


def days(value: float) -> str:
    """Write how long something lasts at least, rounded down."""
    for unit, name in ((1.0, "day"), (1 / 24, "hour"), (1 / 1440, "minute")):
        if value >= 2 * unit or (unit == 1.0 and value >= 1.0):
            number = math.floor(value / unit + 1e-9)
            return f"{count(number)} {name}{'s'[: number != 1]}"
    return "less than 2 minutes" if value else "nothing"


def count(value: float | None) -> str:
    """Write a number with its thousands set apart."""
    return "–" if value is None else f"{value:,.0f}".replace(",", " ")


def seconds(value: Any) -> str:
    """Write a duration."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "–"
    if value < 1:
        return "< 1 ms" if 0 < value < 0.001 else f"{1000 * value:.0f} ms"
    return f"{round(value, 1):g} s" if value < 120 else f"{value / 60:.0f} min"


def size(value: int | None) -> str:
    """Write a number of bytes."""
    if value is None:
        return "–"
    amount, units = float(value), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    digits = 0 if amount >= 10 or units[0] == "B" else 1
    return f"{amount:.{digits}f} {units[0]}"
