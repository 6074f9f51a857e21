"""Worlds of many sensors whose truth is known, for the bounds that list no outputs.

A home has a type, and its type and the private class of a row decide how each sensor's codes
are distributed. Without homes every row is a home of its own. What is certified is a home
drawn at random among those that have the class, then one of its rows of that class.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from discreet.auditing.bounds.deviations import kernel_balanced_gain, kernel_total_variation
from discreet.auditing.bounds.kernel_rows import KernelRows
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.exact import advantage


def flips(keep, n_symbols=2):
    """Return the table of a sensor that sends its code with this probability."""
    table = np.full((n_symbols, n_symbols), (1 - keep) / (n_symbols - 1))
    np.fill_diagonal(table, keep)
    return table


def kernel_advantage(rows, alpha):
    """Bound the larger of half the worst total variation and the balanced gain.

    One of the two is the larger one in truth, and only that one has to hold.
    """
    pair = 0.5 * kernel_total_variation(rows, alpha)
    return pair if rows.audited.n_classes == 2 else max(pair, kernel_balanced_gain(rows, alpha))


@dataclass(frozen=True)
class SensorWorld:
    """Types of homes, classes of their rows and codes of their sensors.

    types : chance of every type, (types,)
    classes : chance of every class in a home of a type, (types, classes)
    codes : for every sensor, (types, classes, codes)
    rows : of each class, or homes if ``home`` is above 0
    home : rows of a home
    capped : whether a row is drawn, and not a home; no home has more rows than the cap
    """

    name: str
    tables: tuple[np.ndarray, ...]
    types: np.ndarray
    classes: np.ndarray
    codes: tuple[np.ndarray, ...]
    rows: tuple[int, ...]
    home: int = 0
    capped: bool = False

    @property
    def n_classes(self):
        return self.classes.shape[1]

    def type_given_class(self):
        """Return how often homes (or rows) of a class are of each type, classes by types."""
        size = 1 if self.capped or not self.home else self.home
        has = 1 - (1 - self.classes) ** size
        joint = (self.types[:, None] * has).T
        return joint / joint.sum(axis=1, keepdims=True)

    def draw(self, rng, seed=0):
        if self.home:
            kind = rng.choice(len(self.types), self.rows[0], p=self.types).repeat(self.home)
            index = pick(self.classes[kind], rng)
            groups = np.arange(self.rows[0]).repeat(self.home)
        else:
            index, groups = np.repeat(np.arange(self.n_classes), self.rows), None
            kind = pick(self.type_given_class()[index], rng)
        codes = np.stack([pick(law[kind, index], rng) for law in self.codes], axis=1)
        cap = self.home if self.capped else None
        rows = AuditRows(self.tables, codes, index, self.n_classes, groups, cap)
        return KernelRows(rows, seed)

    def advantage(self):
        """Return the truth, by listing outputs or, of alike sensors, the number of ones."""
        sent = [law @ table for law, table in zip(self.codes, self.tables, strict=True)]
        if len(sent) > 14:
            assert all(np.array_equal(each, sent[0]) and each.shape[2] == 2 for each in sent)
            ones = np.arange(len(sent) + 1)
            by_type = binom.pmf(ones, len(sent), sent[0][:, :, 1:])
        else:
            by_type = np.ones((*self.classes.shape, 1))
            for each in sent:
                by_type = (by_type[..., None] * each[:, :, None]).reshape(*self.classes.shape, -1)
        return advantage(np.einsum("gt,tgz->gz", self.type_given_class(), by_type))

    def distance(self, rows):
        """Return the true T of all classes, for the law that the rows have chosen."""
        kernel, weights = rows.kernel, self.type_given_class()
        inner = np.ones((self.n_classes, len(self.types)) * 2)
        for law, kinds, log in zip(self.codes, kernel.kinds, kernel.logs, strict=True):
            by_kind = np.stack(
                [law[:, :, kinds == k].sum(axis=2) for k in range(len(log))], axis=2
            ).transpose(1, 0, 2)
            inner *= np.einsum("gtx,xy,hsy->gths", by_kind, np.exp(log), by_kind)
        found = np.einsum("gt,gths,hs->gh", weights, inner, weights)
        return np.sqrt(max(0.0, np.trace(found) - found.sum() / self.n_classes))


def pick(chances, rng):
    """Draw one index per row of chances."""
    return (rng.random((len(chances), 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)


def alike(name, sensors, keep, shift, rows, share=0.5, home=0):
    """Return sensors that read a one with chance share - shift or share + shift."""
    ones = np.array([share - shift, share + shift])
    law = np.stack([1 - ones, ones], axis=1)[None]
    classes = np.full((1, 2), 0.5)
    tables = (flips(keep),) * sensors
    return SensorWorld(name, tables, np.ones(1), classes, (law,) * sensors, rows, home)


def hidden(name, symbols, noise, leak, rows, n_classes=2, home=0, seed=0):
    """Return sensors that depend on one another through the type, and on the class a little."""
    rng = np.random.default_rng(seed)
    types = rng.dirichlet(np.full(3, 4.0))
    tilt = rng.dirichlet(np.full(n_classes, 4.0), 3)
    classes = (1 - leak) / n_classes + leak * tilt
    codes, tables = [], []
    for n_symbols in symbols:
        own = rng.dirichlet(np.ones(4), 3)[:, None, :]
        shifted = rng.dirichlet(np.ones(4), (3, n_classes))
        codes.append((1 - leak) * own + leak * shifted)
        sharp = rng.dirichlet(np.full(n_symbols, 0.3), 4)
        tables.append((1 - noise) * sharp + noise / n_symbols)
    return SensorWorld(name, tuple(tables), types, classes, tuple(codes), rows, home)


def telling_homes(name, sensors, keep, share, homes, home):
    """Return homes of which a few tell all: half of their rows have class 1, with other codes."""
    quiet = np.array([[0.5, 0.5], [0.5, 0.5]])
    telling = np.array([[0.5, 0.5], [0.0, 1.0]])
    law = np.stack([quiet, telling])
    classes = np.array([[0.995, 0.005], [0.5, 0.5]])
    types = np.array([1 - share, share])
    return SensorWorld(
        name, (flips(keep),) * sensors, types, classes, (law,) * sensors, (homes,), home
    )
