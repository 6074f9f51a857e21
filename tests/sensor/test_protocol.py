"""docs/vectors.json is what the code generates, and what docs/protocol.md says."""

import hashlib
import hmac
import json
import struct
import zlib
from pathlib import Path

import cbor2
import pytest
from support.lives import LIVES, compare
from support.python_life import PythonLife

from discreet_sensor import wire
from discreet_sensor.enrolment import parse_enrolment
from discreet_sensor.errors import InputError
from discreet_sensor.running import check_bundles
from discreet_sensor.runtime import Table
from research import protocol_vectors

VECTORS = json.loads(protocol_vectors.FILE.read_text(encoding="utf-8"))
KEY, TOPIC, ACK = bytes.fromhex(VECTORS["key"]), VECTORS["topic"], VECTORS["ack_topic"]


def slow_mac(topic, data):
    return hmac.new(KEY, topic.encode() + b"\0" + data, hashlib.sha256).digest()[:8]


def test_the_file_is_up_to_date():
    assert protocol_vectors.FILE.read_text(encoding="utf-8") == protocol_vectors.text()


@pytest.mark.parametrize("case", VECTORS["messages"], ids=lambda case: str(case["seq"]))
def test_a_message_is_the_cbor_that_the_page_lays_out(case):
    data, n = bytes.fromhex(case["bytes"]), len(case["symbols"]) // 2
    found = cbor2.loads(data)
    assert found[:5] == [1, case["boot"], case["seq"], case["round"], case["spent"]]
    assert [each.hex() for each in found[5:7]] == [case["symbols"], case["mapping"]]
    assert len(data) == 47 + n
    assert found[7] == data[-8:] == slow_mac(TOPIC, data[:-8])
    assert data[29 : 29 + n].hex() == case["symbols"]
    assert data[30 + n : 38 + n].hex() == case["mapping"]
    assert wire.decode(data, n, KEY, TOPIC.encode()).boot == case["boot"]


def test_acknowledgements_are_as_laid_out():
    for case in VECTORS["acknowledgements"]:
        data = bytes.fromhex(case["bytes"])
        version, packed, mac = cbor2.loads(data)
        entries = [
            list(struct.unpack(">QIIB", packed[i : i + 17])) for i in range(0, len(packed), 17)
        ]
        assert (version, entries, mac) == (1, case["entries"], slow_mac(ACK, data[:-8]))
        assert [list(each) for each in wire.decode_acknowledgement(data, KEY, ACK)] == entries


def test_bad_answers_are_refused():
    for case in VECTORS["bad_acknowledgements"]:
        with pytest.raises(wire.WireError):
            wire.decode_acknowledgement(bytes.fromhex(case["bytes"]), KEY, ACK)


def test_rounds_are_those_of_the_clock():
    for case in VECTORS["rounds"]:
        clock = wire.RoundClock(case["epoch"], case["interval_ms"] / 1000)
        assert clock.number(case["at_ms"] / 1000) == case["round"]
        last = case["first"] + case["batch"] - 1
        assert round(1000 * clock.end(last)) == case["drawn_ms"]


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life["life"])
def test_a_device_lives_as_the_vectors_have_it(tmp_path, monkeypatch, life):
    compare(life, PythonLife(tmp_path / "state", life["slots"], monkeypatch).live(life))


def test_a_table_draws_by_the_plain_rule():
    for case in VECTORS["tables"]:
        table = Table(bytes.fromhex(case["body"]))
        for row, word, symbol in case["draws"]:
            below = sum(threshold <= word for threshold in table.thresholds[row])
            assert symbol == min(below, table.tops[row])


