"""How a site is: one judgement, for doctor, ``/health``, dashboard and metrics alike.

All of them read the same rows of the database and judge them here. The fusion centre notes what
only it can know: its broker, its clock, whom it has suspended.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from discreet.network.observed import QUIET, Deployed, Enrolled, Plan, Stored
from discreet.network.site.settings import worker_name
from discreet.network.store.rows import ClientState, silent_workers
from discreet_sensor.wire import RoundClock

GOOD, WARN, BAD = "good", "warn", "bad"
_ORDER = (GOOD, WARN, BAD)
REPORTING, LATE, SILENT, NEVER, REVOKED = "reporting", "late", "silent", "never seen", "revoked"
SUSPENDED = "suspended"

_LATE_ROUNDS = 3
_MISSED_ROUNDS = 3
_UNHEARD_ROUNDS = 3
_LEAST_SILENCE = 5.0
_RECENT = 900.0
_EARLY, _EARLY_SHOWN = "early", 60.0


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


def device_states(
    site: Plan, devices: Mapping[str, Enrolled], stored: Stored, now: float
) -> dict[str, str]:
    """Return whether each device reports, and in time."""
    heard = {each.client: each for each in stored.clients}
    suspended, trailing = stored.suspended, stored.trailing
    return {
        name: SUSPENDED
        if name in suspended and not device.revoked
        else _device_state(site, device, heard.get(name), now, name in trailing)
        for name, device in devices.items()
    }


def _device_state(
    site: Plan, device: Enrolled, heard: ClientState | None, now: float, trails: bool
) -> str:
    """Return whether a device that is listened to reports, and in time.

    One message may be late by the time of another, as after an outage. A device that ``trails`` has
    been late with several in a row.
    """
    if device.revoked:
        return REVOKED
    if heard is None:
        return NEVER
    message = site.interval * device.batch
    if now - heard.last_seen > max(_LEAST_SILENCE, _MISSED_ROUNDS * message + site.deadline):
        return SILENT
    allowed = site.deadline + (0.0 if trails else message)
    return LATE if lateness(site, device, heard) > allowed else REPORTING


def lateness(site: Plan, device: Enrolled, heard: ClientState) -> float:
    """Return how long after the end of its rounds the last message of a device came, in seconds."""
    clock = RoundClock(site.epoch, site.interval)
    return max(0.0, heard.last_seen - clock.end(heard.last_round + device.batch - 1))


def examine(
    site: Plan,
    devices: Mapping[str, Enrolled],
    stored: Stored,
    now: float,
    deployed: Deployed | None = None,
) -> list[Finding]:
    """Return what is wrong with a site that runs, as far as its database and its files show it.

    ``now``: the time that counts, see ``Stored.time``.
    """
    found = [*_database(stored), *_fusion(site, stored, now)]
    if stored.noted is not None and now - stored.noted <= QUIET:
        found += _clock(stored)
        found += _decisions(site, stored, now)
        found += _unheard(site, devices, stored, now)
        found += _devices(site, devices, stored, now)
        found += _outdated(site, stored, deployed)
    found += tables_of(devices, deployed)
    found += _certificates(deployed, now)
    return [*found, *_alarms(stored), *_refusals(site, devices, stored, now)]


def _database(stored: Stored) -> list[Finding]:
    fix = "Restore it: discreet restore BACKUP --site FOLDER. See docs/network.md."
    return [
        Finding(BAD, "The database is damaged", each["words"], "system", "database", fix)
        for each in stored.part("integrity")
        if each.get("state") == "damaged"
    ][:1]


def _fusion(site: Plan, stored: Stored, now: float) -> Iterator[Finding]:
    unit = f"discreet-{site.key or site.site}"
    start = f"Start it: systemctl start {unit}-fusion, or discreet serve FOLDER."
    subject = "fusion centre"
    if stored.noted is None:
        words = "It has never noted anything. Is `discreet serve` running?"
        yield Finding(BAD, "The fusion centre has not run", words, "system", subject, start)
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


def _clock(stored: Stored) -> list[Finding]:
    levels = {"unsure": WARN, "wrong": BAD}
    short = "The clock has jumped"
    fix = "Set the clock: timedatectl set-ntp true. If it is right: serve --trust-clock."
    return [
        Finding(levels[part["state"]], short, part.get("words", ""), "system", "clock", fix)
        for part in stored.part("clock")
        if part.get("state") in levels
    ][:1]


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


def _unheard(
    site: Plan, devices: Mapping[str, Enrolled], stored: Stored, now: float
) -> Iterator[Finding]:
    """Yield that devices send, but all of them too late for any decision."""
    last = stored.recent[-_UNHEARD_ROUNDS:]
    if len(last) < _UNHEARD_ROUNDS or any(each.reported for each in last):
        return
    states = device_states(site, devices, stored, now)
    late = [
        lateness(site, devices[each.client], each)
        for each in stored.clients
        if states.get(each.client) == LATE
    ]
    if late:
        words = (
            f"Messages come, but about {span(statistics.median(late))} after their rounds, which "
            f"are closed after {span(site.deadline)}: this machine's clock is ahead, the devices' "
            "clocks are behind, or the deadline is too short."
        )
        fix = "Set the clock: timedatectl set-ntp true. Or give site.json a longer deadline."
        yield Finding(BAD, "Decisions without any sensor", words, "system", "decisions", fix)


def _devices(
    site: Plan, devices: Mapping[str, Enrolled], stored: Stored, now: float
) -> Iterator[Finding]:
    states = device_states(site, devices, stored, now)
    live = [name for name, state in states.items() if state != REVOKED]
    late, silent, never = (
        [name for name in live if states[name] == wanted] for wanted in (LATE, SILENT, NEVER)
    )
    left = any(states[name] in (REPORTING, LATE) for name in live)
    most = 2 * len(never) > len(live)
    for level, names, what, words in (
        (BAD, silent, "silent",
         "Decisions are made without them." if left else "No sensor is heard: nothing is known."),
        (BAD if most and len(never) > 1 else WARN, never, "never seen",  # one may be new
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


def _outdated(site: Plan, stored: Stored, deployed: Deployed | None) -> Iterator[Finding]:
    """Yield which workers run what the site no longer has."""
    if deployed is None:
        return
    wrong: dict[str, list[str]] = {}
    for runs in stored.runs:
        known = deployed.serial_of(runs["name"])
        if runs["mapping"] != deployed.mapping:
            wrong.setdefault("another mapping", []).append(runs["name"])
        elif known and runs["certificate"] not in ("", known):
            wrong.setdefault("an old certificate", []).append(runs["name"])
    for what, names in wrong.items():
        short = f"{len(names)} worker{'s'[: len(names) > 1]} with {what}"
        words = f"{some(names)}. What the site has now was not loaded: is the folder another one?"
        fix = f"Restart it: systemctl restart discreet-{site.key or site.site}-{names[0]}."
        yield Finding(BAD, short, words, "system", "fusion centre", fix)


def tables_of(devices: Mapping[str, Enrolled], deployed: Deployed | None) -> Iterator[Finding]:
    """Yield which devices have tables of another mapping."""
    if deployed is None:
        return
    others = {
        name: device.mapping
        for name, device in devices.items()
        if not device.revoked and device.mapping not in (None, deployed.mapping)
    }
    refused = [name for name, mapping in others.items() if mapping not in deployed.earlier]
    waiting = [name for name in others if name not in refused]
    for level, names, words in (
        (BAD, refused, "Their messages are refused."),
        (WARN, waiting, "They send by the mapping before; their messages count."),
    ):
        if names:
            short = f"{len(names)} device{'s'[: len(names) > 1]} with another mapping"
            fix = f"Give each the new tables: discreet enroll {names[0]} --renew."
            yield Finding(level, short, f"{some(names)}. {words}", "sensors", "devices", fix)


SOON = 60
"""Days before its end from which on a certificate has to be renewed."""


def _certificates(deployed: Deployed | None, now: float) -> Iterator[Finding]:
    """Yield which certificates end soon, or have ended."""
    aged = [
        (each, (each.expires - now) / 86_400)
        for each in (() if deployed is None else deployed.certificates)
        if each.expires - now < SOON * 86_400
    ]
    for level, what, chosen in (
        (BAD, "ended", [each for each, days in aged if days <= 0]),
        (WARN, "end soon", [each for each, days in aged if days > 0]),
    ):
        if chosen:
            short = f"{len(chosen)} certificate{'s'[: len(chosen) > 1]} {what}"
            ends = [f"{each.name} ({day(each.expires)})" for each in chosen]
            fix = f"Renew it: {renewal(chosen[0].name, chosen[0].role)}."
            yield Finding(level, short, f"{some(ends)}.", "system", "certificates", fix)


def renewal(name: str, role: str) -> str:
    """Return the command that gives somebody a new certificate."""
    if role == "observer":  # has no tables and no key of messages that would have to stay
        return f"discreet revoke {name}, then discreet enroll {name} --observer"
    return f"discreet enroll {name} --renew" if role == "sensor" else "discreet renew-site"


def day(at: float) -> str:
    """Return the date of a moment."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _alarms(stored: Stored) -> Iterator[Finding]:
    for each in stored.alarms:
        named = f"{each.client}: " if each.client else ""
        yield Finding(BAD, each.short, f"{named}{each.words}", "sensors", "alarms", each.fix)


