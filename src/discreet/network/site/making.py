"""Make a site, all of its folder or nothing; new certificates and keys for one that is there."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from discreet.errors import InputError
from discreet.export.lasting import Lasting, lasting
from discreet.export.neutral import Policy, neutral_form
from discreet.export.signing import new_key
from discreet.files import PRIVATE, check_folder, write_folder, write_whole
from discreet.mapping.mapping import Mapping
from discreet.network.broker import find_mosquitto, reload_broker
from discreet.network.site.authority import (
    Authority,
    Register,
    Role,
    as_registered,
    known_certificates,
    load_authority,
    load_register,
    make_authority,
    now,
    save_register,
    trust_anchor,
)
from discreet.network.site.services import access_list, mosquitto_config, service_files
from discreet.network.site.settings import (
    BrokerEndpoint,
    Clients,
    Site,
    SiteFiles,
    broker_hosts,
    check_name,
    checked,
    load_clients,
    load_site,
    locked,
    model_bytes,
    read_bytes,
    worker_names,
)
from discreet_sensor.enrolment import is_loopback

# --- Make -----------------------------------------------------------------------------------

_LONGEST = 86_400.0


def make_folder(
    folder: Path,
    mapping: Path,
    policy: Policy | None = None,
    *,
    audit: Path | None = None,
    frontier: Path | None = None,
    broker_program: Path | None = None,
    anyway: bool = False,
    **settings: Any,
) -> tuple[Site, Lasting]:
    """Write a new site, whole or not at all; return its settings and how long its budget lasts.

    ``folder``: new or empty. ``policy``: of devices that are enrolled without one of their own;
    ``anyway``: also if its budget lasts less than a day. ``settings``: of ``Site``, where they are
    not the usual ones.
    """
    policy = policy or Policy()
    site = new_settings(**settings, **asdict(policy))
    check_folder(folder)
    known = Mapping.load(mapping)
    span = lasting(neutral_form(known, policy), site.interval, anyway)
    files = _files(site, known) | _extras(known, audit, frontier)
    files |= service_files(folder, site, broker_program)
    write_folder(folder, files, mode=PRIVATE)
    return site, span


def new_settings(**given: Any) -> Site:
    """Return the settings of a new site; without others they are for this machine and a year."""
    usual = {
        "site": "home",
        "broker": BrokerEndpoint(host="localhost", port=8883),
        "interval": 60.0,
        "deadline": 15.0,
        "database": "sqlite:data/fusion.db",
        "expires": (datetime.now(UTC) + timedelta(days=365)).date(),
        "keep": 90.0,
    }
    wanted: dict[str, Any] = usual | given
    check_name(wanted["site"], "name of the site")
    for option, least in (("interval", 0.01), ("deadline", 0)):
        if not least <= wanted[option] <= _LONGEST:
            raise InputError(
                f"--{option} must be from {least:g} to {_LONGEST:g} seconds, got "
                f"{wanted[option]:g}."
            )
    check_reachable(wanted["broker"].host)
    # A round begins with each whole interval of the clock, the first one within the present.
    epoch = int(time.time() // wanted["interval"] * wanted["interval"])
    return checked(Site, id=secrets.token_hex(4), epoch=epoch, **wanted)


def check_reachable(host: str) -> None:
    """Refuse what listens everywhere, and is no address to connect to."""
    if host in ("0.0.0.0", "::"):
        raise InputError(
            f"--host {host} is no address that devices find the broker by. Give a name or an "
            "address of this machine, such as gateway.local; it listens everywhere then."
        )


def _files(site: Site, mapping: Mapping) -> dict[str, bytes]:
    certificate, key = make_authority(site.site)
    authority = Authority(certificate, key)
    signing_key, bundle_key = new_key()
    broker = authority.issue_server("broker", broker_hosts(site))
    register = Register().with_issued("broker", "broker", broker)
    files = {
        "site.json": model_bytes(site),
        "mapping.json": mapping.dumps().encode(),
        "keys/ca.crt": certificate,
        "keys/ca.key": key,
        "keys/bundle.key": bundle_key,
        "keys/bundle.pub": f"{signing_key.public_hex}\n".encode(),
        "broker/ca.crt": certificate,
        "broker/broker.crt": broker.certificate,
        "broker/broker.key": broker.key,
        "broker/mosquitto.conf": mosquitto_config(site.broker).encode(),
        "fusion/clients.json": model_bytes(Clients()),
        "devices.json": model_bytes(Clients()),
        "data/": b"",
        "dashboard/": b"",
        "keys/probes/": b"",
    }
    for name in worker_names(site):
        made = authority.issue_fusion(name)
        register = register.with_issued(name, "fusion", made)
        files |= {f"fusion/{name}.crt": made.certificate, f"fusion/{name}.key": made.key}
    revoked = authority.revocation_list(register.revoked)
    files |= {
        "keys/issued.json": model_bytes(register),
        "keys/ca.crl": revoked,
        "broker/ca.crl": revoked,
        "fusion/ca.crt": trust_anchor(authority, register),
        "certificates.json": model_bytes(known_certificates(authority, register)),
        "broker/acl": access_list(site.site, register.rights).encode(),
    }
    return files


def _extras(mapping: Mapping, audit: Path | None, frontier: Path | None) -> dict[str, bytes]:
    """Return what the dashboard shows of the mapping's promise, if it was given."""
    found = {}
    if audit is not None:
        found["audit.json"] = checked_audit(audit, mapping)
    if frontier is not None:
        from discreet.frontiers.results import Frontier

        Frontier.load(frontier)  # refuses what is none
        found["frontier.json"] = read_bytes(frontier)
    return found


