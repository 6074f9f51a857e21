"""Which kind of log something is, by its address or its first bytes."""

from __future__ import annotations

import zlib
from gzip import BadGzipFile
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from discreet.data.tables import STANDARD_INPUT, check_file, read_standard_input
from discreet.errors import InputError
from discreet.importing.databases import MAGIC, SERVERS, read_database
from discreet.importing.events import Events, Tell
from discreet.importing.text_logs import open_plain, read_csv_log, read_json_list, read_json_log


def read_log(
    source: str,
    zone: str,
    tell: Tell | None = None,
    *,
    statistics: bool = False,
    time: str | None = None,
    item: str | None = None,
    value: str | None = None,
) -> Events:
    """Read a log of any kind; see the readers for the options. ``tell``: as of ``EventList``.

    Raises InputError: if it cannot be read, with the reason.
    """
    if "://" in source:
        if urlsplit(source).scheme not in SERVERS:
            raise InputError(
                f"a log at {urlsplit(source).scheme}:// cannot be read. Use "
                "postgresql:// or mysql://, or a file."
            )
        return read_database(source, zone, tell, statistics=statistics)
    file = read_standard_input() if source == STANDARD_INPUT else Path(source)
    check_file(file)
    try:
        return _read_file(file, zone, tell, statistics, (time, item, value))
    except (EOFError, BadGzipFile, zlib.error) as error:
        raise InputError(f"{file}: damaged gzip file ({error}). Compress it again.") from None


def _read_file(
    file: Path,
    zone: str,
    tell: Tell | None,
    statistics: bool,
    columns: tuple[str | None, str | None, str | None],
) -> Events:
    with open_plain(file) as stream:
        begin = stream.read(1024)
    if begin.startswith(MAGIC):
        return read_database(str(file), zone, tell, statistics=statistics)
    if begin.lstrip().startswith(b"{"):
        return read_json_log(file, zone, tell)
    if begin.lstrip().startswith(b"["):
        return read_json_list(file, zone, tell)
    return read_csv_log(file, zone, tell, *columns)


def check_zone(zone: str) -> None:
    """Refuse a time zone that there is not."""
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise InputError(
            f"--timezone must be a time zone such as Europe/Berlin or UTC, got {zone!r}."
        ) from None
