"""The data sets of the paper, and a real sensor set: found, checked and labelled.

The files are not part of this project; ``files.find_file`` says where they are looked for.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.data.tables import read_table
from discreet.errors import InputError, shown
from research.paper.files import find_file, read_text

__all__ = [
    "Labelled",
    "draw_cells",
    "draw_rows",
    "find_file",
    "load_adult",
    "load_occupancy",
    "load_opportunity",
    "most_correlated",
]

Ints = NDArray[np.int64]
Given = str | PathLike[str] | None


@dataclass(frozen=True)
class Labelled:
    """Readings with a public and a private fact.

    ``groups``: rows that belong together, such as those of a day.
    """

    readings: pd.DataFrame
    public: pd.Series[Any]
    private: pd.Series[Any]
    groups: pd.Series[Any] | None = None

    def __len__(self) -> int:
        return len(self.readings)

    def take(self, rows: Ints) -> Labelled:
        """Return some of the rows, numbered from 0."""
        return Labelled(
            self.readings.iloc[rows].reset_index(drop=True),
            self.public.iloc[rows].reset_index(drop=True),
            self.private.iloc[rows].reset_index(drop=True),
            None if self.groups is None else self.groups.iloc[rows].reset_index(drop=True),
        )


def draw_cells(
    data: Labelled, seed: int, *, n_train: int = 30, n_test: int = 350
) -> tuple[Labelled, Labelled]:
    """Draw rows to learn from and others to try, so many from each pair of classes.

    The defaults are the paper's for Adult, as its figures suggest.

    Raises InputError: if a pair of classes has too few rows.
    """
    rng = np.random.default_rng(seed)
    train: list[Ints] = []
    test: list[Ints] = []
    public, private = data.public.to_numpy(), data.private.to_numpy()
    for h in np.unique(public):
        for g in np.unique(private):
            cell = np.flatnonzero((public == h) & (private == g))
            if len(cell) < n_train + n_test:
                raise InputError(
                    f"{shown(h)} with {shown(g)} has {len(cell)} rows; {n_train + n_test} are to "
                    "be drawn. Draw fewer."
                )
            order = rng.permutation(cell)
            train.append(order[:n_train])
            test.append(order[n_train : n_train + n_test])
    return data.take(np.concatenate(train)), data.take(np.concatenate(test))


def draw_rows(
    data: Labelled, seed: int, *, n_train: int = 40, n_test: int | None = None
) -> tuple[Labelled, Labelled]:
    """Draw rows to learn from and others to try, from all rows alike.

    The default number to learn from is the paper's for OPPORTUNITY; all others are tried
    unless ``n_test`` says how many.

    Raises InputError: if there are too few rows.
    """
    wanted = n_train + (1 if n_test is None else n_test)
    if len(data) < wanted:
        raise InputError(f"there are {len(data)} rows; {wanted} are to be drawn. Draw fewer.")
    order = np.random.default_rng(seed).permutation(len(data))
    end = len(data) if n_test is None else wanted
    return data.take(order[:n_train]), data.take(order[n_train:end])


# --- Adult ---------------------------------------------------------------------------------

ADULT_FILE = "adult.data"
ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
ADULT_SENSORS = ("age", "education", "occupation", "relationship", "sex")
"""The attributes that the paper takes for sensors."""
AGE_LEVELS = 15
INCOMES = ("<=50K", ">50K")
MARITAL_GROUPS = {
    "Married-civ-spouse": "Married",
    "Married-spouse-absent": "Married",
    "Married-AF-spouse": "Married",
    "Never-married": "Never married",
    "Divorced": "Used to be married",
    "Separated": "Used to be married",
    "Widowed": "Used to be married",
}
_MAX_ADULT_BYTES = 2**25


def load_adult(given: Given = None, *, age_levels: int | None = AGE_LEVELS) -> Labelled:
    """Load Adult as the paper uses it: income against marital status in three groups.

    ``given``: the file or its folder; ``adult.test`` has the same form and is read as well.
    ``age_levels``: age is cut into so many intervals of equal width, over all rows, as an
    unsupervised discretisation does; None leaves it in years. Raises InputError: naming the file
    and the line that is wrong.
    """
    file = find_file(ADULT_FILE, given)
    rows = list(_adult_rows(file))
    if not rows:
        raise InputError(f"{file}: has no rows. Download it again.")
    table = pd.DataFrame(rows, columns=list(ADULT_COLUMNS))
    readings = table[list(ADULT_SENSORS)].copy()
    readings["age"] = table["age"].astype(np.int64)
    if age_levels is not None:
        readings["age"] = _equal_widths(readings["age"].to_numpy(), age_levels)
    private = table["marital-status"].map(MARITAL_GROUPS)
    return Labelled(readings, table["income"], private)


def _adult_rows(file: Path) -> Iterator[list[str | None]]:
    text = read_text(file, _MAX_ADULT_BYTES)
    lines = csv.reader(StringIO(text), skipinitialspace=True)
    try:
        for values in lines:
            if not values or (lines.line_num == 1 and values[0].startswith("|")):
                continue  # the blank line at the end, and the test file's first
            _check_adult(values, f"{file}: line {lines.line_num}")
            values[-1] = values[-1].rstrip(".")
            yield [None if value == "?" else value for value in values]
    except csv.Error as error:
        raise InputError(f"{file}: line {lines.line_num} is not readable ({error}).") from None


def _check_adult(values: Sequence[str], where: str) -> None:
    if len(values) != len(ADULT_COLUMNS):
        raise InputError(f"{where} has {len(values)} values instead of {len(ADULT_COLUMNS)}.")
    age, status, income = values[0], values[5], values[-1].rstrip(".")
    if not (age.isascii() and age.isdigit() and len(age) <= 3):
        raise InputError(f"{where}: the age is {shown(age)}, which is no number of years.")
    if status not in MARITAL_GROUPS:
        raise InputError(f"{where}: {shown(status)} is no known marital status.")
    if income not in INCOMES:
        raise InputError(f"{where}: the income is {shown(income)}, not {' or '.join(INCOMES)}.")


def _equal_widths(values: NDArray[Any], levels: int) -> Ints:
    low, high = float(values.min()), float(values.max())
    inner = np.linspace(low, high, levels + 1)[1:-1]
    return np.searchsorted(inner, values, side="left").astype(np.int64)


# --- OPPORTUNITY ---------------------------------------------------------------------------

OPPORTUNITY_FILE = "S2-Drill.dat"
OPPORTUNITY_COLUMNS = 250
SENSOR_COLUMNS = range(2, 244)
"""Columns with readings, counted from 1 as the data set's own list does."""
LOCOMOTION_COLUMN, GESTURE_COLUMN = 244, 250
LOCOMOTION = {1: "Stand", 2: "Walk"}
OPEN_CLOSE = {
    "Dishwasher": (406505, 404505),
    "Drawer 1": (406519, 404519),
    "Drawer 2": (406511, 404511),
    "Drawer 3": (406508, 404508),
}
"""Gesture codes for opening and closing, by object."""
_MAX_OPPORTUNITY_BYTES = 2**27


