"""Remove devices: revoke them, the register first; and delete the data of one, for good.

What was deleted up to which message stands in ``clients.json``: a copy of the message is not taken
for a new one, and no backup brings it back.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from discreet.errors import InputError, shown, suggest
from discreet.files import PRIVATE, write_whole
from discreet.network.broker import Attempt, broker_process, reload_broker, try_connection
from discreet.network.site.authority import (
    Authority,
    Issued,
    as_issued,
    load_authority,
    load_register,
    now,
    save_register,
)
from discreet.network.site.settings import (
    Site,
    SiteFiles,
    database_to_write,
    load_clients,
    load_site,
    locked,
    read_bytes,
    save_clients,
)
from discreet.network.store import open_store
from discreet.network.store.database import StoreError

# --- Revoke ---------------------------------------------------------------------------------

_REVOCABLE = ("sensor", "observer")
_TAKEOVER = timedelta(minutes=10)
_PATIENCE = 10.0
"""Seconds that a broker gets to act on a reload."""


@dataclass(frozen=True)
class Revoked:
    """How a revocation ended.

    ``outcome``: "out": the broker refuses the client, which was seen, and its session is cut.
    "stopped": no broker runs; the next one will refuse the client. "pending": a broker runs that
    has not taken the new list. ``words``: the broker's reason.
    """

    outcome: Literal["out", "stopped", "pending"]
    words: str = ""


def revoke(folder: Path, name: str) -> Revoked:
    """Shut a device out: it is disconnected, and its connections and messages are refused.

    The fusion centre refuses it first, by its list of clients. Then the broker reloads rights and
    revocation list, which takes the rights of a live session; a connection in the device's
    name, with a certificate of ten minutes that never leaves this machine, ends the session. That
    the new list is in force is seen by trying a certificate that is on it.

    Raises InputError: if there never was such a device; nothing has changed then.
    """
    site = load_site(folder)
    with locked(folder):
        register, clients = load_register(folder), load_clients(folder)
        if not any(each.name == name and each.role in _REVOCABLE for each in register.issued):
            raise InputError(
                f"no device {shown(name)} was ever enrolled. {suggest(name, clients.live)} "
                "There is nothing to revoke."
            )
        authority, moment = load_authority(folder), now()
        probe = _load_probe(folder, name) if not register.of(name) else None
        if probe is None:
            probe = authority.issue_client(name)
            register = register.with_issued(name, "sensor", probe).with_revoked(name, moment)
            save_probe(folder, name, probe)
        save_register(folder, site, authority, register, clients)
        reload_broker(folder)
        return cut_off(folder, site, authority, name, probe)


def cut_off(folder: Path, site: Site, authority: Authority, name: str, probe: Issued) -> Revoked:
    """Wait until the broker refuses what is revoked, then end the live session."""
    if not site.broker.tls:
        return Revoked("pending", "the broker of a demo knows no certificates")
    seen = _until_refused(folder, site, name, probe)
    if seen.answer == "unreachable":
        nobody = seen.words == os.strerror(errno.ECONNREFUSED) and broker_process(folder) is None
        return Revoked("stopped" if nobody else "pending", seen.words)
    if seen.answer == "accepted":
        return Revoked("pending", seen.words)
    ca = SiteFiles(folder).ca
    made = authority.issue_client(name, valid=_TAKEOVER)
    taken = try_connection(site.broker, ca, name, made.certificate, made.key)
    return Revoked("out" if taken.answer == "accepted" else "pending", taken.words)


def save_probe(folder: Path, name: str, probe: Issued) -> None:
    """Keep a certificate that was never valid, so that a second run can use it."""
    files = SiteFiles(folder)
    write_whole(files.probes / f"{name}.crt", probe.certificate, PRIVATE)
    write_whole(files.probes / f"{name}.key", probe.key, PRIVATE)


def _load_probe(folder: Path, name: str) -> Issued | None:
    files = SiteFiles(folder)
    try:
        certificate = read_bytes(files.probes / f"{name}.crt")
        return as_issued(certificate, read_bytes(files.probes / f"{name}.key"))
    except InputError:
        return None


def _until_refused(folder: Path, site: Site, name: str, probe: Issued) -> Attempt:
    end = time.monotonic() + _PATIENCE
    while True:
        ca = SiteFiles(folder).ca
        seen = try_connection(site.broker, ca, name, probe.certificate, probe.key)
        if seen.answer != "accepted" or time.monotonic() > end:
            return seen
        time.sleep(0.1)


# --- Forget ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ForgottenDevice:
    """``messages``: how many were deleted. ``live``: whether the device may send new ones."""

    messages: int
    live: bool
    postgres: bool


def forget_device(folder: Path, name: str) -> ForgottenDevice:
    """Delete what a device has sent so far, and what was refused of it.

    A command that is cut short is repeated.

    Raises InputError: if there is no such device, or the database cannot be used.
    """
    with locked(folder):
        site, clients = load_site(folder), load_clients(folder)
        client = clients.clients.get(name)
        if client is None:
            known = suggest(name, clients.clients)
            raise InputError(f"no device {shown(name)} was ever enrolled. {known}")
        postgres = not site.database.startswith("sqlite:")
        live = client.revoked is None
        if not postgres and not SiteFiles(folder).database_file(site).exists():
            return ForgottenDevice(0, live, postgres)
        with closing(open_store(database_to_write(folder, site), folder, site.key)) as store:
            try:
                heard = next((each for each in store.clients() if each.client == name), None)
                upto = (0, 0) if heard is None else (heard.boot, heard.seq)
                upto = max(upto, client.forgotten or (0, 0))
                changed = client.model_copy(update={"forgotten": upto})
                save_clients(folder, clients.with_client(name, changed))
                count = store.forget_device(name, upto)
            except StoreError as error:
                raise InputError(f"{error} Run the command again when it can be used.") from None
        SiteFiles(folder).drift.unlink(missing_ok=True)  # counts of its symbols by day
    return ForgottenDevice(count, live, postgres)
