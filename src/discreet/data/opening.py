"""Whether a table is read whole or streamed, by how much memory that takes.

The rule looks at the files' own account of their rows and at nothing of the machine, so that the
same command reads in the same way anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discreet.data.spooling import stream_text
from discreet.data.tables import Frame, Stream, Table, can_stream, open_stream, read_tables
from discreet.errors import InputError

DEFAULT_MEMORY = 4 << 30
"""Tables that would take more bytes than this are streamed."""
CELL_BYTES = 24
"""What a cell takes while it is learned from in memory: the reading, its code, and copies."""
LIBRARY_BYTES = 360 << 20
"""What a process takes that learns from hardly anything."""
_COLUMN_BYTES = 8 << 20  # the sample's readings and codes, copies of them, and a reader's own
_ROW_BYTES = 8  # classes, group and side of the split


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
        _check_floor(files, memory, LIBRARY_BYTES)
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
    if memory is not None:
        _check_floor(files, memory, memory_streamed(stream))
    return stream


def _check_floor(files: Sequence[Path], memory: int, least: int) -> None:
    if memory < least:
        raise InputError(
            f"--memory allows {max(memory >> 20, 1)} MiB; the libraries alone take about "
            f"{LIBRARY_BYTES >> 20}, and learning from {files[0]}"
            f"{' and the other files' if len(files) > 1 else ''}, however slowly, at least "
            f"{-(-least >> 20)} MiB. Allow that, or name fewer sensors."
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
