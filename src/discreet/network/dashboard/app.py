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
from starlette.middleware.sessions import SessionMiddleware
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
from discreet.network.dashboard.charts import traffic_series
from discreet.network.dashboard.guards import Gate, GuardHeaders, Ingress, read_form
from discreet.network.dashboard.logins import LIFETIME, Logins, Session, same_token
from discreet.network.dashboard.pages import VIEWS, Choices, Streams, View, page, plain_page
from discreet.network.dashboard.snapshot import Snapshot, Snapshots
from discreet.network.store.database import StoreError

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
_DEEPEST = 8  # folders of an address


class Dashboard:
    """The application of one site.

    ``key``: signs the cookies. ``names``: host names that the dashboard answers to. ``tls``:
    whether it is served over TLS, so that cookies may be kept to it. ``ingress``: the address of
    Home Assistant's Supervisor, which alone may ask then, whatever the host's name.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        logins: Logins,
        key: bytes,
        names: Iterable[str],
        *,
        tls: bool = False,
        ingress: str | None = None,
    ) -> None:
        self._snapshots, self._logins = snapshots, logins
        self._reading = asyncio.Lock()
        self.streams = Streams(snapshots.view, self._look)
        prefix = "__Host-" if tls else ""  # browsers tie such a cookie to this origin
        self.cookie = f"{prefix}discreet-{snapshots.view.settings.key}"
        self._routes = self._make_routes()
        cookies = Middleware(
            SessionMiddleware,
            secret_key=key.hex(),
            session_cookie=self.cookie,
            max_age=int(LIFETIME),
            same_site="strict",
            https_only=tls,
        )
        inner = Starlette(
            routes=self._routes,
            middleware=[cookies, Middleware(Gate, logins=logins)],
            exception_handlers={HTTPException: _refused, Exception: _failed},
        )
        inner.router.redirect_slashes = False  # one address for each page
        # Around everything, so that the answer to an unforeseen error has the headers too.
        if ingress is None:
            self.app: ASGIApp = GuardHeaders(inner, names, tls)
        else:
            self.app = GuardHeaders(Ingress(inner, ingress), None, tls=False)

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
            Route("/api/traffic", self.traffic, methods=["GET"]),
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
            now = await self._look()
            text = await asyncio.to_thread(
                page, view, now, self._snapshots.view, choices, session.user, session.token
            )
            return HTMLResponse(text)

        return show

    async def events(self, request: Request) -> Response:
        if self.streams.full:
            raise HTTPException(429, "Too many pages are open. Close one.")
        view = VIEWS.get(request.query_params.get("view", ""), VIEWS["overview"])
        session: Session = request.state.session
        stream = self.streams.events(
            view,
            Choices.of(view.name, request.query_params),
            lambda: self._logins.counts(session),
        )
        return StreamingResponse(stream, media_type="text/event-stream")

    # -- data --

    async def state(self, request: Request) -> Response:
        return JSONResponse(describe(await self._look()))

    async def traffic(self, request: Request) -> Response:
        window = Choices.of("", request.query_params).window
        history = self._snapshots.history
        try:
            async with self._reading:
                return JSONResponse(await asyncio.to_thread(traffic_series, history, window))
        except StoreError:
            return JSONResponse({"at": [], "problem": "The database does not answer."})

    # -- in and out --

    async def show_login(self, request: Request) -> Response:
        """Show the form, or go on if there is nothing to log in to."""
        if request.state.session is not None:
            return RedirectResponse(_next_page(request.query_params), status_code=303)
        return self._login_form(request, request.query_params, "", 200)

    def _login_form(
        self, request: Request, given: Mapping[str, str], problem: str, code: int, wait: int = 0
    ) -> Response:
        if request.state.session is None and "user" in request.session:
            request.session.clear()  # of a login that is over
        text = plain_page(
            "login",
            site=self._snapshots.view.settings.site,
            problem=problem,
            name=given.get("name", "")[:_LONGEST_NAME],
            link=given.get("link", "")[:_LONGEST_NAME],
            next=_next_page(given),
            token=request.session.setdefault("token", secrets.token_urlsafe(16)),
            root="",
        )
        answer = HTMLResponse(text, status_code=code)
        if wait:
            answer.headers["Retry-After"] = str(wait)
        return answer

    async def log_in(self, request: Request) -> Response:
        form = await read_form(request)
        token = request.session.get("token", "")
        if not token or not same_token(token, form.get("token", "")):
            words = "The form was out of date. Please try again."
            return self._login_form(request, form, words, 403)
        address = request.client.host if request.client else ""
        link, name = form.get("link", ""), form.get("name", "")[:_LONGEST_NAME]
        wait = self._logins.wait(address, name)
        if wait:
            words = f"Too many tries. Please wait {wait} seconds."
            return self._login_form(request, form, words, 429, wait)
        if link:
            session, words = self._logins.by_link(address, link), "This link has been used."
        else:
            words = "Name or password is wrong."
            try:
                session = await self._logins.by_password(address, name, form.get("password", ""))
            except InputError:  # damaged, or open to others: nobody can log in
                session = None
                words = "The list of users cannot be read. Run --add-user for the reason."
        if session is None:
            return self._login_form(request, form, words, 401)
        request.session.clear()
        request.session.update(session._asdict())
        return RedirectResponse(_next_page(form), status_code=303)

    async def log_out(self, request: Request) -> Response:
        """End the session everywhere."""
        form = await read_form(request)
        session: Session = request.state.session
        if not same_token(session.token, form.get("token", "")):
            raise HTTPException(403, "The form was out of date. Please go back and try again.")
        request.session.clear()
        try:
            self._logins.sessions.end(session)
        except InputError as error:
            raise HTTPException(
                500,
                "You are logged out, but only until the dashboard is restarted: the log-out could "
                f"not be kept ({error}). A new password ends the session for good.",
            ) from None
        return RedirectResponse("/login", status_code=303)


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
    text = plain_page("error", code=error.status_code, words=words, root=_root(request))
    return HTMLResponse(text, status_code=error.status_code, headers=error.headers)


async def _failed(request: Request, _: Exception) -> Response:
    return await _refused(request, HTTPException(500, "The dashboard failed. See its log."))


def _root(request: Request) -> str:
    """Return the way up to the overview; only errors are shown below it."""
    path: str = request.scope["path"]
    return "../" * min(path.count("/") - 1, _DEEPEST)


def _next_page(given: Mapping[str, str]) -> str:
    """Return where to go after the login: one of our own pages and nowhere else."""
    wanted = given.get("next", "/")
    return wanted if wanted in {view.path for view in VIEWS.values()} else "/"


def describe(now: Snapshot) -> dict[str, Any]:
    """Return a snapshot for JSON."""
    guarantee = now.guarantee
    return {
        "site": now.settings.site,
        "at": now.at,
        "level": now.level,
        "findings": [asdict(each) for each in now.findings],
        "decision": _describe_decision(now),
        "devices": [
            asdict(each) | {"left": each.left, "revoked": each.revoked and each.revoked.isoformat()}
            for each in now.devices
        ],
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
            "state": guarantee.standing.state,
            "recheck": asdict(guarantee.recheck),
        },
    }


def _describe_decision(now: Snapshot) -> dict[str, Any] | None:
    decision = now.stored.decision
    if decision is None:
        return None
    return decision._asdict() | {
        "public": now.public,
        "answer": now.answer(decision.decision),
        "certainty": now.certainty(decision),
        "unsure": not now.is_sure(decision),
        "present": now.present is not None,
    }
