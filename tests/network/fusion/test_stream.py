"""What the broker sends is taken apart alike, however it is cut into pieces."""

import os
import signal
import socket
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.network.fusion import link as link_module
from discreet.network.fusion.link import Link, Stream, acknowledgement, message_packet
from discreet_sensor.connecting import BrokerAddress

TOPIC = b"discreet/v1/home/hall/z"
PINGRESP, SUBACK = b"\xd0\x00", b"\x90\x04\x00\x01\x00\x01"


def length(size):
    found = b""
    while True:
        size, low = divmod(size, 128)
        found += bytes([low | 128 if size else low])
        if not size:
            return found


def message(payload, number, properties=b""):
    body = struct.pack(">H", len(TOPIC)) + TOPIC + struct.pack(">H", number)
    body += length(len(properties)) + properties + payload
    return b"\x32" + length(len(body)) + body


def feed(pieces, properties=True):
    """What a stream hands out, to us and to the library, from pieces that arrive one by one."""
    ours, theirs = socket.socketpair()
    messages, others = [], b""
    stream = Stream(ours, lambda *each: messages.append(each), properties=properties)
    stream.setblocking(False)
    for piece in pieces:
        theirs.sendall(piece)
        stream.fill()
        while stream.reading and not stream.ended:
            others += stream.recv(3)
    ended = stream.ended
    theirs.close()
    stream.close()
    return messages, others, ended


sent = st.lists(
    st.one_of(
        st.sampled_from([PINGRESP, SUBACK]),
        st.tuples(st.binary(max_size=300), st.integers(1, 65535), st.binary(max_size=200)),
    ),
    max_size=8,
)


@given(sent, st.data())
def test_any_cut_gives_the_same(packets, data):
    whole = b"".join(each if isinstance(each, bytes) else message(*each) for each in packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]
    messages, others, ended = feed(pieces)
    wanted = [each for each in packets if not isinstance(each, bytes)]
    assert messages == [(TOPIC, payload, number) for payload, number, _ in wanted]
    assert others == b"".join(each for each in packets if isinstance(each, bytes))
    assert not ended


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4))
def test_rubbish_is_the_end_or_nothing(pieces):
    messages, others, _ = feed(pieces)  # nothing is raised, and nothing made up
    assert len(others) + sum(len(payload) for _, payload, _ in messages) <= sum(map(len, pieces))


@pytest.mark.parametrize(
    "packet",
    [
        b"\x34" + message(b"x", 1)[1:],  # QoS 2, which was not asked for
        b"\x32\xff\xff\xff\xff\x01",
        b"\x32\x00",
        b"\x32\x04\x00\x09ab",
        b"\x32" + length(len(TOPIC) + 4) + struct.pack(">H", len(TOPIC)) + TOPIC + b"\0\1",
    ],
)
def test_what_is_no_message_ends_the_connection(packet):
    messages, _, ended = feed([packet])
    assert messages == []
    assert ended


@pytest.mark.parametrize("properties", [True, False])
def test_what_we_publish_is_read_back(properties):
    payload = bytes(range(200))
    packet = message_packet(TOPIC, payload, properties=properties)
    messages, _, _ = feed([packet], properties)
    assert messages == [(TOPIC, payload, 0)]


def test_what_is_sent_is_written_at_the_next_flush_or_at_the_close():
    ours, theirs = socket.socketpair()
    stream = Stream(ours, lambda *_: None, properties=True)
    assert stream.send(acknowledgement(258)) == 4
    assert stream.writing
    stream.flush()
    assert not stream.writing
    assert theirs.recv(10) == b"\x40\x02\x01\x02"
    stream.send(b"\xe0\x00")
    stream.close()
    assert theirs.recv(10) == b"\xe0\x00"
    theirs.close()


def test_the_library_is_told_of_the_end():
    ours, theirs = socket.socketpair()
    stream = Stream(ours, lambda *_: None, properties=True)
    with pytest.raises(BlockingIOError):
        stream.recv(1)
    theirs.close()
    stream.fill()
    assert stream.reading
    assert stream.recv(1) == b""
    stream.close()


# --- A link that is closed ------------------------------------------------------------------


@pytest.fixture
def link():
    address = BrokerAddress("localhost", 1)
    return Link(address, "fusion", [], lambda *_: None, lambda *_: None, receive_maximum=10)


def test_a_closed_link_is_woken_in_vain_and_writes_to_nobody_elses_file(link):
    link.close()
    read, write = os.pipe()  # takes the numbers that have become free
    os.set_blocking(read, False)
    try:
        link.wake()
        link.send([], [])
        link.close()  # once is enough
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
        os.write(write, b"x")
    finally:
        os.close(read)
        os.close(write)


def test_who_wakes_a_link_that_closes_waits_for_it(link, monkeypatch):
    closing, go_on, written = threading.Event(), threading.Event(), []

    def slow_close(number, close=os.close):
        closing.set()
        assert go_on.wait(10)
        close(number)

    monkeypatch.setattr(link_module.os, "close", slow_close)
    monkeypatch.setattr(link_module.os, "write", lambda *each: written.append(each))
    closer = threading.Thread(target=link.close)
    closer.start()
    assert closing.wait(10)
    waker = threading.Thread(target=link.wake)
    waker.start()
    go_on.set()
    for each in (closer, waker):
        each.join(10)
        assert not each.is_alive()
    assert written == []


def test_a_signal_that_wakes_a_link_while_it_closes_does_not_block_it(link, monkeypatch):
    before = signal.signal(signal.SIGUSR1, lambda *_: link.wake())

    def interrupted(number, close=os.close):
        signal.raise_signal(signal.SIGUSR1)
        close(number)

    monkeypatch.setattr(link_module.os, "close", interrupted)
    try:
        link.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
