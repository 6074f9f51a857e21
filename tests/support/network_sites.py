"""Sites without TLS for tests and figures: enrolments, clients.json and services by hand."""

import base64
import secrets
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.export.neutral import Policy, bundle_body, neutral_form
from discreet.export.signing import SigningKey
from discreet.files import PRIVATE, write_whole
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.service import FusionService, FusionSettings
from discreet.network.site.settings import Client, Clients, model_bytes
from discreet.network.store import open_reader, open_store
from discreet_sensor.connecting import BrokerAddress
from discreet_sensor.enrolment import BrokerPlace, Enrolment
from discreet_sensor.wire import RoundClock

SIGNING = SigningKey(Ed25519PrivateKey.generate())
NO_PEM = "-----BEGIN NOTHING"


class ListeningService(FusionService):
    """A worker that knows when the broker sends it messages."""

    @property
    def listening(self):
        return self._link.listening


class PlainSite:
    """A site on a broker without TLS; one client per sensor unless told otherwise."""

    def __init__(self, folder, mapping, port, *, interval=0.2, deadline=0.3, database=None):
        self.folder, self.mapping, self.port = Path(folder), mapping, port
        self.name, self.database = "home", database or "sqlite:fusion.db"
        self.epoch = int(time.time()) - 3600
        self.clock = RoundClock(float(self.epoch), interval, deadline)
        self.clients = {}
        self.file = self.folder / "clients.json"
        self.save()

    def save(self):
        write_whole(self.file, model_bytes(Clients(clients=self.clients)), PRIVATE)

    def enrol(self, client, sensors, *, batch=1, policy=None):
        """Add a client and return its enrolment."""
        key = secrets.token_hex(32)
        self.clients[client] = Client(
            sensors=tuple(sensors), batch=batch, key=key, serial="01", enrolled=datetime.now(UTC)
        )
        self.save()
        forms = {each.name: each for each in neutral_form(self.mapping, policy or Policy())}
        bundles = [SIGNING.sign(bundle_body(forms[sensor])) for sensor in sensors]
        return Enrolment(
            site=self.name,
            client=client,
            sensors=tuple(sensors),
            batch=batch,
            epoch=self.epoch,
            interval=self.clock.interval,
            broker=BrokerPlace("127.0.0.1", self.port, tls=False),
            boot=1,
            mapping=self.mapping.id,
            certificate=NO_PEM,
            key=NO_PEM,
            ca=NO_PEM,
            mac_key=key,
            public_key=SIGNING.public_hex,
            bundles=tuple(base64.b64encode(each).decode() for each in bundles),
        )

    def revoke(self, client):
        old = self.clients[client]
        self.clients[client] = old.model_copy(update={"revoked": datetime.now(UTC)})
        self.save()

    def service(self, timekeeper=None, shared=None, **options):
        """A worker of the fusion centre in this process; see ``Running``."""
        settings = FusionSettings(
            self.name, self.clock, BrokerAddress("127.0.0.1", self.port), **options
        )
        store = open_store(self.database, self.folder, self.name, shared)
        registry = Registry(self.file, self.name, self.mapping)
        return ListeningService(settings, self.mapping, registry, store, timekeeper=timekeeper)

    def reader(self):
        return open_reader(self.database, self.folder, self.name)

    def stored(self):
        """Client, boot, seq, round and symbols of all messages."""
        store = open_store(self.database, self.folder, self.name)
        try:
            return [row[:5] for row in store.messages(0, 2**32)]
        finally:
            store.close()


class Running:
    """A service in a thread, which has tried its database."""

    def __init__(self, service):
        self.service = service
        self._thread = threading.Thread(target=service.run)

    def __enter__(self):
        self._thread.start()
        wait_for(lambda: "database" in self.service.state.summary()["parts"])
        return self.service

    def __exit__(self, *_):
        self.service.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()


def wait_for(condition, seconds=60.0):
    """Wait until something is true; fail if it does not come to be."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)
    return found
