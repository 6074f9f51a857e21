"""Made-up worlds with a known leak, shared by the tests of the audit."""

import numpy as np
import pandas as pd

from discreet.data.encoders import CategoriesEncoder, CodesEncoder
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveFusion, Design, Fact

NOISY = np.array([[0.9, 0.1], [0.1, 0.9]])
SILENT = np.full((2, 2), 0.5)


def mapping_of(tables, names=None, encoders=None, source=None, private=("g",), classes=(0, 1)):
    """A mapping of these tables; the fusion rule adds up the symbols of the first sensor."""
    names = [f"s{t}" for t in range(len(tables))] if names is None else list(names)
    weights = [[0.0] * table.shape[1] for table in tables]
    weights[0] = np.linspace(-1, 1, tables[0].shape[1]).tolist()
    return Mapping.create(
        names=names,
        encoders=encoders or [CodesEncoder(size=len(table)) for table in tables],
        tables=tables,
        public=Fact(name="h", classes=(0, 1)),
        private=[Fact(name=name, classes=classes) for name in private],
        fusion=AdditiveFusion(weights=weights, bias=0.0),
        design=Design(method="made-up", rows=0, created="", discreet="", source=source),
    )


def frame(columns):
    return pd.DataFrame({f"s{t}": column for t, column in enumerate(columns)})


def exclusive_or(n, rng):
    """The private bit is the exclusive-or of the last two of three sensors."""
    bits = rng.integers(2, size=(3, n))
    return mapping_of([NOISY] * 3), frame(bits), bits[0], bits[1] ^ bits[2]


def duplicated(n, rng):
    """Two sensors read the same, weakly related to the private bit."""
    h, g = rng.integers(2, size=(2, n))
    weak = np.where(rng.random(n) < 0.8, g, 1 - g)
    return mapping_of([NOISY] * 3), frame([h, weak, weak]), h, g


def rare_symbol(n, rng):
    """A third symbol is sent by one class only, and seldom."""
    h, g = rng.integers(2, size=(2, n))
    alarm = (g == 1) & (rng.random(n) < 0.05)
    table = np.array([[0.5, 0.499, 0.001], [0.05, 0.05, 0.9]])
    return mapping_of([NOISY, table]), frame([h, alarm.astype(int)]), h, g


def rare_class(n, rng):
    """One row in a hundred is of the private class, and its sensor says so."""
    h = rng.integers(2, size=n)
    g = (np.arange(n) % 100 == 0).astype(int)
    return mapping_of([NOISY, NOISY]), frame([h, g]), h, g


def silent(n, rng):
    """Nothing is sent about the private bit, exactly."""
    h, g = rng.integers(2, size=(2, n))
    return mapping_of([NOISY, SILENT]), frame([h, g]), h, g


def colours(n, rng):
    """A sensor of categories, with one it was not taught."""
    h, g = rng.integers(2, size=(2, n))
    mapping = mapping_of(
        [np.array([[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])],
        encoders=[CategoriesEncoder(categories=["red", "blue"])],
    )
    said = np.where(h == 1, "red", "blue").astype(object)
    said[:7] = "green"
    return mapping, pd.DataFrame({"s0": said}), h, g
