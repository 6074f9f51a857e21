"""The register of a site, and all that follows from it.

Revocation list, rights and the end of a client are never decided elsewhere.
The register is written first: a command that is cut short is completed by the next one, whichever
it is, and nothing that was revoked comes back.
"""

from __future__ import annotations

from pathlib import Path

from discreet.files import PRIVATE, write_whole
from discreet.network.site.authority import Authority, Register
from discreet.network.site.files import model_bytes
from discreet.network.site.services import access_list
from discreet.network.site.settings import Clients, Site, SiteFiles, save_clients


def save_register(
    folder: Path, site: Site, authority: Authority, register: Register, clients: Clients
) -> None:
    """Replace the register, then everything that follows from it.

    ``clients``: those to be known; who is revoked among them is up to the register.
    """
    files = SiteFiles(folder)
    write_whole(files.register, model_bytes(register), PRIVATE)
    save_clients(folder, as_registered(clients, register))
    revoked = authority.revocation_list(register.revoked)
    write_whole(files.broker / "ca.crl", revoked, PRIVATE)
    write_whole(files.broker / "acl", access_list(site.site, register.rights), PRIVATE)
    write_whole(files.keys / "ca.crl", revoked, PRIVATE)


def as_registered(clients: Clients, register: Register) -> Clients:
    """Return the clients, those revoked whose certificate is."""
    ended = dict(register.revoked)
    return Clients(
        clients={
            name: client.model_copy(update={"revoked": ended[client.serial]})
            if client.revoked is None and client.serial in ended
            else client
            for name, client in clients.clients.items()
        }
    )
