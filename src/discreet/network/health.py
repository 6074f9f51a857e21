"""How a site is: one judgement, for doctor, ``/health``, dashboard and metrics alike.

All of them read the same rows of the database and judge them here. The fusion centre notes what
only it can know: its broker, its clock, whom it has suspended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from discreet.network.site.settings import worker_name
from discreet.network.store.reading import Reader
from discreet.network.store.rows import (
    Alarm,
    ClientState,
    Decision,
    Refusal,
    Sample,
    latest_notes,
    silent_workers,
)
from discreet.network.wire import RoundClock

GOOD, WARN, BAD = "good", "warn", "bad"
_ORDER = (GOOD, WARN, BAD)
REPORTING, LATE, SILENT, NEVER, REVOKED = "reporting", "late", "silent", "never seen", "revoked"
SUSPENDED = "suspended"

QUIET = 30.0
"""Seconds after which a fusion centre that notes nothing is taken for stopped."""
_SET_BACK = 5.0
_LATE_ROUNDS = 3
_MISSED_ROUNDS = 3
_LEAST_SILENCE = 5.0
_RECENT = 900.0
_LISTED = 20
_RATE_WINDOW = 60.0


@dataclass(frozen=True)
class Finding:
    """A state as a label and as a sentence, and the view that shows more.

    ``subject``: the part of the site, for the doctor. ``fix``: what to do.
    """

    level: str
    short: str
    words: str
    view: str = "guarantee"
    subject: str = ""
    fix: str = ""


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; good if there are none."""
    return max(levels, key=_ORDER.index, default=GOOD)


