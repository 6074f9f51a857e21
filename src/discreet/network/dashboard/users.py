"""The users: names and Argon2 hashes in ``dashboard/users.json``.

A password is never kept. Checking one costs 32 MiB and a tenth of a second or so on purpose, also
for a name that is not known, so that the time taken does not reveal which names exist.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from pydantic import Field, ValidationError

from discreet.data.strict_model import Model
from discreet.errors import InputError, shown
from discreet.files import PRIVATE, make_folder
from discreet.network.site.settings import first_problem, locked, read_secret, write_secret

LEAST_PASSWORD = 12
MOST_PASSWORD = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HASHER = PasswordHasher(time_cost=3, memory_cost=2**15, parallelism=1)
_COST = r"m=[1-9]\d{3,5},t=[1-9],p=[1-8]"  # at most 1 GB and nine passes

Argon = Annotated[
    str, Field(pattern=rf"^\$argon2id\$v=19\${_COST}\$[A-Za-z0-9+/]{{22}}\$[A-Za-z0-9+/]{{43}}$")
]


class Scrypt(Model):
    """A hash of an earlier version; the next login makes it one of Argon2."""

    n: int = Field(ge=2**14, le=2**17)
    r: int = Field(ge=8, le=8)
    p: int = Field(ge=1, le=4)
    salt: str = Field(pattern=r"^[A-Za-z0-9+/]{22}==$")
    key: str = Field(pattern=r"^[A-Za-z0-9+/]{43}=$")

    def fits(self, password: bytes) -> bool:
        salt, memory = base64.b64decode(self.salt), 256 * self.n * self.r
        found = hashlib.scrypt(
            password, salt=salt, n=self.n, r=self.r, p=self.p, maxmem=memory, dklen=32
        )
        return hmac.compare_digest(found, base64.b64decode(self.key))


Hash = Argon | Scrypt
_NOBODY: dict[type, Hash] = {
    str: f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p=1${'A' * 22}${'A' * 43}",
    Scrypt: Scrypt(n=2**15, r=8, p=1, salt="A" * 22 + "==", key="A" * 43 + "="),
}
"""Stand in for a user who does not exist, so that checking takes as long."""


def _fits(known: Hash, password: bytes) -> bool:
    if isinstance(known, Scrypt):
        return known.fits(password)
    try:
        return _HASHER.verify(known, password)
    except VerifyMismatchError:
        return False


def _fingerprint(known: Hash) -> str:
    key = known.key if isinstance(known, Scrypt) else known
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _encoded(password: str) -> bytes:
    return password[:MOST_PASSWORD].encode("utf-8", "surrogatepass")


class _File(Model):
    format: str = Field(default="discreet-users", pattern="^discreet-users$")
    version: int = Field(default=2, ge=1, le=2)
    users: dict[str, Hash] = Field(default_factory=dict, max_length=1_000)


class Users:
    """The users of one dashboard; a changed file counts at once.

    ``path``: ``dashboard/users.json`` of the site. No file is the same as no users.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        return sorted(self._read())

    def check(self, name: str, password: str) -> str | None:
        """Return what changes with the password if it is that of the user, or None.

        It takes the same time if there is no such user.
        """
        users = self._read()
        known, text = users.get(name), _encoded(password)
        # Each kind of hash once for every name, or the time would reveal which user has which.
        kinds = {str, *(type(each) for each in users.values())}
        tried = {kind: known if type(known) is kind else _NOBODY[kind] for kind in kinds}
        fits = [_fits(each, text) for each in tried.values()]
        if known is None or not any(fits) or len(password) > MOST_PASSWORD:
            return None
        return _fingerprint(self._renewed(name, known, text))

    def _renewed(self, name: str, known: Hash, password: bytes) -> Hash:
        """Return a hash of today in the place of an old one, if it can be kept."""
        if isinstance(known, str) and not _HASHER.check_needs_rehash(known):
            return known
        new = _HASHER.hash(password)
        with suppress(InputError):  # the next login tries again
            with self._changing() as users:
                if users.get(name) != known:
                    return known
                users[name] = new
            return new
        return known

    def fingerprint(self, name: str) -> str | None:
        """Return what changes with the password, or None if there is no such user."""
        known = self._read().get(name)
        return None if known is None else _fingerprint(known)

    def add(self, name: str, password: str) -> bool:
        """Add a user, or give one a new password, which ends that user's sessions.

        Returns whether the user is new. Raises InputError: if the name or the password will not do,
        or the file cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise InputError(
                f"a user's name has 1 to 64 letters, digits or . _ @ -, got {shown(name)}."
            )
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise InputError(
                f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters, got "
                f"{len(password)}. Take a longer one: a passphrase of a few words is fine."
            )
        with self._changing() as users:
            new = name not in users
            users[name] = _HASHER.hash(_encoded(password))
        return new

    def remove(self, name: str) -> None:
        """Remove a user, which ends that user's sessions.

        Raises InputError: if there is no such user.
        """
        with self._changing() as users:
            if users.pop(name, None) is None:
                known = ", ".join(sorted(users)) or "none"
                raise InputError(f"there is no user {shown(name)}. There are: {known}.")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Hash]]:
        """Yield the users under a lock and write them back, so that no change is lost."""
        try:
            make_folder(self.path.parent, PRIVATE)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror}).") from None
        with locked(self.path.parent):
            users = self._read()
            yield users
            content = _File(users=users).model_dump()
            write_secret(self.path, json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")

    def _read(self) -> dict[str, Hash]:
        data = read_secret(self.path)
        if data is None:
            return {}
        try:
            return dict(_File.model_validate_json(data).users)
        except ValidationError as error:
            raise InputError(
                f"{self.path}: {first_problem(error)}. Remove the file and add the users again."
            ) from None
