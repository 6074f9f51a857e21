"""The store as the fusion centre uses it: what fails is tried again, and everybody hears of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from discreet.network.fusion.closing import Closer
from discreet.network.fusion.conduct import Conduct
from discreet.network.fusion.state import State
from discreet.network.fusion.watching import Watch
from discreet.network.store.connection import StoreError
from discreet.network.store.rows import REPLACED
from discreet.network.store.writing import Store
from discreet_sensor.connecting import Backoff

logger = logging.getLogger(__name__)

_LENIENT = 20.0  # seconds

_T = TypeVar("_T")


class StoreAccess:
    """``stop``: ends every wait."""

    def __init__(
        self,
        store: Store,
        state: State,
        closer: Closer,
        conduct: Conduct,
        watch: Watch,
        stop: threading.Event,
    ) -> None:
        self._store, self._state, self._closer = store, state, closer
        self._conduct, self._watch, self._stop = conduct, watch, stop
        self._replaced = ""

    def persist(self, work: Callable[[], _T]) -> _T | None:
        """Retry something with the store until it works; None if stopped before."""
        backoff = Backoff(0.1, 2.0)
        while True:
            try:
                if self._replaced:  # and perhaps there are no tables in it
                    self._store.prepare()
                    self._replaced = ""
                outcome = work()
            except StoreError as error:
                self.report(error)
                if self._stop.wait(backoff.wait()):
                    return None
            else:
                self.report(None)
                return outcome

    def attempt(self, work: Callable[[], None]) -> None:
        """Try something with the store; it will be due again."""
        if self._replaced:
            self.persist(self._store.prepare)
        try:
            work()
        except StoreError as error:
            self.report(error)
            self._stop.wait(0.2)

    def report(self, error: StoreError | None) -> None:
        """Note whether the store can be used."""
        state, problem = ("here", "") if error is None else (error.state, str(error))
        self._state.put(database_up=int(error is None))
        if error is not None:
            self._closer.pause()  # another worker may lead meanwhile
            if error.state == REPLACED:
                self._replaced = str(error)
                self._watch.alarm("", REPLACED, str(error))
            self._conduct.be_lenient(_LENIENT)  # what is not acknowledged is sent again
        if self._state.turn("database", state, problem):
            if error is None:
                logger.info("the database can be used")
            else:
                logger.warning("%s Nothing is acknowledged until it is back.", error)
