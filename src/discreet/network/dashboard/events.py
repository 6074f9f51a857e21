"""Server-sent events: the parts of a page that have changed, once a second at most."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from discreet.network.dashboard.charts import charted
from discreet.network.dashboard.pages import Choices, View, live_parts
from discreet.network.dashboard.site_view import SiteView
from discreet.network.dashboard.snapshot import Snapshot

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
        last_round, spoken = -1, 0.0
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
                decision = now.stored.decision
                if changed or time.monotonic() - spoken > _HEARTBEAT:
                    news = {"parts": changed, "status": status(now), "level": now.level}
                    if decision is not None and decision.round != last_round:
                        last_round, news["point"] = decision.round, _point(now)
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
    first = f"{now.public}: {decision.decision}." if decision else "No decision yet."
    return " ".join([first, *(f"{each.short}." for each in now.findings[:3])])


def _point(now: Snapshot) -> dict[str, object]:
    decision = now.stored.decision
    assert decision is not None
    return {
        "at": decision.closed,
        "probabilities": [
            decision.probabilities[k] if k < len(decision.probabilities) else None
            for k in charted(now.classes)
        ],
        "reported": decision.reported / decision.expected if decision.expected else None,
    }
