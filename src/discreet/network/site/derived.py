"""The register of a site, and all that follows from it.

Revocation list, rights and the end of a client are never decided elsewhere.
The register is written first: a command that is cut short is completed by the next one, whichever
it is, and nothing that was revoked comes back.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from discreet.files import PRIVATE, write_whole
from discreet.network.site.authority import AUTHORITY_DAYS, Authority, Register
from discreet.network.site.certificates import KnownCertificate, KnownCertificates
from discreet.network.site.files import model_bytes, read_bytes
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
    _save_anchor(files.folder / "fusion" / "ca.crt", authority, register)
    known = known_certificates(authority, register)
    write_whole(files.certificates, model_bytes(known), PRIVATE)
    write_whole(files.broker / "acl", access_list(site.site, register.rights), PRIVATE)
    write_whole(files.keys / "ca.crl", revoked, PRIVATE)


def trust_anchor(authority: Authority, register: Register) -> bytes:
    """Return what the broker is judged by: the authority, and which brokers it has revoked.

    Whoever has copied the key of a broker could pass for it to devices and the fusion centre. The
    list counts from the authority's beginning, for devices whose clock is behind.
    """
    brokers = register.revoked_of("broker")
    listed = authority.revocation_list(brokers, timedelta(days=AUTHORITY_DAYS))
    return authority.certificate.public_bytes(Encoding.PEM) + listed


def _save_anchor(file: Path, authority: Authority, register: Register) -> None:
    """Replace what the fusion centre judges the broker by, if that has changed."""
    brokers = {int(serial, 16) for serial, _ in register.revoked_of("broker")}
    if file.exists():
        data = read_bytes(file)
        with suppress(ValueError):
            same = x509.load_pem_x509_certificate(data) == authority.certificate
            if same and {each.serial_number for each in x509.load_pem_x509_crl(data)} == brokers:
                return
    write_whole(file, trust_anchor(authority, register), PRIVATE)


def known_certificates(authority: Authority, register: Register) -> KnownCertificates:
    """Return when which certificate ends, for those who may not read the register.

    Certificates that only try whether the broker refuses them are revoked, and not among them.
    """
    ends = authority.expires.timestamp()
    serial = f"{authority.certificate.serial_number:x}"
    own = KnownCertificate(name="authority", role="authority", serial=serial, expires=ends)
    return KnownCertificates(
        certificates=(
            own,
            *(
                KnownCertificate(
                    name=each.name,
                    role=each.role,
                    serial=each.serial,
                    expires=each.expires.timestamp(),
                )
                for each in register.issued
                if each.revoked is None
            ),
        )
    )


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
