"""The bytes on the wire: CBOR that cbor2 reads, of one length, worth nothing when changed."""

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet_sensor import wire

KEY, TOPIC = bytes(range(32)), "discreet/v1/home/hall/z"
numbers = st.integers(0, 2**32 - 1)
messages = st.builds(
    wire.Message,
    boot=st.integers(0, wire.MAX_BOOT),
    seq=numbers,
    round=numbers,
    spent=numbers,
    symbols=st.binary(min_size=1, max_size=300),
    mapping=st.binary(min_size=8, max_size=8),
)
entries = st.lists(
    st.builds(
        wire.Entry,
        st.integers(0, wire.MAX_BOOT),
        numbers,
        numbers,
        st.sampled_from([wire.STORED, wire.REFUSED]),
    ),
    max_size=20,
)


def read(data, symbols, key=KEY, topic=TOPIC):
    return wire.decode(data, symbols, key, topic.encode())


@given(messages)
def test_a_message_comes_back_and_is_cbor(message):
    data = wire.encode(message, KEY, TOPIC)
    assert read(data, len(message.symbols)) == message
    *parts, mac = cbor2.loads(data)
    assert parts == [1, *message]
    assert mac == wire.mac(KEY, TOPIC.encode(), data[:-8])


@given(messages, messages)
def test_the_length_depends_on_the_number_of_symbols_only(one, other):
    other = other._replace(symbols=bytes(len(one.symbols)))
    lengths = {len(wire.encode(each, KEY, TOPIC)) for each in (one, other)}
    assert lengths == {47 + len(one.symbols)}


@given(messages, st.data())
def test_no_changed_bit_is_accepted(message, data):
    sent = bytearray(wire.encode(message, KEY, TOPIC))
    place = data.draw(st.integers(0, 8 * len(sent) - 1))
    sent[place // 8] ^= 1 << place % 8
    with pytest.raises(wire.WireError) as caught:
        read(bytes(sent), len(message.symbols))
    assert caught.value.reason in ("malformed", "mac")


@given(messages)
def test_another_key_topic_or_length_is_refused(message):
    data, size = wire.encode(message, KEY, TOPIC), len(message.symbols)
    for reason, change in (
        ("mac", {"key": bytes(32)}),
        ("mac", {"topic": "discreet/v1/home/door/z"}),
        ("length", {"symbols": size + 1}),
    ):
        with pytest.raises(wire.WireError, match=reason):
            read(**({"data": data, "symbols": size} | change))


@given(st.binary(max_size=200), st.integers(1, 150))
def test_any_bytes_are_refused_with_a_reason(data, symbols):
    with pytest.raises(wire.WireError) as caught:
        read(data, symbols)
    assert caught.value.reason in ("length", "malformed", "mac")
    with pytest.raises(wire.WireError):
        wire.decode_acknowledgement(data, KEY, TOPIC)


@pytest.mark.parametrize(
    "change",
    [
        {"boot": 2**63},
        {"seq": 2**32},
        {"round": -1},
        {"symbols": b""},
        {"symbols": bytes(2**16)},
        {"mapping": b"short"},
    ],
)
def test_what_does_not_fit_is_not_sent(change):
    message = wire.Message(1, 2, 3, 4, b"\0", bytes(8))
    with pytest.raises(ValueError, match="does not fit"):
        wire.encode(message._replace(**change), KEY, TOPIC)


@given(entries)
def test_acknowledgements_come_back_and_are_cbor(given_entries):
    found = []
    for data in wire.encode_acknowledgements(given_entries, KEY, TOPIC):
        assert cbor2.loads(data)[0] == 1
        found += wire.decode_acknowledgement(data, KEY, TOPIC)
    assert found == given_entries


def test_many_entries_take_several_acknowledgements():
    many = [wire.Entry(1, 2 * i, 1, wire.STORED) for i in range(5000)]
    parts = list(wire.encode_acknowledgements(many, KEY, TOPIC))
    assert len(parts) == 10
    assert all(len(part) < 10_000 for part in parts)
    assert [
        each for part in parts for each in wire.decode_acknowledgement(part, KEY, TOPIC)
    ] == many


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12))))
def test_runs_cover_exactly_what_they_are_made_of(keys):
    covered = [
        (entry.boot, entry.first + i)
        for entry in wire.runs(keys, wire.STORED)
        for i in range(entry.length)
    ]
    assert covered == sorted(set(keys))


def test_a_mapping_is_named_by_the_start_of_its_id():
    assert wire.mapping_tag("sha256:" + "0123456789abcdef" * 4) == bytes.fromhex("0123456789abcdef")
