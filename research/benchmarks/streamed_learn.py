"""Time and memory of `discreet learn` on tables that it streams, Parquet and CSV.

    python -m research.benchmarks.streamed_learn [--rows 1000000 4000000] [--sensors 16] \
        [--formats parquet csv] [--folder DIR]

Tables of readings with many digits (so that every column is sketched) are written in files of a
million rows. Each is learned from in a process of its own with --memory 100M and the count
kernel. Printed are what the table would take in memory by the rule that decides, what streaming is
said to take, the most resident memory that the process had, the seconds, and those that pyarrow
takes to read the same files.
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
from pyarrow import csv

from discreet.data.tables import Stream, find_files, memory_needed, memory_streamed

FILE_ROWS = 1_000_000
FORMATS = ("parquet", "csv")
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
    parser.add_argument("--formats", choices=FORMATS, nargs="+", default=list(FORMATS))
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    print(f"{'rows':>10}{'sensors':>9}{'format':>9}{'in memory, MiB':>16}{'streamed, MiB':>15}"
          f"{'resident, MiB':>15}{'seconds':>9}{'pyarrow':>9}")  # fmt: skip
    for n_rows in given.rows:
        for form in given.formats:
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                write(Path(folder), n_rows, given.sensors, form)
                files = find_files([Path(folder) / f"*.{form}"])
                rule, said = memory_needed(files) >> 20, _streamed(n_rows, given.sensors) >> 20
                read = read_plainly(files, form)
                seconds, resident = learn(folder, form)
            print(f"{n_rows:>10}{given.sensors:>9}{form:>9}{rule:16}{said:15}{resident:15}"
                  f"{seconds:9.1f}{read:9.1f}", flush=True)  # fmt: skip


def _streamed(n_rows: int, n_sensors: int) -> int:
    return memory_streamed(
        Stream([], dict.fromkeys(map(str, range(n_sensors + 2)), ""), n_rows, [])
    )


def read_plainly(files: list[Path], form: str) -> float:
    began = time.perf_counter()
    for file in files:
        pq.read_table(file) if form == "parquet" else csv.read_csv(file)
    return time.perf_counter() - began


def write(folder: Path, n_rows: int, n_sensors: int, form: str = "parquet") -> None:
    shares = np.random.default_rng(0).normal(size=(6, n_sensors))
    for k, begin in enumerate(range(0, n_rows, FILE_ROWS)):
        rng, n = np.random.default_rng([1, k]), min(FILE_ROWS, n_rows - begin)
        public, private = rng.integers(2, size=(2, n))
        causes = np.column_stack([2.0 * public - 1, private - 0.5, rng.normal(size=(n, 4))])
        readings = causes @ shares + rng.normal(size=(n, n_sensors))
        table = {f"s{t}": readings[:, t] for t in range(n_sensors)}
        table |= {"public": public == 1, "private": np.array(["a", "b"])[private]}
        path = folder / f"part-{k:04}.{form}"
        pq.write_table(pa.table(table), path) if form == "parquet" else csv.write_csv(
            pa.table(table), path
        )


def learn(folder: str, form: str) -> tuple[float, int]:
    began = time.perf_counter()
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, "learn", f"part-*.{form}", "--public", "public", "--private",
         "private", "--kernel", "count", "--memory", "100M", "--out", "m.json", "--quiet"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return time.perf_counter() - began, int(found.stdout.split()[-2]) >> 10


if __name__ == "__main__":
    main()
