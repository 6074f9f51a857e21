"""What users hand to the mappers, checked and coded: readings, labels, groups, parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from discreet.arrays import Floats, Ints
from discreet.choices import KERNELS
from discreet.data.columns import Labels, check_names, label_column
from discreet.data.encoders import Encoder, encode_table
from discreet.data.fit_encoders import by_column
from discreet.data.strict_model import explain
from discreet.design.counts.counting import CountedRows, Counts, counted_rows
from discreet.design.fusion import BALANCED, Aim
from discreet.design.kernels import Kernel
from discreet.design.losses import Loss
from discreet.design.risks import MAX_OUTPUTS
from discreet.design.training_rows import Sample
from discreet.errors import InputError, MissingPrivateError, shown
from discreet.mapping.parts import MAX_SENSORS, MAX_SYMBOLS, Fact, Name, Source

_NAME: TypeAdapter[str] = TypeAdapter(Name)
_ROWS_AT_ONCE, _BYTE = 4096, 255  # rows that stay near the processor, and what fits a byte
_NARROW = 2  # bytes of a whole number that are few enough
_KERNEL_PARTS = [part for part in vars(Kernel) if not part.startswith("_")]


# --- Readings and the public fact ----------------------------------------------------------


def check_readings(estimator: Any, X: Any, y: Any) -> tuple[pd.DataFrame, Labels]:
    """Return the table of readings and the public fact, as scikit-learn would check them."""
    name, y = _public_values(y)
    try:
        if isinstance(X, pd.DataFrame):
            table, y = _check_frame(estimator, X, y)
        else:
            table, y = _check_array(estimator, X, y)
    except ValueError as error:  # what scikit-learn says becomes an error of ours
        raise InputError(" ".join(str(error).split())) from None
    return table, label_column(name, y, "public fact")


def _public_values(y: Any) -> tuple[str, Any]:
    if isinstance(y, pd.DataFrame):
        if y.shape[1] != 1:
            raise InputError(f"y has {y.shape[1]} columns; the public fact is one. Choose it.")
        y = y.iloc[:, 0]
    name = "public" if getattr(y, "name", None) is None else str(y.name)
    if isinstance(y, pd.Series) and y.notna().all():
        y = y.to_numpy()  # scikit-learn would make floats of pandas' own booleans
    return name, y


def _check_frame(estimator: Any, X: pd.DataFrame, y: Any) -> tuple[pd.DataFrame, Any]:
    if X.columns.has_duplicates:
        doubled = str(X.columns[X.columns.duplicated()][0])
        raise InputError(f"X has two columns called {doubled!r}. Rename one of them.")
    validate_data(estimator, X, skip_check_array=True)
    if y is None:
        raise InputError("y, the public fact, is required and was None.")
    y = column_or_1d(y, warn=True)
    if len(X) != len(y):
        raise InputError(f"X has {len(X)} rows and y has {len(y)}.")
    if len(X) < 2:
        raise InputError(f"n_samples={len(X)}: a mapping needs at least 2 rows.")
    return X.reset_index(drop=True), y


def _check_array(estimator: Any, X: Any, y: Any) -> tuple[pd.DataFrame, Any]:
    X, y = validate_data(
        estimator, X, y, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=2
    )
    # Objects it calls unknown, which label_column looks at; whole numbers are classes.
    if y.dtype.kind not in "Oiu":
        check_classification_targets(y)
    names = array_names(X.shape[1])
    return pd.DataFrame(_narrow(X), columns=names, copy=False).infer_objects(), y


def _narrow(X: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in as few bytes as they need: there may be many of them."""
    if X.dtype.kind not in "iu" or X.dtype.itemsize <= _NARROW or not X.size:
        return X
    found, parts = np.empty(X.shape, dtype=np.uint8), range(0, len(X), _ROWS_AT_ONCE)
    unsigned = X.view(X.dtype.str.replace("i", "u"))  # what is negative becomes large
    for part in (slice(begin, begin + _ROWS_AT_ONCE) for begin in parts):
        if unsigned[part].max() > _BYTE:
            break
        found[part] = X[part]
    else:
        return found
    least, most = (np.min_scalar_type(int(each)) for each in (X.min(), X.max()))
    narrow = np.promote_types(least, most)
    return X.astype(narrow) if narrow.kind in "iu" else X


# --- Labels and groups ---------------------------------------------------------------------


