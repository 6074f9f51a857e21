"""Commands that run until they are told to stop, also by a terminal that is closed."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import discreet_sensor
from discreet_sensor.stopping import on_hangup, on_signals

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITS = """
import sys, time
from discreet_sensor.stopping import on_signals

stops = []  # an event may not be set by a handler in the moment in which it is waited for
on_signals(lambda: stops.append(1))
print("ready", flush=True)
for _ in range(1200):
    if stops:
        break
    time.sleep(0.05)
assert stops
print("the end", flush=True)
print("the end", file=sys.stderr)
time.sleep(0.5)
sys.exit(len(stops) > 1)
"""


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def started(**more):
    environment = os.environ | {"PYTHONPATH": str(Path(discreet_sensor.__file__).parents[1])}
    return subprocess.Popen([sys.executable, "-c", WAITS], env=environment, **more)


@pytest.mark.parametrize("number", NUMBERS)
def test_each_signal_stops(number):
    seen = []
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    on_signals(lambda: seen.append(1))
    signal.raise_signal(number)
    assert seen == [1]


def test_a_terminal_is_closed_once():
    """The shell and the kernel send a signal each; a second one would hurry the end."""
    seen = []
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    on_hangup(lambda: seen.append(1))
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    assert seen == [1]


def test_what_was_started_to_outlive_the_terminal_does():
    seen = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    on_signals(lambda: seen.append(1))
    signal.raise_signal(signal.SIGHUP)
    assert seen == [] and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signal.raise_signal(signal.SIGTERM)
    assert seen == [1]


def test_without_such_a_signal_nothing_happens(monkeypatch):
    monkeypatch.delattr(signal, "SIGHUP")  # Windows
    on_hangup(lambda: None)


def test_what_is_said_after_the_terminal_is_closed_is_no_failure():
    master, slave = pty.openpty()
    # The terminal is the process's own, so that closing it sends the signal.
    begin = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    command = begin + "os.execv(sys.executable, [sys.executable, '-c', os.environ['WAITS']])"
    package = str(Path(discreet_sensor.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        env=os.environ | {"PYTHONPATH": package, "WAITS": WAITS},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    try:
        os.close(slave)
        assert os.read(master, 100).startswith(b"ready")
        os.close(master)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_terminal_that_is_still_there_reads_the_end():
    master, slave = pty.openpty()
    process = started(stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE)
    try:
        assert os.read(master, 100).startswith(b"ready")
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=60)[1] == b"the end\n" and process.returncode == 0
        assert b"the end" in os.read(master, 100)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)
