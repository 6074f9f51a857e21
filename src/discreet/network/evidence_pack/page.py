"""The evidence as a page: offline, printable, with the look of the report."""

from __future__ import annotations

import base64
import hashlib

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreet.network.evidence_pack.content import Evidence

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
