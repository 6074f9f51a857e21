"""Learning from files that do not fit in memory, and what may go wrong with them."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.commands import AT_ONCE, clean_environment, run
from support.helpers import refused

from discreet import Mapping
from discreet.auditing import table_rows
from discreet.auditing.data import AuditOptions
from discreet.auditing.table_rows import audit_data_from_table
from discreet.choices import ByColumn
from discreet.cli.audit import AuditTask, audit_files
from discreet.data import dependence, opening, tables
from discreet.data.groups import group_values
from discreet.data.tables import Frame, Stream, open_stream, read_tables
from discreet.design.counts import counting
from discreet.errors import InputError, TimesLeftOutWarning
from discreet.frontiers.study import study_table
from discreet.learning import learn, open_table, prepare
from discreet.mappers import base
from discreet.task import Task, make_split

OPTIONS = {"kernel": "count", "privacy_ratio": 0.99, "random_state": 0, "n_restarts": 1}
FACTS = ("--public", "fall", "--private", "who", "--exclude", "day", "--kernel", "count")

ROWS = 3000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("few_attackers"),
    pytest.mark.filterwarnings("ignore::discreet.errors.DiscreetWarning"),
]


def house(n=ROWS, seed=0):
    """Sensors with few different readings, so that streamed encoders are exact."""
    rng = np.random.default_rng(seed)
    fall, bob = rng.integers(2, size=(2, n)) == 1
    causes = np.column_stack([fall, bob, rng.normal(size=n)])
    readings = causes @ rng.normal(size=(3, 4)) * 1.5 + rng.normal(size=(n, 4))
    table = pd.DataFrame(readings.round(1), columns=["hall", "door", "attic", "bath"])
    table["door"] = np.where(table["door"] > 0.5, "open", "shut")
    table.loc[::40, "bath"] = np.nan
    table["fall"], table["who"] = fall, np.where(bob, "bob", "ann")
    return table.assign(day=np.arange(n) // 100)


def write(folder, table, files=3):
    cuts = np.linspace(0, len(table), files + 1).astype(int)
    paths = [folder / f"day-{k}.parquet" for k in range(files)]
    for k, path in enumerate(paths):
        table[cuts[k] : cuts[k + 1]].to_parquet(path)
    return paths


def task(paths, **changes):
    settings = {"exclude": ["day"], "method": "npo", "options": OPTIONS, "further": paths[1:]}
    settings |= changes
    return Task(paths[0], "fall", ["who"], **settings)


def scan(wanted):
    return prepare(wanted, open_stream(wanted.files()))


def stream(wanted):
    return learn(scan(wanted)).mapper


def is_streamed(wanted, memory):
    return isinstance(open_table(wanted, memory), Stream)


@pytest.fixture
def small_sample(monkeypatch):
    """A sample of 1000 rows stands for the 2000 and more that are counted."""
    from discreet import learning

    for module in (counting, base, learning):
        monkeypatch.setattr(module, "SAMPLED_ROWS", 1000)


@pytest.fixture
def little_memory(monkeypatch):
    """Tables of more than a few bytes are streamed."""
    monkeypatch.setattr(opening, "DEFAULT_MEMORY", 1000)


# --- The same result ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "group"), [("auto", None), ("randomized-response", "day"), ("npo", None)]
)
def test_a_table_gives_the_same_mapping_streamed_and_in_memory(
    tmp_path, monkeypatch, small_sample, method, group
):
    table = house()
    paths, text = write(tmp_path, table), tmp_path / "t.csv.gz"
    table.to_csv(text, index=False)
    options = {"random_state": 0, "n_restarts": 1}
    if method != "randomized-response":
        options["privacy_ratio"] = 0.9
    if method == "auto":
        options["time_budget"] = None
    exclude = [] if group else ["day"]
    how = {"method": method, "options": options, "split": make_split(0.3, 1, group)}
    wanted = task(paths, exclude=exclude, **how)
    here = prepare(wanted)
    in_memory = learn(here).mapping
    for each in (wanted, task([text], exclude=exclude, **how)):
        monkeypatch.setattr(opening, "DEFAULT_MEMORY", 1000)
        monkeypatch.setattr(tables, "BATCH_ROWS", 777)
        monkeypatch.setattr(counting, "ROWS_AT_ONCE", 100)
        there = prepare(each, open_table(each, None, tmp_path))
        assert isinstance(here.table, Frame) and isinstance(there.table, Stream)
        np.testing.assert_array_equal(here.held_out, there.held_out)
        assert len(there.coded.sample.codes) == 1000 < there.coded.n_rows
        assert learn(there).mapping.id == in_memory.id


LONG = 60_000
CAUSES = {
    "late": lambda rng: np.append(rng.normal(size=LONG // 2), np.repeat(rng.normal(size=1500), 20)),
    "none": lambda rng: rng.normal(size=LONG),
    "shuffled": lambda rng: np.repeat(rng.normal(size=LONG // 2), 2),
}


def long_house(cause, seed=0):
    """More rows than are looked at, whose order tells nothing in the first half of the table."""
    rng = np.random.default_rng(seed)
    table = house(LONG, seed).drop(columns=["bath", "day"])
    # What the sensors tell of the public fact, and nothing of the private one.
    table["hall"] = (CAUSES[cause](rng) + table["fall"]).round(1)
    table["attic"] = (rng.normal(size=LONG) + table["fall"]).round(1)
    table["door"] = np.where(rng.random(LONG) < 0.5, "open", "shut")
    table["when"] = pd.date_range("2024-01-01", periods=LONG, freq="17s").astype(str)
    if cause == "shuffled":  # pairs of rows that only the times tell
        table = table.iloc[rng.permutation(LONG)].reset_index(drop=True)
    return table


@pytest.fixture(params=CAUSES)
def long(request, tmp_path, monkeypatch):
    """A long table in Parquet and text, of which the shorter stretches are looked at."""
    monkeypatch.setattr(dependence, "_MOST_COMPARED", 30_000)
    table, text = long_house(request.param), tmp_path / "t.csv"
    paths = write(tmp_path, table)
    table.to_csv(text, index=False)
    how = {
        "method": "randomized-response",
        "options": {"random_state": 0, "ldp_epsilon": 1.0},
        "exclude": [],
    }
    return request.param, task(paths, **how), task([text], **how)


def test_late_dependence_is_found_and_the_mapping_the_same_streamed_and_in_memory(
    tmp_path, monkeypatch, long
):
    cause, parquet, text = long
    here, late = prepare(parquet), cause != "none"
    assert here.source.dependence.found == late and 9_000 < here.source.dependence.rows < 20_000
    assert (here.warning is not None) == late
    monkeypatch.setattr(opening, "DEFAULT_MEMORY", 1000)
    for wanted, batch in ((parquet, 4_999), (text, 1 << 16)):
        monkeypatch.setattr(tables, "BATCH_ROWS", batch)
        there = prepare(wanted, open_table(wanted, None, tmp_path))
        assert isinstance(here.table, Frame) and isinstance(there.table, Stream)
        assert there.source == here.source and there.warning == here.warning
        assert learn(there).mapping.id == learn(here).mapping.id


def test_an_audit_is_refused_for_late_dependence_streamed_and_in_memory(
    tmp_path, monkeypatch, capsys, long
):
    cause, parquet, _ = long
    late = cause != "none"
    (tmp_path / "m.json").write_text(learn(prepare(parquet)).mapping.dumps())
    # Another table of the kind, of which nothing was looked at when the mapping was learned.
    long_house(cause, 5).to_csv(tmp_path / "u.csv", index=False)
    told = set()
    for memory, drawn in ((1 << 30, 1 << 30), (0, 1 << 30), (0, 5_000)):
        monkeypatch.setattr(table_rows, "_IN_MEMORY", memory)
        monkeypatch.setattr(table_rows.Sample, "most_rows", lambda *_, most=drawn: most)
        for table in ("t.csv", "u.csv"):
            code, printed, _ = run(
                monkeypatch, capsys, "audit", tmp_path / "m.json", tmp_path / table,
                "--max-advantage", "0.2", "--json", "--quiet",
            )  # fmt: skip
            assert code == (3 if late else 0)
            assert ("fit into --memory" in printed) == (drawn == 5_000)
            told.add((table, tuple(json.loads(printed)["independence"])))
    assert len(told) == 2  # the same words of a table, however it was read


@pytest.mark.parametrize("memory", [1 << 30, 0])
def test_the_order_of_groups_is_that_of_the_whole_table(monkeypatch, long, memory):
    cause, parquet, _ = long
    monkeypatch.setattr(table_rows, "_IN_MEMORY", memory)
    mapping = learn(prepare(parquet)).mapping
    table = table_rows.open_rows(parquet.files())
    assert isinstance(table, Stream) == (memory == 0)
    found = audit_data_from_table(mapping, table, group="rows:5").dependence
    assert found.unit == "groups" and found.found == (cause == "late")
    study = prepare(replace(parquet, split=make_split(0.3, 0, "rows:5")))
    assert study_table(study.task, study).order == found


def test_counts_are_those_of_a_loop_over_the_rows(tmp_path, small_sample):
    scanned = scan(task(write(tmp_path, house()), method="auto"))
    learned_from, counts = scanned.rows(~scanned.held_out), scanned.coded.counted.counts
    slow = np.zeros_like(counts.by_code[0])
    hall = scanned.coded.encoders[0].encode(learned_from["hall"], "hall")
    for number, code in enumerate(hall):
        row = learned_from.iloc[number]
        slow[number % 5, 2 * int(row["fall"]) + (row["who"] == "bob"), code] += 1
    np.testing.assert_array_equal(counts.by_code[0], slow)
    sample = learned_from.iloc[scanned.coded.counted.numbers]["hall"]
    codes = scanned.coded.encoders[0].encode(sample, "hall")
    np.testing.assert_array_equal(scanned.coded.sample.codes[:, 0], codes)


def test_no_held_out_row_has_a_say_in_the_mapping(tmp_path):
    table = house()
    paths = write(tmp_path, table)
    scanned = scan(task(paths))
    before, held = learn(scanned).mapping, scanned.held_out
    table.loc[held, "hall"], table.loc[held, "door"] = 99.0, "broken"
    after = stream(task(write(tmp_path, table))).mapping_
    assert before.sensors == after.sensors and before.fusion == after.fusion
    assert before.design.source != after.design.source


def test_choices_by_column_hold(tmp_path):
    options = OPTIONS | {
        "n_bins": ByColumn(4, {"hall": 6}),
        "binning": ByColumn("quantile", {"attic": "categories"}),
    }
    mapping = stream(task(write(tmp_path, house()), options=options)).mapping_
    sizes = {sensor.name: sensor.encoder.n_codes for sensor in mapping.sensors}
    assert sizes["hall"] == 7 and sizes["bath"] == 5 and sizes["attic"] > 50


# --- When is it streamed -------------------------------------------------------------------------


def test_what_fits_is_learned_in_memory(tmp_path, monkeypatch):
    paths = write(tmp_path, house(600))
    monkeypatch.setattr(opening, "CELL_BYTES", 1 << 10)  # so that it is more than a megabyte
    needed = 600 * 7 * (opening.CELL_BYTES + opening._SAMPLED_BYTES)
    assert not is_streamed(task(paths), None)
    monkeypatch.setattr(opening, "_COLUMN_BYTES", 0)
    assert not is_streamed(task(paths), opening.LIBRARY_BYTES + needed)
    assert is_streamed(task(paths), opening.LIBRARY_BYTES + needed - 1)


def test_text_beside_parquet_is_refused_only_if_memory_was_limited(tmp_path, monkeypatch):
    paths, text = write(tmp_path, house(600)), tmp_path / "t.csv"
    house(600).to_csv(text, index=False)
    monkeypatch.setattr(opening, "DEFAULT_MEMORY", 1000)
    monkeypatch.setattr(opening, "LIBRARY_BYTES", 0)
    assert is_streamed(task(paths), None) and is_streamed(task([text]), None)
    assert not is_streamed(task([text, *paths]), None)
    refused("text beside Parquet cannot be streamed", is_streamed, task([text, *paths]), 1000)


def test_streamed_text_is_the_table_that_streamed_parquet_is(tmp_path, little_memory):
    table = house()
    table["when"] = pd.date_range("2024-01-01", periods=len(table), freq="17min")
    text = tmp_path / "t.csv"
    table.to_csv(text, index=False)
    sensors = ["hall", "door", "attic", "bath", "when:hour", "when:weekday"]
    found = [
        prepare(wanted, open_table(wanted, None, tmp_path))
        for wanted in (task(write(tmp_path, table), sensors=sensors), task([text], sensors=sensors))
    ]
    assert found[0].coded.encoders == found[1].coded.encoders
    assert found[0].source == found[1].source
    np.testing.assert_array_equal(found[0].held_out, found[1].held_out)
    hours = found[0].rows(slice(None))["when:hour"]
    np.testing.assert_array_equal(hours, table["when"].dt.hour)


def test_times_that_nobody_named_are_no_sensors(tmp_path):
    table = house().assign(when=pd.date_range("2024-01-01", periods=ROWS, freq="17min"))
    wanted = task(write(tmp_path, table))
    for each in (open_stream(wanted.files()), None):
        with pytest.warns(TimesLeftOutWarning, match="'when' holds times and is no sensor"):
            assert prepare(wanted, each).sensors == ["hall", "door", "attic", "bath"]


def test_a_cap_that_cannot_be_kept_is_refused(tmp_path, monkeypatch):
    paths = write(tmp_path, house(600))
    refused("allows 1 MiB; the libraries alone take about", open_table, task(paths), 1000)
    least = opening.memory_streamed(open_stream(paths))
    monkeypatch.setattr(opening, "CELL_BYTES", 1 << 20)
    assert is_streamed(task(paths), least)
    refused("Allow that, or name fewer sensors", open_table, task(paths), least - 1)


@pytest.mark.parametrize("cell_bytes", [24, 1 << 20])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_what_is_said_to_be_enough_memory_is(tmp_path, monkeypatch, form, cell_bytes):
    monkeypatch.setattr(opening, "CELL_BYTES", cell_bytes)
    paths = write(tmp_path, house(600))
    if form == "csv":
        paths = [tmp_path / "t.csv"]
        house(600).to_csv(paths[0], index=False)
    with pytest.raises(InputError) as found:
        open_table(task(paths), 1000)
    enough = int(re.search(r"and (\d+) MiB are enough", str(found.value))[1])
    assert is_streamed(task(paths), enough << 20) == (form == "parquet" and cell_bytes > 24)


def test_of_few_rows_it_is_enough_to_read_them_whole(tmp_path, monkeypatch):
    """Streamed, each column takes more than a few rows of it do."""
    paths = write(tmp_path, house(600))
    whole = opening.memory_whole(opening._Size(600, 7))
    assert whole < opening.memory_streamed(open_stream(paths))
    monkeypatch.setattr(opening, "CELL_BYTES", 1 << 10)
    enough = -(-opening.memory_whole(opening._Size(600, 7)) >> 20)
    refused(f"and {enough} MiB are enough", open_table, task(paths), opening.LIBRARY_BYTES)
    assert not is_streamed(task(paths), enough << 20)


def test_what_is_looked_at_of_rows_left_out_is_part_of_the_memory():
    """It grows with the rows up to some, and the table in memory with all of them."""
    kinds = dict.fromkeys("abcdef", "number")
    few, some, many, most = (
        opening.memory_streamed(Stream([], kinds, rows, []))
        for rows in (1000, 40_000, 80_000, 800_000)
    )
    assert few == opening.LIBRARY_BYTES + 6 * opening._COLUMN_BYTES + 1000 * 8
    assert some - few > 100 << 20 and many - some > 100 << 20
    assert most - many == 720_000 * 8
    whole = [opening.memory_whole(opening._Size(rows, 300)) for rows in (100_000, 200_000)]
    assert whole[1] - whole[0] == 100_000 * 300 * opening.CELL_BYTES


@pytest.mark.parametrize("cell", ["1", "0.123456"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_the_size_of_a_text_is_told_by_its_lines(tmp_path, cell, name):
    separator = "," if name.endswith("csv") else "\t"
    line = separator.join([cell] * 12) + "\n"
    (tmp_path / name).write_text(separator.join(f"s{k}" for k in range(12)) + "\n" + line * 50_000)
    found = opening._size([tmp_path / name])
    assert found.columns == 12 and found.rows == pytest.approx(50_000, rel=0.01)


MEASURED = """
import re, sys
from pathlib import Path
from discreet.cli import main
try:
    main()
