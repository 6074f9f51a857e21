"""The fast solver beside the paper's own, from the same start.

    python -m research.benchmarks.solvers [--problems 6] [--rows 80]

For each problem (the paper's synthetic case, correlation 0.2) Algorithm 1 finds the floor
and the start. Then Algorithm 2, the fast solver from that start with its default number of
random ones beside it, and the fast solver going on from Algorithm 2's answer (what
solver="thorough" does) are run one after the other. Printed: the public risk F that each
ends at, all within the same floor, and the time.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from discreet.choices import KERNELS, LOSSES
from discreet.data.columns import Labels
from discreet.design.fast import Limits, design_fast
from discreet.design.feasible import uniform_tables
from discreet.design.npo import Setting, design_gauss_seidel, feasible_start, find_threshold
from discreet.design.risks import make_risks
from discreet.design.training_rows import collapse, private_heads, public_heads
from research.paper.synthetic import draw_readings

RATIO, REG = 0.99, 0.01


def run(kernel: str, rows_wanted: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    readings, h, g = draw_readings(rows_wanted, 0.2, rng)
    rows = collapse(readings - 1, (9,) * 4)
    public = public_heads(rows, Labels("h", h, range(2)))
    private = private_heads(rows, Labels("g", g, range(2)))
    setting = Setting(rows, (2,) * 4, KERNELS[kernel](), LOSSES["logistic"], REG, REG)
    threshold = find_threshold(setting, private[0], rng=rng)
    floors = np.array([RATIO * threshold.value])
    start = feasible_start(setting, private, [threshold], floors)
    risks = make_risks(
        rows, public + private, (2,) * 4, setting.kernel, setting.loss, [REG] * 2, relaxed=True
    )
    reachable = risks.evaluate(uniform_tables(rows.sizes, (2,) * 4)).values[1:]
    limits = Limits(floors, reachable)
    clock = [time.perf_counter()]
    slow = design_gauss_seidel(setting, public, private, floors, start)
    clock.append(time.perf_counter())
    fast = design_fast(risks, limits, (2,) * 4, rng=rng, starts=[start], softness=0.0)
    clock.append(time.perf_counter())
    onwards = design_fast(
        risks, limits, (2,) * 4, rng=rng, n_restarts=0, starts=[slow.tables], softness=0.0
    )
    clock.append(time.perf_counter())
    found = [slow.public_risk, fast.public_risk, onwards.public_risk]
    return [*found, *np.diff(clock)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=6)
    parser.add_argument("--rows", type=int, default=80)
    given = parser.parse_args()
    print(f"{'kernel':10}{'seed':>5}{'Algorithm 2':>14}{'fast':>10}{'onwards':>10}{'seconds':>24}")
    for kernel in ("product", "count"):
        for seed in range(given.problems):
            with threadpool_limits(limits=1):
                slow, fast, onwards, *seconds = run(kernel, given.rows, seed)
            times = "".join(f"{each:8.2f}" for each in seconds)
            print(f"{kernel:10}{seed:5}{slow:14.5f}{fast:10.5f}{onwards:10.5f}{times}", flush=True)


if __name__ == "__main__":
    main()
