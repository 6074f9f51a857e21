"""What may be wrong with a site, each with what to do about it.

Around it: clock, randomness, disk, privacy of the folder, and the broker, which has to be
installed, reachable, of this site, and strict about which clients it accepts. Nobody's session is
touched: after the handshake nothing is sent. In it: database, mapping and guarantee, and how long
certificates last.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from discreet.auditing.recheck import BROKEN, load_state, load_watch
from discreet.errors import DiscreetError, InputError, shown
from discreet.mapping.mapping import Mapping
from discreet.network import health
from discreet.network.broker import find_mosquitto
from discreet.network.dashboard.guarantee import Guarantee, assess_drift, guarantee_of
from discreet.network.health import BAD, GOOD, SOON, renewal, tables_of
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
    worker_names,
)
from discreet.network.store import check_database, open_reader
from discreet.network.store.database import StoreError
from discreet_sensor.connecting import refuse_revoked
from discreet_sensor.runtime import RandomnessError, check_randomness

Level = Literal["ok", "warning", "failure"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    ``subject``: such as "clock". ``level``: a failure keeps the site from working; a warning will,
    or needs attention. ``words``: what was seen. ``fix``: what to do; empty if all is well.
    """

    subject: str
    level: Level
    words: str
    fix: str = ""


def ok(subject: str, words: str) -> Finding:
    """Return that all is well."""
    return Finding(subject, "ok", words)


def warning(subject: str, words: str, fix: str) -> Finding:
    """Return something that needs attention."""
    return Finding(subject, "warning", words, fix)


def failure(subject: str, words: str, fix: str) -> Finding:
    """Return something that has to be fixed."""
    return Finding(subject, "failure", words, fix)


def _judged(subject: str, state: health.Finding, fix: str) -> Finding:
    """Return what everybody judges alike as a finding of the doctor."""
    words = f"{state.short[:1].lower()}{state.short[1:]}. {state.words}"
    if state.level in (GOOD, ""):
        return ok(subject, words)
    return (failure if state.level == BAD else warning)(subject, words, fix)


def examine(folder: Path) -> Iterator[Finding]:
    """Yield what is found, as it is found.

    Raises InputError: if the folder is no site: then there is nothing to check.
    """
    site = load_site(folder)
    yield from clock(site)
    yield from randomness()
    yield from disk(folder)
    yield from privacy(folder)
    yield from certificates(folder, site)
    yield from devices(folder)
    yield from program()
    yield from broker(folder, site)
    yield from database(folder, site)
    yield from mapping(folder, site)


# --- The machine ----------------------------------------------------------------------------

_LITTLE, _TOO_LITTLE = 10**9, 10**8  # bytes
_SHARE = 0.05
_SECONDS = 5.0


def clock(site: Site) -> Iterator[Finding]:
    """Whether the clock is right: rounds and the ends of certificates depend on it."""
    now = datetime.now(UTC)
    shown = now.strftime("%Y-%m-%d %H:%M:%S UTC")
    set_it = "Set the clock and keep it set: timedatectl set-ntp true."
    if now.timestamp() < site.epoch - 60:
        begun = datetime.fromtimestamp(site.epoch, UTC).date()
        yield failure("clock", f"it is {shown}, before the site was made ({begun})", set_it)
        return
    synchronised = _is_synchronised()
    if synchronised is False:
        yield warning("clock", f"it is {shown}, but nothing keeps it set", set_it)
    else:
        seen = "kept by the network" if synchronised else "what keeps it set is not known here"
        yield ok("clock", f"it is {shown}, {seen}")


