"""How many sites are: each judged as its own doctor would, by its database and its files.

A site is named by its folder, or found in a folder of sites; a database names all sites in it. One
that was seen once and is no longer there is not left out.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from discreet.errors import DiscreetError, InputError
from discreet.network.dashboard.guarantee import guarantee_of
from discreet.network.health import BAD, GOOD, WARN, Finding, device_states, examine, worst
from discreet.network.observed import Deployed, DeployedFiles, Enrolled, Plan, Stored, read_plan
from discreet.network.site.mappings import load_mappings
from discreet.network.site.settings import Site, SiteFiles, load_devices, load_site
from discreet.network.store import open_reader
from discreet.network.store.reading import Reader

_LEVELS = (GOOD, WARN, BAD)
_PARTS = ("site.json", "keys", "broker", "fusion")
_KEPT_SECONDS = 5.0
GUARANTEE = "guarantee"
"""Subject of what has ended a certificate, which is no matter of a site's health."""


@dataclass(frozen=True)
class SiteState:
    """How a site is; ``age``: of its last decision, in seconds; ``devices``: how many are how."""

    site: str
    place: str
    findings: tuple[Finding, ...] = ()
    age: float | None = None
    devices: tuple[tuple[str, int], ...] = ()

    @property
    def level(self) -> str:
        return worst(each.level for each in self.findings)


