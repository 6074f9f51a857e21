"""Coded rows on their way through a fit: all of them, or a sample of those in a file.

Some steps look at every row: the design, and how often each code occurs. For others a sample
does: the search for a level, the fusion rule, the estimate of what to expect. Of rows in
memory the sample is all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.data.digest import coded_digest
from discreet.data.encoders import Encoder
from discreet.data.labels import Labels
from discreet.design.folds import Sample
from discreet.design.heads import Rows
from discreet.design.inputs import describe_fact
from discreet.design.packed_file import PackedFile
from discreet.design.problem import Settings
from discreet.design.sweep import sample_index
from discreet.mapping.parts import Fact, Source

SAMPLED_ROWS = 100_000
"""Most rows of a file that are held in memory at once."""
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Coded:
    """What a fit needs of its rows.

    ``facts``: the public fact, then the private ones. ``sample``: all rows, or some of those in
    ``file``. ``groups``: the group of every row of the sample. ``counts``: for each sensor, how
    many of all rows have each code. ``n_rows``: how many rows there are in all. ``source``: what
    the mapping records of them. ``file``: where all rows are, if not in ``sample``.
    """

    names: list[str]
    encoders: Sequence[Encoder]
    facts: Sequence[Fact]
    sample: Sample
    groups: Ints | None
    counts: list[Floats]
    n_rows: int
    source: Source
    file: PackedFile | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.sample.sizes

    def parts(self) -> Iterator[tuple[int, Sample]]:
        """Yield all rows, some at once, each part with the number of its first row."""
        for begin in range(0, self.n_rows, _ROWS_AT_ONCE):
            part = slice(begin, min(begin + _ROWS_AT_ONCE, self.n_rows))
            if self.file is None:
                yield begin, self.sample.take(part)
                continue
            packed, kinds = self.file.read(part)
            labels = [self.file.labels(k).take(kinds) for k in range(len(self.facts))]
            yield begin, _sample(self.encoders, packed.unpack(), labels)

    def rows(self, settings: Settings) -> Rows:
        """Return the rows of the sample, collapsed where that pays."""
        few = len(self.sample.codes) <= settings.many_rows
        return self.sample.rows() if few else self.sample.rows_as_they_are()

    def for_sample(self, settings: Settings, n_rows: int | None = None) -> Settings:
        """Return the settings with regularisers that suit so many rows, or those of the sample."""
        growth = self.n_rows / (n_rows or len(self.sample.codes))
        if growth == 1.0:
            return settings
        return replace(
            settings, reg=growth * settings.reg, private_reg=growth * settings.private_reg
        )


def coded_rows(
    names: list[str],
    encoders: Sequence[Encoder],
    codes: Ints,
    labels: Sequence[Labels],
    groups: Ints | None,
    source: Source | None,
) -> Coded:
    """Return rows that are in memory.

    Raises InputError: if a mapping file could not hold the classes.
    """
    facts = [describe_fact(fact.name, fact.classes) for fact in labels]
    sample = _sample(encoders, codes, labels)
    training = coded_digest(codes, [fact.index for fact in labels])
    if source is None:  # an audit on these very rows must be able to tell
        source = Source(digest=training, rows=len(codes))
    source = source.model_copy(update={"training": training})
    counts = [
        np.bincount(codes[:, t], minlength=size).astype(np.float64)
        for t, size in enumerate(sample.sizes)
    ]
    return Coded(names, encoders, facts, sample, groups, counts, len(codes), source)


def sampled(n_rows: int) -> Ints | slice:
    """Return which rows of a file are the sample."""
    return slice(None) if n_rows <= SAMPLED_ROWS else sample_index(n_rows, SAMPLED_ROWS)


def coded_file(file: PackedFile, groups: Ints | None) -> Coded:
    """Return the rows of a file, with a sample of them in memory; ``groups`` are the sample's."""
    header, n_rows = file.header, len(file)
    packed, kinds = file.read(sampled(n_rows))
    labels = [file.labels(k).take(kinds) for k in range(len(header.facts))]
    training = file.rows_digest()
    source = header.source or Source(digest=training, rows=n_rows)
    return Coded(
        header.names,
        header.encoders,
        header.facts,
        _sample(header.encoders, packed.unpack(), labels),
        groups,
        np.split(file.totals(), file.layout.offsets[1:]),
        n_rows,
        source.model_copy(update={"training": training}),
        file,
    )


def _sample(encoders: Sequence[Encoder], codes: Ints, labels: Sequence[Labels]) -> Sample:
    ordered = tuple(
        encoder.n_codes - int(encoder.missing) if encoder.ordered else 0 for encoder in encoders
    )
    sizes = tuple(encoder.n_codes for encoder in encoders)
    return Sample(codes, sizes, labels[0], tuple(labels[1:]), ordered)
