"""Text tables beyond memory: copied once, some rows at a time, into Parquet that can be streamed.

Text tells the kind of a column only at its last row, and each column is gone over by itself: so
the text is read twice, for the kinds and for the copy. The copy has no name and is gone when the
work ends, however it ends; where the system cannot do without a name, it is gone at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pandas as pd

from discreet.data.tables import Stream, check_columns, check_file, check_rows, open_stream
from discreet.data.text_files import check_text, read_text_batches
from discreet.errors import InputError

_OWN_FILES = Path("/proc/self/fd")
_DTYPES = {"whole": "int64", "number": "float64", "boolean": "boolean", "text": "str"}


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
