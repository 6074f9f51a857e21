"""What a JSON file may hold: strict, immutable models, and how a mistake in one is explained."""

import math
import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from discreet.data.columns import Plain, plain, written
from discreet.errors import shown

MAX_TEXT = 1_000
"""Longest name, category or class, in characters."""
_T = TypeVar("_T")


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
                "must be distinct; {pair} cannot be distinguished",
                {"pair": f"{shown(seen[text])} and {shown(value)}"},
            )
        seen[text] = value


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
