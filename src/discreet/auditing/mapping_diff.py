"""What changed between two mappings: sensors, tables, facts, fusion rule, design, error and leak.

Sensors, codes and symbols are compared whatever they are called, as far as they are found to be
the same.

*What is the same in two mappings under other names: sensors, codes of readings, symbols.* Symbols
are names only: a design that swaps 0 and 1 everywhere is the same design. So the symbols of the
second mapping are matched with those of the first, such that the tables are nearest, and the
fusion rule is put in the same names.

Codes are compared by what they mean. Where cut points or categories changed, the rows of both
tables are held against each other for every kind of reading that both mappings take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from discreet.arrays import Ints
from discreet.auditing.bounds.outputs_given import MAX_AUDIT_OUTPUTS
from discreet.auditing.data import AuditData
from discreet.auditing.findings import list_outputs, score_answers
from discreet.auditing.table_rows import audit_data_on_same_rows
from discreet.data.columns import Labels, Plain, written
from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder, Encoder
from discreet.data.tables import Table
from discreet.leakage.exact import advantage, structural_epsilons
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import (
    TOTAL,
    AdditiveClassesFusion,
    AdditiveFusion,
    Design,
    Fact,
    Fusion,
    Sensor,
)

# --- What is the same under other names -----------------------------------------------------

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


# --- What differs ---------------------------------------------------------------------------

NAMES_OF_SYMBOLS = "names of symbols"


@dataclass(frozen=True)
class Change:
    """One entry before and after; None where there is none."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class SensorDiff:
    """How a sensor changed that both mappings have.

    ``compared``: kinds of readings for which rows of both tables were compared; 0 if the codes, or
    the numbers of symbols, cannot be compared. ``largest``, ``mean``: total variation between the
    rows of both tables, over these kinds of readings. ``matched``: the symbol of the second mapping
    that each symbol of the first one is. ``epsilon``: structural; None where there is no bound.
    """

    name: str
    new_name: str
    encoder: EncoderDiff
    symbols: tuple[int, int]
    compared: int
    largest: float | None
    mean: float | None
    matched: tuple[int, ...] | None
    epsilon: tuple[float | None, float | None]

    @property
    def crosswise(self) -> bool:
        """Whether symbols have other names in the second mapping."""
        return self.matched is not None and self.matched != tuple(range(len(self.matched)))

    @property
    def same(self) -> bool:
        """Whether a device does the same, names included."""
        kept = self.name == self.new_name and self.encoder.same and not self.crosswise
        return kept and self.largest == 0.0


@dataclass(frozen=True)
class FactDiff:
    """A fact that changed; classes are None where a mapping does not have it."""

    role: str
    name: str
    before: tuple[Plain, ...] | None
    after: tuple[Plain, ...] | None


@dataclass(frozen=True)
class FusionDiff:
    """How the fusion rule changed, in the names of symbols of the first mapping.

    ``same``: whether every output has the same posterior and decision, entry by entry. ``rule``:
    "unstated" in older files: the most probable class, a tie to the first. ``comparable``: whether
    both are for the same sensors with the same numbers of symbols. ``outputs``: how many were
    listed; None where that cannot be done, or there are too many. ``decided_differently``: share of
    these outputs, each counting the same.
    """

    same: bool
    kind: tuple[str, str]
    rule: tuple[str, str]
    comparable: bool
    outputs: int | None = None
    decided_differently: float | None = None


@dataclass(frozen=True)
class Answers:
    """What a mapping's decisions are worth on some rows: estimates, which promise nothing."""

    public: str
    error: float
    balanced_accuracy: float


@dataclass(frozen=True)
class RowsDiff:
    """Error and leak of both mappings on the same rows: estimates, which promise nothing.

    ``origins``: what is known of the rows for each mapping, as the audit says it. ``held_out``:
    whether they are known not to have been learned from. ``learned_groups``: how groups come to
    have rows that the mapping learned from, if some have. ``advantages``: of the best attacker on
    each private fact, exact for these rows; None where there are too many outputs to list.
    """

    rows: int
    origins: tuple[str, str]
    held_out: tuple[bool, bool]
    learned_groups: tuple[str, str]
    answers: tuple[Answers, Answers]
    advantages: tuple[Change, ...]


