"""How long the site's certificates and its revocation list are still good."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from discreet.errors import InputError
from discreet.network.doctor.findings import Finding, failure, ok, warning
from discreet.network.site.files import read_bytes
from discreet.network.site.register import Entry, load_register
from discreet.network.site.settings import Site, SiteFiles, worker_name

_SOON = 60  # days
_ANEW = "Make a new site with `discreet init` and enrol the devices there."


def certificates(folder: Path, site: Site) -> Iterator[Finding]:
    """Look at the authority, what it has signed for the site, and its revocation list."""
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
    if days < _SOON:
        return warning(subject, f"ends on {end.date()}, in {days} days", fix)
    return ok(subject, f"good until {end.date()}")


def _revocation_list(file: Path, authority: x509.Certificate) -> Finding:
    subject = "revocation list"
    fix = "Write it anew by enrolling or revoking anybody, and have the broker reload."
    try:
        found = x509.load_pem_x509_crl(read_bytes(file))
    except (InputError, ValueError) as error:
        return failure(subject, f"{error}. The broker lets nobody in without it", fix)
    if not found.is_signature_valid(authority.public_key()):  # type: ignore[arg-type]
        return failure(subject, "is not of this site's authority: nobody is let in", fix)
    end = found.next_update_utc
    if end is None:
        return failure(subject, "has no end, which no broker takes", fix)
    aged = _age(subject, end, fix)
    count = len(list(found))
    if aged.level == "ok":
        return ok(subject, f"{count} revoked, {aged.words}")
    return Finding(subject, aged.level, f"{aged.words}; then the broker lets nobody in", fix)


def devices(folder: Path) -> Iterator[Finding]:
    """Look at the certificates of the devices, as the register has them."""
    subject = "devices' certificates"
    try:
        register = load_register(folder)
    except InputError:
        yield ok(subject, "not looked at: keys/ is not here")
        return
    live = [
        each
        for each in register.issued
        if each.revoked is None and each.role in ("sensor", "observer")
    ]
    aged = [_age(each.name, each.expires, _renewal(each)) for each in live]
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


def _renewal(entry: Entry) -> str:
    """Return the command that gives a device, or an observer, a new certificate."""
    if entry.role == "observer":  # has no tables and no key of messages that would have to stay
        return f"discreet revoke {entry.name}, then discreet enroll {entry.name} --observer"
    return f"discreet enroll {entry.name} --renew"
