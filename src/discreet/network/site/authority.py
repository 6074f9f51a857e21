"""The certificate authority of a site: EC P-256 keys, certificates, their register and revocation.

A site trusts this authority and no other. Whoever holds ``ca.key`` can enrol and revoke; nothing
that runs needs it. ``cryptography`` does the work. A second key signs the tables of sensors.

Revocation list, rights and the end of a client follow from the register, and are never decided
elsewhere. The register is written first: a command that is cut short is completed by the next one,
whichever it is, and nothing that was revoked comes back.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import Field

from discreet.errors import InputError
from discreet.export.neutral import SensorTable, bundle_body
from discreet.export.signing import SigningKey
from discreet.files import PRIVATE, write_whole
from discreet.network.observed import Certificate, KnownCertificates
from discreet.network.site.services import access_list
from discreet.network.site.settings import (
    Clients,
    Name,
    Serial,
    Site,
    SiteFiles,
    SiteModel,
    model_bytes,
    read_bytes,
    read_model,
    save_clients,
)

AUTHORITY_DAYS = 3652
CLIENT_DAYS = 730
_BACKDATED = timedelta(days=1)  # clocks may be behind, and each revocation list takes a second
_LIST_LEEWAY = timedelta(hours=1)

_SERVER = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
_CLIENT = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])


@dataclass(frozen=True, repr=False)
class Issued:
    """A certificate and its private key, both in PEM; the key is never shown."""

    certificate: bytes
    key: bytes
    serial: str
    begins: datetime
    expires: datetime


class Authority:
    """A certificate authority at work.

    ``certificate``, ``key``: in PEM. Raises InputError: if they are no such pair.
    """

    def __init__(self, certificate: bytes, key: bytes) -> None:
        try:
            self.certificate = x509.load_pem_x509_certificate(certificate)
            loaded = load_pem_private_key(key, password=None)
        except (TypeError, ValueError):
            raise InputError(
                "the site's certificate authority is damaged. Restore keys/ from a good copy."
            ) from None
        if (
            not isinstance(loaded, ec.EllipticCurvePrivateKey)
            or loaded.public_key() != self.certificate.public_key()
        ):
            raise InputError(
                "keys/ca.key does not belong to keys/ca.crt. Restore keys/ from a good copy."
            )
        self._key = loaded

    @property
    def expires(self) -> datetime:
        """When everything that this authority has signed ends."""
        return self.certificate.not_valid_after_utc

    @property
    def begins(self) -> datetime:
        """From when on counts what this authority signs; the present clock may be wrong."""
        return min(self.certificate.not_valid_before_utc, now() - _BACKDATED)

    def issue_client(
        self,
        name: str,
        *,
        valid: timedelta = timedelta(days=CLIENT_DAYS),
        start: datetime | None = None,
    ) -> Issued:
        return self._issue(name, _CLIENT, valid, start)

    def issue_server(self, name: str, hosts: Sequence[str]) -> Issued:
        """Return the broker's certificate, good for these host names and addresses."""
        return self._issue(name, _SERVER, timedelta(days=AUTHORITY_DAYS), None, hosts)

    def issue_fusion(self, name: str) -> Issued:
        """Return a certificate of a part that lives as long as the site."""
        return self._issue(name, _CLIENT, timedelta(days=AUTHORITY_DAYS), None)

    def revocation_list(
        self,
        serials: Iterable[tuple[str, datetime]],
        before: x509.CertificateRevocationList | None = None,
    ) -> bytes:
        """Return the signed list of revoked certificates in PEM.

        It lasts as long as the authority: the file lies beside the broker and is renewed with
        every change, and a broker whose list has expired lets nobody in.

        ``serials``: serial number in hexadecimal digits, and when it was revoked. ``before``: the
        list that this one replaces.
        """
        builder = x509.CertificateRevocationListBuilder(
            issuer_name=self.certificate.subject,
            last_update=self._list_date(before),
            next_update=self.expires,
        )
        for serial, when in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder(int(serial, 16), when).build()
            )
        number = max(int(now().timestamp() * 1000), list_number(before) + 1)
        builder = builder.add_extension(x509.CRLNumber(number), critical=False)
        return builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def has_signed(self, found: x509.CertificateRevocationList) -> bool:
        return found.is_signature_valid(self._key.public_key())

    def _list_date(self, before: x509.CertificateRevocationList | None) -> datetime:
        """Return the date of a list: a second after the one before, whatever the clock shows.

        A broker whose list is dated in the future lets nobody in. Of several lists that it has
        loaded, OpenSSL goes by the latest date, and of one date by the first that was loaded.
        """
        if before is None:
            return self.begins
        following, present = before.last_update_utc + timedelta(seconds=1), now()
        # The clock was ahead when the list before was dated by it; now it is right.
        ahead = following > present >= self.certificate.not_valid_before_utc
        return present - _LIST_LEEWAY if ahead else following

    def _issue(
        self,
        name: str,
        usage: x509.ExtendedKeyUsage,
        valid: timedelta,
        start: datetime | None,
        hosts: Sequence[str] = (),
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        begin = self.begins if start is None else start
        end = min((start or now()) + valid, self.expires)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _certificate(self.certificate.subject, name, key, (begin, end), signs=False)
            .add_extension(usage, critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName(
                [_alternative(host) for host in dict.fromkeys(hosts)]
            )
            builder = builder.add_extension(names, critical=False)
        made = builder.sign(self._key, SHA256())
        serial = f"{made.serial_number:x}"
        return Issued(made.public_bytes(Encoding.PEM), _key_bytes(key), serial, begin, end)


def as_issued(certificate: bytes, key: bytes) -> Issued | None:
    """Return a certificate in PEM as it was issued; None if it has ended or is none."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return None
    begins, expires = found.not_valid_before_utc, found.not_valid_after_utc
    if expires <= now():
        return None
    return Issued(certificate, key, f"{found.serial_number:x}", begins, expires)


def make_authority(site: str, own: Authority | None = None) -> tuple[bytes, bytes]:
    """Return certificate and private key of an authority, in PEM.

    ``own``: one that is to go on under its key, so that what it has signed stays good.
    """
    key = ec.generate_private_key(ec.SECP256R1()) if own is None else own._key
    name, begin = f"discreet {site}", now() - _BACKDATED if own is None else own.begins
    days = begin, now() + timedelta(days=AUTHORITY_DAYS)
    made = (
        _certificate(_common_name(name), name, key, days, signs=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    return made.public_bytes(Encoding.PEM), _key_bytes(key)


def _certificate(
    issuer: x509.Name,
    name: str,
    key: ec.EllipticCurvePrivateKey,
    valid: tuple[datetime, datetime],
    *,
    signs: bool,
) -> x509.CertificateBuilder:
    """Return what every certificate has; ``signs``: whether it is for an authority."""
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=_common_name(name),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=valid[0],
        not_valid_after=valid[1],
    )
    limits = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
    usage = x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return builder.add_extension(limits, critical=True).add_extension(usage, critical=True)


def now() -> datetime:
    """Return the present second."""
    return datetime.now(UTC).replace(microsecond=0)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


# --- Signed tables -------------------------------------------------------------------------


def load_signing_key(folder: Path) -> SigningKey:
    """Return the key that signs the bundles of a site."""
    file = SiteFiles(folder).bundle_key
    try:
        key = load_pem_private_key(read_bytes(file), password=None)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{file}: holds no Ed25519 key. Restore keys/ from a good copy.")
    return SigningKey(key)


def signed_bundles(tables: Sequence[SensorTable], key: SigningKey) -> tuple[str, ...]:
    """Return the bundle of each sensor, in base64."""
    return tuple(base64.b64encode(key.sign(bundle_body(each))).decode() for each in tables)


# --- The register --------------------------------------------------------------------------


Role = Literal["broker", "fusion", "sensor", "observer"]
_REMEDY = "Restore keys/ from a good copy."


class Entry(SiteModel):
    """One certificate; ``begins`` is not known of those that earlier versions have issued."""

    name: Name
    role: Role
    serial: Serial
    begins: datetime | None = None
    expires: datetime
    revoked: datetime | None = None


class Register(SiteModel):
    """What ``keys/issued.json`` holds."""

    issued: Annotated[tuple[Entry, ...], Field(max_length=1_000_000)] = ()

    def of(self, name: str) -> list[Entry]:
        """Return the entries of a name that are not revoked."""
        return [each for each in self.issued if each.name == name and each.revoked is None]

    def with_issued(self, name: str, role: Role, made: Issued) -> Register:
        dates = {"begins": made.begins, "expires": made.expires}
        entry = Entry(name=name, role=role, serial=made.serial, **dates)
        return Register(issued=(*self.issued, entry))

    def with_revoked(self, name: str, when: datetime) -> Register:
        """Return the register with every certificate of a name revoked."""
        return self.without({each.serial for each in self.of(name)}, when)

    def without(self, serials: Set[str], when: datetime) -> Register:
        """Return the register with some certificates revoked."""
        return Register(
            issued=tuple(
                each.model_copy(update={"revoked": when})
                if each.serial in serials and each.revoked is None
                else each
                for each in self.issued
            )
        )

    @property
    def revoked(self) -> list[tuple[str, datetime]]:
        return [(each.serial, each.revoked) for each in self.issued if each.revoked is not None]

    def revoked_of(self, role: Role) -> list[tuple[str, datetime]]:
        """Return serials of a role's certificates that are revoked, and when they were."""
        ours = {each.serial for each in self.issued if each.role == role}
        return [each for each in self.revoked if each[0] in ours]

    @property
    def rights(self) -> dict[str, Role]:
        return {each.name: each.role for each in self.issued if each.revoked is None}


def load_register(folder: Path) -> Register:
    """Return the register of a site."""
    return read_model(SiteFiles(folder).register, Register, _REMEDY)


def load_authority(folder: Path) -> Authority:
    """Return the certificate authority of a site."""
    files = SiteFiles(folder)
    return Authority(read_bytes(files.ca), read_bytes(files.ca_key))


# --- What follows from the register ---------------------------------------------------------


def save_register(
    folder: Path, site: Site, authority: Authority, register: Register, clients: Clients
) -> None:
    """Replace the register, then everything that follows from it.

    ``clients``: those to be known; who is revoked among them is up to the register.
    """
    files = SiteFiles(folder)
    write_whole(files.register, model_bytes(register), PRIVATE)
    save_clients(folder, as_registered(clients, register))
    revoked = authority.revocation_list(register.revoked, _last_list(files, authority))
    write_whole(files.broker / "ca.crl", revoked, PRIVATE)
    _save_anchor(files.folder / "fusion" / "ca.crt", authority, register)
    known = known_certificates(authority, register)
    write_whole(files.certificates, model_bytes(known), PRIVATE)
    write_whole(files.broker / "acl", access_list(site.site, register.rights), PRIVATE)
    write_whole(files.keys / "ca.crl", revoked, PRIVATE)


def _last_list(files: SiteFiles, authority: Authority) -> x509.CertificateRevocationList | None:
    """Return the latest revocation list of a site; either copy may be missing or damaged."""
    found = []
    for file in (files.broker / "ca.crl", files.keys / "ca.crl"):
        with suppress(InputError, ValueError):
            found.append(x509.load_pem_x509_crl(read_bytes(file)))
    return max(filter(authority.has_signed, found), key=list_number, default=None)


def list_number(found: x509.CertificateRevocationList | None) -> int:
    """Return the number of a revocation list: later lists have higher ones, whatever their date."""
    if found is None:
        return 0
    try:
        return found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (x509.ExtensionNotFound, ValueError):
        return 0


def trust_anchor(authority: Authority, register: Register) -> bytes:
    """Return what the broker is judged by: the authority, and which brokers it has revoked.

    Whoever has copied the key of a broker could pass for it to devices and the fusion centre. The
    list counts from the authority's beginning, for devices whose clock is behind.
    """
    brokers = register.revoked_of("broker")
    listed = authority.revocation_list(brokers)
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
    serial = f"{authority.certificate.serial_number:x}"
    own = Certificate("authority", "authority", serial, authority.expires.timestamp())
    others = [
        Certificate(each.name, each.role, each.serial, each.expires.timestamp())
        for each in register.issued
        if each.revoked is None
    ]
    return KnownCertificates(certificates=(own, *others))


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
