"""Ed25519 keys and signatures, for bundles that a device can trust and evidence for people.

The private key is a PEM file that only its owner can read; it never goes into an export. The
package ``cryptography`` is imported when a key is first needed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.errors import InputError
from discreet.files import PRIVATE, create

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNED_AS = b"discreet-bundle-1\0"
"""What a signature covers before the body, so that it can be for nothing else."""
_MAX_KEY_BYTES = 10_000


@dataclass(frozen=True)
class SigningKey:
    """A private key; ``made`` says that it was made just now."""

    private: Ed25519PrivateKey
    made: bool = False

    def __repr__(self) -> str:
        return f"<SigningKey {self.public_hex[:8]}>"

    @property
    def public_hex(self) -> str:
        """The public key in hexadecimal digits, to be pinned at every device."""
        return self.private.public_key().public_bytes_raw().hex()

    def sign(self, body: bytes) -> bytes:
        """Return the bundle: the body and the signature after it."""
        return body + self.signature(body, SIGNED_AS)

    def signature(self, body: bytes, purpose: bytes) -> bytes:
        """Return a signature that is good for one purpose only."""
        return self.private.sign(purpose + body)


def new_key() -> tuple[SigningKey, bytes]:
    """Return a new key, and its private half in PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return SigningKey(key, made=True), text


def is_signed(body: bytes, signature: bytes, purpose: bytes, public_hex: str) -> bool:
    """Whether the owner of a public key has signed a body for a purpose."""
    _import_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_hex))
        key.verify(signature, purpose + body)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_or_make_key(path: Path) -> SigningKey:
    """Return the key in a file, or make one there if there is no such file.

    Raises InputError: if the file cannot be read or written, others can read it, or it holds no
    such key.
    """
    _import_cryptography()
    try:
        return _load(path)
    except FileNotFoundError:
        return _make(path)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        raise _refused(path, error) from None


def _import_cryptography() -> None:
    try:
        import cryptography.hazmat.primitives.serialization  # noqa: F401
    except ImportError:
        raise InputError(
            'signed bundles need the package cryptography. Run: pip install "discreet[edge]"'
        ) from None


def _load(path: Path) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe might take for ever
        raise InputError(f"--key {path} is not a regular file. Name a key file.")
    with path.open("rb") as stream:
        about = os.fstat(stream.fileno())
        if os.name == "posix" and about.st_mode & 0o077:
            raise InputError(f"--key {path} can be read by others. Run: chmod 600 {path}")
        data = stream.read(_MAX_KEY_BYTES)
    try:
        key = load_pem_private_key(data, password=None)
    except (TypeError, ValueError):  # TypeError: it asks for a password
        key = None
    except Exception as error:  # a kind of key that this cryptography does not know
        raise _refused(path, error) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"--key {path} holds no Ed25519 private key in PEM without a password. Name another "
            "file; one that does not exist is made."
        )
    return SigningKey(key)


def _make(path: Path) -> SigningKey:
    key, text = new_key()
    try:
        with create(path, PRIVATE) as stream:
            stream.write(text)
    except (OSError, ValueError) as error:
        raise _refused(path, error) from None
    return key


def _refused(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return InputError(f"--key {path} cannot be used ({reason}). Name another file.")
