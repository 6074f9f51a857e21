"""The signed tables of a client's sensors, and the key that signs them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from discreet.errors import InputError
from discreet.export.body import bundle_body
from discreet.export.neutral import Policy, neutral_form
from discreet.export.signing import SigningKey
from discreet.mapping import Mapping
from discreet.network.site.files import read_bytes
from discreet.network.site.settings import SiteFiles


def make_signing_key() -> tuple[bytes, str]:
    """Return a new key in PEM, and its public half in hexadecimal digits."""
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text, SigningKey(key).public_hex


def load_signing_key(folder: Path) -> SigningKey:
    """Return the key that signs the bundles of a site.

    Raises
    ------
    InputError
    """
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


def signed_bundles(
    mapping: Mapping, sensors: Sequence[str], policy: Policy, key: SigningKey
) -> tuple[str, ...]:
    """Return the bundle of each sensor, in base64.

    Raises
    ------
    InputError
        If a budget is asked for that a table cannot keep.
    """
    tables = {table.name: table for table in neutral_form(mapping, policy)}
    bundles = [key.sign(bundle_body(tables[name])) for name in sensors]
    return tuple(base64.b64encode(each).decode() for each in bundles)
