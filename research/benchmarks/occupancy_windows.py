"""A real office by the minute: what attackers reach who watch longer, beside what one minute tells.

    python -m research.benchmarks.occupancy_windows [--data DIR]

Public is whether somebody is there, private whether it is office hours (8 to 18), which the sensors
do not read but betray. Mappings are learned from some days: one that was asked to tell at most 0.05
a minute, which so few days do not support, so that its symbols are noise, and randomised response,
which looks at no fact and keeps a bound for every reading. Attackers learn from half of the other
days and guess in the rest, from symbols and, for comparison, from the raw readings in codes. Days
are few, and the standard errors, by day, say so. What decisions about the public fact are worth
stands below, and whether a certificate could be had.
"""

from __future__ import annotations

import argparse
import os
import warnings

import numpy as np
import pandas as pd

from discreet import Mapper, RandomizedResponseMapper
from discreet.arrays import Floats, Ints
from discreet.auditing.rounds import Rounds, WindowAttack, attack_windows
from discreet.data.series import Series, check_hidden_state, count_steps, read_series
from discreet.data.tables import read_table
from discreet.leakage.joint_outputs import average_outputs
from discreet.mapping.mapping import Mapping
from research.paper.datasets import OCCUPANCY_FILE, find_file, load_occupancy

WINDOWS = (1, 4, 16, 60)
MAPPERS = {
    "asked 0.05 a minute": Mapper(max_advantage=0.05, random_state=0, time_budget=None),
    "randomised response, epsilon 1": RandomizedResponseMapper(ldp_epsilon=1.0, random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with the data")
    options = parser.parse_args()
    if options.data:
        os.environ["DISCREET_DATA"] = options.data
    data = load_occupancy()
    times = read_table(find_file(OCCUPANCY_FILE))["date"]
    day = pd.Categorical(data.groups).codes.astype(np.int64)
    hours = pd.to_datetime(times).dt.hour.between(8, 17).to_numpy().astype(np.int64)
    learned = day < int(day.max()) * 2 // 5
    series = read_series(times, day, "date")
    print(f"{len(np.unique(day))} days, {int(learned.sum())} rows to learn from")
    found, answers = {}, []
    for name, mapper in MAPPERS.items():
        mapping = mapper.fit(
            data.readings[learned], data.public[learned],
            private=pd.Series(hours[learned], name="office"), groups=day[learned],
        ).mapping_  # fmt: skip
        codes = mapping.encode(data.readings)
        symbols = mapping.sample(codes, np.random.default_rng(0))
        found[name] = _attacks(mapping.tables, codes, symbols, hours, day, series, ~learned)
        answers.append(f"{name} {_balanced(mapping, symbols, data.public, ~learned):.3f}")
    identity = [np.eye(len(table)) for table in mapping.tables]
    found["raw readings"] = _attacks(identity, codes, codes, hours, day, series, ~learned)
    print(f"{'minutes':>8}" + "".join(f"{name:>48}" for name in found))
    for window in WINDOWS:
        print(f"{window:>8}" + "".join(f"{_shown(each, window):>48}" for each in found.values()))
    print(f"balanced accuracy of decisions on other days: {', '.join(answers)}; guessing 0.500")
    state = check_hidden_state(codes, hours, series)
    print(f"certificate for many minutes: {'none' if state.broken else 'possible'}: {state.words}")


def _balanced(mapping: Mapping, symbols: Ints, public: pd.Series, others: np.ndarray) -> float:
    """Return the balanced accuracy of the decisions about the public fact."""
    right = np.asarray(mapping.decide(symbols[others])) == public[others].to_numpy()
    truth = public[others].to_numpy()
    return float(np.mean([right[truth == each].mean() for each in np.unique(truth)]))


def _shown(found: list[WindowAttack], window: int) -> str:
    return ", ".join(
        f"{each.name[:7]} {each.advantage:.3f} ({each.error:.3f})"
        for each in found
        if each.window == window
    )


def _attacks(
    tables: list[Floats],
    codes: Ints,
    sent: Ints,
    fact: Ints,
    day: Ints,
    series: Series,
    others: np.ndarray,
) -> list[WindowAttack]:
    order = series.order[others[series.order]]
    groups = np.unique(day[order])
    taught = groups[::2]
    kinds = np.array([np.isin(day, taught) & (fact == k) for k in (0, 1)])
    given = np.ones((len(order), 2))
    for t, table in enumerate(tables):  # sensors as if independent: raw codes are too many to list
        weights = (kinds + 1e-9) / kinds.sum(axis=1, keepdims=True)
        law = average_outputs([table], codes[:, [t]], weights)
        given *= law[:, sent[order, t]].T + 1e-6
    breaks = np.append(0, np.cumsum(series.follows[order[:-1]] != order[1:]))
    rounds = Rounds(sent[order], given, fact[order], breaks, day[order])
    steps = count_steps(fact, series.follows, 2) + 1.0
    return attack_windows(rounds, taught, steps / steps.sum(axis=1, keepdims=True), WINDOWS)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
