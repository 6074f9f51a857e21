"""The gate: whatever is not public needs a login, also what does not exist."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from discreet.network.dashboard.logins import Logins
from discreet.network.dashboard.pages import VIEWS

PUBLIC = frozenset({"/login", "/static/style.css", "/static/icon.svg"})
_PAGES = frozenset(view.path for view in VIEWS.values())


class Gate:
    """Middleware that lets only those in who have logged in.

    Parameters
    ----------
    app : ASGI application
    logins : Logins
    cookie : str
        Name of the cookie.
    """

    def __init__(self, app: ASGIApp, logins: Logins, cookie: str) -> None:
        self._app, self._logins, self._cookie = app, logins, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through with its session, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope)
        session = self._logins.current(request.cookies.get(self._cookie))
        scope.setdefault("state", {})["session"] = session
        if session is not None or scope["path"] in PUBLIC:
            await self._app(scope, receive, send)
        else:
            await _refusal(request)(scope, receive, send)


def _refusal(request: Request) -> Response:
    path = request.scope["path"]  # not from the URL, which fails on bytes beyond ASCII
    if request.method in ("GET", "HEAD") and path in _PAGES:
        return RedirectResponse(f"/login?next={quote(path)}", status_code=303)
    return JSONResponse({"error": "Log in first."}, status_code=401)
