"""Backups of a site: its folder with a consistent copy of its database, made while it runs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import InputError
from discreet.files import PRIVATE, check_folder, make_folder, write_folder, write_whole
from discreet.network.site.settings import (
    Site,
    SiteFiles,
    load_clients,
    load_site,
    locked,
    read_bytes,
)
from discreet.network.store import check_database, open_store
from discreet.network.store.database import StoreError
from discreet.network.store.sqlite import SqliteConnection, beside

_LEFT_OUT = (".lock", "mosquitto.pid")


@dataclass(frozen=True)
class Restored:
    """What was brought back.

    ``files``: names that were missing. ``rows``: of the database, by table; None if it was put
    back whole. ``aside``: where a damaged database is now. ``whole``: the site was not there.
    """

    files: list[str]
    rows: dict[str, int] | None = None
    aside: Path | None = None
    whole: bool = False


def back_up(folder: Path, out: Path) -> bool:
    """Write a backup to a new folder, whole or not at all; return whether the database is in it.

    Raises InputError: nothing is left of the backup then.
    """
    site = load_site(folder)
    check_folder(out, "")
    out = out.absolute()
    draft = out.with_name(f".{out.name}.part")
    shutil.rmtree(draft, ignore_errors=True)  # of one that was killed
    try:
        with locked(folder):  # no device is enrolled in the middle
            write_folder(draft, _files(folder, site), mode=PRIVATE)
        with_database = _has_file(folder, site)
        if with_database:
            copy_database(_file(folder, site), _file(draft, site))
        _finish(draft, out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return with_database


def _finish(draft: Path, out: Path) -> None:
    if out.exists():
        out.rmdir()  # it is empty
    draft.rename(out)


def restore(backup: Path, folder: Path) -> Restored:
    """Bring back what a site lacks and a backup has; what is newer stays.

    ``backup``: a folder that ``back_up`` wrote, or one file: a copy of the database. Running it
    again, after it was killed, finishes the work.

    Raises InputError: nothing has changed then.
    """
    if not backup.exists():
        raise InputError(f"{backup}: no such backup. Check the path.")
    if not folder.exists() and backup.is_dir():
        load_site(backup)
        draft = folder.absolute().with_name(f".{folder.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(backup, draft)
        _finish(draft, folder)
        return Restored(sorted(_files(folder, load_site(folder))), whole=True)
    if not folder.exists():
        raise InputError(f"{folder}: there is no site, and {backup} is no backup of a whole one.")
    with locked(folder):
        files = _put_back_files(backup, folder) if backup.is_dir() else []
        site = load_site(folder)
        copy = _file(backup, load_site(backup)) if backup.is_dir() else backup
        if not site.database.startswith("sqlite:") or not copy.exists():
            return Restored(files)
        return _put_back_database(copy, _file(folder, site), site, folder, files)


def _put_back_files(backup: Path, folder: Path) -> list[str]:
    missing = []
    for name, data in _files(backup, load_site(backup)).items():
        target = folder / name
        if not target.exists():
            for parent in reversed(target.relative_to(folder).parents):
                make_folder(folder / parent, PRIVATE)
            if not name.endswith("/"):
                write_whole(target, data, PRIVATE)
            missing.append(name)
    return sorted(missing)


def _put_back_database(
    copy: Path, live: Path, site: Site, folder: Path, files: list[str]
) -> Restored:
    with tempfile.TemporaryDirectory(dir=live.parent, prefix=".restore-") as place:
        ours = Path(place) / "copy.db"
        copy_database(copy, ours)
        migrate(ours)
        _forget_again(ours, site, folder)
        aside = None
        if live.exists():
            if not _is_damaged(site, folder):
                return Restored(files, bring_back(ours, live))
            aside = set_aside(live)
        ours.replace(live)
    return Restored(files, None, aside)


def _forget_again(copy: Path, site: Site, folder: Path) -> None:
    """Delete from a copy what was deleted from the site since it was made."""
    with closing(open_store(f"sqlite:{copy.name}", copy.parent, site.key)) as store:
        for name, client in load_clients(folder).clients.items():
            if client.forgotten is not None:
                store.forget_device(name, client.forgotten)
    migrate(copy)  # one file again


def _is_damaged(site: Site, folder: Path) -> bool:
    try:
        return "damaged" in check_database(site.database, folder)
    except StoreError:
        return True


def _files(folder: Path, site: Site) -> dict[str, bytes]:
    """Return the content of every file of a site but its database, and its empty folders."""
    database = _file(folder, site).name if _has_file(folder, site) else "fusion.db"
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        passing = path.name in _LEFT_OUT or path.name.startswith((database, ".restore-"))
        if path.is_symlink() or passing or path.suffix == ".part":
            continue
        if path.is_dir():
            found[f"{name}/"] = b""
        elif path.is_file():
            found[name] = read_bytes(path)
    return found


def _file(folder: Path, site: Site) -> Path:
    return SiteFiles(folder).database_file(site)


def _has_file(folder: Path, site: Site) -> bool:
    return site.database.startswith("sqlite:") and _file(folder, site).exists()


# --- Copies of a SQLite database -----------------------------------------------------------
# A copy is whole or is not there. What is brought back is added in one transaction; what has come
# since the copy was made stays.


_OLDER = {
    "messages": "round >= coalesce((SELECT round FROM main.floors AS own"
    " WHERE own.site = old.site), 0)",
    "decisions": "round >= coalesce((SELECT round FROM main.floors AS own"
    " WHERE own.site = old.site), 0)",
    "clients": "true",
    "floors": "true",
}
_KNOWN = """
UPDATE main.clients SET (spent, boot, seq) = (
    SELECT max(clients.spent, old.spent), max(clients.boot, old.boot),
        CASE WHEN old.boot > clients.boot THEN old.seq ELSE clients.seq END
    FROM copy.clients AS old WHERE old.site = clients.site AND old.client = clients.client)
