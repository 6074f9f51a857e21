"""How others behave: what each device may cost the fusion centre, and a second centre of the site.

A certificate lets a device in; it does not make it well-behaved. Whatever an honest device never
sends in quantity is charged to an allowance that fills up again slowly. When it is used up the
device is suspended: the fusion centre ends its subscription, so that the broker drops what the
device sends before it waits with the messages of the others. After a pause it is heard again.

*Two fusion centres of one site: noticed, and one of them stops.* The broker has one client of a
name: whoever connects with it cuts the other off. (Mosquitto does not say so; what is seen is a
connection that is lost as soon as it is made, again and again.) A fusion centre that is cut off
connects again, and so takes the connection back from one that was started twice, or from a copy of
the site. That one is on probation, has stored nothing yet, and gives up first.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from discreet.errors import InputError
from discreet.network.fusion.link import Ticket
from discreet.network.store.rows import StoredMessage
from discreet_sensor.wire import WINDOW

# --- Devices --------------------------------------------------------------------------------

ALLOWANCE = 2000.0
"""Points of a device."""
PROBATION = 200.0
"""Points of a device that was suspended before."""
_REFILL = 20.0  # points a second
PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds of the first suspension; each one that follows takes twice as long."""
_FORGIVEN_AFTER = 86_400.0  # seconds without a suspension
_NEVER_HONEST = 5.0  # points for what no device of ours sends, such as a wrong MAC
_COSTS = {
    # An outbox from before a change of the mapping, or of the clock, is drained like this.
    "mapping": 0.25,
    "forgotten": 0.25,
    "early": 0.25,
    # A retry whose acknowledgement is under way.
    "replay": 1.0,
    "crowd": 1.0,
    "oversize": 500.0,
}
MOST_WAITING = 2 * WINDOW
"""Messages of one device that wait for a commit; an honest one has half as many under way."""
_SHARE = 256  # messages of one device in one commit


@dataclass
class _Account:
    points: float
    at: float
    suspensions: int = 0
    until: float = 0.0


class Conduct:
    """The allowances of all devices; several threads may charge them.

    ``clock``: returns a time that never runs backwards. ``suspended``: names of the devices that
    are not heard now, and why.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._alone = clock, threading.Lock()
        self._accounts: dict[str, _Account] = {}
        self._lenient_until = 0.0
        self.suspended: dict[str, str] = {}

    def charge(self, name: str, reason: str, times: int = 1) -> None:
        """Charge a device for what it sent; suspend it if that was too much."""
        now = self._clock()
        if reason in ("repeat", "replay", "crowd") and now < self._lenient_until:
            return
        with self._alone:
            account = self._accounts.setdefault(name, _Account(ALLOWANCE, now))
            most = PROBATION if account.suspensions else ALLOWANCE
            filled = account.points + _REFILL * max(0.0, now - account.at)
            account.points = min(most, filled) - times * _COSTS.get(reason, _NEVER_HONEST)
            account.at = now
            if account.points < 0 and name not in self.suspended:
                self._suspend(name, account, reason, now)

    def _suspend(self, name: str, account: _Account, reason: str, now: float) -> None:
        if now - account.until > _FORGIVEN_AFTER:
            account.suspensions = 0
        pause = min(LONGEST_PAUSE, PAUSE * 2**account.suspensions)
        account.suspensions, account.until = account.suspensions + 1, now + pause
        self.suspended = {**self.suspended, name: f"{reason}, for {pause:.0f} s"}

    def release(self) -> None:
        """Let those be heard again whose pause is over."""
        now = self._clock()
        with self._alone:
            over = [name for name in self.suspended if self._accounts[name].until <= now]
            for name in over:
                self._accounts[name].points, self._accounts[name].at = PROBATION, now
            if over:
                self.suspended = {k: v for k, v in self.suspended.items() if k not in over}

    def be_lenient(self, seconds: float) -> None:
        """Charge no repeats for a while: after an outage every device has sent some."""
        self._lenient_until = self._clock() + seconds


class Turns:
    """What waits for a commit, device by device, so that each gets its turn.

    One thread puts, another takes.
    """

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._waiting: dict[str, deque[tuple[Ticket, StoredMessage]]] = {}
        self._refused: list[Ticket] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, ticket: Ticket, message: StoredMessage | None) -> int:
        """Add a message, or the ticket of one that is refused; return how many of it wait."""
        with self._alone:
            if message is None:
                self._refused.append(ticket)
                return 0
            own = self._waiting.get(message.client)
            if own is None:
                own = self._waiting[message.client] = deque()
            own.append((ticket, message))
            self._count += 1
            return len(own)

    def take(self) -> tuple[list[Ticket], list[StoredMessage]]:
        """Return all tickets of the refused, and a share of the messages of every device."""
        with self._alone:
            tickets, self._refused = self._refused, []
            messages = []
            for name, own in list(self._waiting.items()):
                for _ in range(min(_SHARE, len(own))):
                    ticket, message = own.popleft()
                    tickets.append(ticket)
                    messages.append(message)
                if not own:
                    del self._waiting[name]
            self._count -= len(messages)
        return tickets, messages


# --- What the broker tells -----------------------------------------------------------------


_OVERSIZE = re.compile(rb"Client ([a-z0-9-]{1,32}) disconnected due to oversize p[a-z]+\.$")
_CONNECTED = re.compile(rb"New client connected from \S+ as ([a-z0-9-]{1,32}) \(")


def noticed(payload: bytes) -> tuple[str, str] | None:
    """Return the client and what it is charged for, if a notice of the broker is about that."""
    for pattern, reason in ((_OVERSIZE, "oversize"), (_CONNECTED, "connection")):
        if found := pattern.search(payload[:400]):
            return found[1].decode(), reason
    return None


# --- Another fusion centre ------------------------------------------------------------------

ALONE, CONTESTED, LOST = "alone", "contested", "lost"
_WINDOW = 30.0  # seconds in which connections that were cut at once are counted
_SUSPECT, _YOUNG, _MOST = 2, 3, 9  # cuts: to suspect another, and to give up, on probation or not


class Contest:
    """``probation``: seconds for which no message is stored in a database that may be a copy."""

    def __init__(self, site: str, probation: float) -> None:
        self._site, self._probation = site, probation
        self._cuts: list[float] = []
        self._up_since: float | None = None
        self.on_probation = probation > 0

    def begin(self, is_at_home: Callable[[], bool]) -> None:
        self.on_probation = self._probation > 0 and not is_at_home()

    def cut(self) -> str:
        """Count that a connection was cut as soon as it was made; return what to think of it."""
        now = time.monotonic()
        self._cuts = [each for each in self._cuts if each > now - _WINDOW] + [now]
        if len(self._cuts) >= (_YOUNG if self.on_probation else _MOST):
            return LOST
        return CONTESTED if len(self._cuts) >= _SUSPECT else ALONE

    @property
    def reason(self) -> InputError:
        """Why to stop."""
        return InputError(
            f"another fusion centre of the site {self._site!r} runs: this one was started twice, "
            "or from a copy of its folder. Stop the other first; what it has acknowledged is in "
            "its own database."
        )

    def settle(self, up: bool, passed: Callable[[], object]) -> None:
        """End the probation when nobody has taken the connection for long enough.

        ``up``: whether there is a connection. ``passed``: called at the end of the probation.
        """
        now = time.monotonic()
        self._up_since = (self._up_since or now) if up else None
        if self._up_since is not None and now >= self._up_since + self._probation:
            passed()
            self.on_probation = False
