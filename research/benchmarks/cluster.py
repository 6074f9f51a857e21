"""A fit on a Dask cluster of this machine: what a pass costs, and what a lost worker costs.

    python -m research.benchmarks.cluster [--rows 1000000] [--sensors 32] [--workers 2] \
        [--passes 60]

The overhead of a pass is its time here less the time that its slowest worker was busy: messages,
scheduling, adding up. Printed are the median and the quartiles over many passes. Then the same
design runs three times: on one machine, on the cluster, and on the cluster with a worker killed
(SIGKILL) in the middle and another one at the last pass. The objectives must agree within 1e-8.
"""

import argparse
import os
import signal
import time
import warnings

import numpy as np

from discreet.choices import LOSSES
from discreet.cluster.connect import connected
from discreet.cluster.fit import ClusterRows
from discreet.design.packing import pack
from discreet.design.sweep import WeightedRows
from discreet.errors import LostWorkerWarning
from research.bench.large_cases import design
from research.bench.measure import one_thread
from research.bench.tables import CODES, draw_large

MOST_OVERHEAD, MOST_DIFFERENCE = 0.010, 1e-8


def verdict(met: bool) -> str:
    return "PASS" if met else "MISSED"


def two_heads(codes, public, private):
    n, s = codes.shape
    kinds = (2 * public + private).astype(np.uint8)
    signed_weights = np.array([[-1, -1, 1, 1], [-1, 1, -1, 1]]) / n
    return WeightedRows(pack(codes, [CODES] * s), kinds, np.empty(0), signed_weights)


def measure_overhead(client, weighted_rows, passes):
    box, loss = ClusterRows(client, weighted_rows), LOSSES["logistic"]
    rng, taken = np.random.default_rng(0), []
    for k in range(passes + 5):
        tables = 0.1 * rng.normal(size=(2, weighted_rows.layout.n_codes))
        begin = time.perf_counter()
        box.sweep(tables, loss)
        if k >= 5:  # the first ones load and warm up
            taken.append((time.perf_counter() - begin, box.seconds))
    whole, busy = np.array(taken).T
    low, middle, high = 1e3 * np.quantile(whole - busy, [0.25, 0.5, 0.75])
    print(
        f"a pass takes {1e3 * np.median(whole):.1f} ms, its slowest worker is busy for "
        f"{1e3 * np.median(busy):.1f} ms"
    )
    print(
        f"overhead per pass: {middle:.1f} ms, quartiles {low:.1f} to {high:.1f} "
        f"(target <= {1e3 * MOST_OVERHEAD:.0f} ms): {verdict(middle <= 1e3 * MOST_OVERHEAD)}"
    )


class KillingRows(ClusterRows):
    """Kills the worker of its first piece before some of the passes."""

    when: frozenset = frozenset()
    passes = 0

    def sweep(self, *arguments):
        if KillingRows.passes in self.when:
            pids = self._client.run(os.getpid)
            os.kill(pids[self._pieces[0].worker], signal.SIGKILL)
        KillingRows.passes += 1
        return super().sweep(*arguments)


def timed_design(name, table, place=None):
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LostWorkerWarning)
        found = design(*table, place=place)
    lost = sum(issubclass(each.category, LostWorkerWarning) for each in caught)
    print(
        f"{name:28}{time.perf_counter() - begin:8.1f} s{found.passes:8.0f} passes{lost:5} lost"
        f"    F = {found.public_risk:.12f}"
    )
    return found


def compare_designs(client, table):
    alone = timed_design("one machine", table)
    spread = timed_design(
        "cluster", table, lambda weighted_rows: KillingRows(client, weighted_rows)
    )
    last = KillingRows.passes - 1
    KillingRows.passes, KillingRows.when = 0, frozenset({last // 2, last})
    killed = timed_design("cluster, workers killed", table, lambda b: KillingRows(client, b))
    apart = max(abs(alone.public_risk - each.public_risk) for each in (spread, killed))
    met = verdict(apart <= MOST_DIFFERENCE)
    print(f"objectives differ by {apart:.1e} (target <= {MOST_DIFFERENCE:g}): {met}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sensors", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--passes", type=int, default=60)
    given = parser.parse_args()
    table = draw_large(given.rows, given.sensors)
    print(f"{given.rows} rows, {given.sensors} sensors, {given.workers} workers")
    with one_thread(), connected(f"local:{given.workers}") as client:
        measure_overhead(client, two_heads(*table), given.passes)
        compare_designs(client, table)


if __name__ == "__main__":
    main()