WHERE (site, client) IN (SELECT site, client FROM copy.clients)
"""


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of a database that may be in use to a new file.

    Raises InputError: nothing is left of the copy then.
    """
    draft = target.with_name(f".{target.name}.part")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        place = f"{source.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(place, uri=True)) as old,
            closing(sqlite3.connect(draft)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            ((seen,),) = new.execute("PRAGMA quick_check(1)").fetchall()
        if seen != "ok":
            raise sqlite3.DatabaseError(seen)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(target)
    except (sqlite3.Error, OSError) as error:
        draft.unlink(missing_ok=True)
        raise InputError(f"{source}: cannot be copied ({error}).") from None


def set_aside(file: Path) -> Path:
    """Rename a database with what belongs to it, and return its new name."""
    aside = file.with_name(f"{file.name}.damaged-{int(time.time())}")
    for suffix in ("-wal", "-shm", ""):
        if (part := beside(file, suffix)).exists():
            part.rename(beside(aside, suffix))
    return aside


def bring_back(copy: Path, live: Path) -> dict[str, int]:
    """Add to a database what a copy has and it lacks; return how many rows that were, by table.

    Rounds that were forgotten since stay so. ``copy``: of this version.
    """
    counts: dict[str, int] = {}
    with closing(SqliteConnection(live)) as base:
        base.make_tables()
        base.query("ATTACH DATABASE ? AS copy", (f"{copy.absolute().as_uri()}?mode=ro",))
        with base.transaction():
            for table, wanted in _OLDER.items():
                counts[table] = base.change(
                    f"INSERT OR IGNORE INTO main.{table}"
                    f" SELECT * FROM copy.{table} AS old WHERE {wanted}"
                )
            base.change(_KNOWN)
            base.change("DELETE FROM alarms WHERE kind = 'replaced'")
    return counts


def migrate(file: Path) -> None:
    """Bring a copy to this version, as one file."""
    with closing(SqliteConnection(file)) as base:
        base.make_tables()
        base.query("PRAGMA journal_mode = DELETE")
