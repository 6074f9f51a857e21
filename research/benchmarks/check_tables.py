"""What `discreet check` says of clean tables, and of tables with a planted problem.

    python -m research.benchmarks.check_tables [--clean 30] [--planted N] [--more 300] [--data DIR]

Asked for: each planted problem named, also several at once, and no alarm on 30 clean tables.
``--more``: further clean tables, as `learn` looks at them, for the rate of false alarms. DIR, or
the environment variable DISCREET_DATA, is a folder with ``occupancy_detection.csv.gz`` and
``adult.data.gz``: what is said of those.
"""

import argparse
import os
import re
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.stats import beta

from discreet.checking import check_table
from discreet.errors import DiscreetWarning
from discreet.learning import open_table, prepare
from discreet.task import Task

ROWS = 300


# --- Tables ------------------------------------------------------------------------------------


def clean(seed, rows=ROWS):
    """Independent rows of sensors of several kinds, and two facts that they tell something of."""
    rng = np.random.default_rng(seed)
    fall = rng.random(rows) < rng.uniform(0.2, 0.6)
    who = rng.integers(2, size=rows)
    table = {"power": rng.normal(fall * 1.5 + who, 1.0).round(2)}
    table["motion"] = np.where(rng.random(rows) < 0.15, ~fall, fall)
    table["steps"] = rng.poisson(4 + 3 * who, rows)
    if seed % 2:
        table["room"] = rng.choice(["hall", "bath", "bed"], rows)
    if seed % 3 == 0:
        table["lux"] = np.where(rng.random(rows) < 0.05, np.nan, rng.gamma(2.0, 50.0 + 40 * fall))
    if seed % 4 == 0:
        door = np.where(rng.random(rows) < 0.3 + 0.3 * who, "on", "off").astype(object)
        table["door"] = np.where(rng.random(rows) < 0.04, "unavailable", door)
    if seed % 5 == 0:
        table["bed"] = rng.integers(-20, 300, rows) + 90 * who
    names = np.array([["ann", "bob"], ["Ada", "Ben"]][seed % 2])
    return pd.DataFrame(table | {"fall": fall, "who": names[who]})


def put(column, value, rows):
    def plant(table):
        table[column] = table[column].astype(object)
        table.loc[rows, column] = value
        return table

    return plant


def add(column, values):
    return lambda table: table.assign(**{column: values(table) if callable(values) else values})


def series(table):
    """Rows by the minute, in which everything changes slowly."""
    rng = np.random.default_rng(0)
    many = pd.concat([table] * 20, ignore_index=True)
    drift = np.cumsum(rng.normal(size=len(many))) / 5
    when = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.arange(len(many)) * 5, unit="min")
    return many.assign(power=drift.round(3), when=when.strftime("%Y-%m-%d %H:%M:%S"))


def rare(column, value, count):
    def plant(table):
        table[column] = table[column].astype(object)
        table.loc[: count - 1, column] = value
        return table

    return plant


