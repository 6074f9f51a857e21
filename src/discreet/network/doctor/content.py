"""What a site holds: database, mapping and guarantee, and how long certificates last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from discreet.auditing.recheck import BROKEN, load_state, load_watch
from discreet.errors import DiscreetError, InputError, shown
from discreet.mapping.mapping import Mapping
from discreet.network.dashboard.guarantee import Guarantee, assess_drift, guarantee_of
from discreet.network.doctor.machine import Finding, failure, ok, warning
from discreet.network.health import BAD, GOOD, SOON, examine, renewal, tables_of
from discreet.network.health import Finding as Judged
from discreet.network.observed import QUIET, Deployed, DeployedFiles, Stored
from discreet.network.site.authority import load_register
from discreet.network.site.mappings import load_mappings
from discreet.network.site.settings import (
    Clients,
    Site,
    SiteFiles,
    load_clients,
    load_site,
    read_bytes,
    worker_name,
)
from discreet.network.store import check_database, open_reader
from discreet.network.store.database import StoreError

_REPAIR = "Restore a backup: discreet restore BACKUP. See docs/network.md."


def database(folder: Path, site: Site) -> Iterator[Finding]:
    """Whether the database is sound, and what it shows of the site, as everybody judges it."""
    kind = "SQLite" if site.database.startswith("sqlite:") else "PostgreSQL"
    start = f"Start it: systemctl start discreet-{site.key}-fusion, or discreet serve {folder}."
    if kind == "SQLite" and not (folder / site.database.removeprefix("sqlite:")).exists():
        yield failure("database", "SQLite, not made yet: the fusion centre has never run", start)
        return
    try:
        if damage := check_database(site.database, folder):
            yield failure("database", damage, _REPAIR)
            return
        reader = open_reader(site.database, folder, site.key)
        try:
            stored = Stored.read(reader, site)
        finally:
            reader.close()
    except DiscreetError as error:
        fix = "Is the database server running, and may this user in? Else restore a backup."
        yield failure("database", str(error), fix)
        return
    latest = stored.decision
    rounds = "no round closed yet" if latest is None else f"last round closed {latest.round}"
    yield ok("database", f"{kind} is sound, {rounds}")
    if site.keep is None:
        words = "readings and decisions are never deleted"
        yield warning("retention", words, 'Say for how many days: "keep": 90 in site.json.')
    else:
        yield ok("retention", f"what is stored is deleted after {site.keep:g} days")
    yield from _running(folder, site, stored)


def _running(folder: Path, site: Site, stored: Stored) -> Iterator[Finding]:
    try:
        clients = load_clients(folder).clients
    except InputError:
        clients = {}  # which the check of the mapping shows
    now = stored.time(time.time())
    found = examine(site, clients, stored, now, deployed=_deployed(folder))
    for each in found:
        if each.subject in ("certificates", "devices"):
            continue  # these are looked at in their files
        make = failure if each.level == BAD else warning
        words = f"{each.short[:1].lower()}{each.short[1:]}. {each.words}"
        yield make(each.subject, words, each.fix.replace("FOLDER", str(folder)))
    if stored.noted is not None and not any(each.subject == "fusion centre" for each in found):
        yield ok("fusion centre", f"wrote {now - stored.noted:.0f} s ago")
    if clients and not any(each.subject == "messages" for each in found):
        yield ok("messages", f"{len(stored.clients)} devices report in time")


def running_mappings(folder: Path) -> dict[str, str]:
    """Return the id of the mapping that each running worker has noted; none if it is not known."""
    site = load_site(folder)
    if site.database.startswith("sqlite:") and not SiteFiles(folder).database_file(site).exists():
        return {}
    reader = open_reader(site.database, folder, site.key)
    try:
        stored = Stored.read(reader, site)
    except StoreError:
        return {}
    finally:
        reader.close()
    if stored.noted is None or stored.time(time.time()) - stored.noted > QUIET:
        return {}
    return {each["name"]: each["mapping"] for each in stored.runs}


def _deployed(folder: Path) -> Deployed | None:
    try:
        return DeployedFiles(folder)()
    except DiscreetError:
        return None  # which the check of the mapping shows


def mapping(folder: Path, site: Site) -> Iterator[Finding]:
    """Whether the mapping is sound, and every sensor of it has a device that knows it."""
    try:
        found, *earlier = load_mappings(folder, site)
    except DiscreetError as error:
        yield failure("mapping", str(error), "Put the mapping back that the site runs.")
        return
    yield ok("mapping", f"{found.id[:19]}, {len(found.sensors)} sensors")
    try:
        clients = load_clients(folder)
    except InputError as error:
        yield failure("devices", str(error), "Restore fusion/clients.json from a good copy.")
        return
    yield _devices(found, tuple(each.id for each in earlier), clients)
    yield from _promise(folder, site, found)


def _devices(mapping: Mapping, earlier: tuple[str, ...], clients: Clients) -> Finding:
    live = clients.live
    for each in tables_of(live, Deployed(mapping.id, earlier)):
        words = f"{each.short}: {each.words.rstrip('.')}"
        return (failure if each.level == BAD else warning)("devices", words, each.fix)
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


def _promise(folder: Path, site: Site, mapping: Mapping) -> Iterator[Finding]:
    """Yield the state of the mapping's guarantee, of its re-check, and of drift without labels."""
    files = SiteFiles(folder)
    more_rows = f"Judge it by labelled rows of the site: discreet recheck {folder / site.mapping}"
    found = guarantee_of(folder, site.expires, mapping, datetime.now(UTC).date())
    yield _told("guarantee", found.certificate, _remedy(found, folder, more_rows))
    if found.recheck in found.findings:
        yield _told("re-check", found.recheck, more_rows)
    try:
        recheck = load_state(files.recheck) if files.recheck.exists() else None
        watch = load_watch(files.drift) if files.drift.exists() else None
    except InputError as error:
        yield failure("drift", str(error), "Restore it from a good copy, or delete it.")
        return
    yield _told("drift", assess_drift(watch, recheck, mapping.id), more_rows)


