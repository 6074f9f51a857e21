"""The report: an audit as one offline page, the verdicts first.

Its readers are a privacy officer, who wants words; an engineer, who wants tables; and a
researcher, who wants assumptions, definitions and seeds, which are folded away. The page loads
nothing, runs nothing and may be read on a phone, on paper and in the dark. Names and values from
the data are hostile until escaped: the template escapes everything but the pictures, which
``pictures`` builds from known parts.

The same audit gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreet.auditing.report import words
from discreet.auditing.report.first_screen import first_screen
from discreet.auditing.report.officer import officer_words
from discreet.auditing.report.pictures import (
    draw_attacks,
    draw_null,
    draw_rounds,
    draw_sensor,
    tidy,
)
from discreet.auditing.report.sensor_axes import sensor_axis
from discreet.auditing.results import FEW_ROWS, Audit, FactAudit
from discreet.errors import shown
from discreet.mapping.mapping import Mapping
from discreet.plots import embed_svg

_PICTURED = 12  # sensors, of which paper has
_ON_PAPER = 6
_LISTED_SENSORS = 400
_LISTED_LINES = 30
_LISTED_CODES = 40
_LISTED_SYMBOLS = 6
_LONGEST_TEXT = 700
_SILENT = 0.01  # largest difference that any two readings make to a symbol's probability


def render_report(audit: Audit, *, command: str = "", frontier_svg: str | None = None) -> str:
    """Return the whole page. No single reading is shown.

    ``command``: what to type to make this audit again. ``frontier_svg``: the picture of the
    trade-off, with this mapping marked in it.
    """
    style, mapping = _source("report.css"), audit.mapping
    page: str = _environment().get_template("report.html").render(
        audit=audit,
        mapping=mapping,
        command=command,
        style=Markup(style),  # our own file
        style_hash=_hash(style),
        first=first_screen(audit),
        officer=officer_words(audit),
        few_rows=FEW_ROWS,
        attackers_in_words=words.ATTACKERS,
        frontier=_frontier(frontier_svg),
        facts=[_fact(audit, fact, k) for k, fact in enumerate(audit.private)],
        public_attacks=words.attack_table(audit.public.attacks, len(audit.public.classes)),
        public_picture=_attack_picture(audit, None, "public"),
        contributions=words.contribution_table(audit, _LISTED_SENSORS),
        sensors=_sensors(audit, mapping),
        on_paper=_ON_PAPER,
        parameters=_parameters(mapping),
        versions=_versions(audit),
        remarks=_cut([*map(_declared, audit.conditions), *audit.remarks]),
    )  # fmt: skip
    return page


def _declared(condition: str) -> str:
    return f"the verdict rests on this: {condition}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("discreet.auditing.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "confidence": words.confidence,
        "percent": words.percent,
        "points": words.points,
        "number": words.number,
        "count": words.count,
        "at_most": words.at_most,
        "at_least": words.at_least,
        "sentence": words.sentence,
        "cut": lambda text, limit: tidy(str(text), limit),
        "brief": lambda text: tidy(str(text), _LONGEST_TEXT),
    }
    return environment


def _source(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


def _hash(style: str) -> str:
    """Return what the security policy calls the one style sheet that may be used."""
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


# --- Sections --------------------------------------------------------------------------------


def _fact(audit: Audit, fact: FactAudit, k: int) -> dict[str, Any]:
    """Return what the page shows of one private fact."""
    return dict(
        fact=fact,
        id=f"fact-{k}",
        bounds=words.bound_table(audit, fact),
        over_time=words.over_time_table(fact) if audit.releases > 1 else None,
        attacks=words.attack_table(fact.attacks, len(fact.classes)),
        picture=_attack_picture(audit, fact, f"attack-{k}"),
        null_picture=Markup(draw_null(fact.plug_in, f"null-{k}")),
        findings=_cut(fact.findings),
        rounds=fact.rounds and Markup(draw_rounds(fact.rounds, f"rounds-{k}")),
    )


def _attack_picture(audit: Audit, fact: FactAudit | None, name: str) -> Markup:
    """Draw the attackers on a private fact, or on the public one."""
    seen = audit.public if fact is None else fact
    upper = None if fact is None else fact.certificate("advantage").bound
    what = tidy(seen.name, 60)
    return Markup(draw_attacks(seen.attacks, len(seen.classes), upper, name, what))


def _frontier(svg: str | None) -> Markup | None:
    title = "The trade-off between error and leak over many mappings."
    return None if svg is None else Markup(embed_svg(svg, name="frontier", title=title))


def _sensors(audit: Audit, mapping: Mapping) -> list[dict[str, Any]]:
    """Draw all sensors, or those that matter most where there are many, most telling first."""
    weight = words.sensor_weights(
        [*(fact.contributions for fact in audit.private), audit.public.contributions]
    )
    ranked = sorted(range(len(mapping.names)), key=lambda t: -weight[mapping.names[t]])
    return [_sensor(mapping, t) for t in ranked[:_PICTURED]]


def _sensor(mapping: Mapping, t: int) -> dict[str, Any]:
    """Return what the page shows of one sensor's table."""
    sensor, table = mapping.sensors[t], mapping.tables[t]
    small = len(table) <= _LISTED_CODES and table.shape[1] <= _LISTED_SYMBOLS
    return dict(
        name=sensor.name,
        id=f"sensor-{t}",
        symbols=sensor.symbols,
        codes=len(table),
        note=_note(mapping, t),
        picture=Markup(draw_sensor(sensor, table, f"sensor-{t}")),
        labels=sensor.encoder.labels() if small else [],
        rows=[[words.probability(p) for p in row] for row in table] if small else None,
    )


def _note(mapping: Mapping, t: int) -> str:
    sensor, table = mapping.sensors[t], mapping.tables[t]
    note = sensor_axis(sensor.encoder, table).note
    if float((table.max(axis=0) - table.min(axis=0)).max()) < _SILENT:
        note += " It says next to nothing: its symbols hardly depend on the reading."
    return note.strip()


def _parameters(mapping: Mapping) -> list[tuple[str, str]]:
    parameters = list(mapping.design.parameters.items())[:_LISTED_LINES]
    return [(name, "not set" if value is None else shown(value, 120)) for name, value in parameters]


def _versions(audit: Audit) -> str:
    others = [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    return ", ".join([audit.program, *others])


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    """Keep a page short: the JSON of the audit has the rest."""
    left = len(lines) - _LISTED_LINES
    more: tuple[Any, ...] = (f"and {left} more, in the JSON of the audit",) if left > 0 else ()
    return (*lines[:_LISTED_LINES], *more)
