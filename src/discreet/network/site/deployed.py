"""What the files of a site hold, for whoever has to notice that it changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from discreet.errors import DiscreetError, InputError
from discreet.network.observed import Deployed
from discreet.network.site.certificates import load_certificates, serial_of
from discreet.network.site.files import file_stamp, read_bytes
from discreet.network.site.mappings import load_mappings
from discreet.network.site.settings import SiteFiles, load_site


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
