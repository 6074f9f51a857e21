"""What the files of a site hold, read within limits: its settings, and the clients it knows.

Everything that runs at a site reads ``site.json`` and ``clients.json``. They define which client
may send what; the keys that prove it lie beside them. A device needs its enrolment file only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from discreet.errors import InputError
from discreet.files import PRIVATE, make_folder, read_whole, write_whole
from discreet_sensor.enrolment import NAME, BrokerPlace, is_host, is_loopback
from discreet_sensor.files import hold

# --- Files, read within limits --------------------------------------------------------------

MAX_BYTES = 64 * 2**20
_MOST_SECRET = 2**20
_Model = TypeVar("_Model", bound=BaseModel)


def read_bytes(file: Path, limit: int = MAX_BYTES) -> bytes:
    """Return what a regular file of a site holds; see ``read_whole``."""
    return read_whole(file, limit, "Is it the right file?")


def file_stamp(file: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does; None if it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def read_model(file: Path, model: type[_Model], remedy: str) -> _Model:
    """Return the checked content of a JSON file.

    ``remedy``: what to do about a damaged file; ends the message.
    """
    data = read_bytes(file)
    try:
        return model.model_validate(json.loads(data))
    except ValidationError as error:
        raise InputError(f"{file}: {first_problem(error)}. {remedy}") from None
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, json.JSONDecodeError) else "no UTF-8 JSON"
        raise InputError(f"{file}: is not JSON ({problem}). {remedy}") from None


def first_problem(error: ValidationError) -> str:
    """Return where a file is wrong first and why, never its content: it may be a key."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:40] for part in found["loc"])
    return f"{place}: {found['msg']}" if place else str(found["msg"])


def model_bytes(content: BaseModel) -> bytes:
    """Return a model as readable JSON."""
    return (json.dumps(content.model_dump(mode="json"), indent=1) + "\n").encode()


def read_secret(path: Path) -> bytes | None:
    """Return what a file holds, or None if there is none.

    Raises InputError: if others may read it, or it cannot be read.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"{path}: others may read it (mode {mode:o}). Run: chmod 600 {path}")
    return read_bytes(path, _MOST_SECRET)


def write_secret(path: Path, data: bytes) -> None:
    """Write a file for its owner only, whole or not at all; its folder is made if need be."""
    folder_for(path)
    write_whole(path, data, PRIVATE)


def folder_for(path: Path) -> None:
    """Make the folder of a file for its owner only, unless it is there."""
    try:
        make_folder(path.parent, PRIVATE)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep two commands from changing one site at the same time.

    Raises InputError: if another command holds the lock, or it cannot be taken.
    """
    held = f"{folder}: another command is changing this site. Try again when it is done."
    try:
        lock = hold(folder / ".lock", held)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{folder}: the site cannot be changed ({reason}). Name a site that you own: --site."
        ) from None
    try:
        yield
    finally:
        lock.release()


# --- Settings -------------------------------------------------------------------------------

FUSION = "fusion"
"""Common name of the fusion centre's certificate; further workers are fusion-2, fusion-3, ..."""
_RESERVED = re.compile(r"(fusion|observer|broker|dashboard|decision|ca)(-\d+)?")
_REMEDY = "Restore it from a good copy, or make a new site with `discreet init`."