@dataclass(frozen=True)
class MappingDiff:
    """What changed between two mappings.

    ``removed``, ``added``: sensors that only one of them has. ``reordered``: whether the others
    come in another order. ``sensors``: all that both have, also those that are the same.
    ``epsilon``: structural, of all sensors together; None where there is no bound. ``facts``: those
    that changed. ``chain``, ``design``, ``expected``: how the public fact lasts, settings, and what
    the methods expected to deliver, where they differ.
    """

    ids: tuple[str, str]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    reordered: bool
    sensors: tuple[SensorDiff, ...]
    epsilon: tuple[float | None, float | None]
    facts: tuple[FactDiff, ...]
    fusion: FusionDiff
    chain: tuple[Change, ...]
    design: tuple[Change, ...]
    expected: tuple[Change, ...]
    measured: RowsDiff | None = None

    @property
    def differs_in(self) -> tuple[str, ...]:
        """What differs of all that a device or a fusion centre uses; not how it was designed."""
        renamed = any(each.name != each.new_name for each in self.sensors)
        found = {
            "sensors": bool(self.removed or self.added or self.reordered or renamed),
            "encoders": any(not each.encoder.same for each in self.sensors),
            "numbers of symbols": any(each.symbols[0] != each.symbols[1] for each in self.sensors),
            "tables": any(each.largest != 0.0 for each in self.sensors),
            NAMES_OF_SYMBOLS: any(each.crosswise for each in self.sensors),
            "facts": bool(self.facts),
            "fusion rule": not self.fusion.same,
            "chain of the public fact": bool(self.chain),
        }
        return tuple(name for name, differs in found.items() if differs)

    @property
    def same(self) -> bool:
        """Whether devices and the fusion centre do the same with either mapping."""
        return not self.differs_in

    @property
    def same_up_to_names(self) -> bool:
        """Whether they do the same once symbols have the same names, and not before."""
        return self.differs_in == (NAMES_OF_SYMBOLS,)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        verdict = {"same": self.same, "same_up_to_names_of_symbols": self.same_up_to_names}
        return {**verdict, "differs_in": self.differs_in, **asdict(self)}


def compare_mappings(
    before: Mapping,
    after: Mapping,
    table: pd.DataFrame | Table | None = None,
    *,
    group: str | None = None,
    assume_independent: bool = False,
) -> MappingDiff:
    """Return what changed between two mappings.

    Parameters
    ----------
    before, after : Mapping
    table : DataFrame or Table, optional
        Labelled rows, to compare error and leak on those that neither mapping learned from.
    group : str, optional
        Which rows count as one observation, as for ``discreet audit``.
    assume_independent : bool, default=False
        Rows count each by itself, although those that were learned from came in groups.

    Raises
    ------
    InputError
        If the table cannot be used, with the message of the audit.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import RandomizedResponseMapper, compare_mappings
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall, who = [0, 0, 1, 1] * 10, ["a", "b"] * 20
    >>> both = [
    ...     RandomizedResponseMapper(ldp_epsilon=epsilon).fit(readings, fall, private=who).mapping_
    ...     for epsilon in (1.0, 2.0)
    ... ]
    >>> compare_mappings(*both).same, compare_mappings(both[0], both[0]).same
    (False, True)
    """
    measured = None
    if table is not None:  # first, since it may be refused
        how: dict[str, Any] = {"group": group, "assume_independent": assume_independent}
        measured = _measure(audit_data_on_same_rows([before, after], table, **how))
    places = same_sensors(before, after)
    kept = set(places.values())
    sensors = tuple(
        _compare_sensors(before.sensors[t], after.sensors[u]) for t, u in places.items()
    )
    totals = [structural_epsilons(each.tables).sum() for each in (before, after)]
    return MappingDiff(
        ids=(before.id, after.id),
        removed=tuple(n for t, n in enumerate(before.names) if t not in places),
        added=tuple(n for u, n in enumerate(after.names) if u not in kept),
        reordered=list(places.values()) != sorted(places.values()),
        sensors=sensors,
        epsilon=(_finite(totals[0]), _finite(totals[1])),
        facts=tuple(_compare_facts(before, after)),
        fusion=_compare_fusion(before, after, list(places.values()), sensors),
        chain=_changes(*({} if m.chain is None else dict(m.chain) for m in (before, after))),
        design=_changes(_settings(before.design), _settings(after.design)),
        expected=_changes(before.design.expected or {}, after.design.expected or {}),
        measured=measured,
    )


# --- Sensors -------------------------------------------------------------------------------


