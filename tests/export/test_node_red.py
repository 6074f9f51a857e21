"""The Node-RED node: its modules against vectors and Python, all of it in a real Node-RED."""

import base64
import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.client_figures import some_enrolment
from support.device_figures import mild_tables
from support.devices import DAY, Words, make_sensor, write_signed
from support.lives import LIVES, compare, step_of, with_answers
from support.network_samples import additive_mapping
from support.network_sites import PlainSite, Running, wait_for
from support.node_red import PACKAGE, NodeRed, run_job
from support.random_sources import BAD, STARTUP, refused_at, stream

from discreet import __version__
from discreet.data.encoders import CodesEncoder
from discreet.export.neutral import bundle_body
from discreet.network.broker import Broker, find_mosquitto
from discreet_sensor import runtime as device

pytestmark = pytest.mark.slow

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "vectors.json").read_text())


def test_messages_acknowledgements_and_tables_are_those_of_the_vectors():
    # JavaScript reads no integers beyond 2^53.
    messages = [each | {"boot": str(each["boot"])} for each in VECTORS["messages"]]
    found = run_job("vectors", VECTORS | {"messages": messages})
    assert found["messages"] == [each["bytes"] for each in VECTORS["messages"]]
    entries = [
        [[str(e[0]), *e[1:]] for e in each["entries"]] for each in VECTORS["acknowledgements"]
    ]
    assert found["acknowledgements"] == entries
    assert set(found["bad"]) == {None}
    for table, wanted in zip(found["tables"], VECTORS["tables"], strict=True):
        assert table["rows"] == wanted["rows"]
        assert table["readings"] == [row for _, row in wanted["readings"]]
        assert table["draws"] == [symbol for *_, symbol in wanted["draws"]]


def test_it_lives_as_the_vectors_have_it():
    enrolments = {name: each["json"] for name, each in VECTORS["life_enrolments"].items()}
    told = [
        {
            "slots": life["slots"],
            "steps": [step | {"pause": step_of(step.get("ms", 0))} for step in with_answers(life)],
        }
        for life in LIVES
    ]
    for life, steps in zip(
        LIVES, run_job("lives", {"enrolments": enrolments, "told": told}), strict=True
    ):
        compare(
            life,
            [
                step and (step[0], [bytes.fromhex(each) for each in step[1]], *step[2:])
                for step in steps
            ],
        )


def test_the_same_blocks_are_refused_as_in_python():
    streams = [stream(kind, 3, STARTUP, 400) for kind in BAD]
    streams.append(np.random.default_rng(1).bytes(32 * 5000))
    found = run_job("health", [base64.b64encode(data).decode() for data in streams])
    assert found == [refused_at(device.Health(), data) for data in streams]


def history(rng, table):
    rows, uptime, found = len(table.tops), 0, []
    for _ in range(30):
        uptime += int(rng.choice([0, 60, 20_000, DAY + 5]))
        found.append(
            (rng.integers(rows, size=rng.integers(1, 5)).tolist(), uptime, bool(rng.random() < 0.2))
        )
        if rng.random() < 0.1:
            uptime = 0
    return found


def test_the_same_words_give_the_same_releases_and_ledgers(tmp_path, key, rng, monkeypatch):
    jobs, wanted = [], []
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    for i in range(30):
        repeat, real = ("code", "period", "never")[i % 3], next(mild_tables(rng, 1))
        budget = float(rng.uniform(2, 40)) if i % 2 else None
        table = make_sensor(CodesEncoder(size=len(real)), real, repeat=repeat, budget=budget)
        job = {"body": bundle_body(table), "entropy": rng.bytes(32 * 64 * 40), "record": b""}
        past = history(rng, table)
        jobs.append(
            {name: base64.b64encode(data).decode() for name, data in job.items()}
            | {"history": past}
        )
        path, ledger = write_signed(tmp_path, table, key), tmp_path / f"{i}.ledger"
        with monkeypatch.context() as patch:
            patch.setattr(os, "urandom", Words(job["entropy"]))

            def start(path=path, ledger=ledger):
                return device.Sensor(path, public_key=key.public_hex, ledger=ledger, make_new=True)

            sensor, symbols = start(), []
            sensor.ledger.store(sensor.ledger.record._replace(first=device._health.first))
            for rows, uptime, reboot in past:
                symbols.append(sensor.release_rows(rows, uptime=uptime))
                if reboot:
                    sensor.close()
                    sensor = start()
            sensor.close()
        wanted.append(
            {"symbols": symbols, "stored": base64.b64encode(ledger.read_bytes()).decode()}
        )
    assert run_job("releases", jobs) == wanted


# --- In a real Node-RED --------------------------------------------------------------------


