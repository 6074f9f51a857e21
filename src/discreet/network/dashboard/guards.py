"""What guards the pages: host names and headers, the login, and what a form may send.

A page of another origin can neither frame, read nor embed an answer, and nothing may be loaded
from elsewhere. Requests under a foreign host name are refused: otherwise a hostile page whose name
is made to resolve to this machine could read the answers as its own. Whatever is not public needs
a login, also what does not exist.

*Inside Home Assistant, whose Supervisor passes requests on from below a path of its own origin.*
Home Assistant has checked who asks before, and shows the pages in a frame. The dashboard's own
login remains: not everybody who may use Home Assistant may know what a site decides. Links on
pages are relative; what else has a path is moved below that of the Supervisor, so that no other
add-on of the same origin is sent the cookie.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.network.dashboard.logins import Logins
from discreet.network.dashboard.pages import VIEWS

# --- Headers and names ---------------------------------------------------------------------

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
_FRAMED = {  # by pages of the same origin, which is Home Assistant's
    "Content-Security-Policy": POLICY.replace("ancestors 'none'", "ancestors 'self'"),
    "X-Frame-Options": "SAMEORIGIN",
}
_WITH_TLS = {"Strict-Transport-Security": "max-age=31536000"}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class GuardHeaders:
    """Middleware around everything else, so that errors carry the headers too.

    ``names``: host names and addresses that a request may be for. None: any, and pages of the same
    origin may frame the answers; ``app`` decides who may ask.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] | None, tls: bool) -> None:
        self._app = app
        self._names = None if names is None else {name.lower().rstrip(".") for name in names}
        self._headers = HEADERS | (_WITH_TLS if tls else {}) | (_FRAMED if names is None else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers, or refuse a foreign name."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        answer = self._refusal(Headers(scope=scope)) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> Response | None:
        if "content-length" in headers and "transfer-encoding" in headers:
            # Two ends of one body: a proxy in front may believe the other one.
            said = "A request has one length.\n"
            return PlainTextResponse(said, status_code=400, headers={"Connection": "close"})
        hosts = headers.getlist("host")
        if self._names is None or (len(hosts) == 1 and host_name(hosts[0]) in self._names):
            return None
        said = (
            "This dashboard does not answer to that name. Open it under the address that it "
            "printed, or start it with --name.\n"
        )
        return PlainTextResponse(said, status_code=421)


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port and in one way of writing."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower().rstrip(".")


def names_for(host: str, extra: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a dashboard listening on a host answers to."""
    return (*_LOOPBACK_NAMES, *(() if is_wildcard(host) else (host,)), *extra)


def is_wildcard(host: str) -> bool:
    """Whether the host stands for every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


# --- The login -----------------------------------------------------------------------------

PUBLIC = frozenset({"/login", "/static/style.css", "/static/icon.svg"})
_PAGES = frozenset(view.path for view in VIEWS.values())


class Gate:
    """Middleware that answers only logged-in users."""

    def __init__(self, app: ASGIApp, logins: Logins) -> None:
        self._app, self._logins = app, logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through with its session, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        session = self._logins.current(scope["session"])
        scope.setdefault("state", {})["session"] = session
        if session is not None or scope["path"] in PUBLIC:
            await self._app(scope, receive, send)
        else:
            await _refusal(Request(scope))(scope, receive, send)


def _refusal(request: Request) -> Response:
    path = request.scope["path"]  # not from the URL, which fails on bytes beyond ASCII
    if request.method in ("GET", "HEAD") and path in _PAGES:
        return RedirectResponse(f"/login?next={quote(path)}", status_code=303)
    return JSONResponse({"error": "Log in first."}, status_code=401)


# --- Forms ---------------------------------------------------------------------------------

_MOST_BYTES = 8_192
_MOST_FIELDS = 10
FORM_SECONDS = 10.0
_FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of two with one name the last.

    Raises HTTPException: 403 from a page of another origin, 408 if it does not come, 413 if too
    large, 415 if it is no form, 400 if broken.
    """
    _check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise HTTPException(415, "A form is expected.")
    try:
        async with asyncio.timeout(FORM_SECONDS):
            body = await _read_body(request)
    except TimeoutError:
        raise HTTPException(408, "The form has not come in time.") from None
    try:
        fields = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return dict(fields)


async def _read_body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, "The form is too large.")
    return body


def _check_origin(request: Request) -> None:
    """Refuse a form of another page, as far as the browser names its origin."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    try:
        foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    except ValueError:
        foreign = True
    if foreign or site not in ("same-origin", "none"):
        raise HTTPException(403, "The form comes from another page.")


# --- Inside Home Assistant ------------------------------------------------------------------

_PREFIX = re.compile(r"(/[A-Za-z0-9_~-]{1,128}){1,8}", re.ASCII)


class Ingress:
    """Middleware that answers one address only, and keeps to the path that it names.

    ``address``: of the Supervisor.
    """

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app, self._address = app, address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer below the path, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        named = Headers(scope=scope).getlist("x-ingress-path")
        client = (scope.get("client") or ("",))[0]
        if client != self._address or len(named) != 1 or not _PREFIX.fullmatch(named[0]):
            refusal = PlainTextResponse("Open it in Home Assistant.\n", status_code=403)
            await refusal(scope, receive, send)
            return

        async def send_below(message: Message) -> None:
            if message["type"] == "http.response.start":
                _move(MutableHeaders(scope=message), named[0])
            await send(message)

        await self._app(scope, receive, send_below)


def _move(headers: MutableHeaders, prefix: str) -> None:
    """Put redirections and cookies below a path."""
    if (place := headers.get("location", "")).startswith("/"):
        headers["location"] = prefix + place
    cookies = headers.getlist("set-cookie")
    del headers["set-cookie"]
    for cookie in cookies:
        headers.append("set-cookie", cookie.replace("; path=/;", f"; path={prefix}/;", 1))
