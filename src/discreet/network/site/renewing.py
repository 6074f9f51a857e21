"""New certificates and keys for broker and fusion centre, and a longer life for the authority."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from discreet.files import PRIVATE, write_whole
from discreet.network.broker import find_mosquitto, reload_broker
from discreet.network.site.authority import (
    Authority,
    Issued,
    Role,
    as_registered,
    load_authority,
    load_register,
    make_authority,
    now,
    save_register,
)
from discreet.network.site.making import check_reachable
from discreet.network.site.services import mosquitto_config, service_files
from discreet.network.site.settings import (
    BrokerEndpoint,
    Site,
    SiteFiles,
    broker_hosts,
    checked,
    load_clients,
    load_site,
    locked,
    model_bytes,
    worker_names,
)
from discreet_sensor.enrolment import is_loopback


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
        made = _issued(authority, site)
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


def _issued(authority: Authority, site: Site) -> dict[str, Issued]:
    workers = {name: authority.issue_fusion(name) for name in worker_names(site)}
    return {"broker": authority.issue_server("broker", broker_hosts(site)), **workers}
