"""A site whose devices speak the protocol in other languages beside Python.

A device in C never uses a slot of its outbox twice here, so that its slots are the journal of all
that it wrote; others note each message when it is stored or sent. What was
written is held against what the fusion centre has stored. An observer with the rights of a second
worker sees what travels: each message must have the same bytes every time.
"""

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

import discreet.export
from discreet.network.broker import Broker
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.settings import load_clients, load_site
from discreet.network.store import open_reader
from discreet.network.store.database import StoreError
from discreet_sensor import wire
from support.esphome import build_node
from support.network_figures.home import Home, Tally, wait_until
from support.network_samples import additive_mapping
from support.node_red import LOSSY, NodeRed, node_red
from support.sites import make_site

NATIVE = Path(__file__).parents[2] / "export" / "native"
C = Path(discreet.export.__file__).parent / "runtimes" / "c"
KINDS = ("python", "c", "micropython", "node-red", "esphome")
SLOTS = 60_000  # more than messages in any run


def why_not(kind):
    """Return why a kind of device cannot be run here, or nothing."""
    tools = {"c": ("gcc",), "esphome": ("g++", "esphome")}.get(kind)
    missing = [tool for tool in tools or () if shutil.which(tool) is None]
    if tools and (missing or not Path("/usr/include/mosquitto.h").exists()):
        return f"{' and '.join(tools)} or libmosquitto-dev are not installed; .ci/run installs them"
    if kind == "micropython" and micropython() is None:
        return "the Unix port of MicroPython is not on the PATH nor in DISCREET_MICROPYTHON"
    if kind == "node-red":
        try:
            node_red()
        except pytest.skip.Exception as missing:
            return str(missing)
    return ""


def micropython():
    return os.environ.get("DISCREET_MICROPYTHON") or shutil.which("micropython")


def needs_kind(kind):
    return pytest.mark.skipif(bool(why_not(kind)), reason=why_not(kind) or "it is there")


def build_device(folder, source="lossy_device.c"):
    """Compile a variation of the example for Linux."""
    out = Path(folder) / "discreet-device"
    command = ["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", f"-DSLOTS={SLOTS}"]
    command += [f"-I{C}", f"-I{C / 'client'}", f"-I{C / 'client' / 'examples' / 'linux'}"]
    command += [str(NATIVE / source), "-lmosquitto", "-lm", "-o", str(out)]
    subprocess.run(command, check=True)
    return out


def put_micropython(folder, script):
    """Put a script for MicroPython into a folder, with all that it imports."""
    for name in ("discreet_sensor.py", "discreet_client.py", "discreet_mqtt.py"):
        shutil.copy(C.parent / "micropython" / name, folder)
    for name in (script, "umqtt_like.py"):
        shutil.copy(NATIVE / name, folder)


