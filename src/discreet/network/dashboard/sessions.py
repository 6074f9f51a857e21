"""Sessions: a signed cookie that says who, until when and by which password.

Nothing is stored for a session but its end: a log-out is remembered until the cookie would have
expired anyway. The key is kept in the site, so that a restart does not log everybody out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import InputError
from discreet.network.dashboard.private_files import read_secret, write_secret

LIFETIME = 12 * 3600.0
_MOST_COOKIE = 1_024
_KEY_BYTES = 32


def load_key(path: Path) -> bytes:
    """Return the key that signs sessions, made now if there is none.

    Raises
    ------
    InputError
        If the file is not a key for its owner only.
    """
    found = read_secret(path)
    if found is None:
        write_secret(path, secrets.token_bytes(_KEY_BYTES))
        found = read_secret(path)
    if found is None or len(found) != _KEY_BYTES:
        size = 0 if found is None else len(found)
        raise InputError(f"{path}: a key has {_KEY_BYTES} bytes, this has {size}. Remove the file.")
    return found


@dataclass(frozen=True)
class Session:
    """Who is logged in.

    Attributes
    ----------
    user : str
    password : str
        Fingerprint of the hash at the time of the login; see ``Users.fingerprint``.
    nonce : str
        Tells sessions apart.
    expires : float
    """

    user: str
    password: str
    nonce: str
    expires: float


class Sessions:
    """Makes and checks the cookies of one dashboard.

    Parameters
    ----------
    key : bytes
    clock : callable, optional
        Returns the time; for tests.
    """

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = key, clock
        self._ended: dict[str, float] = {}

    def begin(self, user: str, password: str) -> tuple[Session, str]:
        """Return a new session and its cookie."""
        expires = self._clock() + LIFETIME
        session = Session(user, password, secrets.token_urlsafe(16), expires)
        body = json.dumps([user, password, session.nonce, expires]).encode()
        return session, f"{_encode(body)}.{self._sign('session', body)}"

    def read(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie, or None if it is forged, ended or out of date."""
        body = self._verified(cookie)
        if body is None:
            return None
        session = Session(*json.loads(body))  # signed by us, so it has our shape
        if session.expires <= self._clock() or session.nonce in self._ended:
            return None
        return session

    def end(self, session: Session) -> None:
        """Log out: the cookie counts no longer, wherever a copy of it may be."""
        now = self._clock()
        self._ended = {nonce: end for nonce, end in self._ended.items() if end > now}
        self._ended[session.nonce] = session.expires

    def form_token(self, nonce: str) -> str:
        """Return what a form must send back with a cookie of that nonce."""
        return self._sign("form", nonce.encode("utf-8", "replace"))

    def fits(self, nonce: str, token: str) -> bool:
        """Whether a form was made for the holder of the nonce."""
        given = token.encode("utf-8", "replace")  # text beyond ASCII cannot be compared
        return hmac.compare_digest(self.form_token(nonce).encode(), given)

    def _verified(self, cookie: str | None) -> bytes | None:
        if not cookie or len(cookie) > _MOST_COOKIE or not cookie.isascii():
            return None
        text, _, signature = cookie.partition(".")
        try:
            body = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        return body if hmac.compare_digest(self._sign("session", body), signature) else None

    def _sign(self, purpose: str, data: bytes) -> str:
        return hmac.new(self._key, purpose.encode() + b"\0" + data, hashlib.sha256).hexdigest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
