"""Ten quantiles beside codes that are merged by what they say of the facts, at equal leak.

    python -m research.benchmarks.codes [--only adult,numbers,occupancy]
        [--draws 6] [--first-seed 300] [--levels 0.01 0.03 0.06 0.1]

Nothing is calibrated: designs get a limit under their own model, and what they deliver is measured
on rows that were not learned from, without drawing a symbol. "leak" is the advantage of the best
rule in hindsight, an upper estimate, the same for both. The days of occupancy are few and differ,
so that more leaks there than the model says. Last stands the balanced accuracy at the leaks that
both ways reach, read off the curve through the means of all draws. Adult has age in years;
"numbers" are its numeric attributes. How to merge was chosen with an eye on the seeds 200 to 207.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from discreet import Mapper
from discreet.data.tables import read_table
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities
from research.paper.datasets import (
    ADULT_COLUMNS,
    ADULT_FILE,
    OCCUPANCY_FILE,
    find_file,
    load_adult,
    load_occupancy,
)

BINNINGS = ("quantile", "merged")
NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]


def adult():
    data = load_adult(age_levels=None)
    return data.readings, data.public.to_numpy(), data.private.to_numpy(), None


def numbers():
    table = pd.read_csv(
        find_file(ADULT_FILE), header=None, names=list(ADULT_COLUMNS), skipinitialspace=True
    )
    return table[NUMBERS], table["income"].to_numpy(), table["sex"].to_numpy(), None


def occupancy():
    data = load_occupancy()
    hours = pd.to_datetime(read_table(find_file(OCCUPANCY_FILE))["date"]).dt.hour
    office = hours.between(8, 17).to_numpy().astype(np.int64)
    return data.readings, data.public.to_numpy(), office, data.groups.to_numpy()


def split(n_rows, day, seed):
    """Return which rows to learn from: 2,000 of them, or three fifths of the days."""
    rng = np.random.default_rng(seed)
    if day is None:
        return np.isin(np.arange(n_rows), rng.permutation(n_rows)[:2000])
    days = rng.permutation(np.unique(day))
    return np.isin(day, days[: len(days) * 3 // 5])


def delivered(mapping, X, y, g):
    """Return balanced accuracy and leak on rows, without drawing symbols."""
    outputs = output_probabilities(mapping.tables, mapping.encode(X))
    sizes = [table.shape[1] for table in mapping.tables]
    decided = np.asarray(mapping.fuse(np.indices(sizes).reshape(len(sizes), -1).T))
    right = [outputs[y == k].mean(axis=0)[decided == k].sum() for k in np.unique(y)]
    return np.mean(right), advantage(np.stack([outputs[g == k].mean(axis=0) for k in np.unique(g)]))


def curve(data, binning, seeds, levels):
    X, y, g, day = data
    found = []
    for seed in seeds:
        known = split(len(X), day, seed)
        new = X[~known], y[~known], g[~known]
        for level in levels:
            mapper = Mapper(random_state=0, privacy_ratio=1 - 2 * level, binning=binning)
            mapper.fit(X[known], y[known], private=g[known])
            found.append(delivered(mapper.mapping_, *new))
    return np.array(found).reshape(len(seeds), len(levels), 2).mean(axis=0)


def compare(name, seeds, levels):
    data, curves = globals()[name](), {}
    for binning in BINNINGS:
        begin = time.process_time()
        curves[binning] = curve(data, binning, seeds, levels)
        print(f"{name}, {binning}: {time.process_time() - begin:.0f} s of CPU", flush=True)
        for level, (right, leak) in zip(levels, curves[binning], strict=True):
            print(f"    limit {level:.3f}: balanced accuracy {right:.4f}, leak {leak:.4f}")
    low = max(found[:, 1].min() for found in curves.values())
    high = min(found[:, 1].max() for found in curves.values())
    for leak in np.linspace(low, high, 4):
        at = [np.interp(leak, *np.sort(curves[each][:, ::-1], axis=0).T) for each in BINNINGS]
        print(f"  at leak {leak:.3f}: quantile {at[0]:.4f}, merged {at[1]:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="adult,numbers,occupancy")
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=300)
    parser.add_argument("--levels", type=float, nargs="+", default=[0.01, 0.03, 0.06, 0.1])
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.draws)
    warnings.simplefilter("ignore")
    with threadpool_limits(limits=1):
        for name in given.only.split(","):
            compare(name, seeds, given.levels)


if __name__ == "__main__":
    main()
