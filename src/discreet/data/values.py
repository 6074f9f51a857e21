"""Single values and columns: what a value is, how it is written, and how a message shows it.

A table holds NumPy scalars, Python objects and gaps; a mapping file holds JSON. Here the two
meet, so that every stage tells values apart in the same way.
"""

import difflib
import math
import numbers
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

MAX_TEXT = 1_000
"""Longest name, category or class, in characters."""
_LISTED_NAMES = 20

Plain: TypeAlias = bool | int | float | str
Column: TypeAlias = "pd.Series[Any]"
Values: TypeAlias = "pd.Series[Any] | NDArray[Any]"
_T = TypeVar("_T")


# --- Values --------------------------------------------------------------------------------


def plain(value: object) -> Plain | None:
    """Return a value as the JSON scalar it stands for, or None when it is none.

    NumPy scalars become Python ones, other real numbers become floats.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None  # NumPy would hand out a count of nanoseconds
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    # The numbers module does not count Decimal among the real numbers.
    if isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
        return float(value)  # type: ignore[arg-type]
    return None


def written(value: Plain) -> str:
    """Return how a value is written, which is what categories and classes are told apart by.

    ``1`` and ``1.0`` are written the same, since one missing cell turns a column of
    integers into floats; ``True`` and ``1`` are not, although Python calls them equal.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


# --- Columns -------------------------------------------------------------------------------


def is_missing(column: Column) -> NDArray[np.bool_]:
    """Return where the column has no value: None, NaN, NaT or NA."""
    return np.asarray(pd.isna(column), dtype=bool)


def is_numeric(column: Column) -> bool:
    """Whether the column holds numbers; booleans and categoricals do not count."""
    dtype, types = column.dtype, pd.api.types
    if isinstance(dtype, pd.CategoricalDtype):
        return False
    if not types.is_object_dtype(dtype):
        return types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
    kinds = {type(plain(value)) for value in column[~is_missing(column)]}
    return bool(kinds) and kinds <= {int, float}


def written_column(column: Column) -> list[str]:
    """Return each value as it is written; missing and odd values by what Python prints."""
    if column.dtype == object:  # hashing an object column would merge True with 1
        return [_written_any(value) for value in column]
    places, distinct = pd.factorize(column, use_na_sentinel=False)
    texts = [_written_any(value) for value in distinct]
    return [texts[place] for place in places]


def _written_any(value: object) -> str:
    found = plain(value)
    return str(value) if found is None else written(found)


class NotNumberError(Exception):
    """A value that no number can be made of."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def as_series(values: Values) -> Column:
    """Return the values as a column whose rows are numbered from 0."""
    if isinstance(values, pd.Series):
        return values.set_axis(pd.RangeIndex(len(values)))
    return pd.Series(np.asarray(values).ravel())


def as_floats(series: Column) -> NDArray[np.float64]:
    """Return the column as floats, NaN where missing; booleans count as 0 and 1."""
    dtype = series.dtype
    types = pd.api.types
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    gone = is_missing(series)
    found = np.full(len(series), np.nan)
    found[~gone] = map_distinct(series[~gone], _as_float)
    return found


def _as_float(value: object) -> float:
    number = plain(value)
    if number is None:
        raise NotNumberError(value)
    try:
        return float(number)
    except OverflowError:
        return math.inf if isinstance(number, int) and number > 0 else -math.inf
    except ValueError:
        raise NotNumberError(value) from None


def map_distinct(series: Column, function: Callable[[object], float]) -> NDArray[Any]:
    """Apply a function to each value, once per distinct value where that is safe."""
    if series.dtype == object:
        # Hashing an object column would merge True with 1, and cannot take lists.
        return np.asarray([function(value) for value in series], dtype=np.float64)
    places, distinct = pd.factorize(series)
    return np.asarray([function(value) for value in distinct], dtype=np.float64)[places]


# --- In a mapping file ---------------------------------------------------------------------


class Model(BaseModel):
    """Base of everything in a mapping file: immutable, strict, no unknown keys."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def check_scalar(value: object) -> Plain:
    """Return a value as the JSON scalar it stands for, or refuse it."""
    found = plain(value)
    if found is None:
        raise PydanticCustomError("scalar", "must be text, true, false or a number")
    if isinstance(found, str):
        if len(found) > MAX_TEXT:
            raise PydanticCustomError("scalar", f"must be at most {MAX_TEXT} characters long")
        if any("\ud800" <= character <= "\udfff" for character in found):
            raise PydanticCustomError("scalar", "must be text that UTF-8 can hold")
    elif isinstance(found, float) and not math.isfinite(found):
        raise PydanticCustomError("scalar", "must be a finite number")
    elif not -(2**63) <= found < 2**63:
        raise PydanticCustomError("scalar", "must be a whole number that fits in 64 bits")
    return found