finally:
    found = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
    print("used", found[1] if found else 0)
"""


@pytest.mark.parametrize("kind", ["categories", "wide", "classes"])
def test_memory_that_is_said_to_be_enough_holds(tmp_path, kind):
    """Many codes, columns or classes: pairs of codes took gigabytes, joint codes hundreds."""
    rng = np.random.default_rng(0)
    n, columns = (2000, 300) if kind == "wide" else (12_000, 10)
    fall, who, state = rng.integers(2, size=(3, n))
    readings = np.round(fall[:, None] + state[:, None] + rng.normal(size=(n, columns)), 3)
    if kind == "categories":
        readings = (97 * readings).astype(int) % 990
    table = pd.DataFrame(readings).add_prefix("s")
    if kind == "categories":
        table = "v" + table.astype(str)
    table = table.assign(fall=fall, who=who if kind != "classes" else rng.integers(40, size=n))
    table.to_csv(tmp_path / "t.csv", index=False)
    enough = -(-opening.memory_whole(opening._size([tmp_path / "t.csv"])) >> 20)
    found = subprocess.run(
        [sys.executable, "-c", MEASURED, "learn", "t.csv", "--public", "fall", "--private", "who",
         "--out", "m.json", "--time-limit", "1s", "--memory", f"{enough}M"],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert int(found.stdout.split()[-1]) <= enough << 10


def test_a_stored_index_is_read(tmp_path):
    table = house(600)
    table.index = pd.Index(np.arange(600) * 3 + 7)
    table.to_parquet(tmp_path / "plain.parquet")
    table.rename_axis("row").to_parquet(tmp_path / "named.parquet")
    plain, named = (open_stream([tmp_path / f"{name}.parquet"]) for name in ("plain", "named"))
    assert plain.columns == list(table) and named.columns == [*table, "row"]
    found = pd.concat(plain.batches(plain.columns))
    pd.testing.assert_frame_equal(found, table.reset_index(drop=True), check_dtype=False)


# --- The audit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [None, "day"])
def test_an_audit_uses_the_held_out_rows_and_refuses_the_others(tmp_path, group):
    table = house()
    paths = write(tmp_path, table)
    exclude = [] if group else ["day"]
    wanted = task(paths, split=make_split(0.4, 3, group), exclude=exclude)
    scanned = scan(wanted)
    learn(scanned).mapping.save(tmp_path / "m.json")
    found = audit_files(
        AuditTask(tmp_path / "m.json", [paths[1], paths[0], paths[2]], AuditOptions())
    )
    assert f"the {scanned.held_out.sum()} of {ROWS} rows that were held out" in found.rows_from
    # The same rows in one file, or as text, are the same table.
    table.to_csv(tmp_path / "t.csv", index=False)
    again = audit_files(AuditTask(tmp_path / "m.json", [tmp_path / "t.csv"], AuditOptions()))
    assert again.rows_from == found.rows_from
    training = table[~scanned.held_out].sample(frac=1, random_state=0)
    training.to_parquet(tmp_path / "training.parquet")
    refused(
        "these are the .* rows that mapping", audit_files,
        AuditTask(tmp_path / "m.json", [tmp_path / "training.parquet"], AuditOptions()),
    )  # fmt: skip


@pytest.mark.parametrize("group", ["rows:100", "date:day"])
def test_a_streamed_table_is_grouped_as_one_in_memory(tmp_path, monkeypatch, group):
    monkeypatch.setattr(tables, "BATCH_ROWS", 777)
    table = house().assign(date=pd.date_range("2015-02-04", periods=ROWS, freq="13min"))
    paths = write(tmp_path, table)
    exclude = ["day", "date"] if group.startswith("rows") else ["day"]
    wanted = task(paths, split=make_split(0.4, 3, group), exclude=exclude)
    scanned = scan(wanted)
    learn(scanned).mapping.save(tmp_path / "m.json")
    mapping, whole = Mapping.load(tmp_path / "m.json"), read_tables(paths)
    data = audit_data_from_table(mapping, whole)
    again = audit_data_from_table(mapping, scanned.table)
    pd.testing.assert_frame_equal(data.readings, again.readings)
    np.testing.assert_array_equal(data.groups, again.groups)
    assert data.dependence == again.dependence and data.origin == again.origin
    texts = group_values(whole, group)
    assert not set(texts[scanned.held_out]) & set(texts[~scanned.held_out])  # whole groups
    assert scanned.held_out.sum() == again.n_rows and f"grouped by {group!r}" in again.origin


def test_streamed_rows_that_depend_are_reported_and_the_audit_knows(tmp_path):
    table = house()
    table["hall"] = np.sin(np.arange(ROWS) / 50).round(2)
    paths = write(tmp_path, table)
    scanned = scan(task(paths))
    assert "resemble each other" in scanned.warning and "--group" in scanned.warning
    learn(scanned).mapping.save(tmp_path / "m.json")
    mapping = Mapping.load(tmp_path / "m.json")
    found = audit_data_from_table(mapping, scanned.table).dependence
    assert found.found and found == mapping.design.source.dependence


def test_streamed_rows_that_may_belong_together_are_hinted_at(tmp_path, rng):
    home = rng.permutation(np.repeat(np.arange(60), ROWS // 60))
    table = house().drop(columns=["bath", "day"])
    table = table.assign(who=np.where(home % 2, "ann", "bob"), home=home)
    scanned = scan(task(write(tmp_path, table), exclude=["home"]))
    assert f"column 'home' has 60 values in {ROWS} rows, and 'who' is the same" in scanned.warning
    by_home = {"exclude": [], "split": make_split(0.3, 0, "home")}
    assert scan(task(write(tmp_path, table), **by_home)).warning is None
    few = table.assign(home=np.arange(ROWS) % 3)
    scanned = scan(task(write(tmp_path, few), **by_home))
    assert "group 'home' has 3 groups, 1 of which is held out" in scanned.warning


def test_a_table_learned_from_whole_cannot_audit(tmp_path):
    paths = write(tmp_path, house())
    stream(task(paths, split=make_split(0.0, 0, None))).mapping_.save(tmp_path / "m.json")
    refused(f"learned from all {ROWS} rows", audit_files,
            AuditTask(tmp_path / "m.json", paths, AuditOptions()))  # fmt: skip


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"who": None}, "private fact 'who' is missing in"),
        ({"who": "ann"}, "'who' has one class only"),
        ({"who": np.arange(ROWS)}, "'who' has .* classes"),
        ({"who": np.linspace(0, 1, ROWS)}, "'who' .*(continuous|classes)"),
        ({"hall": pd.Timedelta(1, "s")}, "sensor 'hall' holds durations"),
        ({"fall": np.arange(ROWS) == 5}, "'fall' has one row only of class"),
    ],
)
def test_bad_columns_are_told_in_one_line(tmp_path, change, words):
    refused(words, scan, task(write(tmp_path, house().assign(**change))))


def test_a_class_on_one_side_only_is_told(tmp_path):
    table = house(6000)
    table["who"] = np.where(np.arange(6000) < 2, "cid", table["who"])
    wanted = task(write(tmp_path, table), split=make_split(0.0002, 0, None))
    refused("none would be on the audit side", scan, wanted)


def test_groups_are_checked(tmp_path):
    wanted = {"split": make_split(0.3, 0, "day"), "exclude": []}
    refused("one group only", scan, task(write(tmp_path, house().assign(day=1)), **wanted))
    table = house()
    table["day"] = table["day"].astype(float)
    table.loc[3, "day"] = np.nan
    refused("missing in some rows, first in row 4", scan, task(write(tmp_path, table), **wanted))


CHANGES = {
    "a new category": lambda t: t.assign(door="ajar"),
    "another reading": lambda t: t.assign(hall=t["hall"] + 0.1),
    "another class": lambda t: t.assign(who="cid"),
    "fewer rows": lambda t: t[: -ROWS // 10],
    "more rows": lambda t: pd.concat([t, t]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_change_between_the_passes_are_noticed(tmp_path, name):
    table = house()
    wanted = task(write(tmp_path, table))
    opened = open_stream(wanted.files())

    def change(progress):
        if progress.phase == "sample":
            CHANGES[name](table[2 * ROWS // 3 :]).to_parquet(tmp_path / "day-2.parquet")

    with pytest.raises(InputError, match="changed while it was read"):
        prepare(wanted, opened, report=change)
    assert sorted(os.listdir(tmp_path)) == [f"day-{k}.parquet" for k in range(3)]


# --- The command --------------------------------------------------------------------------------


def test_the_command_streams_and_says_so(tmp_path, monkeypatch, capsys, little_memory):
    write(tmp_path, house())
    out = tmp_path / "m.json"
    code, printed, told = run(
        monkeypatch, capsys, "learn", tmp_path / "day-*.parquet", *FACTS[:-2], *AT_ONCE,
        "--out", out,
    )  # fmt: skip
    assert code == 0, told
    assert "streamed" in told and "4 sensors" in told and f"wrote {out}" in printed
    assert sorted(os.listdir(tmp_path)) == [*(f"day-{k}.parquet" for k in range(3)), "m.json"]
    code, printed, told = run(
        monkeypatch, capsys, "audit", out, *tmp_path.glob("day-*"), "--memory", "1G"
    )
    assert code == 0, told
    assert f"of {ROWS} rows that were held out" in printed


@pytest.mark.parametrize("method", ["npo", "bayes-error", "ndd"])
def test_a_method_for_small_tables_is_refused_before_rows_are_counted(
    tmp_path, monkeypatch, capsys, method
):
    monkeypatch.setattr(base.PrivacyMapper, "most_rows", 500)
    monkeypatch.setattr(counting, "pass_over", None)
    write(tmp_path, house(1000))
    code, _, told = run(
        monkeypatch, capsys, "learn", tmp_path / "day-*.parquet", *FACTS, "--method", method,
        "--out", tmp_path / "m.json",
    )  # fmt: skip
    assert code == 2, told
    assert f"the method {method!r} is for at most 500 rows to learn from; there are 700" in told
    assert "--method auto" in told and not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--memory", "much"], "--memory must be a size"),
        (["--memory", "0"], "--memory must be a size"),
        (["--memory", "1k"], "--memory allows 1 MiB; the libraries alone take about"),
        (["--memory", "1k", "--work-dir", "nowhere"], "--work-dir nowhere: there is no such"),
    ],
)
def test_wrong_options_are_one_message(tmp_path, monkeypatch, capsys, more, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, house(600))
    code, _, told = run(
        monkeypatch, capsys, "learn", "day-*.parquet", *FACTS, *more, "--out", "m.json"
    )
    assert code == 2 and words in told and told.count("\n") == 1
    assert "m.json" not in os.listdir(tmp_path)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few kilobytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True, check=False,
    ) if hasattr(os, "geteuid") and os.geteuid() == 0 else None  # fmt: skip
    if mounted is None or mounted.returncode:
        pytest.skip("mounting a small file system takes root and a kernel that allows it")
    yield place
    subprocess.run(["umount", str(place)], check=True)


STREAMED = (
    "from discreet.data import opening\nopening.DEFAULT_MEMORY = 1000\n"
    "from discreet.cli import main\nmain()"
)


def learn_apart(folder, *more, script=STREAMED, **how):
    return subprocess.run(
        [sys.executable, "-c", script, "learn", "t.csv", *FACTS, "--out", "m.json", *more],
        cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=300,
        check=False, **how,
    )  # fmt: skip


def test_a_full_disk_is_one_message_and_leaves_nothing(tmp_path, small_disk):
    house(40_000).to_csv(tmp_path / "t.csv", index=False)
    found = learn_apart(tmp_path, "--work-dir", small_disk)
    assert found.returncode == 2
    assert "No space left on device" in found.stderr and "cannot hold a copy" in found.stderr
    assert found.stderr.count("discreet: ") == 1 and "Traceback" not in found.stderr
    assert os.listdir(small_disk) == [] and "m.json" not in os.listdir(tmp_path)


def test_a_file_size_limit_is_one_message_and_leaves_nothing(tmp_path):
    resource = pytest.importorskip("resource", reason="limits of processes are a Unix thing")
    house(40_000).to_csv(tmp_path / "t.csv", index=False)
    found = learn_apart(
        tmp_path,
        preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))),
    )  # fmt: skip
    assert found.returncode == 2 and "cannot hold a copy" in found.stderr
    assert "Traceback" not in found.stderr
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize("moment", ["_draw_sample", "_pass_over"])
def test_an_interrupt_leaves_nothing(tmp_path, moment):
    write(tmp_path, house())
    script = (
        "import time, discreet.learning as s\n"
        "def endless(*args):\n"
        "    print('there', flush=True)\n"
        "    while True: time.sleep(0.05)\n"  # a signal just before a long sleep would wait
        f"s.{moment} = endless\n"
        "from discreet.cli import main\nmain()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "learn", "day-*.parquet", *FACTS, "--out", "m.json"],
        cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "there\n"
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=300)[1]
    assert process.returncode == 130 and "nothing was written" in told
    assert "Traceback" not in told
    assert sorted(os.listdir(tmp_path)) == [f"day-{k}.parquet" for k in range(3)]
