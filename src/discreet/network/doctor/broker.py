"""The broker: installed, reachable, of this site, and strict about which clients it accepts.

Nobody's session is touched: after the handshake nothing is sent.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cryptography import x509

from discreet.network.broker import find_mosquitto
from discreet.network.doctor.findings import Finding, failure, ok, warning
from discreet.network.site.settings import Site, SiteFiles

_SECONDS = 5.0
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
    start = f"Start it: systemctl start discreet-{site.site}-broker, or see {folder / 'README.md'}."
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
        known = knock(site, files.broker / "ca.crt", certificate, key)
        anonymous = knock(site, files.broker / "ca.crt")
    except ssl.SSLCertVerificationError as error:
        yield failure(
            "TLS",
            f"the broker's certificate is not good for {site.broker.host} ({error.verify_message})",
            "Is it the broker of this site? Have it reload, or make the site with this --host.",
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
                f"Have it reload: systemctl reload discreet-{site.site}-broker.",
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