Scalar = Annotated[
    bool | int | float | str,
    PlainValidator(check_scalar),
    WithJsonSchema({"type": ["boolean", "number", "string"]}),
]

# Lists in JSON become tuples here, which only a lax field allows; what is inside stays strict.
# The first bad item ends the check, so that a hostile list cannot make a million errors.
Items = Annotated[tuple[_T, ...], Field(strict=False, fail_fast=True)]


def check_distinct(values: Sequence[Plain]) -> None:
    """Refuse values that are written the same, such as 1, 1.0 and "1"."""
    seen: dict[str, Plain] = {}
    for value in values:
        text = written(value)
        if text in seen:
            raise PydanticCustomError(
                "discreet_distinct",
                "must be distinct; {pair} cannot be told apart",
                {"pair": f"{shown(seen[text])} and {shown(value)}"},
            )
        seen[text] = value


# --- In messages ---------------------------------------------------------------------------


def shown(value: object, limit: int = 60) -> str:
    """Return a short one-line rendering of any value, for messages."""
    brief = reprlib.Repr()
    brief.maxlevel, brief.maxstring, brief.maxother = 2, limit, limit
    try:
        text = brief.repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # an integer of thousands of digits
        text = f"a {type(value).__name__} too large to show"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a "no such name" message: close matches, then all the names."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    listed = ", ".join(map(repr, names[:_LISTED_NAMES]))
    more = f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES else ""
    return f"{hint}There are: {listed}{more}." if names else "There are none."


def explain(error: ValidationError) -> str:
    """Return the first problem that pydantic found, in one line: place, problem, value."""
    problems = error.errors(include_url=False)
    first = problems[0]
    known = first.get("ctx", {})
    place = _place(first["loc"], str(known.get("place", "")))
    if first["type"] in _WORDINGS:
        text = _WORDINGS[first["type"]].format(
            **known, shown=shown(first["input"]), kind=shown(known.get("tag"), 40)
        )
    elif first["type"].startswith("discreet"):
        text = first["msg"]
    else:
        problem = re.sub(r"^(Input|String|Value) should", "must", first["msg"])
        text = f"{problem}; it is {shown(first['input'])}"
    # A list that stops at its first bad item is also called too short, which is no news.
    more = sum(each["loc"] != first["loc"][: len(each["loc"])] for each in problems)
    return f"{place} {text}" + (f" (and {more} more problem{'s'[: more > 1]})" if more else "")


_WORDINGS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
    "union_tag_invalid": "has kind {kind}; the kinds are {expected_tags}",
    "union_tag_not_found": "has no kind",
    "model_type": "must be an object; it is {shown}",
    "model_attributes_type": "must be an object; it is {shown}",
    "dict_type": "must be an object; it is {shown}",
    "tuple_type": "must be a list; it is {shown}",
    "too_short": "has {actual_length} items; the least is {min_length}",
    "too_long": "has more than {max_length} items",
}
_SIMPLE_KEY = re.compile(r"\w{1,40}", re.ASCII)
_UNIONS = ("encoder", "fusion")
_UNION_TAGS = ("bins", "categories", "codes", "additive", "additive-classes", "table")


def _place(location: tuple[int | str, ...], inner: str) -> str:
    text = ""
    for i, step in enumerate(location):
        if i and location[i - 1] in _UNIONS and step in _UNION_TAGS:
            continue  # pydantic names the kind of encoder or fusion, which is no place in the file
        if isinstance(step, int):
            text += f"[{step}]"
        elif step != "[key]":
            text += "." * bool(text) + (step if _SIMPLE_KEY.fullmatch(step) else shown(step, 40))
    joint = "." if text and inner and not inner.startswith("[") else ""
    return text + joint + inner or "the file"
