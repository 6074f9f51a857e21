"""How long an audit takes and how much memory: 100,000 rows of 16 binary sensors.

    python benchmarks/audit.py [--rows 100000] [--sensors 16] [--rounds 3]

The whole audit as ``discreet audit`` runs it: certificates over all 2^16 outputs, every
attacker on symbols and on readings, for a private and a public fact. Printed: the median
time over the rounds and the peak memory of the process, beside the targets of 10 s and 1 GB.
"""

import argparse
import resource
import statistics
import time

import numpy as np
import pandas as pd

from discreet import Mapping, audit
from discreet.codes import CodesEncoder
from discreet.mapping_parts import AdditiveFusion, Design, Fact


def made_up(rows: int, sensors: int, seed: int) -> tuple[Mapping, pd.DataFrame, np.ndarray, ...]:
    """Return a mapping that flips each reading with probability 0.2, and rows for it."""
    rng = np.random.default_rng(seed)
    h, g = rng.integers(2, size=(2, rows))
    X = (rng.random((rows, sensors)) < 0.3 + 0.3 * h[:, None]).astype(int)
    X[:, 0] = np.where(rng.random(rows) < 0.4, g, X[:, 0])
    names = [f"s{t}" for t in range(sensors)]
    mapping = Mapping.create(
        names=names,
        encoders=[CodesEncoder(size=2)] * sensors,
        tables=[np.array([[0.8, 0.2], [0.2, 0.8]])] * sensors,
        public=Fact(name="h", classes=(0, 1)),
        private=[Fact(name="g", classes=(0, 1))],
        fusion=AdditiveFusion(weights=((-0.5, 0.5),) * sensors, bias=0.0),
        design=Design(method="made-up", rows=0, created="", discreet=""),
    )
    return mapping, pd.DataFrame(X, columns=names), h, g


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--sensors", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    mapping, X, h, g = made_up(given.rows, given.sensors, 0)
    times = []
    for _ in range(given.rounds):
        begin = time.perf_counter()
        found = audit(mapping, X, h, private=g)
        times.append(time.perf_counter() - begin)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(found.verdict)
    print(f"{given.rows} rows x {given.sensors} binary sensors, {found.outputs} outputs")
    print(f"median {statistics.median(times):.1f} s (target 10), peak memory {memory:.2f} GB (1)")


if __name__ == "__main__":
    main()
