"""What the tests of the network share: small sites, their broker and clients to try it with."""

import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from discreet.network.broker import Broker, find_mosquitto
from discreet.network.site.making import make_folder
from discreet.network.site.settings import BrokerEndpoint, Endpoint
from support.helpers import make_mapping
from support.ports import free_port

needs_mosquitto = pytest.mark.skipif(
    find_mosquitto() is None, reason="Mosquitto is not installed (Debian: apt install mosquitto)"
)


def make_site(folder: Path, mapping=None, name="home", **changes) -> Path:
    """Write a site with ports of its own under a folder and return where it is."""
    (mapping or make_mapping()).save(folder / "home.json")
    ports = {
        "broker": BrokerEndpoint(host="localhost", port=free_port()),
        "dashboard": Endpoint(port=free_port()),
        "metrics": Endpoint(port=free_port()),
    }
    make_folder(folder / "site", folder / "home.json", site=name, **ports | changes)
    return folder / "site"


class Visitor:
    """A plain MQTT client that notes what happens to it.

    ``certificate`` and ``key`` are files, or None for a visitor without.
    """

    def __init__(self, site, name, certificate=None, key=None, *, client_id=None, tls=True):
        self.messages, self.name = [], name
        self.connected, self.closed = threading.Event(), threading.Event()
        self.drops = 0
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id or name,
            protocol=mqtt.MQTTv5,
            reconnect_on_failure=False,
        )
        if tls:
            ca = Path(site) / "fusion" / "ca.crt"
            self.client.tls_set(str(ca), certificate and str(certificate), key and str(key))
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_message = lambda _c, _u, m: self.messages.append((m.topic, m.payload))

    def _on_connect(self, _client, _data, _flags, reason, _more):
        if not reason.is_failure:
            self.connected.set()

    def _on_disconnect(self, *_):
        self.drops += 1
        self.closed.set()

    def connect(self, port, **more) -> bool:
        """Whether the broker lets it in."""
        try:
            self.client.connect("localhost", port, keepalive=30, **more)
        except OSError:  # ssl.SSLError is one
            return False
        self.client.loop_start()
        eventually(lambda: self.connected.is_set() or self.closed.is_set())
        # A refusal may follow the handshake: what is let in can also ask something.
        return self.connected.is_set() and not self.closed.wait(0.1)

    def publish(self, topic, payload=b"x"):
        self.client.publish(topic, payload, qos=1)

    def subscribe(self, topic):
        """Subscribe and wait for the answer: what is sent before it would be missed by anybody."""
        answered = threading.Event()
        self.client.on_subscribe = lambda *_: answered.set()
        self.client.subscribe(topic, qos=1)
        eventually(lambda: answered.is_set() or self.closed.is_set())

    def leave(self):
        self.client.disconnect()
        if not self.connected.is_set() and (socket := self.client.socket()) is not None:
            socket.close()  # or it would wait for the broker's answer to the end
        self.client.loop_stop()


def fusion_visitor(site) -> Visitor:
    folder = Path(site) / "fusion"
    return Visitor(site, "fusion", folder / "fusion.crt", folder / "fusion.key")


def visitor_of(site, enrolment, folder: Path, **more) -> Visitor:
    """A visitor with what stands in an enrolment."""
    certificate, key = folder / f"{enrolment.client}.crt", folder / f"{enrolment.client}.key"
    certificate.write_text(enrolment.certificate)
    key.write_text(enrolment.key)
    return Visitor(site, enrolment.client, certificate, key, **more)


def fetch(address) -> tuple[int, str]:
    """Return the status and the text of a page."""
    try:
        with urllib.request.urlopen(address) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def eventually(condition, seconds=60.0) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class _ReadyBroker(Broker):
    """Has read its list of revoked certificates too: the port is open before that."""

    def start(self):
        super().start()
        assert eventually(self._greets), self.log_end()

    def _greets(self) -> bool:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with socket.create_connection(("localhost", self.port), timeout=60) as line:
                context.wrap_socket(line).close()
        except OSError:
            return False
        return True


def broker_of(site) -> Broker:
    return _ReadyBroker.of_site(site)