class Plan(Protocol):
    """What is asked of the settings of a site here."""

    @property
    def site(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def epoch(self) -> float: ...
    @property
    def interval(self) -> float: ...
    @property
    def deadline(self) -> float: ...
    @property
    def workers(self) -> int: ...


class Enrolled(Protocol):
    """What is asked of a device here."""

    @property
    def batch(self) -> int: ...
    @property
    def revoked(self) -> object: ...


@dataclass(frozen=True)
class Stored:
    """What was read from the database."""

    decision: Decision | None = None
    recent: tuple[Decision, ...] = ()
    clients: tuple[ClientState, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    rate: float | None = None
    health: tuple[tuple[str, Sample], ...] = ()
    alarms: tuple[Alarm, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Stored:
        return cls(
            decision=reader.latest(),
            recent=tuple(reader.decisions(limit=_LISTED)),
            clients=tuple(reader.clients()),
            refusals=tuple(reader.refused()),
            rate=reader.rate(_RATE_WINDOW),
            health=tuple(reader.health().items()),
            alarms=tuple(reader.alarms()),
        )

    def _noted(self, name: str) -> list[Any]:
        """Return the last value of that name of every worker that is there."""
        notes = latest_notes(dict(self.health), (self.noted or 0.0) - QUIET)
        return [note[name] for note in notes if note.get(name) is not None]

    @property
    def queue(self) -> int | None:
        """How many messages wait to be stored, with all workers."""
        found = self._noted("queue")
        return sum(found) if found else None

    @property
    def lag(self) -> float | None:
        """Seconds from arrival to acknowledgement, with the slowest worker."""
        return max(self._noted("lag_seconds"), default=None)

    @property
    def shed(self) -> int | None:
        """How many messages the broker dropped, as seen by the worker that was there longest."""
        return max(self._noted("shed"), default=None)

    @property
    def offset(self) -> float:
        """How far the fusion centre's clock is ahead of the time that counts."""
        found = [float(each) for each in self._noted("clock_offset_seconds")]
        return max(found, key=abs, default=0.0)

    def time(self, wall: float) -> float:
        """Return the time that counts; ``wall``: by the clock of the fusion centre's machine.

        What it noted last is in the past: if that is not so, the clock was set since.
        """
        noted = (self.noted or 0.0) - _SET_BACK
        possible = [each for each in (wall, wall - self.offset) if each >= noted]
        return min(possible, default=wall)

    @property
    def noted(self) -> float | None:
        """When the fusion centre last noted anything about itself."""
        return max((each.at for _, each in self.health), default=None)

    @property
    def broker(self) -> str:
        """Whether every worker has the broker: "here", "away" or "" if not known."""
        states = {each.get("state", "") for each in self.part("broker")}
        return "away" if "away" in states else max(states, default="")

    def part(self, name: str) -> list[dict[str, Any]]:
        """Return the state of a part, as each worker has noted it."""
        return [parts[name] for parts in self._noted("parts") if name in parts]

    @property
    def suspended(self) -> dict[str, str]:
        """Why devices are not heard for a while, by name."""
        return {name: why for found in self._noted("suspended") for name, why in found.items()}


def device_state(
    site: Plan, device: Enrolled, heard: ClientState | None, now: float, suspended: bool = False
) -> str:
    """Return whether a device reports, and in time."""
    if device.revoked:
        return REVOKED
    if suspended:
        return SUSPENDED
    if heard is None:
        return NEVER
    message = site.interval * device.batch
    if now - heard.last_seen > max(_LEAST_SILENCE, _MISSED_ROUNDS * message + site.deadline):
        return SILENT
    return LATE if lateness(site, device, heard) > site.deadline + message else REPORTING


def lateness(site: Plan, device: Enrolled, heard: ClientState) -> float:
    """Return how long after the end of its rounds the last message of a device came, in seconds."""
    clock = RoundClock(site.epoch, site.interval)
    return max(0.0, heard.last_seen - clock.end(heard.last_round + device.batch - 1))


def examine(
    site: Plan, devices: Mapping[str, Enrolled], stored: Stored, now: float, damage: str = ""
) -> list[Finding]:
    """Return what is wrong with a site that runs, as far as its database shows it.

    ``now``: the time that counts, see ``Stored.time``. ``damage``: what a check of the database has
    found.
    """
    found = [*_database(site, stored, damage), *_fusion(site, stored, now)]
    if stored.noted is not None and now - stored.noted <= QUIET:
        found += _clock(stored)
        found += _decisions(site, stored, now)
        found += _devices(site, devices, stored, now)
    return [*found, *_alarms(stored), *_refusals(stored, now)]


def _database(site: Plan, stored: Stored, damage: str) -> Iterator[Finding]:
    noted = [each["words"] for each in stored.part("integrity") if each.get("state") == "damaged"]
    words = damage or next(iter(noted), "")
    if words:
        fix = "Restore it: discreet restore BACKUP --site FOLDER. See docs/network.md."
        yield Finding(BAD, "The database is damaged", words, "system", "database", fix)


def _fusion(site: Plan, stored: Stored, now: float) -> Iterator[Finding]:
    unit = f"discreet-{site.key or site.site}"
    start = f"Start it: systemctl start {unit}-fusion, or discreet serve FOLDER."
    subject = "fusion centre"
    if stored.noted is None:
        words = "It has never noted anything. Is `discreet serve` running?"
        yield Finding(WARN, "The fusion centre has not run", words, "system", subject, start)
        return
    silent = now - stored.noted
    if silent > QUIET:
        words = f"It has reported nothing for {span(silent)}. Is `discreet serve` running?"
        yield Finding(BAD, "The fusion centre is silent", words, "system", subject, start)
        return
    if stored.broker == "away":
        words = "The fusion centre cannot reach it; devices keep their messages until it can."
        fix = f"Start it: systemctl start {unit}-broker."
        yield Finding(BAD, "The broker is unreachable", words, "system", subject, fix)
    names = [worker_name(k) for k in range(1, site.workers + 1)] if site.workers > 1 else ()
    if gone := silent_workers(names, dict(stored.health), now - QUIET):
        short = f"{len(gone)} of {site.workers} workers silent"
        words = f"{some(gone)}. The others do their share."
        fix = f"Start it: systemctl start {unit}-{gone[0]}, or discreet serve."
        yield Finding(WARN, short, words, "system", subject, fix)


def _clock(stored: Stored) -> Iterator[Finding]:
    for part in stored.part("clock"):
        if part.get("state") in ("unsure", "wrong"):
            level = BAD if part["state"] == "wrong" else WARN
            fix = "Set the clock: timedatectl set-ntp true. If it is right: serve --trust-clock."
            short = "The clock has jumped"
            yield Finding(level, short, part.get("words", ""), "system", "clock", fix)
            return


def _decisions(site: Plan, stored: Stored, now: float) -> Iterator[Finding]:
    fix = "See the log of the fusion centre for the reason."
    old = _LATE_ROUNDS * site.interval + site.deadline + 5.0
    if stored.decision is None:
        level = BAD if now - site.epoch > old and stored.clients else WARN
        words = "No round has been closed yet."
        yield Finding(level, "No decision yet", words, "system", "decisions", fix)
    elif now - stored.decision.closed > old:
        words = "Rounds are no longer closed: what is shown is not the present."
        yield Finding(BAD, "The decision is old", words, "system", "decisions", fix)


def _devices(
    site: Plan, devices: Mapping[str, Enrolled], stored: Stored, now: float
) -> Iterator[Finding]:
    heard = {each.client: each for each in stored.clients}
    states = {
        name: device_state(site, device, heard.get(name), now, name in stored.suspended)
        for name, device in devices.items()
    }
    live = [name for name, state in states.items() if state != REVOKED]
    late = [name for name in live if states[name] == LATE]
    for level, names, what, words in (
        (BAD, [name for name in live if states[name] == SILENT], "silent",
         "Decisions are made without them."),
        (WARN, [name for name in live if states[name] == NEVER], "never seen",
         "Enrolled, but nothing has arrived."),
        (BAD if 2 * len(late) >= len(live) else WARN, late, "late",
         "Rounds are closed before their messages come: is the network slow, a clock wrong?"),
        (BAD, [f"{name} ({stored.suspended[name]})" for name in live if states[name] == SUSPENDED],
         "suspended",
         "More came than a device may send; it is not heard meanwhile: look after it, or shut it "
         "out with discreet revoke."),
    ):  # fmt: skip
        if names:
            short = f"{len(names)} device{'s'[: len(names) > 1]} {what}"
            fix = "Look at the log of the device: journalctl -u discreet-sensor@NAME."
            yield Finding(level, short, f"{some(names)}. {words}", "sensors", "messages", fix)


def _alarms(stored: Stored) -> Iterator[Finding]:
    for each in stored.alarms:
        named = f"{each.client}: " if each.client else ""
        yield Finding(BAD, each.short, f"{named}{each.words}", "sensors", "alarms", each.fix)


def _refusals(stored: Stored, now: float) -> Iterator[Finding]:
    since = now - _RECENT
    fresh = {each.client for each in stored.refusals if each.kept_out and each.last > since}
    ahead = {
        each.client for each in stored.refusals if each.reason == "early" and each.last > now - 60
    }
    if ahead:
        words = f"{some(sorted(ahead))}: messages for rounds to come wait until these begin."
        fix = "Set the clock of the device; it recovers by itself."
        yield Finding(BAD, "A device's clock is ahead", words, "sensors", "messages", fix)
    if fresh:
        words = f"In the last 15 minutes messages of {some(sorted(fresh))} were not accepted."
        fix = "The table `refused` of the database has the reasons; so has the dashboard."
        yield Finding(WARN, "Messages are refused", words, "system", "messages", fix)


def some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def span(seconds: float) -> str:
    """Return a length of time in words."""
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
