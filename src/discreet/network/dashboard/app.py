"""The web application: routes, each in a few lines."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp

from discreet.errors import InputError
from discreet.network.dashboard.events import Streams
from discreet.network.dashboard.forms import read_form
from discreet.network.dashboard.gate import Gate
from discreet.network.dashboard.headers import GuardHeaders
from discreet.network.dashboard.logins import Logins
from discreet.network.dashboard.pages import VIEWS, Choices, View, page, plain_page
from discreet.network.dashboard.series import decision_series, traffic_series
from discreet.network.dashboard.sessions import LIFETIME, Session
from discreet.network.dashboard.snapshot import Snapshot, Snapshots
from discreet.network.store.errors import StoreError

_HERE = files("discreet.network.dashboard")
_STATIC = {
    "style.css": ("static/style.css", "text/css"),
    "icon.svg": ("static/icon.svg", "image/svg+xml"),
    "live.js": ("static/live.js", "text/javascript"),
    "charts.js": ("static/charts.js", "text/javascript"),
    "uplot.js": ("vendor/uplot/uPlot.iife.min.js", "text/javascript"),
    "uplot.css": ("vendor/uplot/uPlot.min.css", "text/css"),
}
_LONGEST_NAME = 64


class Dashboard:
    """The application of one site.

    Parameters
    ----------
    snapshots : Snapshots
    logins : Logins
    names : iterable of str
        Host names that the dashboard answers to.
    tls : bool, default=False
        Whether it is served over TLS, so that cookies may be kept to it.

    Attributes
    ----------
    app : ASGI application
    streams : Streams
    """

    def __init__(
        self, snapshots: Snapshots, logins: Logins, names: Iterable[str], *, tls: bool = False
    ) -> None:
        self._snapshots, self._logins, self._tls = snapshots, logins, tls
        self._reading = asyncio.Lock()
        self.streams = Streams(snapshots.view, self._look)
        site = snapshots.view.settings.site
        prefix = "__Host-" if tls else ""  # browsers tie such a cookie to this very origin
        self.cookie, self.form_cookie = f"{prefix}discreet-{site}", f"{prefix}discreet-form-{site}"
        self._routes = self._make_routes()
        inner = Starlette(
            routes=self._routes,
            middleware=[Middleware(Gate, logins=logins, cookie=self.cookie)],
            exception_handlers={HTTPException: _refused, Exception: _failed},
        )
        inner.router.redirect_slashes = False  # one address for each page
        # Around everything, so that the answer to an unforeseen error has the headers too.
        self.app: ASGIApp = GuardHeaders(inner, names, tls)

    def _make_routes(self) -> list[Route]:
        pages = [
            Route(view.path, self._page(view), methods=["GET"], name=view.name)
            for view in VIEWS.values()
        ]
        return [
            *pages,
            Route("/login", self.show_login, methods=["GET"]),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
            Route("/events", self.events, methods=["GET"]),
            Route("/api/state", self.state, methods=["GET"]),
            Route("/api/decisions", self._series(decision_series), methods=["GET"]),
            Route("/api/traffic", self._series(traffic_series), methods=["GET"]),
            Route("/static/{name}", _static, methods=["GET"]),
        ]

    @property
    def routes(self) -> list[tuple[str, str]]:
        """Every method and path, for tests that must not forget one."""
        return [
            (method, route.path)
            for route in self._routes
            for method in sorted(route.methods or ())
            if method != "HEAD"
        ]

    async def _look(self) -> Snapshot:
        # One thread reads however many ask, so that a database that hangs does not take them all.
        async with self._reading:
            return await asyncio.to_thread(self._snapshots.now)

    # -- pages --

    def _page(self, view: View) -> Callable[[Request], Any]:
        async def show(request: Request) -> Response:
            session: Session = request.state.session
            choices = Choices.of(view.name, request.query_params)
            token = self._logins.sessions.form_token(session.nonce)
            now = await self._look()
            text = await asyncio.to_thread(
                page, view, now, self._snapshots.view, choices, session.user, token
            )
            return HTMLResponse(text)

        return show

    async def events(self, request: Request) -> Response:
        """Stream what changes on a page."""
        if self.streams.full:
            raise HTTPException(429, "Too many pages are open. Close one.")
        view = VIEWS.get(request.query_params.get("view", ""), VIEWS["overview"])
        cookie = request.cookies.get(self.cookie)
        stream = self.streams.events(
            view,
            Choices.of(view.name, request.query_params),
            lambda: self._logins.current(cookie) is not None,
        )
        return StreamingResponse(stream, media_type="text/event-stream")

    # -- data --

    async def state(self, request: Request) -> Response:
        """Return the state as JSON, for scripts."""
        return JSONResponse(describe(await self._look()))

    def _series(self, make: Callable[[Snapshots, int], dict[str, Any]]) -> Callable[..., Any]:
        async def show(request: Request) -> Response:
            window = Choices.of("", request.query_params).window
            try:
                async with self._reading:
                    return JSONResponse(await asyncio.to_thread(make, self._snapshots, window))
            except StoreError:
                return JSONResponse({"at": [], "problem": "The database does not answer."})

        return show

    # -- in and out --

    async def show_login(self, request: Request) -> Response:
        """Show the form, or go on if there is nothing to log in to."""
        if request.state.session is not None:
            return RedirectResponse(_next_page(request.query_params), status_code=303)
        return self._login_form(request, request.query_params, "", 200)

    def _login_form(
        self, request: Request, given: Mapping[str, str], problem: str, code: int, wait: int = 0
    ) -> Response:
        nonce = request.cookies.get(self.form_cookie, "")
        if not 16 <= len(nonce) <= 64 or not nonce.isascii():
            nonce = secrets.token_urlsafe(16)
        text = plain_page(
            "login",
            site=self._snapshots.view.settings.site,
            problem=problem,
            name=given.get("name", "")[:_LONGEST_NAME],
            link=given.get("link", "")[:_LONGEST_NAME],
            next=_next_page(given),
            token=self._logins.sessions.form_token(nonce),
        )
        answer = HTMLResponse(text, status_code=code)
        if wait:
            answer.headers["Retry-After"] = str(wait)
        self._set_cookie(answer, self.form_cookie, nonce)
        return answer

    async def log_in(self, request: Request) -> Response:
        """Check a password or a link."""
        form = await read_form(request)
        nonce = request.cookies.get(self.form_cookie, "")
        if not nonce or not self._logins.sessions.fits(nonce, form.get("token", "")):
            return self._login_form(
                request, form, "The form was out of date. Please try again.", 403
            )
        address = request.client.host if request.client else ""
        link, name = form.get("link", ""), form.get("name", "")[:_LONGEST_NAME]
        wait = self._logins.wait(address, name)
        if wait:
            words = f"Too many tries. Please wait {wait} seconds."
            return self._login_form(request, form, words, 429, wait)
        if link:
            cookie, words = self._logins.by_link(address, link), "This link has been used."
        else:
            words = "Name or password is wrong."
            try:
                cookie = await self._logins.by_password(address, name, form.get("password", ""))
            except InputError:  # damaged, or open to others: nobody is let in
                cookie, words = None, "The list of users cannot be read. --add-user says why."
        if cookie is None:
            return self._login_form(request, form, words, 401)
        answer = RedirectResponse(_next_page(form), status_code=303)
        self._set_cookie(answer, self.cookie, cookie)
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the session everywhere."""
        form = await read_form(request)
        session: Session = request.state.session
        if not self._logins.sessions.fits(session.nonce, form.get("token", "")):
            raise HTTPException(403, "The form was out of date. Please go back and try again.")
        self._logins.sessions.end(session)
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(self.cookie, secure=self._tls, httponly=True, samesite="strict")
        return answer

    def _set_cookie(self, answer: Response, name: str, value: str) -> None:
        answer.set_cookie(
            name, value, max_age=int(LIFETIME), secure=self._tls, httponly=True, samesite="strict"
        )


