"""Whether a table is read whole or streamed, by how much memory that takes.

The rule looks at the files' own account of their rows and at nothing of the machine, so that the
same command reads in the same way anywhere.

Text beyond memory is copied once, some rows at a time, into Parquet that can be streamed: text
tells the kind of a column only at its last row, and each column is gone over by itself. So the text
is read twice, for the kinds and for the copy. The copy has no name and is gone when the work ends,
however it ends; where the system cannot do without a name, it is gone at the end.
"""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pandas as pd

from discreet.data.tables import (
    Frame,
    Stream,
    Table,
    can_stream,
    check_columns,
    check_file,
    check_rows,
    open_stream,
    read_tables,
)
from discreet.data.text_files import check_text, read_text_batches
from discreet.errors import InputError

DEFAULT_MEMORY = 4 << 30
"""Tables that would take more bytes than this are streamed."""
CELL_BYTES = 24
"""What a cell takes while it is learned from in memory: the reading, its code, and copies."""
LIBRARY_BYTES = 360 << 20
"""What a process takes that learns from hardly anything."""
_SAMPLED_ROWS = 100_000  # that are kept as rows, of any table
_SAMPLED_BYTES = 16  # more for each of their cells: codes of those that are left out, and of others
_LOOKED_AT_BYTES = 18 << 10  # of a row that is left out: chances of 1,024 outputs, and a copy
_LOOKED_AT_SHARE, _LOOKED_AT_ROWS = 3, 20_000  # one in so many rows, and so many at most
_LOOKED_AT_ANYWAY = 80 << 20  # of these bytes, in ``LIBRARY_BYTES``
_COLUMN_BYTES = 8 << 20  # the sample's readings and codes, copies of them, and a reader's own
_BEGIN, _LEAST_LINES = 1 << 18, 4  # bytes of a text that tell how long its lines are
_ROW_BYTES = 8  # classes, group and side of the split
_OWN_FILES = Path("/proc/self/fd")
_DTYPES = {"whole": "int64", "number": "float64", "boolean": "boolean", "text": "str"}


def open_table(
    files: Sequence[Path],
    memory: int | None = None,
    work_dir: Path | None = None,
    *,
    in_memory: int | None = None,
) -> Table:
    """Return the files as one table: in memory, or one to be streamed if it is too large for that.

    ``memory``: bytes that the process may take; None stands for ``in_memory`` (4 GiB) for the
    table, and for as much as it takes where it cannot be streamed. ``work_dir``: where a text table
    that is streamed is copied to. Raises InputError: if that is less than it takes at the least.
    """
    size = _size(files) if all(file.is_file() for file in files) else _Size(0, 0)
    needed, whole = size.cells * CELL_BYTES, memory_whole(size)
    if memory is not None and memory < LIBRARY_BYTES:
        streamed = memory_streamed(open_stream(files)) if can_stream(files) else whole
        raise _too_little(files, memory, min(whole, streamed))
    allowed = DEFAULT_MEMORY if in_memory is None else in_memory
    if needed <= allowed if memory is None else whole <= memory:
        return Frame(read_tables(files))
    if can_stream(files):
        stream = open_stream(files)
    elif not any(file.name.lower().endswith((".parquet", ".xlsx")) for file in files):
        stream = stream_text(files, work_dir)
    elif memory is not None:
        raise InputError(
            f"{files[0]}: learning from it takes about {whole >> 20} MiB, and text beside Parquet "
            "cannot be streamed. Give one kind of file, or allow more with --memory."
        )
    else:
        return Frame(read_tables(files))
    if memory is not None and memory < (least := memory_streamed(stream)):
        raise _too_little(files, memory, min(whole, least))
    return stream


def _too_little(files: Sequence[Path], memory: int, enough: int) -> InputError:
    return InputError(
        f"--memory allows {max(memory >> 20, 1)} MiB; the libraries alone take about "
        f"{LIBRARY_BYTES >> 20}, and {-(-enough >> 20)} MiB are enough to learn from {files[0]}"
        f"{' and the other files' if len(files) > 1 else ''}. Allow that, or name fewer sensors."
    )


@dataclass(frozen=True)
class _Size:
    """How large a table is, about."""

    rows: int
    columns: int

    @property
    def cells(self) -> int:
        return self.rows * self.columns


def memory_needed(files: Sequence[Path]) -> int:
    """Return about how many bytes a table takes in memory while it is learned from."""
    return _size(files).cells * CELL_BYTES


def memory_whole(size: _Size) -> int:
    """Return about how many bytes it takes to learn from a table that is read whole."""
    sampled = min(size.rows, _SAMPLED_ROWS) * size.columns * _SAMPLED_BYTES
    table = max(size.cells * CELL_BYTES, 1 << 20)
    return LIBRARY_BYTES + table + sampled + _looked_at(size.rows)


