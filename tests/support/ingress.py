"""What Home Assistant does for an add-on's pages: show them in a frame, and pass requests on."""

import threading
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/api/hassio_ingress/token"
_PANEL = f"""<!doctype html><title>Home Assistant</title>
<iframe src="{PREFIX}/" style="border: 0; width: 100%; height: 95vh"></iframe>"""
_OWN = ("connection", "transfer-encoding", "content-length", "date")


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


_ASK = urllib.request.build_opener(_NoRedirection).open


def _handler(address):
    class Passed(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith(f"{PREFIX}/"):
                self.pass_on(None)
            else:
                self.answer(200, {"Content-Type": "text/html"})
                self.wfile.write(_PANEL.encode())

        def do_POST(self):
            self.pass_on(self.rfile.read(int(self.headers["Content-Length"])))

        def pass_on(self, body):
            kept = {k: v for k, v in self.headers.items() if k.lower() not in _OWN}
            request = urllib.request.Request(
                address + self.path.removeprefix(PREFIX), body, kept | {"X-Ingress-Path": PREFIX}
            )
            try:
                answer = _ASK(request, timeout=120)
            except urllib.error.HTTPError as other:  # redirections too
                answer = other
            with answer:
                self.answer(answer.status, dict(answer.headers.items()))
                while part := answer.read1(65_536):  # as it comes: pages are live
                    self.wfile.write(part)
                    self.wfile.flush()

        def answer(self, status, headers):
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in _OWN:
                    self.send_header(name, value)
            self.end_headers()

        def handle(self):
            with suppress(ConnectionError, TimeoutError):  # the page was left
                super().handle()

        def log_message(self, *_):
            pass

    return Passed


@contextmanager
def home_assistant(address):
    """Show the pages at an address in a frame; yield where."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(address))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