def test_a_clock_that_was_ahead_before_a_restart_silences_no_one(rng):
    enrolment, _ = some_enrolment(rng, 0)
    content = {"enrolment": enrolment.as_json().decode(), "count": 20, "connected": True}
    for ahead in (50, 3_600, 259_200):
        right, wrong, again = run_job("starts", content | {"offsets": [0, ahead, 0]})
        sent = [*right["messages"], *wrong["messages"], *again["messages"]]
        assert len({(boot, seq) for boot, seq, _ in sent}) == len(sent)
        first = again["round"] - 20  # rounds of a batch that the restart cut are left out
        assert {number for *_, number in wrong["messages"]} <= set(range(ahead, ahead + 40))
        numbers = [number for *_, number in again["messages"]]
        assert numbers and max(numbers) < again["round"] and min(numbers) <= first + 10
        assert len(numbers) >= 14 // enrolment.batch - 2


def test_a_hostile_enrolment_is_refused_with_a_remedy(rng):
    sound = json.loads(some_enrolment(rng, 0)[0].as_json())
    broker = sound["broker"]
    bad = [
        {name: None} for name in sound if name not in ("previous_key", "certificate", "key", "ca")
    ]
    bad += [
        {"format": "other"}, {"version": 2}, {"site": "../x"}, {"bundles": []}, {"interval": "60"},
        {"epoch": 1.5}, {"boot": -1}, {"spent": 2**32}, {"mac_key": "00"}, {"mac_key": "zz" * 32},
        {"previous_key": "00"}, {"public_key": "0"}, {"broker": broker | {"port": 0}},
        {"broker": broker | {"host": "a\nb"}}, {"broker": broker | {"mqtt": "4"}},
    ]  # fmt: skip
    texts = [json.dumps(sound | change) for change in bad]
    told = run_job("enrolments", [json.dumps(sound), *texts, "", "null", "[]"])
    assert told[0] is None
    for change, words in zip([*bad, "", "null", "[]"], told[1:], strict=True):
        assert words is not None and words.endswith("Enrol the device again."), (change, words)


def test_nothing_is_written_for_a_bundle_that_is_refused(rng):
    sound = json.loads(some_enrolment(rng, 0)[0].as_json())
    unsigned = [base64.b64encode(bytes(200)).decode()] * len(sound["bundles"])
    bad = [{"bundles": unsigned}, {"public_key": "11" * 32}, {"mapping": "sha256:" + "0" * 64}]
    texts = [json.dumps(sound | change) for change in ({}, *bad)]
    (told, written), *refused = run_job("refusals", texts)
    assert told is None and written
    assert all(told and not written for told, written in refused)


@pytest.mark.parametrize("behind", [50, 3_600, 10**6])
def test_a_clock_that_is_behind_after_a_start_costs_no_message_that_waits(rng, behind):
    enrolment, _ = some_enrolment(rng, 0)
    content = {"enrolment": enrolment.as_json().decode(), "count": 20, "connected": False}
    right, wrong, again = run_job("starts", content | {"offsets": [0, -behind, 0]})
    assert right["messages"] and wrong["messages"] == []
    assert wrong["waiting"] == right["waiting"]
    assert again["waiting"] == right["waiting"] + len(again["messages"])
    assert again["messages"]


def test_the_package_is_one_that_node_red_finds():
    package = json.loads((PACKAGE / "package.json").read_text())
    assert package["version"] == __version__
    nodes = package["node-red"]["nodes"]
    for name, file in nodes.items():
        html = (PACKAGE / file).with_suffix(".html").read_text()
        assert f'registerType("{name}"' in html and f'data-template-name="{name}"' in html
    assert json.loads((PACKAGE / "examples" / "one-sensor.json").read_text())
    assert set(package["files"]) == {"discreet.js", "discreet.html", "lib", "examples"}


@pytest.fixture
def broker(tmp_path):
    if find_mosquitto() is None:
        pytest.skip("Mosquitto is not installed")
    with Broker.plain(tmp_path / "broker") as broker:
        yield broker


def test_readings_in_node_red_become_messages_that_survive_a_kill(broker, tmp_path):
    site = PlainSite(tmp_path, additive_mapping(names=["hall", "door"]), broker.port, interval=0.5)
    enrolment = site.enrol("gateway", ["hall", "door"], batch=2)
    with (
        Running(site.service()),
        NodeRed(tmp_path / "red", enrolment.as_json(), {"hall": 1, "door": 0}) as red,
    ):
        wait_for(lambda: len(site.stored()) >= 3, 180)
        red.kill()
        red.start()
        before = len(site.stored())
        wait_for(lambda: len(site.stored()) >= before + 3, 180)
        red.kill()
    stored = site.stored()
    assert {each[0] for each in stored} == {"gateway"}
    boots = [each[1] for each in stored]
    assert len(set(boots)) == 2 and len(stored) == len({each[1:3] for each in stored})
    assert len({each[3] for each in stored}) == len(stored)  # no batch twice
    assert all(len(each[4]) == 4 and each[3] % 2 == 0 for each in stored)
    assert "Error" not in red.log()