def load_opportunity(given: Given = None, *, drawers: Sequence[int] = (1,)) -> Labelled:
    """Load a drill run of OPPORTUNITY: locomotion against the object in hand.

    Kept are the rows in which the person stands or walks and opens or closes the dishwasher
    or a drawer (track ``ML_Both_Arms``). The readings are all 242 sensor columns, called
    ``c2`` to ``c243`` by their place; see ``most_correlated`` for the paper's choice of 15.

    ``given``: ``S2-Drill.dat`` or its folder. ``drawers``: which of the three drawers count. The
    paper does not say; the number of its rows is nearer to one drawer than to three. Raises
    InputError: if the file is not of that form, or no row is left.
    """
    for drawer in drawers:
        if f"Drawer {drawer}" not in OPEN_CLOSE:
            raise InputError(f"drawers must be of 1, 2 and 3, got {drawer!r}.")
    file = find_file(OPPORTUNITY_FILE, given)
    values = _opportunity_rows(file)
    locomotion, gesture = values[:, LOCOMOTION_COLUMN - 1], values[:, GESTURE_COLUMN - 1]
    washing = np.isin(gesture, OPEN_CLOSE["Dishwasher"])
    drawing = np.isin(gesture, [code for d in drawers for code in OPEN_CLOSE[f"Drawer {d}"]])
    kept = np.isin(locomotion, list(LOCOMOTION)) & (washing | drawing)
    if not kept.any():
        raise InputError(f"{file}: no row stands or walks with the dishwasher or a drawer.")
    columns = [f"c{k}" for k in SENSOR_COLUMNS]
    first, last = SENSOR_COLUMNS[0] - 1, SENSOR_COLUMNS[-1]
    return Labelled(
        pd.DataFrame(values[kept, first:last], columns=columns),
        pd.Series([LOCOMOTION[int(code)] for code in locomotion[kept]], name="locomotion"),
        pd.Series(np.where(washing[kept], "Dishwasher", "Drawer"), name="object"),
    )


