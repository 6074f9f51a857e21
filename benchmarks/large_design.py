"""A whole NPO design with the count kernel, beside one fit of scikit-learn's classifier.

    OMP_NUM_THREADS=1 python benchmarks/large_design.py [--rows 1000000] [--sensors 32] [--rounds 3]

Both begin where the readings are coded: scikit-learn with the one-hot table (CSR), the design
with the codes, which it packs itself. Rounds are interleaved; printed are medians with least
and most, the ratio round by round, and what the design found. With --fit the time of
NPOMapper.fit is added: checks, encoders, digest, fusion rule and estimate included.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from large_tables import draw_large
from logistic import theirs
from one_pass import one_hot_float32
from threadpoolctl import threadpool_limits

from discreet import NPOMapper
from discreet.design.folds import Sample
from discreet.design.heads import Labels
from discreet.design.kernels import CountKernel
from discreet.design.losses import LOSSES
from discreet.design.problem import Settings, Target, design_sample
from discreet.design.sweep import default_threads
from discreet.errors import BlindKernelWarning


def design(codes, public, private, ratio):
    n, s = codes.shape
    facts = Labels("h", public, 2), (Labels("g", private, 2),)
    sample = Sample(codes, (16,) * s, *facts)
    settings = Settings((2,) * s, CountKernel(), LOSSES["logistic"], 0.3 / n, 0.1 / n)
    return design_sample(settings, sample, Target(ratio), rng=np.random.default_rng(0))


def whole_fit(codes, public, private, ratio):
    table = pd.DataFrame(codes, columns=[f"s{t}" for t in range(codes.shape[1])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindKernelWarning)
        mapper = NPOMapper(kernel="count", privacy_ratio=ratio, n_bins=16, random_state=0)
        mapper.fit(table, public, private=private)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sensors", type=int, default=32)
    parser.add_argument("--ratio", type=float, default=0.998)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fit", action="store_true")
    given = parser.parse_args()
    codes, public, private = draw_large(given.rows, given.sensors)
    matrix = one_hot_float32(codes, 16).astype(np.float64)
    taken = []
    for round_ in range(given.rounds + 1):
        clock = [time.perf_counter()]
        with threadpool_limits(limits=default_threads()):
            theirs(matrix, public)
            clock.append(time.perf_counter())
            found = design(codes, public, private, given.ratio)
            clock.append(time.perf_counter())
        if given.fit:
            whole_fit(codes, public, private, given.ratio)
            clock.append(time.perf_counter())
        if round_:  # the first one loads and warms up
            taken.append(np.diff(clock))
    seconds = np.array(taken)
    names = ("scikit-learn, one fit", "design", "NPOMapper.fit")
    print(f"{given.rows} rows, {given.sensors} sensors, {default_threads()} threads")
    print(f"{'':24}{'seconds':>10}{'least':>8}{'most':>8}{'ratio':>8}")
    for name, column in zip(names, seconds.T, strict=False):
        ratio = np.median(column / seconds[:, 0])
        print(
            f"{name:24}{np.median(column):10.2f}{column.min():8.2f}{column.max():8.2f}{ratio:8.2f}"
        )
    slack = float(np.min(found.private_risks - found.floors))
    print(f"{found.passes:.0f} passes, F = {found.public_risk:.5f}, least slack {slack:.1e}")


if __name__ == "__main__":
    main()
