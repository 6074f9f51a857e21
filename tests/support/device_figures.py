"""The figures of the export, each at any size: full in research/benchmarks/edge.py."""

import dataclasses
import math
import os
import random
import re
import shutil
import struct
import subprocess
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import median_filter
from scipy.stats import chi2, norm
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder
from discreet.export.neutral import Policy, bundle_body, exact_ratio
from discreet.export.runtimes.python import discreet_gateway as gateway
from discreet.leakage.exact import structural_epsilons
from discreet.mapping.mapping import round_rows
from discreet.mapping.parts import TOTAL
from discreet_sensor import runtime as device
from support.devices import (
    DAY,
    NATIVE,
    RUNTIMES,
    SANITIZED,
    STRICT,
    build,
    make_sensor,
    needs,
    pick_job,
    random_sensor,
    run_micropython,
    run_native,
    weights_of,
    write_header,
    write_signed,
)

GENTLE = [[0.7, 0.3], [0.3, 0.7]]


def sixteen(rng=None, symbols=2):
    """The sensor of the figures: 16 bins."""
    rng = np.random.default_rng(0) if rng is None else rng
    table = rng.dirichlet(np.full(symbols, 2.0), 16)
    return make_sensor(BinsEncoder(edges=np.linspace(-2, 2, 15).tolist()), table)


# --- Agreement -----------------------------------------------------------------------------


