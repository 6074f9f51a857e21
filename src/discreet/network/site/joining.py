"""Enrol devices, new ones and again.

That changes the site's register, from which the broker's rights and its revocation list
follow, and who of its clients the fusion centre believes.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from discreet.errors import InputError, shown, suggest
from discreet.export.lasting import Lasting, lasting
from discreet.export.neutral import Policy, SensorTable, neutral_form
from discreet.files import PRIVATE, create, write_folder
from discreet.mapping.mapping import Mapping
from discreet.network.broker import reload_broker
from discreet.network.site.authority import (
    CLIENT_DAYS,
    Issued,
    Register,
    as_registered,
    load_authority,
    load_register,
    load_signing_key,
    now,
    save_register,
    signed_bundles,
    trust_anchor,
)
from discreet.network.site.device_files import TARGETS, Files
from discreet.network.site.removing_devices import Revoked, cut_off, save_probe
from discreet.network.site.services import bridge_config
from discreet.network.site.settings import (
    Client,
    Clients,
    Site,
    SiteFiles,
    check_client_name,
    load_clients,
    load_site,
    locked,
    read_bytes,
)
from discreet.network.store import open_reader
from discreet.network.store.database import StoreError
from discreet_sensor.enrolment import Enrolment
from discreet_sensor.wire import MAX_SYMBOLS

_GRACE = timedelta(days=30)  # in which what waited under the old key is still taken


@dataclass(frozen=True)
class EnrolmentRequest:
    """A device to be enrolled, and its policy.

    ``sensors``: as the mapping calls them; by default the one that has the client's name.
    ``batch``: rounds in one message. ``renew``: give a known client a new certificate; the old one
    ends at once. ``given``: which of batch, budget, period and repeat are wanted as they stand
    here; the others are the site's or, of a client that is renewed, stay as they were. ``anyway``:
    also if the budget lasts less than a day. ``to``: what kind of device it is, see
    ``device_files``.
    """

    name: str
    sensors: Sequence[str] = ()
    batch: int = 1
    policy: Policy = Policy()  # noqa: RUF009 - it is frozen
    days: int = CLIENT_DAYS
    renew: bool = False
    given: frozenset[str] = frozenset({"batch", "budget", "period", "repeat"})
    anyway: bool = False
    to: str = "python"


@dataclass(frozen=True)
class Enrolled:
    """What was enrolled, and whether the broker knows already.

    ``old``: of a renewed device: how the end of its old file went. ``late``: how many rounds of
    each message are closed before it is sent. ``lasting``: how long a device's budget lasts.
    ``spent``: what its sensors have released before, in millionths of a nat; None if not known.
    """

    name: str
    sensors: tuple[str, ...]
    expires: str
    notified: bool
    old: Revoked | None = None
    late: int = 0
    lasting: Lasting | None = None
    spent: int | None = 0


def enroll(folder: Path, request: EnrolmentRequest, out: Path) -> Enrolled:
    """Enrol a device: write its file, and let the broker and the fusion centre know it.

    Raises InputError: nothing has changed then.
    """
    check_client_name(request.name)
    site = load_site(folder)
    with locked(folder):
        register = load_register(folder)
        clients = as_registered(load_clients(folder), register)
        _check_new(request, register, clients)
        request = _as_before(request, clients.clients[request.name] if request.renew else site)
        mapping = Mapping.load(folder / site.mapping)
        sensors = _sensors(request, mapping, clients)
        forms = {each.name: each for each in neutral_form(mapping, request.policy)}
        tables = [forms[name] for name in sensors]
        lasting(tables, site.interval, request.anyway)  # raises: the whole budget has to be enough
        authority, moment = load_authority(folder), now()
        made = authority.issue_client(request.name, valid=timedelta(days=request.days))
        known = clients.clients.get(request.name)
        floor = floor_of(folder, site, clients, request.name, sensors)
        boot, spent = floor or (0, 0)
        client = Client(
            sensors=sensors,
            batch=request.batch,
            key=secrets.token_hex(32),
            previous=known.key if known and request.renew else None,
            previous_until=moment + _GRACE if request.renew else None,
            serial=made.serial,
            enrolled=moment,
            mapping=mapping.id,
            budget=request.policy.budget,
            period=request.policy.period,
            repeat=request.policy.repeat,
            boot=max(int(moment.timestamp()), boot + 1),
            forgotten=known.forgotten if known else None,
        )
        anchor = trust_anchor(authority, register)
        content = _enrolment(folder, site, tables, request.name, client, made, spent, anchor)
        probe = authority.issue_client(request.name) if request.renew else None
        if probe is not None:
            register = register.with_issued(request.name, "sensor", probe)
        register = register.with_revoked(request.name, moment)
        register = register.with_issued(request.name, "sensor", made)
        clients = clients.with_client(request.name, client)
        with _kept_only_if_done(out, _written(content, request.to)):
            save_register(folder, site, authority, register, clients)
        notified, old = reload_broker(folder), None
        if probe is not None:  # whoever is connected with the old file would stay so
            save_probe(folder, request.name, probe)
            old = cut_off(folder, site, authority, request.name, probe)
    # Rounds of a message that are closed before its last one ends.
    late = sum(ahead * site.interval >= site.deadline for ahead in range(1, client.batch))
    span = lasting(tables, site.interval, spent=spent)
    ends = made.expires.date().isoformat()
    return Enrolled(request.name, sensors, ends, notified, old, late, span, floor and floor[1])


def enroll_observer(folder: Path, name: str, out: Path, days: int = CLIENT_DAYS) -> Enrolled:
    """Enrol an observer, which reads the decision only; write its files, and one for a bridge.

    Raises InputError: nothing has changed then.
    """
    check_client_name(name)
    site = load_site(folder)
    with locked(folder):
        register = load_register(folder)
        clients = as_registered(load_clients(folder), register)
        _check_free(name, register, clients, "observer")
        authority = load_authority(folder)
        made = authority.issue_client(name, valid=timedelta(days=days))
        files = {f"{name}.crt": made.certificate, f"{name}.key": made.key}
        files["ca.crt"] = read_bytes(SiteFiles(folder).ca)
        files["bridge.conf"] = bridge_config(site.site, name, site.broker).encode()
        with _kept_only_if_done(out, files, option=""):
            # What an enrolment that was cut short has left under the name ends.
            changed = register.with_revoked(name, now()).with_issued(name, "observer", made)
            save_register(folder, site, authority, changed, clients)
    return Enrolled(name, (), made.expires.date().isoformat(), reload_broker(folder))


def _check_new(request: EnrolmentRequest, register: Register, clients: Clients) -> None:
    if not request.renew or _is_observer(request.name, register):
        _check_free(request.name, register, clients, "device")
    elif not register.of(request.name) or request.name not in clients.live:
        raise InputError(
            f"--renew: no device {request.name!r} is enrolled. "
            f"{suggest(request.name, clients.live)} Leave --renew out to enrol a new one."
        )


def _as_before(request: EnrolmentRequest, before: Client | Site) -> EnrolmentRequest:
    """Return the request with what was not given as it was: a forgotten --budget ends no budget."""
    kept = {
        name: getattr(before, name)
        for name in ("budget", "period", "repeat")
        if name not in request.given and getattr(before, name) is not None
    }
    batch = request.batch
    if "batch" not in request.given and isinstance(before, Client):
        batch = before.batch
    return replace(request, batch=batch, policy=replace(request.policy, **kept))


def _check_free(name: str, register: Register, clients: Clients, kind: str) -> None:
    """Refuse a name that is in use; ``kind``: of client that is to have it."""
    # An enrolment that was cut short is in the register only, and nobody has its file.
    if name not in clients.live and all(each.role == "sensor" for each in register.of(name)):
        return
    if _is_observer(name, register):
        words, remedy = ", as an observer", "Take another name, or revoke it first."
    elif kind == "observer":
        words, remedy = ", as a device", "Take another name, or revoke it first."
    else:
        words = ""
        remedy = "Take another name, revoke it first, or give --renew for a new certificate."
    raise InputError(f"{name!r} is enrolled already{words}. {remedy}")


def _is_observer(name: str, register: Register) -> bool:
    return any(each.role == "observer" for each in register.of(name))


def _sensors(request: EnrolmentRequest, mapping: Mapping, clients: Clients) -> tuple[str, ...]:
    """Return the sensors that a device is to speak for, none of which another one has."""
    before = clients.clients[request.name].sensors if request.renew else ()
    sensors = tuple(request.sensors) or before or (request.name,)
    others = {name: each for name, each in clients.live.items() if name != request.name}
    held = {sensor: name for name, each in others.items() for sensor in each.sensors}
    for name in sensors:
        if name not in mapping.names:
            hint = "" if request.sensors else " Name those that this device reads: --sensor."
            raise InputError(
                f"the mapping has no sensor {shown(name)}. {suggest(name, mapping.names)}{hint}"
            )
        if name in held:
            raise InputError(
                f"sensor {shown(name)} belongs to {held[name]!r} already. Revoke that device "
                "first, or leave the sensor out."
            )
    if len(set(sensors)) < len(sensors):
        raise InputError("--sensor names one sensor twice. Name it once.")
    if len(sensors) * request.batch > MAX_SYMBOLS:
        raise InputError(
            f"{len(sensors)} sensors and --batch {request.batch} make "
            f"{len(sensors) * request.batch} symbols; a message holds {MAX_SYMBOLS}. "
            "Take a smaller batch."
        )
    return sensors


def _enrolment(
    folder: Path,
    site: Site,
    tables: Sequence[SensorTable],
    name: str,
    client: Client,
    made: Issued,
    spent: int,
    anchor: bytes,
) -> Enrolment:
    key = load_signing_key(folder)
    return Enrolment(
        site=site.site,
        client=name,
        sensors=client.sensors,
        batch=client.batch,
        epoch=site.epoch,
        interval=site.interval,
        broker=site.broker.place,
        boot=client.boot or 0,
        spent=spent,
        mapping=tables[0].mapping_id,
        certificate=made.certificate.decode(),
        key=made.key.decode(),
        ca=anchor.decode(),
        mac_key=client.key,
        previous_key=client.previous,
        public_key=key.public_hex,
        bundles=signed_bundles(tables, key),
    )


def _written(enrolment: Enrolment, to: str) -> bytes | Files:
    """Return the file, or the files of a folder, that the device is given."""
    if to not in TARGETS:
        raise InputError(f"--to must be one of {', '.join(TARGETS)}, got {to!r}.")
    make = TARGETS[to].files
    return enrolment.as_json() if make is None else make(enrolment)


@contextmanager
def _kept_only_if_done(out: Path, data: bytes | Files, option: str = "--out ") -> Iterator[None]:
    """Write a new file or folder, and remove it if what follows fails."""
    if isinstance(data, bytes):
        _write_new(out, data)
    else:
        write_folder(out, data, option, PRIVATE)
    try:
        yield
    except BaseException:  # also Ctrl-C
        if isinstance(data, bytes):
            out.unlink(missing_ok=True)
        else:
            shutil.rmtree(out, ignore_errors=True)
        raise


def _write_new(file: Path, data: bytes) -> None:
    try:
        with create(file, PRIVATE) as stream:
            stream.write(data)
    except FileExistsError:
        raise InputError(f"{file} is there already. Name another file: --out.") from None
    except (OSError, ValueError) as error:
        file_error = getattr(error, "strerror", None) or error
        raise InputError(
            f"{file}: cannot be written ({file_error}). Name another: --out."
        ) from None


# --- What a device had reached before it is enrolled again --------------------------------


def floor_of(
    folder: Path, site: Site, clients: Clients, name: str, sensors: Sequence[str]
) -> tuple[int, int] | None:
    """Return the last boot of a device, and what was spent for its sensors; None if not known.

    Whatever device spoke for a sensor before: what it has released about it stays released.
    """
    if site.database.startswith("sqlite:") and not SiteFiles(folder).database_file(site).exists():
        return 0, 0
    before = {
        other
        for other, each in clients.clients.items()
        if other == name or set(each.sensors) & set(sensors)
    }
    with closing(open_reader(site.database, folder, site.key)) as reader:
        try:
            heard = [each for each in reader.clients() if each.client in before]
        except StoreError:
            return None
    boot = max((each.boot for each in heard if each.client == name), default=0)
    return boot, max((each.spent for each in heard), default=0)
