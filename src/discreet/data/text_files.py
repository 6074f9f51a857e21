"""Tables in text: CSV and TSV, plain or gzipped, checked before pandas sees them.

Spreadsheets write text in several ways. What separates columns, the encoding and the decimal sign
are found by looking (``text_form``), so that every command reads the same file alike.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from discreet.data.columns import check_names
from discreet.errors import InputError

# From 3.1 on, pandas reads floats to the last bit of itself and frowns on being asked to.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT_FLOATS: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


MAX_LINE = 1 << 24
"""Most characters of a line."""
MOST_EXPANDED = 100
"""How many times its size a gzip file may expand to, once that is ``ALWAYS_EXPANDED``."""
ALWAYS_EXPANDED = 1 << 28
SEPARATORS = ",;\t|"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NOT_UTF8 = "cp1252"  # what spreadsheets write where they do not write UTF-8
_LOOKED_AT = 50  # lines that tell the separator and the decimal sign
_BLOCK = 1 << 20
_WITH_COMMA = re.compile(r"\s*[+-]?\d+(,\d+)?\s*", re.ASCII)
_WITH_POINT = re.compile(r"\s*[+-]?\d+\.\d+\s*", re.ASCII)


@dataclass(frozen=True)
class TextForm:
    """How a table is written: its encoding, what separates columns, and the decimal sign."""

    encoding: str
    separator: str
    decimal: str


def text_form(file: Path) -> TextForm:
    """Look how a table is written; comma or tab, by its suffix, where that cannot be seen."""
    with _explained_text(file):
        found = file.stat()
        return _text_form(file, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _text_form(file: Path, _written: int, _size: int) -> TextForm:
    encoding = _encoding(file)
    with _open_text(file, encoding) as stream:
        lines = [line for line in islice(_Lines(file, stream), _LOOKED_AT) if line.strip()]
    separator = _separator(file, lines)
    decimal = "," if separator != "," and _has_decimal_commas(lines, separator) else "."
    return TextForm(encoding, separator, decimal)


def _encoding(file: Path) -> str:
    zipped = file.name.lower().endswith(".gz")
    with gzip.open(file, "rb") if zipped else file.open("rb") as stream:
        most = _most_expanded(file)
        decoder = codecs.getincrementaldecoder("utf-8")()
        first = seen = 0
        while block := stream.read(_BLOCK):
            if not first and (found := _MARKS.get(block[:2]) or _unmarked(block)):
                return found
            first, seen = 1, seen + len(block)
            if most is not None and seen > most:
                break  # refused where its lines are read
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                return "utf-8" if b"\0" in block else _NOT_UTF8  # refused if it is no text at all
    return "utf-8-sig"  # which also takes the mark that spreadsheets put in front


def _unmarked(block: bytes) -> str | None:
    """Return which UTF-16 text without a mark is: of most characters one byte is zero."""
    for name, zeros, others in (
        ("utf-16-le", block[1::2], block[::2]),
        ("utf-16-be", block[::2], block[1::2]),
    ):
        # The other byte is zero in few characters, such as an A with a bar.
        if zeros.count(0) > len(zeros) / 2 and others.count(0) < len(others) / 4:
            return name
    return None


def _separator(file: Path, lines: list[str]) -> str:
    """Return what cuts all lines into the same number of columns, the most of them."""
    usual = "\t" if file.name.lower().endswith((".tsv", ".tsv.gz")) else ","
    counts = {each: [len(row) for row in csv.reader(lines, delimiter=each)] for each in SEPARATORS}
    even = {each: found[0] for each, found in counts.items() if found and len(set(found)) == 1}
    best = max(even, key=lambda each: (even[each], each == usual), default=usual)
    return best if even.get(best, 1) > 1 else usual


def _has_decimal_commas(lines: list[str], separator: str) -> bool:
    """Whether a column holds nothing but numbers, some with a comma, and none has a point."""
    rows = list(csv.reader(lines[1:], delimiter=separator))
    if any(_WITH_POINT.fullmatch(cell) for row in rows for cell in row):
        return False
    columns = [[cell for cell in column if cell.strip()] for column in zip(*rows, strict=False)]
    return any(
        any("," in cell for cell in column) and all(map(_WITH_COMMA.fullmatch, column))
        for column in columns
    )


def read_text_table(file: Path) -> pd.DataFrame:
    """Read a CSV or TSV file whole.

    Raises InputError: if it is no such table, with the reason.
    """
    check_text(file)
    (table,) = read_text_batches(file, rows=None)
    return table


def check_text(file: Path) -> None:
    """Refuse a file whose lines are not all of one length.

    pandas renames doubled columns, fills short lines and may take the first column for an index,
    all in silence; so the shape is checked before it sees the file.
    """
    form = text_form(file)
    with _explained_text(file), _open_text(file, form.encoding) as stream:
        _check_shape(file, stream, form.separator)


def read_text_batches(
    file: Path, dtypes: dict[str, str] | None = None, rows: int | None = 1 << 16
) -> Iterator[pd.DataFrame]:
    """Read a file that ``check_text`` has passed some rows at a time, or whole.

    ``dtypes``: how to read each column; by default as its values in these rows suggest.
    """
    form = text_form(file)
    options: dict[str, Any] = {"sep": form.separator, "decimal": form.decimal, "dtype": dtypes}
    options |= _EXACT_FLOATS
    with _explained_text(file), _open_text(file, form.encoding) as stream:
        with _no_guesses():
            found: Any = pd.read_csv(
                stream, index_col=False, low_memory=False, chunksize=rows, **options
            )
        batches = iter([found]) if isinstance(found, pd.DataFrame) else found
        while True:
            with _no_guesses():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


@contextmanager
def _no_guesses() -> Iterator[None]:
    """Refuse what pandas would only warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


