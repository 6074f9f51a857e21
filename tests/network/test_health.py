"""One table of states: doctor's exit code, ``/health`` and the dashboard agree on each of them."""

import ast
import inspect
import json
import math
import re
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.commands import run
from support.network_samples import additive_mapping
from support.network_sites import Running, wait_for
from support.sites import broker_of, fetch, make_site, needs_mosquitto

from discreet.network import health
from discreet.network.dashboard.snapshot import SiteView, Snapshots
from discreet.network.fusion.hosting import host_worker
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import Pages, State
from discreet.network.fusion.watching import Watch, own_notes
from discreet.network.health import BAD, GOOD, WARN, Finding
from discreet.network.observed import DeployedFiles
from discreet.network.site.authority import Entry, known_certificates, load_authority, load_register
from discreet.network.site.settings import (
    Client,
    Clients,
    SiteFiles,
    load_clients,
    load_site,
    model_bytes,
    save_clients,
)
from discreet.network.store import check_database, open_reader, open_store
from discreet.network.store.database import StoreError
from discreet.network.store.rows import _ALARMS, Batch, Decision, StoredMessage, note_name
from discreet_sensor.wire import RoundClock

pytestmark = [pytest.mark.slow, needs_mosquitto]

NAMES = ["hall", "door", "bed", "bath"]
MAPPING = additive_mapping(names=NAMES)
BEFORE = additive_mapping(names=NAMES[:3])
WORKERS = ["fusion", "fusion-2"]


@pytest.fixture(scope="module")
def broker_site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("health")
    site = make_site(folder, MAPPING, interval=1.0, deadline=2.0, workers=2)
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
    """A site with four devices, each heard a moment ago, and a fusion centre that notes it.

    ``workers``: what each of them notes besides. ``runs``: whether they do, and answer.
    """

    def __init__(self, folder):
        self.folder, self.site, self.files = folder, load_site(folder), SiteFiles(folder)
        changed = (self.files.register, self.files.certificates, self.files.clients)
        self._saved = {file: file.read_bytes() for file in (*changed, self.files.devices)}
        self.file = folder / "data/fusion.db"
        for file in self.file.parent.glob("fusion.db*"):
            file.unlink()
        self.store = open_store(self.site.database, folder, self.site.key)
        self.store.prepare()
        self.registry = Registry(self.files.clients, self.site.site, MAPPING)
        self.state, self.now, self.runs = State(), time.time(), True
        check = lambda: check_database(self.site.database, folder)  # noqa: E731
        deployed = DeployedFiles(folder)
        self.watch = Watch(self.site, self.registry, self.store, self.state, check, deployed)
        serials = [deployed().serial_of(name) for name in WORKERS]
        self.workers = {
            name: {"name": name, "mapping": MAPPING.id, "certificate": serial}
            for name, serial in zip(WORKERS, serials, strict=True)
        }
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

    def decide(self, ago=1.0, reported=4):
        clock = RoundClock(self.site.epoch, self.site.interval, self.site.deadline)
        number = clock.last_due(self.now - ago)
        self.store.decide([Decision(number, self.now - ago, reported, 4, (0.5, 0.5), "True")])

    def look(self):
        """What the fusion centre does every two seconds."""
        try:
            self.watch._begin_check = lambda: None
            self.watch._run_check(self.watch._check)
            self.registry.refresh()
            own = own_notes(self.state)
            notes = {note_name(name): own | {"runs": runs} for name, runs in self.workers.items()}
            if notes:
                self.store.note(own | notes | {"messages": 1}, self.now)
            self.watch.look(self.now)
        except StoreError as error:
            self.state.turn("database", error.state, str(error))

    def close(self):
        self.store.close()
        for file, content in self._saved.items():
            file.write_bytes(content)
        for file in self.files.mappings.glob("*"):
            file.unlink()


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


def unheard(*reported, trail=True):
    """All messages come after the deadline, by less than a message more."""

    def come(living):
        living.hear(*NAMES, late=2.0)  # and what is left of a round
        for k, each in enumerate(reported):
            living.decide(ago=len(reported) - k, reported=each)
        living.state.trail(NAMES if trail else [])

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


