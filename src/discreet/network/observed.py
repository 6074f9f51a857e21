"""What a judgement of a site rests on: settings, what its files hold, and the rows of its store.

Whoever judges has the folder of the site, or only its database, in which the fusion centre has
noted the rest.

Which certificates count is read from a file, by those who may not read the register. Services that
run for years read it, so nothing here loads a library for cryptography.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field, TypeAdapter

from discreet.errors import DiscreetError, InputError
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
from discreet.network.store.reading import Reader
from discreet.network.store.rows import Alarm, ClientState, Decision, Refusal, Sample, latest_notes

QUIET = 30.0
"""Seconds after which a fusion centre that notes nothing is taken for stopped."""
_SET_BACK = 5.0
_LISTED = 20
_RATE_WINDOW = 60.0


@dataclass(frozen=True)
class Certificate:
    """One that counts; ``expires``: in seconds since 1970."""

    __pydantic_config__ = SiteModel.model_config
    name: Name
    role: Annotated[str, Field(max_length=20)]
    serial: Serial
    expires: float


@dataclass(frozen=True)
class Deployed:
    """What the files of a site hold, as distinct from what its processes have loaded.

    ``mapping``, ``earlier``: ids of the mapping to run, and of those that some devices still send
    by. ``settings``: changes when ``site.json`` does. ``certificates``: those that count; none if
    they are not known. ``own``: serial of the certificate that a worker would load.
    """

    __pydantic_config__ = SiteModel.model_config
    mapping: str
    earlier: tuple[str, ...] = ()
    settings: str = ""
    certificates: tuple[Certificate, ...] = ()
    own: str = ""

    def runs_as(self, other: Deployed) -> bool:
        """Whether a worker that has loaded the other need not start again."""
        return replace(self, certificates=()) == replace(other, certificates=())

    def serial_of(self, name: str) -> str:
        """Return the latest certificate of a name; "" if it is not known."""
        return next((each.serial for each in reversed(self.certificates) if each.name == name), "")


class Plan(Protocol):
    """What is asked of the settings of a site here."""

    @property
    def site(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def epoch(self) -> float: ...
    @property
    def interval(self) -> float: ...
    @property
    def deadline(self) -> float: ...
    @property
    def workers(self) -> int: ...


class Enrolled(Protocol):
    """What is asked of a device here."""

    @property
    def batch(self) -> int: ...
    @property
    def revoked(self) -> object: ...
    @property
    def mapping(self) -> str | None: ...


@dataclass(frozen=True)
class NotedPlan:
    """Settings of a site as its fusion centre has noted them in the database."""

    __pydantic_config__ = SiteModel.model_config
    site: str
    key: str
    epoch: float
    interval: float
    deadline: float
    workers: int


@dataclass(frozen=True)
class NotedDevice:
    """A device as the fusion centre has noted it."""

    __pydantic_config__ = SiteModel.model_config
    batch: int
    revoked: bool
    mapping: str | None


@dataclass(frozen=True)
class Noted:
    """What a judgement needs besides what is stored."""

    plan: NotedPlan
    devices: dict[str, NotedDevice]
    deployed: Deployed | None


def noted_plan(
    site: Plan, devices: Mapping[str, Enrolled], deployed: Deployed | None
) -> dict[str, Any]:
    """Return what a judgement needs besides what is stored, to be noted there."""
    about = NotedPlan(
        site.site, site.key or site.site, site.epoch, site.interval, site.deadline, site.workers
    )
    found = {
        name: NotedDevice(each.batch, bool(each.revoked), each.mapping)
        for name, each in devices.items()
    }
    return asdict(Noted(about, found, deployed))


def read_plan(noted: dict[str, Any]) -> Noted:
    """Return what ``noted_plan`` has noted.

    Raises ValueError: if it is of another version.
    """
    return TypeAdapter(Noted).validate_python(noted)


@dataclass(frozen=True)
class Stored:
    """What was read from the database."""

    decision: Decision | None = None
    recent: tuple[Decision, ...] = ()
    clients: tuple[ClientState, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    rate: float | None = None
    health: tuple[tuple[str, Sample], ...] = ()
    alarms: tuple[Alarm, ...] = ()

    @classmethod
    def read(cls, reader: Reader, site: Plan) -> Stored:
        """Read what is stored of a site; decisions on rounds to come are not."""
        found = reader.overview(_LISTED, _RATE_WINDOW, (site.epoch, site.interval))
        return cls(
            decision=found.decisions[-1] if found.decisions else None,
            recent=found.decisions,
            clients=found.clients,
            refusals=found.refusals,
            rate=found.rate,
            health=tuple(found.health.items()),
            alarms=found.alarms,
        )

    def _noted(self, name: str) -> list[Any]:
        """Return the last value of that name of every worker that is there."""
        notes = latest_notes(dict(self.health), (self.noted or 0.0) - QUIET)
        return [note[name] for note in notes if note.get(name) is not None]

    @property
    def queue(self) -> int | None:
        """How many messages wait to be stored, with all workers."""
        found = self._noted("queue")
        return sum(found) if found else None

    @property
    def lag(self) -> float | None:
        """Seconds from arrival to acknowledgement, with the slowest worker."""
        return max(self._noted("lag_seconds"), default=None)

    @property
    def shed(self) -> int | None:
        """How many messages the broker dropped, as seen by the worker that was there longest."""
        return max(self._noted("shed"), default=None)

    @property
    def offset(self) -> float:
        """How far the fusion centre's clock is ahead of the time that counts."""
        found = [float(each) for each in self._noted("clock_offset_seconds")]
        return max(found, key=abs, default=0.0)

    def time(self, wall: float) -> float:
        """Return the time that counts; ``wall``: by the clock of the fusion centre's machine.

        What it noted last is in the past: if that is not so, the clock was set since.
        """
        noted = (self.noted or 0.0) - _SET_BACK
        possible = [each for each in (wall, wall - self.offset) if each >= noted]
        return min(possible, default=wall)

    @property
    def noted(self) -> float | None:
        """When the fusion centre last noted anything about itself."""
        return max((each.at for _, each in self.health), default=None)

    @property
    def broker(self) -> str:
        """Whether every worker has the broker: "here", "away" or "" if not known."""
        states = {each.get("state", "") for each in self.part("broker")}
        return "away" if "away" in states else max(states, default="")

    def part(self, name: str) -> list[dict[str, Any]]:
        """Return the state of a part, as each worker has noted it."""
        return [parts[name] for parts in self._noted("parts") if name in parts]

    @property
    def runs(self) -> list[dict[str, str]]:
        """Name, mapping and certificate of every worker that is there."""
        return self._noted("runs")

    @property
    def suspended(self) -> dict[str, str]:
        """Why devices are not heard for a while, by name."""
        return {name: why for found in self._noted("suspended") for name, why in found.items()}

    @property
    def trailing(self) -> set[str]:
        """Whose last messages all came after their rounds were closed."""
        return {name for found in self._noted("trailing") for name in found}


# --- What the files hold --------------------------------------------------------------------


class KnownCertificates(SiteModel):
    """What ``certificates.json`` holds, for those who may not read the register."""

    certificates: Annotated[tuple[Certificate, ...], Field(max_length=1_000_000)] = ()


def load_certificates(folder: Path) -> tuple[Certificate, ...]:
    """Return the certificates that count; none if they are not known."""
    file = SiteFiles(folder).certificates
    if not file.exists():
        return ()  # a site of an earlier version
    remedy = "Enrol or renew any device, which rewrites it."
    return read_model(file, KnownCertificates, remedy).certificates


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

    def _read(self) -> Deployed:
        folder = self._files.folder
        mapping, *earlier = load_mappings(folder, load_site(folder))
        anchor, own = b"", ""
        with suppress(InputError):  # not everybody may read what the broker is judged by
            anchor = read_bytes(folder / "fusion" / "ca.crt")
        with suppress(InputError, ValueError):
            own = serial_of(read_bytes(self._files.fusion_certificate(self._worker)[0]))
        return Deployed(
            mapping.id,
            tuple(each.id for each in earlier),
            hashlib.sha256(read_bytes(self._files.settings) + anchor).hexdigest(),
            load_certificates(folder),
            own,
        )
