"""What a fit needs of its rows: how readings became codes, counts of all rows, and a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from discreet.arrays import Ints
from discreet.data.encoders import Encoder, encode_table
from discreet.data.labels import Labels
from discreet.design.counts.counting import CountedRows, Counts, counted_rows
from discreet.design.folds import Sample
from discreet.design.inputs import describe_fact
from discreet.mapping.parts import Fact, Source


@dataclass(frozen=True)
class Coded:
    """Coded rows on their way through a fit.

    ``facts``: the public fact, then the private ones. ``source``: what the mapping records of the
    rows.
    """

    names: list[str]
    encoders: Sequence[Encoder]
    facts: Sequence[Fact]
    counted: CountedRows
    source: Source

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.sample.sizes

    @property
    def n_rows(self) -> int:
        """How many rows there are in all."""
        return self.counted.n_rows

    @property
    def sample(self) -> Sample:
        """All rows, or so many of them as are looked at as rows."""
        return self.counted.sample

    @property
    def groups(self) -> Ints | None:
        """The group of every row of the sample."""
        return self.counted.groups


def code_sample(
    sensors: Sequence[tuple[str, Encoder]],
    rows: pd.DataFrame,
    labels: Sequence[Labels],
    numbers: Ints,
    groups: Ints | None,
    counts: Counts,
    source: Source,
) -> Coded:
    """Return the counts of all rows with the sample's rows, coded.

    ``rows``, ``labels``, ``numbers``, ``groups``: of the sample. Raises InputError: if a mapping
    file could not hold the classes.
    """
    names, encoders = zip(*sensors, strict=True)
    codes = encode_table(rows, sensors)
    ordered = tuple(
        encoder.n_codes - int(encoder.missing) if encoder.ordered else 0 for encoder in encoders
    )
    sizes = tuple(encoder.n_codes for encoder in encoders)
    sample = Sample(codes, sizes, labels[0], tuple(labels[1:]), ordered)
    facts = [describe_fact(fact.name, fact.classes) for fact in labels]
    counted = counted_rows(counts, sample, numbers, groups)
    return Coded(list(names), encoders, facts, counted, source)
