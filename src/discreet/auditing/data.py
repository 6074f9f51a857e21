"""What goes into an audit: a mapping, rows that it was not learned from, what is asked, and a log.

The rows come from arrays or, by ``table_rows``, from a table on disk.

*Which held-out rows have been audited before, and with which mapping.* Rows vouch once. Whoever
learns again and audits with the same rows until a limit is met has chosen by those rows, and the
bounds do not pay for the choice. So each audit of held-out rows from the command line is noted in
a file of the user's, by digests that tell nothing about the rows, and the next one says how many
came before it. A comparison of two mappings on such rows counts as an audit of both. Audits
elsewhere, or by others, are not known.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from discreet.arrays import Floats, Ints
from discreet.auditing.audit_file import BEYOND
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.rounds import SeriesData, declared_chain
from discreet.data.columns import Labels, as_series, check_column, is_missing, written_column
from discreet.data.dependence import Dependence, check_dependence
from discreet.data.groups import as_noun
from discreet.data.split import coded_digest
from discreet.errors import InputError, Parameter, shown
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import Source

ATTACKED_ROWS = 10_000
"""Most rows that attackers learn and are tested on; the certificates use all rows."""
MOST_OTHERS = 200
"""Most columns beside readings and facts that are looked at."""
_ROWS_AT_ONCE = 1 << 18
UNCHECKED = "all rows given; whether some of them were learned from cannot be checked"
MIN_CLASS_ROWS = 5
"""Fewest rows of a class that an audit takes; hundreds are needed to say something."""


@dataclass(frozen=True)
class AuditData:
    """A frozen mapping and the rows to audit it with.

    ``codes`` is of shape (n_rows, n_sensors), in as few bytes as they fit. ``readings``: one column
    per sensor, of the rows that are ``attacked``: all, or a sample. ``groups``: rows of one group
    may depend on one another. ``origin``: where the rows come from, in words for the
    report. ``held_out``: whether they are the part of the learned table that was kept for audits.
    ``dependence``: what the order of the whole table, as given or as learned from, tells of its
    rows; of its groups where there are groups. ``assumed_independent``: whether the caller declared
    that rows, or groups, are independent. ``unit``: what a group is called in a sentence.
    ``learned_groups``: how groups come to have rows that were learned from, if some have.
    ``shared``: how rows without groups may belong together by a column of the table, if they may.
    ``audited_before``: what earlier audits with the same rows mean for this one, if there were any.
    ``series``: all rows of the table in time, if a column of times was named. ``others``: columns
    that are neither readings nor facts, of the rows that are attacked, if there are any.
    """

    mapping: Mapping
    codes: Ints
    public: Labels
    private: tuple[Labels, ...]
    readings: pd.DataFrame
    attacked: Ints
    groups: Ints | None
    origin: str
    held_out: bool = False
    dependence: Dependence | None = None
    assumed_independent: bool = False
    unit: str = "group"
    learned_groups: str = ""
    shared: str = ""
    audited_before: str = ""
    series: SeriesData | None = None
    others: pd.DataFrame | None = None

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    @property
    def contradicted(self) -> str:
        """What the rows show against their independence, or nothing."""
        found = self.dependence
        return found.words if found is not None and found.found else self.learned_groups

    @property
    def withheld(self) -> str:
        """Why no bound from these rows holds, or nothing."""
        return "" if self.assumed_independent else self.contradicted

    def draw_symbols(self, seed: int) -> Ints:
        """Draw what the sensors send for every row, in as few bytes as it fits."""
        rng, few = np.random.default_rng(seed), np.min_scalar_type(max(self.mapping.n_symbols))
        symbols = np.empty(self.codes.shape, dtype=few)
        for begin in range(0, self.n_rows, _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            symbols[part] = self.mapping.sample(self.codes[part], rng)
        return symbols

    def rows_with(self, fact: Labels, cap: int | None = None) -> AuditRows:
        """Return the rows with the classes of one fact, for the bounds."""
        return AuditRows(
            tables=tuple(self.mapping.tables),
            codes=self.codes,
            index=fact.index,
            n_classes=fact.n_classes,
            groups=self.groups,
            cap=cap,
            unit=self.unit,
            sensors=tuple(self.mapping.names),
        )


def audit_data_from_arrays(
    mapping: Mapping,
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    private: Any,
    groups: ArrayLike | None = None,
    *,
    assume_independent: bool = False,
    seed: int = 0,
) -> AuditData:
    """Check rows handed over in Python; refuse those that the mapping was learned from.

    ``seed``: of the sample that attackers see, where rows are many.
    """
    if private is None:
        raise InputError("audit needs private=, the fact to protect, as in fit.")
    readings = readings_of(mapping, X)
    columns = _private_columns(mapping, private)
    for name, values in [(mapping.public.name, y), *columns.items()]:
        if len(np.asarray(values)) != len(readings):
            raise InputError(
                f"{name!r} has {len(np.asarray(values))} labels; there are {len(readings)} rows of "
                "readings. Give one label per row."
            )
    public, *facts = (
        Labels(fact.name, fact.places(values), fact.classes)
        for fact, values in zip(
            (mapping.public, *mapping.private), (y, *columns.values()), strict=True
        )
    )
    attacked = attacked_rows(len(readings), seed)
    found = check_data(
        AuditData(
            mapping, encode_compactly(mapping, readings), public, tuple(facts),
            readings.iloc[attacked], attacked, _group_index(groups, len(readings)), UNCHECKED,
            assumed_independent=assume_independent, unit=as_noun(getattr(groups, "name", None)),
            others=_others(mapping, X, attacked),
        )
    )  # fmt: skip
    labels = [fact.index for fact in found.private]
    order = check_dependence(readings, labels, public=public.index, groups=found.groups)
    return replace(found, dependence=order)


def _others(mapping: Mapping, X: Any, attacked: Ints) -> pd.DataFrame | None:
    if not isinstance(X, pd.DataFrame):
        return None
    named = X.set_axis([str(name) for name in X.columns], axis=1)
    return named[undeclared(mapping, list(named.columns))].iloc[attacked]


def undeclared(mapping: Mapping, columns: Sequence[str], labels: Sequence[str] = ()) -> list[str]:
    """Return the columns that are neither readings nor facts, at most ``MOST_OTHERS``."""
    facts = (mapping.public.name, *(fact.name for fact in mapping.private))
    known = {*mapping.names, *facts, *labels}
    return [name for name in dict.fromkeys(columns) if name not in known][:MOST_OTHERS]


def check_counts(labels: Labels, least: int = MIN_CLASS_ROWS) -> None:
    """Refuse a fact with fewer rows of a class than an audit takes."""
    counts = labels.counts
    rarest = int(np.argmin(counts))
    if counts[rarest] < least:
        raise InputError(
            f"class {shown(labels.classes[rarest])} of {labels.name!r} has {counts[rarest]} "
            f"of {sum(counts)} audit rows; at least {least} are needed to begin, and "
            "hundreds to certify anything. Add rows of that class."
        )


def _private_columns(mapping: Mapping, private: Any) -> dict[str, Any]:
    names = [fact.name for fact in mapping.private]
    if isinstance(private, pd.DataFrame):
        columns = [private.iloc[:, k] for k in range(private.shape[1])]
    else:
        array = np.asarray(private)
        columns = [private] if array.ndim < 2 else list(array.T)
    if len(columns) != len(names):
        raise InputError(
            f"private has {len(columns)} columns; the mapping guards {len(names)}: "
            f"{', '.join(names)}. Give one column for each, in that order."
        )
    return dict(zip(names, columns, strict=True))


def readings_of(mapping: Mapping, X: pd.DataFrame | ArrayLike) -> pd.DataFrame:
    """Return the mapping's sensors, in its order; refuse readings that lack one."""
    if isinstance(X, pd.DataFrame):
        named = X.set_axis([str(name) for name in X.columns], axis=1)
        for name in mapping.names:
            check_column(named.columns, name, "readings of a sensor")
        return named[mapping.names].reset_index(drop=True)
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != len(mapping.names):
        raise InputError(
            f"the readings have shape {array.shape}; the mapping has {len(mapping.names)} sensors. "
            "Give one column for each."
        )
    return pd.DataFrame(array, columns=mapping.names).infer_objects()