class Observer:
    """Sees all messages that travel, and comes back when the broker does."""

    def __init__(self, site, settings):
        self.seen, self.times, self._lock = {}, [], threading.Lock()
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id="fusion-2", protocol=mqtt.MQTTv5
        )
        folder = Path(site) / "fusion"
        parts = (folder / part for part in ("ca.crt", "fusion-2.crt", "fusion-2.key"))
        self.client.tls_set(*map(str, parts))
        self.client.on_connect = lambda client, *_: client.subscribe(
            f"discreet/v1/{settings.site}/+/z", qos=0
        )
        self.client.on_message = self._note
        self.client.reconnect_delay_set(1, 1)
        self.client.connect_async(settings.broker.host, settings.broker.port)
        self.client.loop_start()

    def _note(self, _client, _data, message):
        name = message.topic.split("/")[3]
        payload = bytes(message.payload)
        with self._lock:
            self.times.append((name, time.time(), payload))
            copies = self.seen.setdefault((name, payload[3:16]), {})  # boot and seq
            copies[payload] = copies.get(payload, 0) + 1

    @property
    def repeated(self):
        return sum(sum(copies.values()) > 1 for copies in self.seen.values())

    @property
    def differing(self):
        return sum(len(copies) > 1 for copies in self.seen.values())

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class MixedHome(Home):
    """A site with one device of each kind, called like its kind.

    The clocks of its devices are wrong by the seconds in the file ``clock``, if there is one.
    """

    def __init__(self, folder, kinds=KINDS, interval=0.1, deadline=0.5):
        self.folder, self.names = Path(folder), list(kinds)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state, self.prefix = self.folder / "state", []
        self.state.mkdir()
        self.clock = self.folder / "clock"
        self.mapping = additive_mapping(names=self.names)
        changes = {"interval": interval, "deadline": deadline, "workers": 2}
        self.site = make_site(self.folder, self.mapping, **changes)
        self.settings, self.broker = load_site(self.site), Broker.of_site(self.site)
        self.keys = {}
        for name in self.names:
            request = EnrolmentRequest(name, to=name)
            out = f"{name}.enrol" if name == "python" else name
            enroll(self.site, request, self.folder / out)
        for name in self.names:
            self._prepare(name)
        self._write_tables(400_000)
        for name in self.names:
            (self.folder / f"{name}.readings").write_text("1\n")
        self.processes, self.observer = {}, None

    def _prepare(self, name):
        if name == "python":
            self._keep_journal(self.state / name)
            shutil.copy(NATIVE / "lossy_device.py", self.folder)
        elif name == "c":
            self.device = build_device(self.folder)
        elif name == "node-red":
            enrolment = (self.folder / name / f"{name}.enrol").read_bytes()
            package = self.folder / name / "node-red-contrib-discreet"
            self.red = NodeRed(self.state / name, enrolment, {name: 1}, package)
        elif name == "esphome":
            self.node = build_node(self.folder / name, name)
            (self.state / name).mkdir()
        else:
            put_micropython(self.folder / name, "lossy_device_micropython.py")

    def start(self):
        super().start()
        self.observer = Observer(self.site, self.settings)

    def close(self):
        if self.observer is not None:
            self.observer.close()
        super().close()

    def start_sensor(self, name, table="readings.csv", drain=30.0):
        state = self.state / name
        if name == "node-red":
            self.red.start(**LOSSY, CLOCK=str(self.clock))
            self.processes[name] = self.red.process
            return
        if name == "python":
            python = os.environ.get("DISCREET_SENSOR_PYTHON", sys.executable)  # 3.9, say
            arguments = [python, "lossy_device.py", "python.enrol", "--state", state]
            arguments += ["--read", f"csv:{table}", "--drain", str(drain)]
            folder = self.folder
        elif name == "c":
            arguments = [self.device, f"c/{name}.enrolment", state, f"{name}.readings"]
            folder = self.folder
        elif name == "esphome":
            arguments, folder = [self.node], state
        else:
            arguments = [micropython(), "lossy_device_micropython.py", f"{name}.enrolment", state]
            folder = self.folder / name
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            list(map(str, arguments)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "HOME": str(state),
                "JOURNAL": str(state / "journal"),
                "CLOCK": str(self.clock),
            },
        )
        log.close()

    def settle(self, seconds=120.0):
        """Let what waits be delivered, then stop all devices; later messages may wait on them.

        What was not delivered until then is counted: it waits still, or was given up.
        """
        end = time.monotonic() + seconds
        before = time.time()
        while self.waiting(before) and time.monotonic() < end:
            time.sleep(0.5)
        for name in self.names:
            if name == "python":
                self.processes[name].send_signal(signal.SIGTERM)
            else:
                self.processes[name].kill()
            self.processes[name].wait(60)
        self.undelivered = self.waiting(before) + self.vanished()

    def vanished(self):
        """Return how many numbers of messages were used of which no message is known.

        Numbers of a start begin at 0 and leave none out, so that one below the last has been drawn
        and given up before anybody saw it.
        """
        known = {*self.written(), *(row[:3] for row in self.stored()[0])}
        last = {}
        for name, boot, seq in known:
            last[name, boot] = max(seq, last.get((name, boot), 0))
        return sum(seq + 1 for seq in last.values()) - len(known)

    def waiting(self, before):
        """Return how many messages of rounds that ended before a moment are not stored."""
        number = int((before - self.settings.epoch) / self.settings.interval) - 2
        found = {row[:3] for row in self.stored()[0]}
        return sum(key not in found and m.round < number for key, (m, _) in self.written().items())

    # -- what happened --

    def fusion_says(self):
        return (self.folder / "fusion.log").read_text()

    def written(self):
        """All messages that were written, and whether the device has given them up as done."""
        found = {}
        for name in self.names:
            read = getattr(self, f"_written_{name.replace('-', '_')}")
            for payload, done in read():
                message = wire.decode(payload, 1, *self._seal_of(name))
                found[name, message.boot, message.seq] = message, done
        return found

    def least_stored(self):
        """Return how many messages are stored of the device that has the fewest."""
        reader = open_reader(self.settings.database, self.site, self.settings.key)
        try:
            found = {each.client: each.messages for each in reader.clients()}
        except StoreError:
            return 0
        finally:
            reader.close()
        return min(found.get(name, 0) for name in self.names)

    def _seal_of(self, name):
        if name not in self.keys:
            key = load_clients(self.site).clients[name].key
            topic = wire.message_topic(self.settings.site, name)
            self.keys[name] = bytes.fromhex(key), topic.encode()
        return self.keys[name]

    def _written_python(self):
        base = sqlite3.connect(self.state / "python" / "outbox.db")
        waiting = {tuple(row) for row in base.execute("SELECT boot, seq FROM outbox")}
        for boot, seq, payload in base.execute("SELECT * FROM journal").fetchall():
            yield payload, (boot, seq) not in waiting
        base.close()

    def _written_c(self):
        for file in (self.state / "c").glob("slot-*"):
            data = file.read_bytes()
            sound = zlib.crc32(data[:-4]).to_bytes(4, "big") == data[-4:]
            if sound and data[:4] in (b"DSOw", b"DSOd"):
                yield data[4:-4], data[3:4] == b"d"

    def _written_micropython(self):
        return self._noted("micropython")

    def _written_node_red(self):
        return self._noted("node-red")

    def _written_esphome(self):
        """What was sent, and what its preferences hold; what was answered is done."""
        place, name = self.state / "esphome", "esphome"
        file, done = place / "journal", set()
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        topic = wire.ack_topic(self.settings.site, name)
        for line in lines:
            if line[0] == "a":
                data = bytes.fromhex(line[1:])
                for entry in wire.decode_acknowledgement(data, self._seal_of(name)[0], topic):
                    done |= {(entry.boot, entry.first + i) for i in range(entry.length)}
        found = {bytes.fromhex(line[1:]) for line in lines if line[0] == "w"}
        for kept in (place / ".esphome").rglob("*.prefs"):
            found |= set(re.findall(b"DSO[wd](.{48})", kept.read_bytes(), re.DOTALL))  # one symbol
        for payload in found:
            yield payload, tuple(wire.decode(payload, 1, *self._seal_of(name))[:2]) in done

    def _noted(self, name):
        file = self.state / name / "journal"
        noted = file.read_text().split("\n") if file.exists() else []
        stored = {line[2:] for line in noted if line[:2] == "w "}
        done = {line[2:] for line in noted if line[:2] == "d "}
        for text in stored:
            yield bytes.fromhex(text), text in done

    def tally(self):
        """Lost is what a device no longer keeps and the fusion centre has not."""
        written, (stored, counted) = self.written(), self.stored()
        found = {row[:3]: row[3:5] for row in stored}
        lost = sum(done and key not in found for key, (_, done) in written.items())
        changed = sum(
            found[key] != (message.round, message.symbols)
            for key, (message, _) in written.items()
            if key in found
        )
        unknown = [key for key in found if key not in written]
        # One that was being stored when the device was killed may be noted or not.
        boots = {}
        for name, boot, seq in found:
            boots[name, boot] = max(seq, boots.get((name, boot), 0))
        strange = sum(boots[name, boot] != seq for name, boot, seq in unknown)
        return Tally(len(written), len(found), lost, changed, strange, counted)


