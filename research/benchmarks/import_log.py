"""How long `discreet import` takes for a recorder's file, and how much memory.

    python -m research.benchmarks.import_log [--states 1000000] [--entities 20] [--days 30]

The file is made with the tables of Home Assistant's recorder, old and new. Asked for: a million
states in at most 60 s and 500 MB.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BEGIN = 1_767_225_600.0
MOST_SECONDS, MOST_MEGABYTES = 60.0, 500.0  # asked for, of a million states


def write(file, n_states, n_entities, days, old):
    """Write states of made entities, at random times, in the order of time."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(BEGIN, BEGIN + days * 86_400, n_states))
    entity = rng.integers(n_entities, size=n_states)
    with sqlite3.connect(file) as base:
        if old:
            base.execute("CREATE TABLE states (entity_id TEXT, state TEXT, last_updated TIMESTAMP)")
        else:
            base.execute("CREATE TABLE states_meta (metadata_id INTEGER, entity_id TEXT)")
            base.execute(
                "CREATE TABLE states (metadata_id INTEGER, state TEXT, last_updated_ts DOUBLE)"
            )
            names = enumerate(map(name_of, range(n_entities)))
            base.executemany("INSERT INTO states_meta VALUES (?, ?)", names)
        stamps = times.astype("datetime64[s]").astype(str) if old else times.tolist()
        keys = map(name_of, entity.tolist()) if old else entity.tolist()
        states = map(state_of, entity.tolist(), rng.normal(20.0, 4.0, n_states).tolist())
        base.executemany(
            "INSERT INTO states VALUES (?, ?, ?)",
            zip(keys, states, map(plain, stamps), strict=True),
        )
    base.close()


def plain(stamp):
    return str(stamp).replace("T", " ") if isinstance(stamp, str) else stamp


def name_of(k):
    """Half of the entities are switches."""
    return f"sensor.s{k}" if k % 2 else f"binary_sensor.b{k}"


def state_of(k, value):
    return f"{value:.2f}" if k % 2 else ("on" if value > 20 else "off")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--entities", type=int, default=20)
    parser.add_argument("--days", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for old in (False, True):
            file, out = Path(folder) / f"{old}.db", Path(folder) / "table.csv"
            write(file, given.states, given.entities, given.days, old)
            command = [sys.executable, "-m", "discreet", "import", str(file), "--out", str(out)]
            begin = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            said = process.stdout.read().decode().splitlines()
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - begin
            print(said[1] if len(said) > 1 else said)
            size = used.ru_maxrss / 1024
            met = status == 0 and seconds <= MOST_SECONDS and size <= MOST_MEGABYTES
            print(
                f"{'old' if old else 'new'} schema, {given.states} states: {seconds:.1f} s "
                f"({used.ru_utime + used.ru_stime:.1f} s of processor), {size:.0f} MB; "
                f"load {os.getloadavg()[0]:.1f}: {'met' if met else 'MISSED'}"
            )


if __name__ == "__main__":
    main()
