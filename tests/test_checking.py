"""Tables with planted problems, each of which is found and named; clean ones give no alarm."""

import gzip
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.checking import check_table
from discreet.task import Task

ROWS = 300


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


def role_of(found, column):
    return next(each.role for each in found.roles if each.column == column)


# --- Clean tables ----------------------------------------------------------------------------


def slowly(cases, quick):
    """Mark all cases but the first ones as slow."""
    return [
        pytest.param(each, marks=[pytest.mark.slow] if k >= quick else [])
        for k, each in enumerate(cases)
    ]


# Of independent rows, about one table in two hundred seems ordered, as ``data/chance.py`` has it.
SEEM_ORDERED = {16}


@pytest.mark.parametrize("seed", slowly(range(30), 6))
def test_a_clean_table_gives_no_alarm(tmp_path, seed):
    table = clean(seed)
    found = looked_at(table, tmp_path, ["home.csv", "home.tsv", "home.parquet"][seed % 3])
    assert (found.problems, len(found.warnings)) == ([], seed in SEEM_ORDERED)
    if seed in SEEM_ORDERED:
        assert "resemble each other" in found.warnings[0]
        return
    assert found.group is None
    assert {each.role for each in found.roles} == {"sensor", "public fact", "private fact"}
    assert found.raw is not None and found.raw.public > 0.6 and found.raw.private > 0.1
    assert found.needed is not None and found.held_out == pytest.approx(0.3 * ROWS, abs=3)
    assert f"{found.table} --public fall --private who --out home.json" in found.command


# --- Planted problems ------------------------------------------------------------------------


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
    "stand-in": (put("power", -999.0, [1, 4, 9]), "warning", "'power' reads -999 in 3 rows"),
    "infinite": (put("power", np.inf, [1]), "warning", "'power' is infinite in 1 rows"),
    "mostly missing": (put("steps", None, range(200)), "warning", "'steps' is missing in 200"),
    "series": (series, "warning", "resemble each other"),
    "appended": (lambda t: pd.concat([t, t], ignore_index=True), "warning", "resemble|occur again"),
    "sorted": (lambda t: t.sort_values("steps", ignore_index=True), "either", "'steps' only rises"),
}  # fmt: skip


def test_there_are_thirty_problems():
    assert len(PROBLEMS) == 30


@pytest.mark.parametrize("name", slowly(PROBLEMS, 12))
def test_a_planted_problem_is_found_and_named(tmp_path, name):
    plant, kind, words = PROBLEMS[name]
    found = looked_at(
        plant(clean(2)), tmp_path, "home.parquet" if name == "infinite" else "home.csv"
    )
    said = {"problem": found.problems, "warning": found.warnings}
    texts = said.get(kind, [*found.problems, *found.warnings])
    assert any(re.search(words, each) for each in texts), said
    assert kind == "problem" or kind == "either" or not found.problems


MANY = (
    "label missing", "text in numbers", "unique id", "unix time", "stand-in", "other words",
    "session",
)  # fmt: skip


def test_several_problems_are_found_at_once(tmp_path):
    table = clean(2)
    for name in MANY:
        table = PROBLEMS[name][0](table)
    found = looked_at(table, tmp_path)
    assert len(found.problems) == 2
    for name in MANY[:2]:
        assert any(re.search(PROBLEMS[name][2], each) for each in found.problems)
    for name in ("unique id", "unix time", "session"):
        assert any(re.search(PROBLEMS[name][2], each) for each in found.warnings)
    assert role_of(found, "moves") == "copy"


def test_a_series_is_cured_by_its_days(tmp_path):
    found = looked_at(series(clean(2)), tmp_path)
    assert found.group == "when:day" and "--group when:day" in found.command
    assert any("--group when:day" in each for each in found.warnings)


# --- How tables are written --------------------------------------------------------------------


def test_separators_encodings_and_decimal_commas_are_found(tmp_path):
    table = clean(2)
    table["who"] = table["who"].replace("ann", "Zoë")
    written = table.to_csv(index=False, sep=";", decimal=",")
    for encoding, name in (("cp1252", "a.csv"), ("utf-16", "b.csv"), ("utf-8-sig", "c.tsv")):
        found = looked_at(written.encode(encoding), tmp_path, name)
        assert found.form is not None
        assert (found.form.separator, found.form.decimal) == (";", ",")
        assert found.form.encoding == encoding
        assert found.problems == found.warnings == []
        assert set(found.classes["who"]) == {"Zoë", "bob"}
    packed = gzip.compress(table.to_csv(index=False, sep="|").encode())
    assert looked_at(packed, tmp_path, "d.csv.gz").form.separator == "|"


def test_a_sheet_of_excel_is_read(tmp_path):
    pytest.importorskip("openpyxl")
    found = looked_at(clean(2), tmp_path, "home.xlsx")
    assert found.problems == found.warnings == []


# --- Real tables -------------------------------------------------------------------------------


@pytest.fixture
def real():
    folder = os.environ.get("DISCREET_DATA")
    if not folder:
        pytest.skip("DISCREET_DATA does not name the folder with the real tables")
    return Path(folder)


@pytest.mark.slow
def test_occupancy_is_a_series_of_days(real, tmp_path):
    table = pd.read_csv(real / "occupancy_detection.csv.gz").drop(columns="part")
    hour = pd.to_datetime(table["date"]).dt.hour
    table["office"] = np.where((hour >= 8) & (hour < 18), "day", "night")
    found = looked_at(table, tmp_path, public="Occupancy", private=["office"])
    assert not found.problems
    assert role_of(found, "date") == "clock"
    assert found.group == "date:day" and "--group date:day" in found.command
    assert found.raw is not None and found.raw.public > 0.9


ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
]


@pytest.mark.slow
def test_adult_is_fit_to_learn_from(real, tmp_path):
    table = pd.read_csv(real / "adult.data.gz", names=ADULT, skipinitialspace=True)
    found = looked_at(table, tmp_path, public="income", private=["sex"])
    assert not found.problems and found.group is None
    assert role_of(found, "education-num") == "copy"  # of education, in numbers
    assert [each for each in found.warnings if "education-num" not in each] == []
    assert found.raw is not None and found.raw.public > 0.75 and found.raw.private > 0.2


def test_lists_and_durations_are_named_and_no_reason_to_fail(tmp_path):
    table = clean(2).assign(
        many=[[1, 2]] * ROWS, span=pd.to_timedelta(np.arange(ROWS), unit="s").to_numpy()
    )
    found = looked_at(table, tmp_path, "home.parquet")
    assert (role_of(found, "many"), role_of(found, "span")) == ("unusable", "unusable")
    assert len(found.problems) == 1 and "which have no code" in found.problems[0]
    found = looked_at(table.assign(who=table["many"]), tmp_path, "home.parquet")
    assert any("'who' holds values like" in each for each in found.problems)
