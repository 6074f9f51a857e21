"""Memory and processor time of an audit, against the number of rows that vouch.

    python -m research.benchmarks.audit_memory [--rows 500000 5000000] [--sensors 8] [--classes 2] \
        [--memory 600M 4G]

Rows of a made-up table (sensors of eight codes that read a public and a private fact) are written
to Parquet, some at a time, and audited by the command in a process of its own, once for each
``--memory``. Printed are how many rows served, the largest resident memory, what that is for each
row more than served in the first line, the processor time and the advantage that was certified.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from discreet import RandomizedResponseMapper
from research.benchmarks.streamed_learn import in_bytes

AT_ONCE, CODES = 250_000, 8


def rows(rng: np.random.Generator, n: int, sensors: int, classes: int) -> pd.DataFrame:
    """Return readings and facts."""
    public, private = rng.integers(2, size=n), rng.integers(classes, size=n)
    chance = 0.3 + 0.3 * public[:, None] + 0.1 * private[:, None] / (classes - 1)
    readings = rng.binomial(CODES - 1, np.repeat(chance, sensors, axis=1))
    table = pd.DataFrame(readings, columns=[f"s{t}" for t in range(sensors)])
    return table.assign(fall=public, who=private)


def write(folder: Path, n: int, sensors: int, classes: int) -> None:
    """Write a mapping and so many rows that it was not learned from."""
    rng = np.random.default_rng(0)
    few = rows(rng, 2000, sensors, classes)
    mapper = RandomizedResponseMapper(ldp_epsilon=1.0, random_state=0)
    mapper.fit(few.iloc[:, :sensors], few["fall"], private=few["who"])
    mapper.mapping_.save(folder / "mapping.json")
    with pq.ParquetWriter(folder / "rows.parquet", pa.Table.from_pandas(few).schema) as writer:
        for begin in range(0, n, AT_ONCE):
            part = rows(rng, min(AT_ONCE, n - begin), sensors, classes)
            writer.write_table(pa.Table.from_pandas(part))


def audited(folder: Path, memory: str) -> tuple[int, float, float, float | None]:
    """Return rows that served, MiB, processor seconds and the certified advantage of an audit."""
    command = [sys.executable, "-m", "discreet", "audit", "mapping.json", "rows.parquet"]
    with Path(folder, "out.json").open("w") as out:
        child = subprocess.Popen(
            [*command, "--memory", memory, "--json", "--quiet"], cwd=folder, stdout=out
        )
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(child.returncode)
    found = json.loads(Path(folder, "out.json").read_text())
    bounds = {each["name"]: each for each in found["private"][0]["certificates"]}
    certified = bounds["advantage"].get("value")
    return found["rows"], used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, certified


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[500_000, 5_000_000])
    parser.add_argument("--sensors", type=int, default=8)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--memory", nargs="+", default=["600M", "4G"])
    asked = parser.parse_args()
    print(f"{'rows':>12}{'allowed':>9}{'served':>12}{'MiB':>7}{'bytes a row':>13}{'CPU s':>8}"
          f"{'certified':>11}")  # fmt: skip
    first: tuple[int, float] | None = None
    for n in asked.rows:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), n, asked.sensors, asked.classes)
            for allowed in asked.memory:
                served, memory, seconds, bound = audited(Path(folder), allowed)
                first = first or (served, memory)
                more = ""
                if served != first[0]:
                    more = f"{(memory - first[1]) * 2**20 / (served - first[0]):.0f}"
                kept = "PASS" if memory * 2**20 <= in_bytes(allowed) else "MISSED"
                print(f"{n:>12,}{allowed:>9}{served:>12,}{memory:>7.0f}{more:>13}{seconds:>8.1f}"
                      f"{'none' if bound is None else f'{bound:.4f}':>11}  {kept}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
