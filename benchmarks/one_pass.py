"""One pass over the rows, loss and gradient of one head, beside other ways to do it.

    python benchmarks/one_pass.py [--rows 1000000] [--sensors 32] [--codes 16] [--rounds 11]

Every round runs each of them once, in turn, so that a slow moment of the machine touches all
alike. Printed are the median over the rounds, the least and the most, and the ratio to one
thread of ours, taken round by round. The peers: the same loss and gradient from a one-hot
matrix (SciPy CSR, float32), one boosting iteration of a stump (LightGBM with quantised
gradients, one thread; needs the bench extra), and our own twin in NumPy. Where others use the
machine too, the processor's seconds say more than those on the clock: both are given.
"""

import argparse
import time
from importlib.util import find_spec

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit
from threadpoolctl import threadpool_limits

from discreet.design.losses import LOSSES
from discreet.design.packing import pack
from discreet.design.sweep import Ballots, compiled_sweep, plain_sweep

LOGISTIC = LOSSES["logistic"]


def one_hot_float32(codes, size):
    n, s = codes.shape
    columns = (codes + size * np.arange(s)).astype(np.int32).ravel()
    starts = np.arange(0, n * s + 1, s, dtype=np.int32)
    return csr_array((np.ones(n * s, np.float32), columns, starts), shape=(n, s * size))


def sparse_pass(matrix, transposed, signs, w):
    margins = signs * (matrix @ w)
    value = np.logaddexp(0.0, -margins).mean()
    return value, transposed @ (-signs * expit(-margins) / len(signs))


def stump(codes, labels):
    import lightgbm

    options = {
        "objective": "binary",
        "num_leaves": 2,
        "max_bin": 16,
        "use_quantized_grad": True,
        "num_threads": 1,
        "force_row_wise": True,
        "min_data_in_bin": 1,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(codes.astype(np.float32), labels, params=options)
    return lightgbm.Booster(options, data)


def contestants(codes, labels, size):
    n, s = codes.shape
    ballots = Ballots(
        pack(codes, [size] * s),
        labels.astype(np.uint8),
        np.empty(0),
        np.array([[-1.0, 1.0]]) / n,
    )
    tables = 0.1 * np.random.default_rng(1).normal(size=(1, s * size))
    matrix = one_hot_float32(codes, size)
    transposed = matrix.T  # CSC: what X.T @ r uses
    signs = (2.0 * labels - 1.0).astype(np.float32)
    w = tables[0].astype(np.float32)
    found = {
        "ours, 1 thread": lambda: compiled_sweep(ballots, tables, LOGISTIC, 1),
        "ours, 2 threads": lambda: compiled_sweep(ballots, tables, LOGISTIC, 2),
        "SciPy CSR float32": lambda: sparse_pass(matrix, transposed, signs, w),
        "NumPy twin": lambda: plain_sweep(ballots, tables, LOGISTIC),
    }
    if find_spec("lightgbm") is not None:
        booster = stump(codes, labels)
        found["LightGBM stump"] = booster.update
    return found


def measure(found, rounds):
    taken = {name: [] for name in found}
    for round_ in range(rounds + 1):
        for name, run in found.items():
            run()  # each finds its own data in the caches, as in a fit
            clock, processor = time.perf_counter(), time.process_time()
            run()
            seconds = (time.perf_counter() - clock, time.process_time() - processor)
            if round_:  # the first one compiles and warms up
                taken[name].append(seconds)
    return {name: np.array(seconds) for name, seconds in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sensors", type=int, default=32)
    parser.add_argument("--codes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=11)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    codes = rng.integers(given.codes, size=(given.rows, given.sensors))
    labels = (codes[:, 0] + codes[:, 1] + rng.integers(given.codes, size=given.rows)) % 2
    with threadpool_limits(1, user_api="blas"):  # idle BLAS threads spin beside the next contestant
        taken = measure(contestants(codes, labels, given.codes), given.rounds)
    per_code = 1e9 / (given.rows * given.sensors)
    ours = taken["ours, 1 thread"]
    print(
        f"{given.rows} rows, {given.sensors} sensors of {given.codes} codes, {given.rounds} rounds"
    )
    print(f"{'':20}{'ns per code: clock':>20}{'least':>8}{'most':>8}{'processor':>11}", end="")
    print(f"{'ratio: clock':>14}{'processor':>11}")
    for name, seconds in taken.items():
        clock, processor = (per_code * seconds).T
        ratio = np.median(seconds / ours, axis=0)
        print(f"{name:20}{np.median(clock):20.3f}{clock.min():8.3f}{clock.max():8.3f}", end="")
        print(f"{np.median(processor):11.3f}{ratio[0]:14.2f}{ratio[1]:11.2f}")
    if "LightGBM stump" not in taken:
        print("LightGBM is not installed: pip install '.[bench]'")


if __name__ == "__main__":
    main()
