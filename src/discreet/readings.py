"""Raw readings: load a table and check its columns (stage 1).

The checks here speak to somebody who typed a command: each error names the column,
what was found in it and what to do next. Row numbers count from 1 and leave the
header out.
"""

import csv
import gzip
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from discreet.errors import InputError
from discreet.values import Column, is_missing, is_numeric, plain, shown, suggest, written_column

MIN_ROWS = 20
"""Fewest rows worth learning from."""
MAX_CLASSES = 50
"""Most classes a label may have; more is nearly always a measurement or an identifier."""
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
# From 3.1 on, pandas reads floats to the last bit of itself and frowns on being asked to.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT_FLOATS: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


# --- Loading -------------------------------------------------------------------------------


def read_table(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a table from a CSV, TSV (either may be gzipped) or Parquet file.

    Parameters
    ----------
    path : path-like
        The suffix tells the format. Text must be UTF-8 with a header line.

    Returns
    -------
    DataFrame
        Rows in the order of the file, numbered from 0.

    Raises
    ------
    InputError
        If the file cannot be read as such a table, with the reason.
    """
    file = Path(path)
    suffix = next((each for each in SUFFIXES[::-1] if file.name.lower().endswith(each)), None)
    _check_file(file)
    if suffix is None:
        raise InputError(
            f"{file}: cannot tell the format from {file.suffix or 'no suffix'!r}. "
            f"Use one of {', '.join(SUFFIXES)}."
        )
    table = _read_parquet(file) if suffix == ".parquet" else _read_text(file, suffix)
    if table.empty:
        raise InputError(f"{file}: has a header and no rows. Add rows of readings and labels.")
    return table.reset_index(drop=True)


def _check_file(file: Path) -> None:
    try:
        if file.is_dir():
            raise InputError(f"{file}: is a directory. Name a file inside it.")
        if file.stat().st_size == 0:
            raise InputError(f"{file}: is empty. Give a table with a header line and rows.")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file. Check the path.") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None


def _read_text(file: Path, suffix: str) -> pd.DataFrame:
    separator = "," if suffix.startswith(".csv") else "\t"
    with _explained(file):
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
def _explained(file: Path) -> Iterator[None]:
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
    except (csv.Error, pd.errors.ParserWarning, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: not a readable table ({reason}). Mend the file.") from None


def _open_text(file: Path) -> IO[str]:
    # utf-8-sig also takes the mark that spreadsheets put in front.
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _check_shape(file: Path, stream: IO[str], separator: str) -> None:
    lines = csv.reader(stream, delimiter=separator)
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
                f"{len(header)} columns. Mend the line."
            )


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse column names that are empty or doubled.

    Raises
    ------
    InputError
        Naming the columns.
    """
    for i, name in enumerate(names, start=1):
        if not name.strip():
            raise InputError(
                f"{where}: column {i} has no name. Name it, or remove it if it holds row numbers."
            )
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise InputError(
            f"{where}: more than one column is called {' and '.join(map(repr, doubled[:5]))}. "
            "Rename all but one."
        )


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            f'{file}: reading Parquet needs pyarrow. Run: pip install "discreet[parquet]"'
        ) from None
    try:
        found = parquet.read_table(file)
        names = [str(name) for name in found.column_names]
        table: pd.DataFrame = found.to_pandas()
    except Exception as error:  # pyarrow raises many kinds, all of them about this one file
        reason = shown(str(error), 120)
        raise InputError(f"{file}: not a readable Parquet file ({reason}).") from None
    check_names(names, str(file))
    table.columns = pd.Index([str(column) for column in table.columns])
    return table


# --- Columns -------------------------------------------------------------------------------


def check_column(table: pd.DataFrame, name: str, role: str) -> None:
    """Refuse a column name that the table does not have.

    Parameters
    ----------
    table : DataFrame
    name : str
    role : str
        What the column is for, as the message should call it: "public label".

    Raises
    ------
    InputError
        With the close matches and the columns that there are.
    """
    if name not in table.columns:
        raise InputError(
            f"no column {name!r} for the {role}. {suggest(name, map(str, table.columns))}"
        )


def choose_sensors(
    table: pd.DataFrame, sensors: Sequence[str] | None, exclude: Sequence[str]
) -> list[str]:
    """Return the names of the sensor columns.

    Parameters
    ----------
    table : DataFrame
    sensors : sequence of str or None
        The columns wanted; None takes every column that is not excluded.
    exclude : sequence of str
        Columns that are no sensors: the labels, and what the user leaves out.

    Raises
    ------
    InputError
        If a name is unknown, doubled or excluded, or no sensor is left.
    """
    for name in exclude:
        check_column(table, name, "columns to leave out")
    if sensors is None:
        chosen = [str(column) for column in table.columns if column not in set(exclude)]
    else:
        chosen = list(sensors)
    for name in chosen:
        check_column(table, name, "sensors")
        if name in exclude:
            raise InputError(
                f"{name!r} is a fact, the group or left out, so it cannot be a sensor as well. "
                "Take it out of one of the two."
            )
        if chosen.count(name) > 1:
            raise InputError(f"sensor {name!r} is named twice. Name each sensor once.")
    if not chosen:
        raise InputError("no sensor columns are left. Name at least one, or exclude fewer.")
    return chosen


