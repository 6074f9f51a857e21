"""How far a mapper is from the optimum, on the paper's synthetic case, exactly.

    python -m research.benchmarks.regret [--rows 1000] [--draws 10] [--method auto] \
        [--correlations 0,0.2]

For every correlation and every R asked for, mappings are learned from fresh draws. Printed: the R
that they deliver in truth, how much that is short of what was asked, their public error, and
the regret: the public error less that of the optimum at the R actually reached. The optimum is
found by linear programs on the true distribution, on a grid of R that is interpolated.
With 1000 rows R is asked for by ``max_advantage``; with fewer than 200 by ``privacy_ratio``, since
so few rows cannot show that an advantage is kept, and a mapper that cannot show it says nothing.
"""

import argparse
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from discreet import Mapper, NPOMapper
from research.optimum.search import find_optimum
from research.paper.synthetic import correlated, draw_table, exact_figures, tables_by_reading

METHODS = {"auto": Mapper, "npo": NPOMapper}
TARGETS = (0.35, 0.40, 0.44, 0.48)
GRID = np.arange(0.24, 0.501, 0.02)


def optimum_curve(correlation: float, n_restarts: int) -> np.ndarray:
    distribution, found, starts = correlated(correlation).distribution, [], []
    for risk in GRID[::-1]:  # a mapping that keeps more is a start for one that keeps less
        best = find_optimum(
            distribution, 2, risk=min(risk, 0.5), n_restarts=n_restarts, starts=starts,
            bound=False, rng=0,
        )  # fmt: skip
        starts = [best.tables]
        found.append(best.public_error)
    return np.array(found[::-1])


def one_fit(method: str, rows: int, correlation: float, risk: float, seed: int) -> tuple:
    X, h, g = draw_table(rows, correlation, seed)
    if rows < 200:
        mapper = METHODS[method](privacy_ratio=2 * risk, random_state=seed)
    else:
        mapper = METHODS[method](max_advantage=0.5 - risk, random_state=seed)
    begin = time.perf_counter()
    mapping = mapper.fit(X, h, private=g).mapping_
    seconds = time.perf_counter() - begin
    figures = exact_figures(tables_by_reading(mapping), correlation)
    return figures.public_error, figures.risk, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--method", choices=METHODS, default="auto")
    parser.add_argument("--correlations", default="0,0.2,0.5,0.8")
    parser.add_argument("--restarts", type=int, default=12)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'corr':>5}{'asked R':>9}{'R':>8}{'short':>8}{'error':>9}{'regret':>9}{'±':>8}{'s':>6}")
    regrets, shorts = [], []
    with threadpool_limits(limits=1):
        for correlation in map(float, given.correlations.split(",")):
            curve = optimum_curve(correlation, given.restarts)
            for risk in TARGETS:
                found = np.array(
                    [
                        one_fit(given.method, given.rows, correlation, risk, seed)
                        for seed in range(given.draws)
                    ]
                )
                regret = found[:, 0] - np.interp(found[:, 1], GRID, curve)
                regrets.append(regret.mean())
                shorts.append(risk - found[:, 1].mean())
                error = regret.std(ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else 0.0
                print(
                    f"{correlation:5}{risk:9}{found[:, 1].mean():8.4f}{shorts[-1]:8.4f}"
                    f"{found[:, 0].mean():9.4f}{regret.mean():9.4f}{error:8.4f}"
                    f"{found[:, 2].mean():6.1f}",
                    flush=True,
                )
    print(f"mean regret {np.mean(regrets):.4f}, largest {np.max(regrets):.4f}")
    print(f"mean shortfall in R {np.mean(shorts):.4f}, largest {np.max(shorts):.4f}")


if __name__ == "__main__":
    main()
