"""What only a person can state about a site: purpose, people, legal basis; from a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from discreet.data.strict_model import Model
from discreet.errors import InputError
from discreet.network.site.files import first_problem, read_bytes

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