class Fleet(Collector):
    """Many sites, looked at together.

    ``places``: folders of sites, folders with such folders in them, and databases.

    Raises InputError: if a place is not there.
    """

    def __init__(self, places: Sequence[str]) -> None:
        for place in places:
            if not _is_database(place) and not Path(place).is_dir():
                raise InputError(f"{place}: no such folder. Name a site, or a folder of sites.")
        self._places, self._readers = places, dict[str, Reader]()
        self._seen: dict[tuple[str, str], SiteState] = {}
        self._alone, self._looked = threading.Lock(), 0.0

    def look(self) -> list[SiteState]:
        """Return how all of them are, the worst first; refreshed at most every few seconds."""
        with self._alone:
            if not self._seen or time.monotonic() - self._looked > _KEPT_SECONDS:
                self._look()
                self._looked = time.monotonic()
            found = list(self._seen.values())
        return sorted(found, key=lambda each: (-_LEVELS.index(each.level), each.site, each.place))

    def _look(self) -> None:
        now = {(each.place, each.site): each for place in self._places for each in self._at(place)}
        named = {place for place, _ in now}
        for key, old in self._seen.items():
            # A damaged folder has lost its name, and is there.
            if key not in now and (old.place not in named or _is_database(old.place)):
                now[key] = replace(
                    old, findings=(_bad("The site is gone", "It was there before."),)
                )
        self._seen = now

    def _at(self, place: str) -> Iterator[SiteState]:
        if _is_database(place):
            yield from self._in_database(place)
            return
        folder = Path(place)
        inside = sorted(path for path in folder.glob("*") if path.is_dir())
        for each in [folder] if _looks_like_a_site(folder) else inside:
            if _looks_like_a_site(each):
                yield self._in_folder(each)

    def _in_folder(self, folder: Path) -> SiteState:
        place = str(folder)
        try:
            site = load_site(folder)
        except DiscreetError as error:
            return SiteState(folder.name, place, (_bad("site.json cannot be used", str(error)),))
        damaged: list[Finding] = []
        try:
            deployed, devices = DeployedFiles(folder)(), load_devices(folder).clients
        except DiscreetError as error:
            damaged, deployed, devices = [_bad("A file is damaged", str(error))], None, {}
        if deployed is not None:
            damaged += _over(folder, site)
        if site.database.startswith("sqlite:"):
            file = SiteFiles(folder).database_file(site)
            if not file.exists():
                words = f"{file} is not there. Is `discreet serve` running?"
                return SiteState(site.key, place, (_bad("There is no database", words), *damaged))
        database = SiteFiles(folder).database(site)
        return self._judged(place, database, site.key, site, devices, deployed, damaged)

    def _in_database(self, database: str) -> Iterator[SiteState]:
        place = _without_password(database)
        try:
            plans = self._reader(database, "").plans()
        except DiscreetError as error:
            yield SiteState("?", place, (_bad("The database cannot be used", str(error)),))
            return
        for key, noted in plans.items():
            try:
                found = read_plan(noted)
            except ValueError:
                words = "Its fusion centre is of another version of discreet."
                yield SiteState(key, place, (_bad("The plan of the site cannot be read", words),))
                continue
            about = found.plan, found.devices, found.deployed
            yield self._judged(place, database, key, *about, [])

    def _judged(
        self,
        place: str,
        database: str,
        key: str,
        plan: Plan,
        devices: Mapping[str, Enrolled],
        deployed: Deployed | None,
        damaged: list[Finding],
    ) -> SiteState:
        try:
            stored = Stored.read(self._reader(database, key), plan)
        except DiscreetError as error:
            found = _bad("The database cannot be used", str(error))
            return SiteState(key, place, (found, *damaged))
        now = stored.time(time.time())
        findings = examine(plan, devices, stored, now, deployed=deployed)
        states = Counter(device_states(plan, devices, stored, now).values())
        age = None if stored.decision is None else max(0.0, now - stored.decision.closed)
        return SiteState(key, place, (*damaged, *findings), age, tuple(sorted(states.items())))

    def _reader(self, database: str, key: str) -> Reader:
        """Return what reads a site; sites in one database share a connection."""
        shared = self._readers.get(database)
        if shared is None:
            shared = self._readers[database] = open_reader(database, Path(), "")
        return open_reader(database, Path(), key, shared)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    # -- pages --

    def health(self) -> tuple[str, bytes]:
        """Return the worst level of all sites, and everything about them."""
        found = self.look()
        about = [asdict(each) | {"level": each.level} for each in found]
        return worst(each.level for each in found), json.dumps(about).encode()

    def metrics(self) -> bytes:
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all sites."""
        level = GaugeMetricFamily(
            "discreet_site_level",
            "How a site is: 0 good, 1 needs attention, 2 has to be fixed.",
            labels=["site", "place"],
        )
        age = GaugeMetricFamily(
            "discreet_site_decision_age_seconds",
            "Time since the last round of a site was closed.",
            labels=["site", "place"],
        )
        devices = GaugeMetricFamily(
            "discreet_site_devices", "Devices of a site, by state.", labels=["site", "state"]
        )
        for each in self.look():
            level.add_metric([each.site, each.place], _LEVELS.index(each.level))
            if each.age is not None:
                age.add_metric([each.site, each.place], each.age)
            for state, count in each.devices:
                devices.add_metric([each.site, state], count)
        yield from (level, age, devices)


def _over(folder: Path, site: Site) -> list[Finding]:
    """Return what has ended the guarantee of a site; one that has none is no worse for it."""
    today = datetime.now(UTC).date()
    try:
        mapping = load_mappings(folder, site)[0]
    except DiscreetError as error:  # changed just now
        return [_bad("A file is damaged", str(error))]
    found = guarantee_of(folder, site.expires, mapping, today).certificate
    return [replace(found, subject=GUARANTEE)] if found.level == BAD else []


def _bad(short: str, words: str) -> Finding:
    return Finding(BAD, short, words, "system")


def _is_database(place: str) -> bool:
    return place.startswith(("sqlite:", "postgresql://", "postgres://"))


def _looks_like_a_site(folder: Path) -> bool:
    """Whether there is, or was, a site: what is left of a damaged one is to be seen."""
    return any((folder / part).exists() for part in _PARTS)


def _without_password(database: str) -> str:
    if database.startswith("sqlite:"):
        return database
    parts = urlsplit(database)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
