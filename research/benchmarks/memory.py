"""Ways to tell less in a day, where decisions remember: less clearly, less often, in turn.

    python -m research.benchmarks.memory [--persons 2 3 4]

First the paper's synthetic world at correlation 0, with the tables of ``research.paper_tables``, of
which a day tells 0.22. The private fact is constant for a day of 1,440 rounds; the public one
stays with the probability given. All ways tell as much in a day as every fourth round does. "Day"
takes rounds to be independent given the private fact, which they are not where the public fact
lasts; "beyond" is for an attacker who knows the public fact of every round. Errors are simulated.

Then a made-up house in which people walk through four rooms whose sensors overhear one another:
whether somebody is in the kitchen is public, whether one person is ill that day is private. Where
people are lasts, so that neither the filter nor the figures of a day are exact, and simulated
rounds may flatter ways that speak often. Law, tables, chain and the best way are learned from some
days, and judged by other ones. It takes 200 of each: 60 do not tell the ways apart.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet import Mapper
from discreet.data.series import read_series
from discreet.leakage.chains import Chain, estimate_chain
from discreet.leakage.speaking import (
    LivedRounds,
    Way,
    answer,
    joint_of_rows,
    tell,
    ways_to_speak,
)
from discreet.mapping.parts import mix_evenly
from research.paper.synthetic import exact_joint
from research.paper_tables import tables_for_a_day

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY, HOUSE_DAYS = 1440, 200
STAYS = (0.9, 0.967, 0.99)
EVEN = [0.5, 0.5]
CLEAR, FOURTH = Way(1, False, 1.0, 0.0), Way(4, False, 1.0, 0.0)
ROOMS = ("hall", "kitchen", "living", "bed")
STAYS_PUT = 0.95
LIKES = np.array([[0.2, 0.1, 0.4, 0.3], [0.2, 0.1, 0.6, 0.1], [0.2, 0.1, 0.1, 0.6]])
"""Where people go: others, the one person when well, and when ill."""
OVERHEARD = np.diag([1.4, 1.95, 1.45, 1.4]) + np.array(
    [[0.1, 0.1, 0.1, 0.1], [0.1, 0.05, 0.05, 0], [0.1, 0.05, 0.05, 0], [0.1, 0, 0, 0.1]]
)
"""Motions a minute of a person in the room of the row, at the sensor of the column."""


def name_of(way: Way) -> str:
    often = "every round" if way.every == 1 else f"every {way.every} rounds"
    who = "one sensor in turn" if way.in_turn else "all sensors"
    return f"{who}, {often}, {'no noise' if way.kept == 1.0 else f'kept {way.kept:.3f}'}"


def one_round(joint: Floats, way: Way) -> str:
    """Return the error of decisions without memory, for ways that speak in every round."""
    if way.every > 1 or way.in_turn:
        return ""
    return (
        f"{mix_evenly(joint, way.kept, first=2).sum(axis=1).reshape(2, -1).min(axis=0).sum():.3f}"
    )


def ways_of(joint: Floats, beyond: bool) -> list[Way]:
    """Return all ways that tell as much as every fourth round, and first the tables as they are."""
    chain = Chain.constant(EVEN)
    most = tell(joint, FOURTH, chain, DAY, beyond=beyond).advantage
    return [CLEAR, *ways_to_speak(joint, chain, DAY, most, beyond=beyond)]


# --- The paper's world -----------------------------------------------------------------------


def paper_rows() -> Iterator[str]:
    joint = exact_joint(tables_for_a_day(), 0.0).reshape(2, 2, 2, 2, 2, 2)
    private = Chain.constant(EVEN)
    for beyond in (False, True):
        kind = "beyond the public fact" if beyond else "day"
        yield f"paper's world; equal by '{kind}', as every fourth round"
        heads = "".join(f"{f'stay {stay}':>15}" for stay in STAYS)
        yield f"{'':48}{'day':>7}{'beyond':>7}{'no memory':>11}{heads}"
        table: dict[Way, list[float]] = {}
        for way in ways_of(joint, beyond):
            days = [tell(joint, way, private, DAY, beyond=t).advantage for t in (False, True)]
            found = [answer(joint, way, Chain.of_stay(s, EVEN), private) for s in STAYS]
            table[way] = [each.error for each in found]
            errors = "".join(f"{f'{e.error:.3f} ± {e.deviation:.3f}':>15}" for e in found)
            memoryless = one_round(joint, way)
            yield f"{name_of(way):48}{days[0]:7.3f}{days[1]:7.3f}{memoryless:>11}{errors}"
        del table[CLEAR]
        for i, stay in enumerate(STAYS):
            yield f"  chosen at stay {stay}: {name_of(min(table, key=lambda way: table[way][i]))}"
        yield ""


# --- A house ---------------------------------------------------------------------------------


def days_of_a_house(
    persons: int, days: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, Ints, Ints]:
    """Return motions by room, whether somebody is in the kitchen, and whether one person is ill."""
    ill = rng.integers(2, size=days)
    likes = np.repeat(LIKES[:1], persons, axis=0)[None].repeat(days, axis=0)
    likes[:, -1] = LIKES[1 + ill]
    place = rng.integers(4, size=(days, persons))
    counts = np.zeros((days, DAY, 4), dtype=np.int64)
    kitchen = np.zeros((days, DAY), dtype=np.int64)
    for minute in range(DAY):
        wish = (likes.cumsum(axis=2) < rng.random((days, persons, 1))).sum(axis=2)
        place = np.where(rng.random(place.shape) < STAYS_PUT, place, np.minimum(wish, 3))
        inside = (place[:, :, None] == np.arange(4)).sum(axis=1)
        kitchen[:, minute] = inside[:, 1] > 0
        counts[:, minute] = np.minimum(rng.poisson(inside @ OVERHEARD + 0.05), 5)
    readings = pd.DataFrame(counts.reshape(-1, 4), columns=list(ROOMS))
    return readings, kitchen.ravel(), np.repeat(ill, DAY)


def house_rows(persons: int) -> Iterator[str]:
    rng = np.random.default_rng(persons)
    X, h, g = days_of_a_house(persons, HOUSE_DAYS, rng)
    taught = rng.choice(len(X), 4000, replace=False)
    mapper = Mapper(max_advantage=0.05, random_state=0, binning="codes", time_budget=None)
    mapping = mapper.fit(X.iloc[taught], h[taught], private=g[taught]).mapping_
    labels = {mapping.public.name: h, mapping.private[0].name: g}
    joint = joint_of_rows(mapping, X.assign(**labels), mapping.private[0])
    series = read_series(pd.Series(60.0 * np.arange(len(X))), np.arange(len(X)) // DAY, "minute")
    chain = estimate_chain(h, 2, series, np.ones(len(X), dtype=bool))
    public, private = Chain.of_stay(chain.moves, EVEN), Chain.constant(EVEN)
    learned = LivedRounds.of_codes(mapping, mapping.encode(X), h, series)
    others, fact, _ = days_of_a_house(persons, HOUSE_DAYS, rng)
    lived = LivedRounds.of_codes(mapping, mapping.encode(others), fact, series)
    stays = ", ".join(f"{chain.moves[k][k]:.3f}" for k in range(2))
    yield f"house with {persons} persons; kitchen empty, in use stays: {stays}"
    heads = f"{'beyond':>7}{'no memory':>11}{'simulated':>11}{'learned from':>14}{'other days':>15}"
    yield f"{'':48}{heads}"
    taught, errors = {}, {}
    for way in ways_of(joint, True):
        known = tell(joint, way, private, DAY)
        simulated, taught[way], errors[way] = (
            answer(joint, way, public, private, lived=each) for each in (None, learned, lived)
        )
        line = f"{name_of(way):48}{known.advantage:7.3f}{one_round(joint, way):>11}"
        line += f"{simulated.error:>11.3f}{taught[way].error:>14.3f}"
        yield line + f"{f'{errors[way].error:.3f} ± {errors[way].deviation:.3f}':>15}"
    del taught[CLEAR]
    chosen = min(taught, key=lambda way: taught[way].error)
    yield f"  chosen on days learned from: {name_of(chosen)}; on others {errors[chosen].error:.3f}"
    yield ""


def show(parts: Sequence[Iterator[str]]) -> None:
    for part in parts:
        for line in part:
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, nargs="*", default=[2, 3, 4])
    asked = parser.parse_args()
    show([paper_rows(), *(house_rows(persons) for persons in asked.persons)])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
