"""The optimum on the paper's synthetic cases: beside the figures to reach, and how long it takes.

    python -m research.benchmarks.optimum [--restarts 24] [--seed 0] [--large]

All errors are exact. The bound is what a curator who sees all readings at once could reach;
where it equals the error found, that is the optimum for certain. ``--large`` adds 15 sensors.
"""

import argparse
from time import perf_counter

import numpy as np

from research.optimum.distribution import Distribution
from research.optimum.search import find_optimum
from research.paper.synthetic import correlated, four_sensors, m_ary

BINARY = {  # (correlation, R) -> public error, best of 24 restarts of one LP per sensor
    (0.2, 0.36): 0.0027,
    (0.2, 0.40): 0.005,
    (0.2, 0.42): 0.035,
    (0.2, 0.44): 0.056,
    (0.2, 0.46): 0.089,
    (0.2, 0.48): 0.120,
    (0.2, 0.50): 0.144,
    (0.0, 0.50): 1 / 162,
    (0.5, 0.40): 0.159,
    (0.5, 0.50): 0.278,
    (0.8, 0.40): 0.304,
    (0.8, 0.50): 0.411,
}
HEADER = ("setting", "to reach", "found", "diff", "bound", "R", "epsilon", "agreed", "seconds")


def made_up(n_sensors: int, n_codes: int, n_rows: int, seed: int = 3) -> Distribution:
    """Random sensors, mixed with so many rows drawn from them."""
    rng = np.random.default_rng(seed)
    public, private = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    given = [
        0.5 * rng.dirichlet(np.full(n_codes, 0.5), 4) + 0.5 * rng.dirichlet(np.ones(n_codes))
        for _ in range(n_sensors)
    ]
    prior = np.array([0.3, 0.2, 0.2, 0.3])
    model = Distribution.independent(given, prior, public, [private])
    if not n_rows:
        return model
    cell = rng.choice(4, n_rows, p=prior)
    codes = np.array([[rng.choice(n_codes, p=table[c]) for table in given] for c in cell])
    rows = Distribution.from_rows(codes, public[cell], [private[cell]], [n_codes] * n_sensors)
    return model.mixed_with(rows, 0.5)


def row(setting, to_reach, distribution, restarts, seed, **wishes) -> None:
    start = perf_counter()
    found = find_optimum(distribution, n_restarts=restarts, rng=seed, **wishes)
    seconds = perf_counter() - start
    known = ("", "") if to_reach is None else (to_reach, found.public_error - to_reach)
    cells = [known[0], found.public_error, known[1], found.bound, found.risk, found.epsilon]
    text = [f"{c:.4f}" if c != "" else "" for c in cells]
    text += [f"{found.agreed}/{found.restarts}", f"{seconds:.2f}"]
    print(f"{setting:44}" + "".join(f"{cell:>10}" for cell in text), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--restarts", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    n, seed = asked.restarts, asked.seed
    print(f"{HEADER[0]:44}" + "".join(f"{name:>10}" for name in HEADER[1:]))
    for (correlation, risk), to_reach in BINARY.items():
        name = f"correlation {correlation}, R {risk}"
        row(name, to_reach, correlated(correlation).distribution, n, seed, risk=risk)
    skewed = four_sensors([0.05, 0.45, 0.0, 0.5]).distribution
    weak = correlated(0.2).distribution
    row("P(G=1) 0.95, R 0.42, eps 0.35", 0.0183, skewed, n, seed, risk=0.42, epsilon=0.35)
    for epsilon in (0.05, 0.2, 0.5):
        row(f"correlation 0.2, eps {epsilon}", None, weak, n, seed, epsilon=epsilon)
    local = {"risk": 0.42, "ldp_epsilon": 2.0}
    row("correlation 0.2, R 0.42, local eps 2", None, weak, n, seed, **local)
    row("the same, 3 symbols, R 0.44", None, weak, n // 3, seed, n_symbols=3, risk=0.44)
    for m in (3, 4, 5):
        row(f"{m} private classes, R 0.5", 1 / 162, m_ary(m).distribution, n // 3, seed, risk=0.5)
    row("4 sensors, 1000 rows mixed in, R 0.45", None, made_up(4, 9, 1000), n, seed, risk=0.45)
    row("8 sensors, 100 rows mixed in, R 0.45", None, made_up(8, 10, 100), n // 3, seed, risk=0.45)
    if asked.large:
        row("15 sensors, R 0.45", None, made_up(15, 10, 0), 3, seed, risk=0.45)
        row("15 sensors, 40 rows mixed in, R 0.45", None, made_up(15, 10, 40), 3, seed, risk=0.45)


if __name__ == "__main__":
    main()
