"""Readings at sensors become decisions in the store, over a real broker."""

import json
import threading

import numpy as np
import paho.mqtt.client as mqtt
import pytest
from support.network_samples import additive_mapping, make_mapping
from support.network_sites import PlainSite, Running, wait_for

from discreet.mapping.parts import PublicChain, TableFusion
from discreet.network.broker import Broker, find_mosquitto
from discreet_sensor.running import SensorTask, run_sensor
from discreet_sensor.sources import open_sources

pytestmark = pytest.mark.slow

NAMES = ["hall", "door", "bed"]


@pytest.fixture
def broker(tmp_path):
    if find_mosquitto() is None:
        pytest.skip("Mosquitto is not installed")
    with Broker.plain(tmp_path / "broker") as broker:
        yield broker


def write_table(path, rows):
    lines = [",".join(NAMES), *(f"{i % 2},{i // 2 % 2},{(i + 1) % 2}" for i in range(rows))]
    path.write_text("\n".join(lines) + "\n")


def start_sensor(site, folder, client, sensors, table, **options):
    enrolment = site.enrol(client, sensors, **options)

    def work():
        sources = open_sources([f"csv:{table}"], sensors, interval=site.clock.interval, hold=0)
        task = SensorTask(enrolment, folder / client, retry=0.5, drain=300)
        left.append(run_sensor(task, sources, threading.Event()))
        sources.close()

    left = []
    thread = threading.Thread(target=work)
    thread.start()
    return thread, left


def test_readings_become_decisions(broker, tmp_path, database):
    # The deadline is long enough for a busy machine to be in time.
    site = PlainSite(
        tmp_path, additive_mapping(names=NAMES), broker.port, deadline=5.0, database=database
    )
    table = tmp_path / "rooms.csv"
    write_table(table, 12)
    runs = [start_sensor(site, tmp_path, "pair", ["hall", "bed"], table, batch=4)]
    runs.append(start_sensor(site, tmp_path, "single", ["door"], table))
    said = []
    listener = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    listener.on_message = lambda *each: said.append((each[2].topic, json.loads(each[2].payload)))
    listener.connect("127.0.0.1", broker.port)
    listener.subscribe([("discreet/v1/home/decision", 1), ("homeassistant/#", 1)])
    listener.loop_start()
    with Running(site.service()) as service:
        for thread, left in runs:
            thread.join(300)
            assert left == [0]
        stored = site.stored()
        last = max(each[3] for each in stored)
        wait_for(lambda: service._closer.closed >= last)
        wait_for(lambda: any("decision" in each for _, each in said))
    listener.loop_stop()
    listener.disconnect()
    by_client = {name: [each for each in stored if each[0] == name] for name in ("pair", "single")}
    assert len(by_client["single"]) == 12
    assert all(len(each[4]) == 2 * 4 for each in by_client["pair"])
    reader = site.reader()
    decisions = {each.round: each for each in reader.decisions()}
    assert max(each.reported for each in decisions.values()) == 3
    assert all(each.expected == 3 for each in decisions.values())
    assert all(sum(each.probabilities) == pytest.approx(1) for each in decisions.values())
    assert [each.client for each in reader.clients()] == ["pair", "single"]
    # A busy machine is late, or sends again what is about to be acknowledged.
    assert {each.reason for each in reader.refused()} <= {"late", "replay"}
    reader.close()
    topics = {topic for topic, _ in said}
    assert topics == {
        "discreet/v1/home/decision",
        "homeassistant/binary_sensor/discreet_home/decision/config",
    }


def test_a_fact_that_lasts_is_remembered_across_a_restart(broker, tmp_path, database):
    joint = np.random.default_rng(0).dirichlet(np.ones(16)).reshape(2, 8)
    chain = PublicChain(moves=[[0.95, 0.05], [0.1, 0.9]], interval=0.2, steps=99)
    mapping = make_mapping(TableFusion(joint=joint.tolist()), names=NAMES).with_chain(chain)
    site = PlainSite(tmp_path, mapping, broker.port, deadline=5.0, database=database)
    table = tmp_path / "rooms.csv"
    write_table(table, 12)
    thread, left = start_sensor(site, tmp_path, "all", NAMES, table)
    with Running(site.service()) as service:
        thread.join(300)
        assert left == [0]
        numbers = [each[3] for each in site.stored()]
        wait_for(lambda: service._closer.closed >= numbers[4])
    with Running(site.service()) as service:
        wait_for(lambda: service._closer.closed >= numbers[-1])
    reader = site.reader()
    decisions = reader.decisions()
    reader.close()
    # Messages that a busy machine sent too late for their round are not in the decision.
    heard = {each.round for each in decisions if each.reported}
    belief, first = joint.sum(axis=1), decisions[0].round
    expected, symbols = {}, {each[3]: each[4] for each in site.stored()}
    for number in range(first, decisions[-1].round + 1):
        belief = belief @ np.array(chain.moves)
        if number in heard:
            given = joint.reshape(2, 2, 2, 2)[:, *symbols[number]] / joint.sum(axis=1)
            belief = belief * given / (belief @ given)
        expected[number] = belief
    assert heard and len(heard) <= 12
    for each in decisions:
        np.testing.assert_allclose(each.probabilities, expected[each.round], atol=2e-5)
