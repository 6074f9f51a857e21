"""Worlds of rows in groups ("homes"), with the exact law of either draw.

A home is of a kind, has so many rows of each class by an explicit law, and its rows read by
the kind's law of the class: everything that a home has may depend on everything else. Two
draws are meant by a certificate, and their laws are sums over kinds and sizes:

* a home drawn at random, then one of its rows: of class g, among the homes that have the class,
  for p(z|g); of any class for p(g, z).
* a row drawn at random, a home counting with at most ``cap`` rows of each class.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from scipy.stats import binom

from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.joint_outputs import output_probabilities
from support.bound_worlds.laws import Law
from support.bound_worlds.rows import QUICK, keeps, pick, whole


@dataclass(frozen=True)
class Home:
    """A kind of home: its share, the law of its rows by class, and what they read."""

    share: float
    sizes: list[tuple[float, tuple[int, ...]]]
    reads: np.ndarray  # classes by rows of codes
    alike: bool = False  # whether all rows of a class are copies of one another


@dataclass(frozen=True)
class HomeWorld:
    """Kinds of homes, what their rows may read, the tables, and how many homes are drawn."""

    name: str
    homes: tuple[Home, ...]
    readings: np.ndarray  # the rows of codes that occur
    tables: tuple[np.ndarray, ...]
    n_homes: int
    cap: int | None = None  # None: a home drawn at random
    stated: bool = False  # the audit is told the prior
    only: tuple[str, ...] | None = None  # certificates, where many classes make others slow

    @cached_property
    def sizes(self):
        """Kind, probability and rows by class of every home that there can be."""
        kinds, shares, counts = zip(
            *((k, home.share * p, n) for k, home in enumerate(self.homes) for p, n in home.sizes),
            strict=True,
        )
        return np.array(kinds), np.array(shares) / sum(shares), np.array(counts)

    @cached_property
    def law(self):
        kinds, shares, counts = self.sizes
        reads = np.stack([home.reads for home in self.homes])
        outputs = (reads @ output_probabilities(self.tables, self.readings))[kinds]
        if self.cap is not None:
            weights = shares[:, None] * np.minimum(counts, self.cap)
            return Law(_mixed(weights, outputs), weights.sum(axis=0) / weights.sum())
        parts = shares[:, None] * counts / counts.sum(axis=1, keepdims=True)
        joint = np.einsum("jg,jgz->gz", parts, outputs)
        given = _mixed(shares[:, None] * (counts > 0), outputs)
        return Law(given, parts.sum(axis=0), None if self.stated else joint)

    def draw(self, rng):
        kinds, shares, counts = self.sizes
        drawn = rng.choice(len(kinds), self.n_homes, p=shares)
        return self.rows_of(kinds[drawn], counts[drawn], rng)

    def rows_of(self, kinds, counts, rng):
        """Draw the rows of these homes."""
        n_classes = counts.shape[1]
        cells = np.tile(np.arange(n_classes), len(counts)) + n_classes * kinds.repeat(n_classes)
        reads = np.concatenate([home.reads for home in self.homes])
        cell = np.arange(counts.size).repeat(counts.ravel())
        alike = np.array([home.alike for home in self.homes])[kinds].repeat(n_classes)[cell]
        read = np.where(alike, pick(reads, cells, rng)[cell], pick(reads, cells[cell], rng))
        more = {} if self.cap is None else {"cap": self.cap}
        index, group = cell % n_classes, cell // n_classes
        return AuditRows(self.tables, self.readings[read], index, n_classes, group, **more)


def _mixed(weights, outputs):
    """The mean of the outputs of each class, homes weighing as told."""
    return np.einsum("jg,jgz->gz", weights / weights.sum(axis=0), outputs)


# --- How many rows of each class ------------------------------------------------------------


def always(*counts):
    return [(1.0, counts)]


def one_of(*laws):
    """One of several laws of sizes, each as likely."""
    return [(p / len(laws), counts) for law in laws for p, counts in law]


def tossed(rows, chance):
    """So many rows, each of class 1 with this chance."""
    ones = np.arange(rows + 1)
    weights = binom.pmf(ones, rows, chance)
    return [(float(p), (rows - k, k)) for p, k in zip(weights, ones.tolist(), strict=True) if p]


# --- One sensor of two codes, and more ------------------------------------------------------


def bits(name, homes, n_homes, keep=0.95, **more):
    """A world of one binary sensor; homes are given as (share, sizes, P(1|class), ...)."""
    kinds = tuple(Home(share, sizes, ones(*read), *rest) for share, sizes, read, *rest in homes)
    return HomeWorld(name, kinds, np.arange(2)[:, None], (keeps(keep),), n_homes, **more)


def ones(*chances):
    """Laws of a code that is 1 with these chances, by class."""
    return np.array([[1 - chance, chance] for chance in chances])


def telling(name, n_homes, share):
    """A few homes with many rows of class 1 and a code that gives it away; elsewhere nothing."""
    homes = [(share, always(100, 100), (0, 1)), (1 - share, always(199, 1), (0, 0))]
    return bits(name, homes, n_homes)


def large_homes(name, few, many, n_homes=30, small=20, chance=0.5):
    """One home in twenty sends a hundred times the rows; how both kinds read is given."""
    homes = [(0.05, tossed(100 * small, 0.5), few), (0.95, tossed(small, chance), many)]
    return bits(name, homes, n_homes)


def only_some(name, n_homes):
    """Homes without class 1 read what class 1 reads; homes with both read the opposite.

    Class 0 is there in both kinds, so p(z|0) mixes them and p(z|1) does not.
    """
    return bits(name, [(0.5, always(30, 0), (0.9, 0)), (0.5, always(15, 15), (0.1, 0.9))], n_homes)


def rare_symbol(name, n_homes):
    """A third symbol is hardly ever sent but by some homes, of one class rather than the other."""
    table = whole([[0.6, 0.399, 0.001], [0.4, 0.599, 0.001], [0.1, 0.1, 0.8]])
    usual = np.array([[0.5, 0.498, 0.002], [0.45, 0.548, 0.002]])
    loud = np.array([[0.4, 0.59, 0.01], [0.4, 0.57, 0.03]])
    homes = (Home(0.8, tossed(4, 0.4), usual), Home(0.2, tossed(6, 0.7), loud))
    return HomeWorld(name, homes, np.arange(3)[:, None], (table,), n_homes)


def mixed_homes(name, *, symbols, n_homes, classes=2, leak=0.3, kinds=4, n_codes=4, seed=0, **more):
    """Kinds of homes with their own sizes, mixes of classes and readings, all drawn by seed."""
    rng = np.random.default_rng(seed)
    readings = np.array(list(product(range(n_codes), repeat=len(symbols))))
    readings = readings[rng.permutation(len(readings))[:40]]
    most = more.pop("most", 20)
    homes = tuple(
        Home(share, _some_sizes(rng, classes, most), _some_readings(rng, classes, readings, leak))
        for share in rng.dirichlet(np.ones(kinds))
    )
    noise = more.pop("noise", 2.0)
    tables = tuple(whole(rng.dirichlet(np.ones(z) * noise, size=n_codes)) for z in symbols)
    return HomeWorld(name, homes, readings, tables, n_homes, **more)


def _some_sizes(rng, classes, most):
    """Three sizes, each with some classes missing as often as not."""
    counts = rng.integers(1, most + 1, size=(3, classes)) * rng.integers(2, size=(3, classes))
    counts[:, 0] += counts.sum(axis=1) == 0
    return [(1 / 3, tuple(row)) for row in counts.tolist()]


def _some_readings(rng, classes, readings, leak):
    common = rng.dirichlet(np.full(len(readings), 0.3))
    own = rng.dirichlet(np.full(len(readings), 0.3), size=classes)
    return (1 - leak) * common + leak * own


# --- The worlds -----------------------------------------------------------------------------


def home_worlds():
    """For a home drawn at random."""
    half = tossed(5, 0.5)
    return [
        telling("100 homes, 1 % tell all", 100, 0.01),
        telling("60 homes, 3 % tell all", 60, 0.03),
        telling("300 homes, 0.5 % tell all", 300, 0.005),
        large_homes("30 homes, the large tell", (0, 1), (0, 0)),
        large_homes("30 homes, the small tell", (0, 0), (0, 1)),
        large_homes("30 homes, the large differ", (0.9, 0.9), (0.1, 0.1), chance=0.1),
        bits("300 homes, the few small tell", [(0.7, tossed(200, 0.5), (0, 0)),
             (0.3, tossed(4, 0.5), (0, 1))], 300),
        bits("12 homes × 200", [(0.5, tossed(200, 0.5), (0.2, 0.4)),
             (0.5, tossed(200, 0.3), (0.6, 0.8))], 12, keep=0.8),
        bits("400 homes × 5", [(0.5, half, (0.3, 0.5)), (0.5, half, (0.6, 0.8))], 400, keep=0.8),
        bits("100 homes of one class each", [(0.5, always(20, 0), (0.3, 0)),
             (0.3, always(0, 20), (0, 0.3)), (0.2, always(0, 5), (0, 0.9))], 100),
        bits("60 homes, size tied to the fact", [(0.8, always(19, 1), (0.2, 0.2)),
             (0.2, always(20, 180), (0.8, 0.8))], 60),
        bits("60 homes, classes tied to readings", [(0.5, tossed(30, 0.05), (0.2, 0.2)),
             (0.5, tossed(30, 0.6), (0.8, 0.8))], 60),
        bits("40 homes that differ strongly", [(0.5, tossed(20, 0.5), (0, 0.02)),
             (0.5, tossed(20, 0.5), (0.98, 1))], 40),
        bits("3000 homes × 5, 2 % tell all", [(0.02, always(1, 4), (0, 1)),
             (0.98, always(4, 1), (0, 0))], 3000),
        only_some("40 homes, half without class 1", 40),
        bits("40 homes, rows all alike", [(1.0, tossed(20, 0.5), (0.3, 0.6), True)], 40),
        mixed_homes("80 homes, 8 classes", symbols=(2, 2), n_homes=80, classes=8, seed=1,
                    only=QUICK),
        mixed_homes("100 homes, 3 classes", symbols=(3, 4), n_homes=100, classes=3, seed=2),
        mixed_homes("50 homes, 64 outputs", symbols=(2,) * 6, n_homes=50, n_codes=2, seed=3),
        mixed_homes("200 homes, 4 symbols", symbols=(4,), n_homes=200, n_codes=6, seed=4),
        mixed_homes("200 homes, sharp tables", symbols=(2, 3), n_homes=200, noise=0.1, seed=5),
        rare_symbol("800 homes, a rare symbol", 800),
        bits("400 homes that lean to a class", [(0.5, always(9, 1), (0, 0)),
             (0.5, always(1, 9), (1, 1))], 400),
        bits("400 homes × 5, prior stated", [(0.5, half, (0.3, 0.5)),
             (0.5, tossed(5, 0.2), (0.6, 0.8))], 400, keep=0.8, stated=True),
        mixed_homes("100 homes, 3 classes, prior stated", symbols=(2, 2), n_homes=100, classes=3,
                    seed=6, stated=True),
    ]  # fmt: skip


def capped_worlds():
    """For a row drawn at random: some of the same homes, caps at the largest and below."""
    caps = {
        "100 homes, 1 % tell all": (200, 20),
        "60 homes, 3 % tell all": (200, 2),
        "300 homes, 0.5 % tell all": (200, 10),
        "30 homes, the large tell": (2000, 20),
        "30 homes, the small tell": (2000, 20),
        "30 homes, the large differ": (2000, 50),
        "12 homes × 200": (200, 20),
        "400 homes × 5": (5, 2),
        "100 homes of one class each": (20, 5),
        "60 homes, size tied to the fact": (180, 20),
        "60 homes, classes tied to readings": (30, 5),
        "40 homes that differ strongly": (20, 10),
        "3000 homes × 5, 2 % tell all": (5, 1),
        "40 homes, half without class 1": (30, 10),
        "100 homes, 3 classes": (20, 5),
        "50 homes, 64 outputs": (20, 3),
        "200 homes, sharp tables": (20, 1),
        "800 homes, a rare symbol": (6, 1),
        "100 homes, 3 classes, prior stated": (20, 4),
    }
    return [
        replace(world, name=f"{world.name}, cap {cap}", cap=cap)
        for world in home_worlds()
        for cap in caps.get(world.name, ())
    ]
