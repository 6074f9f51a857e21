"""Tables with planted problems, each of which is found and named; clean ones give no alarm."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.matrices import sparing

from discreet.checking import check_table
from discreet.cli.check import describe
from discreet.data.tables import open_stream
from discreet.errors import TableWarning
from discreet.learning import prepare
from discreet.task import Task
from research.benchmarks.check_tables import (
    PROBLEMS,
    ROWS,
    SEVERAL,
    adult,
    clean,
    looked_at,
    missed,
    named,
    occupancy,
    series,
)


def role_of(found, column):
    return next(each.role for each in found.roles if each.column == column)


# --- Clean tables ----------------------------------------------------------------------------


def slowly(cases, quick, usual=None):
    """Mark all cases but the first ones as slow, and those after the usual ones as exhaustive."""
    cases = [
        pytest.param(each, marks=[pytest.mark.slow] if k >= quick else [])
        for k, each in enumerate(cases)
    ]
    return sparing(cases, *(each.values[0] for each in cases[:usual]))


@pytest.mark.parametrize("seed", slowly(range(30), 6, 15))
def test_a_clean_table_gives_no_alarm(tmp_path, seed):
    table = clean(seed)
    found = looked_at(table, tmp_path, ["home.csv", "home.tsv", "home.parquet"][seed % 3])
    assert (found.problems, found.warnings, found.group) == ([], [], None)
    assert {each.role for each in found.roles} == {"sensor", "public fact", "private fact"}
    assert found.raw is not None and found.raw.public > 0.6 and found.raw.private > 0.1
    assert found.needed is not None and found.held_out == pytest.approx(0.3 * ROWS, abs=3)
    assert f"{found.table} --public fall --private who --out home.json" in found.command


# --- Planted problems ------------------------------------------------------------------------


@pytest.mark.parametrize("name", slowly(PROBLEMS, 12))
def test_a_planted_problem_is_found_and_named(tmp_path, name):
    found, said = named(name, tmp_path)
    assert found, said


def test_a_unit_is_shown_by_a_value_that_has_it(tmp_path):
    table = clean(0)
    degrees = [f"{20 + k % 40 / 8:g}" for k in range(len(table))]
    table["warmth"] = degrees[:3] + [f"{each} °C" for each in degrees[3:]]
    problems = looked_at(table, tmp_path, "home.csv").problems
    said = "sensor 'warmth' writes the unit '°C' behind its numbers, like '20.375 °C' in row 4"
    assert len(problems) == 1 and said in problems[0]


@pytest.mark.parametrize("seed", SEVERAL)
def test_several_problems_are_found_at_once(tmp_path, seed):
    unsaid, said = missed(seed, tmp_path)
    assert unsaid == [], said


def test_a_series_is_cured_by_its_days(tmp_path):
    found = looked_at(series(clean(2)), tmp_path)
    assert found.group == "when:day" and "--group when:day" in found.command
    assert any("--group when:day" in each for each in found.warnings)


def test_figures_are_those_of_the_sensors_in_the_command(tmp_path):
    table = clean(2)
    spoilt = table.assign(siren=table["fall"] * 3, again=table["power"])
    found, wanted = looked_at(spoilt, tmp_path), looked_at(table, tmp_path)
    assert "--exclude siren,again" in found.command
    assert (found.raw, found.order, found.needed) == (wanted.raw, wanted.order, wanted.needed)
    assert found.raw is not None and found.raw.public < 0.95


@pytest.mark.parametrize("every", [2, 3])
def test_sensors_that_report_in_the_same_rows_are_no_copies(tmp_path, every):
    table, rng = clean(2), np.random.default_rng(0)
    for name in ("slow", "also_slow"):
        values = rng.normal(size=len(table))
        table[name] = np.where(np.arange(len(table)) % every, np.nan, values)
    found = looked_at(table, tmp_path)
    assert {role_of(found, "slow"), role_of(found, "also_slow")} == {"sensor"}


def test_a_command_leaves_sensors_to_learn_from(tmp_path):
    table = clean(2)[["fall", "who"]].assign(siren=lambda each: each["fall"] * 3)
    found = looked_at(table, tmp_path)
    assert "--exclude" not in found.command and found.raw is not None and found.raw.public == 1.0


@pytest.mark.parametrize("name", ["when", "column 3"])
def test_unix_times_in_any_order_are_a_clock(tmp_path, name):
    times = 1_767_225_600 + np.random.default_rng(0).integers(0, 30 * 86_400, ROWS)
    assert role_of(looked_at(clean(2).assign(**{name: times}), tmp_path), name) == "clock"


def test_numbers_too_large_for_floats_are_no_counter_and_not_called_equal(tmp_path):
    large = 2**62 + np.random.default_rng(0).integers(0, 10, ROWS)
    found = looked_at(clean(2).assign(large=large), tmp_path)
    assert role_of(found, "large") == "sensor"
    assert any("'large' (4.611686018427388e+18, rounded to a float)" in e for e in found.warnings)


def test_a_sensor_that_is_infinite_in_all_rows_is_left_out(tmp_path):
    found = looked_at(clean(2).assign(stuck=np.inf), tmp_path, "home.parquet")
    assert role_of(found, "stuck") == "constant" and "--exclude stuck" in found.command
    assert any(
        "the same in all" in each and "'stuck' (infinite)" in each for each in found.warnings
    )


def test_a_fact_that_is_left_out_as_well_is_refused(tmp_path):
    found = looked_at(clean(2), tmp_path, exclude=["fall"])
    assert len(found.problems) == 1 and "'fall' is the public fact" in found.problems[0]
    assert "Take it out of --exclude" in found.problems[0]


# --- How tables are written --------------------------------------------------------------------


def test_separators_encodings_and_decimal_commas_are_found(tmp_path):
    table = clean(2)
    table["who"] = table["who"].replace("ann", "Zoë")
    written = table.to_csv(index=False, sep=";", decimal=",")
    for encoding, name in (
        ("cp1252", "a.csv"),
        ("utf-16", "b.csv"),
        ("utf-16-le", "e.csv"),
        ("utf-16-be", "f.csv"),
        ("utf-8-sig", "c.tsv"),
    ):
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
    found = looked_at(occupancy(real), tmp_path, public="Occupancy", private=["office"])
    assert not found.problems
    assert role_of(found, "date") == "clock"
    assert found.group == "date:day" and "--group date:day" in found.command
    assert found.raw is not None and found.raw.public > 0.9


@pytest.mark.slow
def test_adult_is_fit_to_learn_from(real, tmp_path):
    found = looked_at(adult(real), tmp_path, public="income", private=["sex"])
    assert not found.problems and found.group is None
    assert role_of(found, "education-num") == "copy"  # of education, in numbers
    marks = [each for each in found.warnings if "education-num" not in each]
    assert all(" reads '?' in " in each for each in marks) and len(marks) == 3
    assert found.raw is not None and found.raw.public > 0.75 and found.raw.private > 0.2


def test_lists_and_durations_are_named_and_no_reason_to_fail(tmp_path):
    table = clean(2).assign(
        many=[[1, 2]] * ROWS, span=pd.to_timedelta(np.arange(ROWS), unit="s").to_numpy()
    )
    found = looked_at(table, tmp_path, "home.parquet")
    assert (role_of(found, "many"), role_of(found, "span")) == ("unusable", "unusable")
    assert len(found.problems) == 2 and all("have no code" in each for each in found.problems)
    found = looked_at(table.assign(who=table["many"]), tmp_path, "home.parquet")
    assert any("'who' holds values like" in each for each in found.problems)


@pytest.mark.parametrize("file", ["home.csv", "home.parquet"])
def test_unavailable_labels_are_missing_beside_switches_and_warned_of_among_names(tmp_path, file):
    table = clean(2)
    table["fall"] = np.where(table["fall"], "on", "off").astype(object)
    table.loc[[3, 8], "fall"] = "unavailable"
    found = looked_at(table, tmp_path, file)
    assert len(found.problems) == 1 and not found.classes
    assert f"public fact 'fall' is missing in 2 of {ROWS} rows (rows 4, 9;" in found.problems[0]
    names = clean(2)
    names.loc[range(30), "who"] = "unknown"
    found = looked_at(names, tmp_path, file)
    said = f"'who' is 'unknown' in 30 of {ROWS} rows, which is learned as a class"
    assert not found.problems and any(said in each for each in found.warnings)
    assert found.classes["who"]["unknown"] == 30


@pytest.mark.parametrize("differ", [0, 2])
def test_a_private_fact_that_is_the_public_one_is_named(tmp_path, differ):
    table = clean(2)
    table["who"] = np.where(table["fall"], "p", "q")
    table.loc[range(differ), "who"] = "p"
    said = [each for each in looked_at(table, tmp_path).warnings if "under another name" in each]
    assert len(said) == 1 and "'who' is the public fact 'fall' under another name" in said[0]
    table.loc[range(40), "who"] = "p"  # a tenth of the rows or so
    again = looked_at(table, tmp_path).warnings
    assert not any("under another name" in each for each in again)


def test_a_fact_that_follows_from_the_public_one_is_another(tmp_path):
    table = clean(2)
    table["fall"] = np.where(table["fall"], np.arange(ROWS) % 2 + 1, 0)
    table["who"] = np.where(table["fall"] > 0, "p", "q")
    found = looked_at(table, tmp_path).warnings
    assert not any("under another name" in each for each in found)


NESTED = {
    "lists": [[1, 2]] * ROWS,
    "structs": [{"a": k % 3} for k in range(ROWS)],
    "maps": [[("a", 1)]] * ROWS,
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_columns_that_are_left_out_change_nothing(tmp_path, kind):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    form = pa.map_(pa.string(), pa.int64()) if kind == "maps" else None
    plain, file = pa.Table.from_pandas(clean(2)), tmp_path / "home.parquet"
    parquet.write_table(plain.append_column("nested", pa.array(NESTED[kind], type=form)), file)
    task = Task(file, "fall", ["who"], exclude=["nested"])
    assert not check_table(task, 0.05, guess=False).problems
    found = [prepare(task, each).source for each in (None, open_stream([file]))]
    parquet.write_table(plain, file)
    assert found == [prepare(Task(file, "fall", ["who"])).source] * 2


def test_a_nested_value_is_shown_in_one_message(tmp_path):
    found = looked_at(clean(2).assign(many=[[1, 2]] * ROWS), tmp_path, "home.parquet")
    assert len(found.problems) == 1 and "values like [1, 2] (" in found.problems[0]


def test_all_sensors_that_cannot_be_learned_from_are_named_with_one_command(tmp_path, rng):
    """Texts of more kinds than can be categories; without them the table is fine."""
    rows = 8000
    words = {f"word{k}": [f"w{each}" for each in rng.integers(1200, size=rows)] for k in range(4)}
    table = clean(2, rows).assign(**words)
    found = looked_at(table, tmp_path)
    assert len(found.problems) == 4 and all("more than 1000" in each for each in found.problems)
    assert found.cured and "--exclude word0,word1,word2,word3 " in found.command
    assert describe(found)[-1] == f"next: or leave these out: {found.command}"
    again = looked_at(table, tmp_path, exclude=list(words))
    assert not again.problems and again.command == found.command
    both = looked_at(table.assign(who="ann"), tmp_path)
    assert not both.cured and describe(both)[-1].startswith("next: fix this, then discreet learn ")


@pytest.mark.parametrize("levels", [["steps"], ["steps", "room"]])
def test_a_stored_index_is_no_sensor_unless_it_is_named_as_one(tmp_path, levels):
    file = "home.parquet"
    found = looked_at(clean(1).set_index(levels), tmp_path, file)
    assert [role_of(found, each) for each in levels] == ["identifier"] * len(levels)
    assert all(
        any(f"column {each!r} is a level of the index that pandas stored" in said
            for said in found.warnings)
        for each in levels
    )  # fmt: skip
    for table in (None, open_stream([tmp_path / file])):
        with pytest.warns(TableWarning, match="level of the index"):
            assert not {*levels} & {*prepare(Task(tmp_path / file, "fall", ["who"]), table).sensors}
    named = looked_at(clean(1).set_index(levels), tmp_path, file, sensors=["power", *levels])
    assert [role_of(named, each) for each in levels] == ["sensor"] * len(levels)
    without = looked_at(clean(1).rename_axis("steps").reset_index(drop=True), tmp_path, file)
    assert role_of(without, "steps") == "sensor"
