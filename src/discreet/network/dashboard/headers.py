"""What every answer carries, and which names the dashboard answers to.

A page of another origin can neither frame, read nor embed an answer, and nothing may be loaded
from elsewhere. Requests under a foreign host name are refused: otherwise a hostile page whose name
is made to resolve to this machine could read the answers as its own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
))  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_WITH_TLS = {"Strict-Transport-Security": "max-age=31536000"}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class GuardHeaders:
    """Middleware around everything else, so that errors carry the headers too.

    Parameters
    ----------
    app : ASGI application
    names : iterable of str
        Host names and addresses that a request may be for.
    tls : bool
    """

    def __init__(self, app: ASGIApp, names: Iterable[str], tls: bool) -> None:
        self._app = app
        self._names = {name.lower().rstrip(".") for name in names}
        self._headers = HEADERS | (_WITH_TLS if tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers, or refuse a foreign name."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) == 1 and host_name(hosts[0]) in self._names:
            await self._app(scope, receive, send_with_headers)
        else:
            refusal = PlainTextResponse(
                "This dashboard does not answer to that name. Open it under the address that "
                "it printed, or start it with --name.\n",
                status_code=421,
            )
            await refusal(scope, receive, send_with_headers)


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port and in one way of writing."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower().rstrip(".")


def names_for(host: str, extra: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a dashboard listening on a host answers to."""
    return (*_LOOPBACK_NAMES, *(() if is_wildcard(host) else (host,)), *extra)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    """Whether the host stands for every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
