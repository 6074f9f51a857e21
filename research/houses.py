"""Made-up houses: a private fact that lasts, a public one, and sensors that read both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from discreet.arrays import Ints


def moving(rng: np.random.Generator, rounds: int, stay: Sequence[float]) -> Ints:
    """Return a fact of as many classes as there are stay probabilities, round by round."""
    classes = len(stay)
    leaves, to = rng.random(rounds), rng.integers(1, classes, rounds)
    found = np.empty(rounds, dtype=np.int64)
    found[0] = rng.integers(classes)
    for k in range(1, rounds):
        before = found[k - 1]
        found[k] = before if leaves[k] < stay[before] else (before + to[k]) % classes
    return found


def house(
    rng: np.random.Generator,
    days: int,
    rounds: int,
    stay: Sequence[float],
    *,
    public_stay: float = 0.5,
    broken: str = "",
    leak: float = 0.3,
) -> pd.DataFrame:
    """Return the rows of a house, by day and minute.

    ``broken``: "day": one sensor reads the private fact, disguised by something that is the same
    all day; "late": the sensors read the private fact of the round before.
    """
    tables = []
    for day in range(days):
        who = moving(rng, rounds, stay)
        fall = moving(rng, rounds, (public_stay, public_stay))
        read = np.append(who[0], who[:-1]) if broken == "late" else who
        motion = 2 * fall + (rng.random(rounds) < 0.1)
        weight = (rng.random(rounds) < 0.45 + leak * (read > 0)).astype(int)
        if broken == "day":
            weight = (who + rng.integers(len(stay))) % len(stay)
        minute = pd.Timestamp("2026-01-01") + pd.Timedelta(days=day)
        times = minute + pd.to_timedelta(np.arange(rounds), unit="min")
        tables.append(
            pd.DataFrame(
                {
                    "date": times.strftime("%Y-%m-%d %H:%M:%S"),
                    "motion": motion,
                    "weight": weight,
                    "fall": np.array(["no", "yes"])[fall],
                    "who": np.array(["ann", "bob", "cem", "dora"])[who],
                }
            )
        )
    return pd.concat(tables, ignore_index=True)
