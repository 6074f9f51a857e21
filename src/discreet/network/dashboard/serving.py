"""Starting the dashboard: where it may listen, what it prints, and how it ends."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from discreet.errors import InputError
from discreet.network.dashboard.app import Dashboard
from discreet.network.dashboard.guards import is_wildcard, names_for
from discreet.network.dashboard.logins import Logins, Sessions, Users, load_key
from discreet.network.dashboard.snapshot import SiteView, Snapshots
from discreet.network.store import open_reader
from discreet_sensor.enrolment import is_loopback
from discreet_sensor.stopping import on_hangup

_END_SECONDS = 3
_MOST_CONNECTIONS = 256
_MOST_WAITING = 128
"""Connections without a request; of more, the oldest is closed."""


@dataclass(frozen=True)
class DashboardTask:
    """What to serve, and where.

    ``host``, ``port``: by default that of the site. ``remote``: consent to listen beyond this
    machine. ``names``: further host names to answer to. ``certificate``, ``key``: for TLS; both or
    neither. ``proxy``: address of a proxy that has the TLS, and names whom it speaks for.
    ``ingress``: address of Home Assistant's Supervisor, which alone is answered then.
    """

    folder: Path
    host: str | None = None
    port: int | None = None
    remote: bool = False
    names: Sequence[str] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None
    ingress: str | None = None


def users_of(folder: Path) -> Users:
    """Return the users of a site's dashboard."""
    return Users(folder / "dashboard" / "users.json")


def make_dashboard(task: DashboardTask) -> tuple[Dashboard, Logins, tuple[str, int]]:
    """Check a task and return what it needs: application, logins, host and port.

    Raises InputError: if the site cannot be read, or may not be shown like this.
    """
    view = SiteView(task.folder)
    host = task.host or view.settings.dashboard.host
    port = view.settings.dashboard.port if task.port is None else task.port
    users = users_of(task.folder)
    known = bool(users.names())
    _check_place(task, host, known)
    home = task.folder / "dashboard"
    logins = Logins(users, Sessions(home / "ended.json"), link=not known)
    reader = open_reader(view.settings.database, task.folder, view.settings.key)
    app = Dashboard(
        Snapshots(view, reader),
        logins,
        load_key(home / "session.key"),
        names_for(host, task.names),
        tls=task.key is not None or task.proxy is not None,
        ingress=task.ingress,
    )
    return app, logins, (host, port)


def _check_place(task: DashboardTask, host: str, users: bool) -> None:
    if (task.certificate is None) != (task.key is None):
        raise InputError("--tls-certificate and --tls-key go together. Give both, or neither.")
    if task.ingress is not None and (task.proxy is not None or task.key is not None):
        raise InputError(
            "--ingress leaves TLS to Home Assistant. Leave out --behind-proxy, --tls-certificate "
            "and --tls-key."
        )
    _check_address("--behind-proxy", task.proxy, "127.0.0.1")
    _check_address("--ingress", task.ingress, "172.30.32.2")
    if is_loopback(host):
        return
    if not task.remote:
        raise InputError(
            f"the host {host!r} can be reached from other machines. Add --remote if that "
            "is wanted, or leave --host out."
        )
    if not users:
        raise InputError(
            "a dashboard that others can reach needs a user. Add one first: discreet dashboard "
            f"{task.folder} --add-user NAME"
        )


def _check_address(option: str, address: str | None, example: str) -> None:
    try:
        ipaddress.ip_address(address or example)
    except ValueError:
        raise InputError(
            f"{option} takes an address, such as {example}, got {str(address)[:60]!r}."
        ) from None


def serve(task: DashboardTask) -> None:
    """Serve the dashboard until it is stopped."""
    dashboard, logins, (host, port) = make_dashboard(task)
    config = uvicorn.Config(
        dashboard.app,
        http=TimedRequests,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=task.proxy is not None,
        forwarded_allow_ips=task.proxy,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=_END_SECONDS,
        timeout_keep_alive=30,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=16_384,
        ssl_certfile=task.certificate,
        ssl_keyfile=task.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        where = f"{task.certificate}, {task.key}"
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InputError(f"{where}: certificate and key cannot be used ({reason}).") from None
    listening = listen(host, port)
    server = StoppableServer(config, dashboard)
    for line in announce(task, logins, host, listening.getsockname()[1]):
        print(line, flush=True)
    on_hangup(server.end)
    try:
        with suppress(KeyboardInterrupt):  # Ctrl-C is how it is meant to end
            server.run(sockets=[listening])
    finally:
        listening.close()


class StoppableServer(uvicorn.Server):
    """A server that ends its streams when it is stopped, and does not wait for them."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self._dashboard = dashboard

    def end(self) -> None:
        self._dashboard.streams.stop()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM:  # an order to end, which is no failure
            self.end()
        else:
            self._dashboard.streams.stop()
            super().handle_exit(sig, frame)


def announce(task: DashboardTask, logins: Logins, host: str, port: int) -> list[str]:
    """Return what is printed at the start; warnings go to stderr at once."""
    scheme = "https" if task.key else "http"
    shown = "localhost" if is_wildcard(host) else f"[{host}]" if ":" in host else host
    address = f"{scheme}://{shown}:{port}/"
    if not (is_loopback(host) or task.key or task.proxy or task.ingress):
        print(
            "discreet: warning: without TLS, passwords and pages cross the network in the clear. "
            "Give --tls-certificate and --tls-key, or put a proxy with TLS in front "
            "(--behind-proxy).",
            file=sys.stderr,
        )
    if task.ingress is not None:
        return [f"dashboard: inside Home Assistant, for {task.ingress} only, at port {port}"]
    lines = [f"dashboard: {address}"]
    if logins.link is not None:
        lines += [
            "there is no user yet; this link logs in once:",
            f"  {address}login?link={logins.link}",
            f"to add a user: discreet dashboard {task.folder} --add-user NAME",
        ]
    return [*lines, "Ctrl-C ends it."]


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that takes connections.

    Raises InputError: if the port is taken, or not ours to take.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)  # before the address is printed, so that it answers from then on
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {host} port {port} ({reason}). Choose another with --port."
        ) from None
    return listening


# --- Requests that do not come whole -------------------------------------------------------


REQUEST_SECONDS = 20.0


class TimedRequests(H11Protocol):
    """HTTP on one connection.

    uvicorn waits for ever for the rest of a request, also of a client that is not logged in. Here a
    connection is closed that has waited for one from one look to the next, so many seconds later;
    or at once, the oldest first, if too many wait: they would take the last place.
    """

    _all: ClassVar[dict[TimedRequests, None]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._all[self] = None
        waiting = [each for each in self._all if each._waits_after()[0]]
        for each in waiting[: len(waiting) - _MOST_WAITING]:
            each.transport.close()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.pop(self, None)
        self._timer.cancel()
        super().connection_lost(exc)

    def _waits_after(self) -> tuple[bool, Any]:
        """Whether a request is waited for, and after which one."""
        last: Any = self.cycle  # None before the first, despite its type
        return last is None or last.response_complete, last

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._look, self._waits_after())

    def _look(self, before: tuple[bool, Any]) -> None:
        if before[0] and before == self._waits_after():
            self.transport.close()
        else:
            self._look_later()