def attacked_rows(n_rows: int, seed: int, most: int = ATTACKED_ROWS) -> Ints:
    """Return the places of the rows that attackers see."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng([seed, 2]).choice(n_rows, most, False))


def encode_compactly(mapping: Mapping, readings: pd.DataFrame) -> Ints:
    """Return the codes of readings, in as few bytes as they fit."""
    few = np.min_scalar_type(max(len(table) for table in mapping.tables))
    return mapping.encode(readings).astype(few)


def check_data(data: AuditData, least: int = MIN_CLASS_ROWS) -> AuditData:
    """Refuse the very rows that the mapping was learned from, rare classes and a single group.

    ``least``: rows that each class must have; with 0 a single group will do as well.
    """
    facts, groups = [data.public, *data.private], data.groups
    for fact in facts:
        check_counts(fact, least)
    if groups is not None and least and int(groups.max()) < 1:
        raise InputError("all rows are in one group, which counts as one observation. Add groups.")
    sizes = [each.encoder.n_codes for each in data.mapping.sensors]
    labels, classes = [fact.index for fact in facts], [fact.n_classes for fact in facts]
    refuse_training(
        data.mapping, data.n_rows, lambda: coded_digest(data.codes, sizes, labels, classes)
    )
    return data


def refuse_training(mapping: Mapping, n_rows: int, digest: Callable[[], str]) -> None:
    """Refuse the very rows that a mapping was learned from, in any order."""
    source = mapping.design.source
    if source is None or n_rows != mapping.design.rows:
        return
    if not source.is_readable:
        raise unreadable_source(mapping, n_rows)
    if source.training == digest():
        raise InputError(
            f"these are the {n_rows} rows that mapping {mapping.id[7:13]} was learned from, "
            "which cannot vouch for it. Give rows that were used for nothing else."
        )


def unreadable_source(mapping: Mapping, rows: int) -> InputError:
    """Return what to say if only an earlier version could tell which rows were learned from."""
    return InputError(
        f"mapping {mapping.id[7:13]} was learned with an earlier version of discreet, whose record "
        f"of the rows is no longer read: it may be these {rows} that it was learned from, and such "
        "rows cannot vouch for it. Learn it again, or audit with other rows."
    )


def _group_index(groups: Any, n_rows: int) -> Ints | None:
    if groups is None:
        return None
    column = as_series(groups)
    if len(column) != n_rows:
        raise InputError(f"groups has {len(column)} entries; there are {n_rows} rows.")
    if (gone := is_missing(column)).any():
        raise InputError(f"the group is missing in {int(gone.sum())} of {n_rows} rows. Fill it in.")
    return np.unique(written_column(column), return_inverse=True)[1].astype(np.int64)


# --- What is asked ---------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditOptions:
    """What is asked of an audit; ``audit`` explains each."""

    max_advantage: float | None = None
    epsilon: float | None = None
    beyond_answer: bool = False
    confidence: float = 0.95
    releases: int = 1
    independent_releases: bool = False
    rounds: int | None = None
    stay: Floats | None = None
    cap: int | None = None
    prior: Floats | None = None
    seed: int = 0

    @property
    def limits(self) -> dict[str, float]:
        """The stated limits, by what they limit."""
        sense = BEYOND if self.beyond_answer else "advantage"
        stated = {sense: self.max_advantage, "epsilon": self.epsilon}
        return {name: limit for name, limit in stated.items() if limit is not None}


def check_options(data: AuditData, options: AuditOptions) -> None:
    """Refuse options that make no sense, or not for these rows."""
    advantage, epsilon = options.max_advantage, options.epsilon
    if advantage is not None and not 0.0 < advantage < 1.0:
        raise InputError(f"max_advantage must be strictly between 0 and 1, got {advantage!r}.")
    if options.beyond_answer and advantage is None:
        wanted, about = Parameter("max_advantage"), Parameter("beyond_answer")
        raise InputError(wanted, " is missing, which is what ", about, " is about: give it.")
    if epsilon is not None and not 0.0 < epsilon < np.inf:
        raise InputError(f"epsilon must be a finite number above 0, got {epsilon!r}.")
    if not 0.5 <= (sure := options.confidence) < 1.0:
        raise InputError(f"confidence must be at least 0.5 and below 1, got {sure!r}.")
    if options.releases < 1:
        raise InputError(f"releases must be at least 1, got {options.releases!r}.")
    check_rounds(options, in_time=data.series is not None)
    if options.stay is not None:
        for fact in data.private:
            declared_chain(options.stay, np.array(fact.counts) / sum(fact.counts))
    if options.cap is not None and options.cap < 1:
        raise InputError(f"cap must be at least 1, got {options.cap!r}.")
    if options.cap is not None and data.groups is None:
        raise InputError(
            f"cap={options.cap} counts the rows of groups, and there are none. Name the groups, on "
            "the command line by --group."
        )
    if options.prior is not None:
        _check_prior(data, options.prior)


def check_rounds(options: AuditOptions, *, in_time: bool) -> None:
    """Refuse what cannot be asked of many rounds; ``in_time``: a column of times is named."""
    rounds, stay = options.rounds, options.stay
    if rounds is None:
        for given, name in ((stay is not None, "stay"), (in_time, "time_column")):
            if given:
                about = Parameter(name), " is about many rounds. Give "
                raise InputError(*about, Parameter("rounds"), " as well.")
        return
    if rounds < 1:
        raise InputError(f"rounds must be at least 1, got {rounds!r}.")
    if options.releases > 1:
        raise InputError(
            Parameter("rounds"), " and ", Parameter("releases"), " are two ways to add reports up. "
            "Give one of them.",
        )  # fmt: skip
    if in_time and stay is not None:
        raise InputError(
            Parameter("stay"), " is estimated from the series. Leave it out, or the time column."
        )
    if not in_time and stay is None:
        raise InputError(
            Parameter("rounds"), f" {rounds} needs to know how long the private fact lasts. Name "
            "the column with the time of every row (--time-column), or state the probability that "
            "it stays the same from one round to the next (--stay).",
        )  # fmt: skip


def _check_prior(data: AuditData, prior: Floats) -> None:
    if len(data.private) > 1:
        raise InputError(
            f"prior is for a single private fact; the mapping guards {len(data.private)}. "
            "Leave it out: the classes' frequencies are then estimated."
        )
    classes = data.private[0].n_classes
    if prior.shape != (classes,) or np.any(prior <= 0) or abs(prior.sum() - 1.0) > 1e-9:
        raise InputError(
            f"prior must hold {classes} positive numbers that sum to 1, got {prior.tolist()}."
        )


# --- Which rows were audited before ---------------------------------------------------------

_FILE = "audits.jsonl"
_MOST_BYTES = 1 << 20  # of the log that are looked at, the newest


@dataclass(frozen=True)
class AuditEntry:
    """One audit: which held-out rows, which mapping, which seed."""

    rows: str
    mapping: str
    seed: int

    @classmethod
    def of(cls, mapping: Mapping, source: Source, seed: int) -> AuditEntry:
        """Return the entry for the rows that were held out of this source."""
        split = "" if source.split is None else source.split.model_dump_json()
        rows = hashlib.sha256(f"{source.digest}\n{split}".encode()).hexdigest()
        return cls(rows, mapping.id, seed)


def log_file() -> Path | None:
    """Return where audits are noted: in ``DISCREET_STATE``, or where the system keeps state."""
    try:
        given = os.environ.get("DISCREET_STATE")
        base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
        home = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:  # no home
        return None
    return (Path(given) if given else home / "discreet") / _FILE


def say_before(entry: AuditEntry) -> str:
    """Return what earlier audits with the same rows mean for this one, or nothing."""
    before = {each for each in _read() if each.rows == entry.rows} - {entry}
    others = {each.mapping for each in before} - {entry.mapping}
    if not before:
        return ""
    count, what = (len(others), "mapping") if others else (len(before), "seed")
    plural = f"another {what}" if count == 1 else f"{count} other {what}s"
    return (
        f"the same held-out rows have been audited before{',' * bool(others)} with {plural}; the "
        "confidence does not pay for a choice among them"
    )


NOT_NOTED = "whether the same held-out rows have been audited before could not be checked"


def note_audit(entry: AuditEntry) -> bool:
    """Add an audit to the log, and return whether that was possible."""
    path = log_file()
    if path is None:
        return False
    line = json.dumps(asdict(entry))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
    except OSError:
        return False
    return True


def _read() -> list[AuditEntry]:
    """Return the entries of the log; lines that are none are passed over."""
    path = log_file()
    try:
        data = b"" if path is None else path.read_bytes()[-_MOST_BYTES:]
    except OSError:
        return []
    found = []
    for line in data.splitlines():
        try:
            part = json.loads(line)
            found.append(AuditEntry(str(part["rows"]), str(part["mapping"]), int(part["seed"])))
        except (ValueError, TypeError, KeyError):
            continue
    return found
