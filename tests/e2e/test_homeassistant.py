"""A real Home Assistant writes the history that is imported, and shows the decision of a site.

It is 400 MB and takes minutes to install, which is too much for every run: ``make homeassistant``
installs it into an environment of its own and runs this.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
from support.commands import run, run_apart
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
from research.home_history import BEGIN, RESTARTS, ZONE, make_history

HASS = os.environ.get("DISCREET_HASS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
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
  purge_keep_days: 90
history:
input_boolean:
  cooking:
    name: Cooking
input_text:
  heard:
    name: Heard
  silence:
    name: Silence
automation: !include automations.yaml
"""
CLIENT = "http://127.0.0.1/"
BLUEPRINTS = Path(__file__).parents[2] / "home_assistant" / "blueprints"


class Core:
    """Home Assistant's core in a folder of its own, with a user who may do everything."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.base, self.token = f"http://127.0.0.1:{self.port}", None
        folder.mkdir()
        (folder / "configuration.yaml").write_text(CONFIGURATION.format(port=self.port))
        (folder / "automations.yaml").write_text("[]\n")
        shutil.copytree(BLUEPRINTS, folder / "blueprints")

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
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())

    def put(self, entity, state):
        self.ask(f"/api/states/{entity}", {"state": state})

    def state(self, entity):
        states = {each["entity_id"]: each["state"] for each in self.ask("/api/states")}
        return states.get(entity, "")

    def decisions(self):
        """Return entity and state of everything that a site has announced."""
        every = self.ask("/api/states")
        return [
            (each["entity_id"], each["state"])
            for each in every
            if each["entity_id"].startswith("binary_sensor.discreet")
        ]

    def use_broker(self, port):
        """Set the MQTT integration up, as in its form."""
        flow = self.ask("/api/config/config_entries/flow", {"handler": "mqtt"})
        path = f"/api/config/config_entries/flow/{flow['flow_id']}"
        made = self.ask(path, {"broker": "127.0.0.1", "port": port})
        assert made["type"] == "create_entry"

    def automate(self, name, **inputs):
        """Make an automation from the blueprint, as its form does."""
        blueprint = {"path": "discreet/notify_on_decision.yaml", "input": inputs}
        content = {"alias": name, "description": "", "use_blueprint": blueprint}
        self.ask(f"/api/config/automation/config/{name}", content)

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
        core.use_broker(own.port)

        def shown():
            return [state for _, state in core.decisions()]

        def follows(number):
            fusion.publish(topic, config)
            decide(number)
            time.sleep(1)
            return shown() == [("off", "on")[number]]

        assert eventually(lambda: follows(0), 180)
        ((entity, _),) = core.decisions()
        core.automate(
            "notify", decision=entity, held={"seconds": 1}, silent_for={"seconds": 2},
            actions=[say("heard", "{{ message }}")],
            silent_actions=[say("silence", "{{ name }}: {{ states(entity) }}")],
        )  # fmt: skip
        core.automate("plainly", decision=entity)
        assert eventually(lambda: core.state("automation.plainly") == "on", 120)
        assert eventually(
            lambda: follows(1) and "(90 % sure)" in core.state("input_text.heard"), 180
        )
        assert core.state("input_text.heard").endswith(": on (90 % sure)")
        assert core.state("input_text.silence") in ("", "unknown")
        assert eventually(lambda: follows(0), 60)
        assert eventually(lambda: shown() == ["unavailable"], 120)  # as nothing more is decided
        assert eventually(lambda: "unavailable" in core.state("input_text.silence"), 120)
        fusion.leave()
        core.stop()


def say(where, text):
    """An action that keeps a text where a test can read it."""
    data = {"value": text}
    return {"service": "input_text.set_value", "target": {"entity_id": f"input_text.{where}"},
            "data": data}  # fmt: skip


# --- Thirty days -------------------------------------------------------------------------------

# By the core's own tables, which it takes for its own when it starts.
WRITE = """
import json, sys
from datetime import datetime, timezone
from sqlalchemy import create_engine, insert
from homeassistant.components.recorder import db_schema as tables
engine = create_engine("sqlite:///" + sys.argv[1])
tables.Base.metadata.create_all(engine)
given = json.load(sys.stdin)
moment = lambda at: datetime.fromtimestamp(at, timezone.utc)
names = {name: k for k, name in enumerate(sorted({each[1] for each in given["events"]}), start=1)}
with engine.begin() as base:
    base.execute(insert(tables.SchemaChanges), [{"schema_version": tables.SCHEMA_VERSION}])
    base.execute(insert(tables.RecorderRuns), [
        {"start": moment(a), "end": moment(b), "created": moment(a)} for a, b in given["runs"]])
    base.execute(insert(tables.StatesMeta), [
        {"metadata_id": k, "entity_id": name} for name, k in names.items()])
    base.execute(insert(tables.States), [
        {"metadata_id": names[name], "state": state, "last_updated_ts": at, "origin_idx": 0}
        for at, name, state in given["events"]])
