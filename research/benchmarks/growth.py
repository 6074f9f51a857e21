"""Does the time grow in proportion to the rows and to the sensors?

    OMP_NUM_THREADS=1 python -m research.benchmarks.growth [--rounds 5] [--sensors 8 32 100] \
        [--only designs]

One pass (two heads, loss and slope) and a whole design with the count kernel, for 1e5 to 5e6
rows and 8 to 100 sensors of 16 codes. A pass costs so much for a row, whatever its sensors
(the labels and the loss), and so much for a code:

    seconds = rows * (a + b * sensors)

a and b are fitted to all cells (least squares of the relative error); "off" is how far a cell is
from that. Beside it the time for a code alone, and its distance from the median. A design adds
the search between the passes, which looks at no rows; its time is fitted in the same way, with a
share for each number of sensors that rows do not change. Times are the processor's seconds: they
do not count while another process has the machine.
"""

import argparse
import time

import numpy as np
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from discreet.choices import LOSSES
from discreet.data.labels import Labels
from discreet.design.heads import private_heads, public_heads
from discreet.design.kernels import CountKernel
from discreet.design.packing import concatenate, pack
from discreet.design.problem import Settings, Target, design_weighted_rows
from discreet.design.sweep import WeightedRows, default_threads, sweep
from discreet.design.weighted_rows import KindRows
from research.bench.tables import draw_blocks

ROWS, SENSORS = (100_000, 300_000, 1_000_000, 3_000_000, 5_000_000), (8, 32, 100)
LOGISTIC = LOSSES["logistic"]
TOLERANCE = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sensors", type=int, nargs="+", default=SENSORS)
    parser.add_argument("--only", choices=("passes", "designs"))
    given = parser.parse_args()
    threadpool_limits(limits=1)  # idle BLAS threads spin and spoil the timing
    problems = {s: Problem(max(ROWS), s) for s in given.sensors}
    held = [problem.bytes_per_code for problem in problems.values()]
    print(f"{default_threads()} threads; {max(held):.3f} bytes held for a code at most, "
          f"target 0.5: {verdict(max(held) <= 0.5)}")  # fmt: skip
    for problem in problems.values():
        problem.one_pass(ROWS[0])  # loads and warms up
    if given.only != "designs":
        show("one pass", measure(problems, "one_pass", given.rounds), fixed=False)
    if given.only != "passes":
        show("whole design", measure(problems, "design", 1), fixed=True)


def verdict(kept: bool) -> str:
    return "PASS" if kept else "MISSED"


class Problem:
    """Packed rows of so many sensors, of which the first few or all are taken."""

    def __init__(self, n_rows: int, n_sensors: int) -> None:
        parts, kinds = [], []
        for codes, public, private in draw_blocks(n_rows, n_sensors):
            parts.append(pack(codes, (16,) * n_sensors))
            kinds.append((2 * public + private).astype(np.uint8))
        self.packed = concatenate(parts)
        self.kinds = np.concatenate(kinds)
        self.tables = 0.1 * np.random.default_rng(0).normal(size=(2, 16 * n_sensors))
        self.bytes_per_code = self.packed.nbytes / (n_rows * n_sensors)

    def weighted_rows(self, n_rows: int):
        packed, kinds = self.packed.take(slice(n_rows)), self.kinds[:n_rows]
        by_kind = KindRows(np.bincount(kinds, minlength=4).astype(float))
        guarded = private_heads(by_kind, Labels("g", np.array([0, 1, 0, 1]), range(2)))
        asked = public_heads(by_kind, Labels("h", np.array([0, 0, 1, 1]), range(2)))
        signed_weights = np.stack(
            [(head.pos - head.neg) / by_kind.counts for head in asked + guarded]
        )
        return WeightedRows(packed, kinds, np.empty(0), signed_weights), guarded

    def one_pass(self, n_rows: int) -> float:
        weighted_rows, _ = self.weighted_rows(n_rows)
        began = time.process_time()
        sweep(weighted_rows, self.tables, LOGISTIC)
        return time.process_time() - began

    def design(self, n_rows: int) -> tuple[float, float]:
        weighted_rows, guarded = self.weighted_rows(n_rows)
        symbols = (2,) * len(self.packed.layout.sizes)
        settings = Settings(symbols, CountKernel(), LOGISTIC, 0.3 / n_rows, 0.1 / n_rows)
        work = {"rng": np.random.default_rng(0), "starts": (), "report": None}
        began = time.process_time()
        found = design_weighted_rows(settings, weighted_rows, 1, guarded, Target(0.998), work)
        return time.process_time() - began, found.passes


def measure(problems: dict, what: str, rounds: int) -> dict:
    """Return seconds (and passes) by rows and sensors: the least of rounds that take turns."""
    found: dict = {}
    for _ in range(rounds):
        for s, problem in problems.items():
            for n in ROWS:
                taken = getattr(problem, what)(n)
                found.setdefault((n, s), []).append(taken)
    return {cell: min(taken) for cell, taken in found.items()}


def show(what: str, found: dict, *, fixed: bool) -> None:
    cells = list(found)
    kinds = sorted({sensors for _, sensors in cells})
    n, s = np.array(cells, dtype=float).T
    timed = np.array([each[0] if isinstance(each, tuple) else each for each in found.values()])
    passes = np.array([each[1] if isinstance(each, tuple) else 1.0 for each in found.values()])
    # What is fitted: rows, codes, and for a design what each number of sensors takes anyway.
    parts = [passes * n, passes * n * s]
    parts += [1.0 * (s == each) for each in kinds] if fixed else []
    weighted = np.column_stack(parts) / timed[:, None]
    shares = nnls(weighted, np.ones(len(timed)))[0]
    off = 1.0 / (weighted @ shares) - 1.0
    each = 1e9 * timed / (n * s)
    beyond = each / np.median(each) - 1.0
    print(f"\n{what:14}{'rows':>9}{'sensors':>9}{'seconds':>10}{'passes':>8}{'off':>8}"
          f"{'ns a code':>11}{'from median':>13}")  # fmt: skip
    for k, (rows, sensors) in enumerate(cells):
        print(f"{'':14}{rows:>9}{sensors:>9}{timed[k]:10.3f}{passes[k]:8.1f}{off[k]:8.1%}"
              f"{each[k]:11.2f}{beyond[k]:13.1%}")  # fmt: skip
    print(f"  {1e9 * shares[0]:.2f} ns for a row and pass, {1e9 * shares[1]:.3f} ns for a code")
    for sensors, seconds in zip(kinds, shares[2:], strict=False):
        print(f"  {seconds:.2f} s with {sensors} sensors, whatever the rows")
    worst = float(np.abs(off).max())
    print(f"  at most {worst:.1%} off, target 20 %: {verdict(worst <= TOLERANCE)}")
    for sensors in kinds:
        own = each[s == sensors]
        worst = float(np.abs(own / np.median(own) - 1.0).max())
        print(f"  {sensors} sensors: time a code within {worst:.1%} of its median over all rows: "
              f"{verdict(worst <= TOLERANCE)}")  # fmt: skip


if __name__ == "__main__":
    main()
