"""Worlds of independent rows: a hidden state that depends on the class drives all sensors.

So the codes of the sensors depend on one another, given the class.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.auditing.bounds.outputs_given import AuditRows
from support.bound_worlds.laws import Law

QUICK = ("advantage", "total variation", "accuracy", "pairwise epsilon")


@dataclass(frozen=True)
class RowWorld:
    """p(class), p(state|class), p(code|state) for each sensor, and the tables."""

    name: str
    prior: np.ndarray
    states: np.ndarray
    codes: tuple[np.ndarray, ...]
    tables: tuple[np.ndarray, ...]
    rows: int  # per class, or in all if the classes are drawn too
    stated: bool = True  # classes have fixed numbers of rows, and the audit is told the prior
    only: tuple[str, ...] | None = None  # certificates, where many classes make others slow

    @cached_property
    def law(self):
        outputs = np.ones((self.states.shape[1], 1))
        for code, table in zip(self.codes, self.tables, strict=True):
            outputs = (outputs[:, :, None] * (code @ table)[:, None, :]).reshape(len(outputs), -1)
        return Law(self.states @ outputs, self.prior)

    def draw(self, rng):
        m = len(self.prior)
        index = np.repeat(np.arange(m), self.rows)
        if not self.stated:
            index = rng.choice(m, self.rows, p=self.prior)
        state = pick(self.states, index, rng)
        codes = np.stack([pick(code, state, rng) for code in self.codes], axis=1)
        return AuditRows(self.tables, codes, index, m)


def pick(table, rows, rng):
    """Draw one column for each of these rows of a table of probabilities."""
    return (rng.random(len(rows))[:, None] > np.cumsum(table, axis=1)[rows, :-1]).sum(axis=1)


def whole(table):
    """Round a table to weights over 2**32, as a mapping file would hold it."""
    weights = np.floor(np.asarray(table) * 2**32)
    weights[np.arange(len(weights)), weights.argmax(axis=1)] += 2**32 - weights.sum(axis=1)
    return weights / 2**32


def keeps(share):
    """A binary table that sends the code with this probability."""
    return whole([[share, 1 - share], [1 - share, share]])


def world(name, *, symbols, rows, classes=2, leak=0.1, n_codes=5, noise=2.0, seed=0, **more):
    """Make a world with 6 hidden states; ``leak`` moves the classes apart."""
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.ones(6) * 2)
    own = rng.dirichlet(np.ones(6), size=classes)
    states = (1 - leak) * common + leak * own
    codes = tuple(rng.dirichlet(np.ones(n_codes) * 0.5, size=6) for _ in symbols)
    tables = tuple(whole(rng.dirichlet(np.ones(z) * noise, size=n_codes)) for z in symbols)
    prior = np.asarray(more.pop("prior", np.full(classes, 1 / classes)))
    return RowWorld(name, prior, states, codes, tables, rows, **more)


def read_as_is(name, states, tables, rows, **more):
    """Every sensor reads the state itself: copies of one another if there are several."""
    codes = tuple(np.eye(len(table)) for table in tables)
    states = np.asarray(states)
    prior = np.asarray(more.pop("prior", np.full(len(states), 1 / len(states))))
    return RowWorld(name, prior, states, codes, tuple(map(whole, tables)), rows, **more)


def rare_leak(name, rows):
    """One code in 500, of one class only, gives the class away threefold."""
    table = [[0.999, 0.001], [0.5, 0.5], [1e-6, 1 - 1e-6]]
    return read_as_is(name, [[0.998, 0.0, 0.002], [1.0, 0.0, 0.0]], [np.array(table)], rows)


def rare_outputs(name, rows):
    """Two of four symbols are sent by one reading in 200; they tell the classes apart."""
    table = np.array([[0.6, 0.4, 0.0, 0.0], [0.4, 0.6, 0.0, 0.0], [0.0, 0.0, 0.7, 0.3]])
    table = 0.999 * table + 0.001 / 4
    return read_as_is(name, [[0.5, 0.497, 0.003], [0.4, 0.593, 0.007]], [table, table], rows)


def missing(name, rows):
    """A reading fails more often in one class; that it failed is a code like any other."""
    table = np.array([[0.8, 0.2], [0.2, 0.8], [0.05, 0.95]])
    states = np.array([[0.49, 0.49, 0.02], [0.45, 0.45, 0.10]])
    fails = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]])
    prior, tables = np.array([0.7, 0.3]), (whole(table),) * 3
    return RowWorld(name, prior, states, (np.eye(3), fails, fails), tables, rows, stated=False)


def zeros(name, rows):
    """Tables with zeros, and a symbol that one class never sends."""
    table = np.array([[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.0, 0.5, 0.5]])
    states = [[0.5, 0.45, 0.05], [0.4, 0.6, 0.0]]
    return read_as_is(name, states, [table, np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])], rows)


def row_worlds():
    coin = [keeps(0.99)]
    return [
        read_as_is("2 outputs, strong leak", [[0.7, 0.3], [0.4, 0.6]], coin, 100),
        rare_leak("2 outputs, rare leak", 500),
        world("4 outputs, no leak", symbols=(2, 2), rows=80, leak=0.0),
        world("8 outputs, leaky", symbols=(2, 2, 2), rows=300, leak=0.9, noise=0.5, seed=3),
        world("12 outputs, 3 classes", symbols=(2, 3, 2), rows=1000, classes=3),
        world("16 outputs", symbols=(2,) * 4, rows=10_000, leak=0.05),
        world("27 outputs, some tables 0/1", symbols=(3,) * 3, rows=2000, noise=0.05, leak=0.4),
        world("32 outputs, 1 % private", symbols=(2,) * 5, rows=10_000, prior=[0.99, 0.01],
              stated=False, leak=0.4),
        world("64 outputs, 3 classes", symbols=(2,) * 6, rows=3000, classes=3, stated=False,
              prior=[0.5, 0.3, 0.2], leak=0.0),
        world("256 outputs", symbols=(2,) * 8, rows=10_000, leak=0.05),
        world("256 outputs, sharper tables", symbols=(2,) * 8, rows=10_000, leak=0.05, noise=0.4),
        rare_outputs("16 outputs, most rare", 1500),
        world("8 outputs, 8 classes", symbols=(2, 4), rows=1200, classes=8, leak=0.5,
              stated=False, only=QUICK),
        read_as_is("8 outputs, copies", [[0.55, 0.45], [0.5, 0.5]], [keeps(0.8)] * 3, 400),
        missing("8 outputs, missing readings", 900),
        read_as_is("2 outputs, 15 rows a class", [[0.6, 0.4], [0.4, 0.6]], [keeps(0.8)], 15),
        world("4 outputs, 15 rows a class", symbols=(2, 2), rows=15, leak=0.9, noise=0.5),
        zeros("6 outputs, zeros in tables", 400),
        read_as_is("2 outputs, never in a class", [[1.0, 0.0], [0.99, 0.01]], [np.eye(2)], 200),
    ]  # fmt: skip