def _refusals(
    site: Plan, devices: Mapping[str, Enrolled], stored: Stored, now: float
) -> Iterator[Finding]:
    since = now - _RECENT
    kept_out = [each for each in stored.refusals if each.kept_out and each.reason != _EARLY]
    fresh = {each.client for each in kept_out if each.last > since}
    if ahead := _ahead(site, devices, stored, now):
        words = f"{some(ahead)}: messages for rounds to come wait until these begin."
        fix = "Set the clock of the device; it recovers by itself."
        yield Finding(BAD, "A device's clock is ahead", words, "sensors", "messages", fix)
    if fresh:
        words = f"In the last 15 minutes messages of {some(sorted(fresh))} were not accepted."
        fix = "The table `refused` of the database has the reasons; so has the dashboard."
        yield Finding(WARN, "Messages are refused", words, "system", "messages", fix)


def _ahead(site: Plan, devices: Mapping[str, Enrolled], stored: Stored, now: float) -> list[str]:
    """Return whose messages came too early, and have not come in time for two messages since."""
    seen = {each.client: each.last_seen for each in stored.clients}
    found = []
    for each in stored.refusals:
        batch = devices[each.client].batch if each.client in devices else 1
        recovered = seen.get(each.client, 0.0) - each.last > 2 * site.interval * batch
        if each.reason == _EARLY and each.last > now - _EARLY_SHOWN and not recovered:
            found.append(each.client)
    return sorted(found)


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
