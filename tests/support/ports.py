"""Ports for the servers of the tests."""

import os
import random
import socket

_FIRST, _EACH = 10_000, 2_000  # below the ports that Linux hands out by itself
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
_next = random.SystemRandom().randrange(_EACH)


def free_port():
    """Return a port that is free, and that no other process is given before it is used.

    Processes that run tests side by side count through ranges of their own.
    """
    global _next
    while True:
        _next = (_next + 1) % _EACH
        port = _FIRST + _WORKER * _EACH + _next
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
