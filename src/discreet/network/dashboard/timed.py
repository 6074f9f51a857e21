"""Requests have to be whole in time, so that nobody can occupy all connections with halves."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 20.0


class TimedRequests(H11Protocol):
    """HTTP on one connection.

    uvicorn waits for ever for the rest of a request, also of somebody who is not logged in. Here a
    connection is closed that has waited for one from one look to the next, ``SECONDS`` later.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _waits_after(self) -> tuple[bool, Any]:
        """Whether a request is waited for, and after which one."""
        last: Any = self.cycle  # None before the first, whatever its type says
        return last is None or last.response_complete, last

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(SECONDS, self._look, self._waits_after())

    def _look(self, before: tuple[bool, Any]) -> None:
        if before[0] and before == self._waits_after():
            self.transport.close()
        else:
            self._look_later()
