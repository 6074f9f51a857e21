"""Memory and processor time of an audit, against the number of rows that vouch.

    python -m research.benchmarks.audit_memory [--rows 500000 5000000] [--sensors 8]

Rows of a made-up table (sensors of eight codes that read a public and a private fact) are written
to Parquet, some at a time, and audited by the command in a process of its own. Printed are its
largest resident memory, what that is for each row more than in the first line, and its processor
time.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from discreet import RandomizedResponseMapper

AT_ONCE, CODES = 250_000, 8


def rows(rng: np.random.Generator, n: int, sensors: int) -> pd.DataFrame:
    """Return readings and facts."""
    public, private = rng.integers(2, size=(2, n))
    chance = 0.3 + 0.3 * public[:, None] + 0.1 * private[:, None]
    readings = rng.binomial(CODES - 1, np.repeat(chance, sensors, axis=1))
    table = pd.DataFrame(readings, columns=[f"s{t}" for t in range(sensors)])
    return table.assign(fall=public, who=private)


def audited(folder: Path, n: int, sensors: int) -> tuple[float, float]:
    """Return MiB and processor seconds of an audit of so many rows."""
    rng, path = np.random.default_rng(0), folder / f"{n}.parquet"
    few = rows(rng, 2000, sensors)
    mapper = RandomizedResponseMapper(ldp_epsilon=1.0, random_state=0)
    mapper.fit(few.iloc[:, :sensors], few["fall"], private=few["who"])
    mapper.mapping_.save(folder / "mapping.json")
    with pq.ParquetWriter(path, pa.Table.from_pandas(few).schema) as writer:
        for _ in range(0, n, AT_ONCE):
            writer.write_table(pa.Table.from_pandas(rows(rng, min(AT_ONCE, n), sensors)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["/usr/bin/env", sys.executable, "-m", "discreet", "audit", "mapping.json", path.name],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return after.ru_maxrss / 1024, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[500_000, 5_000_000])
    parser.add_argument("--sensors", type=int, default=8)
    asked = parser.parse_args()
    print(f"{'rows':>12}{'MiB':>9}{'bytes a row':>13}{'CPU s':>8}")
    first: tuple[int, float] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for n in sorted(asked.rows):  # the largest of all children is what is reported
            memory, seconds = audited(Path(folder), n, asked.sensors)
            first = first or (n, memory)
            more = "" if n == first[0] else f"{(memory - first[1]) * 2**20 / (n - first[0]):.0f}"
            print(f"{n:>12,}{memory:>9.0f}{more:>13}{seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
