"""The text of a mapping file: JSON in one canonical form, parsed and stored with care (stage 4).

A file may come from anybody. Reading therefore bounds what it takes in, believes nothing
it has not checked, and answers with one ``MappingFileError``. What the parts must hold is
for ``mapping`` to say.
"""

import hashlib
import json
from collections.abc import Mapping as Dict
from os import PathLike
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from discreet.data.strict_model import explain
from discreet.errors import InputError, MappingFileError, shown
from discreet.files import read_whole, write_whole

FORMAT: Final = "discreet-mapping"
VERSION: Final = 1
MAX_BYTES = 32 * 2**20
MAX_ITEMS = 1_000
"""Most entries of any object, and of any list that has no limit of its own."""
RESTORE = "Restore the file from a good copy, or learn the mapping again."
_OTHER_FILE = "Give the file that `discreet learn` wrote."


# --- To text -------------------------------------------------------------------------------


def canonical(content: Dict[str, Any]) -> str:
    """Return the one JSON text of some content: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_id(content: Dict[str, Any]) -> str:
    """Return "sha256:" and the hash of the canonical form."""
    return "sha256:" + hashlib.sha256(canonical(content).encode("ascii")).hexdigest()


def format_text(content: Dict[str, Any]) -> str:
    """Return the content as readable JSON, one line per list of scalars."""
    return "".join(_lay_out(content, "")) + "\n"


def _lay_out(value: Any, margin: str) -> list[str]:
    """Return pieces of indented JSON in which a list of scalars takes one line."""
    deeper = margin + "  "
    if isinstance(value, dict) and value:
        items = [(f"{json.dumps(key, ensure_ascii=False)}: ", each) for key, each in value.items()]
        opening, closing = "{}"
    elif isinstance(value, list | tuple) and any(
        isinstance(each, list | tuple | dict) for each in value
    ):
        items = [("", each) for each in value]
        opening, closing = "[]"
    else:
        return [json.dumps(value, ensure_ascii=False, allow_nan=False)]
    pieces = [opening]
    for i, (key, each) in enumerate(items):
        pieces += [",\n" if i else "\n", deeper, key, *_lay_out(each, deeper)]
    return [*pieces, "\n", margin, closing]


# --- From text -----------------------------------------------------------------------------


def parse_text(text: str, where: str) -> dict[str, Any]:
    """Return what the text of a mapping file holds, its parts unchecked.

    ``where``: what to call the text in messages. Raises MappingFileError: if the text is not JSON
    within the limits, or no mapping of this version.
    """
    return _check_format(_parse_json(text, where), where)


def _parse_json(text: str, where: str) -> Any:
    def refuse(problem: str) -> NoReturn:
        raise MappingFileError(f"{where}: {problem}. {RESTORE}") from None

    def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > MAX_ITEMS:  # pydantic would make an error of each unknown key
            refuse(f"an object has {len(pairs)} keys; at most {MAX_ITEMS} are read")
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            refuse(f"the key {shown(max(keys, key=keys.count))} stands twice in one object")
        return found

    def whole(digits: str) -> int:
        # Every number of the file fits in 64 bits; reading a longer one takes quadratic time.
        return (
            int(digits) if len(digits) <= 20 else refuse(f"the number {digits[:20]}... is too long")
        )

    if len(text) > MAX_BYTES:
        refuse(f"has {len(text)} characters; at most {MAX_BYTES} are read")
    try:
        return json.loads(
            text,
            object_pairs_hook=distinct_keys,
            parse_int=whole,
            parse_constant=lambda name: refuse(f"{name} is no number that a mapping can hold"),
        )
    except RecursionError:
        refuse("is nested too deeply")
    except json.JSONDecodeError as error:
        if text.lstrip()[:1].isalnum():  # a table, most likely
            begins = shown(text.lstrip().partition("\n")[0])
            raise MappingFileError(
                f"{where}: is not a discreet mapping; it begins with {begins}. {_OTHER_FILE}"
            ) from None
        problem = error.msg.removesuffix(" at")  # as "Unterminated string starting at"
        refuse(f"is not JSON: {problem} at line {error.lineno}, column {error.colno}")


def _check_format(content: Any, where: str) -> dict[str, Any]:
    """Say first, and in its own words, that a file is something else."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise MappingFileError(
            f'{where}: is not a discreet mapping; it lacks "format": "{FORMAT}". {_OTHER_FILE}'
        )
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise MappingFileError(
            f"{where}: is of version {shown(version)}; this discreet reads version {VERSION}. "
            "Use a discreet that reads it, or learn the mapping again."
        )
    return content


# --- Files ---------------------------------------------------------------------------------


def read_file(file: Path) -> str:
    """Return the text of a file, read within the limit.

    Raises MappingFileError: if there is no such file, or it is not a file of UTF-8 text within the
    limit.
    """
    data = read_whole(file, MAX_BYTES, "Name a mapping file.", MappingFileError)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MappingFileError(
            f"{file}: is not a discreet mapping; byte {data[error.start]:#04x} at {error.start} is "
            f"not UTF-8. {_OTHER_FILE}"
        ) from None


def write_file(path: str | PathLike[str], text: str) -> None:
    """Write a file whole or not at all.

    Raises InputError: if the file cannot be written, or would be too large to load again.
    """
    data = text.encode()
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{path}: the mapping takes {len(data)} bytes; a file may have {MAX_BYTES}. "
            "Use fewer sensors, codes or symbols."
        )
    write_whole(path, data)


# --- Results of other commands --------------------------------------------------------------
# Reading files with results: frontiers, reproductions, benchmarks. Nothing in them is trusted.


_Result = TypeVar("_Result", bound=BaseModel)


def load_result(
    kind: type[_Result], path: str | PathLike[str], *, command: str, most: int, remedy: str
) -> _Result:
    """Read a result that a command wrote.

    ``kind``: what to read; its field ``format`` has a default that every such file names.
    ``command``: the command that writes such files. ``most``: most bytes that are read. ``remedy``:
    what to do about a file that is not sound. Raises InputError: if there is no such file, or it is
    not a sound result.
    """
    data = read_whole(Path(path), most, remedy)
    if f'"{kind.model_fields["format"].default}"'.encode() not in data:
        raise InputError(f"{path}: is not a file that `{command}` wrote. {remedy}")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise InputError(f"{path}: {_explain_json(error)}. {remedy}") from None


def _explain_json(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] != "json_invalid":
        return explain(error)
    return "is not JSON: " + str(first.get("ctx", {}).get("error", "it cannot be read"))
