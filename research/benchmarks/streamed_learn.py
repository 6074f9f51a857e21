"""Time and memory of `discreet learn` on tables that it streams, Parquet and CSV.

    python -m research.benchmarks.streamed_learn [--rows 1000000 4000000] [--sensors 32] \
        [--formats parquet csv] [--memory 800M 2G] [--folder DIR]

Tables of readings with many digits are written in files of a million rows, a stored pandas index
among the columns of Parquet. Each is learned from in a process of its own, with as little memory
as is allowed for such a table, or with each ``--memory``. Printed are what the table would take in
memory by the rule that decides, what was allowed, the most resident memory that the process had,
its seconds of the clock and of the processor, rows for each of the former, and the same of pyarrow
reading the files, batch by batch and all columns.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from discreet.data.opening import memory_needed, memory_streamed
from discreet.data.tables import Stream, find_files

FILE_ROWS = 1_000_000
FORMATS = ("parquet", "csv")
SCRIPT = """
import sys, time
from pathlib import Path
from discreet import cli
try:
    cli.main()
finally:
    lines = Path("/proc/self/status").read_text().splitlines()
    most = next(line for line in lines if line.startswith("VmHWM")).split()[1]
    print("used", most, time.process_time())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--sensors", type=int, default=32)
    parser.add_argument("--formats", choices=FORMATS, nargs="+", default=list(FORMATS))
    parser.add_argument("--memory", nargs="+", default=[None])
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    print(f"{'rows':>10}{'format':>9}{'in memory':>11}{'allowed':>9}{'resident, MiB':>15}"
          f"{'seconds':>9}{'CPU':>9}{'rows/s':>10}{'pyarrow':>10}")  # fmt: skip
    for n_rows in given.rows:
        for form in given.formats:
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                write(Path(folder), n_rows, given.sensors, form)
                files = find_files([Path(folder) / f"*.{form}"])
                rule = memory_needed(files) >> 20
                read = read_plainly(files, form)
                for memory in given.memory:
                    allowed = memory or f"{-(-least(n_rows, given.sensors) >> 20)}M"
                    seconds, cpu, resident = learn(folder, form, allowed)
                    kept = resident << 20 <= in_bytes(allowed)
                    print(f"{n_rows:>10}{form:>9}{rule:11}{allowed:>9}{resident:15}{seconds:9.1f}"
                          f"{cpu:9.1f}{n_rows / seconds:10.0f}{n_rows / read:10.0f}  "
                          f"{'PASS' if kept else 'MISSED'}", flush=True)  # fmt: skip


def in_bytes(text: str) -> int:
    return int(text[:-1]) << {"M": 20, "G": 30}[text[-1]]


def least(n_rows: int, n_sensors: int) -> int:
    return memory_streamed(
        Stream([], dict.fromkeys(map(str, range(n_sensors + 2)), ""), n_rows, [])
    )


def read_plainly(files: list[Path], form: str) -> float:
    began = time.perf_counter()
    for file in files:
        if form == "parquet":
            for _ in pq.ParquetFile(file).iter_batches():
                pass
        else:
            for _ in csv.open_csv(file):
                pass
    return time.perf_counter() - began


def write(folder: Path, n_rows: int, n_sensors: int, form: str = "parquet") -> None:
    shares = np.random.default_rng(0).normal(size=(6, n_sensors))
    for k, begin in enumerate(range(0, n_rows, FILE_ROWS)):
        rng, n = np.random.default_rng([1, k]), min(FILE_ROWS, n_rows - begin)
        public, private = rng.integers(2, size=(2, n))
        causes = np.column_stack([2.0 * public - 1, private - 0.5, rng.normal(size=(n, 4))])
        readings = causes @ shares + rng.normal(size=(n, n_sensors))
        table = pd.DataFrame(readings, columns=[f"s{t}" for t in range(n_sensors)])
        table["public"], table["private"] = public == 1, np.array(["a", "b"])[private]
        table.index = pd.Index(np.arange(begin, begin + n) * 2)
        path = folder / f"part-{k:04}.{form}"
        if form == "parquet":
            table.to_parquet(path)
        else:
            csv.write_csv(pa.Table.from_pandas(table, preserve_index=False), path)


def learn(folder: str, form: str, memory: str) -> tuple[float, float, int]:
    began = time.perf_counter()
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, "learn", f"part-*.{form}", "--public", "public", "--private",
         "private", "--memory", memory, "--out", "m.json", "--quiet"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    used = re.search(r"used (\d+) ([\d.]+)", found.stdout)
    if found.returncode or used is None:
        raise SystemExit(found.stderr)
    return time.perf_counter() - began, float(used[2]), int(used[1]) >> 10


if __name__ == "__main__":
    main()
