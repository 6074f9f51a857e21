"""What a worker writes down about itself, for doctor, dashboard and fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import State
from discreet.network.fusion.upkeep import FusionSettings
from discreet.network.fusion.watching import own_notes
from discreet.network.observed import Deployed, noted_plan
from discreet.network.store.rows import note_name
from discreet.network.store.writing import Store


class Notes:
    """``deployed``: see ``FusionService``."""

    def __init__(
        self,
        settings: FusionSettings,
        registry: Registry,
        store: Store,
        state: State,
        deployed: Callable[[], Deployed] | None,
    ) -> None:
        self._settings, self._registry, self._store, self._state = settings, registry, store, state
        self._deployed = deployed
        self._runs = None if deployed is None else deployed()
        self._planned: dict[str, Any] | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether the site has other settings, mappings or certificates than at the start."""
        if self._deployed is None or self._runs is None:
            return False
        return not self._deployed().runs_as(self._runs)

    def write(self, messages: int, now: float) -> None:
        """Note how this worker is; ``messages``: how many are stored."""
        own = own_notes(self._state)
        if self._runs is not None:
            own["runs"] = {
                "name": self._settings.name,
                "mapping": self._runs.mapping,
                "certificate": self._runs.own,
            }
        values = own | {"messages": messages}
        if self._settings.group is not None:  # under common names each would hide the others' notes
            values[note_name(self._settings.name)] = own
        self._store.note(values, now)
        self._write_plan()

    def _write_plan(self) -> None:
        """Note, for `discreet fleet`, what a judgement needs besides what is stored."""
        deployed = None if self._deployed is None else self._deployed()
        plan = noted_plan(self._settings, self._registry.by_name, deployed)
        if plan != self._planned:
            self._store.plan(plan)
            self._planned = plan
