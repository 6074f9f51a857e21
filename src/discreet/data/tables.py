"""Tables: files found, checked, and read whole or some rows at a time.

Only Parquet can be read some rows at a time: its schema tells the kind of every column before
the first row, and single columns can be read without the others. Any other table is one batch.
"""

from __future__ import annotations

import atexit
import glob
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.data.columns import check_names, is_numeric, understood
from discreet.data.dependence import looked_at
from discreet.data.groups import clock_columns, with_clock
from discreet.data.roles import hint_at_import
from discreet.data.text_files import ALWAYS_EXPANDED, MOST_EXPANDED, read_text_table
from discreet.errors import InputError, shown, suggest

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".xlsx")
STANDARD_INPUT = "-"
BATCH_ROWS = 1 << 16
"""Rows read at a time, where columns are few."""
_BATCH_COLUMNS = 8  # with more of them, batches have fewer rows, so that they take no more memory
_WHOLE_CELL = 8  # bytes that a cell takes at least while a table is read whole
_PART_ROWS = 1 << 18  # of a file that are gone over together, at least
_NAMELESS_INDEX = re.compile(r"__index_level_\d+__", re.ASCII)  # as pandas stores it
_PAGE_BYTES = 1 << 16  # read of a file at a time, so that a huge row group does not matter


# --- Files -------------------------------------------------------------------------------------


def find_files(given: Sequence[Path]) -> list[Path]:
    """Return the files that paths and patterns such as ``day-*.parquet`` name, by name.

    ``-`` is standard input, which is copied to a file that lasts as long as the process.
    The order is that of the files' names, however they were listed: rows that were held out
    can be found again if the same files are given in another order.

    Raises InputError: if a pattern matches nothing, or a file is named twice.
    """
    found: list[Path] = []
    for path in given:
        text = str(path)
        if text == STANDARD_INPUT:
            found.append(read_standard_input())
            continue
        if path.exists() or not glob.has_magic(text):
            found.append(path)
            continue
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise InputError(f"{text}: no file matches this pattern. Check it.")
        found += map(Path, matches)
    if not found:
        raise InputError("no table was named. Give a file.")
    places = [os.path.realpath(file) for file in found]
    twice = next((file for file, place in zip(found, places, strict=True)
                  if places.count(place) > 1), None)  # fmt: skip
    if twice is not None:
        raise InputError(f"{twice} is named twice. Name each file once.")
    return sorted(found, key=lambda file: (file.name, str(file)))


def read_tables(files: Sequence[Path]) -> pd.DataFrame:
    """Read one table from its files, one below the other.

    Raises InputError: if a file cannot be read, or has other columns than the first.
    """
    first, *rest = files
    parts = [read_table(first)]
    for file in rest:
        part = read_table(file)
        check_columns(file, list(part.columns), first, list(parts[0].columns))
        parts.append(part[list(parts[0].columns)])
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


def check_columns(file: Path, names: list[str], first: Path, wanted: list[str]) -> None:
    """Refuse a file with other columns than the first one of a table."""
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InputError(
            f"{file}: has no column {absent[0]!r}, which {first} has. {suggest(absent[0], names)} "
            "Files of one table need the same columns."
        )
    if len(names) > len(wanted):
        extra = next(name for name in names if name not in wanted)
        raise InputError(
            f"{file}: has a column {extra!r}, which {first} has not. "
            "Files of one table need the same columns."
        )


# --- Whole files -------------------------------------------------------------------------------