def test_the_binary_enrolment_has_its_parts_at_their_places():
    told, data = VECTORS["enrolment"]["json"], bytes.fromhex(VECTORS["enrolment"]["binary"])
    words = struct.unpack(f"<{len(data) // 4}I", data)
    assert data[:4] == b"DSE1" and words[1] == len(words)
    assert words[-1] == zlib.crc32(data[:-4])
    assert words[3] + (words[4] << 32) == told["epoch"]
    assert words[5] == 1000 * told["interval"]
    assert words[6:8] == (told["batch"], len(told["sensors"]))
    assert words[8] + (words[9] << 32) == told["boot"]
    assert words[10] == told["spent"] and words[29] == told["broker"]["port"]
    assert data[44:52].hex() == told["mapping"][7:23]
    assert (data[52:84].hex(), data[84:116].hex()) == (told["mac_key"], told["previous_key"])
    at, names = 36, []
    wanted = [told["site"], told["client"], told["broker"]["host"]]
    wanted += [told["ca"], told["certificate"], told["key"]]
    for length, text in zip(words[30:36], wanted, strict=True):
        assert data[4 * at : 4 * at + length].decode() == text
        at += length // 4 + 1
    for _ in told["sensors"]:
        names.append(Table(data[4 * at : 4 * (at + words[at + 1])]).name)
        at += words[at + 1]
    assert names == told["sensors"] and at + 1 == len(words)


def test_the_bundles_of_the_enrolment_are_signed_with_its_key():
    told = VECTORS["enrolment"]["json"]
    check_bundles(parse_enrolment(json.dumps(told).encode()))
    with pytest.raises(InputError, match="not signed"):
        check_bundles(parse_enrolment(json.dumps(told | {"public_key": "11" * 32}).encode()))


# --- What the page says MUST be ------------------------------------------------------------


LIVED = "sensor/test_protocol.py::test_a_device_lives_as_the_vectors_have_it"
MUSTS = {
    "ledgers MUST at least hold": [LIVED, "sensor/test_protocol.py::test_the_lives_keep_each_must"],
    "it MUST be a multiple of `batch`": [
        "sensor/test_protocol.py::test_the_lives_keep_each_must",
        "network/fusion/test_intake.py::test_a_round_within_a_batch_is_refused",
    ],
    "**boot** MUST be larger at every start": [
        "sensor/test_protocol.py::test_the_lives_keep_each_must",
        "network/fusion/test_intake.py::"
        "test_a_boot_from_before_the_enrolment_is_refused_unless_it_is_under_the_previous_key",
    ],
    "MUST be for a round at least k × batch later": [
        "sensor/test_protocol.py::test_the_lives_keep_each_must",
        "network/fusion/test_intake.py::test_what_is_numbered_against_the_rounds_is_refused",
    ],
    "A batch MUST NOT get a second message": [
        LIVED,
        "sensor/test_protocol.py::test_the_lives_keep_each_must",
    ],
    "A device MUST NOT draw or seal again": [
        LIVED,
        "network/test_clients.py::test_kills_and_lost_answers_lose_nothing",
    ],
}
"""What the page demands, and the tests that show it."""


def test_each_must_of_the_page_has_a_test():
    page = " ".join(protocol_vectors.FILE.with_name("protocol.md").read_text("utf-8").split())
    assert page.count("MUST ") == len(MUSTS) + 1  # one says what the word means
    tests = Path(__file__).parents[1]
    for demand, names in MUSTS.items():
        assert page.count(demand) == 1, demand
        for file, _, function in (name.partition("::") for name in names):
            assert f"def {function}(" in (tests / file).read_text("utf-8"), function


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life["life"])
def test_the_lives_keep_each_must(life):
    rounds, floor = {}, 0
    for step in life["steps"]:
        if step["do"] == "start":
            told = VECTORS["life_enrolments"][step["enrolment"]]["json"]
            floor = max(told["boot"], max((boot for boot, _ in rounds), default=-1) + 1)
        for boot, seq, number, spent in (step["then"] or {"waiting": []})["waiting"]:
            if (boot, seq) not in rounds:
                assert boot >= floor and spent >= told["spent"] and number % told["batch"] == 0
            assert rounds.setdefault((boot, seq), number) == number
    assert len(set(rounds.values())) == len(rounds) > 0  # no batch has two messages
    for boot, seq in rounds:
        for later in (key for key in rounds if key[0] == boot and key[1] > seq):
            assert rounds[later] - rounds[boot, seq] >= (later[1] - seq) * told["batch"]