COUNT = np.arange(ROWS)
PROBLEMS = {  # what is planted, and what has to be said of it: problem or warning, and which words
    "label missing": (put("fall", None, [3, 8]), "problem", "'fall' is missing in 2 of 300 rows"),
    "one class": (add("fall", True), "problem", "'fall' has one class only"),
    "continuous": (add("who", lambda t: t["power"] + 0.123), "problem", "'who' looks continuous"),
    "classes": (add("who", COUNT % 77), "problem", "'who' has 77 classes; at most 50"),
    "single": (rare("who", "eve", 1), "problem", "'who' has one row only of class 'eve'"),
    "rare": (rare("who", "eve", 6), "warning", "'who' has 6 of 300 rows of class 'eve'"),
    "text in numbers": (put("power", "err", [5, 7]), "problem", "'power' holds numbers, but 'err'"),
    "decimal comma": (put("power", "21,5", range(20)), "problem", "decimal comma, like '21,5'"),
    "few rows": (lambda table: table[:15], "problem", "the table has 15 rows; at least 20"),
    "empty": (add("dead", np.nan), "either", "'dead'"),
    "constant": (add("dead", 7), "either", "'dead'"),
    "row number": (add("nr", COUNT), "warning", "'nr' rises with every row"),
    "session": (add("session", COUNT // 20), "warning", "'session' only rises, 15 values"),
    "unique id": (
        add("UNIQUE_ID", [f"{k * 7919 % 100_003:x}" for k in COUNT]),
        "warning",
        "'UNIQUE_ID' has 300 different texts",
    ),
    "random id": (
        add("device_id", np.random.default_rng(1).permutation(10**6)[:ROWS]),
        "warning",
        "'device_id' is called an identifier",
    ),
    "unix time": (
        add("unix_timestamp", 1_700_000_000 + 61 * COUNT),
        "warning",
        "'unix_timestamp' holds times since 1970",
    ),
    "milliseconds": (
        add("stamp", 1_700_000_000_000 + 61_000 * COUNT),
        "warning",
        "'stamp' holds times since 1970",
    ),
    "text time": (
        add("when", pd.date_range("2026-01-01", periods=ROWS, freq="h").astype(str)),
        "warning",
        "'when' holds times and is no sensor",
    ),
    "copy": (add("again", lambda t: t["power"]), "warning", "'again' tells exactly what 'power'"),
    "other unit": (
        add("fahrenheit", lambda t: t["power"] * 1.8 + 32),
        "warning",
        "'fahrenheit' tells exactly what 'power'",
    ),
    "other words": (
        add("moves", lambda t: t["motion"].map({True: "yes", False: "no"})),
        "warning",
        "'moves' tells exactly what 'motion'",
    ),
    "answer": (
        add("ambulance", lambda t: t["fall"] * 40 + 3),
        "warning",
        "'ambulance' tells 'fall' without a single error",
    ),
    "private answer": (
        add("voice", lambda t: t["who"].str.upper()),
        "warning",
        "'voice' tells 'who' without a single error",
    ),
    "future": (
        add("tomorrow", lambda t: t["fall"].astype(int).shift(-1, fill_value=0)),
        "warning",
        "'tomorrow' tells 'fall' of the next row",
    ),
    "stand-in": (put("power", -999.0, [1, 4, 9]), "warning", "'power' reads -999 in 3 of 300 rows"),
    "infinite": (put("power", np.inf, [1]), "warning", "'power' is infinite in 1 of 300 rows"),
    "mostly missing": (put("steps", None, range(200)), "warning", "'steps' is missing in 200"),
    "series": (series, "warning", "resemble each other"),
    "appended": (lambda t: pd.concat([t, t], ignore_index=True), "warning", "resemble|occur again"),
    "sorted": (lambda t: t.sort_values("steps", ignore_index=True), "either", "'steps' only rises"),
    "unit": (
        add("warm", lambda t: [f"{20 + k:.2f} °C" for k in t["power"]]),
        "problem",
        "'warm' writes the unit '°C' behind its numbers",
    ),
    "few with a unit": (
        add("level", lambda t: [f"{5 * k}%" for k in t["steps"]]),
        "problem",
        "'level' writes the unit '%' behind its numbers",
    ),
    "question mark": (
        add("job", np.where(COUNT % 9, np.where(COUNT % 2, "nurse", "cook"), "?")),
        "warning",
        "'job' reads '\\?' in 34 of 300 rows",
    ),
    "labels alike": (
        lambda t: put("who", t["who"].iloc[0].upper() + " ", range(0, ROWS, 5))(t),
        "warning",
        "'who' has .* which differ by case or blanks only",
    ),
    "readings alike": (
        add("room", np.where(COUNT % 5, np.where(COUNT % 3, "Hall", "bath"), "hall")),
        "warning",
        "'room' has 'hall' and 'Hall', which differ|'room' has 'Hall' and 'hall', which differ",
    ),
    "copy with gaps": (
        add("kilowatts", lambda t: (t["power"] / 1000).mask(COUNT % 50 == 7)),
        "warning",
        "'kilowatts' tells exactly what 'power'",
    ),
    "answer with gaps": (
        add("ambulance", lambda t: (t["fall"] * 40.0 + 3).mask(COUNT % 50 == 7)),
        "warning",
        "'ambulance' tells 'fall' without a single error",
    ),
    "German dates": (
        add("Zeit", pd.date_range("2026-01-01", periods=ROWS, freq="h").strftime("%d.%m.%Y %H:%M")),
        "warning",
        "'Zeit' holds times and is no sensor",
    ),
    "event log": (
        lambda t: t.assign(time=1_767_225_600 + 60 * COUNT).melt(
            ["time"], var_name="item", value_name="value"
        ),
        "problem",
        "is an event log, .* Run: discreet import",
    ),
}  # fmt: skip
SEVERAL = {  # the number of a clean table, and what is planted in it at once
    3: ("unique id", "stand-in", "copy with gaps"),
    4: ("label missing", "text in numbers", "unix time", "other words"),
    7: ("unit", "rare", "constant", "session"),
    10: ("question mark", "answer with gaps", "mostly missing"),
    12: ("German dates", "few with a unit", "random id", "stand-in", "labels alike"),
}


ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
]


def adult(folder):
    """Income, and sex: independent rows."""
    return pd.read_csv(folder / "adult.data.gz", names=ADULT, skipinitialspace=True)


def occupancy(folder):
    """Whether somebody is in an office, by the minute, and whether it is day."""
    table = pd.read_csv(folder / "occupancy_detection.csv.gz").drop(columns="part")
    hour = pd.to_datetime(table["date"]).dt.hour
    return table.assign(office=np.where((hour >= 8) & (hour < 18), "day", "night"))


# --- What is said of them ----------------------------------------------------------------------


def looked_at(table, folder, name="home.csv", **named):
    file = folder / name
    if isinstance(table, bytes):
        file.write_bytes(table)
    elif name.endswith(".parquet"):
        table.to_parquet(file)
    elif name.endswith(".xlsx"):
        table.to_excel(file, index=False)
    else:
        table.to_csv(file, index=False, sep="\t" if "tsv" in name else ",")
    task = Task(file, **{"public": "fall", "private": ["who"]} | named)
    return check_table(task, 0.05, guess=False)


def named(name, folder):
    """What `check` says of a planted problem, whether that is what it should say, and all of it."""
    plant, kind, _ = PROBLEMS[name]
    file = "home.parquet" if name == "infinite" else "home.csv"
    found = looked_at(plant(clean(2)), folder, file)
    fits = kind in ("problem", "either") or not found.problems
    return fits and is_said(name, found), said_of(found)


def said_of(found):
    """All that is said; a column that tells nothing may be named in the list of columns alone."""
    dead = [f"{each.column!r} {each.why}" for each in found.roles
            if each.role in ("constant", "empty")]  # fmt: skip
    return {
        "problem": found.problems,
        "warning": found.warnings,
        "either": [*found.problems, *found.warnings, *dead],
    }


def is_said(name, found):
    _, kind, words = PROBLEMS[name]
    return any(re.search(words, each) for each in said_of(found)[kind])


def missed(seed, folder):
    """Which of several problems planted in a table at once are not named, and all that is said."""
    table = clean(seed)
    for name in SEVERAL[seed]:
        table = PROBLEMS[name][0](table)
    found = looked_at(table, folder)
    return [name for name in SEVERAL[seed] if not is_said(name, found)], said_of(found)


def alarms(table, folder):
    """What `learn` says before it learns: the same as `check`, without what takes long."""
    file = folder / "home.csv"
    table.to_csv(file, index=False)
    task = Task(file, public="fall", private=["who"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warning = prepare(task, open_table(task, None)).warning
    ours = [str(each.message) for each in caught if issubclass(each.category, DiscreetWarning)]
    return [*ours, *([] if warning is None else [warning])]


def print_clean(count, folder):
    quiet = 0
    for seed in range(count):
        found = looked_at(clean(seed), folder, ["home.csv", "home.tsv", "home.parquet"][seed % 3])
        said = [*found.problems, *found.warnings]
        quiet += not said
        for each in said:
            print(f"  clean table {seed}: {each}")
    print(f"clean tables without an alarm: {quiet} of {count}")


def print_more(count, folder):
    loud = [seed for seed in range(1000, 1000 + count) if alarms(clean(seed), folder)]
    most = beta.ppf(0.95, len(loud) + 1, max(count - len(loud), 1))
    print(f"further clean tables with an alarm: {len(loud)} of {count} {loud or ''}")
    print(f"rate of false alarms, at most, at 95 %: {most:.4f}")


def print_planted(count, folder):
    tried = list(PROBLEMS)[:count]
    wrong = [name for name in tried if not named(name, folder)[0]]
    print(f"planted problems named: {len(tried) - len(wrong)} of {len(tried)} {wrong or ''}")
    left = {seed: unsaid for seed in SEVERAL if (unsaid := missed(seed, folder)[0])}
    print(
        f"tables with several, all named: {len(SEVERAL) - len(left)} of {len(SEVERAL)} {left or ''}"
    )


def print_real(data, folder):
    for make, public, private in ((adult, "income", "sex"), (occupancy, "Occupancy", "office")):
        found = looked_at(make(data), folder, public=public, private=[private])
        print(f"{make.__name__}: group {found.group}; {found.order}")
        for each in [*found.problems, *found.warnings]:
            print(f"  {each}")
        print(f"  raw readings: {found.raw}\n  {found.command}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clean", type=int, default=30)
    parser.add_argument("--planted", type=int, default=len(PROBLEMS))
    parser.add_argument("--more", type=int, default=300)
    parser.add_argument("--data", type=Path, default=os.environ.get("DISCREET_DATA"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print_clean(given.clean, folder)
        print_planted(given.planted, folder)
        if given.more:
            print_more(given.more, folder)
        if given.data:
            print_real(Path(given.data), folder)


if __name__ == "__main__":
    main()
