"""What several test files share: a small home, as a table and as a mapping."""

import numpy as np
import pandas as pd
import pytest

from discreet.data.encoders import BinsEncoder, CategoriesEncoder
from discreet.data.split import Split
from discreet.errors import InputError
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveFusion, Design, Fact, Source


def home(n=60, seed=0):
    """A table of two sensors, a public and a private label, and a day that groups rows."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "hall": rng.normal(size=n),
            "door": rng.choice(["open", "shut"], n),
            "fall": np.arange(n) % 3 == 0,
            "who": np.array(["ann", "bob", "cid"])[np.arange(n) % 4 % 3],
            "day": np.arange(n) // 5,
        }
    )


class Chunks:
    """A table in batches that are cut anywhere, some of them empty."""

    def __init__(self, table, cuts):
        self.table, self.rows, self.columns = table, len(table), list(table)
        self.ends = [0, *sorted(min(cut, len(table)) for cut in cuts), len(table)]

    def batches(self, columns):
        for begin, end in zip(self.ends, self.ends[1:], strict=False):
            batch = self.table[columns].iloc[begin:end].reset_index(drop=True)
            yield batch.set_axis(pd.RangeIndex(begin, end))


def refused(match, call, *args, **kwargs):
    """The call raises an InputError of one line that says this."""
    with pytest.raises(InputError, match=match) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def codes(encoder, values, dtype=None):
    """What the encoder makes of a column of these values."""
    return encoder.encode(pd.Series(values, dtype=dtype), "hall").tolist()


DESIGN = Design(
    method="npo",
    parameters={"ratio": 0.99, "kernel": "product", "symbols": [2, 3], "seed": None},
    rows=1000,
    created="2024-05-01T12:00:00+00:00",
    discreet="0.1.0",
    source=Source(digest="sha256:" + "0" * 64, rows=1400, split=Split(group="day")),
    expected={"error": 0.125, "advantage": None},
)
HALL, DOOR = BinsEncoder(edges=[0.5, 1.5]), CategoriesEncoder(categories=["shut"], missing=True)
TABLES = [
    np.array([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]]),
    np.array([[0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]]),
]


def make_mapping(**changes):
    """A mapping of two sensors, with some of its parts changed."""
    parts = {
        "names": ["hall", "door"],
        "encoders": [HALL, DOOR],
        "tables": TABLES,
        "public": Fact(name="fall", classes=[False, True]),
        "private": [Fact(name="who", classes=["ann", "bob"])],
        "fusion": AdditiveFusion(weights=[[-1.2, 1.2], [0.25, -0.5, 0.0]], bias=0.1),
        "design": DESIGN,
    }
    return Mapping.create(**{**parts, **changes})


def joint(outputs=6, classes=2, seed=0):
    """The entries of a table fusion."""
    flat = np.random.default_rng(seed).dirichlet(np.ones(outputs * classes))
    return flat.reshape(classes, outputs).tolist()
