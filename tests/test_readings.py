"""Raw readings: what can be read and what is refused."""

import datetime
import gzip
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from helpers import home, refused
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InputError
from discreet.readings import (
    MAX_CLASSES,
    check_column,
    check_kind,
    check_labels,
    check_sensors,
    choose_sensors,
    read_table,
)
from discreet.splitting import table_digest

# --- Loading -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.CSV", "t.csv.gz", "t.tsv", "t.tsv.gz", "t.parquet"])
def test_a_saved_table_reads_back_the_same(tmp_path, name):
    table, file = home(), tmp_path / name
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        table.to_parquet(file)
    else:
        table.to_csv(file, index=False, sep="\t" if ".tsv" in name else ",")
    pd.testing.assert_frame_equal(read_table(file), table)
    assert table_digest(read_table(file)) == table_digest(table)


def test_floats_survive_text_to_the_last_bit(tmp_path):
    values = np.random.default_rng(1).normal(size=500) * 10.0 ** np.arange(-250, 250)
    pd.DataFrame({"a": values}).to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv")["a"], values)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert list(read_table(tmp_path / "t.csv").columns) == ["a", "b"]


HALF_GZIP = gzip.compress(b"a,b\n" + b"1,2\n" * 5000, mtime=0)[:40]


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"\n\n\n", "is empty"),
        ("t.csv", b"a,b\n", "header and no rows"),
        ("t.xlsx", b"a,b\n1,2\n", "cannot tell the format from '.xlsx'"),
        ("table", b"a,b\n1,2\n", "cannot tell the format from 'no suffix'"),
        ("t.csv", b"a,b\n1,\xff\n", "byte 0xff is not UTF-8"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "line 3 has 3 values; the header has 2 columns"),
        ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "line 2 has 3 values"),
        ("t.csv", b"a,b,c\n1,2,3\n1,2\n", "line 3 has 2 values"),
        ("t.csv", b"a,b,a\n1,2,3\n", "more than one column is called 'a'"),
        ("t.csv", b",a\n0,1\n", "column 1 has no name"),
        ("t.csv", b"a;b\n1;2\n", "separated by ';', not ','"),
        ("t.csv", b'a,b\n1,"2\n', "not a readable table"),
        ("t.csv", b"a,b\n1," + b"x" * 200_000 + b"\n", "not a readable table"),
        ("t.csv.gz", b"a,b\n1,2\n", "damaged gzip"),
        ("t.csv.gz", HALF_GZIP, "damaged gzip"),
        ("t.parquet", b"PAR1 nonsense", "not a readable Parquet file"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path, name, data, match):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(data)
    assert name in refused(match, read_table, tmp_path / name)


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    refused("no such file", read_table, tmp_path / "t.csv")
    (tmp_path / "d.csv").mkdir()
    refused("is a directory", read_table, tmp_path / "d.csv")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused(r'pip install "discreet\[parquet\]"', read_table, tmp_path / "t.parquet")


@given(st.binary(max_size=60), st.sampled_from(["t.csv", "t.tsv", "t.csv.gz", "t.parquet"]))
def test_no_bytes_make_reading_fail_in_another_way(tmp_path_factory, data, name):
    file = tmp_path_factory.mktemp("any") / name
    file.write_bytes(data)
    try:
        table = read_table(file)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert len(table) and table.columns.is_unique


# --- Columns -------------------------------------------------------------------------------


def test_every_other_column_is_a_sensor_unless_named():
    labels = ["fall", "who", "day"]
    assert choose_sensors(home(), None, labels) == ["hall", "door"]
    assert choose_sensors(home(), ["door"], labels) == ["door"]


def test_an_unknown_column_is_answered_with_the_close_ones():
    text = refused("Did you mean 'hall'", choose_sensors, home(), ["hal"], [])
    assert "'door'" in text
    refused("Did you mean 'fall'", choose_sensors, home(), None, ["falls"])
    refused("no column 'xyz' for the public label", check_column, home(), "xyz", "public label")


