"""What ``evidence.json`` holds, strictly: for programs, and read back when it is verified."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from discreet.data.strict_model import Items, Model
from discreet.errors import InputError
from discreet.network.site.settings import first_problem, read_bytes

Level = Literal["good", "warn", "bad"]
Status = Literal["measured", "by design", "stated", "to fill in", "not measured", "not covered"]
Day = Annotated[date, Field(strict=False)]
Text = Annotated[str, Field(max_length=20_000)]
FILE_NAME = r"^[a-z0-9][a-z0-9.-]{0,63}$"


def as_level(level: str) -> Level:
    """Return a level of health; one that is not known needs attention."""
    known: dict[str, Level] = {"good": "good", "bad": "bad"}
    return known.get(level, "warn")


class Link(Model):
    """Where a line comes from: a file of the pack and a place in it.

    ``place``: a JSON pointer, or the id of an element of a page.
    """

    file: Annotated[str, Field(pattern=FILE_NAME)]
    place: Text = ""


class Line(Model):
    """One clause, what is known about it, and where that was measured.

    ``status``: "measured" has links. "by design" is what the software does, not measured here; its
    links are to what this site has to do with it. "stated" is assumed, or written by the owner of
    the site. The others say why there is no more.
    """

    id: Text
    clause: Text
    title: Text
    status: Status
    words: Text
    links: Items[Link] = ()


class Section(Model):
    """A law or a standard, clause by clause."""

    id: Text
    title: Text
    about: Text
    lines: Items[Line]


class State(Model):
    """What the guarantee is worth on the day of the pack, and until when the pack says so.

    ``audited``: when the running mapping was audited. ``certified``: the same, where that shows
    what was promised and still counts; else None. ``bounds_count``: whether bounds of the audit
    still count, be they within a limit or not.
    """

    level: Level
    headline: Text
    words: Items[Text]
    audited: Day | None
    certified: Day | None
    bounds_count: bool
    expires: Day | None
    valid_until: Day | None
    recheck: Text
    recheck_words: Text
    recheck_rows: int = 0
    recheck_supported: Day | None = None


class Noted(Model):
    """One finding about the site's health."""

    level: Level
    short: Text
    words: Text


class Health(Model):
    """How the site is, as ``discreet fleet`` judges it."""

    level: Level
    findings: Items[Noted]


class Measured(Model):
    """Facts of the site that lines link to."""

    sensors: int
    symbols: int
    interval_seconds: float
    keep_days: float | None
    devices: int
    revoked: int
    budget: float | None
    client_certificates_required: bool | None
    only_owner_reads: bool | None
    dashboard_users: int
    first_certificate_ends: Day | None


class Evidence(Model):
    """The whole: state first, then what was measured, then the annex."""

    format: Literal["discreet-evidence"] = "discreet-evidence"
    version: Literal[1] = 1
    schema_file: Literal["evidence.schema.json"] = "evidence.schema.json"
    made: Text
    program: Text
    site: Text
    mapping_id: Text
    advice: Text
    state: State
    health: Health
    measured: Measured
    sections: Items[Section]


# --- What only a person can state -----------------------------------------------------------

_Text = Annotated[str, Field(max_length=5_000)]


class Statements(Model):
    """Each is text or, where it is left out, a line to fill in."""

    purpose: _Text = ""
    people: _Text = ""
    legal_basis: _Text = ""
    why_limit: _Text = ""
    severity: _Text = ""
    officer_advice: _Text = ""
    views: _Text = ""
    transfers: _Text = ""
    updates: _Text = ""
    notification: _Text = ""


def load_statements(path: Path | None) -> Statements:
    """Return what a file states; nothing if there is none."""
    if path is None:
        return Statements()
    try:
        return Statements.model_validate(tomllib.loads(read_bytes(path, 2**20).decode()))
    except ValidationError as error:
        known = ", ".join(Statements.model_fields)
        raise InputError(
            f"--statements {path}: {first_problem(error)}. Known are {known}; each is text."
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"--statements {path}: is no TOML ({error}). Fix it.") from None