def private_facts(private: Any, n_rows: int) -> list[Labels]:
    """Return the private facts, one for each column; refuse their absence."""
    if private is None:
        raise MissingPrivateError(
            "fit needs private=, the fact to protect: a Series, or a DataFrame for several. "
            "Without it nothing would be protected."
        )
    columns = _named_columns(private)
    if not columns:
        raise InputError("private has no columns. Give at least one fact to protect.")
    check_names([name for name, _ in columns], "private")
    for name, values in columns:
        if len(values) != n_rows:
            raise InputError(f"private fact {name!r} has {len(values)} rows; X has {n_rows}.")
    return [label_column(name, values, "private fact") for name, values in columns]


def _named_columns(private: Any) -> list[tuple[str, NDArray[Any]]]:
    if isinstance(private, pd.DataFrame):
        # By place, since a name that occurs twice would bring both columns.
        names = enumerate(private.columns)
        return [(str(name), private.iloc[:, k].to_numpy()) for k, name in names]
    array = _as_array("private", private, (1, 2))
    if array.ndim == 2:
        return [(f"private{k}", column) for k, column in enumerate(array.T)]
    name = getattr(private, "name", None)
    return [("private" if name is None else str(name), array)]


def group_index(groups: Any, n_rows: int) -> Ints | None:
    """Return the number of each row's group, from 0.

    Raises InputError: if there is not one group for each row, or groups that cannot be put in
    order.
    """
    if groups is None:
        return None
    values = _as_array("groups", groups, (1,))
    if len(values) != n_rows:
        raise InputError(f"groups has {len(values)} rows; X has {n_rows}.")
    gone = int(np.sum(pd.isna(values)))
    if gone:
        raise InputError(
            f"groups is missing in {gone} of {n_rows} rows. Fill it in, or drop those rows."
        )
    try:
        index: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        raise InputError(
            "groups mixes kinds of values that cannot be put in order. Write all of them as text."
        ) from None
    return index


def _as_array(what: str, values: Any, dimensions: tuple[int, ...]) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{what} has rows of different lengths. Give one value a row.") from None
    if array.ndim not in dimensions:
        seen = f": {shown(values)}" if array.ndim == 0 else ""
        wanted = "1 dimension" if dimensions == (1,) else "1 or 2 dimensions"
        raise InputError(
            f"{what} must have {wanted}, got {array.ndim}{seen}. "
            "Give the values themselves, one for each row of X."
        )
    return array


# --- What a mapping file can hold ----------------------------------------------------------


def check_name(what: str, name: str) -> None:
    """Refuse a name that a mapping file could not hold."""
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        problem = explain(error).removeprefix("the file ")
        raise InputError(f"the name of a {what} {problem}. Rename it.") from None


def describe_fact(name: str, classes: Iterable[Any]) -> Fact:
    """Return a fact as the mapping file holds it.

    Raises InputError: if the file cannot hold the name, or one of the classes.
    """
    check_name("fact", name)
    try:
        return Fact(name=name, classes=tuple(classes))
    except ValidationError as error:
        raise InputError(
            f"a mapping file cannot hold the classes of {name!r}: {explain(error)}. Rename them."
        ) from None


def symbol_counts(n_symbols: Any, names: list[str]) -> tuple[int, ...]:
    """Return the number of symbols of every sensor.

    Raises InputError: if a mapping file could not hold the sensors' names or so many symbols.
    """
    for name in names:
        check_name("sensor", name)
    if len(names) > MAX_SENSORS:
        raise InputError(f"there are {len(names)} sensors; a mapping file holds {MAX_SENSORS}.")
    if isinstance(n_symbols, Dict):
        own = by_column("n_symbols", n_symbols, names)
        counts = [own.get(name, 2) for name in names]
    elif isinstance(n_symbols, Sequence | np.ndarray) and not isinstance(n_symbols, str):
        counts = list(n_symbols)
        if len(counts) != len(names):
            raise InputError(
                f"n_symbols has {len(counts)} entries; there are {len(names)} sensors."
            )
    else:
        counts = [n_symbols] * len(names)
    for name, count in zip(names, counts, strict=True):
        check_count(f"n_symbols of {name!r}", count, 2, MAX_SYMBOLS)
    return tuple(int(count) for count in counts)


def array_names(n_columns: int) -> list[str]:
    """Return names for columns that came without."""
    return [f"x{k}" for k in range(n_columns)]


# --- Parameters ----------------------------------------------------------------------------


