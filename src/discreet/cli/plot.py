"""``discreet plot``: an audit as one picture, from what ``discreet audit --json`` printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import (
    Json,
    argument,
    option,
)
from discreet.cli.terminal import check_out, interruptible, json_result, plain_print
from discreet.errors import InputError
from discreet.files import write_whole
from discreet.plots import check_suffix, matplotlib_settings, rendered

if TYPE_CHECKING:
    from discreet.auditing.audit_file import AuditSummary

_DOTS = 160  # per inch in a PNG


def plot(
    audit: Annotated[Path, argument("AUDIT", "What `discreet audit --json` printed.")],
    out: Annotated[Path, option("FILE", "Picture to draw, an .svg or .png file.")],
    title: Annotated[str, option("TEXT", "What stands above it. [default: what it shows]")] = "",
    names: Annotated[
        list[str] | None,
        option(
            "COLUMN=TEXT",
            "What to call a fact or sensor; may be given several times.",
            name="--name",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw an audit: what a report consists of, and what it reveals, raw and as sent.

    Example:

        discreet plot audit.json --out audit.svg --name who="Who was it?"
    """
    check_suffix(out)
    called = _names(names or [])
    check_out(out, audit)
    with interruptible("stopped. Nothing was written."), json_result(as_json) as result:
        from discreet.auditing.audit_file import draw_audit, load_audit

        found = load_audit(audit)
        if found is None:
            raise InputError(
                f"{audit}: there is no such file. Write it with `discreet audit --json`."
            )
        _check_names(called, found)
        with matplotlib_settings("discreet-audit"):  # text stays text
            write_whole(out, rendered(draw_audit(found, title, called), out, _DOTS))
        result |= {"out": str(out), "mapping_id": found.mapping_id}
        plain_print(f"wrote {out}")


def _names(given: list[str]) -> dict[str, str]:
    """Return what to call facts and sensors, as typed."""
    found = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not (name and equals and text):
            raise InputError(f"--name must be a column, = and a text, got {each!r}.")
        found[name] = text
    return found


def _check_names(called: dict[str, str], found: AuditSummary) -> None:
    """Refuse a name for what is not in the picture."""
    facts = [found.public.name, *(each.name for each in found.private)]
    known = [*facts, *(each.sensor for each in found.example)]
    unknown = [name for name in called if name not in known]
    if unknown:
        raise InputError(
            f"--name: the picture has no {unknown[0]!r}. It has {', '.join(known)}: name one."
        )