def _compare_sensors(before: Sensor, after: Sensor) -> SensorDiff:
    codes = same_readings(before.encoder, after.encoder)
    matched, distances = None, np.empty(0)
    if before.symbols == after.symbols and len(codes):
        own, other = before.array[codes[:, 0]], after.array[codes[:, 1]]
        matched = match_symbols(own, other)
        distances = np.abs(own - other[:, matched]).sum(axis=1) / (2 * TOTAL)
    first, second = structural_epsilons([each.array / TOTAL for each in (before, after)])
    return SensorDiff(
        name=before.name,
        new_name=after.name,
        encoder=compare_encoders(before.encoder, after.encoder),
        symbols=(before.symbols, after.symbols),
        compared=len(distances),
        largest=float(distances.max()) if len(distances) else None,
        mean=float(distances.mean()) if len(distances) else None,
        matched=matched,
        epsilon=(_finite(first), _finite(second)),
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# --- Facts ---------------------------------------------------------------------------------


def _compare_facts(before: Mapping, after: Mapping) -> Iterator[FactDiff]:
    facts: dict[str, tuple[Sequence[Fact], Sequence[Fact]]] = {
        "public": ([before.public], [after.public]),
        "private": (before.private, after.private),
    }
    for role, sides in facts.items():
        own, other = ({fact.name: fact.classes for fact in side} for side in sides)
        for name in dict.fromkeys([*own, *other]):
            classes = own.get(name), other.get(name)
            # By their text, since Python calls True and 1 equal.
            if repr(classes[0]) != repr(classes[1]):
                yield FactDiff(role, name, *classes)


# --- Fusion rules --------------------------------------------------------------------------


def _compare_fusion(
    before: Mapping, after: Mapping, order: list[int], sensors: Sequence[SensorDiff]
) -> FusionDiff:
    rules = before.fusion, after.fusion
    kinds, names = (rules[0].kind, rules[1].kind), (_rule(rules[0]), _rule(rules[1]))
    sizes = [each.symbols[0] for each in sensors if each.symbols[0] == each.symbols[1]]
    if not len(sizes) == len(before.sensors) == len(after.sensors):
        return FusionDiff(False, kinds, names, comparable=False)
    # Where tables cannot be compared, symbols are taken by their names.
    matched = [each.matched or tuple(range(each.symbols[0])) for each in sensors]
    other = rename_symbols(rules[1], after.n_symbols, order, matched)
    same = other == rules[0] and before.public.classes == after.public.classes
    if (outputs := math.prod(sizes)) > MAX_AUDIT_OUTPUTS:
        return FusionDiff(same, kinds, names, comparable=True)
    share = _decided_differently(before, other, after.public)
    return FusionDiff(same, kinds, names, True, outputs, share)


def _rule(fusion: Fusion) -> str:
    return "unstated" if fusion.decide is None else fusion.decide.rule


def _decided_differently(before: Mapping, other: Fusion, public: Fact) -> float:
    """Return the share of outputs with another decision; classes are matched by their text."""
    texts = [[written(each) for each in fact.classes] for fact in (before.public, public)]
    places = np.array([texts[0].index(t) if t in texts[0] else -1 for t in texts[1]])
    differing = 0
    for outputs in list_outputs(before.n_symbols):
        decided = places[other.choose(other.scores(outputs, before.n_symbols))]
        differing += int(np.count_nonzero(decided != before.decide(outputs)))
    return differing / math.prod(before.n_symbols)


# --- Design --------------------------------------------------------------------------------


def _settings(design: Design) -> dict[str, Any]:
    """Return how a mapping came about, by names; parameters with a prefix of their own."""
    source = design.source
    split = None if source is None else source.split
    return {
        "method": design.method,
        **{f"parameters.{name}": value for name, value in design.parameters.items()},
        "rows": design.rows,
        "table": None if source is None else source.digest,
        **({} if split is None else {f"split.{k}": v for k, v in split.model_dump().items()}),
        "discreet": design.discreet,
    }


def _changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    names = dict.fromkeys([*before, *after])
    found = (Change(name, before.get(name), after.get(name)) for name in names)
    return tuple(each for each in found if repr(each.before) != repr(each.after))


# --- Error and leak ------------------------------------------------------------------------


def _measure(both: Sequence[AuditData]) -> RowsDiff:
    before, after = both
    facts = {fact.name: fact for each in (after, before) for fact in each.private}
    return RowsDiff(
        rows=before.n_rows,
        origins=(before.origin, after.origin),
        held_out=(before.held_out, after.held_out),
        learned_groups=(before.learned_groups, after.learned_groups),
        answers=(_answers(before), _answers(after)),
        advantages=tuple(
            Change(name, _advantage(before, fact), _advantage(after, fact))
            for name, fact in facts.items()
        ),
    )


def _answers(data: AuditData) -> Answers:
    rows = data.rows_with(data.public)
    error, right, _ = score_answers(data.mapping, rows, 0, rows.listable)
    return Answers(data.public.name, error, float(right.mean()))


def _advantage(data: AuditData, fact: Labels) -> float | None:
    rows = data.rows_with(fact)
    return advantage(rows.average) if rows.listable else None
