"""Which devices a worker listens to, and what it reports of the others."""

from __future__ import annotations

import logging

from discreet.network.fusion.conduct import Conduct
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import State
from discreet_sensor.wire import BROKER_NOTICES, DROPPED, shared

logger = logging.getLogger(__name__)


class Hearing:
    """The subscriptions of a worker: each device by itself, so that one can be left out.

    ``group``: of the workers that share the messages; none if it is alone.
    """

    def __init__(
        self, registry: Registry, conduct: Conduct, state: State, group: str | None
    ) -> None:
        self._registry, self._conduct, self._state = registry, conduct, state
        self._group = group
        self._left_out = self._told = conduct.suspended

    @property
    def changed(self) -> bool:
        """Whether devices were suspended, or are to be heard again, since ``subscriptions``."""
        return self._conduct.suspended is not self._left_out

    def subscriptions(self) -> list[str]:
        """Return what to read now."""
        suspended = self._left_out = self._conduct.suspended
        topics = [
            topic for topic, known in self._registry.by_topic.items() if known.name not in suspended
        ]
        if self._group is not None:
            topics = [shared(self._group, topic) for topic in topics]
        return [*topics, DROPPED, BROKER_NOTICES]

    def tell(self) -> None:
        """Log who was suspended and who is heard again, and note it in the state."""
        suspended = self._conduct.suspended
        if suspended == self._told:
            return
        for name in suspended.keys() - self._told.keys():
            logger.warning(
                "%s floods the site and is suspended (%s). Look after it, or: discreet revoke %s",
                *(name, suspended[name], name),
            )
        for name in self._told.keys() - suspended.keys():
            logger.info("%s is heard again", name)
        self._told = suspended
        words = "; ".join(f"{name}: {why}" for name, why in sorted(suspended.items()))
        self._state.turn("devices", "suspended" if suspended else "heard", words)
        self._state.suspend(suspended)
