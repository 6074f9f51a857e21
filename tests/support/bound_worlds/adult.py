"""Adult as a population that is known in full: audits draw from it, and the truth is exact."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mappers.auto_mapper import Mapper
from research.paper.datasets import draw_rows, load_adult
from support.bound_worlds.laws import Law

LEARNED_FROM, AUDITED = 2_000, 10_000
MAX_ADVANTAGE = 0.05


@dataclass(frozen=True)
class Population:
    """Coded rows of a population, and how many of them an audit draws, with replacement."""

    name: str
    tables: tuple[np.ndarray, ...]
    codes: np.ndarray
    index: np.ndarray
    rows: int
    stated: bool = False
    only: tuple[str, ...] | None = None

    @cached_property
    def law(self):
        sent = output_probabilities(self.tables, self.codes)
        classes = range(self.index.max() + 1)
        given = np.stack([sent[self.index == g].mean(axis=0) for g in classes])
        return Law(given, np.bincount(self.index) / len(self.index))

    def draw(self, rng):
        drawn = rng.integers(len(self.index), size=self.rows)
        return AuditRows(self.tables, self.codes[drawn], self.index[drawn], self.index.max() + 1)


def adult_population(folder, decide, seed=0):
    """Learn a mapping of income against marital status; all other rows are the population.

    Designed for balanced decisions, the default, a mapping leaks about half of what it leaks
    for likely ones, which answer nearly the same whatever is sent.
    """
    learned, others = draw_rows(load_adult(folder), seed, n_train=LEARNED_FROM)
    mapper = Mapper(max_advantage=MAX_ADVANTAGE, decide=decide, random_state=seed)
    mapper.fit(learned.readings, learned.public, private=learned.private)
    index = np.unique(others.private, return_inverse=True)[1]
    mapping = mapper.mapping_
    codes = mapping.encode(others.readings)
    name = f"Adult, {AUDITED:,} rows, {decide}"
    return Population(name, tuple(mapping.tables), codes, index, AUDITED)
