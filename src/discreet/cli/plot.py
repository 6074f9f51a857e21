"""``discreet plot``: an audit as one picture, from what ``discreet audit --json`` printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from discreet.cli.options import argument, option
from discreet.cli.terminal import check_out, interruptible, plain_print
from discreet.errors import InputError
from discreet.files import write_whole
from discreet.plots import check_suffix, matplotlib_settings, rendered

_DOTS = 160  # per inch in a PNG


def plot(
    audit: Annotated[Path, argument("AUDIT", "What `discreet audit --json` printed.")],
    out: Annotated[Path, option("FILE", "Picture to draw, an .svg or .png file.")],
) -> None:
    """Draw an audit: how far the answer and every secret are from guessing, raw and as sent.

    Example:

        discreet plot audit.json --out audit.svg
    """
    check_suffix(out)
    check_out(out, audit)
    with interruptible("stopped. Nothing was written."):
        from discreet.auditing.picture import draw_audit
        from discreet.auditing.summary import load_audit

        found = load_audit(audit)
        if found is None:
            raise InputError(
                f"{audit}: there is no such file. Write it with `discreet audit --json`."
            )
        with matplotlib_settings("discreet-audit"):  # text stays text
            write_whole(out, rendered(draw_audit(found), out, _DOTS))
        plain_print(f"wrote {out}")