"""
DAY = 86_400.0
SENSORS = ("binary_sensor.kitchen_motion", "binary_sensor.hall_motion", "sensor.power",
           "binary_sensor.bed", "binary_sensor.front_door")  # fmt: skip


def write_thirty_days(file):
    """Put a made home's last thirty days where the core keeps its history."""
    events = make_history(30)
    shift = DAY * ((time.time() - events[-1][0]) // DAY)  # whole days: nights stay nights
    edges = [BEGIN, *(BEGIN + day * DAY + k * 1200 for day in RESTARTS for k in (0, 1))]
    edges = [each + shift for each in [*edges, events[-1][0] + 1]]
    content = {
        "events": [(time + shift, name, state) for time, name, state in events],
        "runs": list(zip(edges[::2], edges[1::2], strict=True)),
    }
    python = Path(HASS).parent / "python"
    subprocess.run([python, "-c", WRITE, file], input=json.dumps(content), text=True, check=True)
    return content["events"]


def seen_by(core, entity, begin, end):
    """States of an entity, as the core itself reads them."""
    moment = urllib.parse.quote(pd.Timestamp(begin, unit="s", tz="UTC").isoformat())
    until = urllib.parse.quote(pd.Timestamp(end, unit="s", tz="UTC").isoformat())
    ask = f"/api/history/period/{moment}?end_time={until}&filter_entity_id={entity}"
    (found,) = core.ask(f"{ask}&minimal_response&no_attributes&significant_changes_only=0")
    return [each["state"] for each in found]


@needs_mosquitto
def test_from_thirty_days_of_history_to_a_decision(tmp_path):
    core = Core(tmp_path / "core")
    log = core.folder / "home-assistant_v2.db"
    events = write_thirty_days(log)

    def discreet(*words, codes=(0,)):
        done = run_apart(*words, folder=tmp_path)
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout

    with core:
        begin = events[0][0]
        wanted = [s for t, n, s in events if n == "person.ann" and begin <= t < begin + 3 * DAY]
        assert seen_by(core, "person.ann", begin - 1, begin + 3 * DAY) == wanted

        discreet(
            "import", log, "--every", "5m", "--timezone", ZONE, "--label", "person.ann=who",
            "--label", "input_boolean.cooking=cooking", "--out", "home.csv",
            *(word for name in SENSORS for word in ("--items", name)),
        )  # fmt: skip
        table = pd.read_csv(tmp_path / "home.csv")
        assert len(table) >= 30 * 288 - 10 and set(table) == {"time", "who", "cooking", *SENSORS}
        facts = ("--public", "cooking", "--private", "who", "--group", "time:day")
        discreet("learn", "home.csv", *facts, "--out", "home.json", codes=(0, 3))
        audit = discreet("audit", "home.json", "home.csv", "--json", codes=(0, 3))
        assert json.loads(audit)["mapping_id"]
        ports = [free_port() for _ in range(3)]
        discreet(
            "init", "site", "--mapping", "home.json", "--interval", "2", "--deadline", "2",
            "--port", ports[0], "--metrics-port", ports[1], "--dashboard-port", ports[2],
        )  # fmt: skip
        live = table.dropna().iloc[:300]
        live.to_csv(tmp_path / "live.csv", index=False)
        for k, name in enumerate(SENSORS):
            discreet("enroll", f"d{k}", "--sensor", name, "--site", "site")
        site = tmp_path / "site"
        with broker_of(site), household_broker(site, tmp_path) as own:
            core.use_broker(own.port)
            devices = [
                begun("sensor", f"d{k}.enrol", "--state", f"s{k}", "--read", "csv:live.csv",
                      folder=tmp_path) for k in range(len(SENSORS))
            ]  # fmt: skip
            serve = begun("serve", "site", folder=tmp_path)
            try:
                states = set()

                def follows():
                    states.update(state for _, state in core.decisions())
                    return {"on", "off"} <= states

                assert eventually(follows, 600), states
                ((entity, _),) = core.decisions()
                assert entity.endswith("cooking")
                ended(serve)
                assert eventually(lambda: core.decisions() == [(entity, "unavailable")], 120)
            finally:
                for each in (*devices, serve):
                    ended(each)
        core.stop()


def begun(*words, folder):
    log = (folder / f"{words[0]}-{words[1]}.log").open("wb")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", "discreet", *words], cwd=folder, stdout=log, stderr=log
        )


def ended(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
