"""Logistic regression on codes, to the objective that scikit-learn ends at.

    OMP_NUM_THREADS=1 python benchmarks/logistic.py [--rows 1000000] [--sensors 32] [--rounds 5]

scikit-learn's LogisticRegression gets the one-hot table (CSR, float64) and its own defaults,
without an intercept, which a one-hot table makes superfluous. Ours gets the packed codes and
goes on until its estimate of what is left falls below 1e-6. Both minimise the mean logistic
loss plus |w|^2 / (2 n). Rounds are interleaved; printed are medians with least and most, what
each ended at, and the ratio, taken round by round. Making either table is not counted.
"""

import argparse
import time

import numpy as np
from large_tables import draw_large
from one_pass import one_hot_float32
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from discreet.design.code_models import Features
from discreet.design.code_solver import CodeSolver
from discreet.design.losses import LOSSES
from discreet.design.packing import pack
from discreet.design.sweep import Ballots, default_threads


def objective(matrix, labels, w):
    margins = (2 * labels - 1) * (matrix @ w)
    return float(np.logaddexp(0.0, -margins).mean() + 0.5 / len(labels) * w @ w)


def theirs(matrix, labels):
    return LogisticRegression(fit_intercept=False).fit(matrix, labels).coef_[0]


def ours(ballots):
    solver = CodeSolver(ballots, LOSSES["logistic"], np.array([1.0 / len(ballots)]), tolerance=1e-6)
    itself = Features([np.eye(16)] * len(ballots.packed.layout.sizes))
    return solver.solve(itself).w[0], solver.passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sensors", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    codes, labels, _ = draw_large(given.rows, given.sensors)
    votes = np.array([[-1.0, 1.0]]) / given.rows
    packed = pack(codes, [16] * given.sensors)
    ballots = Ballots(packed, labels.astype(np.uint8), np.empty(0), votes)
    matrix = one_hot_float32(codes, 16).astype(np.float64)
    del codes
    taken = []
    for round_ in range(given.rounds + 1):
        clock = [time.perf_counter()]
        with threadpool_limits(limits=default_threads()):
            w = theirs(matrix, labels)
            clock.append(time.perf_counter())
            own, passes = ours(ballots)
        clock.append(time.perf_counter())
        if round_:  # the first one loads and warms up
            taken.append(np.diff(clock))
    seconds = np.array(taken)
    print(f"{given.rows} rows, {given.sensors} sensors, {default_threads()} threads")
    print(f"{'':14}{'seconds':>10}{'least':>8}{'most':>8}{'objective':>14}")
    ends = (objective(matrix, labels, w), objective(matrix, labels, own))
    for k, name in enumerate(("scikit-learn", "ours")):
        column = seconds[:, k]
        print(f"{name:14}{np.median(column):10.3f}{column.min():8.3f}{column.max():8.3f}", end="")
        print(f"{ends[k]:14.8f}")
    ratio = np.median(seconds[:, 0] / seconds[:, 1])
    print(f"ours takes {passes:.1f} passes and is {ratio:.1f} times faster")


if __name__ == "__main__":
    main()
