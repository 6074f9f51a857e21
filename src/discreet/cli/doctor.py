"""``discreet doctor``: every finding, what to do, and the exit code."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import Json, SiteFolder, flag
from discreet.cli.terminal import interruptible, plain_print, print_json
from discreet.network import find_site, need_network

if TYPE_CHECKING:
    from discreet.network.doctor import Finding

UNWELL = 3
_MARKS = {"ok": "ok     ", "warning": "WARNING", "failure": "FAILURE"}
_HANG = 9  # behind the marks


def doctor(
    site: SiteFolder = None,
    as_json: Json = False,
    strict: Annotated[bool, flag("--strict", "Exit code 3 for warnings as well.")] = False,
) -> int:
    """Find what is wrong with a site, and how to fix it.

    Clock, randomness, disk, certificates, broker, TLS, database, mapping and guarantee.
    Exit code 3 if something has to be fixed.

    Example:

        discreet doctor --site site
    """
    with interruptible("stopped."):
        need_network()
        from discreet.network.doctor import examine

        found: list[Finding] = []
        for each in examine(find_site(site)):
            found.append(each)
            if not as_json:
                plain_print(f"{_MARKS[each.level]}  {each.subject}: {each.words}", hang=_HANG)
                if each.fix:
                    plain_print(f"{' ' * _HANG}-> {each.fix}", hang=3)
        if as_json:
            print_json([asdict(each) for each in found])
        else:
            plain_print(_summary(found))
        bad = ("failure", "warning") if strict else ("failure",)
        return UNWELL if any(each.level in bad for each in found) else 0


def _summary(found: list[Finding]) -> str:
    levels = [each.level for each in found]
    failures, warnings = levels.count("failure"), levels.count("warning")
    if not failures and not warnings:
        return f"all {len(found)} well"
    return f"{failures} to fix, {warnings} worth a look, {len(found) - failures - warnings} well"
