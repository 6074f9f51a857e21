"""``/metrics`` for Prometheus and ``/health`` for the dashboard, over HTTP on loopback."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from discreet.errors import InputError
from discreet.network.fusion.state import State

_TEXT, _JSON = "text/plain; version=0.0.4; charset=utf-8", "application/json"


class Pages:
    """A small server in a thread of its own.

    Parameters
    ----------
    state : State
    host : str
    port : int
        0 for any that is free.

    Raises
    ------
    InputError
        If the port is taken.
    """

    def __init__(self, state: State, host: str, port: int) -> None:
        handler = type("Handler", (_Handler,), {"state": state})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise InputError(
                f"the metrics cannot listen on {host}:{port} ({error.strerror}). Stop what does, "
                "or change metrics in site.json."
            ) from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: State
    timeout = 5.0  # seconds, for who connects and says nothing
    server_version, sys_version = "discreet", ""

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, _TEXT, self.state.metrics())
        elif self.path == "/health":
            self._answer(200, _JSON, self.state.health())
        else:
            self._answer(404, _TEXT, b"There are /metrics and /health.\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: a scrape is no event."""