def _opportunity_rows(file: Path) -> NDArray[np.float64]:
    lines = read_text(file, _MAX_OPPORTUNITY_BYTES).splitlines()
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise InputError(f"{file}: has no rows. Download it again.")
    for number, line in enumerate(lines, start=1):
        count = len(line.split())
        if count != OPPORTUNITY_COLUMNS:
            raise InputError(
                f"{file}: row {number} has {count} values instead of {OPPORTUNITY_COLUMNS}."
            )
    try:
        values: NDArray[np.float64] = np.loadtxt(lines, ndmin=2, comments=None)
    except ValueError as error:
        raise InputError(f"{file}: {' '.join(str(error).split())[:200]}.") from None
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0] + 1
        raise InputError(f"{file}: row {row} is infinite in column {column}.")
    return values


def most_correlated(data: Labelled, n_sensors: int = 15) -> Labelled:
    """Keep the sensors that are most correlated with the two facts.

    A stand-in for the paper's selection with Weka: the absolute correlation with every
    class of both facts, averaged within a fact and then over the two. Missing readings are
    left out; a sensor that misses half of them or never changes is not chosen.

    Raises InputError: if there are not so many sensors that change.
    """
    facts = [pd.get_dummies(fact).astype(float) for fact in (data.public, data.private)]
    scores = {}
    for name, column in data.readings.items():
        present = column.notna().to_numpy()
        if present.mean() > 0.5 and column[present].nunique() > 1:
            reading = column[present].to_numpy(dtype=np.float64)
            scores[name] = sum(_correlation(reading, fact[present]) for fact in facts)
    if len(scores) < n_sensors:
        raise InputError(f"{len(scores)} sensors change; {n_sensors} are to be chosen.")
    best = sorted(scores, key=lambda name: -scores[name])[:n_sensors]
    kept = data.readings[[name for name in data.readings if name in best]]
    return Labelled(kept, data.public, data.private, data.groups)


def _correlation(reading: NDArray[np.float64], classes: pd.DataFrame) -> float:
    """Return the mean absolute correlation with the classes that occur and are not alone."""
    spread = reading - reading.mean()
    size = float(np.linalg.norm(spread))
    found = []
    for member in classes.to_numpy().T:
        gap = member - member.mean()
        if size > 0 and gap.any():
            found.append(abs(float(spread @ gap)) / (size * float(np.linalg.norm(gap))))
    return float(np.mean(found)) if found else 0.0


# --- Occupancy -----------------------------------------------------------------------------

OCCUPANCY_FILE = "occupancy_detection.csv"
OCCUPANCY_SENSORS = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")
OCCUPANCY_PARTS = ("train", "test1", "test2")
QUARTERS = ("night", "morning", "afternoon", "evening")


def load_occupancy(given: Given = None, *, part: str | None = None) -> Labelled:
    """Load Occupancy Detection: an office, one row a minute.

    Public is whether somebody is there, private the quarter of the day (from midnight, six
    hours each), and the groups are the days: neighbouring rows depend on each other, so
    split by day or by part, never at random.

    ``given``: the file or its folder. ``part``: one of the three parts that the data set comes in;
    all by default. Raises InputError: if the file is not of that form.
    """
    if part is not None and part not in OCCUPANCY_PARTS:
        raise InputError(f"part must be one of {', '.join(OCCUPANCY_PARTS)}, got {part!r}.")
    file = find_file(OCCUPANCY_FILE, given)
    table = read_table(file)
    _check_occupancy(table, file)
    if part is not None:
        table = table[table["part"] == part].reset_index(drop=True)
    times = pd.to_datetime(table["date"], format="%Y-%m-%d %H:%M:%S", errors="coerce")
    if times.isna().any():
        row = int(np.argmax(times.isna().to_numpy()))
        raise InputError(f"{file}: {shown(table['date'].iloc[row])} is no date and time.")
    quarters = np.array(QUARTERS, dtype=object)[times.dt.hour.to_numpy() // 6]
    return Labelled(
        table[list(OCCUPANCY_SENSORS)],
        table["Occupancy"],
        pd.Series(quarters, name="quarter"),
        times.dt.strftime("%Y-%m-%d").rename("day"),
    )


def _check_occupancy(table: pd.DataFrame, file: Path) -> None:
    wanted = ("part", "date", *OCCUPANCY_SENSORS, "Occupancy")
    missing = [name for name in wanted if name not in table]
    if missing:
        raise InputError(f"{file}: has no column {missing[0]!r}. Download it again.")
    for name in OCCUPANCY_SENSORS:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise InputError(f"{file}: column {name!r} does not hold numbers.")
    if not set(table["Occupancy"].unique()) <= {0, 1}:
        raise InputError(f"{file}: column 'Occupancy' holds more than 0 and 1.")
    if not set(table["part"].unique()) <= set(OCCUPANCY_PARTS):
        raise InputError(f"{file}: column 'part' holds more than {', '.join(OCCUPANCY_PARTS)}.")
