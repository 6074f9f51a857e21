"""What many rounds tell: the accountant on the small examples and on the paper's world.

    python -m research.benchmarks.over_time [--rows 1000] [--draws 5] [--day-rows 10000]

First a table whose rounds have an advantage of 0.020 each, the middle one of 1,441: exact from both
sides, how long that takes, the closed form and the naive sum. Then fifteen rounds of remembered
symbols. Then mappings learned from draws of the paper's synthetic world (correlation 0), whose law
is known exactly, for a private fact that does not change during a day of 1,440 rounds. Last,
mappings that were designed for such a day, asked to tell at most 0.10 in all of it, from more rows:
what a day tells, what it tells somebody who knows the public fact of every round, and what it
tells them if that fact stays all day at the class that gives away more.
"""

import argparse
from collections.abc import Iterator
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from discreet import Mapper, NPOMapper
from discreet.leakage.chains import Chain, figures_between
from discreet.leakage.exact import advantage
from discreet.leakage.over_time import closed_form, leaks_of_policies
from discreet.leakage.sequences import RoundLaw
from research.paper.synthetic import draw_table, exact_joint, tables_by_reading

Floats = NDArray[np.float64]

DAY, ASKED = 1440, 0.10
TABLE = np.array([[0.52, 0.48], [0.48, 0.52]])
SAME_CODE = RoundLaw.of_rows([TABLE], np.array([[0], [1]]), np.array([0, 1]), 2)
LEARNERS = {
    "NPO, default": lambda seed: NPOMapper(random_state=seed),
    "NPO, asked for 0.05": lambda seed: NPOMapper(max_advantage=0.05, random_state=seed),
    "default, asked for 0.05": lambda seed: Mapper(max_advantage=0.05, random_state=seed),
}
COLUMNS = ("a message", "a day", "a day, every 4th", "a day, every 16th")


def day_rows() -> Iterator[str]:
    yield f"{'stay':>10}{'lower':>10}{'upper':>10}{'closed form':>14}{'sum':>8}{'seconds':>10}"
    for stay in (0.9, 0.99, 0.999, 1.0):
        chain = Chain.of_stay(stay, [0.5, 0.5])
        rounds = DAY if chain.is_constant else DAY + 1
        start = perf_counter()
        ((low, high),) = figures_between(TABLE, chain, [rounds])
        seconds = perf_counter() - start
        closed, naive = closed_form(TABLE, chain, rounds), rounds * advantage(TABLE)
        yield (
            f"{stay:>10}{low.advantage:>10.5f}{high.advantage:>10.5f}{closed:>14.4f}"
            f"{naive:>8.1f}{seconds:>10.2f}"
        )


def repeating_rows() -> Iterator[str]:
    yield f"{'P(G=1), stay in 1':>20}{'fresh draws':>14}{'same code, same symbol':>26}"
    for share, stay in ((0.5, 0.9), (0.2, 0.9), (0.2, 0.6)):
        chain = Chain.of_stay([1 - (1 - stay) * share / (1 - share), stay], [0.5, 0.5])
        fresh, code, *_ = leaks_of_policies(SAME_CODE, chain, 15, 15, (), seed=0)
        yield f"{share:>14}, {stay:>4}{fresh.advantage.high:>14.4f}{code.advantage.high:>26.4f}"


def learned_rows(rows: int, draws: int) -> Iterator[str]:
    """Yield the median over draws of the world, and the least and the largest figure."""
    yield f"{f'median of {draws} draws':24}" + "".join(f"{name:>24}" for name in COLUMNS)
    for name, make in LEARNERS.items():
        found = np.array([_figures(make(seed), rows, seed) for seed in range(draws)])
        yield f"{name:24}" + _cells(found)


def _figures(mapper: NPOMapper | Mapper, rows: int, seed: int) -> list[float]:
    X, h, g = draw_table(rows, 0.0, seed)
    tables = tables_by_reading(mapper.fit(X, h, private=g).mapping_)
    given = 2 * exact_joint(tables, 0.0).sum(axis=0)
    return [advantage(given), *(_day(given, DAY // k) for k in (1, 4, 16))]


def designed_rows(rows: int, draws: int, wish: float) -> Iterator[str]:
    """Yield what designs for the day tell and answer, with facts that are alike or not."""
    heads = ("public error", "a day", "a day, told", "a day, told, worst")
    yield f"{f'{rows} rows, {draws} draws':24}" + "".join(f"{name:>24}" for name in heads)
    for correlation in (0.0, 0.2):
        found = np.array([_designed(rows, correlation, wish, seed) for seed in range(draws)])
        yield f"{f'correlation {correlation:g}':24}" + _cells(found)


def _designed(rows: int, correlation: float, wish: float, seed: int) -> list[float]:
    X, h, g = draw_table(rows, correlation, seed)
    mapper = Mapper(
        max_advantage=wish,
        rounds=DAY,
        beyond_answer=True,
        n_folds=2,
        random_state=seed,
        time_budget=None,
    )
    joint = exact_joint(tables_by_reading(mapper.fit(X, h, private=g).mapping_), correlation)
    alone, told = 2 * joint.sum(axis=0), [each / each.sum(axis=1, keepdims=True) for each in joint]
    error = float(joint.sum(axis=1).min(axis=0).sum())
    mixed = 0.5 * np.concatenate(told, axis=1)
    return [error, *(_day(law, DAY) for law in (alone, mixed)), max(_day(law, DAY) for law in told)]


def _cells(found: Floats) -> str:
    """Return the median of each column, and its least and largest figure."""
    ends = zip(np.median(found, axis=0), found.min(axis=0), found.max(axis=0), strict=True)
    cells = (f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in ends)
    return "".join(f"{cell:>24}" for cell in cells)


def _day(given: Floats, releases: int) -> float:
    return figures_between(given, Chain.constant([0.5, 0.5]), [releases])[0][1].advantage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=5, help="of the world; 0 for none")
    parser.add_argument("--day-rows", type=int, default=10_000, help="to design for a day from")
    parser.add_argument("--wish", type=float, default=ASKED, help="what a day may tell")
    parser.add_argument("--day-draws", type=int, default=10, help="of these; 0 for none")
    asked = parser.parse_args()
    parts = [day_rows(), repeating_rows()]
    if asked.draws:
        parts.append(learned_rows(asked.rows, asked.draws))
    if asked.day_draws:
        parts.append(designed_rows(asked.day_rows, asked.day_draws, asked.wish))
    for part in parts:
        for line in part:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
