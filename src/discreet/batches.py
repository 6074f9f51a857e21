"""Tables too large for memory: files found, checked, and read some rows at a time (stage 1).

Only Parquet can be streamed: its schema tells the kind of every column before the first row,
and single columns can be read without the others.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from discreet.errors import InputError
from discreet.readings import check_names, read_table
from discreet.values import shown, suggest

BATCH_ROWS = 1 << 16
"""Rows read at a time."""
CELL_BYTES = 24
"""What a cell takes while it is learned from in memory: the reading, its code, and copies."""
_PAGE_BYTES = 1 << 20  # read of a file at a time, so that a huge row group does not matter


# --- Files -------------------------------------------------------------------------------------


def find_files(given: Sequence[Path]) -> list[Path]:
    """Return the files that paths and patterns such as ``day-*.parquet`` name, by name.

    The order is that of the files' names, however they were listed: rows that were held out
    can be found again if the same files are given in another order.

    Raises
    ------
    InputError
        If a pattern matches nothing, or a file is named twice.
    """
    found: list[Path] = []
    for path in given:
        text = str(path)
        if path.exists() or not glob.has_magic(text):
            found.append(path)
            continue
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise InputError(f"{text}: no file is called like this. Check the pattern.")
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

    Raises
    ------
    InputError
        If a file cannot be read, or has other columns than the first.
    """
    first, *rest = files
    parts = [read_table(first)]
    for file in rest:
        part = read_table(file)
        _check_columns(file, list(part.columns), first, list(parts[0].columns))
        parts.append(part[list(parts[0].columns)])
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


def _check_columns(file: Path, names: list[str], first: Path, wanted: list[str]) -> None:
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


# --- Parquet, some rows at a time ----------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """Parquet files that are one table, read batch by batch.

    Attributes
    ----------
    files : list of Path
    kinds : dict of str to str
        For every column "number", "boolean", "text", or the name of another type.
    rows : int
        How many rows there are in all, by the files' own account.
    """

    files: list[Path]
    kinds: dict[str, str]
    rows: int

    @property
    def columns(self) -> list[str]:
        return list(self.kinds)

    def batches(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the rows of some columns in their order, ``BATCH_ROWS`` or fewer at a time."""
        for file in self.files:
            with _explained(file), _parquet(file) as parquet:
                for batch in parquet.iter_batches(BATCH_ROWS, columns=list(columns)):
                    yield batch.to_pandas()[list(columns)]


def open_stream(files: Sequence[Path]) -> Stream:
    """Look at the files' schemas and make one table of them.

    Raises
    ------
    InputError
        If a file is no Parquet file, is cut short, or differs from the first in its columns.
    """
    kinds: dict[str, str] = {}
    rows = 0
    for file in files:
        with _explained(file), _parquet(file) as parquet:
            own = {field.name: _kind(field.type) for field in parquet.schema_arrow}
            check_names([field.name for field in parquet.schema_arrow], str(file))
            rows += parquet.metadata.num_rows
        kinds = kinds or own
        _check_columns(file, list(own), files[0], list(kinds))
        for name, kind in kinds.items():
            if own[name] != kind:
                raise InputError(
                    f"{file}: column {name!r} holds {own[name]}; in {files[0]} it holds {kind}. "
                    "Files of one table need columns of the same kinds."
                )
    if rows == 0:
        raise InputError(f"{files[0]}: has columns and no rows. Add rows of readings and labels.")
    return Stream(list(files), kinds, rows)


def can_stream(files: Sequence[Path]) -> bool:
    """Whether the files are of the format that can be streamed."""
    return all(file.name.lower().endswith(".parquet") for file in files)


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


def _parquet(file: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            f'{file}: reading Parquet needs pyarrow. Run: pip install "discreet[large]"'
        ) from None
    return parquet.ParquetFile(file, buffer_size=_PAGE_BYTES, pre_buffer=False)


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
    except OSError as error:
        reason = shown(error.strerror or str(error), 120)
        raise InputError(f"{file}: not a readable Parquet file ({reason}).") from None
    except Exception as error:  # pyarrow raises many kinds, all of them about this one file
        raise InputError(
            f"{file}: not a readable Parquet file ({shown(str(error), 120)}). "
            "Is it cut short? Copy or write it again."
        ) from None
