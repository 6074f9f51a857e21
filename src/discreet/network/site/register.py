"""The register of certificates: what was issued to whom, and what is revoked.

The revocation list and the broker's rights are made from it, so that they never disagree.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from discreet.files import PRIVATE, write_whole
from discreet.network.site.authority import Authority, Issued
from discreet.network.site.files import model_bytes, read_bytes, read_model
from discreet.network.site.services import access_list
from discreet.network.site.settings import Name, Serial, Site, SiteFiles

Role = Literal["broker", "fusion", "sensor", "observer"]
_REMEDY = "Restore keys/ from a good copy."


class Entry(BaseModel):
    """One certificate."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Name
    role: Role
    serial: Serial
    expires: datetime
    revoked: datetime | None = None


class Register(BaseModel):
    """What ``keys/issued.json`` holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    issued: Annotated[tuple[Entry, ...], Field(max_length=1_000_000)] = ()

    def of(self, name: str) -> list[Entry]:
        """Return the entries of a name that are not revoked."""
        return [each for each in self.issued if each.name == name and each.revoked is None]

    def with_issued(self, name: str, role: Role, made: Issued) -> Register:
        """Return the register with one more certificate."""
        entry = Entry(name=name, role=role, serial=made.serial, expires=made.expires)
        return Register(issued=(*self.issued, entry))

    def with_revoked(self, name: str, when: datetime) -> Register:
        """Return the register with every certificate of a name revoked."""
        return Register(
            issued=tuple(
                each.model_copy(update={"revoked": when})
                if each.name == name and each.revoked is None
                else each
                for each in self.issued
            )
        )

    @property
    def revoked(self) -> list[tuple[str, datetime]]:
        """Serial number and time of everything revoked."""
        return [(each.serial, each.revoked) for each in self.issued if each.revoked is not None]

    @property
    def rights(self) -> dict[str, Role]:
        """The role of every name that is not revoked."""
        return {each.name: each.role for each in self.issued if each.revoked is None}


def load_register(folder: Path) -> Register:
    """Return the register of a site."""
    return read_model(SiteFiles(folder).register, Register, _REMEDY)


def load_authority(folder: Path) -> Authority:
    """Return the certificate authority of a site."""
    files = SiteFiles(folder)
    return Authority(read_bytes(files.ca), read_bytes(files.ca_key))


def save_register(folder: Path, site: Site, authority: Authority, register: Register) -> None:
    """Replace the register, and the revocation list and the rights that follow from it.

    The register comes last: if it is cut short, the same command does it all again.
    """
    files = SiteFiles(folder)
    revoked = authority.revocation_list(register.revoked)
    write_whole(files.broker / "ca.crl", revoked, PRIVATE)
    write_whole(files.broker / "acl", access_list(site.site, register.rights), PRIVATE)
    write_whole(files.keys / "ca.crl", revoked, PRIVATE)
    write_whole(files.register, model_bytes(register), PRIVATE)


def now() -> datetime:
    """Return the present second."""
    return datetime.now(UTC).replace(microsecond=0)
