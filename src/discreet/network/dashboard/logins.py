"""Logging in and out: the users and their passwords, or one link when there is no user yet.

A session is a signed cookie with the user, its end and a mark of the password. Nothing is stored
for a session but its end: a log-out is kept on disk until the cookie would have expired anyway.
The key of the cookies is kept in the site, so that a restart does not log everybody out.

*The users: names and Argon2 hashes in ``dashboard/users.json``.* A password is never kept.
Checking one costs 32 MiB and a tenth of a second or so on purpose, also for a name that is not
known, so that the time taken does not reveal which names exist.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from pydantic import Field, ValidationError

from discreet.data.strict_model import Model
from discreet.errors import InputError, shown
from discreet.network.site.settings import (
    first_problem,
    folder_for,
    locked,
    read_secret,
    write_secret,
)

# --- Users ----------------------------------------------------------------------------------

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
    with suppress(VerifyMismatchError):
        return _HASHER.verify(known, password)
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
        folder_for(self.path)
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


# --- Sessions -------------------------------------------------------------------------------

CONSOLE = "console"
"""User of the link that is printed on the console."""

LIFETIME = 12 * 3600.0
_KEY_BYTES = 32
WINDOW = 300.0
PER_USER = 5
PER_ADDRESS = 20
PER_NAME = 120
_REMEMBERED = 10_000


def load_key(path: Path) -> bytes:
    """Return the key that signs sessions, made now if there is none.

    Raises InputError: if the file is not a key for its owner only.
    """
    if not path.exists():
        write_secret(path, secrets.token_bytes(_KEY_BYTES))
    found = read_secret(path) or b""
    if len(found) != _KEY_BYTES:
        raise InputError(
            f"{path}: a key has {_KEY_BYTES} bytes, this has {len(found)}. Remove the file."
        )
    return found


def same_token(known: str, given: str) -> bool:
    """Whether a form sends back what its page was given, in even time."""
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))


class Session(NamedTuple):
    """A login, as the cookie holds it.

    ``password``: fingerprint of the hash at the time of the login; see ``Users.check``. ``token``:
    tells sessions apart; the forms of the session send it back.
    """

    user: str
    password: str
    token: str
    expires: float


class _LogOuts(Model):
    format: str = Field(default="discreet-log-outs", pattern="^discreet-log-outs$")
    ended: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(default_factory=dict)


class Sessions:
    """Begins sessions and knows which have ended.

    ``path``: ``dashboard/ended.json`` of the site, where log-outs are kept. ``clock``: returns the
    time; for tests. Raises InputError: if the file is damaged.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        found = read_secret(path)
        try:
            self._ended = {} if found is None else _LogOuts.model_validate_json(found).ended
        except ValidationError as error:
            raise InputError(
                f"{path}: {first_problem(error)}. Remove it and session.key beside it; "
                "everybody has to log in again then."
            ) from None

    def begin(self, user: str, password: str) -> Session:
        return Session(user, password, secrets.token_urlsafe(16), self._clock() + LIFETIME)

    def counts(self, session: Session) -> bool:
        """Whether a session has neither expired nor ended."""
        return session.expires > self._clock() and session.token not in self._ended

    def end(self, session: Session) -> None:
        """Log out: the cookie counts no longer, wherever a copy of it may be.

        Raises InputError: if that cannot be kept; it then holds until the dashboard is restarted.
        """
        now = self._clock()
        self._ended = {token: end for token, end in self._ended.items() if end > now}
        self._ended[session.token] = session.expires
        content = _LogOuts(ended=self._ended).model_dump()
        write_secret(self._path, json.dumps(content, indent=1).encode() + b"\n")


class Attempts:
    """Failed logins of the last minutes.

    Five failures in five minutes for one name from one address, 20 from one address and 120 for
    one name are let through; then a login has to wait. Counting a name by address as well keeps
    others from locking a user out from elsewhere; and whoever has logged in from an address is not
    kept out there by what others try. IPv6 addresses count by their network, of which anybody has
    as many as he likes.

    ``clock``: returns a time that never runs backwards; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, ...], list[float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait(self, address: str, name: str) -> int:
        """Return for how many seconds a login has to wait; 0 if it need not."""
        now = self._clock()
        waits = [
            recent[-limit] + WINDOW - now
            for key, limit in self._keys(address, name)
            if len(recent := self._recent(key, now)) >= limit
        ]
        return math.ceil(max(waits, default=0.0))

    def begun(self, address: str, name: str) -> None:
        """Count a try, before it is known to fail: tries at the same time count as well."""
        now = self._clock()
        for key, limit in self._keys(address, name):
            self._failures[key] = [*self._recent(key, now), now][-limit:]
            self._failures.move_to_end(key)
        while len(self._failures) > _REMEMBERED:  # names are chosen by whoever tries
            self._failures.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """Withdraw the attempt of a user who logged in, and forget that user's failures."""
        for key, _ in self._keys(address, name):
            if self._failures.get(key):
                self._failures[key].pop()
        self._failures.pop((_network(address), name), None)
        self._known[_network(address), name] = None
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def _recent(self, key: tuple[str, ...], now: float) -> list[float]:
        return [at for at in self._failures.get(key, ()) if at > now - WINDOW]

    def _keys(self, address: str, name: str) -> list[tuple[tuple[str, ...], int]]:
        own = _network(address)
        found: list[tuple[tuple[str, ...], int]] = [((own, name), PER_USER), ((own,), PER_ADDRESS)]
        return found if (own, name) in self._known else [*found, (("", name), PER_NAME)]


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


class Logins:
    """Decides which requests are logged in.

    ``link``: whether to hand out a link that logs in once, for a site without users.
    """

    def __init__(self, users: Users, sessions: Sessions, *, link: bool = False) -> None:
        self._users, self.sessions, self._attempts = users, sessions, Attempts()
        self.link = secrets.token_urlsafe(24) if link else None
        self._run = f"once-{secrets.token_hex(8)}"  # sessions of a link end with the process
        self._hashing = asyncio.Semaphore(2)  # each takes 32 MiB

    def current(self, content: Mapping[str, Any]) -> Session | None:
        """Return the user of a cookie, if that login still counts."""
        if content.keys() != set(Session._fields):  # no login, or from another version
            return None
        session = Session(**content)
        return session if self.counts(session) else None

    def counts(self, session: Session) -> bool:
        """Whether a login still counts: neither over nor by an old password."""
        try:
            known = self._users.fingerprint(session.user)
        except InputError:  # the file is damaged: no login counts
            return False
        wanted = self._run if session.user == CONSOLE and known is None else known
        fits = wanted is not None and hmac.compare_digest(wanted, session.password)
        return fits and self.sessions.counts(session)

    def wait(self, address: str, name: str) -> int:
        return self._attempts.wait(address, name)

    async def by_password(self, address: str, name: str, password: str) -> Session | None:
        self._attempts.begun(address, name)
        async with self._hashing:
            fingerprint = await asyncio.to_thread(self._users.check, name, password)
        if fingerprint is None:
            return None
        self._attempts.succeeded(address, name)
        return self.sessions.begin(name, fingerprint)

    def by_link(self, address: str, token: str) -> Session | None:
        """Return a session if this is the link, which then counts no longer.

        Nor does it once there is a user.
        """
        self._attempts.begun(address, CONSOLE)
        if self.link is None or self._users.names() or not same_token(self.link, token):
            return None
        self.link = None
        self._attempts.succeeded(address, CONSOLE)
        return self.sessions.begin(CONSOLE, self._run)
