"""Readings from the broker of a home automation."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from typing import Any
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from discreet_sensor.connecting import Backoff
from discreet_sensor.enrolment import is_loopback
from discreet_sensor.errors import InputError
from discreet_sensor.parsing import MAX_TEXT, has_field, home_value, parse
from discreet_sensor.sources import PASSWORD, Latest, Source

logger = logging.getLogger(__name__)

AUTHORITY = "DISCREET_MQTT_CA"
"""Environment variable with the file of the authority that has signed its certificate."""


class MqttSource(Source):
    """Raw readings from another broker, such as that of Zigbee2MQTT or Home Assistant.

    ``address``: ``mqtt[s]://[USER@]HOST[:PORT]/TOPIC[#FIELD]``; the field names a value in a JSON
    object. With ``mqtts`` the broker has to show a certificate that this machine trusts, or that
    the authority in the file of DISCREET_MQTT_CA has signed.
    """

    def __init__(self, sensor: str, address: str, hold: float) -> None:
        parts = urlsplit(address)
        tls = parts.scheme == "mqtts"
        self._topic, self._field = unquote(parts.path[1:]), unquote(parts.fragment)
        try:
            host, port = parts.hostname, parts.port or (8883 if tls else 1883)
        except ValueError:
            host, port = None, 0
        if not host or not self._topic or any(each in self._topic for each in "#+\0"):
            raise InputError(
                f"{address[:80]!r} names no topic. Write mqtt://HOST/TOPIC or, for a value in a "
                "JSON payload, mqtt://HOST/TOPIC#FIELD"
            )
        self._sensor, self._latest, self._host, self._port = sensor, Latest(hold), host, port
        self._absent = False
        self._client = Client(CallbackAPIVersion.VERSION2)
        if tls:
            self._client.tls_set_context(trusted())
        elif not is_loopback(host):
            logger.warning(
                "readings from %s cross the network in the clear. Write mqtts:// if that broker "
                "has TLS",
                host,
            )
        if parts.username:
            self._client.username_pw_set(unquote(parts.username), os.environ.get(PASSWORD))
        self._client.on_connect = self._connected
        self._client.on_message = self._heard
        self._client.reconnect_delay_set(1, 30)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="readings", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        backoff = Backoff(0.5, 30.0)
        while not self._stop.is_set():
            try:
                self._client.connect(self._host, self._port)
                self._client.loop_start()
                return  # the library reconnects by itself from now on
            except OSError as error:
                logger.warning("%s: the broker of the readings does not answer", error)
                self._stop.wait(backoff.wait())

    def _connected(self, client: Any, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            logger.warning("the broker of the readings refuses the connection (%s)", reason)
        else:
            client.subscribe(self._topic, qos=0)

    def _heard(self, _: Any, __: Any, message: Any) -> None:
        content = parse(bytes(message.payload[:MAX_TEXT]).decode(errors="replace"))
        found = home_value(content, self._field)
        self._complain(isinstance(content, dict) and not has_field(content, self._field))
        self._latest.put(self._sensor, found)

    def _complain(self, absent: bool) -> None:
        if absent and not self._absent:
            name = self._field or "state"
            logger.warning("%s: payloads have no value %r; check #FIELD", self._topic, name)
        self._absent = absent

    def take(self) -> dict[str, Any]:
        return self._latest.take()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.disconnect()
        self._client.loop_stop()


def trusted() -> ssl.SSLContext:
    """Return what this machine trusts, or the authority of DISCREET_MQTT_CA."""
    file = os.environ.get(AUTHORITY)
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"{AUTHORITY}={file}: holds no certificate that can be read "
            f"({getattr(error, 'strerror', None) or error}). Name a PEM file."
        ) from None
