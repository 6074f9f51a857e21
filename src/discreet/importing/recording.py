"""Messages of a live broker into a log of JSON lines, as ``discreet import`` reads it.

A message is a line with its time of arrival in UTC. Lines are appended and flushed one by one, so
that a stop at any moment loses none but, at worst, the last. Retained messages, which a broker
repeats to whoever subscribes, are marked: they tell a state, but not when it began. A line of its
own tells when messages begin to be received, at first and after a lost connection, and when that
was stopped: between the two they are missed.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from discreet.errors import InputError
from discreet.importing.text_logs import MARK
from discreet_sensor.enrolment import is_loopback
from discreet_sensor.mqtt_source import trusted
from discreet_sensor.sources import PASSWORD

logger = logging.getLogger(__name__)

MAX_PAYLOAD = 1 << 16
"""Longest payload in bytes that is recorded; longer ones, as pictures, are left out."""
_CONNECT_SECONDS = 10.0


def open_log(file: Path) -> TextIO:
    """Open a log to go on with, readable by its owner only; a last line cut short is ended."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    cut = (
        os.fstat(handle).st_size > 0 and os.pread(handle, 1, os.fstat(handle).st_size - 1) != b"\n"
    )
    log = os.fdopen(handle, "a", encoding="utf-8")
    if cut:
        log.write("\n")
    return log


class Recorder:
    """Records what a broker sends for some topics.

    ``address``: ``mqtt[s]://[USER@]HOST[:PORT]/[TOPIC]``; without a topic, everything. ``recorded``
    counts messages, ``too_long`` those left out. Raises InputError: if the address cannot be used.
    """

    def __init__(self, address: str, log: TextIO) -> None:
        parts = urlsplit(address)
        tls = parts.scheme == "mqtts"
        self._topic = unquote(parts.path[1:]) + ("#" if address.endswith("#") else "") or "#"
        try:
            host, port = parts.hostname, parts.port or (8883 if tls else 1883)
        except ValueError:
            host, port = None, 0
        whole = not parts.fragment and not self._topic.rstrip("#").endswith(("#", "\0"))
        if parts.scheme not in ("mqtt", "mqtts") or not host or not whole:
            raise InputError(
                f"{address[:80]!r} is no address of a broker. Write mqtt://HOST/TOPIC, such as "
                "mqtt://homeassistant.local/zigbee2mqtt/#"
            )
        self.recorded, self.too_long = 0, 0
        self._log, self._lock = log, threading.Lock()
        self._host, self._port = host, port
        self._connected, self._refused = threading.Event(), ""
        self._receives = False
        self._client = Client(CallbackAPIVersion.VERSION2)
        if tls:
            self._client.tls_set_context(trusted())
        elif not is_loopback(host):
            logger.warning("messages from %s cross the network in the clear. Use mqtts://", host)
        if parts.username:
            self._client.username_pw_set(unquote(parts.username), os.environ.get(PASSWORD))
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_message = self._on_message

    def run(self, stop: threading.Event, seconds: float | None = None) -> None:
        """Record until ``stop`` is set or the time is over; connect again where that is lost.

        Raises InputError: if there is no connection to begin with.
        """
        try:
            self._client.connect(self._host, self._port, keepalive=30)
        except OSError as error:
            raise InputError(
                f"the broker at {self._host}:{self._port} does not answer ({error})."
            ) from None
        self._client.loop_start()
        try:
            if not self._connected.wait(_CONNECT_SECONDS) or self._refused:
                raise InputError(
                    f"the broker at {self._host}:{self._port} refuses: "
                    f"{self._refused or 'no answer'}. A name goes before the host, as in "
                    f"mqtt://NAME@HOST, and its password into {PASSWORD}."
                )
            stop.wait(seconds)
            if self._receives:
                self._write({MARK: "stop"})
        finally:
            self._client.disconnect()
            self._client.loop_stop()

    def _on_connect(self, client: Client, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        if reason.is_failure:
            self._refused = str(reason)
        else:
            client.subscribe(self._topic, qos=1)
            self._receives = True
            self._write({MARK: "start"})
        self._connected.set()

    def _on_disconnect(self, _c: Client, _u: Any, _f: Any, _r: Any, _p: Any) -> None:
        self._receives = False  # since when is not known: no mark

    def _on_message(self, _c: Client, _u: Any, message: Any) -> None:
        if len(message.payload) > MAX_PAYLOAD:
            self.too_long += 1
            return
        payload = message.payload.decode("utf-8", "replace")
        line = {"topic": message.topic, "payload": payload}
        self._write(line | ({"retain": True} if message.retain else {}))
        self.recorded += 1

    def _write(self, line: dict[str, Any]) -> None:
        stamped = {"time": round(time.time(), 3)} | line
        with self._lock:
            self._log.write(json.dumps(stamped, ensure_ascii=False) + "\n")
            self._log.flush()
