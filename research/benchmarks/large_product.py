"""NPOMapper with its default kernel on a large table: seconds and memory.

    python -m research.benchmarks.large_product [--rows 1000000] [--sensors 12 32]

For each number of sensors, one fit in a process of its own: readings in, mapping out, with
everything that fit does. Printed are the seconds of the fit, the largest memory the process
ever held, the passes over all rows, and the share of the kernel that was left out.
"""

import argparse
import resource
import subprocess
import sys
import time

import pandas as pd

from discreet import NPOMapper
from research.bench.tables import draw_large


def fit(rows: int, sensors: int) -> None:
    codes, public, private = draw_large(rows, sensors)
    table = pd.DataFrame(codes, columns=[f"s{t}" for t in range(sensors)])
    del codes
    start = time.perf_counter()
    mapper = NPOMapper(random_state=0).fit(table, public, private=private)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # from kB
    print(
        f"{rows:9}{sensors:9}{seconds:10.1f}{memory:9.2f}{mapper.passes_:9.0f}"
        f"{mapper.kernel_error_:14.2g}{mapper.public_risk_:9.4f}"
        f"{mapper.private_risk_ - mapper.threshold_:10.1e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sensors", type=int, nargs="+", default=[12, 32])
    parser.add_argument("--alone", action="store_true", help="fit in this process")
    given = parser.parse_args()
    if given.alone:
        fit(given.rows, given.sensors[0])
        return
    print(f"{'rows':>9}{'sensors':>9}{'seconds':>10}{'GB':>9}{'passes':>9}", end="")
    print(f"{'left out':>14}{'F':>9}{'slack':>10}", flush=True)
    for sensors in given.sensors:
        size = ["--rows", str(given.rows), "--sensors", str(sensors), "--alone"]
        subprocess.run(
            [sys.executable, "-m", "research.benchmarks.large_product", *size], check=True
        )


if __name__ == "__main__":
    main()