def survive(folder, rounds, kills, kinds=KINDS, interval=0.1, seed=None, say=lambda _: None):
    """Run devices for so many rounds each; kill each of them, broker and fusion centre so often.

    Returns the site, stopped, with what its observer has seen.
    """
    chance = random.Random(seed)
    with MixedHome(folder, kinds, interval=interval) as home:
        turns = [part for part in (*home.names, "broker", "fusion") for _ in range(kills)]
        chance.shuffle(turns)
        for i, part in enumerate(turns):
            # In even steps of the rounds, so that each kill meets traffic and delivery goes on.
            goal = rounds * (i + 1) // (len(turns) + 1)
            wait_until(lambda goal=goal: home.least_stored() >= goal, "traffic", 900)
            time.sleep(chance.uniform(0.0, 2 * interval))
            _kill(home, part, chance)
            say(f"{i + 1} of {len(turns)} kills, {home.count_stored()} messages stored")
        wait_until(lambda: home.least_stored() >= rounds, "the last rounds", 900)
        home.settle()
        return home


def _kill(home, part, chance):
    if part == "broker":
        home.broker.kill()
        time.sleep(chance.uniform(0, 0.3))
        home.broker.start()
    elif part == "fusion":
        home.kill("fusion")
        home.start_fusion()
    else:
        home.kill(part)
        home.start_sensor(part)