def read_table(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a table from a CSV, TSV (either may be gzipped), Parquet or Excel file.

    ``path``: the suffix tells the format. Text must have a header line. Returns rows in
    the order of the file, numbered from 0. Raises InputError: if the file cannot be read as such a
    table, with the reason.
    """
    file = Path(path)
    suffix = next((each for each in SUFFIXES[::-1] if file.name.lower().endswith(each)), None)
    check_file(file)
    if suffix is None:
        raise InputError(
            f"{file}: cannot tell the format from {file.suffix or 'no suffix'!r}. "
            f"Use one of {', '.join(SUFFIXES)}.{hint_at_import(file)}"
        )
    read = {".parquet": _read_parquet, ".xlsx": _read_excel}.get(suffix, read_text_table)
    table = read(file)
    check_rows(file, len(table))
    return table.reset_index(drop=True)


def check_rows(file: Path, rows: int) -> None:
    """Refuse a table without rows."""
    if rows == 0:
        raise InputError(f"{file}: has a header and no rows. Add rows of readings and labels.")


def check_file(file: Path) -> None:
    """Refuse what is no file, or an empty one."""
    try:
        if file.is_dir():
            raise InputError(f"{file}: is a directory. Name a file inside it.")
        if file.stat().st_size == 0:
            raise InputError(f"{file}: is empty. Give a table with a header line and rows.")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file. Check the path.") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None


def _too_large(file: Path) -> InputError:
    return InputError(
        f"{file}: is too large to be held in memory. Give fewer rows, or give it to `discreet "
        "learn`, which reads some rows at a time."
    )


def _memory() -> int:
    """Return the bytes of memory that this machine has, as far as it tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def _read_parquet(file: Path) -> pd.DataFrame:
    with _explained(file), _parquet(file) as parquet:
        names = _columns(parquet.schema_arrow)
        check_names(names, str(file))
        cells = parquet.metadata.num_rows * len(names)
        if cells * _WHOLE_CELL > _memory():
            raise _too_large(file)
        try:
            return _in_pandas(parquet.read(columns=names), names)
        except MemoryError:
            raise _too_large(file) from None


def _in_pandas(rows: Any, names: list[str]) -> pd.DataFrame:
    """Return what pyarrow has read; of numbers of two bytes pandas has no order: they get four."""
    found: pd.DataFrame = rows.to_pandas(ignore_metadata=True)[names]
    narrow = [name for name in names if found[name].dtype == np.float16]
    return found.astype(dict.fromkeys(narrow, np.float32)) if narrow else found


def _read_excel(file: Path) -> pd.DataFrame:
    """Read the first sheet."""
    try:
        with zipfile.ZipFile(file) as parts:
            size = sum(part.file_size for part in parts.infolist())
        if size > max(ALWAYS_EXPANDED, MOST_EXPANDED * file.stat().st_size):
            raise _too_large(file)
        table = pd.read_excel(file, engine="openpyxl")
    except InputError:
        raise
    except ImportError:
        raise InputError(
            f'{file}: reading Excel needs openpyxl. Run: pip install "discreet[excel]", or save '
            "the sheet as CSV."
        ) from None
    except Exception as error:  # many kinds, all of them about this one file
        raise InputError(
            f"{file}: not a readable Excel file ({shown(str(error), 120)}). Save it again, or "
            "as CSV."
        ) from None
    table.columns = [str(name) for name in table.columns]
    check_names(["" if name.startswith("Unnamed: ") else name for name in table.columns], str(file))
    return table


@lru_cache(maxsize=1)
def read_standard_input() -> Path:
    """Copy standard input to a file and return it; what it begins with tells the format."""
    folder = Path(tempfile.mkdtemp(prefix="discreet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (folder / "input").open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    with (folder / "input").open("rb") as copy:
        begin = copy.read(4)
    kinds = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx", b"\x1f\x8b": ".csv.gz"}
    suffix = next((kind for mark, kind in kinds.items() if begin.startswith(mark)), ".csv")
    return (folder / "input").rename(folder / f"standard-input{suffix}")


# --- Tables in batches -------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """A table in memory: one batch. Its rows are numbered from 0."""

    frame: pd.DataFrame

    @property
    def rows(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the rows of some columns in their order; the index tells where they stand."""
        yield self.frame[list(dict.fromkeys(columns))]

    def holds_numbers(self, column: str) -> bool:
        return is_numeric(understood(self.frame[column]))


@dataclass(frozen=True)
class Stream:
    """Parquet files that are one table, read batch by batch.

    ``kinds``: for every column "number", "boolean", "text", or the name of another type. ``rows``:
    how many rows there are in all, by the files' own account. ``stamps``: when each file was
    written and how long it is, to notice if it changes. ``clock``: columns that are parts of a
    time, see ``data.groups``. ``held``: a file that lasts as long as the table does.
    """

    files: list[Path]
    kinds: dict[str, str]
    rows: int
    stamps: list[tuple[int, int]]
    clock: tuple[str, ...] = ()
    held: Any = field(default=None, compare=False)

    @property
    def columns(self) -> list[str]:
        return [*self.kinds, *self.clock]

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the rows of some columns in their order; the index tells where they stand."""
        for part in self.parts(columns):
            yield from part.batches()
        import pyarrow as pa

        pa.default_memory_pool().release_unused()  # so that later work can have it

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield some columns of the table in parts that can be read by themselves, in order."""
        names, begin = tuple(dict.fromkeys(columns)), 0
        known = clock_columns(names, list(self.kinds))
        read = tuple(dict.fromkeys(known[name][0] if name in known else name for name in names))
        for file, stamp in zip(self.files, self.stamps, strict=True):
            for groups, rows in _row_groups(file):
                yield FilePart(file, stamp, groups, begin, rows, names, read)
                begin += rows

    def holds_numbers(self, column: str) -> bool:
        return column in self.clock or self.kinds[column] == "number"


@dataclass(frozen=True)
class FilePart:
    """Some columns of neighbouring row groups of a Parquet file.

    ``begin``: the number of the first row in the whole table. ``names``: the columns; ``read``:
    those of the file that they are made from.
    """

    file: Path
    stamp: tuple[int, int]
    groups: tuple[int, ...]
    begin: int
    rows: int
    names: tuple[str, ...]
    read: tuple[str, ...]

    def batches(self) -> Iterator[pd.DataFrame]:
        """Yield the rows in their order; the index tells where they stand in the whole table."""
        seen, read = self.begin, list(self.read)
        with _explained(self.file), _parquet(self.file) as parquet:
            _check_unchanged(self.file, self.stamp)
            size = max(1, BATCH_ROWS * _BATCH_COLUMNS // max(len(read), _BATCH_COLUMNS))
            for batch in parquet.iter_batches(size, row_groups=list(self.groups), columns=read):
                found = _in_pandas(batch, read)
                found.index = pd.RangeIndex(seen, seen + len(found))
                seen += len(found)
                yield with_clock(found, self.names)[list(self.names)]
            _check_unchanged(self.file, self.stamp)


def _row_groups(file: Path) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield neighbouring row groups of a file, so many that they are worth going over together."""
    with _explained(file), _parquet(file) as parquet:
        sizes = [
            parquet.metadata.row_group(k).num_rows for k in range(parquet.metadata.num_row_groups)
        ]
    groups: list[int] = []
    for k in range(len(sizes)):
        groups.append(k)
        rows = sum(sizes[each] for each in groups)
        if rows >= _PART_ROWS or k == len(sizes) - 1:
            yield tuple(groups), rows
            groups = []


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size


def _check_unchanged(file: Path, stamp: tuple[int, int]) -> None:
    if _stamp(file) != stamp:
        raise InputError(
            f"{file}: changed while it was read; leave the files alone and start again."
        )


def open_stream(files: Sequence[Path]) -> Stream:
    """Look at the files' schemas and make one table of them.

    Raises InputError: if a file is no Parquet file, is cut short, or differs from the first in its
    columns.
    """
    kinds: dict[str, str] = {}
    rows = 0
    stamps = [_stamp(file) for file in files if file.is_file()]
    for file in files:
        with _explained(file), _parquet(file) as parquet:
            names = _columns(parquet.schema_arrow)
            check_names(names, str(file))
            own = {name: _kind(parquet.schema_arrow.field(name).type) for name in names}
            rows += parquet.metadata.num_rows
        kinds = kinds or own
        check_columns(file, list(own), files[0], list(kinds))
        for name, kind in kinds.items():
            if own[name] != kind:
                raise InputError(
                    f"{file}: column {name!r} holds {own[name]}; in {files[0]} it holds {kind}. "
                    "Files of one table need columns of the same kinds."
                )
    if rows == 0:
        raise InputError(f"{files[0]}: has columns and no rows. Add rows of readings and labels.")
    return Stream(list(files), kinds, rows, stamps)


def can_stream(files: Sequence[Path]) -> bool:
    """Whether the files are of the format that can be streamed."""
    return all(file.name.lower().endswith(".parquet") for file in files)


Table: TypeAlias = Frame | Stream


def as_table(table: pd.DataFrame | Table) -> Table:
    """Return a table whose rows are numbered from 0 and whose columns are named by text."""
    if not isinstance(table, pd.DataFrame):
        return table
    return Frame(table.set_axis([str(name) for name in table], axis=1).reset_index(drop=True))


def add_clock(table: Table, names: Iterable[str]) -> Table:
    """Return the table with those of the columns named that are parts of a time."""
    if isinstance(table, Frame):
        return replace(table, frame=with_clock(table.frame, names))
    return replace(table, clock=tuple(clock_columns(names, list(table.kinds))))


def take(table: Table, chosen: NDArray[Any], columns: Sequence[str]) -> pd.DataFrame:
    """Return the chosen rows of some columns, in memory, each with its place for an index."""
    parts = [batch[chosen[batch.index]] for batch in table.batches(columns)]
    return parts[0] if len(parts) == 1 else pd.concat(parts)


class Stretches:
    """The rows of a table whose order is looked at, kept while it is gone over for something else.

    They are the same in memory and streamed: see ``dependence.looked_at``.
    """

    def __init__(self, table: Table) -> None:
        self._columns = table.columns
        self._places = looked_at(table.rows, len(self._columns))
        self._parts: list[pd.DataFrame] = []

    def passed(self, batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Pass on all batches of a table, which have all of its columns."""
        for batch in batches:
            if len(batch):
                begin, end = batch.index[0], batch.index[-1] + 1
                here = slice(*np.searchsorted(self._places, [begin, end]))
                self._parts.append(batch[self._columns].iloc[self._places[here] - begin])
            yield batch

    def finish(self) -> pd.DataFrame:
        """Return the rows, each with its place for an index, once all batches were passed on."""
        parts, self._parts = [part for part in self._parts if len(part)], []
        return pd.concat(parts)


def read_stretches(table: Table) -> pd.DataFrame:
    """Return the rows whose order is looked at, where no other pass meets them."""
    found = Stretches(table)
    for _ in found.passed(table.batches(table.columns)):
        pass
    return found.finish()


def first_rows(table: Table, count: int) -> pd.DataFrame:
    """Return all columns of the first rows."""
    parts: list[pd.DataFrame] = []
    for batch in table.batches(table.columns):
        parts.append(batch.iloc[:count])
        if sum(map(len, parts)) >= count:
            break
    return pd.concat(parts).iloc[:count]


def _parquet(file: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            f'{file}: reading Parquet needs pyarrow. Run: pip install "discreet[parquet]"'
        ) from None
    return parquet.ParquetFile(file, buffer_size=_PAGE_BYTES, pre_buffer=False)


def _columns(schema: Any) -> list[str]:
    """Return the names of the columns; an index that pandas has stored is one if it has a name."""
    return [name for name in schema.names if not _NAMELESS_INDEX.fullmatch(name)]


def stored_index(files: Sequence[Path]) -> list[str]:
    """Return the columns of Parquet files that pandas has stored as levels of an index."""
    if not can_stream(files):
        return []
    with _explained(files[0]), _parquet(files[0]) as parquet:
        schema = parquet.schema_arrow
        levels = (schema.pandas_metadata or {}).get("index_columns", [])
        names = _columns(schema)
    return [each for each in levels if isinstance(each, str) and each in names]


def _kind(arrow_type: Any) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(arrow_type):
        return "text" if _kind(arrow_type.value_type) == "text" else f"{arrow_type}"
    if types.is_boolean(arrow_type):
        return "boolean"
    if types.is_integer(arrow_type) or types.is_floating(arrow_type):
        return "number"
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return "text"
    return str(arrow_type)


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Turn whatever reading a file can raise into one InputError."""
    try:
        if not file.exists():
            raise InputError(f"{file}: no such file. Check the path.")
        if file.is_dir():
            raise InputError(f"{file}: is a directory. Name its files: {str(file / '*.parquet')!r}")
        yield
    except InputError:
        raise
    except Exception as error:  # pyarrow raises many kinds, all of them about this one file
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{file}: cannot be read ({error.strerror}).") from None
        raise InputError(
            f"{file}: not a readable Parquet file ({shown(str(error), 120)}). "
            "Is it cut short or damaged? Copy or write it again."
        ) from None