def check_kernel(kernel: object) -> Kernel:
    """Return the kernel that is named or given.

    Raises InputError: if it is neither a key of ``KERNELS`` nor an object with all that ``Kernel``
    asks for.
    """
    if isinstance(kernel, str) and kernel in KERNELS:
        return KERNELS[kernel]()
    choices = f"kernel must be one of {sorted(KERNELS)} or a Kernel, got {shown(kernel)}"
    if isinstance(kernel, type):
        raise InputError(f"{choices}. Give an instance: {kernel.__name__}().")
    missing = [part for part in _KERNEL_PARTS if not hasattr(kernel, part)]
    if missing:
        lacking = "" if len(missing) == len(_KERNEL_PARTS) else f". It lacks {', '.join(missing)}"
        raise InputError(f"{choices}{lacking}.")
    return cast(Kernel, kernel)


def check_number(name: str, value: Any, low: float, high: float, words: str) -> None:
    """Refuse anything but None or a number strictly between the two."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputError(f"{name} must be a number {words}, got {value!r}.")
    if not low < value < high:
        raise InputError(f"{name} must be {words}, got {value!r}.")


def check_count(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse anything but an integer that is large enough and not too large."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = "" if most is None else f" and at most {most}"
        raise InputError(f"{name} must be an integer of at least {least}{limit}, got {value!r}.")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Refuse anything but one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {sorted(choices)}, got {value!r}.")


# --- Codes that no row has ------------------------------------------------------------------
# Rows of the tables for codes that the training rows never showed.
#
# A code without data gets a mixture of the rows that have data, so that no limit on
# ratios between rows can be broken by it: its neighbours' on an ordered alphabet, the
# average row for an unknown category or a missing reading.


def fill_unseen(table: Floats, counts: Ints, encoder: Encoder) -> Floats:
    """Return the table with every row of a code that was never counted filled in."""
    seen = counts > 0
    filled = table.copy()
    filled[~seen] = counts @ table / counts.sum()
    if encoder.ordered:
        n_ordered = encoder.n_codes - int(encoder.missing)
        known = np.flatnonzero(seen[:n_ordered])
        if len(known):
            for z in range(table.shape[1]):
                filled[:n_ordered, z] = np.interp(np.arange(n_ordered), known, table[known, z])
    return filled


# --- How to design, and how private ----------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How to design, whatever the data.

    ``relaxed``: the paper's relaxation of the risks; False takes rules on the symbols themselves.
    ``pairs``: which pairs of private classes get a head: "all" or "reference". ``normalised``:
    weights 1/(2 n_g) in the private risks; False gives the Bayes-error method. ``constrained``:
    false leaves the private facts unprotected (NDD). ``aim``: what the decisions of the fusion
    rule are to be good for.
    """

    n_symbols: tuple[int, ...]
    kernel: Kernel
    loss: Loss
    reg: float
    private_reg: float
    relaxed: bool = True
    pairs: str = "all"
    normalised: bool = True
    constrained: bool = True
    solver: str = "fast"
    n_restarts: int = 4
    ldp_epsilon: float | None = None
    aim: Aim = BALANCED

    @property
    def lists_outputs(self) -> bool:
        """Whether the outputs are few enough to be written out."""
        return math.prod(self.n_symbols) <= MAX_OUTPUTS


@dataclass(frozen=True)
class Target:
    """How private: the share of the reachable private risk, and a limit on log-ratios."""

    ratio: float | None
    epsilon: float | None = None


def epsilon_each(n_symbols: Sequence[int], epsilon: float | None) -> float | None:
    """Return what each sensor gets of an epsilon; None where outputs are bounded one by one."""
    if epsilon is None or math.prod(n_symbols) <= MAX_OUTPUTS:
        return None
    return epsilon / len(n_symbols)


def structural_limit(settings: Settings, target: Target) -> float | None:
    """Return the limit on log Q(z|x)/Q(z|x') of every single sensor, if there is one."""
    # Too many outputs to bound one by one: the structural bound C1 adds up over sensors.
    share = epsilon_each(settings.n_symbols, target.epsilon)
    if share is None:
        return settings.ldp_epsilon
    return share if settings.ldp_epsilon is None else min(share, settings.ldp_epsilon)


# --- What a fit works on --------------------------------------------------------------------


@dataclass(frozen=True)
class Coded:
    """Coded rows on their way through a fit.

    ``facts``: the public fact, then the private ones. ``source``: what the mapping records of the
    rows. ``doubted``: whether they, or their groups, cannot be taken to be independent.
    """

    names: list[str]
    encoders: Sequence[Encoder]
    facts: Sequence[Fact]
    counted: CountedRows
    source: Source
    doubted: bool = False

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
