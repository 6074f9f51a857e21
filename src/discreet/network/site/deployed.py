"""What the files of a site hold, for whoever has to notice that it changes.

*Which certificates of a site count, for those who may not read its register.* Services that run
for years read this, so nothing here loads a library for cryptography.
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path
from typing import Annotated

from pydantic import Field

from discreet.errors import DiscreetError, InputError
from discreet.network.observed import Certificate, Deployed
from discreet.network.site.mappings import load_mappings
from discreet.network.site.settings import (
    Name,
    Serial,
    SiteFiles,
    SiteModel,
    file_stamp,
    load_site,
    read_bytes,
    read_model,
)

# --- Certificates ---------------------------------------------------------------------------


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


class DeployedFiles:
    """The files of a site, read again when they change.

    While one of them cannot be read, what they held before stays; ``problem``: why.
    ``worker``: number of the one that asks.

    Raises DiscreetError: if they cannot be read at first.
    """

    def __init__(self, folder: Path, worker: int = 1) -> None:
        self._files, self._worker = SiteFiles(folder), worker
        self._stamps = self._look()
        self._found = self._read()
        self.problem = ""

    def __call__(self) -> Deployed:
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._found, self.problem = self._read(), ""
            except DiscreetError as error:
                self.problem = str(error)
        return self._found

    def _look(self) -> list[tuple[int, int, int] | None]:
        files = self._files
        own = files.fusion_certificate(self._worker)[0]
        anchor, mapping = files.folder / "fusion" / "ca.crt", files.folder / "mapping.json"
        places = (files.settings, mapping, files.mappings, own, anchor, files.certificates)
        return [file_stamp(each) for each in places]

    def _anchor(self) -> bytes:
        """Return what the broker is judged by; nothing for those who may not read it."""
        try:
            return read_bytes(self._files.folder / "fusion" / "ca.crt")
        except InputError:
            return b""

    def _read(self) -> Deployed:
        folder = self._files.folder
        site = load_site(folder)
        mapping, *earlier = load_mappings(folder, site)
        return Deployed(
            mapping.id,
            tuple(each.id for each in earlier),
            hashlib.sha256(read_bytes(self._files.settings) + self._anchor()).hexdigest(),
            load_certificates(folder),
            _serial(self._files.fusion_certificate(self._worker)[0]),
        )


def _serial(certificate: Path) -> str:
    """Return the serial of a certificate; "" where it cannot be read."""
    try:
        return serial_of(read_bytes(certificate))
    except (InputError, ValueError):
        return ""
