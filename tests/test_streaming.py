"""Learning from files that do not fit in memory, and what may go wrong with them."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from support.commands import clean_environment, run, run_apart
from support.helpers import refused

from discreet import Mapper, Mapping, NPOMapper, learning
from discreet.auditing.data import AuditOptions
from discreet.auditing.table_rows import audit_data_from_table
from discreet.cli.audit import AuditTask, audit_files
from discreet.data import tables
from discreet.data.groups import group_values
from discreet.data.tables import open_stream, read_tables
from discreet.design import coded
from discreet.design.counts import counting
from discreet.design.packed_file import PackedFile
from discreet.errors import MemoryCapWarning, TimesLeftOutWarning
from discreet.learning import (
    ByColumn,
    Task,
    learn,
    make_split,
    open_table,
    pack_tables,
    prepare,
)

OPTIONS = {"kernel": "count", "privacy_ratio": 0.99, "random_state": 0, "n_restarts": 1}
FACTS = ("--public", "fall", "--private", "who", "--exclude", "day", "--kernel", "count")
NPO = ("--method", "npo")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("few_attackers"),
    pytest.mark.filterwarnings("ignore::discreet.errors.DiscreetWarning"),
]


def house(n=6000, seed=0):
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


def stream(wanted, folder):
    return learn(scan(wanted), work_dir=folder).mapper


def is_streamed(wanted, memory):
    return open_table(wanted, memory).read == "stream"


# --- The same result ---------------------------------------------------------------------------


def test_streamed_rows_teach_what_rows_in_memory_teach(tmp_path):
    table = house(24_000)
    paths = write(tmp_path, table)
    split = make_split(0.0, 0, None)  # the two ways hold out different rows, so none
    here = learn(prepare(task(paths, split=split))).mapper
    there = stream(task(paths, split=split), tmp_path)
    one, two = here.mapping_, there.mapping_
    assert [s.encoder for s in one.sensors] == [s.encoder for s in two.sensors]
    assert one.public == two.public and one.private == two.private
    np.testing.assert_allclose(there.public_risk_, here.public_risk_, rtol=5e-4)
    np.testing.assert_allclose(there.private_risk_, here.private_risk_, rtol=5e-4)
    assert there.private_risk_ >= there.threshold_ == pytest.approx(here.threshold_, abs=1e-9)


def test_the_same_files_give_the_same_mapping_in_any_batches(tmp_path, monkeypatch):
    paths = write(tmp_path, house())
    first = stream(task(paths), tmp_path).mapping_
    monkeypatch.setattr(tables, "BATCH_ROWS", 777)
    assert stream(task(paths), tmp_path).mapping_.id == first.id


def test_no_held_out_row_has_a_say_in_the_mapping(tmp_path):
    table = house()
    paths = write(tmp_path, table)
    before = stream(task(paths), tmp_path).mapping_
    held = np.random.default_rng(0).random(len(table)) < 0.3
    table.loc[held, "hall"], table.loc[held, "door"] = 99.0, "broken"
    after = stream(task(write(tmp_path, table)), tmp_path).mapping_
    assert before.sensors == after.sensors and before.fusion == after.fusion
    assert before.design.source != after.design.source


def test_a_packed_file_can_be_kept_and_learned_from_again(tmp_path):
    paths, out = write(tmp_path, house()), tmp_path / "home.packed"
    pack_tables(task(paths), out)
    with PackedFile.open(out) as file:
        assert file.header.names == ["hall", "door", "attic", "bath"]
        assert file.header.rows + scan(task(paths)).held_out.sum() == 6000
    again = NPOMapper(**OPTIONS).fit_packed(out).mapping_
    assert again.id == stream(task(paths), tmp_path).mapping_.id


def test_the_default_counts_rows_in_a_file_as_rows_in_memory(tmp_path, monkeypatch):
    """Of 4000 rows and more a sample of 1000 stands for rows; all are counted, here and there."""
    monkeypatch.setattr(coded, "SAMPLED_ROWS", 1000)
    monkeypatch.setattr(counting, "SAMPLED_ROWS", 1000)
    out = tmp_path / "home.packed"
    pack_tables(task(write(tmp_path, house())), out)
    mapper = Mapper(max_advantage=0.2, random_state=0, n_restarts=1)
    with PackedFile.open(out) as file:
        packed, kinds = file.read(slice(None))
        labels = [file.labels(k).take(kinds) for k in range(2)]
        header = file.header
        here = coded.coded_rows(header.names, header.encoders, packed.unpack(), labels, None, None)
        there = coded.coded_file(file, None)
        assert len(there.sample.codes) == 1000 < there.n_rows
        streamed = clone(mapper).fit_coded(there).mapping_
    in_memory = clone(mapper).fit_coded(here).mapping_
    for a, b in zip(streamed.tables, in_memory.tables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert streamed.fusion == in_memory.fusion


def test_choices_by_column_hold(tmp_path):
    options = OPTIONS | {
        "n_bins": ByColumn(4, {"hall": 6}),
        "binning": ByColumn("quantile", {"attic": "categories"}),
    }
    mapping = stream(task(write(tmp_path, house()), options=options), tmp_path).mapping_
    sizes = {sensor.name: sensor.encoder.n_codes for sensor in mapping.sensors}
    assert sizes["hall"] == 7 and sizes["bath"] == 5 and sizes["attic"] > 50


# --- When is it streamed -------------------------------------------------------------------------


def test_what_fits_is_learned_in_memory(tmp_path):
    paths = write(tmp_path, house(600))
    needed = 600 * 7 * tables.CELL_BYTES
    assert not is_streamed(task(paths), None)
    assert not is_streamed(task(paths), needed)
    assert is_streamed(task(paths), needed - 1)


def test_what_cannot_be_streamed_is_refused_only_if_memory_was_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "DEFAULT_MEMORY", 1000)
    paths = write(tmp_path, house(600))
    assert is_streamed(task(paths), None)
    for method, options in (("model", {}), ("npo", {"kernel": "inverse-multiquadric"})):
        wanted = task(paths, method=method, options=options)
        assert not is_streamed(wanted, None)
        assert is_streamed(wanted, 1000)
        refused("needs all rows in memory", scan, wanted)
    text = tmp_path / "t.csv"
    house(600).to_csv(text, index=False)
    assert is_streamed(task([text]), None)
    refused("text beside Parquet cannot be streamed", is_streamed, task([text, *paths]), 1000)


def test_streamed_text_is_the_table_that_streamed_parquet_is(tmp_path):
    table = house()
    table["when"] = pd.date_range("2024-01-01", periods=len(table), freq="17min")
    text = tmp_path / "t.csv"
    table.to_csv(text, index=False)
    sensors = ["hall", "door", "attic", "bath", "when:hour", "when:weekday"]
    found = [
        prepare(wanted, open_table(wanted, 1000, tmp_path))
        for wanted in (task(write(tmp_path, table), sensors=sensors), task([text], sensors=sensors))
    ]
    assert found[0].encoders == found[1].encoders
    assert found[0].source == found[1].source
    np.testing.assert_array_equal(found[0].held_out, found[1].held_out)
    hours = found[0].rows(slice(None))["when:hour"]
    np.testing.assert_array_equal(hours, table["when"].dt.hour)


def test_times_that_nobody_named_are_no_sensors(tmp_path):
    table = house().assign(when=pd.date_range("2024-01-01", periods=6000, freq="17min"))
    wanted = task(write(tmp_path, table))
    for each in (open_stream(wanted.files()), None):
        with pytest.warns(TimesLeftOutWarning, match="'when' holds times and is no sensor"):
            assert prepare(wanted, each).sensors == ["hall", "door", "attic", "bath"]


def test_a_cap_that_no_stream_can_keep_is_told(tmp_path):
    paths = write(tmp_path, house(600))
    with pytest.warns(MemoryCapWarning, match="allows 1 MiB; the libraries alone take about 400"):
        open_table(task(paths), 1000)


# --- The audit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [None, "day"])
def test_an_audit_uses_the_held_out_rows_and_refuses_the_others(tmp_path, group):
    table = house()
    paths = write(tmp_path, table)
    exclude = [] if group else ["day"]
    wanted = task(paths, split=make_split(0.4, 3, group), exclude=exclude)
    scanned = scan(wanted)
    learn(scanned, work_dir=tmp_path).mapping.save(tmp_path / "m.json")
    assert Mapping.load(tmp_path / "m.json").design.source.read == "stream"
    found = audit_files(
        AuditTask(tmp_path / "m.json", [paths[1], paths[0], paths[2]], AuditOptions())
    )
    assert f"the {scanned.held_out.sum()} of 6000 rows that were held out" in found.rows_from
    # The same rows in one file, or as text, are the same table.
    table.to_csv(tmp_path / "t.csv", index=False)
    again = audit_files(AuditTask(tmp_path / "m.json", [tmp_path / "t.csv"], AuditOptions()))
    assert again.rows_from == found.rows_from
    rng = np.random.default_rng(3)
    if group is None:
        training = table[~(rng.random(len(table)) < 0.4)]
    else:
        days = sorted(set(table["day"].astype(str)))
        held = {day for day, place in zip(days, rng.permutation(len(days)), strict=True)
                if place < 24}  # fmt: skip
        training = table[~table["day"].astype(str).isin(held)]
    training.to_parquet(tmp_path / "training.parquet")
    refused(
        "these are the .* rows that mapping", audit_files,
        AuditTask(tmp_path / "m.json", [tmp_path / "training.parquet"], AuditOptions()),
    )  # fmt: skip


@pytest.mark.parametrize("group", ["rows:100", "date:day"])
def test_a_streamed_table_is_grouped_as_one_in_memory(tmp_path, monkeypatch, group):
    monkeypatch.setattr(tables, "BATCH_ROWS", 777)
    table = house().assign(date=pd.date_range("2015-02-04", periods=6000, freq="13min"))
    paths = write(tmp_path, table)
    exclude = ["day", "date"] if group.startswith("rows") else ["day"]
    wanted = task(paths, split=make_split(0.4, 3, group), exclude=exclude)
    scanned = scan(wanted)
    learn(scanned, work_dir=tmp_path).mapping.save(tmp_path / "m.json")
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
    table["hall"] = np.sin(np.arange(6000) / 50).round(2)
    paths = write(tmp_path, table)
    scanned = scan(task(paths))
    assert "resemble each other" in scanned.warning and "--group" in scanned.warning
    learn(scanned, work_dir=tmp_path).mapping.save(tmp_path / "m.json")
    mapping = Mapping.load(tmp_path / "m.json")
    found = audit_data_from_table(mapping, scanned.table).dependence
    assert found.found and found == mapping.design.source.dependence


def test_streamed_rows_that_may_belong_together_are_hinted_at(tmp_path, rng):
    home = rng.permutation(np.repeat(np.arange(60), 100))
    table = house().drop(columns=["bath", "day"])
    table = table.assign(who=np.where(home % 2, "ann", "bob"), home=home)
    scanned = scan(task(write(tmp_path, table), exclude=["home"]))
    assert "column 'home' has 60 values in 6000 rows, and 'who' is the same" in scanned.warning
    by_home = {"exclude": [], "split": make_split(0.3, 0, "home")}
    assert scan(task(write(tmp_path, table), **by_home)).warning is None
    few = table.assign(home=np.arange(6000) % 3)
    scanned = scan(task(write(tmp_path, few), **by_home))
    assert "group 'home' has 3 groups, 1 of which is held out" in scanned.warning


def test_a_table_learned_from_whole_cannot_audit(tmp_path):
    paths = write(tmp_path, house())
    stream(task(paths, split=make_split(0.0, 0, None)), tmp_path).mapping_.save(tmp_path / "m.json")
    refused("learned from all 6000 rows", audit_files,
            AuditTask(tmp_path / "m.json", paths, AuditOptions()))  # fmt: skip


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"who": None}, "private fact 'who' is missing in"),
        ({"who": "ann"}, "'who' has one class only"),
        ({"who": np.arange(6000)}, "'who' has .* classes"),
        ({"who": np.linspace(0, 1, 6000)}, "'who' .*(continuous|classes)"),
        ({"hall": 1.0}, "sensor 'hall' reads 1 in all"),
        ({"hall": pd.Timedelta(1, "s")}, "sensor 'hall' holds durations"),
        ({"hall": [f"id-{k}" for k in range(6000)]}, "'hall' has .* different values, like"),
        ({"fall": np.arange(6000) == 5}, "'fall' has one row only of class"),
    ],
)
def test_bad_columns_are_told_in_one_line(tmp_path, change, words):
    refused(words, scan, task(write(tmp_path, house().assign(**change))))


def test_a_class_on_one_side_only_is_told(tmp_path):
    table = house()
    table["who"] = np.where(np.arange(6000) < 2, "cid", table["who"])
    wanted = task(write(tmp_path, table), split=make_split(0.001, 0, None))
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
    "fewer rows": lambda t: t[:-1000],
    "more rows": lambda t: pd.concat([t, t]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_change_between_the_passes_are_noticed(tmp_path, name):
    table = house()
    scanned = scan(task(write(tmp_path, table)))
    CHANGES[name](table[4000:]).to_parquet(tmp_path / "day-2.parquet")
    refused("day-2.parquet: changed while it was read", learn, scanned, work_dir=tmp_path)
    assert sorted(os.listdir(tmp_path)) == [f"day-{k}.parquet" for k in range(3)]


# --- The command --------------------------------------------------------------------------------


def test_the_command_streams_and_says_so(tmp_path, monkeypatch, capsys):
    write(tmp_path, house())
    out = tmp_path / "m.json"
    code, printed, told = run(
        monkeypatch, capsys, "learn", tmp_path / "day-*.parquet", *FACTS,
        "--memory", "1k", "--out", out,
    )  # fmt: skip
    assert code == 0, told
    assert "streamed" in told and "4 sensors" in told and f"wrote {out}" in printed
    assert sorted(os.listdir(tmp_path)) == [*(f"day-{k}.parquet" for k in range(3)), "m.json"]
    code, printed, told = run(monkeypatch, capsys, "audit", out, *tmp_path.glob("day-*"))
    assert code == 0, told
    assert "of 6000 rows that were held out" in printed


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--memory", "much"], "--memory must be a size"),
        (["--memory", "0"], "--memory must be a size"),
        (["--memory", "1k", "--work-dir", "nowhere"], "--work-dir nowhere: there is no such"),
        (["--memory", "1k", "--kernel", "inverse-multiquadric"], "needs all rows in memory"),
        (["--memory", "1k", "--loss", "hinge"], "the hinge loss needs all rows in memory"),
        (["--memory", "1k", "--binning", "supervised"], "'supervised' for 'hall' needs all rows"),
        (["--memory", "1k", "--epsilon", "1"], "epsilon with 16 outputs is kept output by output"),
    ],
)
def test_wrong_options_are_one_message(tmp_path, monkeypatch, capsys, more, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, house(600))
    code, _, told = run(
        monkeypatch, capsys, "learn", "day-*.parquet", *FACTS, *NPO, *more, "--out", "m.json"
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


def test_a_full_disk_is_one_message_and_leaves_nothing(tmp_path, small_disk):
    write(tmp_path, house(40_000))
    found = run_apart(
        "learn", "day-*.parquet", *FACTS, "--memory", "1k", "--work-dir", small_disk,
        "--out", "m.json", folder=tmp_path,
    )  # fmt: skip
    assert found.returncode == 2
    assert "No space left on device" in found.stderr and "cannot be written there" in found.stderr
    assert found.stderr.count("discreet: ") == 1 and "Traceback" not in found.stderr
    assert os.listdir(small_disk) == [] and "m.json" not in os.listdir(tmp_path)


def test_a_file_size_limit_is_one_message_and_leaves_nothing(tmp_path):
    resource = pytest.importorskip("resource", reason="limits of processes are a Unix thing")
    write(tmp_path, house(40_000))
    script = "import sys\nfrom discreet.cli import main\nmain()"
    found = subprocess.run(
        [sys.executable, "-c", script, "learn", "day-*.parquet", *FACTS, "--memory", "1k",
         "--out", "m.json"],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=300,
        check=False,
        preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))),
    )  # fmt: skip
    assert found.returncode == 2 and "cannot be written there" in found.stderr
    assert "Traceback" not in found.stderr
    assert sorted(os.listdir(tmp_path)) == [f"day-{k}.parquet" for k in range(3)]


@pytest.mark.parametrize("moment", ["_scan", "_pack"])
def test_an_interrupt_leaves_nothing(tmp_path, moment):
    write(tmp_path, house())
    script = (
        "import time, discreet.learning as s\n"
        "def endless(*args): print('there', flush=True); time.sleep(600)\n"
        f"s.{moment} = endless\n"
        "from discreet.cli import main\nmain()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "learn", "day-*.parquet", *FACTS, "--memory", "1k",
         "--out", "m.json"],
        cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "there\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=300)[1]
    assert process.returncode == 130 and "No mapping was written" in told
    assert "Traceback" not in told
    assert sorted(os.listdir(tmp_path)) == [f"day-{k}.parquet" for k in range(3)]
