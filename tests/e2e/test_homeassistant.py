"""A real Home Assistant writes the history that is imported, and shows the decision of a site.

It is 400 MB and takes minutes to install, which is too much for every run: ``make homeassistant``
installs it into an environment of its own and runs this.
"""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pandas as pd
import pytest
from support.commands import run
from support.helpers import make_mapping
from support.ports import free_port
from support.sites import broker_of, eventually, fusion_visitor, make_site, needs_mosquitto

from discreet.data.columns import written
from discreet.network.broker import Broker
from discreet.network.fusion.closing import discovery_message
from discreet.network.site.joining import enroll_observer
from discreet.network.site.services import BRIDGE_FOLDER
from discreet.network.site.settings import load_site
from discreet_sensor.wire import RoundClock, decision_topic

HASS = os.environ.get("DISCREET_HASS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not HASS, reason="DISCREET_HASS names no hass; run: make homeassistant"),
]
CONFIGURATION = """
homeassistant:
  name: Home
  time_zone: Europe/Berlin
http:
  server_host: 127.0.0.1
  server_port: {port}
api:
config:
onboarding:
recorder:
  commit_interval: 1
input_boolean:
  cooking:
    name: Cooking
"""
CLIENT = "http://127.0.0.1/"


class Core:
    """Home Assistant's core in a folder of its own, with a user who may do everything."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.base, self.token = f"http://127.0.0.1:{self.port}", None
        folder.mkdir()
        (folder / "configuration.yaml").write_text(CONFIGURATION.format(port=self.port))

    def start(self):
        self.log = (self.folder / "core.log").open("ab")
        self.process = subprocess.Popen(
            [HASS, "-c", str(self.folder)], stdout=self.log, stderr=self.log
        )
        end = time.monotonic() + 1200
        while not self._answers():
            assert self.process.poll() is None and time.monotonic() < end, self._said()
            time.sleep(0.5)

    def _said(self):
        return (self.folder / "core.log").read_text()[-3000:]

    def _answers(self):
        try:
            if self.token is None:
                user = {"client_id": CLIENT, "name": "A", "username": "a", "password": "b" * 12}
                answer = self.ask("/api/onboarding/users", {**user, "language": "en"})
                code = {"grant_type": "authorization_code", "code": answer["auth_code"]}
                form = urllib.parse.urlencode({**code, "client_id": CLIENT}).encode()
                self.token = self.ask("/auth/token", form)["access_token"]
            return self.ask("/api/config")["state"] == "RUNNING"
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def ask(self, path, content=None):
        body = content if content is None or isinstance(content, bytes) else json.dumps(content)
        request = urllib.request.Request(
            self.base + path, body.encode() if isinstance(body, str) else body
        )
        if not isinstance(content, bytes):
            request.add_header("Content-Type", "application/json")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def put(self, entity, state):
        self.ask(f"/api/states/{entity}", {"state": state})

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(180)
        self.log.close()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


def live(core):
    """Let things happen for some seconds."""
    for k in range(6):
        core.put("person.ann", "home" if k % 2 else "not_home")
        core.put("sensor.power", "unavailable" if k == 3 else str(100 + k))
        service = "turn_on" if k % 3 == 0 else "turn_off"
        core.ask(f"/api/services/input_boolean/{service}", {"entity_id": "input_boolean.cooking"})
        time.sleep(1.1)


def imported(monkeypatch, capsys, core, out):
    log = core.folder / "home-assistant_v2.db"
    code, printed, error = run(
        monkeypatch, capsys, "import", log, "--every", "1s", "--timezone", "Europe/Berlin",
        "--items", "sensor.power", "--label", "person.ann=who",
        "--label", "input_boolean.cooking=cooking", "--out", out,
    )  # fmt: skip
    assert code == 0, error
    return pd.read_csv(out), printed


def test_the_history_of_a_real_home_assistant(monkeypatch, capsys, tmp_path):
    with Core(tmp_path / "core") as core:
        live(core)
        time.sleep(3)  # the recorder commits every second
        table, _ = imported(monkeypatch, capsys, core, tmp_path / "running.csv")
        assert list(table) == ["time", "cooking", "who", "sensor.power"]
        assert set(table["who"]) == {"home", "not_home"} and set(table["cooking"]) == {"on", "off"}
        seen = table["sensor.power"].dropna()
        assert seen.tolist() == sorted(seen) and set(seen) >= {101.0, 102.0, 104.0, 105.0}
        assert table["sensor.power"].isna().any()
        core.stop()
        time.sleep(5)
        core.start()  # the recorder knows that it did not run
        core.put("person.ann", "home")
        core.put("sensor.power", "7")
        time.sleep(3)
        core.stop()
    table, printed = imported(monkeypatch, capsys, core, tmp_path / "after.csv")
    assert "1 times the recorder did not run" in printed
    assert table["sensor.power"].iloc[-1] == 7


def household_broker(site, folder):
    """A broker as households have it, bridged to that of the site."""
    enroll_observer(site, "household", folder / "household")
    broker = Broker.plain(folder / "own", free_port())
    bridge = (folder / "household" / "bridge.conf").read_text()
    with (folder / "own" / "mosquitto.conf").open("a") as config:
        config.write(bridge.replace(BRIDGE_FOLDER, str(folder / "household")))
    return broker


@needs_mosquitto
def test_the_decision_appears_follows_and_goes_unavailable(tmp_path):
    mapping = make_mapping()
    site = make_site(tmp_path, mapping)
    classes = [written(each) for each in mapping.public.classes]
    topic, config = discovery_message("home", "k", mapping, RoundClock(0.0, 8.0, 2.0))
    fusion = fusion_visitor(site)

    def decide(number):
        content = {"decision": classes[number], "probability": 0.9, "reported": 1, "expected": 1}
        fusion.publish(decision_topic("home"), json.dumps(content).encode())

    with broker_of(site), household_broker(site, tmp_path) as own, Core(tmp_path / "core") as core:
        assert fusion.connect(load_site(site).broker.port)
        flow = core.ask("/api/config/config_entries/flow", {"handler": "mqtt"})
        path = f"/api/config/config_entries/flow/{flow['flow_id']}"
        made = core.ask(path, {"broker": "127.0.0.1", "port": own.port})
        assert made["type"] == "create_entry"

        def shown():
            every = core.ask("/api/states")
            return [each["state"] for each in every if "discreet" in each["entity_id"]]

        def follows(number):
            fusion.publish(topic, config)
            decide(number)
            time.sleep(1)
            return shown() == [("off", "on")[number]]

        assert eventually(lambda: follows(1), 180)
        assert eventually(lambda: follows(0), 60)
        assert eventually(lambda: follows(1), 60)
        assert eventually(lambda: shown() == ["unavailable"], 120)  # as nothing more is decided
        fusion.leave()
        core.stop()