def memory_streamed(stream: Stream) -> int:
    """Return how many bytes it takes to learn from a stream, however small the batches.

    The libraries, what is kept of each column, classes and split of each row, and what is looked at
    of rows that are left out; as ``research.benchmarks.streamed_learn`` has measured them.
    """
    columns = len(stream.kinds) * _COLUMN_BYTES
    return LIBRARY_BYTES + columns + stream.rows * _ROW_BYTES + _looked_at(stream.rows)


def _looked_at(rows: int) -> int:
    """Return how many bytes more are taken by what rows that are left out show."""
    taken = min(rows // _LOOKED_AT_SHARE, _LOOKED_AT_ROWS) * _LOOKED_AT_BYTES
    return max(taken - _LOOKED_AT_ANYWAY, 0)


def _size(files: Sequence[Path]) -> _Size:
    """Return how large a table is: by the files' account, or about, by how texts begin."""
    if can_stream(files):
        stream = open_stream(files)
        return _Size(stream.rows, len(stream.kinds))
    sizes = [_size_of_text(file) for file in files]
    return _Size(sum(size.rows for size in sizes), max(size.columns for size in sizes))


def _size_of_text(file: Path) -> _Size:
    """Return about how large a table is; where lines do not tell, a cell has four characters."""
    zipped = file.name.lower().endswith(".gz")
    size = file.stat().st_size * (5 if zipped else 1)
    try:
        with gzip.open(file) if zipped else file.open("rb") as stream:
            begin = stream.read(_BEGIN)
    except (OSError, EOFError, zlib.error):  # is refused where it is read
        begin = b""
    lines = begin.splitlines()
    if len(lines) < _LEAST_LINES or file.name.lower().endswith((".parquet", ".xlsx")):
        return _Size(size // 4, 1)
    columns = 1 + max(lines[0].count(mark) for mark in (b",", b";", b"\t", b"|"))
    return _Size(size * len(lines) // len(begin), columns)


# --- Text, copied into Parquet --------------------------------------------------------------


def stream_text(files: Sequence[Path], folder: Path | None = None) -> Stream:
    """Return CSV and TSV files as one table to be streamed.

    ``folder``: where the copy lies; the system's place for such files by default. Raises
    InputError: as reading whole files does, and if there is no room.
    """
    kinds = _find_kinds(files)
    try:
        copy = _unnamed(folder)
        _write(files, kinds, copy)
    except OSError as error:
        where = "--work-dir" if folder is None else f"--work-dir {folder}"
        raise InputError(
            f"{where}: cannot hold a copy of the table ({error.strerror or error}). Make room, or "
            "name another."
        ) from None
    path = _OWN_FILES / str(copy.fileno()) if _OWN_FILES.is_dir() else Path(copy.name)
    return replace(open_stream([path]), held=_Held(copy))


class _Held:
    """A file that is open as long as somebody holds this."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __del__(self) -> None:
        self._file.close()


def _unnamed(folder: Path | None) -> IO[bytes]:
    if _OWN_FILES.is_dir():
        return tempfile.TemporaryFile(dir=folder)
    return tempfile.NamedTemporaryFile(dir=folder, suffix=".parquet")


def _find_kinds(files: Sequence[Path]) -> dict[str, str]:
    """Return what every column holds, by all of its rows."""
    seen: dict[str, set[str]] = {}
    for file in files:
        check_file(file)
        check_text(file)
        rows = 0
        for batch in read_text_batches(file):
            rows += len(batch)
            names = [str(name) for name in batch.columns]
            seen = seen or {name: set() for name in names}
            check_columns(file, names, files[0], list(seen))
            for name, column in zip(names, batch.items(), strict=True):
                seen[name].add(_kind(column[1]))
        check_rows(file, rows)
    return {name: _common(kinds - {"gaps"}) for name, kinds in seen.items()}


def _kind(column: pd.Series[Any]) -> str:
    types, present = pd.api.types, column[column.notna()]
    if not len(present):
        return "gaps"
    if types.is_bool_dtype(column.dtype) or all(isinstance(each, bool) for each in present):
        return "boolean"
    if types.is_integer_dtype(column.dtype):
        return "whole"
    return "number" if types.is_float_dtype(column.dtype) else "text"


def _common(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return kinds.pop()
    return "number" if kinds <= {"whole", "number"} else "text"


def _write(files: Sequence[Path], kinds: dict[str, str], copy: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    writer = None
    for batch in _batches(files, kinds):
        rows = pa.Table.from_pandas(batch, preserve_index=False).replace_schema_metadata(None)
        writer = writer or parquet.ParquetWriter(copy, rows.schema)
        writer.write_table(rows)
    assert writer is not None  # files without rows are refused before
    writer.close()
    copy.flush()


def _batches(files: Sequence[Path], kinds: dict[str, str]) -> Iterator[pd.DataFrame]:
    dtypes = {name: _DTYPES[kind] for name, kind in kinds.items()}
    for file in files:
        for batch in read_text_batches(file, dtypes):
            yield batch[list(kinds)]
