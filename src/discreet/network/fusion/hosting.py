"""Workers of sites, as their folders describe them; many of them in one process.

Sites that share a database share a connection to it and the thread that uses it: a thousand of them
need one connection, not a thousand.
"""

from __future__ import annotations

import logging
import os
import resource
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from discreet.errors import DiscreetError, InputError
from discreet.network.dashboard.guarantee import guarantee_of
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.service import FusionService
from discreet.network.fusion.state import FusionSettings
from discreet.network.observed import DeployedFiles
from discreet.network.site.mappings import load_mappings
from discreet.network.site.settings import (
    SiteFiles,
    database_to_write,
    load_site,
    worker_group,
    worker_name,
)
from discreet.network.store import check_database, open_store
from discreet.network.store.writing import Store
from discreet_sensor.connecting import BrokerAddress
from discreet_sensor.wire import RoundClock

logger = logging.getLogger(__name__)

_DAY = 86_400.0
_IDLE = 0.25  # seconds
_FILES_EACH = 8
_SITES_EACH = 250
_PROBATION = 3.0  # seconds: ten times what a fusion centre takes to connect again


Make = Callable[[Store | None], FusionService]
"""Returns a worker, which is to share the connection of a store if there is one."""


class _Hosted:
    """A worker with the thread of its connection to the broker."""

    def __init__(self, make: Make, shared: Store | None) -> None:
        self.make, self.service = make, make(shared)
        self._thread = threading.Thread(target=self.service.connect, daemon=True)

    def begin(self, something: threading.Event) -> None:
        self._thread.start()
        self.service.begin(something)

    def end(self) -> None:
        self.service.finish()
        self._thread.join()
        try:
            self.service.close(shared=True)
        except DiscreetError as error:
            logger.error("%s", error)


class Together:
    """Workers of several sites in one process; one that fails, or has changed, ends no other.

    ``groups``: what makes them, those that share a connection together.

    Raises DiscreetError: if one of them cannot be made.
    """

    def __init__(self, groups: Sequence[Sequence[Make]]) -> None:
        self._stop = threading.Event()
        self._groups = [self._made(each) for each in groups if each]

    @staticmethod
    def _made(makers: Sequence[Make]) -> list[_Hosted]:
        first = _Hosted(makers[0], None)
        return [first, *(_Hosted(make, first.service.store) for make in makers[1:])]

    @property
    def services(self) -> list[FusionService]:
        """Return the workers."""
        return [each.service for group in self._groups for each in group]

    def run(self) -> None:
        """Work until ``stop`` is called."""
        _allow_files(_FILES_EACH * len(self.services))
        threads = [threading.Thread(target=self._keep, args=(group,)) for group in self._groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stop(self) -> None:
        """Have ``run`` end; once is enough."""
        self._stop.set()

    def _keep(self, group: list[_Hosted]) -> None:
        something, store = threading.Event(), group[0].service.store
        for each in group:
            each.begin(something)
        while group and not self._stop.is_set():
            something.wait(_IDLE)
            something.clear()
            for each in list(group):
                each.service.turn()
                if each.service.stopped:
                    self._replace(group, each, something, store)
        for each in group:
            each.end()
        store.close()

    @staticmethod
    def _replace(
        group: list[_Hosted], ended: _Hosted, something: threading.Event, store: Store
    ) -> None:
        """End a worker; if its site has changed, another one takes its place."""
        ended.end()
        group.remove(ended)
        if not ended.service.outdated:
            return
        try:
            group.append(_Hosted(ended.make, store))
            group[-1].begin(something)
        except DiscreetError as error:
            logger.error("%s", error)


def _allow_files(count: int) -> None:
    """Let this process open so many files more, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft + count if hard == resource.RLIM_INFINITY else min(hard, soft + count)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def host_sites(
    folders: Sequence[Path], keep: float | None = None, trust_clock: bool = False
) -> Together:
    """Return the first workers of several sites; see ``host_worker``."""
    _check_different(folders)
    groups: dict[str, list[Make]] = {}
    for folder in folders:
        site = load_site(folder)
        place = database_to_write(folder, site)
        if place.startswith("sqlite:"):
            place = SiteFiles(folder).database(site)
        make = partial(host_worker, folder, 1, keep, trust_clock)
        groups.setdefault(place, []).append(make)
    return Together([part for makers in groups.values() for part in in_parts(makers)])


def _check_different(folders: Sequence[Path]) -> None:
    """Refuse a site that is named twice, by a link perhaps."""
    seen: dict[str, Path] = {}
    for folder in folders:
        place = os.path.realpath(folder)
        if place in seen:
            raise InputError(f"{seen[place]} and {folder} are one folder. Name each site once.")
        seen[place] = folder


def in_parts(makers: Sequence[Make]) -> list[Sequence[Make]]:
    """Return them in parts that one connection serves: each waits for the database by itself."""
    return [makers[k : k + _SITES_EACH] for k in range(0, len(makers), _SITES_EACH)]


def host_worker(
    folder: Path,
    worker: int = 1,
    keep: float | None = None,
    trust_clock: bool = False,
    shared: Store | None = None,
) -> FusionService:
    """Return a worker of a site.

    ``keep``: days, instead of what the site has; 0: for ever. ``shared``: the store of another site
    whose connection to the database it is to use.

    Raises DiscreetError: if a file of the site cannot be used.
    """
    site, files = load_site(folder), SiteFiles(folder)
    if not 1 <= worker <= site.workers:
        raise InputError(
            f"--worker must be from 1 to {site.workers}, which is how many {folder} has; "
            f"got {worker}. Make a site with more: discreet init --workers"
        )
    deployed = DeployedFiles(folder, worker)
    mapping, *earlier = load_mappings(folder, site)
    return FusionService(
        fusion_settings(folder, worker, keep, trust_clock),
        mapping,
        Registry(files.clients, site.site, mapping, earlier),
        open_store(database_to_write(folder, site), folder, site.key, shared),
        guarantee=lambda: guarantee_of(folder, site.expires, mapping, datetime.now(UTC).date()),
        drift=files.drift,
        check=lambda: check_database(site.database, folder),
        deployed=deployed,
        earlier=earlier,
    )


def fusion_settings(
    folder: Path, worker: int = 1, keep: float | None = None, trust_clock: bool = False
) -> FusionSettings:
    """Return what a worker of a site runs with; see ``host_worker``."""
    site, files = load_site(folder), SiteFiles(folder)
    days = site.keep if keep is None else keep
    ca = folder / "fusion" / "ca.crt"
    return FusionSettings(
        site=site.site,
        key=site.key,
        clock=RoundClock(float(site.epoch), site.interval, site.deadline),
        broker=BrokerAddress.of(site.broker.place, ca, *files.fusion_certificate(worker)),
        name=worker_name(worker),
        group=worker_group(folder) if site.workers > 1 else None,
        keep=days * _DAY if days else None,
        trust_clock=trust_clock,
        workers=site.workers,
        probation=_PROBATION if site.broker.tls and site.broker.mqtt == "5" else 0.0,
    )
