"""Whether a table is read whole or streamed, by how much memory that takes.

The rule looks at the files' own account of their rows and at nothing of the machine, so that the
same command reads in the same way anywhere.

Text beyond memory is copied once, some rows at a time, into Parquet that can be streamed: text
tells the kind of a column only at its last row, and each column is gone over by itself. So the text
is read twice, for the kinds and for the copy. The copy has no name and is gone when the work ends,
however it ends; where the system cannot do without a name, it is gone at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
_COLUMN_BYTES = 8 << 20  # the sample's readings and codes, copies of them, and a reader's own
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
    needed = memory_needed(files) if all(file.is_file() for file in files) else 0
    allowed = DEFAULT_MEMORY if in_memory is None else in_memory
    if memory is not None:
        if memory < LIBRARY_BYTES:
            whole = LIBRARY_BYTES + max(needed, 1 << 20)
            streamed = memory_streamed(open_stream(files)) if can_stream(files) else whole
            raise _too_little(files, memory, min(whole, streamed))
        allowed = memory - LIBRARY_BYTES
    if needed <= allowed:
        return Frame(read_tables(files))
    if can_stream(files):
        stream = open_stream(files)
    elif not any(file.name.lower().endswith((".parquet", ".xlsx")) for file in files):
        stream = stream_text(files, work_dir)
    elif memory is not None:
        raise InputError(
            f"{files[0]}: learning from it takes about {needed >> 20} MiB, and text beside Parquet "
            "cannot be streamed. Give one kind of file, or allow more with --memory."
        )
    else:
        return Frame(read_tables(files))
    if memory is not None and memory < (least := memory_streamed(stream)):
        raise _too_little(files, memory, least)
    return stream


def _too_little(files: Sequence[Path], memory: int, enough: int) -> InputError:
    return InputError(
        f"--memory allows {max(memory >> 20, 1)} MiB; the libraries alone take about "
        f"{LIBRARY_BYTES >> 20}, and {-(-enough >> 20)} MiB are enough to learn from {files[0]}"
        f"{' and the other files' if len(files) > 1 else ''}. Allow that, or name fewer sensors."
    )


def memory_needed(files: Sequence[Path]) -> int:
    """Return about how many bytes it takes to learn from the files in memory.

    Of Parquet files the number of cells is known; of text, a cell has about four characters.
    """
    if can_stream(files):
        stream = open_stream(files)
        return stream.rows * len(stream.kinds) * CELL_BYTES
    size = 0
    for file in files:
        packed = 5 if file.name.lower().endswith(".gz") else 1
        size += packed * (file.stat().st_size if file.is_file() else 0)
    return size // 4 * CELL_BYTES


def memory_streamed(stream: Stream) -> int:
    """Return how many bytes it takes to learn from a stream, however small the batches.

    The libraries, what is kept of each column, and classes and split of each row; as
    ``research.benchmarks.streamed_learn`` has measured them.
    """
    return LIBRARY_BYTES + len(stream.kinds) * _COLUMN_BYTES + stream.rows * _ROW_BYTES


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
