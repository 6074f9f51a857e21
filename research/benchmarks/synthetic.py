"""The paper's synthetic case: exact public error, R and epsilon of the mappers.

    python -m research.benchmarks.synthetic [--rows 1000] [--correlation 0] [--draws 20]

Prints the mean over the draws with its standard error, for the default settings and for
rules on the symbols themselves (relaxed=False). No sampling: the figures are sums over
all outputs.
"""

import argparse

import numpy as np

from discreet import BayesErrorMapper, NDDMapper, NPOMapper
from research.paper.synthetic import draw_table, exact_figures, tables_by_reading

CASES = {
    "NPO, default": lambda seed: NPOMapper(random_state=seed),
    "NPO, relaxed=False": lambda seed: NPOMapper(random_state=seed, relaxed=False),
    "NPO, relaxed=False, ratio 0.9995": lambda seed: NPOMapper(
        random_state=seed, relaxed=False, privacy_ratio=0.9995
    ),
    "NPO, count kernel": lambda seed: NPOMapper(random_state=seed, kernel="count"),
    "Bayes error": lambda seed: BayesErrorMapper(random_state=seed),
    "NDD": lambda seed: NDDMapper(random_state=seed),
    "NDD, relaxed=False": lambda seed: NDDMapper(random_state=seed, relaxed=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--correlation", type=float, default=0.0)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.draws)
    print(f"{given.rows} rows, correlation {given.correlation}, seeds {seeds[0]} to {seeds[-1]}")
    print(f"{'':34}{'public error':>18}{'R':>18}{'epsilon':>18}")
    for name, make in CASES.items():
        found = []
        for seed in seeds:
            X, h, g = draw_table(given.rows, given.correlation, seed)
            mapping = make(seed).fit(X, h, private=g).mapping_
            figures = exact_figures(tables_by_reading(mapping), given.correlation)
            found.append([figures.public_error, figures.risk, figures.epsilon])
        mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
        cells = [f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True)]
        print(f"{name:34}{cells[0]:>18}{cells[1]:>18}{cells[2]:>18}", flush=True)


if __name__ == "__main__":
    import warnings

    from discreet.errors import BlindKernelWarning

    warnings.simplefilter("ignore", BlindKernelWarning)
    main()
