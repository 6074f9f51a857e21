"""One table of states: doctor's exit code, ``/health`` and the dashboard agree on each of them."""

import math
import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.commands import run
from support.network_samples import additive_mapping
from support.sites import broker_of, fetch, make_site, needs_mosquitto

from discreet.network.dashboard.site_view import SiteView
from discreet.network.dashboard.snapshot import Snapshots
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import Pages, State
from discreet.network.fusion.watching import Watch, own_notes
from discreet.network.health import BAD, GOOD, WARN
from discreet.network.site.settings import Client, Clients, SiteFiles, load_site, save_clients
from discreet.network.store import check_database, open_reader, open_store
from discreet.network.store.connection import StoreError
from discreet.network.store.rows import Batch, Decision, StoredMessage
from discreet_sensor.wire import RoundClock

pytestmark = [pytest.mark.slow, needs_mosquitto]

NAMES = ["hall", "door", "bed", "bath"]


@pytest.fixture(scope="module")
def broker_site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("health")
    site = make_site(folder, additive_mapping(names=NAMES), interval=1.0, deadline=2.0)
    settings = load_site(site)
    settings = settings.model_copy(update={"epoch": settings.epoch - 3600})  # made an hour ago
    (site / "site.json").write_text(settings.model_dump_json())
    clients = {
        name: Client(sensors=(name,), key="0" * 64, serial="0a", enrolled=datetime.now(UTC))
        for name in NAMES
    }
    save_clients(site, Clients(clients=clients))
    with broker_of(site):
        yield site


class Living:
    """A site with four devices, each heard a moment ago, and a fusion centre that notes it."""

    def __init__(self, folder):
        self.folder, self.site = folder, load_site(folder)
        self.file = folder / "data/fusion.db"
        for file in self.file.parent.glob("fusion.db*"):
            file.unlink()
        self.store = open_store(self.site.database, folder, self.site.key)
        self.store.prepare()
        mapping = additive_mapping(names=NAMES)
        registry = Registry(SiteFiles(folder).clients, self.site.site, mapping)
        self.state, self.now = State(), time.time()
        check = lambda: check_database(self.site.database, folder)  # noqa: E731
        self.watch = Watch(self.site, registry, self.store, self.state, check)
        self.state.turn("broker", "here")
        self.state.turn("clock", "right")

    def hear(self, *names, ago=1.0, late=0.0, messages=3, boot=1):
        at = self.now - ago
        last = math.floor(at - late - self.site.epoch) - 1
        rows = [
            StoredMessage(name, boot, k, last - messages + 1 + k, b"\1", 0, at)
            for name in names
            for k in range(messages)
        ]
        self.store.commit(Batch(rows))

    def decide(self, ago=1.0):
        clock = RoundClock(self.site.epoch, self.site.interval, self.site.deadline)
        number = clock.last_due(self.now - ago)
        self.store.decide([Decision(number, self.now - ago, 4, 4, (0.5, 0.5), "True")])

    def look(self):
        """What the fusion centre does every two seconds."""
        try:
            self.watch._begin_check = lambda: None
            self.watch._run_check(self.watch._check)
            self.store.note(own_notes(self.state) | {"messages": 1}, self.now)
            self.watch.look(self.now)
        except StoreError as error:
            self.state.turn("database", error.state, str(error))


def quiet(living):
    living.hear(*NAMES)
    living.decide()


def corrupt_page(living):
    quiet(living)
    living.hear(*NAMES, messages=2000, boot=2)
    living.store.close()
    with closing(sqlite3.connect(living.file)) as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        base.execute("PRAGMA journal_mode = DELETE")
    with living.file.open("r+b") as stream:
        stream.seek(4096 * 40)
        stream.write(b"\x5a" * 4096)


def changed(statement):
    def change(living):
        quiet(living)
        living.store._base.change(statement)

    return change


def dead(living):
    living.hear(*NAMES, ago=60.0)
    living.decide()


def one_dead(living):
    quiet(living)
    living.store._base.change("UPDATE clients SET last_seen = last_seen - 60 WHERE client = 'bed'")


def late(*names):
    def come(living):
        living.hear(*(name for name in NAMES if name not in names))
        living.hear(*names, late=30.0)
        living.decide()

    return come


def refused(reason):
    def refuse(living):
        quiet(living)
        living.store.commit(Batch(refusals=Counter({("hall", reason): 3})))

    return refuse


def suspended(living):
    quiet(living)
    living.state.suspend({"hall": "malformed, for 60 s"})


def backlog(living):
    living.hear(*NAMES, ago=700.0, messages=1)
    living.hear(*NAMES, messages=650, boot=2)
    living.decide()


def alarm(kind):
    def ring(living):
        quiet(living)
        living.store.alarm("hall", kind, "As noticed.", living.now)

    return ring


