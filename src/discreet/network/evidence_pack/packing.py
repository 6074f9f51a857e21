"""Write a pack of evidence, whole or not at all, and verify one that anybody may have written."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import Field, ValidationError

from discreet.data.strict_model import Model
from discreet.errors import InputError
from discreet.export.signing import SigningKey, is_signed
from discreet.files import write_folder
from discreet.network.evidence_pack.content import FILE_NAME, Evidence
from discreet.network.evidence_pack.gathering import Gathered
from discreet.network.health import BAD
from discreet.network.site.settings import MAX_BYTES, first_problem, model_bytes, read_bytes

# --- The page -------------------------------------------------------------------------------

_ICONS = {"good": "✓", "warn": "!", "bad": "✗"}
_FOLDERS = ("discreet.network.evidence_pack", "discreet.auditing.report")


def render_page(evidence: Evidence, public_key: str, files: list[str]) -> str:
    """Return the page. ``files``: names of the other files of the pack."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(folder) for folder in _FOLDERS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assert environment.loader is not None
    style = "".join(
        environment.loader.get_source(environment, name)[0]
        for name in ("report.css", "evidence.css")
    )
    page: str = environment.get_template("evidence.html").render(
        evidence=evidence,
        state=evidence.state,
        icons=_ICONS,
        key=public_key,
        files=files,
        style=Markup(style),  # our own files
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )
    return page


MANIFEST, SIGNATURE, PAGE = "manifest.json", "manifest.sig", "index.html"
_EVIDENCE, _SCHEMA = "evidence.json", "evidence.schema.json"
_PURPOSE = b"discreet-evidence-1\0"
_MOST_FILES = 100
_Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Name = Annotated[str, Field(pattern=FILE_NAME)]


class Listed(Model):
    """One file of a pack."""

    sha256: _Sha
    bytes: Annotated[int, Field(ge=0, le=MAX_BYTES)]


class Manifest(Model):
    """What is signed: every file of the pack, and whose key it is said to be."""

    format: Literal["discreet-evidence-manifest"] = "discreet-evidence-manifest"
    version: Literal[1] = 1
    key: _Sha
    files: Annotated[dict[_Name, Listed], Field(max_length=_MOST_FILES)]


@dataclass(frozen=True)
class Verified:
    """What a pack is worth. ``known``: whether its key is the one that was asked for."""

    evidence: Evidence
    key: str
    known: bool
    out_of_date: str

    @property
    def stands(self) -> bool:
        return self.known and not self.out_of_date and self.evidence.state.level != BAD


def write_pack(gathered: Gathered, key: SigningKey, out: Path) -> Manifest:
    """Write the folder: evidence, page, schema, what they link to, manifest and signature."""
    evidence = gathered.evidence
    schema = json.dumps(Evidence.model_json_schema(), indent=1) + "\n"
    files = {_EVIDENCE: model_bytes(evidence), _SCHEMA: schema.encode(), **gathered.files}
    page = render_page(evidence, key.public_hex, [*files, MANIFEST])
    files[PAGE] = page.encode()
    listed = {
        name: Listed(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
        for name, data in sorted(files.items())
    }
    manifest = Manifest(key=key.public_hex, files=listed)
    body = model_bytes(manifest)
    signature = key.signature(body, _PURPOSE).hex() + "\n"
    whole = {**files, MANIFEST: body, SIGNATURE: signature.encode()}
    write_folder(out, whole, option="--out ")
    return manifest


# --- Verifying -------------------------------------------------------------------------------


def verify_pack(folder: Path, public_key: str | None, today: date) -> Verified:
    """Check a pack: its signature first, then every file, then what it says.

    ``public_key``: hexadecimal, as the owner of the site gave it; without it nobody is known.

    Raises InputError: for the first thing that is wrong.
    """
    if not folder.is_dir():
        raise InputError(
            f"--verify {folder}: no such folder. Name one that discreet evidence wrote."
        )
    body = _read(folder, MANIFEST, 2**20)
    manifest = _manifest(folder, body)
    if public_key is not None and manifest.key != public_key:
        raise InputError(
            f"{folder}: is signed by key {manifest.key[:16]}…, not by {public_key[:16]}…. It is "
            "not of the site that you know, or its key was changed: ask its owner."
        )
    signature = _read(folder, SIGNATURE, 1_000).strip()
    if not is_signed(body, _from_hex(signature), _PURPOSE, manifest.key):
        raise InputError(f"{folder}: the signature does not fit {MANIFEST}. It was changed.")
    _check_names(folder, manifest)
    data = {name: _checked(folder, name, each) for name, each in manifest.files.items()}
    try:
        evidence = Evidence.model_validate(json.loads(data.get(_EVIDENCE, b"")))
    except (ValidationError, ValueError, RecursionError):
        raise InputError(f"{folder}: {_EVIDENCE} is not what this version writes.") from None
    return Verified(evidence, manifest.key, public_key is not None, _out_of_date(evidence, today))


def _manifest(folder: Path, body: bytes) -> Manifest:
    try:
        return Manifest.model_validate(json.loads(body))
    except ValidationError as error:
        raise InputError(f"{folder}: {MANIFEST}: {first_problem(error)}.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{folder}: {MANIFEST} is not JSON.") from None


def _from_hex(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return b""


def _check_names(folder: Path, manifest: Manifest) -> None:
    there = {path.name for path in folder.iterdir()}
    listed = {*manifest.files, MANIFEST, SIGNATURE}
    if missing := sorted(listed - there):
        raise InputError(f"{folder}: {missing[0]} is missing.")
    if more := sorted(there - listed):
        raise InputError(f"{folder}: {more[0]!r:.80} is not in {MANIFEST}: somebody added it.")


def _checked(folder: Path, name: str, listed: Listed) -> bytes:
    data = _read(folder, name, MAX_BYTES)
    if len(data) != listed.bytes or hashlib.sha256(data).hexdigest() != listed.sha256:
        raise InputError(f"{folder}: {name} was changed: its SHA-256 is not the signed one.")
    return data


def _read(folder: Path, name: str, limit: int) -> bytes:
    file = folder / name
    try:
        regular = stat.S_ISREG(file.lstat().st_mode)
    except FileNotFoundError:
        raise InputError(f"{folder}: {name} is missing.") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None
    if not regular:
        raise InputError(f"{folder}: {name} is no regular file.")
    return read_bytes(file, limit)


def _out_of_date(evidence: Evidence, today: date) -> str:
    until = evidence.state.valid_until
    if until is None:  # nothing is promised without an end
        return "" if evidence.state.level == "bad" else "it has no date until which it counts"
    if today <= until:
        return ""
    return f"what it promises counted until {until}: ask for a new one"
