"""Who may log in: names and scrypt hashes in ``dashboard/users.json``.

A password is never kept. Checking one costs 32 MiB and some 50 ms on purpose, also for a name that
is not known, so that the time taken does not tell which names exist.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from pathlib import Path

from pydantic import Field, ValidationError

from discreet.errors import InputError
from discreet.network.dashboard.private_files import read_secret, write_secret
from discreet.network.site.files import first_problem
from discreet.values import Model, shown

LEAST_PASSWORD = 12
MOST_PASSWORD = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_COST, _BLOCK, _LANES = 2**15, 8, 1
_MEMORY = 2 * 128 * _COST * _BLOCK


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class Hashed(Model):
    """One password's hash, with what is needed to compute it again."""

    n: int = Field(ge=2**14, le=2**17)
    r: int = Field(ge=8, le=8)
    p: int = Field(ge=1, le=4)
    salt: str = Field(pattern=r"^[A-Za-z0-9+/]{22}==$")
    key: str = Field(pattern=r"^[A-Za-z0-9+/]{43}=$")

    @classmethod
    def of(cls, password: str) -> Hashed:
        """Hash a password with a salt of its own."""
        salt = secrets.token_bytes(16)
        key = _scrypt(password, salt, _COST, _BLOCK, _LANES)
        return cls(n=_COST, r=_BLOCK, p=_LANES, salt=_text(salt), key=_text(key))

    def fits(self, password: str) -> bool:
        """Whether this is the hash of the password."""
        found = _scrypt(password, base64.b64decode(self.salt), self.n, self.r, self.p)
        return hmac.compare_digest(found, base64.b64decode(self.key))


_NOBODY = Hashed(n=_COST, r=_BLOCK, p=_LANES, salt=_text(bytes(16)), key=_text(bytes(32)))
"""Stands in for a user who does not exist, so that checking takes as long."""


class _File(Model):
    format: str = Field(default="discreet-users", pattern="^discreet-users$")
    version: int = Field(default=1, ge=1, le=1)
    users: dict[str, Hashed] = Field(default_factory=dict, max_length=1_000)


class Users:
    """The users of one dashboard; a changed file counts at once.

    Parameters
    ----------
    path : Path
        ``dashboard/users.json`` of the site. No file is the same as no users.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        """Return who may log in."""
        return sorted(self._read())

    def check(self, name: str, password: str) -> bool:
        """Whether the password is that of the user, in the same time if there is no such user."""
        known = self._read().get(name)
        fits = (known or _NOBODY).fits(password[:MOST_PASSWORD])
        return fits and known is not None and len(password) <= MOST_PASSWORD

    def fingerprint(self, name: str) -> str | None:
        """Return what changes with the password, or None if there is no such user."""
        known = self._read().get(name)
        return None if known is None else hashlib.sha256(known.key.encode()).hexdigest()[:16]

    def add(self, name: str, password: str) -> bool:
        """Add a user, or give one a new password, which ends that user's sessions.

        Returns
        -------
        bool
            Whether the user is new.

        Raises
        ------
        InputError
            If the name or the password will not do, or the file cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise InputError(
                f"a user's name has 1 to 64 letters, digits or . _ @ -, got {shown(name)}."
            )
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise InputError(
                f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters, got "
                f"{len(password)}. Take a longer one: a few words will do."
            )
        users = self._read()
        new = name not in users
        content = _File(users={**users, name: Hashed.of(password)}).model_dump()
        write_secret(self.path, json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")
        return new

    def remove(self, name: str) -> None:
        """Remove a user, which ends that user's sessions.

        Raises
        ------
        InputError
            If there is no such user.
        """
        users = self._read()
        if users.pop(name, None) is None:
            known = ", ".join(sorted(users)) or "none"
            raise InputError(f"there is no user {shown(name)}. There are: {known}.")
        content = _File(users=users).model_dump()
        write_secret(self.path, json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")

    def _read(self) -> dict[str, Hashed]:
        data = read_secret(self.path)
        if data is None:
            return {}
        try:
            return dict(_File.model_validate_json(data).users)
        except ValidationError as error:
            raise InputError(
                f"{self.path}: {first_problem(error)}. Remove the file and add the users again."
            ) from None


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    text = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(
        text, salt=salt, n=n, r=r, p=p, maxmem=max(_MEMORY, 256 * n * r), dklen=32
    )
