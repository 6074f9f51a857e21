"""New certificates and keys for broker and fusion centre, and a longer life for the authority."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from discreet.files import PRIVATE, write_whole
from discreet.network.connecting import reload_broker
from discreet.network.site.authority import (
    Authority,
    Issued,
    Role,
    load_authority,
    load_register,
    make_authority,
    now,
)
from discreet.network.site.derived import as_registered, save_register
from discreet.network.site.files import locked
from discreet.network.site.settings import (
    Site,
    SiteFiles,
    broker_hosts,
    load_clients,
    load_site,
    worker_names,
)


@dataclass(frozen=True)
class RenewedSite:
    """What has new certificates, until when they are good, and whether the broker was told."""

    names: tuple[str, ...]
    expires: str
    told: bool


def renew_site(folder: Path) -> RenewedSite:
    """Replace certificates and keys of broker and fusion workers; the old ones are revoked.

    The authority gets a new certificate for its key: what it has signed stays good, and devices
    learn of it when they are renewed. A command that is cut short is repeated.
    """
    site, files = load_site(folder), SiteFiles(folder)
    with locked(folder):
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
        for place in (files.ca, files.broker / "ca.crt", folder / "fusion" / "ca.crt"):
            write_whole(place, certificate, PRIVATE)
        for name, issued in made.items():
            home = files.broker if name == "broker" else folder / "fusion"
            write_whole(home / f"{name}.key", issued.key, PRIVATE)
            write_whole(home / f"{name}.crt", issued.certificate, PRIVATE)
        save_register(folder, site, authority, register.without(old, now()), clients)
    ends = min(issued.expires for issued in made.values())
    return RenewedSite(tuple(made), ends.date().isoformat(), reload_broker(folder))


def _issued(authority: Authority, site: Site) -> dict[str, Issued]:
    workers = {name: authority.issue_fusion(name) for name in worker_names(site)}
    return {"broker": authority.issue_server("broker", broker_hosts(site.broker)), **workers}