def alarm(kind, client="hall"):
    def ring(living):
        quiet(living)
        living.store.alarm(client, kind, "As noticed.", living.now)

    return ring


def never_run(living):
    living.workers, living.runs = {}, False


def stopped(living):
    """It has ended a minute ago, with all that it did."""
    quiet(living)
    living.look()
    living.store._base.change("UPDATE health SET at = at - 60")
    living.workers, living.runs = {}, False


def stuck(living):
    """It answers, but has not looked for a minute."""
    stopped(living)
    living.runs, living.look = True, lambda: None
    living.state._judged -= 60.0


def silent_worker(living):
    quiet(living)
    del living.workers["fusion-2"]


def unseen(living):
    living.hear(*NAMES[1:])
    living.decide()


def hardly_any(living):
    living.hear(NAMES[0])
    living.decide()


def outdated(**runs):
    def load(living):
        quiet(living)
        living.workers["fusion-2"] |= runs

    return load


def other_tables(*, known):
    """A device has tables of another mapping, that the site has had, or not."""

    def give(living):
        quiet(living)
        if known:
            living.files.mappings.mkdir(exist_ok=True)
            BEFORE.save(living.files.mappings / "before.json")
        clients = load_clients(living.folder).clients
        clients = clients | {"hall": clients["hall"].model_copy(update={"mapping": BEFORE.id})}
        save_clients(living.folder, Clients(clients=clients))

    return give


def ends(days):
    """A device's certificate ends."""

    def age(living):
        quiet(living)
        at = datetime.now(UTC) + timedelta(days=days)
        register = load_register(living.folder)
        entry = Entry(name="hall", role="sensor", serial="0a", expires=at)
        register = register.model_copy(update={"issued": (*register.issued, entry)})
        known = known_certificates(load_authority(living.folder), register)
        living.files.register.write_bytes(model_bytes(register))
        living.files.certificates.write_bytes(model_bytes(known))

    return age


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
    ("late again and again", unheard(0, 4, 0), BAD, "4 devices late"),
    ("late once", unheard(0, 0, 0, trail=False), GOOD, ""),
    ("decisions without sensors", unheard(4, 0, 0, 0), BAD, "Decisions without any sensor"),
    ("a suspended device", suspended, BAD, "hall (malformed, for 60 s)"),
    ("a clone", alarm("cloned"), BAD, "runs twice"),
    ("a restored device", alarm("restored"), BAD, "lost or restored"),
    ("a replaced database", alarm("replaced"), BAD, "replaced"),
    ("a site served twice", alarm("copied", ""), BAD, "served twice"),
    ("no fusion centre yet", never_run, BAD, "fusion centre has not run"),
    ("a stopped fusion centre", stopped, BAD, "fusion centre is silent"),
    ("a stuck fusion centre", stuck, BAD, "fusion centre is"),
    ("a silent worker", silent_worker, WARN, "1 of 2 workers silent"),
    ("a device never seen", unseen, WARN, "1 device never seen"),
    ("most devices never seen", hardly_any, BAD, f"{len(NAMES) - 1} devices never seen"),
    ("a worker's mapping", outdated(mapping=BEFORE.id), BAD, "1 worker with another mapping"),
    ("a worker's certificate", outdated(certificate="ab"), BAD, "1 worker with an old certificate"),
    ("unknown tables", other_tables(known=False), BAD, "1 device with another mapping"),
    ("tables of before", other_tables(known=True), WARN, "1 device with another mapping"),
    ("an ended certificate", ends(-1), BAD, "hall"),
    ("a certificate that ends", ends(30), WARN, "hall"),
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
        answer, told, metrics = ask(living)
        reader = open_reader(living.site.database, broker_site, living.site.key)
        seen = Snapshots(SiteView(broker_site), reader, lambda: living.now).now()
        reader.close()
    finally:
        living.close()
    assert (code == 3) == (answer != 200) == (seen.level == BAD) == (state == BAD), printed
    shown = " ".join(f"{each.short} {each.words}" for each in seen.findings)
    if state == BAD or words:
        assert words.lower() in printed.lower() and words in shown, shown
    if not living.runs:
        return
    assert words in told
    found = {each.name: each for each in text_string_to_metric_families(metrics)}
    counts = {each.labels["level"]: each.value for each in found["discreet_findings"].samples}
    assert (counts["bad"] > 0) == (state == BAD) and (counts["warn"] > 0) >= (state == WARN)