class SiteModel(BaseModel):
    """A part of a site's JSON files: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _plain_host(host: str) -> str:
    if not is_host(host):
        raise ValueError("must be a host name or an address")
    return host


def _known_database(url: str) -> str:
    if not re.match(r"sqlite:.|postgres(ql)?://.", url):
        raise ValueError("must begin with sqlite: or postgresql://")
    # The driver's complaint about such an address would show part of the password on the pages.
    odd = url.count("@") > 1 or re.search("%(?![0-9A-Fa-f]{2})", url)
    if odd and not url.startswith("sqlite:"):
        raise ValueError("must have @ and % in a password written as %40 and %25")
    return url


def _printed(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be text without control characters")
    return text


Name = Annotated[str, StringConstraints(pattern=rf"^{NAME}$")]
Host = Annotated[str, AfterValidator(_plain_host)]
Port = Annotated[int, Field(ge=1, le=65535)]
Database = Annotated[str, AfterValidator(_known_database), StringConstraints(max_length=1000)]
HexKey = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Serial = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,40}$")]
SiteId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]
SensorName = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
SensorNames = Annotated[tuple[SensorName, ...], Field(min_length=1, max_length=10_000)]
Rounds = Annotated[int, Field(ge=1, le=1_000_000)]
Epoch = Annotated[int, Field(ge=0, lt=2**40)]
Boot = Annotated[int, Field(ge=0, lt=2**63)]
Interval = Annotated[float, Field(gt=0, le=86_400)]
Budget = Annotated[float, Field(gt=0)]
Period = Annotated[int, Field(ge=1, lt=2**32 - 1)]
Repeat = Annotated[str, StringConstraints(pattern="^(code|period|never)$")]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=120), AfterValidator(_printed)]
MappingId = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class Endpoint(SiteModel):
    """Where something listens."""

    host: Host = "127.0.0.1"
    port: Port


class BrokerEndpoint(Endpoint):
    """Where the broker is found, and how to connect to it.

    ``tls``: false only for the embedded broker of the demo, which has no mutual TLS. ``mqtt``: "5"
    for Mosquitto, "3.1.1" for the embedded broker of the demo.
    """

    tls: bool = True
    mqtt: Literal["5", "3.1.1"] = "5"

    @property
    def place(self) -> BrokerPlace:
        """The same as devices know it."""
        return BrokerPlace(self.host, self.port, self.tls, self.mqtt)

    @model_validator(mode="after")
    def _in_the_clear_here_only(self) -> Self:
        if not self.tls and not is_loopback(self.host):
            raise ValueError(f"tls is false, which is for this machine only, not for {self.host}")
        return self


class Site(SiteModel):
    """What ``site.json`` holds.

    ``site``: name of the site, part of every topic. ``id``: tells apart sites of one name; those of
    earlier versions have none. ``epoch``: unix time, in seconds, at which round 0 begins.
    ``interval``: seconds of a round. ``deadline``: seconds after the end of a round at which it is
    closed. ``database``: ``sqlite:PATH``, relative to the site's folder, or ``postgresql://...``.
    ``mapping``: file of the mapping that runs, relative to the site's folder. ``expires``: when the
    guarantee of the mapping has to be checked again. ``workers``: how many fusion workers have a
    certificate. ``keep``: days after which readings, decisions and what was refused are deleted;
    none, as in sites of earlier versions: never. ``aliases``: other names of the broker that its
    certificate is good for. ``budget``, ``period``, ``repeat``: the policy of devices that are
    enrolled without one of their own. ``answers``: the sentence that a dashboard shows for a class
    of the public fact; a class without one is shown by its name.
    """

    format: Literal["discreet-site"] = "discreet-site"
    version: Literal[1] = 1
    site: Name
    id: SiteId | None = None
    epoch: Epoch
    interval: Interval
    deadline: Annotated[float, Field(ge=0, le=86_400)]
    broker: BrokerEndpoint
    database: Database = "sqlite:fusion/fusion.db"
    dashboard: Endpoint = Endpoint(port=8080)
    metrics: Endpoint = Endpoint(port=9464)
    mapping: Annotated[str, StringConstraints(min_length=1, max_length=255)] = "mapping.json"
    expires: date | None = None
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    keep: Annotated[float, Field(gt=0)] | None = None
    aliases: Annotated[tuple[Host, ...], Field(max_length=20)] = ()
    budget: Budget | None = None
    period: Period = 86_400
    repeat: Repeat = "code"
    answers: Annotated[dict[str, Sentence], Field(max_length=1_000)] = {}

    @property
    def key(self) -> str:
        """What the site is called where others are: databases, machines, browsers, discovery."""
        return self.site if self.id is None else f"{self.site}_{self.id}"  # no name has _


class Client(SiteModel):
    """One enrolled device: the sensors it speaks for and the key that vouches for its messages.

    ``budget``: what each of its sensors may release in all, in nats, as in its bundle; none: no
    limit. ``period``, ``repeat``: the rest of that policy, for when it is renewed. ``mapping``: id
    of the mapping that its bundles are of. ``previous``: the key before the last renewal, which
    vouches for what waited on the device, until a day. ``boot``: the least number of a start in
    messages under the present key; devices that an earlier version enrolled have none.
    ``forgotten``: boot and seq up to which its messages were deleted.
    """

    sensors: SensorNames
    batch: Rounds = 1
    key: Annotated[HexKey, Field(repr=False)]
    previous: Annotated[HexKey | None, Field(repr=False)] = None
    previous_until: datetime | None = None
    serial: Serial
    enrolled: datetime
    revoked: datetime | None = None
    mapping: MappingId | None = None
    budget: Budget | None = None
    period: Period | None = None
    repeat: Repeat | None = None
    boot: Boot | None = None
    forgotten: tuple[Boot, Boot] | None = None


class Clients(SiteModel):
    """What ``fusion/clients.json`` holds: every client by its name."""

    clients: Annotated[dict[Name, Client], Field(max_length=100_000)] = {}

    @model_validator(mode="after")
    def _one_client_for_each_sensor(self) -> Self:
        taken: dict[str, str] = {}
        for name, client in self.live.items():
            for sensor in client.sensors:
                if sensor in taken:
                    raise ValueError(
                        f"sensor {sensor[:60]!r} is of both {taken[sensor]!r} and {name!r}"
                    )
                taken[sensor] = name
        return self

    @property
    def live(self) -> dict[str, Client]:
        return {name: each for name, each in self.clients.items() if each.revoked is None}

    def with_client(self, name: str, client: Client) -> Clients:
        return Clients(clients={**self.clients, name: client})


class SiteFiles:
    """Where each file of a site lies."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.settings = self.folder / "site.json"
        self.keys = self.folder / "keys"
        self.broker = self.folder / "broker"
        self.clients = self.folder / "fusion" / "clients.json"
        self.devices = self.folder / "devices.json"
        self.certificates = self.folder / "certificates.json"
        self.mappings = self.folder / "mappings"
        self.ca = self.folder / "keys" / "ca.crt"
        self.ca_key = self.folder / "keys" / "ca.key"
        self.register = self.folder / "keys" / "issued.json"
        self.probes = self.folder / "keys" / "probes"
        self.bundle_key = self.folder / "keys" / "bundle.key"
        self.audit = self.folder / "audit.json"
        self.report = self.folder / "report.html"
        self.recheck = self.folder / "recheck.json"
        data = self.folder / "data"  # which sites of earlier versions have not
        self.drift = (data if data.is_dir() else self.folder / "fusion") / "drift.json"
        self.frontier = self.folder / "frontier.json"

    def fusion_certificate(self, worker: int = 1) -> tuple[Path, Path]:
        """Return certificate and key of a fusion worker, counted from 1."""
        name = worker_name(worker)
        return self.folder / "fusion" / f"{name}.crt", self.folder / "fusion" / f"{name}.key"

    def database(self, site: Site) -> str:
        """Return the address of the database, a SQLite file as an absolute path."""
        if not site.database.startswith("sqlite:"):
            return site.database
        return f"sqlite:{self.database_file(site)}"

    def database_file(self, site: Site) -> Path:
        """Return where a SQLite database is, as an absolute path."""
        return (self.folder / site.database.removeprefix("sqlite:")).absolute()


