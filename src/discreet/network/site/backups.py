"""Backups of a site: its folder with a consistent copy of its database, made while it runs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from discreet.errors import InputError
from discreet.files import (
    PRIVATE,
    check_folder,
    make_folder,
    reason_of,
    write_tree,
    write_whole,
)
from discreet.network.site.settings import (
    Site,
    SiteFiles,
    is_inside,
    load_clients,
    load_site,
    locked,
    read_bytes,
)
from discreet.network.store import check_database, open_store
from discreet.network.store.database import SQLITE, StoreError
from discreet.network.store.sqlite import SqliteConnection, beside

_LEFT_OUT = (".lock", "mosquitto.pid")


Brought = Literal["back", "missing", "elsewhere"]


@dataclass(frozen=True)
class Restored:
    """What was brought back.

    ``files``: names that were missing. ``rows``: of the database, by table; None if it was put
    back whole. ``aside``: where a damaged database is now. ``whole``: the site was not there.
    ``database``: "missing" if the backup has none or an empty one, "elsewhere" for PostgreSQL.
    """

    files: list[str]
    rows: dict[str, int] | None = None
    aside: Path | None = None
    whole: bool = False
    database: Brought = "back"


def back_up(folder: Path, out: Path) -> bool:
    """Write a backup to a new folder, whole or not at all; return whether the database is in it.

    Raises InputError: nothing is left of the backup then.
    """
    site = load_site(folder)
    check_folder(out, "")
    _check_apart(out, folder, "site")
    with _unchanged(folder):  # no device is enrolled in the middle
        files = _files(folder, site)
    database = _file(folder, site) if _has_file(folder, site) else None
    _write_site(out, files, site, database)
    return database is not None


def _check_apart(out: Path, folder: Path, what: str) -> None:
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(folder)):
        raise InputError(f"{out} is inside of the {what} {folder}. Name a place outside of it.")


def _unchanged(folder: Path) -> AbstractContextManager[None]:
    """Have no other command change a site; on a read-only disk none can."""
    return nullcontext() if _is_read_only(folder) else locked(folder)


def _is_read_only(folder: Path) -> bool:
    """Whether the disk of a folder is mounted so that nobody can write to it."""
    return os.name == "posix" and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _write_site(out: Path, files: dict[str, bytes], site: Site, database: Path | None) -> None:
    """Write a copy of a site, whole or not at all."""
    with _drafted(out) as draft:
        write_tree(draft, files, PRIVATE)
        if database is not None:
            copy_database(database, _file(draft, site))


@contextmanager
def _drafted(out: Path) -> Iterator[Path]:
    """Have a folder be written beside its place; nothing stays of it if that fails."""
    place = out.absolute()
    draft = place.with_name(f".{place.name}.part")
    shutil.rmtree(draft, ignore_errors=True)  # of one that was killed
    try:
        yield draft
        _finish(draft, place)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({reason_of(error)}).") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _finish(draft: Path, out: Path) -> None:
    if out.exists():
        out.rmdir()  # it is empty
    draft.rename(out)


def restore(backup: Path, folder: Path) -> Restored:
    """Bring back what a site lacks and a backup has; what is newer stays.

    ``backup``: a folder that ``back_up`` wrote, or one file: a copy of the database. Running it
    again, after it was killed or the disk was full, finishes the work.

    Raises InputError: if the backup is damaged or of another site, nothing has changed then; or if
    something cannot be written.
    """
    if not backup.exists():
        raise InputError(f"{backup}: no such backup. Check the path.")
    if not backup.is_dir() and not backup.is_file():
        raise InputError(f"{backup}: is no backup, neither a folder nor a file. Name another.")
    if not folder.exists():
        return _make_again(backup, folder)
    with locked(folder):
        try:
            return _put_back(backup, folder)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({reason_of(error)}).") from None


def _make_again(backup: Path, folder: Path) -> Restored:
    """Make a site that is not there from a backup."""
    if not backup.is_dir():
        raise InputError(f"{folder}: there is no site, and {backup} is no backup of a whole one.")
    site = load_site(backup)
    check_folder(folder)
    _check_apart(folder, backup, "backup")
    database = _saved_database(backup, site)
    files = _files(backup, site)
    if _in_sqlite(site):  # has a place, even if the backup lost it
        files |= {f"{_file(backup, site).parent.relative_to(backup.absolute()).as_posix()}/": b""}
    _write_site(folder, files, site, database)
    return Restored(sorted(files), whole=True, database=_brought(site, database))


def _put_back(backup: Path, folder: Path) -> Restored:
    """Bring back what a site lacks that is there, at least in part."""
    if backup.is_dir():
        _check_same_site(backup, folder)
    there = SiteFiles(folder).settings.exists() or not backup.is_dir()
    site = load_site(folder if there else backup)
    copy = _saved_database(backup, site)
    files = _put_back_files(backup, folder) if backup.is_dir() else []
    if copy is None:
        return Restored(files, database=_brought(site, copy))
    return _put_back_database(copy, _file(folder, site), site, folder, files)


def _check_same_site(backup: Path, folder: Path) -> None:
    """Refuse to mix the files of two sites."""
    theirs, files = load_site(backup), SiteFiles(folder)
    own = load_site(folder).key if files.settings.exists() else None
    if own is not None and own != theirs.key:
        raise _of_another_site(backup, theirs.key, f"{folder} is {own}")
    keys = [each for each in (SiteFiles(backup).ca_key, files.ca_key) if each.exists()]
    if len({read_bytes(each) for each in keys}) > 1:
        raise _of_another_site(backup, theirs.key, f"{folder} has another keys/ca.key")


def _of_another_site(backup: Path, site: str, own: str) -> InputError:
    return InputError(
        f"{backup}: is of the site {site[:60]}, and {own}. Nothing was changed. Name a backup of "
        "this site, or a new folder."
    )


def _saved_database(backup: Path, site: Site) -> Path | None:
    """Return the SQLite database that a backup has for a site; None if none or an empty one.

    Raises InputError: it is damaged, or of another site.
    """
    if backup.is_dir():
        saved = load_site(backup)
        copy = _file(backup, saved) if _in_sqlite(site) and _has_file(backup, saved) else None
        return copy if copy is not None and check_copy(copy, site.key) else None
    if not _in_sqlite(site):
        raise InputError(f"{backup}: the site's database is PostgreSQL, which no file is put in.")
    if not check_copy(backup, site.key):
        raise InputError(f"{backup}: is empty, and no copy of a database. Name another.")
    return backup


def _brought(site: Site, database: Path | None) -> Brought:
    if not _in_sqlite(site):
        return "elsewhere"
    return "missing" if database is None else "back"


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
        passing = path.name in _LEFT_OUT or path.name.startswith(database)
        passing |= path.suffix == ".part" or "/.restore-" in f"/{name}"
        if path.is_symlink() or passing:
            continue
        if path.is_dir():
            found[f"{name}/"] = b""
        elif path.is_file():
            found[name] = read_bytes(path)
    return found


def _file(folder: Path, site: Site) -> Path:
    if not is_inside(site.database):
        raise InputError(
            f"{site.database}: is not inside of the site's folder, where backups have it. Move it "
            "there and write the path from the folder to it in site.json."
        )
    return SiteFiles(folder).database_file(site)


def _in_sqlite(site: Site) -> bool:
    return site.database.startswith("sqlite:")


def _has_file(folder: Path, site: Site) -> bool:
    return _in_sqlite(site) and _file(folder, site).exists()


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
        with (
            closing(_open_to_read(source)) as old,
            closing(sqlite3.connect(draft)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            _check_pages(new)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(target)
    except (sqlite3.Error, OSError) as error:
        draft.unlink(missing_ok=True)
        raise InputError(f"{source}: cannot be copied ({error}).") from None


def _open_to_read(file: Path) -> sqlite3.Connection:
    """Open a database that may be in use, or on a read-only disk."""
    # Where SQLite cannot make the files of its log, it opens only what is said not to change.
    still = _is_read_only(file.parent) and not beside(file, "-wal").exists()
    options = "mode=ro&immutable=1" if still else "mode=ro"
    return sqlite3.connect(f"{file.absolute().as_uri()}?{options}", uri=True)


def _check_pages(base: sqlite3.Connection) -> None:
    ((seen,),) = base.execute("PRAGMA quick_check(1)").fetchall()
    if seen != "ok":
        raise sqlite3.DatabaseError(seen)


def check_copy(file: Path, site: str) -> bool:
    """Return whether a copy of a database has anything of a site, or is empty.

    Raises InputError: it is damaged, or not of this site.
    """
    try:
        with closing(_open_to_read(file)) as base:
            _check_pages(base)
            columns = base.execute(SQLITE.columns).fetchall()
            tables = {name for name, column in columns if column == "site"}
            others = [name for each in sorted(tables) for name in _others(base, each, site)]
    except (sqlite3.Error, OSError) as error:
        words = " ".join(str(error).split())[:200]
        raise InputError(
            f"{file}: the backup's database is damaged ({words}). Nothing was changed. Name "
            "another backup."
        ) from None
    if others:
        raise _of_another_site(file, others[0], f"this site is {site}")
    if not tables and any(name != "schema_version" for name, _ in columns):
        raise InputError(f"{file}: is no database of a site. Nothing was changed.")
    return bool(tables)


def _others(base: sqlite3.Connection, table: str, site: str) -> list[str]:
    """Return a site that a table has rows of besides this one; by its index, so in no time."""
    quoted = '"' + table.replace('"', '""') + '"'
    found = base.execute(
        f"SELECT site FROM {quoted} WHERE site < ?"
        f" UNION ALL SELECT site FROM {quoted} WHERE site > ? LIMIT 1",
        (site, site),
    )
    return [str(name) for (name,) in found.fetchall()]


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
