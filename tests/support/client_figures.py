"""Whether clients in all languages make the same messages from the same words and readings."""

import base64
import os
import subprocess
from pathlib import Path
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.export.neutral import bundle_body
from discreet.export.signing import SigningKey
from discreet.network.site.device_files import packed
from discreet_sensor import running, runtime
from discreet_sensor.enrolment import BrokerPlace, Enrolment
from discreet_sensor.outbox import PendingMessage
from discreet_sensor.wire import STORED, Entry, ack_topic, encode_acknowledgements
from support.client_jobs import CLIENT, VECTORS, build_client, run_c, run_mpy
from support.devices import (
    MAPPING_ID,
    NATIVE,
    STRICT,
    Words,
    make_sensor,
    needs,
    random_sensor,
)
from support.network_figures.clients import why_not
from support.node_red import run_job

SIGNING = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
NODE = "node-red"
BOOT, EPOCH, INTERVAL = 4_000_000_000, 1_700_000_000, 1000
_PEM = "-----BEGIN NOTHING-----\nAAAA\n-----END NOTHING-----\n"


def some_enrolment(rng, number):
    """A device with one to three sensors of any kind and policy; and how many rows each has."""
    repeat = ("code", "period", "never")[number % 3]
    period = int(rng.choice([60, 600, 86_400]))
    count, tables = int(rng.integers(1, 4)), []
    for t in range(count):
        policy = {"repeat": repeat, "period": period, "name": f"s{t}"}
        if number % 4 == 3:  # a budget that ends on the way
            policy |= {"budget": 30.0}
            tables.append(make_sensor(**policy))
        else:
            tables.append(random_sensor(rng, **policy))
    # Python draws the fresh words of a batch at once, the others one by one.
    batch = 1 if repeat == "never" or number % 4 == 3 else int(rng.integers(1, 4))
    bundles = [base64.b64encode(SIGNING.sign(bundle_body(table))).decode() for table in tables]
    return Enrolment(
        site="home",
        client="hall",
        sensors=tuple(table.name for table in tables),
        batch=batch,
        epoch=EPOCH,
        interval=INTERVAL / 1000,
        broker=BrokerPlace("localhost", 8883),
        boot=BOOT,
        mapping=MAPPING_ID,
        certificate=_PEM,
        key=_PEM,
        ca=_PEM,
        mac_key=rng.bytes(32).hex(),
        public_key=SIGNING.public_hex,
        bundles=tuple(bundles),
    ), [len(table.tops) for table in tables]


class _Kept:
    """An outbox that keeps nothing: only the messages are of interest."""

    boot, seq = BOOT, 0

    def note(self, _name):
        return 0

    def set_note(self, *_):
        pass

    def append(self, number, _rounds, make):
        payload = make(self.boot, self.seq)
        self.seq += 1
        return PendingMessage(self.boot, self.seq - 1, number, payload)


def python_messages(folder, enrolment, rows, entropy):
    """The messages of ``discreet_sensor`` for rows by round and sensor."""
    batch, uptime = enrolment.batch, [0]
    with (
        mock.patch.object(os, "urandom", Words(entropy)),
        mock.patch.object(os, "fsync", lambda _: None),
        mock.patch.object(runtime, "system_uptime", lambda: uptime[0]),
        mock.patch.object(running, "row_of", lambda _table, value: value),
        mock.patch.object(running, "problem_of", lambda *_: ""),
    ):
        releaser = running.Releaser(enrolment, Path(folder), _Kept())
        found = []
        for first in range(0, len(rows), batch):
            uptime[0] = first + batch
            readings = [
                dict(zip(enrolment.sensors, map(int, row), strict=True))
                for row in rows[first : first + batch]
            ]
            found.append(releaser.release(first, readings).payload)
        releaser.close()
    return [payload.hex() for payload in found]