def _remedy(found: Guarantee, folder: Path, more_rows: str) -> str:
    """Return what would bring a guarantee back: for a withdrawn one, no rows do."""
    if found.standing.state == BROKEN:
        return (
            "Learn another mapping and audit it, then: discreet change-mapping NEW --site "
            f"{folder} --audit AUDIT."
        )
    unseen = found.standing.until is not None and found.days_left is None
    if unseen and found.findings == [found.certificate]:  # nothing else is wrong with it
        return more_rows
    return "Audit it on fresh labelled rows: discreet audit --json, kept as audit.json in the site."


def _told(subject: str, state: Judged, fix: str) -> Finding:
    words = f"{state.short[:1].lower()}{state.short[1:]}. {state.words}"
    if state.level in (GOOD, ""):
        return ok(subject, words)
    return (failure if state.level == BAD else warning)(subject, words, fix)


# --- Certificates --------------------------------------------------------------------------


_ANEW = "Renew it: discreet renew-site. Then restart the fusion centre."


def certificates(folder: Path, site: Site) -> Iterator[Finding]:
    """Check the authority, what it has signed for the site, and its revocation list."""
    files = SiteFiles(folder)
    try:
        authority = x509.load_pem_x509_certificate(read_bytes(files.broker / "ca.crt"))
    except (InputError, ValueError) as error:
        yield failure("certificates", f"broker/ca.crt: {error}", "Restore it from a good copy.")
        return
    named = {"authority": files.broker / "ca.crt", "broker": files.broker / "broker.crt"}
    for worker in range(1, site.workers + 1):
        named[worker_name(worker)] = files.fusion_certificate(worker)[0]
    for name, file in named.items():
        yield _certificate(f"certificate of the {name}", file, authority)
    yield _revocation_list(files.broker / "ca.crl", authority)


def _certificate(subject: str, file: Path, authority: x509.Certificate) -> Finding:
    try:
        found = x509.load_pem_x509_certificate(read_bytes(file))
        found.verify_directly_issued_by(authority)
    except (InputError, ValueError, TypeError) as error:
        return failure(subject, f"{file.name}: {error}", "Restore it from a good copy.")
    except InvalidSignature:
        words = f"{file.name} is not of this site's authority"
        return failure(subject, words, "Restore it from a good copy.")
    begins = found.not_valid_before_utc
    if begins > datetime.now(UTC):
        return failure(subject, f"not good before {begins.date()}", "Is the clock right?")
    return _age(subject, found.not_valid_after_utc, _ANEW)


def _age(subject: str, end: datetime, fix: str) -> Finding:
    days = (end - datetime.now(UTC)).days
    if end < datetime.now(UTC):
        return failure(subject, f"ended on {end.date()}", fix)
    if days < SOON:
        return warning(subject, f"ends on {end.date()}, in {days} days", fix)
    return ok(subject, f"good until {end.date()}")


def _revocation_list(file: Path, authority: x509.Certificate) -> Finding:
    subject = "revocation list"
    fix = "Enrol or revoke any device, which rewrites it, and have the broker reload."
    try:
        found = x509.load_pem_x509_crl(read_bytes(file))
    except (InputError, ValueError) as error:
        return failure(subject, f"{error}. Without it the broker refuses every connection", fix)
    if not found.is_signature_valid(authority.public_key()):  # type: ignore[arg-type]
        return failure(
            subject, "is not of this site's authority: the broker refuses every connection", fix
        )
    end = found.next_update_utc
    if end is None:
        return failure(subject, "has no end, which no broker takes", fix)
    aged = _age(subject, end, fix)
    count = len(list(found))
    if aged.level == "ok":
        return ok(subject, f"{count} revoked, {aged.words}")
    return Finding(
        subject, aged.level, f"{aged.words}; then the broker refuses every connection", fix
    )


def devices(folder: Path) -> Iterator[Finding]:
    """Check the certificates of the devices, as the register has them."""
    subject = "devices' certificates"
    try:
        register = load_register(folder)
    except InputError:
        yield ok(subject, "not checked: keys/ is not here")
        return
    live = [
        each
        for each in register.issued
        if each.revoked is None and each.role in ("sensor", "observer")
    ]
    aged = [_age(each.name, each.expires, renewal(each.name, each.role)) for each in live]
    bad = [each for each in aged if each.level != "ok"]
    if not bad:
        yield ok(subject, f"{len(live)} enrolled")
        return
    ended = any(each.level == "failure" for each in bad)
    words = "; ".join(f"{each.subject} {each.words}" for each in bad[:5])
    more = f"; and {len(bad) - 5} more" if len(bad) > 5 else ""
    yield (failure if ended else warning)(
        subject, words + more, f"Give each a new one: {bad[0].fix}."
    )
