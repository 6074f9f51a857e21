"""Time and memory of `discreet learn` on Parquet tables that it streams.

    python -m research.benchmarks.streamed_learn [--rows 1000000 4000000] [--sensors 16] \
        [--folder DIR]

Tables of readings with many digits (so that every column is sketched) are written in files of a
million rows. Each is learned from in a process of its own with --memory 100M and the count
kernel. Printed are the seconds, the most resident memory that the process had, and what the
table would take in memory by the rule that decides.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data.tables import find_files, memory_needed

FILE_ROWS = 1_000_000
SCRIPT = """
import sys
from pathlib import Path
from discreet import cli
try:
    cli.main()
finally:
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(line for line in lines if line.startswith("VmHWM")))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--sensors", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    print(f"{'rows':>10}{'sensors':>9}{'in memory, GB':>15}{'resident, GB':>14}{'seconds':>9}")
    for n_rows in given.rows:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            write(Path(folder), n_rows, given.sensors)
            rule = memory_needed(find_files([Path(folder) / "*.parquet"])) / 1e9
            seconds, resident = learn(folder)
        print(f"{n_rows:>10}{given.sensors:>9}{rule:15.2f}{resident:14.2f}{seconds:9.1f}")


def write(folder: Path, n_rows: int, n_sensors: int) -> None:
    shares = np.random.default_rng(0).normal(size=(6, n_sensors))
    for k, begin in enumerate(range(0, n_rows, FILE_ROWS)):
        rng, n = np.random.default_rng([1, k]), min(FILE_ROWS, n_rows - begin)
        public, private = rng.integers(2, size=(2, n))
        causes = np.column_stack([2.0 * public - 1, private - 0.5, rng.normal(size=(n, 4))])
        readings = causes @ shares + rng.normal(size=(n, n_sensors))
        table = {f"s{t}": readings[:, t] for t in range(n_sensors)}
        table |= {"public": public == 1, "private": np.array(["a", "b"])[private]}
        pq.write_table(pa.table(table), folder / f"part-{k:04}.parquet")


def learn(folder: str) -> tuple[float, float]:
    began = time.perf_counter()
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, "learn", "part-*.parquet", "--public", "public", "--private",
         "private", "--kernel", "count", "--memory", "100M", "--out", "m.json", "--quiet"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return time.perf_counter() - began, int(found.stdout.split()[-2]) / 1e6


if __name__ == "__main__":
    main()
