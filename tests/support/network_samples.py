"""Small mappings with every kind of fusion rule, for the tests of the network."""

import numpy as np

from discreet.data.encoders import CodesEncoder
from discreet.mapping.mapping import Mapping, now
from discreet.mapping.parts import (
    AdditiveClassesFusion,
    AdditiveFusion,
    Deciding,
    Design,
    Fact,
    TableFusion,
)

TABLES = ([[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]], [[0.5, 0.5], [0.25, 0.75]])


def make_mapping(fusion, classes=(False, True), sensors=3, names=None):
    names = names or [f"sensor {t}" for t in range(sensors)]
    tables = [TABLES[t % len(TABLES)] for t in range(len(names))]
    return Mapping.create(
        names=names,
        encoders=[CodesEncoder(size=2) for _ in names],
        tables=tables,
        public=Fact(name="fall", classes=classes),
        private=[Fact(name="who", classes=("ann", "bob"))],
        fusion=fusion,
        design=Design(method="test", rows=0, created=now(), discreet="0"),
    )


def additive_mapping(sensors=3, names=None):
    count = len(names) if names else sensors
    weights = tuple((-0.4 - 0.1 * t, 0.6 + 0.1 * t) for t in range(count))
    return make_mapping(AdditiveFusion(weights=weights, bias=-0.3), sensors=count, names=names)


def classes_mapping():
    rng = np.random.default_rng(1)
    weights = tuple(tuple(map(tuple, each)) for each in rng.normal(size=(3, 3, 2)).tolist())
    return make_mapping(
        AdditiveClassesFusion(weights=weights, bias=(0.1, -0.2, 0.0)), classes=("a", "b", "c")
    )


def table_mapping():
    joint = np.random.default_rng(2).random((2, 8))
    joint[:, 3] = 0
    joint /= joint.sum()
    return make_mapping(TableFusion(joint=tuple(map(tuple, joint.tolist()))))


def rare_fall_mapping(rule="balanced"):
    """Falls are a fifth of the rounds, and never the likelier class."""
    given = np.random.default_rng(3).dirichlet(np.full(8, 8.0), size=2)
    joint = np.array([[0.8], [0.2]]) * given
    weights = {"balanced": (0.625, 2.5), "likely": (1.0, 1.0), "cost": (1.0, 10.0)}[rule]
    decide = Deciding(rule=rule, weights=weights, shares=(0.8, 0.2))
    return make_mapping(TableFusion(joint=tuple(map(tuple, joint.tolist())), decide=decide))


def rare_fall_scores(rule="balanced"):
    """The same with scores that add up; falls are likelier in no round."""
    decide = rare_fall_mapping(rule).fusion.decide
    weights = ((-0.3, 0.3), (-0.2, 0.4), (0.0, 0.5))
    return make_mapping(AdditiveFusion(weights=weights, bias=-1.6, decide=decide))