def is_inside(database: str) -> bool:
    """Whether a SQLite database is inside of the site's folder, wherever that is."""
    path = Path(database.removeprefix("sqlite:"))
    return path.name != "" and not path.is_absolute() and ".." not in path.parts


def database_to_write(folder: Path, site: Site) -> str:
    """Return the database as the fusion centre opens it.

    If there is a file ``fusion/database`` it holds the address of a role that may write, and
    ``site.json`` that of one that may read only, which is all that dashboard and doctor see.
    """
    file = SiteFiles(folder).folder / "fusion" / "database"
    if not file.exists():
        return site.database
    lines = read_bytes(file, 4096).decode(errors="replace").split()
    return checked(Site, **site.model_dump() | {"database": lines[0] if lines else ""}).database


def broker_hosts(site: Site) -> list[str]:
    """Return the names and addresses that the broker's certificate is good for."""
    return [site.broker.host, *site.aliases, "localhost", "127.0.0.1", "::1"]


def worker_name(worker: int) -> str:
    """Return the common name of a fusion worker, counted from 1."""
    return FUSION if worker == 1 else f"{FUSION}-{worker}"


def worker_group(folder: Path) -> str:
    """Return the name under which the workers of a site share its messages.

    Whoever knows it could join them and have messages that are not for him dropped; so it follows
    from what only workers can read.
    """
    key = read_bytes(SiteFiles(folder).fusion_certificate()[1])
    return hashlib.sha256(b"discreet workers\0" + key).hexdigest()[:32]


