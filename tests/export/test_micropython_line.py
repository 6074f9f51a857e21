"""The client in MicroPython comes back whatever a broker does to its connection."""

import socket
import subprocess
import threading

import pytest
from support.network_figures.clients import micropython, needs_kind, put_micropython

pytestmark = [pytest.mark.slow, needs_kind("micropython")]
CONNACK, PUBACK = b"\x20\x02\x00\x00", b"\x40\x02"
SUBACK, REFUSED = b"\x90\x03\x00\x01", b"\x90\x03\x00\x01\x80"
STORED = b"\x30\x0b\x00\x03ackstored"


def packet_of(line):
    """Read one packet, however it was written; all of them are short here."""
    data = b""
    while len(data) < 2 or len(data) < 2 + data[1]:
        more = line.recv(1)
        assert more, data
        data += more
    return data


class Broker:
    """Does one thing to each connection, in turn, and serves the last one."""

    def __init__(self, *turns):
        self.turns, self.published, self.server = turns, [], socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        for turn in (*self.turns, self._serve):
            line, _ = self.server.accept()
            line.settimeout(5)
            with line:
                turn(line)
        self.server.close()

    def _serve(self, line):
        packet_of(line)
        line.sendall(CONNACK)
        asked = packet_of(line)
        line.sendall(SUBACK[:2] + asked[2:4] + b"\0")
        packet = packet_of(line)
        self.published.append(packet)
        line.sendall(PUBACK + packet[5:7] + STORED)
        line.recv(1000)


def answer(*packets):
    """Answer each packet of a device with the next of these, then close."""

    def turn(line):
        for packet in packets:
            packet_of(line)
            line.sendall(packet)
        line.shutdown(socket.SHUT_WR)
        while line.recv(1000):  # a close with unread bytes would be another error
            pass

    return turn


def run(folder, broker, counted=0):
    put_micropython(folder, "hurt_device_micropython.py")
    return subprocess.run(
        [micropython(), "hurt_device_micropython.py", str(broker.port), str(counted)],
        cwd=folder, capture_output=True, text=True, timeout=20,
    )  # fmt: skip


TURNS = {
    "closes at once": (answer(), "IndexError"),
    "refuses": (answer(b"\x20\x02\x00\x05"), "the broker refuses (code 5)"),
    "is no broker": (answer(b"HTTP"), "AssertionError"),
    "closes before it has answered": (answer(CONNACK[:2]), "IndexError"),
    "refuses the subscription": (answer(CONNACK, REFUSED), "the broker refuses (code 128)"),
    "closes after the connection": (answer(CONNACK), "OSError"),
    "closes in a length": (answer(CONNACK, b"\x90"), "IndexError"),
    "closes in place of an answer": (answer(CONNACK, SUBACK + b"\0"), "OSError"),
    "closes in a message": (answer(CONNACK, SUBACK + b"\0", b"\x30\x0b\x00"), "IndexError"),
}


@pytest.mark.parametrize("what", TURNS)
def test_a_connection_that_fails_is_made_again(tmp_path, what):
    turn, said = TURNS[what]
    broker = Broker(turn)
    done = run(tmp_path, broker)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"discreet: {said}" in done.stdout or f"discreet: no connection ({said}" in done.stdout
    assert "discreet: connected" in done.stdout
    assert broker.published and broker.published[0].endswith(b"symbols")


def test_packets_are_numbered_again_before_the_library_runs_out_of_numbers(tmp_path):
    broker = Broker()
    done = run(tmp_path, broker, counted=65534)
    assert done.returncode == 0, done.stdout + done.stderr
    assert broker.published[0][5:7] == b"\x00\x01"