def pick_jobs(rng, mappings, draws):
    """Random mappings with rows and words, some of the words at and beside a threshold."""
    jobs = []
    for _ in range(mappings):
        table = random_sensor(rng)
        rows = rng.integers(len(table.tops), size=draws // mappings)
        words = rng.integers(TOTAL, size=len(rows), dtype=np.int64)
        near = np.array(table.thresholds)[rows, rng.integers(table.symbols - 1, size=len(rows))]
        near = np.clip(near + rng.integers(-1, 2, size=len(rows)), 0, TOTAL - 1)
        jobs.append((table, rows, np.where(rng.random(len(rows)) < 0.3, near, words)))
    return jobs


def by_definition(table, rows, words):
    """The symbol z for which cumulative[z-1] <= word < cumulative[z], from the weights."""
    sums = np.cumsum(weights_of(table), axis=1)
    return (sums[rows] <= words[:, None]).sum(axis=1).astype(np.uint8).tobytes()


def agreement(folder, driver, mappings, draws):
    """How many draws of each runtime differ from the definition."""
    jobs = pick_jobs(np.random.default_rng(6), mappings, draws)
    data = b"".join(pick_job(*job) for job in jobs)
    wanted = b"".join(by_definition(*job) for job in jobs)
    tables = [device.Table(bundle_body(table)) for table, _, _ in jobs]
    found = {
        "python": b"".join(
            table.pick_lifted(rows.tolist(), (words + 2.0**52).tolist())
            for table, (_, rows, words) in zip(tables, jobs, strict=True)
        ),
        "c": run_native(driver, "picks", data=data),
        "micropython": run_micropython(folder, "jobs_micropython.py", {"picks": data})["picks.out"],
    }
    return len(wanted), {name: differing(symbols, wanted) for name, symbols in found.items()}


def differing(symbols, wanted):
    assert len(symbols) == len(wanted)
    return int((np.frombuffer(symbols, np.uint8) != np.frombuffer(wanted, np.uint8)).sum())


# --- Frequencies ---------------------------------------------------------------------------


def chi_squared(counts, weights):
    """The p-value of counts against integer weights; impossible symbols must not occur."""
    counts, weights = np.asarray(counts, float), np.asarray(weights, float)
    assert not counts[weights == 0].any()
    counts, expected = counts[weights > 0], weights[weights > 0] / TOTAL * counts.sum()
    freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(chi2.sf(statistic, freedom)) if freedom else 1.0


def frequencies(table, draws, driver):
    """The p-value of every row, for each runtime that draws."""
    body, weights = bundle_body(table), weights_of(table)
    plain, vectors = device.Table(body), gateway.VectorTable(device.Table(body))
    found = {"python": [], "gateway": [], "c": []}
    flat = run_native(driver, "counts", data=struct.pack("<II", len(body), draws) + body)
    in_c = np.frombuffer(flat, "<u4").reshape(len(weights), table.symbols)
    for row, wanted in enumerate(weights):
        counts = np.zeros((2, table.symbols), dtype=np.int64)
        for start in range(0, draws, 10**5):
            now = min(10**5, draws - start)
            counts[0] += np.bincount(np.array(plain.draw([row] * now)), minlength=table.symbols)
            drawn = vectors.draw(np.full(now, row))
            counts[1] += np.bincount(drawn, minlength=table.symbols)
        found["python"].append(chi_squared(counts[0], wanted))
        found["gateway"].append(chi_squared(counts[1], wanted))
        found["c"].append(chi_squared(in_c[row], wanted))
    return found


# --- Rounding ------------------------------------------------------------------------------


def rounding(tables):
    """For real-valued tables: how far the shipped epsilon is above, and the audit below it."""
    above, audit_below, ledger_below = [], [], []
    for table in tables:
        rows = round_rows(table)
        real = float((np.log(table.max(axis=0)) - np.log(table.min(axis=0))).max())
        shipped = make_sensor(CodesEncoder(size=len(table)), table)
        exact = log_of(exact_ratio([tuple(row) for row in rows.tolist()]))
        above.append(exact - real)
        audit_below.append(exact - float(structural_epsilons([rows / TOTAL])[0]))
        ledger_below.append(exact - shipped.micro_epsilon / 1e6)
    return {
        "shipped above real": max(above),
        "audit below shipped": max(audit_below),
        "ledger below shipped": max(ledger_below),
    }


def log_of(ratio: Fraction) -> float:
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def mild_tables(rng, count, epsilon=1.0):
    """Tables whose real-valued epsilon is at most 2 epsilon, of many shapes."""
    for _ in range(count):
        shape = int(rng.integers(2, 30)), int(rng.integers(2, 10))
        table = np.exp(rng.uniform(0, epsilon, shape))
        yield table / table.sum(axis=1, keepdims=True)


# --- Timing --------------------------------------------------------------------------------


def auc_interval(times, positive, confidence=0.99):
    """The area under the ROC curve of a latency, folded to at least 1/2, with its interval."""
    times, positive = np.asarray(times, float), np.asarray(positive, bool)
    order = np.argsort(times, kind="stable")
    ranks = np.empty(len(times))
    _, place, sizes = np.unique(times[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    ranks[order] = (ends - (sizes - 1) / 2)[place]  # ties get their mean rank
    ones, zeros = int(positive.sum()), int((~positive).sum())
    area = (ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros)
    area = max(area, 1 - area)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (ones - 1) * (q1 - area**2) + (zeros - 1) * (q2 - area**2)
    error = norm.ppf(0.5 + confidence / 2) * math.sqrt(max(spread, 0.0) / (ones * zeros))
    return area - error, area, area + error


def learned_interval(times, positive, block=1000):
    """The same for a classifier of the latency, its neighbours and what is usual around it.

    It learns on every other block of samples and is judged on the rest: both saw the same
    machine, and no sample that it is judged on is a neighbour of one that it learned on.
    """
    times, positive = np.asarray(times, float), np.asarray(positive, bool)
    local = median_filter(times, 31, mode="nearest")
    near = [np.roll(times, shift) for shift in (-2, -1, 1, 2)]
    features = np.column_stack([times, times - local, *near])
    place = np.arange(len(times))
    inside = (place % block >= 16) & (place % block < block - 16)
    train, judged = (inside & (place // block % 2 == half) for half in (0, 1))
    classifier = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    with threadpool_limits(1):  # more would wait for each other on a busy machine
        classifier.fit(features[train], positive[train])
        score = classifier.decision_function(features[judged])
    return auc_interval(score, positive[judged])


def welch(times, positive):
    """Welch's t without the slowest hundredth, as dudect crops; 0 if no time differs."""
    times, positive = np.asarray(times, float), np.asarray(positive, bool)
    kept = times <= np.quantile(times, 0.99)
    a, b = times[kept & positive], times[kept & ~positive]
    spread = math.sqrt(a.var() / len(a) + b.var() / len(b))
    return float((a.mean() - b.mean()) / spread) if spread else 0.0


def latencies_c(folder, samples, *, early=False):
    """Cycles of 32 draws of one symbol, and whether it was the last instead of the first."""
    write_header(folder, make_sensor(CodesEncoder(size=2), np.full((2, 16), 1 / 16)))
    program = build(str(folder), "timing.c", "-O2", *STRICT[1:], "-std=gnu99")
    out = run_native(program, samples, *(["early"] if early else []))
    times, symbols = np.loadtxt(out.decode().splitlines(), dtype=float).T
    return times, symbols == 1


def pick_early(table, rows, words):
    """What the runtime must not do: stop at the first threshold above the word."""
    for count, threshold in enumerate(table.thresholds[rows[0]]):
        if words[0] - 2.0**52 < threshold:
            return bytes([count])
    return bytes([table.symbols - 1])


def pick_integer(table, rows, words):
    """Nor this: Python compares integers digit by digit."""
    count = 0
    for threshold in table.thresholds[rows[0]]:
        count += words[0] >= threshold
    return bytes([count])


def latencies_python(samples, pick=device.Table.pick_lifted, symbols=16):
    """Nanoseconds of a draw, and whether the symbol was of the upper half."""
    uniform = make_sensor(CodesEncoder(size=2), np.full((2, symbols), 1 / symbols))
    table, clock, rows = device.Table(bundle_body(uniform)), time.perf_counter_ns, (0,)
    words = np.frombuffer(os.urandom(4 * samples), "<u4")
    words = words.tolist() if pick is pick_integer else (words + 2.0**52).tolist()
    times, drawn = [], []
    for word in zip(words):
        start = clock()
        symbol = pick(table, rows, word)
        times.append(clock() - start)
        drawn.append(symbol[0])
    return times, np.array(drawn) >= symbols // 2


def latencies_elsewhere(processes, samples, symbols):
    """The same in fresh processes: where things lie in memory changes what the time tells."""
    for _ in range(processes):
        os.environ["DISCREET_PADDING"] = "x" * random.randrange(6000)  # moves the stack and heap
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            yield pool.submit(latencies_python, samples, symbols=symbols).result()


def latencies_release(folder, key, samples):
    """The same for the whole way of a reading that is drawn afresh, the disk left out."""
    sensor = make_sensor(CodesEncoder(size=2), GENTLE, repeat="never")
    path = write_signed(folder, sensor, key)
    at_work = device.Sensor(path, public_key=key.public_hex, ledger=Path(folder) / "timed.ledger")
    at_work.ledger.store = lambda record: setattr(at_work.ledger, "record", record)
    times, drawn, clock = [], [], time.perf_counter_ns
    for _ in range(samples):
        start = clock()
        symbol = at_work.release(0, uptime=DAY)
        times.append(clock() - start)
        drawn.append(symbol)
        at_work.delivered()
    at_work.close()
    return times, np.array(drawn) == 1


# --- Randomness ----------------------------------------------------------------------------


def block_source(change):
    """An ``os.urandom`` whose bytes are changed in blocks of 32."""
    true = os.urandom

    def source(size):
        data = bytearray(true(size))
        for start in range(0, size, 32):
            change(memoryview(data)[start : start + 32])
        return bytes(data)

    return source


def stuck(bit, value):
    def change(block):
        if bit // 8 < len(block):
            mask = 1 << bit % 8
            block[bit // 8] = block[bit // 8] | mask if value else block[bit // 8] & ~mask

    return block_source(change)


def failing(size):
    raise OSError("no entropy")


def absent(size):
    raise NotImplementedError


TRUE = os.urandom
BLOCK = TRUE(32)
BAD_SOURCES = {
    "constant": lambda size: b"\xa7" * size,
    "zero": bytes,
    "short": lambda size: TRUE(size - 1),
    "half-filled": lambda size: TRUE(size // 2) + bytes(size - size // 2),
    "failing": failing,
    "absent": absent,
    "one block for ever": lambda size: (BLOCK * (size // 32 + 1))[:size],
    **{f"bit {bit} stuck at {value}": stuck(bit, value) for bit in range(256) for value in (0, 1)},
}


def refused_sources(folder, key):
    """How many of the bad sources a sensor refuses to start with."""
    path, refused = write_signed(folder, make_sensor(), key), 0
    for source in BAD_SOURCES.values():
        os.urandom = source
        try:
            device.Sensor(path, public_key=key.public_hex, ledger=Path(folder) / "sources.ledger")
        except device.RandomnessError:
            refused += 1
        finally:
            os.urandom = TRUE
    return refused


# --- Attacks -------------------------------------------------------------------------------


def averaging(folder, key, trials, releases, repeat):
    """How often an attacker names the code after one release, and after many."""
    folder = Path(folder)
    path = write_signed(folder, make_sensor(CodesEncoder(size=2), GENTLE, repeat=repeat), key)
    ledger = folder / f"{repeat}.ledger"
    sensor = device.Sensor(path, public_key=key.public_hex, ledger=ledger)
    right = np.zeros(2)
    for period in range(1, trials + 1):
        code = random.getrandbits(1)
        symbols = sensor.release_rows([code] * releases, uptime=period * DAY)
        right += [symbols[0] == code, (2 * sum(symbols) > releases) == code]
    sensor.close()
    return right / trials


def clones(folder, key, draws):
    """How often two devices from one bundle agree, of how many, and the chance if apart."""
    codes = 64
    sensor = make_sensor(CodesEncoder(size=codes), GENTLE * (codes // 2))
    path = write_signed(folder, sensor, key)
    devices = [
        device.Sensor(path, public_key=key.public_hex, ledger=Path(folder) / f"clone-{i}.ledger")
        for i in range(2)
    ]
    same = tried = 0
    while tried < draws:
        rows, period = list(range(codes)), tried // codes + 1
        first, second = (each.release_rows(rows, uptime=period * DAY) for each in devices)
        same += sum(a == b for a, b in zip(first, second, strict=True))
        tried += codes
    for each in devices:
        each.close()
    return same, tried, 0.7**2 + 0.3**2


def fuzz_c(folder, count, seed=0):
    """Mutate bundles under both sanitizers; returns what the program says."""
    rng = np.random.default_rng(seed)
    policies = [{}, {"repeat": "period"}, {"repeat": "never"}]
    data = b""
    for i in range(30):
        body = bundle_body(random_sensor(rng, **policies[i % 3]))
        data += struct.pack("<I", len(body)) + body
    program = build(str(folder), "fuzz.c", *STRICT, *SANITIZED, "-O1")
    return run_native(program, count, seed, data=data).decode().strip()


def mutate(rng, data):
    """A damaged copy: flipped bits, other bytes, cut, stretched or spliced."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(found)) if found else 0
        choice = rng.randrange(5)
        if choice == 0 and found:
            found[at] ^= 1 << rng.randrange(8)
        elif choice == 1 and found:
            found[at] = rng.randrange(256)
        elif choice == 2:
            del found[rng.randrange(len(found) + 1) :]
        elif choice == 3:
            found += bytes(rng.randrange(9))
        else:
            start = rng.randrange(len(data))
            found[at : at + 8] = data[start : start + 8]
    return bytes(found)


def fuzz_python(folder, key, count, seed=0):
    """Count mutated bundles that are refused, and tables that open once their body is signed."""
    rng, path = random.Random(seed), Path(folder) / "mutated.bundle"
    tables = np.random.default_rng(seed)
    bundles = [key.sign(bundle_body(random_sensor(tables))) for _ in range(20)]
    refused = sound = 0
    for _ in range(count):
        original = rng.choice(bundles)
        found = mutate(rng, original)
        if found == original:
            found = found[:-1]
        path.write_bytes(found)
        try:
            device.read_bundle(path, key.public_hex)
        except device.BundleError:
            refused += 1
        sound += _parses(device, found[:-64])
    return refused, sound


def fuzz_bodies(runtime, count, seed=0):
    """For a runtime without signatures: which mutated bodies parse once they are mended."""
    rng, tables = random.Random(seed), np.random.default_rng(seed)
    bodies = [bundle_body(random_sensor(tables)) for _ in range(20)]
    return [_parses(runtime, mutate(rng, rng.choice(bodies))) for _ in range(count)]


def _parses(runtime, body):
    """Whether a body parses; with its checksum mended it must still be sound or refused."""
    mended = body[:-4] + zlib.crc32(body[:-4]).to_bytes(4, "little")
    try:
        table = runtime.Table(mended)
    except runtime.BundleError:
        return 0
    symbols = [table.pick(row, word) for row in range(table.rows) for word in (0, 2**31, 2**32 - 1)]
    assert all(0 <= symbol < table.symbols for symbol in symbols)
    assert 0 <= table.row(None) < table.rows
    return 1


# --- Size and instructions -----------------------------------------------------------------


def sizes(folder, cpu, *flags):
    """Bytes of code and tables for 16 codes and 2 symbols: drawing alone, and all of it."""
    write_header(folder, sixteen())
    found = []
    for extra in ([], ["-DLEDGER"]):
        program = build(
            str(folder), "size.c", *STRICT, "-Os", f"-mcpu={cpu}", "-mthumb", "-c", *extra, *flags,
            compiler="arm-none-eabi-gcc",
        )  # fmt: skip
        asked = ["arm-none-eabi-size", str(program)]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        text, data = done.stdout.split("\n")[1].split()[:2]
        found.append(int(text) + int(data))
    return found


def bare_metal(folder, source, *flags, machine="mps2-an385", compiler="gcc"):
    """What a program for a Cortex-M prints under QEMU: names and numbers."""
    script = NATIVE / ("cortex_m33.ld" if machine == "mps2-an505" else "cortex_m.ld")
    linking = ("-mthumb", "-nostartfiles", "--specs=nosys.specs", f"-T{script}")
    if compiler == "gcc":
        program = build(str(folder), source, *flags, *linking, compiler="arm-none-eabi-gcc")
    else:
        target = ("--target=arm-none-eabi", "-mthumb", f"-I{NEWLIB}", "-c")
        part = build(str(folder), source, *flags, *target, compiler="clang")
        program = part.with_suffix(".elf")
        chosen = [flag for flag in flags if flag.startswith("-mcpu")]
        link = ["arm-none-eabi-gcc", *chosen, *linking, str(part), "-o", str(program)]
        subprocess.run(link, check=True, capture_output=True)
    done = subprocess.run(
        ["qemu-system-arm", "-M", machine, "-nographic", "-icount", "shift=0", "-kernel",
         str(program), "-semihosting-config", "enable=on,target=native"],
        capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (line.split() for line in (done.stdout + done.stderr).splitlines() if " " in line)
    return [(name, int(value)) for name, value in lines]


def cortex_m(folder, *flags, cpu="cortex-m3"):
    """What the program for a Cortex-M prints, and the sum that it must print."""
    write_header(folder, sixteen())
    flags = (f"-I{RUNTIMES / 'c' / 'client'}", "-O2", f"-mcpu={cpu}", *flags)
    found = bare_metal(folder, "cortex_m.c", *STRICT, *flags)
    return dict(found), cortex_m_sum(sixteen())


def cortex_m_sum(sensor):
    """The same draws and releases in Python."""
    table, state = device.Table(bundle_body(sensor)), 0

    def lcg():
        nonlocal state
        state = (state * 1664525 + 1013904223) % 2**32
        return state

    def source(size):
        return bytes(lcg() >> 24 for _ in range(size))

    for _ in range(64):
        source(32)
    words = [lcg() for _ in range(1000)]
    total = 0
    for i, word in enumerate(words):
        total = (total * 31 + table.pick(i % table.rows, word)) % 2**32
    total = (total + sum(table.row(float(word)) for word in words)) % 2**32
    for i in range(200):
        if i % 20 == 0:
            key = source(32)
        row = i % table.rows
        word = device.keyed_words(key, row >> 4)[row & 15]
        total = (total * 31 + table.pick(row, word)) % 2**32
    return total


# --- The same instructions for every reading -----------------------------------------------

NEWLIB = "/usr/lib/arm-none-eabi/include"
MACHINES = {
    "cortex-m0": "mps2-an385",  # code for a Cortex-M0 runs on an M3, instruction by instruction
    "cortex-m3": "mps2-an385",
    "cortex-m4": "mps2-an386",
    "cortex-m7": "mps2-an500",
    "cortex-m33": "mps2-an505",
}
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
TEXTS = ["open", "shut", "half open", ""]
SECRETS = {
    "BINS": lambda: make_sensor(
        BinsEncoder(edges=np.linspace(-2, 2, 7).tolist(), missing=True), secret_table(9)
    ),
    "NUMBERS": lambda: make_sensor(
        CategoriesEncoder(categories=[0, 1, 3, 7], missing=True), secret_table(6)
    ),
    "TEXTS": lambda: make_sensor(
        CategoriesEncoder(categories=TEXTS, missing=True), secret_table(6)
    ),
    "CODES": lambda: make_sensor(CodesEncoder(size=8, missing=True), secret_table(9)),
    "FRACTIONS": lambda: make_sensor(CodesEncoder(size=8, missing=True), secret_table(9)),
}


def secret_table(rows):
    """Two symbols, as on a sensor, and a budget that can be counted."""
    first = np.linspace(0.2, 0.8, rows)
    return np.column_stack([first, 1 - first])


def instruction_counts(folder, kind, cpu, level, compiler, *extra):
    """How far apart the counts of encoding, and of drawing, are: in ticks, 200 calls each."""
    machine = MACHINES[cpu]
    write_header(folder, SECRETS[kind]())
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", level]
    found = bare_metal(
        folder, "constant.c", *flags, f"-mcpu={cpu}", f"-D{kind}", *extra, machine=machine,
        compiler=compiler,
    )  # fmt: skip
    counts = {}
    for name, value in found:
        counts.setdefault(name, set()).add(value // 40)
    return {name: max(values) - min(values) for name, values in counts.items()}


def secret_reports(folder, kind, level, compiler, *, leak=False, repeat="never"):
    """How many errors valgrind counts where secrets are marked as not defined."""
    table = dataclasses.replace(SECRETS[kind](), policy=Policy(repeat=repeat))
    write_header(folder, table)
    flags = ["-std=c99", "-Wno-unused-function", "-g", level, f"-D{kind}"]
    program = build(
        str(folder), "secrets.c", *flags, *(["-DLEAK"] if leak else []), compiler=compiler
    )
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", "--track-origins=no", str(program)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 9), done.stderr
    return done.stderr.count("uninitialised") if done.returncode else 0


MICROPYTHON_TABLES = {
    "BINS": "BINS", "WHOLE": "BINS", "NUMBERS": "NUMBERS", "TEXTS": "TEXTS", "WORDS": "TEXTS",
    "CODES": "CODES", "FRACTIONS": "CODES", "DRAW": "BINS",
}  # fmt: skip
MICROPYTHON_READINGS = {
    "BINS": 12, "WHOLE": 6, "NUMBERS": 10, "TEXTS": 6, "WORDS": 2, "CODES": 11, "FRACTIONS": 9,
    "DRAW": 6,
}  # fmt: skip


def micropython_counts(folder, kind, readings=None, times=20):
    """Instructions of the Unix port for so many encodings (or draws) of each of some readings.

    What a run with one of them takes is subtracted: the start of the program, that is.
    """
    folder = Path(folder)
    shutil.copy(RUNTIMES / "micropython" / "discreet_sensor.py", folder)
    shutil.copy(NATIVE / "encode_micropython.py", folder)
    table = SECRETS[MICROPYTHON_TABLES[kind]]()
    (folder / f"{kind}.table").write_bytes(bundle_body(table))
    numbers = range(MICROPYTHON_READINGS[kind]) if readings is None else readings
    return [
        _micropython_count(folder, kind, number, times + 1)
        - _micropython_count(folder, kind, number, 1)
        for number in numbers
    ]


def _micropython_count(folder, kind, number, times):
    valgrind = [needs("valgrind"), "--tool=callgrind", "--trace-children=yes"]
    valgrind += ["--callgrind-out-file=/dev/null", needs_unix_port(), "-X", "heapsize=64m"]
    done = subprocess.run(
        [*valgrind, "encode_micropython.py", kind, f"{number:02}", f"{times:03}"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert done.returncode == 0 and found, done.stdout + done.stderr
    return int(found[1])


def needs_unix_port():
    found = os.environ.get("DISCREET_MICROPYTHON") or shutil.which("micropython")
    if found is None:
        pytest.skip("the Unix port of MicroPython is not on the PATH nor in DISCREET_MICROPYTHON")
    return found


# --- Speed ---------------------------------------------------------------------------------


def speed_python(rounds, readings=2**18):
    """Nanoseconds per reading: standard library, gateway, and the gateway with PCG64 words."""
    body = bundle_body(sixteen())
    table = device.Table(body)
    vectors = gateway.VectorTable(table)
    rows = np.random.default_rng(0).integers(16, size=readings)
    listed, pcg64 = rows[:50_000].tolist(), Pcg64Words()
    found = []
    for _ in range(rounds):
        jobs = (
            (lambda: table.draw(listed), len(listed)),
            (lambda: vectors.draw(rows), readings),
            (lambda: vectors.draw(rows, lambda most: pcg64), readings),
        )
        found.append([])
        for job, count in jobs:
            start = time.process_time()  # not what others use of the machine
            job()
            found[-1].append(1e9 * (time.process_time() - start) / count)
    return np.array(found)


class Pcg64Words:
    """NumPy's usual generator in the place of the keystream, as a yardstick."""

    def __init__(self):
        self.generator = np.random.Generator(np.random.PCG64())

    def words(self, count):
        return self.generator.integers(0, TOTAL, size=count, dtype=np.uint32)