def no_decisions(living):
    living.hear(*NAMES)


def old_decision(living):
    living.hear(*NAMES)
    living.decide(ago=60.0)


def part(name, state):
    def turn(living):
        quiet(living)
        living.state.turn(name, state, "As seen.")

    return turn


STATES = [
    ("quiet", quiet, GOOD, ""),
    ("a backlog is delivered", backlog, GOOD, ""),
    ("a corrupt page", corrupt_page, BAD, "damaged"),
    ("an older schema", changed("UPDATE schema_version SET version = 2"), BAD, "version 2"),
    ("a newer schema", changed("UPDATE schema_version SET version = 9"), BAD, "version 9"),
    ("all sensors dead", dead, BAD, "4 devices silent"),
    ("one sensor dead", one_dead, BAD, "1 device silent"),
    ("half late", late("hall", "bed"), BAD, "2 devices late"),
    ("one of four late", late("hall"), WARN, "1 device late"),
    ("a suspended device", suspended, BAD, "hall (malformed, for 60 s)"),
    ("a clone", alarm("cloned"), BAD, "runs twice"),
    ("a restored device", alarm("restored"), BAD, "lost or restored"),
    ("a replaced database", alarm("replaced"), BAD, "replaced"),
    ("no decisions", no_decisions, BAD, "No decision yet"),
    ("an old decision", old_decision, BAD, "decision is old"),
    ("no broker", part("broker", "away"), BAD, "broker is unreachable"),
    ("a jumped clock", part("clock", "unsure"), WARN, "clock has jumped"),
    ("a wrong clock", part("clock", "wrong"), BAD, "clock has jumped"),
    ("a device's clock ahead", refused("early"), BAD, "clock is ahead"),
    ("refused messages", refused("mac"), WARN, "Messages are refused"),
]


@pytest.mark.parametrize(
    ("state", "words"), [each[2:] for each in STATES], ids=[e[0] for e in STATES]
)
def test_all_agree(broker_site, monkeypatch, capsys, request, state, words):
    inject = dict((name, each) for name, each, *_ in STATES)[request.node.callspec.id]
    living = Living(broker_site)
    try:
        inject(living)
        living.look()
        code, printed, _ = run(monkeypatch, capsys, "doctor", "--site", str(broker_site))
        with Pages(living.state, "127.0.0.1", 0) as pages:
            answer, health = fetch(f"http://127.0.0.1:{pages.port}/health")
            metrics = fetch(f"http://127.0.0.1:{pages.port}/metrics")[1]
        reader = open_reader(living.site.database, broker_site, living.site.key)
        seen = Snapshots(SiteView(broker_site), reader, lambda: living.now).now()
        reader.close()
    finally:
        living.store.close()
    assert (code == 3) == (answer == 503) == (seen.level == BAD) == (state == BAD), printed
    shown = " ".join(f"{each.short} {each.words}" for each in seen.findings)
    if state == BAD or words:
        assert words in health and words.lower() in printed.lower() and words in shown, shown
    found = {each.name: each for each in text_string_to_metric_families(metrics)}
    counts = {each.labels["level"]: each.value for each in found["discreet_findings"].samples}
    assert (counts["bad"] > 0) == (state == BAD) and (counts["warn"] > 0) >= (state == WARN)


def test_the_metrics_name_devices(broker_site):
    living = Living(broker_site)
    living.hear("hall", late=30.0)
    living.hear("door")
    living.store.commit(Batch(refusals=Counter({("hall", "mac"): 3, ("hall", "late"): 9})))
    living.look()
    living.store.close()
    samples = {
        (each.name, each.labels.get("device")): each.value
        for family in text_string_to_metric_families(living.state.metrics().decode())
        for each in family.samples
    }
    assert samples["discreet_device_refused_total", "hall"] == 3
    assert samples["discreet_device_messages_total", "door"] == 3
    assert samples["discreet_device_lateness_seconds", "hall"] == pytest.approx(30.5, abs=0.5)
    assert samples["discreet_device_silence_seconds", "door"] == pytest.approx(1.0, abs=0.1)


def test_the_alert_rules_are_about_what_is_measured(broker_site):
    import re

    import yaml

    text = (broker_site / "alerts.yaml").read_text()
    (group,) = yaml.safe_load(text)["groups"]
    living = Living(broker_site)
    quiet(living)
    living.look()
    living.store.close()
    shown = living.state.metrics().decode()
    for rule in group["rules"]:
        assert rule["annotations"]["summary"]
        assert f'job="discreet-{living.site.key}"' in rule["expr"]
        for name in re.findall(r"discreet_\w+", rule["expr"]):
            assert f"\n{name}" in shown, name
    assert len(group["rules"]) == 7
