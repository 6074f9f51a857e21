"""Delete the data of one device, for good.

What was deleted up to which message stands in ``clients.json``: a copy of the message is not taken
for a new one, and no backup brings it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from discreet.errors import InputError, shown, suggest
from discreet.network.site.files import locked
from discreet.network.site.settings import (
    SiteFiles,
    database_to_write,
    load_clients,
    load_site,
    save_clients,
)
from discreet.network.store import open_store
from discreet.network.store.connection import StoreError


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
        store = open_store(database_to_write(folder, site), folder, site.key)
        try:
            heard = next((each for each in store.clients() if each.client == name), None)
            upto = (0, 0) if heard is None else (heard.boot, heard.seq)
            upto = max(upto, client.forgotten or (0, 0))
            changed = client.model_copy(update={"forgotten": upto})
            save_clients(folder, clients.with_client(name, changed))
            count = store.forget_device(name, upto)
        except StoreError as error:
            raise InputError(f"{error} Run the command again when it can be used.") from None
        finally:
            store.close()
        SiteFiles(folder).drift.unlink(missing_ok=True)  # counts of its symbols by day
    return ForgottenDevice(count, live, postgres)
