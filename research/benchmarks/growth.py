"""Does the time of a whole fit grow with the rows only as one counting pass does?

    python -m research.benchmarks.growth [--rows 10000 100000 1000000 10000000] \
        [--sensors 8 32 100 200] [--most 400000000]

Whole default fits from arrays of 16 codes, of so many rows with 32 sensors and of 100,000 rows with
so many sensors; tables of more than ``--most`` codes are left out. Beside each stands one counting
pass over the same rows. What a row costs is the slope between the largest two tables, where neither
the search nor the sample grows any more; of a fit it should be at most 1.1 times that of the pass.
Times are the processor's seconds, medians of three rounds in which fit and pass take turns.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from discreet import Mapper
from research.bench.large_cases import count

MOST_SLOPE, ROUNDS = 1.1, 3


def draw(n_rows, n_sensors):
    rng = np.random.default_rng(0)
    public, private = rng.integers(2, size=(2, n_rows))
    codes = rng.integers(0, 12, size=(n_rows, n_sensors), dtype=np.int16)
    for t in range(n_sensors):
        codes[:, t] += (public * (t % 4) + private * (t % 3)).astype(np.int16)
    return np.minimum(codes, 15, out=codes), public, private


def seconds(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(n_rows, n_sensors):
    """Return the seconds of a whole fit and of one pass: medians of rounds, in turn."""
    codes, public, private = draw(n_rows, n_sensors)
    frame = pd.DataFrame(codes, columns=[f"s{t}" for t in range(n_sensors)], copy=False)
    rounds = [
        (
            seconds(lambda: Mapper(random_state=0).fit(codes, public, private=private)),
            seconds(lambda: count(frame, public, private)),
        )
        for _ in range(ROUNDS)
    ]
    whole, counted = np.median(rounds, axis=0)
    print(f"{n_rows:>10}{n_sensors:>9}{whole:10.2f}{counted:10.2f}", flush=True)
    return whole, counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--sensors", type=int, nargs="+", default=[8, 32, 100, 200])
    parser.add_argument("--most", type=int, default=400_000_000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'rows':>10}{'sensors':>9}{'fit, s':>10}{'pass, s':>10}")
    with threadpool_limits(limits=1):
        sizes = [n for n in sorted(given.rows) if 32 * n <= given.most]
        by_rows = [measure(n, 32) for n in sizes]
        for n_sensors in given.sensors:
            measure(100_000, n_sensors)
    if len(sizes) > 1:
        fit, one = (by_rows[-1][k] - by_rows[-2][k] for k in (0, 1))
        verdict = "PASS" if fit <= MOST_SLOPE * one else "MISSED"
        print(f"slope per row: {fit / one:.2f} times one pass (target {MOST_SLOPE}): {verdict}")


if __name__ == "__main__":
    main()