def worker_names(site: Site) -> list[str]:
    """Return the common names of all fusion workers of a site."""
    return [worker_name(worker) for worker in range(1, site.workers + 1)]


# --- Reading and writing -------------------------------------------------------------------


def check_name(name: str, what: str = "name") -> str:
    """Return a name that topics and certificates can hold."""
    if not re.fullmatch(NAME, name):
        raise InputError(
            f"the {what} {name[:60]!r} must be 1 to 32 of a-z, 0-9 and -, and must not begin "
            "with -. Choose another."
        )
    return name


def check_client_name(name: str) -> str:
    """Return a name that a client may have.

    Raises InputError: if it cannot be one, or the site keeps it for itself.
    """
    check_name(name)
    if _RESERVED.fullmatch(name):
        raise InputError(f"the name {name!r} is kept for the site itself. Choose another.")
    return name


def load_site(folder: Path) -> Site:
    """Return the settings of a site."""
    file = SiteFiles(folder).settings
    if not file.exists():
        raise InputError(f"{folder}: is no site, it has no site.json. Make one: discreet init.")
    return read_model(file, Site, _REMEDY)


def load_clients(folder: Path) -> Clients:
    """Return the clients of a site."""
    return read_model(SiteFiles(folder).clients, Clients, _REMEDY)


def save_clients(folder: Path, clients: Clients) -> None:
    """Replace the clients of a site, whole; and what the dashboard sees of them."""
    files = SiteFiles(folder)
    write_whole(files.clients, model_bytes(clients), PRIVATE)
    write_whole(files.devices, model_bytes(without_keys(clients)), PRIVATE)


def without_keys(clients: Clients) -> Clients:
    """Return the clients with their keys blotted out."""
    blank = {"key": "0" * 64, "previous": None}
    return Clients(
        clients={name: each.model_copy(update=blank) for name, each in clients.clients.items()}
    )


def load_devices(folder: Path) -> Clients:
    """Return the clients of a site without their keys, for those who need none."""
    files = SiteFiles(folder)
    if files.devices.exists() or not files.clients.exists():
        return read_model(files.devices, Clients, _REMEDY)
    return without_keys(load_clients(folder))  # a site of an earlier version


def checked(model: type[_Model], **values: Any) -> _Model:
    """Return settings made of values that a person has typed.

    Raises InputError: naming the first that is wrong.
    """
    try:
        return model(**values)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        place = ".".join(map(str, found["loc"])) or model.__name__.lower()
        got = "" if place == "database" else f", got {found['input']!r:.60}"  # may be a password
        raise InputError(f"{place}: {found['msg']}{got}.") from None