def checked_audit(file: Path, mapping: Mapping) -> bytes:
    """Return what a file holds that `discreet audit --json` has printed about a mapping.

    Raises InputError: if it is none, is damaged or contradicts itself, is of another mapping, or of
    other private facts than it guards.
    """
    from discreet.auditing.audit_file import load_audit

    data = read_bytes(file)
    try:
        looks_right = json.loads(data)["format"] == "discreet-audit"
    except (ValueError, TypeError, KeyError, RecursionError):
        looks_right = False
    if not looks_right:
        raise InputError(f"--audit {file}: is not what `discreet audit --json` prints.")
    found = load_audit(file)
    if found is None or found.mapping_id != mapping.id:
        raise InputError(f"--audit {file}: is of another mapping. Audit the one that is to run.")
    if misfit := found.misfit(mapping.private):
        raise InputError(f"--audit {file}: {misfit}. Audit all that the mapping guards.")
    return data


# --- Renew ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RenewedSite:
    """What has new certificates, until when they are good, and whether the broker was notified.

    ``services``: whether units and the Compose file were rewritten.
    """

    names: tuple[str, ...]
    expires: str
    notified: bool
    services: bool = False


def renew_site(folder: Path, host: str | None = None) -> RenewedSite:
    """Replace certificates and keys of broker and fusion workers; the old ones are revoked.

    The authority gets a new certificate for its key: what it has signed stays good, and devices
    learn of it when they are renewed. A command that is cut short is repeated.

    ``host``: another name of the broker from now on; its certificate stays good for the old ones,
    by which devices go on to look for it.
    """
    files = SiteFiles(folder)
    with locked(folder):
        site = _moved(load_site(folder), host)
        register = load_register(folder)
        clients = as_registered(load_clients(folder), register)
        certificate, key = make_authority(site.site, load_authority(folder))
        authority = Authority(certificate, key)
        made = {"broker": authority.issue_server("broker", broker_hosts(site))}
        made |= {name: authority.issue_fusion(name) for name in worker_names(site)}
        old = {each.serial for name in made for each in register.of(name)}
        for name, issued in made.items():
            role: Role = "broker" if name == "broker" else "fusion"
            register = register.with_issued(name, role, issued)
        # Until the new ones are in their places, both count: whoever starts finds a good one.
        save_register(folder, site, authority, register, clients)
        for place in (files.ca, files.broker / "ca.crt"):
            write_whole(place, certificate, PRIVATE)
        for name, issued in made.items():
            home = files.broker if name == "broker" else folder / "fusion"
            write_whole(home / f"{name}.key", issued.key, PRIVATE)
            write_whole(home / f"{name}.crt", issued.certificate, PRIVATE)
        services = host is not None or _has_moved(folder, site)
        if services:
            _rewrite_services(folder, site)
        save_register(folder, site, authority, register.without(old, now()), clients)
    ends = min(issued.expires for issued in made.values())
    return RenewedSite(tuple(made), ends.date().isoformat(), reload_broker(folder), services)


def _moved(site: Site, host: str | None) -> Site:
    """Return the settings with another host of the broker, the old one among its aliases."""
    if host is None or host == site.broker.host:
        return site
    check_reachable(host)
    broker = checked(BrokerEndpoint, **site.broker.model_dump() | {"host": host})
    before = dict.fromkeys((site.broker.host, *site.aliases))
    aliases = tuple(each for each in before if each != host and not is_loopback(each))
    return checked(Site, **site.model_dump() | {"broker": broker, "aliases": aliases})


def _has_moved(folder: Path, site: Site) -> bool:
    """Whether the units are of another folder."""
    unit = folder / "systemd" / f"discreet-{site.key}-broker.service"
    return unit.exists() and unit.read_bytes() != service_files(folder, site, find_mosquitto()).get(
        unit.relative_to(folder).as_posix()
    )


def _rewrite_services(folder: Path, site: Site) -> None:
    """Write the settings, and what follows from them and from where the folder is."""
    files = {"broker/mosquitto.conf": mosquitto_config(site.broker).encode()}
    for name, data in {**files, **service_files(folder, site, find_mosquitto())}.items():
        write_whole(folder / name, data, PRIVATE)
    write_whole(SiteFiles(folder).settings, model_bytes(site), PRIVATE)
