"""What surrounds a site: clock, randomness, disk, privacy of the folder, and the broker.

The broker has to be installed, reachable, of this site, and strict about which clients it accepts.
Nobody's session is touched: after the handshake nothing is sent.
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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cryptography import x509

from discreet.network.broker import find_mosquitto
from discreet.network.site.settings import Site, SiteFiles
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
        yield failure(
            "randomness",
            "the system has not gathered enough randomness yet",
            "Wait a minute; on a machine without a hardware source install rng-tools or haveged.",
        )
    except (RandomnessError, OSError) as error:
        yield failure(
            "randomness",
            str(error),
            "Do not run sensors or make keys on this machine until its source is repaired.",
        )
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
        if not path.is_symlink() and _is_open(path, folder)
    )
    if open_to_others and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        yield failure(
            "privacy",
            f"others on this machine can read {open_to_others[0]}"
            + (f" and {len(open_to_others) - 1} more" if len(open_to_others) > 1 else ""),
            f"Run: chmod -R go= {folder}",
        )
    else:
        yield ok("privacy", "only the owner can read the site")


def _is_open(path: Path, folder: Path) -> bool:
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
        yield warning(
            "Mosquitto",
            "is not installed on this machine",
            "On Debian: apt install mosquitto. Leave it if the broker runs elsewhere.",
        )
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
        yield failure(
            "TLS",
            f"the broker's certificate is not good for {site.broker.host} ({error.verify_message})",
            f"Have it reload: systemctl reload discreet-{site.key}-broker. Is it the broker of "
            "this site? Another host name: discreet renew-site --host.",
        )
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        yield failure("TLS", f"no handshake ({reason})", "Is it the broker of this site?")
        return
    if known == "refused":
        yield failure(
            "TLS",
            "the broker refuses the fusion centre's certificate",
            "Check certificates and revocation list above, and have the broker reload.",
        )
    elif anonymous == "accepted":
        yield failure(
            "TLS",
            "the broker lets in whoever comes, without a certificate",
            "Start it with broker/mosquitto.conf of this site, and with nothing else.",
        )
    else:
        yield ok("TLS", "the broker is of this site, and refuses clients without a certificate")
    yield from _list_in_force(site, files)


def _list_in_force(site: Site, files: SiteFiles) -> Iterator[Finding]:
    """Try the certificates that were made to be refused, the newest ones, if there are any."""
    try:
        probes = sorted(files.probes.glob("*.crt"), key=lambda file: file.stat().st_mtime_ns)
    except OSError:
        return
    tried = 0
    for probe in probes[-3:]:
        try:
            if _ended(probe):
                continue
            seen = knock(site, files.broker / "ca.crt", probe, probe.with_suffix(".key"))
        except (OSError, ValueError):
            continue
        tried += 1
        if seen == "accepted":
            yield failure(
                "revocation",
                f"the broker has not taken the list on which {probe.stem} is",
                f"Have it reload: systemctl reload discreet-{site.key}-broker.",
            )
            return
    if tried:
        yield ok("revocation", "what is revoked is refused, as was tried")
    elif probes:
        yield warning(
            "revocation",
            "whether the broker has taken the last one could not be tried",
            f"Run this as a user that may read {files.probes}, or run discreet revoke again.",
        )


def _ended(certificate: Path) -> bool:
    """Whether a certificate is refused for its age, not because of the list."""
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    return found.not_valid_after_utc <= datetime.now(UTC)


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