def ask(living):
    """Status and text of ``/health``, and the metrics; 0 where nobody answers."""
    if not living.runs:
        return 0, "", ""
    with Pages(living.state, "127.0.0.1", 0) as pages:
        answer, health = fetch(f"http://127.0.0.1:{pages.port}/health")
        return answer, health, fetch(f"http://127.0.0.1:{pages.port}/metrics")[1]


def test_every_finding_of_the_code_has_a_state(broker_site, monkeypatch):
    """Whatever ``health`` can find is found in one of the states above, at each of its levels."""
    made = {}

    def note(level, short, *more):
        line, kind = sys._getframe(1).f_lineno, re.sub(r"\d+", "", short)
        made.setdefault(line, set()).add((level, kind))
        return Finding(level, short, *more)

    monkeypatch.setattr(health, "Finding", note)
    for _, inject, *_ in STATES:
        living = Living(broker_site)
        inject(living)
        living.look()
        living.close()
    code = ast.parse(inspect.getsource(health))
    calls = {
        each.lineno: 1
        for each in ast.walk(code)
        if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "Finding"
    }
    for loop in (each for each in ast.walk(code) if isinstance(each, ast.For)):
        if isinstance(loop.iter, ast.Tuple):  # a table of what may be found
            inside = {each.lineno for each in ast.walk(loop) if isinstance(each, ast.Call)}
            calls |= {line: len(loop.iter.elts) for line in calls.keys() & inside}
    assert len(calls) > 10 and sum(calls.values()) > 15
    assert {line for line, count in calls.items() if len(made.get(line, ())) < count} == set()
    shown = {short for found in made.values() for _, short in found}
    assert shown >= {short for short, _ in _ALARMS.values()}


@pytest.mark.parametrize("refused", [False, True], ids=["away", "refusing"])
def test_a_first_start_without_a_broker_is_told_by_all(tmp_path, monkeypatch, capsys, refused):
    site = make_site(tmp_path, MAPPING, interval=1.0, deadline=2.0)
    (tmp_path / "other").mkdir()
    other = make_site(tmp_path / "other", MAPPING, broker=load_site(site).broker)
    service = host_worker(site)
    assert json.loads(service.state.health()[1])["findings"][0]["short"].endswith("starts")
    levels = {service.state.health()[0]}

    def told(words):
        level, about = service.state.health()
        levels.add(level)
        return words in about.decode()

    with broker_of(other) if refused else nullcontext(), Running(service):
        wait_for(lambda: told("The broker is unreachable"))
        wait_for(lambda: told("does not answer"))
        code, printed, _ = run(monkeypatch, capsys, "doctor", "--site", str(site))
        reader = open_reader(load_site(site).database, site, load_site(site).key)
        seen = Snapshots(SiteView(site), reader).now()
        reader.close()
        assert code == 3 and "the broker is unreachable" in printed and "never" not in printed
        assert "The broker is unreachable" in {each.short for each in seen.findings}
        assert levels == {BAD}
        if not refused:
            with broker_of(site):
                wait_for(lambda: service.state.health()[0] != BAD)


def test_the_metrics_name_devices(broker_site):
    living = Living(broker_site)
    living.hear("hall", late=30.0)
    living.hear("door")
    living.store.commit(Batch(refusals=Counter({("hall", "mac"): 3, ("hall", "late"): 9})))
    living.look()
    living.close()
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
    living.close()
    shown = living.state.metrics().decode()
    for rule in group["rules"]:
        assert rule["annotations"]["summary"]
        assert f'job="discreet-{living.site.key}"' in rule["expr"]
        for name in re.findall(r"discreet_\w+", rule["expr"]):
            assert f"\n{name}" in shown, name
    assert len(group["rules"]) == 7