def script(enrolment, rows, entropy):
    """The same life as acts for the clients in C and MicroPython: every message is acknowledged."""
    batch, key = enrolment.batch, bytes.fromhex(enrolment.mac_key)
    topic = ack_topic(enrolment.site, enrolment.client)
    lines = [f"E {packed(enrolment).hex()}", f"R {entropy.hex()}", f"B {1000 * EPOCH}", "C"]
    lines.append(f"T {1000 * EPOCH} 0 0")
    for number, row in enumerate(rows):
        now = 1000 * EPOCH + (number + 1) * INTERVAL + 250
        ticks = (number + 1) * INTERVAL
        lines += [f"V {' '.join(map(str, row))}", f"T {now} {ticks} {number + 1}"]
        if (number + 1) % batch == 0:
            entry = Entry(BOOT, number // batch, 1, STORED)
            (answer,) = encode_acknowledgements([entry], key, topic)
            lines.append(f"A {answer.hex()}")
    return lines


def node_messages(enrolment, rows, entropy):
    """The messages of the Node-RED node for the same."""
    content = {"enrolment": enrolment.as_json().decode(), "rows": rows.tolist()}
    return run_job("messages", content | {"entropy": base64.b64encode(entropy).decode()})


def published(lines):
    return [line[2:] for line in lines if line[0] == "P"]


def alike(folder, mappings, rounds, seed=0, say=lambda _: None):
    """Return how many messages were compared, and in how many each language differs from Python."""
    rng = np.random.default_rng(seed)
    program = build_client(folder, "client.c", "-DDISCREET_SOURCE_IS_DRBG")
    compared, differing = 0, {"c": 0, "micropython": 0} | ({} if why_not("node-red") else {NODE: 0})
    for number in range(mappings):
        enrolment, sizes = some_enrolment(rng, number)
        count = rounds - rounds % enrolment.batch
        rows = np.column_stack([rng.integers(size, size=count) for size in sizes])
        entropy = rng.bytes(32 * len(sizes) * (64 + 2 * count))
        state = Path(folder) / f"alike-{number}"
        state.mkdir()
        wanted = python_messages(state, enrolment, rows, entropy)
        lines = script(enrolment, rows, entropy)
        runs = {
            "c": lambda: published(run_c(program, lines)),  # noqa: B023
            "micropython": lambda: published(run_mpy(folder, lines)),  # noqa: B023
            NODE: lambda: node_messages(enrolment, rows, entropy),  # noqa: B023
        }
        for name in differing:
            found = runs[name]()
            differing[name] += sum(a != b for a, b in zip(wanted, found, strict=False))
            differing[name] += abs(len(wanted) - len(found))
        compared += len(wanted)
        say(f"{number + 1} of {mappings} mappings, {compared} messages, differing: {differing}")
    return compared, differing


def sizes(folder, cpu):
    """Return bytes of code and of memory of the client, its runtime and generator on a Cortex-M."""
    needs("arm-none-eabi-gcc")
    out = Path(folder) / f"{cpu}.o"
    command = ["arm-none-eabi-gcc", *STRICT, "-Os", "-mthumb", f"-mcpu={cpu}", "-c"]
    command += [f"-I{CLIENT}", f"-I{CLIENT.parent}", str(NATIVE / "client_size.c"), "-o", str(out)]
    subprocess.run(command, check=True)
    told = subprocess.run(["arm-none-eabi-size", out], capture_output=True, text=True, check=True)
    code, data, memory = map(int, told.stdout.splitlines()[1].split()[:3])
    return code + data, data + memory


def fuzz(folder, count, seed):
    """Run hostile enrolments and answers; return how many were taken, and what went wrong."""
    file = Path(folder) / "good.enrolment"
    file.write_bytes(bytes.fromhex(VECTORS["enrolment"]["binary"]))
    program = build_client(folder, "fuzz_client.c")
    done = subprocess.run(
        [program, file, str(count), str(seed)], capture_output=True, text=True, check=False
    )
    return done.stdout.split(), done.stderr if done.returncode else ""
