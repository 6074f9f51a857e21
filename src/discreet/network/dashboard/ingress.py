"""Inside Home Assistant, whose Supervisor passes requests on from below a path of its own origin.

Home Assistant has checked who asks before, and shows the pages in a frame. The dashboard's own
login remains: not everybody who may use Home Assistant may know what a site decides. Links on pages
are relative; what else has a path is moved below that of the Supervisor, so that no other add-on of
the same origin is sent the cookie.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