def _is_synchronised() -> bool | None:
    """Whether systemd reports that the clock is synchronised; None if it cannot be queried."""
    program = shutil.which("timedatectl")
    if program is None:
        return None
    try:
        printed = subprocess.run(
            [program, "show", "--property=NTPSynchronized", "--value"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return {"yes": True, "no": False}.get(printed)


def randomness() -> Iterator[Finding]:
    """Whether keys and symbols can be drawn."""
    try:
        if hasattr(os, "getrandom"):
            os.getrandom(32, os.GRND_NONBLOCK)
        check_randomness()
    except BlockingIOError:
        words = "the system has not gathered enough randomness yet"
        fix = "Wait a minute; on a machine without a hardware source install rng-tools or haveged."
        yield failure("randomness", words, fix)
    except (RandomnessError, OSError) as error:
        fix = "Do not run sensors or make keys on this machine until its source is repaired."
        yield failure("randomness", str(error), fix)
    else:
        yield ok("randomness", "the system's source answers and is not stuck")


def disk(folder: Path) -> Iterator[Finding]:
    """Whether there is room, and whether it can be written to."""
    place = folder / "fusion"
    try:
        with tempfile.TemporaryFile(dir=place) as trial:
            trial.write(b"x" * 4096)
            trial.flush()
            os.fsync(trial.fileno())
        room = shutil.disk_usage(place)
    except OSError as error:
        reason = error.strerror or str(error)
        fix = "Make room, or let the site's user write there."
        yield failure("disk", f"{place} cannot be written ({reason})", fix)
        return
    words = f"{room.free / 1e9:.1f} GB of {room.total / 1e9:.1f} GB free"
    fix = "Make room, or move the database to a larger disk."
    if room.free < _TOO_LITTLE:
        yield failure("disk", words, fix)
    elif room.free < _LITTLE or room.free < _SHARE * room.total:
        yield warning("disk", words, fix)
    else:
        yield ok("disk", words)


def privacy(folder: Path) -> Iterator[Finding]:
    """Whether somebody else on the machine can read keys."""
    if os.name != "posix":
        return
    open_to_others = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_symlink() and _is_open(path)
    )
    if open_to_others and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        more = f" and {len(open_to_others) - 1} more" if len(open_to_others) > 1 else ""
        words = f"others on this machine can read {open_to_others[0]}{more}"
        yield failure("privacy", words, f"Run: chmod -R go= {folder}")
    else:
        yield ok("privacy", "only the owner can read the site")


def _is_open(path: Path) -> bool:
    try:
        about = path.stat()
    except FileNotFoundError:  # running services create and delete files
        return False
    return stat.S_ISREG(about.st_mode) and bool(about.st_mode & 0o044)


# --- The broker ----------------------------------------------------------------------------


_VERDICT_SECONDS = 0.7  # with TLS 1.3 a refusal follows the handshake
Verdict = Literal["accepted", "refused"]


def program() -> Iterator[Finding]:
    """Whether Mosquitto 2 is installed here."""
    found = find_mosquitto()
    if found is None:
        fix = "On Debian: apt install mosquitto. Leave it if the broker runs elsewhere."
        yield warning("Mosquitto", "is not installed on this machine", fix)
        return
    try:
        printed = subprocess.run(
            [str(found), "-h"], capture_output=True, text=True, timeout=_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        yield failure("Mosquitto", f"{found} does not run ({error})", "Install it again.")
        return
    version = printed.partition("version ")[2].split()[:1]
    if not version or not version[0].startswith("2."):
        seen = version[0] if version else "unknown"
        fix = "Install Mosquitto 2: version 1 has no MQTT 5 as it is needed here."
        yield failure("Mosquitto", f"is of version {seen}", fix)
    else:
        yield ok("Mosquitto", f"{version[0]} at {found}")


def broker(folder: Path, site: Site) -> Iterator[Finding]:
    """Whether the broker answers, proves its identity, and requires the same of clients."""
    place = f"{site.broker.host}:{site.broker.port}"
    start = f"Start it: systemctl start discreet-{site.key}-broker, or see {folder / 'README.md'}."
    try:
        began = time.monotonic()
        socket.create_connection((site.broker.host, site.broker.port), _SECONDS).close()
    except OSError as error:
        yield failure("broker", f"{place} does not answer ({error.strerror or error})", start)
        return
    yield ok("broker", f"{place} answers in {1000 * (time.monotonic() - began):.0f} ms")
    if site.broker.tls:
        yield from _tls(folder, site)
    else:
        yield warning("TLS", "is off in site.json", "For the demo only: make a site with init.")


def _tls(folder: Path, site: Site) -> Iterator[Finding]:
    files = SiteFiles(folder)
    certificate, key = files.fusion_certificate()
    try:
        known = knock(site, certificate.parent / "ca.crt", certificate, key)
        anonymous = knock(site, certificate.parent / "ca.crt")
    except ssl.SSLCertVerificationError as error:
        host, reason = site.broker.host, error.verify_message
        fix = (
            f"Have it reload: systemctl reload discreet-{site.key}-broker. Is it the broker of "
            "this site? Another host name: discreet renew-site --host."
        )
        yield failure("TLS", f"the broker's certificate is not good for {host} ({reason})", fix)
        return
    except (OSError, ValueError) as error:
        words = f"no handshake ({getattr(error, 'strerror', None) or error})"
        yield failure("TLS", words, "Is it the broker of this site?")
        return
    if known == "refused":
        fix = "Check certificates and revocation list above, and have the broker reload."
        yield failure("TLS", "the broker refuses the fusion centre's certificate", fix)
    elif anonymous == "accepted":
        fix = "Start it with broker/mosquitto.conf of this site, and with nothing else."
        yield failure("TLS", "the broker lets in whoever comes, without a certificate", fix)
    else:
        yield ok("TLS", "the broker is of this site, and refuses clients without a certificate")
    yield from _list_in_force(site, files)


def _list_in_force(site: Site, files: SiteFiles) -> Iterator[Finding]:
    """Try the newest of the certificates that were made to be refused."""
    try:
        probes = sorted(files.probes.glob("*.crt"), key=lambda file: file.stat().st_mtime_ns)
    except OSError:
        return
    tried = 0
    for probe in probes[-3:]:
        try:
            made = x509.load_pem_x509_certificate(probe.read_bytes())
            if made.not_valid_after_utc <= datetime.now(UTC):
                continue  # refused for its age, not because of the list
            seen = knock(site, files.broker / "ca.crt", probe, probe.with_suffix(".key"))
        except (OSError, ValueError):
            continue
        tried += 1
        if seen == "accepted":
            words = f"the broker has not taken the list on which {probe.stem} is"
            fix = (
                f"Have it reload: systemctl reload discreet-{site.key}-broker. After a restore it "
                "has to restart."
            )
            yield failure("revocation", words, fix)
            return
    if tried:
        yield ok("revocation", "what is revoked is refused, as was tried")
    elif probes:
        words = "whether the broker has taken the last one could not be tried"
        fix = f"Run this as a user that may read {files.probes}, or run discreet revoke again."
        yield warning("revocation", words, fix)


def knock(
    site: Site, ca: Path, certificate: Path | None = None, key: Path | None = None
) -> Verdict:
    """Do a TLS handshake with the broker and return whether it refuses.

    Raises OSError: if it cannot be reached, or proves no valid identity
    (``ssl.SSLCertVerificationError``).
    """
    context = ssl.create_default_context(cafile=ca)
    refuse_revoked(context, ca)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    address = (site.broker.host, site.broker.port)
    with socket.create_connection(address, _SECONDS) as line:
        try:
            with context.wrap_socket(line, server_hostname=site.broker.host) as secure:
                secure.settimeout(_VERDICT_SECONDS)
                secure.recv(1)
                return "refused"  # it closed the connection
        except TimeoutError:
            return "accepted"  # it waits for the first packet
        except ssl.SSLCertVerificationError:
            raise
        except (ssl.SSLError, ConnectionError):
            return "refused"


# --- What the site holds --------------------------------------------------------------------

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
        with closing(open_reader(site.database, folder, site.key)) as reader:
            stored = Stored.read(reader, site)
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
    try:
        deployed = DeployedFiles(folder)()
    except DiscreetError:
        deployed = None  # likewise
    now = stored.time(time.time())
    found = health.examine(site, clients, stored, now, deployed=deployed)
    for each in found:
        if each.subject not in ("certificates", "devices"):  # looked at in their files
            yield _judged(each.subject, each, each.fix.replace("FOLDER", str(folder)))
    if stored.noted is not None and not any(each.subject == "fusion centre" for each in found):
        yield ok("fusion centre", f"wrote {now - stored.noted:.0f} s ago")
    if clients and not any(each.subject == "messages" for each in found):
        yield ok("messages", f"{len(stored.clients)} devices report in time")


def running_mappings(folder: Path) -> dict[str, str]:
    """Return the id of the mapping that each running worker has noted; none if it is not known."""
    site = load_site(folder)
    if site.database.startswith("sqlite:") and not SiteFiles(folder).database_file(site).exists():
        return {}
    with closing(open_reader(site.database, folder, site.key)) as reader:
        try:
            stored = Stored.read(reader, site)
        except StoreError:
            return {}
    if stored.noted is None or stored.time(time.time()) - stored.noted > QUIET:
        return {}
    return {each["name"]: each["mapping"] for each in stored.runs}


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
        fix = "Enrol one: discreet enroll NAME --sensor SENSOR. Decisions do without till then."
        return warning("devices", f"no device speaks for {listed}{more}", fix)
    return ok("devices", f"{len(live)} speak for all {len(mapping.names)} sensors")


def _promise(folder: Path, site: Site, mapping: Mapping) -> Iterator[Finding]:
    files = SiteFiles(folder)
    more_rows = f"Judge it by labelled rows of the site: discreet recheck {folder / site.mapping}"
    found = guarantee_of(folder, site.expires, mapping, datetime.now(UTC).date())
    yield _judged("guarantee", found.certificate, _remedy(found, folder, more_rows))
    if found.recheck in found.findings:
        yield _judged("re-check", found.recheck, more_rows)
    try:
        recheck = load_state(files.recheck) if files.recheck.exists() else None
        watch = load_watch(files.drift) if files.drift.exists() else None
    except InputError as error:
        yield failure("drift", str(error), "Restore it from a good copy, or delete it.")
        return
    yield _judged("drift", assess_drift(watch, recheck, mapping.id), more_rows)


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


# --- Certificates --------------------------------------------------------------------------


def certificates(folder: Path, site: Site) -> Iterator[Finding]:
    """Check the authority, what it has signed for the site, and its revocation list."""
    files = SiteFiles(folder)
    try:
        authority = x509.load_pem_x509_certificate(read_bytes(files.broker / "ca.crt"))
    except (InputError, ValueError) as error:
        yield failure("certificates", f"broker/ca.crt: {error}", "Restore it from a good copy.")
        return
    named = {"authority": files.broker / "ca.crt", "broker": files.broker / "broker.crt"}
    named |= {name: folder / "fusion" / f"{name}.crt" for name in worker_names(site)}
    for name, file in named.items():
        yield _certificate(f"certificate of the {name}", file, authority)
    yield _revocation_list(files.broker / "ca.crl", authority)


_CLOCK = (
    "Set the clock right. If it is, renew what was made while it was ahead: discreet renew-site. "
    "Then restart broker and fusion centre."
)


def _certificate(subject: str, file: Path, authority: x509.Certificate) -> Finding:
    try:
        found = x509.load_pem_x509_certificate(read_bytes(file))
        found.verify_directly_issued_by(authority)
    except (InputError, ValueError, TypeError) as error:
        return failure(subject, f"{file.name}: {error}", "Restore it from a good copy.")
    except InvalidSignature:
        words = f"{file.name} is not of this site's authority"
        return failure(subject, words, "Restore it from a good copy.")
    if early := _early(subject, found.not_valid_before_utc, _CLOCK):
        return early
    fix = "Renew it: discreet renew-site. Then restart the fusion centre."
    return _age(subject, found.not_valid_after_utc, fix)


def _early(subject: str, begin: datetime | None, fix: str) -> Finding | None:
    """Return what is wrong with a certificate that was issued while the clock was ahead."""
    if begin is None or begin <= datetime.now(UTC):
        return None
    return failure(subject, f"not good before {begin.date()}", fix)


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
    refuses = "the broker refuses every connection"
    if not found.is_signature_valid(authority.public_key()):  # type: ignore[arg-type]
        return failure(subject, f"is not of this site's authority: {refuses}", fix)
    if found.next_update_utc is None:
        return failure(subject, "has no end, which no broker takes", fix)
    if found.last_update_utc > datetime.now(UTC):
        words = f"is dated in the future, {found.last_update_utc:%Y-%m-%d %H:%M} UTC: {refuses}"
        return failure(subject, words, _CLOCK)
    aged = _age(subject, found.next_update_utc, fix)
    if aged.level == "ok":
        return ok(subject, f"{len(list(found))} revoked, {aged.words}")
    return Finding(subject, aged.level, f"{aged.words}; then {refuses}", fix)


def devices(folder: Path) -> Iterator[Finding]:
    """Check the certificates of the devices, as the register has them."""
    subject = "devices' certificates"
    try:
        register = load_register(folder)
    except InputError:
        yield ok(subject, "not checked: keys/ is not here")
        return
    aged = [
        _early(each.name, each.begins, fix) or _age(each.name, each.expires, fix)
        for each in register.issued
        if each.revoked is None and each.role in ("sensor", "observer")
        for fix in [renewal(each.name, each.role)]
    ]
    bad = [each for each in aged if each.level != "ok"]
    if not bad:
        yield ok(subject, f"{len(aged)} enrolled")
        return
    make = failure if any(each.level == "failure" for each in bad) else warning
    words = "; ".join(f"{each.subject} {each.words}" for each in bad[:5])
    more = f"; and {len(bad) - 5} more" if len(bad) > 5 else ""
    yield make(subject, words + more, f"Give each a new one: {bad[0].fix}.")