def check_sensors(table: pd.DataFrame, sensors: Sequence[str], *, min_rows: int = MIN_ROWS) -> None:
    """Refuse readings that nothing can be learned from.

    Raises
    ------
    InputError
        If there are too few rows, or a sensor is constant, all missing or of a kind
        that has no code.
    """
    if len(table) < min_rows:
        raise InputError(
            f"the table has {len(table)} rows; at least {min_rows} are needed. Gather more."
        )
    for name in sensors:
        check_column(table, name, "sensors")
        column = table[name]
        check_kind(column, name)
        present = column[~is_missing(column)]
        leave_out = f"Leave it out with --exclude {name!r}."
        if present.empty:
            raise InputError(f"sensor {name!r} is missing in all {len(column)} rows. {leave_out}")
        # A sensor with one value and gaps still says something by its gaps.
        if len(present) == len(column) and len(_written_classes(present)) == 1:
            raise InputError(
                f"sensor {name!r} reads {shown(present.iloc[0])} in every row, so it says nothing. "
                f"{leave_out}"
            )


def check_kind(column: Column, sensor: str) -> None:
    """Refuse a column whose values are neither numbers, text nor booleans.

    Raises
    ------
    InputError
        Naming the sensor, what it holds and what to do.
    """
    found = _unusable_kind(column)
    if found is not None:
        raise InputError(f"sensor {sensor!r} holds {found[0]}, which have no code. {found[1]}")


def _unusable_kind(column: Column) -> tuple[str, str] | None:
    dates = "Turn them into numbers or categories first, such as the hour, or leave it out."
    dtype, types = column.dtype, pd.api.types
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "dates", dates
    if types.is_timedelta64_dtype(dtype):
        return "durations", "Turn them into seconds first, or leave it out."
    if types.is_complex_dtype(dtype):
        return "complex numbers", "Give size and angle as two columns, or leave it out."
    if isinstance(dtype, pd.CategoricalDtype):
        return _unusable_kind(pd.Series(dtype.categories))
    if types.is_numeric_dtype(dtype) or isinstance(dtype, pd.StringDtype):
        return None
    odd = next((value for value in column[~is_missing(column)] if plain(value) is None), None)
    if odd is None:
        return None
    if hasattr(odd, "year") or hasattr(odd, "hour"):
        return f"dates or times like {shown(odd)}", dates
    advice = "Turn them into text or numbers first, or leave it out."
    return f"values like {shown(odd)} ({type(odd).__name__})", advice


# --- Labels --------------------------------------------------------------------------------


def check_labels(labels: Column, role: str, name: str, *, single: bool = False) -> None:
    """Refuse labels that a classifier could not learn from.

    Parameters
    ----------
    labels : Series
    role : str
        "public label" or "private label", for the message.
    name : str
        The column.
    single : bool, default=False
        Whether a class may have a single row, which cannot be both learned from and
        held out.

    Raises
    ------
    InputError
        If labels are missing, continuous, of one class only, of too many classes, or a
        class has a single row.
    """
    label = f"{role} {name!r}"
    if len(labels) == 0:
        raise InputError(f"{label} has no rows. Give a table with rows.")
    if (odd := _unusable_kind(labels)) is not None:
        raise InputError(f"{label} holds {odd[0]}. Use text, whole numbers, true or false.")
    gone = np.flatnonzero(is_missing(labels))
    if len(gone):
        first = ", ".join(str(row + 1) for row in gone[:5]) + (", ..." if len(gone) > 5 else "")
        raise InputError(
            f"{label} is missing in {len(gone)} of {len(labels)} rows (rows {first}; empty, NA and "
            "None count as missing). Label these rows or drop them."
        )
    _check_not_continuous(labels, label)
    _check_class_counts(labels, label, single)


def _check_not_continuous(labels: Column, label: str) -> None:
    if not is_numeric(labels):
        return
    values = labels.to_numpy(dtype=np.float64)
    odd = values[~(np.isfinite(values) & (np.floor(values) == values))]
    if len(odd):
        raise InputError(
            f"{label} looks continuous: it holds {shown(float(odd[0]))}. "
            "Bin it into a few classes first."
        )


def _check_class_counts(labels: Column, label: str, single: bool) -> None:
    counts = _written_classes(labels)
    if len(counts) == 1:
        raise InputError(
            f"{label} has one class only, {shown(labels.iloc[0])}. "
            "Choose another column, or add rows of another class."
        )
    if len(counts) > MAX_CLASSES:
        raise InputError(
            f"{label} has {len(counts)} classes; at most {MAX_CLASSES} are allowed. "
            "Choose another column, or group or bin its values first."
        )
    rare = next((value for value, count in counts.items() if count < 2), None)
    if rare is not None and not single:
        raise InputError(
            f"{label} has one row only of class {shown(rare)}; two are the least. "
            "Add rows of that class, merge it with another, or drop it."
        )


def _written_classes(column: Column) -> dict[str, int]:
    """Return how often each value occurs, by how it is written."""
    if column.dtype == object:  # hashing an object column would merge True with 1
        return dict(Counter(written_column(column)))
    places, distinct = pd.factorize(column, use_na_sentinel=False)
    counts: Counter[str] = Counter()
    for text, count in zip(written_column(pd.Series(distinct)), np.bincount(places), strict=True):
        counts[text] += int(count)
    return dict(counts)
