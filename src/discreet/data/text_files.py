"""Tables in text: CSV and TSV, plain or gzipped, checked before pandas sees them."""

from __future__ import annotations

import csv
import gzip
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pandas as pd

from discreet.data.checks import check_names
from discreet.errors import InputError

# From 3.1 on, pandas reads floats to the last bit of itself and frowns on being asked to.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT_FLOATS: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


MAX_LINE = 1 << 24
"""Most characters of a line."""
MOST_EXPANDED = 100
"""How many times its size a gzip file may expand to, once that is ``ALWAYS_EXPANDED``."""
ALWAYS_EXPANDED = 1 << 28


def read_text_table(file: Path) -> pd.DataFrame:
    """Read a CSV or TSV file whole.

    Raises InputError: if it is no such table, with the reason.
    """
    separator = _separator(file)
    with _explained_text(file):
        # pandas renames doubled columns, fills short lines and may take the first column for
        # an index, all in silence; so the shape is checked before it sees the file.
        with _open_text(file) as stream:
            _check_shape(file, stream, separator)
        with _open_text(file) as stream, warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table: pd.DataFrame = pd.read_csv(
                stream, sep=separator, index_col=False, low_memory=False, **_EXACT_FLOATS
            )
    return table


@contextmanager
def _explained_text(file: Path) -> Iterator[None]:
    """Turn whatever reading text can raise into one InputError."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: byte {error.object[error.start]:#04x} is not UTF-8 text. "
            "Save the table as UTF-8."
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{file}: damaged gzip file ({error}). Compress it again.") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error}).") from None
    except MemoryError:
        raise InputError(
            f"{file}: does not fit in memory. Give a part of it, or a machine with more memory."
        ) from None
    except (csv.Error, pd.errors.ParserWarning, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: not a readable table ({reason}). Fix the file.") from None


def _separator(file: Path) -> str:
    return "\t" if file.name.lower().endswith((".tsv", ".tsv.gz")) else ","


def _open_text(file: Path) -> IO[str]:
    # utf-8-sig also takes the mark that spreadsheets put in front.
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _check_shape(file: Path, stream: IO[str], separator: str) -> None:
    lines = csv.reader(_bounded_lines(file, stream), delimiter=separator)
    header = next((line for line in lines if line), None)
    if header is None:
        raise InputError(f"{file}: is empty. Give a table with a header line and rows.")
    if len(header) == 1 and (other := next((c for c in ";\t," if c in header[0]), None)):
        raise InputError(
            f"{file}: the columns seem to be separated by {other!r}, not {separator!r}. "
            "Save it with commas as .csv or with tabs as .tsv."
        )
    check_names(header, str(file))
    for line in lines:
        if line and len(line) != len(header):
            raise InputError(
                f"{file}: line {lines.line_num} has {len(line)} values; the header has "
                f"{len(header)} columns. Fix the line."
            )


def _bounded_lines(file: Path, stream: IO[str]) -> Iterator[str]:
    """Yield the lines; a small file that expands to a huge line or text is refused in time."""
    zipped = file.name.lower().endswith(".gz")
    most = max(ALWAYS_EXPANDED, MOST_EXPANDED * file.stat().st_size) if zipped else None
    number = seen = 0
    while line := stream.readline(MAX_LINE + 1):
        number, seen = number + 1, seen + len(line)
        if len(line) > MAX_LINE:
            raise InputError(
                f"{file}: line {number} has more than {MAX_LINE} characters. Is it a table? "
                "Write one line for each row."
            )
        if most is not None and seen > most:
            raise InputError(
                f"{file}: expands to more than {most >> 20} MiB, {MOST_EXPANDED} times its size. "
                "If that is right, expand it first and give the .csv or .tsv."
            )
        yield line