@contextmanager
def _explained_text(file: Path) -> Iterator[None]:
    """Turn whatever reading text can raise into one InputError."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: byte {error.object[error.start]:#04x} is not UTF-8 text, nor what "
            "spreadsheets write. Save the table as UTF-8."
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


def _open_text(file: Path, encoding: str) -> IO[str]:
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rt", encoding=encoding, newline="")
    return file.open(encoding=encoding, newline="")


def _most_expanded(file: Path) -> int | None:
    """Return how many bytes a gzip file may expand to; None for any other."""
    zipped = file.name.lower().endswith(".gz")
    return max(ALWAYS_EXPANDED, MOST_EXPANDED * file.stat().st_size) if zipped else None


def _check_shape(file: Path, stream: IO[str], separator: str) -> None:
    text = _Lines(file, stream)
    lines = csv.reader(text, delimiter=separator)
    header = next((line for line in lines if line), None)
    if header is None:
        raise InputError(f"{file}: is empty. Give a table with a header line and rows.")
    check_names(header, str(file))
    for number, count in _counts(text, lines, separator):
        if count != len(header):
            raise InputError(
                f"{file}: line {number} has {count} values; the header has {len(header)} columns. "
                "Fix the line."
            )


def _counts(text: _Lines, parsed: Any, separator: str) -> Iterator[tuple[int, int]]:
    """Yield line numbers and how many values there are; blank lines have none.

    Values are counted by what is between them, as long as nothing is quoted.
    """
    for line in text:
        if '"' in line or len(line) > csv.field_size_limit():
            text.put_back(line)
            break
        if line.rstrip("\r\n"):
            yield text.number, line.count(separator) + 1
    for values in parsed:
        if values:
            yield text.number, len(values)


class _Lines:
    """The lines of a file; one that expands to a huge line or text is refused in time.

    ``number``: that of the last line, from 1.
    """

    def __init__(self, file: Path, stream: IO[str]) -> None:
        self.file, self._stream, self.number, self._seen = file, stream, 0, 0
        self._most = _most_expanded(file)
        self._again: str | None = None

    def __iter__(self) -> _Lines:
        return self

    def put_back(self, line: str) -> None:
        """Let the last line be the next one again."""
        self._again = line
        self.number -= 1

    def __next__(self) -> str:
        self.number += 1
        if self._again is not None:
            line, self._again = self._again, None
            return line
        line = self._stream.readline(MAX_LINE + 1)
        if not line:
            raise StopIteration
        self._check(line)
        return line

    def _check(self, line: str) -> None:
        self._seen += len(line)
        if len(line) > MAX_LINE:
            raise InputError(
                f"{self.file}: line {self.number} has more than {MAX_LINE} characters. Is it a "
                "table? Write one line for each row."
            )
        if self._most is not None and self._seen > self._most:
            raise InputError(
                f"{self.file}: expands to more than {self._most >> 20} MiB, {MOST_EXPANDED} times "
                "its size. If that is right, expand it first and give the .csv or .tsv."
            )
