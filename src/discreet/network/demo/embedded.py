"""A broker for where Mosquitto is not installed: amqtt, on loopback, for the demo only.

It speaks MQTT 3.1.1 and is run here without TLS and without rights, so that nothing but the demo
may use it. ``python -m discreet.network.demo.embedded PORT`` runs it until it is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from typing import Any


def _config(port: int) -> dict[str, Any]:
    return {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }


async def _serve(port: int) -> None:
    from amqtt.broker import Broker

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    broker = Broker(_config(port))
    await broker.start()
    await stop.wait()
    with contextlib.suppress(Exception):  # it is the demo's end in any case
        await asyncio.wait_for(broker.shutdown(), 3)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_serve(int(sys.argv[1])))
