"""What is the same in two mappings under other names: sensors, codes of readings, symbols.

Symbols are names only: a design that swaps 0 and 1 everywhere is the same design. So the symbols of
the second mapping are matched with those of the first, such that the tables are nearest, and the
fusion rule is put in the same names.

Codes are compared by what they mean. Where cut points or categories changed, the rows of both
tables are held against each other for every kind of reading that both mappings take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from discreet.arrays import Ints
from discreet.data.columns import Plain, written
from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder, Encoder
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveClassesFusion, AdditiveFusion, Fusion, Sensor

_PERMUTED_SYMBOLS = 6  # as many symbols may be matched in every way, so that ties are settled


def same_sensors(before: Mapping, after: Mapping) -> dict[int, int]:
    """Return where each sensor of the first mapping is in the second one, if it is there.

    By its name; or, among those left over, by doing the same under another name.
    """
    at = {name: u for u, name in enumerate(after.names)}
    places = {t: at.get(name) for t, name in enumerate(before.names)}
    left: dict[Any, list[int]] = {}
    for u in sorted(set(at.values()) - set(places.values()), reverse=True):
        left.setdefault(_behaviour(after.sensors[u]), []).append(u)
    for t in [t for t, u in places.items() if u is None]:
        alike = left.get(_behaviour(before.sensors[t]))
        places[t] = alike.pop() if alike else None
    return {t: u for t, u in places.items() if u is not None}


def _behaviour(sensor: Sensor) -> tuple[Any, ...]:
    """Return what a sensor does, whatever its name and those of its symbols."""
    return _meaning(sensor.encoder), tuple(sorted(zip(*sensor.weights, strict=True)))


def same_readings(before: Encoder, after: Encoder) -> Ints:
    """Return both codes of every kind of reading that both encoders take, two columns.

    Without rows where the encoders are of different kinds.
    """
    pairs: Iterator[tuple[int, int]] = iter(())
    if isinstance(before, BinsEncoder) and isinstance(after, BinsEncoder):
        pairs = _same_numbers(before, after)
    elif isinstance(before, CategoriesEncoder) and isinstance(after, CategoriesEncoder):
        pairs = _same_categories(before, after)
    elif isinstance(before, CodesEncoder) and isinstance(after, CodesEncoder):
        pairs = ((code, code) for code in range(min(before.size, after.size)))
    found = list(pairs)
    if found and before.missing and after.missing:
        found.append((before.n_codes - 1, after.n_codes - 1))
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _same_numbers(before: BinsEncoder, after: BinsEncoder) -> Iterator[tuple[int, int]]:
    """Yield the codes between all cut points: a bin is closed by its edge, the last is open."""
    tops = [*np.unique([*before.edges, *after.edges]), np.inf]
    sides = (np.searchsorted(each.edges, tops, side="left").tolist() for each in (before, after))
    return zip(*sides, strict=True)


def _same_categories(
    before: CategoriesEncoder, after: CategoriesEncoder
) -> Iterator[tuple[int, int]]:
    """Yield the codes of all categories, and those of what neither knows."""
    own, other = (
        {written(category): code for code, category in enumerate(each.categories)}
        for each in (before, after)
    )
    for name in dict.fromkeys([*own, *other]):
        yield own.get(name, len(own)), other.get(name, len(other))
    yield len(own), len(other)


def _parts(encoder: Encoder) -> dict[Any, Plain]:
    """Return cut points, categories or codes by what they are distinguished by."""
    if isinstance(encoder, BinsEncoder):
        return {edge: edge for edge in encoder.edges}
    if isinstance(encoder, CategoriesEncoder):
        return {written(each): each for each in encoder.categories}
    return {code: code for code in range(encoder.size)}


def _meaning(encoder: Encoder) -> tuple[Any, ...]:
    return encoder.kind, encoder.missing, tuple(_parts(encoder))


@dataclass(frozen=True)
class EncoderDiff:
    """How the codes of a sensor changed.

    ``same``: whether every reading has the code that it had. ``missing``: whether there is a code
    for missing readings. ``removed``, ``added``: cut points, categories or codes that only one of
    the mappings has.
    """

    same: bool
    kind: tuple[str, str]
    codes: tuple[int, int]
    missing: tuple[bool, bool]
    removed: tuple[Plain, ...]
    added: tuple[Plain, ...]


def compare_encoders(before: Encoder, after: Encoder) -> EncoderDiff:
    """Return how the codes of a sensor changed."""
    own, other = _parts(before), _parts(after)
    alike = before.kind == after.kind
    return EncoderDiff(
        same=_meaning(before) == _meaning(after),
        kind=(before.kind, after.kind),
        codes=(before.n_codes, after.n_codes),
        missing=(before.missing, after.missing),
        removed=tuple(own[key] for key in own if key not in other) if alike else (),
        added=tuple(other[key] for key in other if key not in own) if alike else (),
    )


def match_symbols(own: Ints, other: Ints) -> tuple[int, ...]:
    """Return the column of the second table for each of the first, nearest in all.

    ``own``, ``other``: rows of weights for the same readings. Of several that are equally near, the
    one that leaves names alone, or else the one with the smaller largest distance between two rows,
    so that both directions find the same distances.
    """
    n_symbols = own.shape[1]
    costs = np.array([np.abs(other - column[:, None]).sum(axis=0) for column in own.T])
    alone = tuple(range(n_symbols))
    if n_symbols > _PERMUTED_SYMBOLS:
        rows, best = linear_sum_assignment(costs)
        nearer = costs[rows, best].sum() < np.trace(costs)
        return tuple(best.tolist()) if nearer else alone
    ways = np.array(list(permutations(alone)))
    totals = costs[np.arange(n_symbols), ways].sum(axis=1)
    nearest = [tuple(way.tolist()) for way in ways[totals == totals.min()]]
    if nearest[0] == alone:  # they come in alphabetical order
        return alone
    return min(nearest, key=lambda way: int(np.abs(own - other[:, way]).sum(axis=1).max()))


def rename_symbols(
    fusion: Fusion, sizes: Sequence[int], order: Sequence[int], matched: Sequence[tuple[int, ...]]
) -> Fusion:
    """Return a fusion rule for sensors in another order, with other names of symbols.

    ``sizes``: how many symbols the sensors of the rule have. ``order``: which of them stands at
    each place. ``matched``: for the sensor at each place, what the rule calls each of its symbols.
    """

    def renamed(weights: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(weights[u][z] for z in names) for u, names in zip(order, matched, strict=True)
        )

    if isinstance(fusion, AdditiveFusion):
        return fusion.model_copy(update={"weights": renamed(fusion.weights)})
    if isinstance(fusion, AdditiveClassesFusion):
        return fusion.model_copy(update={"weights": tuple(map(renamed, fusion.weights))})
    outputs = np.arange(math.prod(sizes)).reshape(sizes).transpose(order)[np.ix_(*matched)]
    joint = np.array(fusion.joint)[:, outputs.ravel()].tolist()
    return fusion.model_copy(update={"joint": tuple(map(tuple, joint))})