@pytest.mark.parametrize(
    ("sensors", "exclude", "match"),
    [
        (["fall"], ["fall"], "cannot be a sensor as well"),
        (["hall", "hall"], [], "named twice"),
        ([], [], "no sensor columns"),
        (None, ["hall", "door", "fall", "who", "day"], "no sensor columns"),
    ],
)
def test_a_choice_that_leaves_no_sound_sensors_is_refused(sensors, exclude, match):
    refused(match, choose_sensors, home(), sensors, exclude)


def test_sound_sensors_pass():
    check_sensors(home(), ["hall", "door"])
    table = home()
    table.loc[3:, "hall"] = np.nan
    table.loc[:2, "hall"] = 1.0  # one value and gaps: the gaps say something
    check_sensors(table, ["hall"])


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ([1.5] * 30, "sensor 'bad' reads 1.5 in every row"),
        (["x"] * 30, "sensor 'bad' reads 'x' in every row"),
        ([1, 1.0] * 15, "reads 1.0 in every row"),
        ([None] * 30, "missing in all 30 rows"),
        (pd.date_range("2024", periods=30), "holds dates"),
        (pd.period_range("2024", periods=30), "holds dates"),
        (pd.to_timedelta(np.arange(30), "s"), "holds durations"),
        (np.arange(30) * 1j, "holds complex numbers"),
        ([[1, 2]] * 30, r"holds values like \[1, 2\] \(list\)"),
        ([{"a": 1}] * 30, "dict"),
        ([b"a", b"b"] * 15, "bytes"),
        ([datetime.date(2024, 1, 1)] * 30, "dates or times"),
        ([datetime.time(1)] * 30, "dates or times"),
        (pd.cut(np.arange(30), 3), "Interval"),
    ],
)
def test_a_sensor_that_teaches_nothing_is_refused_by_name(column, match):
    table = pd.DataFrame({"good": np.arange(30.0), "bad": column})
    text = refused(match, check_sensors, table, ["good", "bad"])
    assert "leave" in text.lower()


def test_five_rows_are_too_few():
    refused("has 5 rows; at least 20", check_sensors, home(5), ["hall"])


def test_a_kind_is_judged_by_the_values_where_pandas_does_not_know():
    check_kind(pd.Series([1, "a", True, None, Decimal("1.5")], dtype=object), "mixed")


# --- Labels --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        [True, False] * 5,
        ["a", "b"] * 5,
        [0, 1, 2, 0, 1, 2],
        [0.0, 1.0] * 4,
        list(range(MAX_CLASSES)) * 2,
        pd.Categorical(["a", "b"] * 4),
    ],
)
def test_sound_labels_pass(labels):
    check_labels(pd.Series(labels), "public label", "fall")


def test_a_class_of_one_row_passes_where_no_rows_are_held_out():
    check_labels(pd.Series(["a", "a", "b"]), "public label", "fall", single=True)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([], "has no rows"),
        (["a", None, "b", None], r"missing in 2 of 4 rows \(rows 2, 4;"),
        ([None] * 9, r"rows 1, 2, 3, 4, 5, \.\.\.;"),
        (["a"] * 5, "one class only, 'a'"),
        ([1, 1.0, 1], "one class only"),
        (["a", "a", "b"], "one row only of class 'b'"),
        ([0.5, 1.5, 0.5, 1.5], "looks continuous: it holds 0.5"),
        ([1.0, np.inf] * 2, "looks continuous: it holds inf"),
        (list(range(MAX_CLASSES + 1)) * 2, "has 51 classes; at most 50"),
        (pd.date_range("2024", periods=4), "holds dates"),
        ([[1], [2]] * 3, "holds values like"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(labels, match):
    series = pd.Series(labels, dtype=object if not len(labels) else None)
    assert "private label 'who'" in refused(match, check_labels, series, "private label", "who")
