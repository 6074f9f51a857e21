"""What the fusion centre tells the world: its decisions, and where Home Assistant finds them."""

from __future__ import annotations

from collections.abc import Callable

from discreet.mapping.mapping import Mapping
from discreet.network.fusion.closing import decision_message, discovery_message
from discreet.network.fusion.link import Link
from discreet.network.fusion.state import State
from discreet.network.fusion.upkeep import FusionSettings
from discreet.network.store.rows import Decision


class Herald:
    """``on_decision``: called with each decision."""

    def __init__(
        self,
        settings: FusionSettings,
        mapping: Mapping,
        link: Link,
        state: State,
        on_decision: Callable[[Decision], None] | None,
    ) -> None:
        self._settings, self._link, self._state = settings, link, state
        self._fact, self._on_decision = mapping.public.name, on_decision
        self._discovery = discovery_message(
            settings.site, settings.key or settings.site, mapping, settings.clock
        )
        self._last: Decision | None = None

    def greet(self, now: float) -> None:
        """Say what a broker that was restarted has forgotten."""
        published, last = [(*self._discovery, True)], self._last
        if last is not None and last.round == self._settings.clock.last_due(now):
            published.append(self._publication(last))
        self._link.send([], published)

    def announce(self, decisions: list[Decision]) -> None:
        if not decisions:
            return
        last = self._last = decisions[-1]
        self._link.send([], [self._publication(last)])
        self._state.add(decisions=len(decisions))
        self._state.put(last_round=last.round, reported=last.reported)
        if self._on_decision is not None:
            for decision in decisions:
                self._on_decision(decision)

    def _publication(self, decision: Decision) -> tuple[str, bytes, bool]:
        return *decision_message(self._settings.site, self._fact, decision), True
