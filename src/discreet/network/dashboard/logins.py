"""Logging in and out: users by password, and one link when there is no user yet."""

from __future__ import annotations

import asyncio
import hmac
import secrets

from discreet.errors import InputError
from discreet.network.dashboard.attempts import Attempts
from discreet.network.dashboard.sessions import Session, Sessions
from discreet.network.dashboard.users import Users

CONSOLE = "console"
"""Who has opened the link that was printed on the console."""


class Logins:
    """Decides who is in.

    Parameters
    ----------
    users : Users
    sessions : Sessions
    attempts : Attempts, optional
    link : bool, default=False
        Whether to hand out a link that logs in once, for a site without users.
    """

    def __init__(
        self,
        users: Users,
        sessions: Sessions,
        attempts: Attempts | None = None,
        *,
        link: bool = False,
    ) -> None:
        self._users, self.sessions = users, sessions
        self._attempts = attempts or Attempts()
        self.link = secrets.token_urlsafe(24) if link else None
        self._run = f"once-{secrets.token_hex(8)}"  # sessions of a link end with the process
        self._hashing = asyncio.Semaphore(2)  # each takes 32 MiB

    def current(self, cookie: str | None) -> Session | None:
        """Return who a cookie stands for, if that login still counts."""
        session = self.sessions.read(cookie)
        if session is None:
            return None
        try:
            known = self._users.fingerprint(session.user)
        except InputError:  # the file is damaged: nobody is in
            return None
        wanted = self._run if session.user == CONSOLE and known is None else known
        fits = wanted is not None and hmac.compare_digest(wanted, session.password)
        return session if fits else None

    def wait(self, address: str, name: str) -> int:
        """Return for how many seconds a login has to wait."""
        return self._attempts.wait(address, name)

    async def by_password(self, address: str, name: str, password: str) -> str | None:
        """Return a cookie if the password is right."""
        self._attempts.begun(address, name)
        async with self._hashing:
            fits = await asyncio.to_thread(self._users.check, name, password)
        fingerprint = self._users.fingerprint(name) if fits else None
        if fingerprint is None:
            return None
        self._attempts.succeeded(address, name)
        return self.sessions.begin(name, fingerprint)[1]

    def by_link(self, address: str, token: str) -> str | None:
        """Return a cookie if this is the link, which then counts no longer."""
        self._attempts.begun(address, CONSOLE)
        given = token.encode("utf-8", "replace")
        if self.link is None or not hmac.compare_digest(self.link.encode(), given):
            return None
        self.link = None
        self._attempts.succeeded(address, CONSOLE)
        return self.sessions.begin(CONSOLE, self._run)[1]
