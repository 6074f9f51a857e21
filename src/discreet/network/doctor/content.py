"""What runs: the database, the fusion centre's last word, the mapping and its guarantee."""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Mapping as ReadMapping
from datetime import UTC, datetime
from pathlib import Path

from discreet.errors import DiscreetError, InputError
from discreet.mapping import Mapping
from discreet.network.dashboard.audits import load_audit
from discreet.network.dashboard.guarantee import assess
from discreet.network.dashboard.levels import BAD, GOOD
from discreet.network.doctor.findings import Finding, failure, ok, warning
from discreet.network.site.settings import Clients, Site, SiteFiles, load_clients, worker_names
from discreet.network.store.opening import open_reader
from discreet.network.store.rows import Sample
from discreet.network.store.workers import silent_workers
from discreet.values import shown

_SILENT = 30.0  # seconds after which a fusion centre is taken for stopped


def database(folder: Path, site: Site) -> Iterator[Finding]:
    """Whether the database answers, and when the fusion centre last wrote to it."""
    kind = "SQLite" if site.database.startswith("sqlite:") else "PostgreSQL"
    start = f"Start it: systemctl start discreet-{site.site}-fusion, or discreet serve {folder}."
    if kind == "SQLite" and not (folder / site.database.removeprefix("sqlite:")).exists():
        yield warning("database", "SQLite, not made yet: the fusion centre has never run", start)
        return
    try:
        reader = open_reader(site.database, folder, site.site)
        try:
            health, latest = reader.health(), reader.latest()
        finally:
            reader.close()
    except DiscreetError as error:
        fix = "Is the database server running, and may this user in? Else restore a backup."
        yield failure("database", str(error), fix)
        return
    rounds = "no round closed yet" if latest is None else f"last round closed {latest.round}"
    yield ok("database", f"{kind} answers, {rounds}")
    noted = max((sample.at for sample in health.values()), default=0.0)
    silent = time.time() - noted
    if not noted:
        yield warning("fusion centre", "has never noted anything", start)
    elif silent > _SILENT:
        yield failure("fusion centre", f"silent for {_span(silent)}", start)
    elif gone := _silent_workers(site, health):
        fix = (
            f"Start it: systemctl start discreet-{site.site}-{gone[0]}, or discreet serve --worker."
        )
        yield warning("fusion centre", f"silent: {', '.join(gone)}", fix)
    else:
        yield ok("fusion centre", f"wrote {silent:.0f} s ago")


def _silent_workers(site: Site, health: ReadMapping[str, Sample]) -> tuple[str, ...]:
    if site.workers == 1:
        return ()
    return silent_workers(worker_names(site), health, time.time() - _SILENT)


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def mapping(folder: Path, site: Site) -> Iterator[Finding]:
    """Whether the mapping is sound, and every sensor of it has a device that knows it."""
    try:
        found = Mapping.load(folder / site.mapping)
    except DiscreetError as error:
        yield failure("mapping", str(error), "Put the mapping back that the site runs.")
        return
    yield ok("mapping", f"{found.id[:19]}, {len(found.sensors)} sensors")
    try:
        clients = load_clients(folder)
    except InputError as error:
        yield failure("devices", str(error), "Restore fusion/clients.json from a good copy.")
        return
    yield _devices(found, clients)
    yield _promise(folder, site, found)


def _devices(mapping: Mapping, clients: Clients) -> Finding:
    live = clients.live
    for name, client in live.items():
        if client.mapping is not None and client.mapping != mapping.id:
            return warning(
                "devices",
                f"{name} has tables of another mapping; nothing it sends is believed",
                f"Give it the new ones: discreet enroll {name} --renew.",
            )
    spoken_for = {sensor for client in live.values() for sensor in client.sensors}
    alone = [name for name in mapping.names if name not in spoken_for]
    if alone:
        listed = ", ".join(shown(name) for name in alone[:5])
        more = f" and {len(alone) - 5} more" if len(alone) > 5 else ""
        return warning(
            "devices",
            f"no device speaks for {listed}{more}",
            "Enrol one: discreet enroll NAME --sensor SENSOR. Decisions do without till then.",
        )
    return ok("devices", f"{len(live)} speak for all {len(mapping.names)} sensors")


def _promise(folder: Path, site: Site, mapping: Mapping) -> Finding:
    """Return how the guarantee of the mapping is."""
    fix = "Audit it on fresh labelled rows: discreet audit --json, kept as audit.json in the site."
    try:
        audit = load_audit(SiteFiles(folder).audit)
    except InputError as error:
        return failure("guarantee", str(error), fix)
    today = datetime.now(UTC).date()
    state = assess(audit, None, mapping.id, site.expires, today).certificate
    words = f"{state.short[:1].lower()}{state.short[1:]}. {state.words}"
    if state.level == GOOD:
        return ok("guarantee", words)
    return (
        failure("guarantee", words, fix) if state.level == BAD else warning("guarantee", words, fix)
    )
