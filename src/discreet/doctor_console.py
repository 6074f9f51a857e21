"""What ``discreet doctor`` says: every finding, what to do, and the exit code."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from discreet.console import plain_print
from discreet.network.doctor.examine import examine
from discreet.network.doctor.findings import Finding
from discreet.network.site.finding import find_site

UNWELL = 3
_MARKS = {"ok": "ok     ", "warning": "WARNING", "failure": "FAILURE"}


def run_doctor(folder: Path | None, *, as_json: bool = False, strict: bool = False) -> int:
    """Look at a site, tell, and return the exit code: 0, or 3 if something has to be mended.

    Parameters
    ----------
    folder : Path, optional
    as_json : bool
        Print a list for scripts.
    strict : bool
        Count warnings as well.

    Raises
    ------
    InputError
        If there is no such site.
    """
    found: list[Finding] = []
    for each in examine(find_site(folder)):
        found.append(each)
        if not as_json:
            plain_print(f"{_MARKS[each.level]}  {each.subject}: {each.words}")
            if each.fix:
                plain_print(f"         -> {each.fix}")
    if as_json:
        plain_print(json.dumps([asdict(each) for each in found], indent=1, ensure_ascii=False))
    else:
        plain_print(_summary(found))
    bad = ("failure", "warning") if strict else ("failure",)
    return UNWELL if any(each.level in bad for each in found) else 0


def _summary(found: list[Finding]) -> str:
    failures = sum(each.level == "failure" for each in found)
    warnings = sum(each.level == "warning" for each in found)
    if not failures and not warnings:
        return f"all {len(found)} well"
    return f"{failures} to mend, {warnings} worth a look, {len(found) - failures - warnings} well"
