"""If no level is shown to be kept, what should be written? Rules beside one another.

    python -m research.benchmarks.unmet [--draws 6] [--first-seed 0]

Series of few days are made: the public fact comes in stretches, the private one is of the day or
of the hour, and each day shifts the sensors a little, so that rows of a day resemble one another.
Asked is an advantage of 0.05. With so few days rows left out seldom show that. Wherever they do
not, what each rule writes is designed on all rows and measured on 400 other days: ``likely``, the
least strict level whose estimate alone is within the wish; ``half``, the same with half a standard
error to spare; ``strictest``; and ``learn``, what `learn` writes, noise included. ``met`` is what
is written where rows left out do show it. "leak" is to the best rule on the symbols of these 400
days.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from discreet import Mapper
from discreet.design.fusion import draw_symbols
from discreet.design.levels import LevelSearch
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities

ASKED, ROWS = 0.05, 96  # of a day
WORLDS = {  # days, whether the private fact is of the day, how much a day shifts the sensors
    "8 days, a fact of the day": (8, True, 0.3),
    "14 days, a fact of the day": (14, True, 0.3),
    "14 days, a fact of the hour": (14, False, 0.3),
    "14 days that shift more": (14, False, 0.8),
    "30 days, a fact of the day": (30, True, 0.3),
}
FOUND_NONE = LevelSearch._found_none


def draw(n_days, of_day, shift, seed, world):
    """Return readings, the public fact, the private one and the days."""
    rng, leans = np.random.default_rng([seed, 5]), np.random.default_rng([world, 6])
    day, hour = np.divmod(np.arange(n_days * ROWS), ROWS)
    moves = rng.random(len(day)) < 0.08
    h = (np.cumsum(moves) + rng.integers(2, size=n_days)[day]) % 2
    g = np.arange(n_days)[day] % 2 if of_day else (np.abs(hour - ROWS // 2) < ROWS // 4).astype(int)
    X = {}
    for t in range(5):
        a, b = leans.uniform(0.5, 1.5), leans.normal(scale=0.5)
        level = a * (2 * h - 1) + b * (2 * g - 1) + shift * rng.normal(size=n_days)[day]
        X[f"s{t}"] = level + rng.normal(size=len(day))
    return pd.DataFrame(X), h, pd.Series(g, name="g"), day


def likely(to_spare):
    def find(search, request, tried):
        kept = next((each for each in tried if each.keeps(request, to_spare)), tried[-1])
        return search._found(kept, met=False, asked=request.max_advantage)

    return find


RULES = {
    "likely": likely(0.0),
    "half": likely(0.5),
    "strictest": likely(np.inf),
    "learn": lambda search, request, tried: FOUND_NONE(search, request),
}


def fit(rows):
    """Return the mapper, and what each rule designs where nothing is shown."""
    designed = {}

    def found_none(search, request):
        tried = sorted(search.tried.values(), key=lambda each: each.target.ratio)
        for name, rule in RULES.items():
            search.rng = np.random.default_rng(0)
            found = rule(search, request, tried)
            designed[name] = found.designed
        return found

    X, h, g, day = rows
    LevelSearch._found_none = found_none
    try:
        mapper = Mapper(max_advantage=ASKED, random_state=0, time_budget=None)
        mapper.fit(X, h, private=g, groups=day)
    finally:
        LevelSearch._found_none = FOUND_NONE
    return mapper.mapping_, designed or {"met": mapper.mapping_}


def measure(codes, written, h, g):
    outputs = output_probabilities(written.tables, codes)
    leak = advantage(np.stack([outputs[g == k].mean(axis=0) for k in (0, 1)]))
    symbols = draw_symbols(written.tables, codes, np.random.default_rng(0))
    sizes = [table.shape[1] for table in written.tables]
    decided = written.fusion.choose(written.fusion.scores(symbols, sizes))
    return np.mean([(decided == k)[h == k].mean() for k in (0, 1)]), leak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':28}{'rule':>10}{'draws':>7}{'accuracy':>10}{'leak':>8}{'most':>8}{'kept':>7}")
    with threadpool_limits(limits=1):
        for number, (name, (n_days, *kind)) in enumerate(WORLDS.items()):
            X, h, g, _ = draw(400, *kind, 10_000, number)
            found = {}
            for seed in range(given.first_seed, given.first_seed + given.draws):
                mapping, designed = fit(draw(n_days, *kind, seed, number))
                codes = mapping.encode(X)
                for rule, written in designed.items():
                    found.setdefault(rule, []).append(measure(codes, written, h, g))
            for rule, figures in found.items():
                right, leak = np.median(figures, axis=0)
                kept = f"{sum(leak <= ASKED for _, leak in figures)}/{len(figures)}"
                most = max(leak for _, leak in figures)
                line = f"{right:10.3f}{leak:8.3f}{most:8.3f}{kept:>7}"
                print(f"{name:28}{rule:>10}{len(figures):7}{line}", flush=True)


if __name__ == "__main__":
    main()
