"""Which certificates of a site count, for those who may not read its register.

Services that run for years read this, so nothing here loads a library for cryptography.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated

from pydantic import Field

from discreet.network.observed import Certificate
from discreet.network.site.files import read_model
from discreet.network.site.settings import Name, Serial, SiteFiles, SiteModel


class KnownCertificate(SiteModel):
    """One that counts; ``expires``: in seconds since 1970."""

    name: Name
    role: Annotated[str, Field(max_length=20)]
    serial: Serial
    expires: float


class KnownCertificates(SiteModel):
    """What ``certificates.json`` holds, for those who may not read the register."""

    certificates: Annotated[tuple[KnownCertificate, ...], Field(max_length=1_000_000)] = ()


def load_certificates(folder: Path) -> tuple[Certificate, ...]:
    """Return the certificates that count; none if they are not known."""
    file = SiteFiles(folder).certificates
    if not file.exists():
        return ()  # a site of an earlier version
    remedy = "Enrol or renew any device, which rewrites it."
    found = read_model(file, KnownCertificates, remedy).certificates
    return tuple(Certificate(**each.model_dump()) for each in found)


def serial_of(certificate: bytes) -> str:
    """Return the serial of a certificate in PEM, as the register writes it.

    Raises ValueError: if it is none.
    """
    text, end, _ = certificate.decode("ascii").partition(ssl.PEM_FOOTER)
    data = ssl.PEM_cert_to_DER_cert(text + end)
    try:
        at = _inside(data, _inside(data, 0))  # certificate, and what is signed of it
        at = _inside(data, at) + data[at + 1]  # after the version
        return f"{int.from_bytes(data[at + 2 : at + 2 + data[at + 1]], 'big'):x}"
    except IndexError:
        raise ValueError("a certificate that was cut short") from None


def _inside(data: bytes, at: int) -> int:
    """Return where the content of an element in DER begins."""
    return at + 2 + (data[at + 1] & 0x7F if data[at + 1] & 0x80 else 0)
