"""Make a site: all of its folder, or nothing."""

from __future__ import annotations

import secrets
import shutil
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from discreet.errors import InputError
from discreet.mapping import Mapping
from discreet.network.site.authority import Authority, make_authority
from discreet.network.site.broker_files import access_list, mosquitto_config
from discreet.network.site.files import model_bytes, sync_folder, write_tree
from discreet.network.site.register import Register
from discreet.network.site.settings import (
    BrokerEndpoint,
    Clients,
    Endpoint,
    Site,
    check_name,
    make_site,
    worker_name,
)


@dataclass(frozen=True)
class SitePlan:
    """What a new site is to be like.

    Parameters
    ----------
    folder : Path
        New or empty.
    mapping : Path
    name : str
    broker : BrokerEndpoint
        Host that devices find the broker by, and its port.
    interval, deadline : float
        Seconds of a round, and seconds after it until it is closed.
    """

    folder: Path
    mapping: Path
    name: str = "home"
    broker: BrokerEndpoint = field(
        default_factory=lambda: BrokerEndpoint(host="localhost", port=8883)
    )
    interval: float = 60.0
    deadline: float = 15.0
    database: str = "sqlite:fusion/fusion.db"
    dashboard: Endpoint = field(default_factory=lambda: Endpoint(port=8080))
    metrics: Endpoint = field(default_factory=lambda: Endpoint(port=9464))
    audit: Path | None = None
    frontier: Path | None = None
    expires: date | None = None
    workers: int = 1


def make_folder(plan: SitePlan) -> Site:
    """Write a new site; it appears whole or not at all.

    Raises
    ------
    InputError
    MappingFileError
    """
    from discreet.export.folder import check_folder

    check_name(plan.name, "name of the site")
    check_folder(plan.folder)
    site = _settings(plan)
    files = _files(plan, site)
    _appear(plan.folder.absolute(), files)
    return site


def _settings(plan: SitePlan) -> Site:
    # A round begins with each whole interval of the clock, the first one within the present.
    epoch = int(time.time() // plan.interval * plan.interval)
    return make_site(
        site=plan.name,
        epoch=epoch,
        interval=plan.interval,
        deadline=plan.deadline,
        broker=plan.broker,
        database=plan.database,
        dashboard=plan.dashboard,
        metrics=plan.metrics,
        expires=plan.expires,
        workers=plan.workers,
    )


def _files(plan: SitePlan, site: Site) -> dict[str, bytes]:
    mapping = Mapping.load(plan.mapping)
    certificate, key = make_authority(site.site)
    authority = Authority(certificate, key)
    hosts = [site.broker.host, "localhost", "127.0.0.1", "::1"]
    broker = authority.issue_server("broker", hosts)
    register = Register().with_issued("broker", "broker", broker)
    files = {
        "site.json": model_bytes(site),
        "mapping.json": mapping.dumps().encode(),
        "keys/ca.crt": certificate,
        "keys/ca.key": key,
        "broker/ca.crt": certificate,
        "broker/broker.crt": broker.certificate,
        "broker/broker.key": broker.key,
        "broker/mosquitto.conf": mosquitto_config(site.broker).encode(),
        "fusion/clients.json": model_bytes(Clients()),
        "fusion/ca.crt": certificate,
    }
    for worker in range(1, site.workers + 1):
        name = worker_name(worker)
        made = authority.issue_fusion(name)
        register = register.with_issued(name, "fusion", made)
        files |= {f"fusion/{name}.crt": made.certificate, f"fusion/{name}.key": made.key}
    revoked = authority.revocation_list(register.revoked)
    files |= {
        "keys/issued.json": model_bytes(register),
        "keys/ca.crl": revoked,
        "broker/ca.crl": revoked,
        "broker/acl": access_list(site.site, register.rights).encode(),
    }
    return files


def _appear(folder: Path, files: dict[str, bytes]) -> None:
    """Write beside the folder and rename, so that a site is never half there."""
    draft = folder.with_name(f".{secrets.token_hex(8)}.part")
    try:
        write_tree(draft, files)
        if folder.exists():
            folder.rmdir()  # it is empty: rename does not replace a folder everywhere
        draft.rename(folder)
        sync_folder(folder.parent)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{folder}: cannot be written ({reason}). Name another place.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