# --- Without a site ------------------------------------------------------------------------


async def _static(request: Request) -> Response:
    found = _STATIC.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such page.")
    path, kind = found
    return Response(_HERE.joinpath(path).read_bytes(), media_type=kind)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = "There is no such page." if error.status_code == 404 else error.detail
    text = plain_page("error", code=error.status_code, words=words)
    return HTMLResponse(text, status_code=error.status_code, headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    words = "The dashboard made a mistake. Its log says more."
    return HTMLResponse(plain_page("error", code=500, words=words), status_code=500)


def _next_page(given: Mapping[str, str]) -> str:
    """Return where to go after the login: one of our own pages and nowhere else."""
    wanted = given.get("next", "/")
    return wanted if wanted in {view.path for view in VIEWS.values()} else "/"


def describe(now: Snapshot) -> dict[str, Any]:
    """Return a snapshot for JSON."""
    decision = now.stored.decision
    guarantee = now.guarantee
    return {
        "site": now.site,
        "at": now.at,
        "level": now.level,
        "findings": [asdict(each) for each in now.findings],
        "decision": None if decision is None else decision._asdict() | {"public": now.public},
        "devices": [asdict(each) | {"left": each.left} for each in now.devices],
        "rate": now.stored.rate,
        "lag": now.stored.lag,
        "refused": [each._asdict() for each in now.stored.refusals],
        "store": asdict(now.store),
        "guarantee": {
            "level": guarantee.level,
            "issued": guarantee.issued and guarantee.issued.isoformat(),
            "expires": guarantee.expires and guarantee.expires.isoformat(),
            "days_left": guarantee.days_left,
            "certificate": asdict(guarantee.certificate),
            "canary": asdict(guarantee.canary),
        },
    }
