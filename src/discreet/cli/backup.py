"""``discreet backup`` and ``discreet restore``: copy a site that runs, bring back what it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import Json, SiteFolder, argument
from discreet.cli.terminal import interruptible, json_result, plain_print, warn
from discreet.network import find_site, need_network

if TYPE_CHECKING:
    from discreet.network.site.backups import Restored

_INCOMPLETE = 3


def backup(
    out: Annotated[Path, argument("OUT", "New folder to write.")],
    site: SiteFolder = None,
    as_json: Json = False,
) -> None:
    """Copy a site with its database, while it runs.

    The copy appears whole or not at all, and holds all keys: keep it as safe as the site.

    Example:

        discreet backup /mnt/disk/site-monday --site site
    """
    with interruptible("stopped. Nothing was written."), json_result(as_json) as result:
        need_network()
        from discreet.network.site.backups import back_up

        with_database = back_up(find_site(site), out)
        result |= {"out": str(out), "database": with_database}
        plain_print(f"wrote {out}; it holds all keys of the site")
        if not with_database:
            plain_print("the database is not in it: back it up with pg_dump, or it is not made yet")


def restore(
    source: Annotated[Path, argument("BACKUP", "Folder of a backup, or a copy of a database.")],
    site: SiteFolder = None,
    as_json: Json = False,
) -> int:
    """Add what a backup has and a site lacks; what has come since stays.

    That is files, messages and decisions. A damaged database is set aside. The fusion
    centre may run meanwhile. A site that does not exist is made from the backup. A backup
    that is damaged or of another site is refused. The exit code is 3 if it has no database.

    Example:

        discreet restore /mnt/disk/site-monday --site site
    """
    with interruptible("stopped. Run it again to finish."), json_result(as_json) as result:
        need_network()
        from discreet.network.site.backups import restore as bring_back

        done = bring_back(source, find_site(site))
        result |= {"files": list(map(str, done.files)), "whole": done.whole, "rows": done.rows}
        result["aside"] = None if done.aside is None else str(done.aside)
        result["database"] = done.database
        _say(source, done)
        return _INCOMPLETE if done.database == "missing" else 0


def _say(source: Path, done: Restored) -> None:
    plain_print(f"{len(done.files)} files were missing and are back")
    if done.whole:
        plain_print(
            "the site is as it was when the backup was made: what was revoked or forgotten "
            "since then has to be once more"
        )
    if done.aside is not None:
        plain_print(f"the damaged database is {done.aside}; the backup's is in its place")
    if done.rows is not None:
        for table in ("messages", "decisions"):
            plain_print(f"{done.rows[table]} {table} were missing and are back")
    if done.database == "elsewhere":
        plain_print("messages and decisions are in PostgreSQL: bring them back with pg_restore")
    if done.database == "missing":
        warn(f"{source} has no database, or an empty one: no messages or decisions came with it")
