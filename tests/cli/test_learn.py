import json
import os
import pickle
import re
import shlex
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from support.commands import AT_ONCE, FACTS, few, rooms, run_apart

from discreet import Mapping, __version__, cli, learning
from discreet.choices import METHODS
from discreet.cli import options
from discreet.data import opening
from discreet.data.encoders import MAX_CODES
from discreet.data.fit_encoders import STRATEGIES
from discreet.data.split import Split, split_rows
from discreet.errors import InputError, Parameter
from discreet.mapping.parts import MAX_COST, MAX_SYMBOLS


@pytest.fixture
def mistake(command, tmp_path):
    """Run `learn` with a mistake, which must end in one line and leave the old file alone."""
    (tmp_path / "home.json").write_text("old")

    def check(*options, table="home.csv", facts=FACTS, out="home.json"):
        before = sorted(tmp_path.rglob("*"))
        code, printed, error = command("learn", table, *facts, "--out", out, *options)
        assert (code, printed) == (2, "")
        assert error.startswith("discreet: ") and error.count("\n") == 1
        assert "Traceback" not in error
        assert sorted(tmp_path.rglob("*")) == before
        assert (tmp_path / "home.json").read_text() == "old"
        return error

    return check


# --- Mistakes in the options ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--holdout 1.5", "--holdout must be at least 0 and below 1, got 1.5"),
        ("--holdout -1", "--holdout must be at least 0 and below 1, got -1"),
        ("--holdout nan", "--holdout must be at least 0 and below 1, got nan"),
        ("--holdout lots", "--holdout must be a number, got 'lots'. See: discreet learn --help"),
        ("--holdout=lots", "--holdout must be a number, got 'lots'"),
        ("--max-advantage 5%", "--max-advantage must be a number, got '5%'"),
        ("--seed 1.5", "--seed must be a whole number, got '1.5'"),
        ("--holdout 0.95", "--holdout 0.95 leaves 4 rows.* at least 10"),
        ("--seed -1", "--seed must be from 0 to 4294967295, got -1"),
        ("--seed 4294967296", "--seed must be from 0 to 4294967295"),
        ("--ratio 2", "--ratio must be strictly between 0 and 1, got 2"),
        ("--ratio 0", "--ratio must be strictly between 0 and 1, got 0"),
        ("--max-advantage 1", "--max-advantage must be strictly between 0 and 1"),
        ("--epsilon 0", "--epsilon must be a finite number above 0"),
        ("--epsilon inf", "--epsilon must be a finite number above 0, got inf"),
        ("--ldp-epsilon -1", "--ldp-epsilon must be a finite number above 0"),
        ("--symbols 1", "--symbols must be a whole number from 2 to 256, got 1"),
        ("--symbols 1000", "--symbols must be a whole number from 2 to 256, got 1000"),
        ("--symbols 2.5", "--symbols must be a whole number from 2 to 256, got 2.5"),
        ("--symbols hall=1", "--symbols must be .* from 2 to 256, got 1 for 'hall'"),
        ("--symbols 3 --symbols 4", "--symbols was given twice for all columns"),
        ("--bins 1", "--bins must be a whole number from 2 to 1000, got 1"),
        ("--bins hall=few", "--bins must be .* from 2 to 1000, got few for 'hall'"),
        ("--bins hall=", "--bins must be .* from 2 to 1000, got '' for 'hall'"),
        ("--bins hall=4,hall=5", "--bins was given twice for column 'hall'"),
        ("--bins a,b=4", "--bins must be .*, got a. A name with a comma goes in double quotes"),
        ("--bins hal=4", "--bins names the column 'hal', which is no sensor. Did you mean 'hall'"),
        ("--symbols fall=3", "--symbols names the column 'fall', which is no sensor"),
        ("--symbols =3", "--symbols names the column '', which is no sensor"),
        ("--kernel gauss", "--kernel must be one of product, .*, got gauss"),
        ("--loss zero", "--loss must be one of logistic, .*, got zero"),
        ("--method best", "--method must be one of auto, .*, got best"),
        ("--binning fine", "--binning must be one of merged, .*, got fine"),
        ("--binning supervised", "'merged' chooses bins by the labels, .*, got supervised"),
        ("--binning hall=fine", "--binning must be one of merged, .*, got fine for 'hall'"),
        ("--binning hal=uniform", "--binning names the column 'hal', which is no sensor"),
        ("--binning room=uniform", "--binning 'uniform' was asked for 'room', which does not"),
        ("--ratio 0.9 --max-advantage 0.1", "--ratio .* together with --max-advantage.* Give one"),
        ("--ratio 0.9 --epsilon 1", "--ratio .* together with --epsilon"),
        ("--method ndd --ratio 0.9", "--ratio .* --method ndd protects nothing.* --method npo"),
        ("--method ndd --ldp-epsilon 1", "--ldp-epsilon .* protects nothing"),
        ("--every 60s", "--every was given without --time-column"),
        ("--time-column day --every soon", "--every must be a time above 0 .*, got 'soon'"),
        ("--time-column day --every 0s", "--every must be a time above 0"),
        ("--time-column dya", "no column 'dya' for the times. Did you mean 'day'"),
        ("--time-column day", "'day': .* rows have the time of another"),
        (
            "--decide fair",
            "--decide must be balanced, likely or cost=CLASS.*cost=fall:10, got 'fair'",
        ),
        ("--decide=", "--decide must be balanced, likely or cost=.*, got ''"),
        ("--decide Likely", "--decide must be balanced, likely or .*, got 'Likely'"),
        ("--decide cost", "--decide must be balanced, likely or .*, got 'cost'"),
        ("--decide costs=True:2", "--decide must be balanced, likely or .*, got 'costs=True:2'"),
        ("--decide cost=", "--decide names no class, got 'cost='. Write cost=fall:10"),
        (
            "--decide cost=True",
            "--decide: 'True' must be a class, a colon and a cost .*'cost=True'",
        ),
        ("--decide cost=:3", "--decide: ':3' must be a class, a colon and a cost above 0"),
        ("--decide cost=True:0", "--decide: 'True:0' must be .* above 0 and at most 1e.09, got"),
        ("--decide cost=True:-2", "--decide: 'True:-2' must be a class"),
        ("--decide cost=True:nan", "--decide: 'True:nan' must be a class"),
        ("--decide cost=True:inf", "--decide: 'True:inf' must be a class"),
        ("--decide cost=True:much", "--decide: 'True:much' must be a class"),
        ("--decide cost=True:2,True:3", "--decide gives the class 'True' two costs, got 'cost=Tr"),
        ("--decide cost=Tru:2", "--decide names the class 'Tru', which 'fall' does not have. Did"),
        ("--decide cost=fall:2", "--decide names the class 'fall', .* There are: '"),
        ("--publik fall", "--publik.* See: discreet learn --help"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(mistake, options, words):
    if "room" in options:
        rooms().assign(room=["bath", "bed"] * (N // 2)).to_csv("home.csv", index=False)
    assert re.search(words, mistake(*options.split()))


def test_a_list_of_names_that_cannot_be_read_is_refused(mistake):
    assert "--sensors is not a list of names" in mistake("--sensors", "hall\ndoor")
    assert "--bins is not a list of names" in mistake("--bins", "hall\ndoor=3")
    assert "--decide is not a list of names" in mistake("--decide", "cost=True\n:3")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["learn"], "TABLE"),
        (["learn", "home.csv"], "--public"),
        (["learn", "home.csv", "--public", "fall", "--out", "x"], "--private"),
        (["learn", "home.csv", *FACTS], "--out"),
        (["lern"], "No such command 'lern'"),
        (["--verbose"], "--verbose"),
        (["demo", "--seed", "-1"], "--seed must be from 0"),
    ],
)
def test_an_incomplete_command_says_what_lacks_and_where_to_read_on(command, arguments, words):
    code, printed, error = command(*arguments)
    assert (code, printed) == (2, "")
    assert words in error and error.count("\n") == 1


def test_names_and_ranges_in_the_options_are_those_of_the_library():
    assert sorted(options.BINNINGS) == sorted(STRATEGIES)
    assert options.MOST_SYMBOLS == MAX_SYMBOLS
    assert options.MOST_COST == MAX_COST
    assert options.MOST_BINS < MAX_CODES


def test_parameters_in_messages_become_options_and_names_from_the_table_stay():
    parts = (Parameter("n_symbols"), " of n_bins is odd. Ask by ", Parameter("max_advantage"))
    error = pickle.loads(pickle.dumps(InputError(*parts)))  # as from a process of its own
    assert str(error) == "n_symbols of n_bins is odd. Ask by max_advantage"
    assert cli.in_option_terms(error) == "--symbols of n_bins is odd. Ask by --max-advantage"


def test_an_error_of_the_search_speaks_of_options(mistake):
    home = rooms()
    home["day"] = home["who"]  # a group for each class, so that no fold can hold both
    home.to_csv("home.csv", index=False)
    error = mistake("--group", "day", "--holdout", "0", "--max-advantage", "0.1", "--quiet")
    assert "ask by --ratio instead" in error


# --- Mistakes in the columns ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--group dya", "no column 'dya' for the groups. Did you mean 'day'"),
        ("--group day:dya", "the unit 'dya' of column 'day'. Did you mean 'day'"),
        ("--group day:day", "group column 'day' holds 0 in row 1, which is no date"),
        ("--group fall:day", "'fall' is the public fact and cannot be --group"),
        ("--group rows:1", "'rows:1' must name how many successive rows"),
        ("--sensors hall,day --group day:week", "'day' is a fact, the group.* cannot be a sensor"),
        ("--sensors hal,door", "no column 'hal' for the sensors. Did you mean 'hall'"),
        ("--sensors hall,fall", "'fall' is a fact.* cannot be a sensor"),
        ("--sensors day --group day", "'day' is a fact, the group.* cannot be a sensor"),
        ("--sensors hall,hall", "'hall' is named twice"),
        ("--sensors ,", "no sensor columns are left"),
        ("--exclude hal", "no column 'hal' for the columns to leave out"),
        ("--group fall", "'fall' is the public fact and cannot be --group"),
        ("--private fall", "'fall' is named as a fact twice"),
        ("--private who", "'who' is named as a fact twice"),
    ],
)
def test_a_wrong_column_is_named_with_what_there_is(mistake, options, words):
    assert re.search(words, mistake(*options.split()))


@pytest.mark.parametrize("role", ["public", "private"])
def test_a_wrong_fact_is_named_with_close_matches(mistake, role):
    facts = {"public": "fall", "private": "who"} | {role: "whos"}
    given = ("--public", facts["public"], "--private", facts["private"])
    error = mistake(facts=given)
    assert f"no column 'whos' for the {role} fact. Did you mean 'who'? There are: 'hall'" in error


def test_a_group_by_day_of_a_column_without_times_says_what_was_seen(mistake):
    error = mistake("--group", "hall:day")
    assert "in row 1, which is no date or time that can be read; 79 of 79 other rows have" in error
    assert "name another column, or group by the values of 'hall' without ':day'." in error


def changed(**columns):
    return rooms().assign(**columns)


N = len(rooms())


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (changed(who="ann"), "private fact 'who' has one class only, 'ann'"),
        (changed(fall=1), "public fact 'fall' has one class only, 1"),
        (changed(hall=3, door=np.nan), r"in all 56 rows.* 'hall' \(3\).* Add sensors"),
        (rooms().head(5), "the table has 5 rows; at least 20"),
        (rooms().head(0), "no rows"),
        (changed(day=1), "group 'day' has one group only, '1'"),
        (changed(day=np.where(np.arange(N) > 2, 1, np.nan)), "'day' is missing in 3 of 80 rows"),
        (changed(fall=np.linspace(0, 1, N)), "public fact 'fall' looks continuous"),
        (changed(who=np.where(np.arange(N) > 2, "ann", None)), "'who' is missing in 3 of 80"),
        (changed(who=np.arange(N)), "private fact 'who' has 80 classes; at most 50"),
        (changed(who=["x" * 1001, "y"] * (N // 2)), "classes of 'who': .* at most 1000 char"),
        (changed(who=[2**64 - 1, 2**64 - 2] * (N // 2)), "classes of 'who': .* fits in 64 bits"),
        (changed(hall=[f"at {i}" for i in range(N)]), "'hall' has 56 different texts.* like 'at "),
        (changed(**{"x" * 300: rooms()["hall"]}), "the name of a sensor must have at most 200"),
        (changed(**{"a\x1bb": rooms()["hall"]}), r"control characters; it is 'a\\x1bb'"),
    ],
    ids=lambda value: "" if isinstance(value, pd.DataFrame) else value,
)
def test_what_cannot_be_learned_from_is_named_with_what_to_do(mistake, table, words):
    table.to_csv("home.csv", index=False)
    options = ("--group", "day") if "day" in words else ("--exclude", "day")
    if "different texts" in words:  # left out unless it is named
        options = ("--sensors", "hall,door")
    assert re.search(words, mistake(*options))


@pytest.mark.slow
@pytest.mark.usefixtures("few_attackers")
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_sensor_that_changes_only_in_held_out_rows_is_left_out(command, in_memory, monkeypatch):
    if not in_memory:
        monkeypatch.setattr(opening, "DEFAULT_MEMORY", 0)
    home = rooms()
    held_out = split_rows(home, Split(), ["fall", "who"])[1]
    home["door"] = np.isin(np.arange(N), held_out[:3]).astype(int)
    home.assign(lamp="on").to_csv("home.csv", index=False)
    asked = ("--exclude", "day", "--symbols", "door=3", *AT_ONCE)
    code, _, error = command("learn", "home.csv", *FACTS, "--out", "home.json", *asked)
    assert code in (0, 3)
    assert error.count("warning: the same in all 56 rows looked at: 'door' (0), 'lamp' ('on')") == 1
    assert Mapping.load("home.json").names == ["hall"]
    monkeypatch.setattr(opening, "DEFAULT_MEMORY", 1 << 30)  # an audit refuses what is too little
    code, printed, _ = command("audit", "home.json", "home.csv")
    assert code in (0, 3) and "were not used to learn" in printed


# --- Mistakes in the files -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.csv", None, "no such file"),
        ("t.csv", b"", "is empty"),
        ("t.csv", b"hall,fall,who\n1,1,\x81\n", "0x81 is not UTF-8"),
        ("t.csv.gz", b"no gzip", "damaged gzip"),
        ("t.parquet", b"no parquet", "not a readable Parquet file"),
        ("t.xlsx", b"PK", "not a readable Excel file"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(mistake, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    error = mistake(table=name)
    assert name in error and words in error


def test_a_folder_is_no_table(mistake, tmp_path):
    (tmp_path / "tables").mkdir()
    assert "tables: is a directory" in mistake(table="tables")


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("nowhere/home.json", "there is no directory .*nowhere. Make it first"),
        (".", "is a directory. Name a file in it"),
        ("home.csv", "is what is read"),
        ("home.csv/home.json", "there is no directory"),
        ("x" * 300, "cannot be written there .*too long"),
        ("loop", "cannot be written there|is not a regular file"),
        ("pipe", "is not a regular file"),
    ],
)
def test_a_place_that_cannot_take_the_mapping_is_found_out_first(mistake, tmp_path, out, words):
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    assert re.search(words, mistake(out=out))


def test_a_folder_that_cannot_be_written_to_is_named(mistake, tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    # Taking the permission away would not stop the superuser, who runs many a test.
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert "cannot be written there (Permission denied)" in mistake()


# --- What works ----------------------------------------------------------------------------


def test_learn_says_what_it_did_and_writes_a_mapping(command):
    code, printed, progress = command("learn", "home.csv", *FACTS, "--group", "day", "--out", "m")
    assert code == 0
    assert "2 sensors (hall, door)" in progress
    assert re.search(r"\d+ rows to learn from, \d+ held out by 'day' for the audit", progress)
    mapping = Mapping.load("m")
    assert f"wrote m, id {mapping.id[:19]}" in printed
    assert re.search(r"expected of one report .* advantage -?\d\.\d+", printed)
    assert "structural bound C1" in printed and "all of this is about one report" in printed
    useful, private, after = printed.splitlines()[-3:]
    assert re.match(
        r"use(ful|less): 'fall' is answered right( by designs without a fold)? in [\d.]+ %, by "
        r"guessing in 50",
        useful,
    )
    assert private.startswith(("private enough", "NOT shown to be private")) and "'who'" in private
    assert after == "next: discreet audit m home.csv --html report.html"


@pytest.mark.slow
def test_options_are_written_to_a_file_and_read_from_it(command):
    asked = [
        "--exclude",
        "day",
        "--ratio",
        "0.9",
        "--symbols",
        "hall=3",
        "--write-config",
        "d.toml",
    ]
    assert command("learn", "home.csv", *FACTS, *asked, "--out", "m")[0] == 0
    found = tomllib.loads(Path("d.toml").read_text())
    assert found == {"table": ["home.csv"], "public": "fall", "private": ["who"], "out": "m",
                     "exclude": "day", "ratio": 0.9, "symbols": ["hall=3"]}  # fmt: skip
    code, printed, _ = command("learn", "--config", "d.toml", "--out", "again", "--json")
    told = json.loads(printed)
    assert code == 0 and told["out"] == "again" and told["useful"] is True
    assert told["mapping_id"] == Mapping.load("m").id == Mapping.load("again").id
    assert told["expected"]["guessing_balanced_accuracy"] == 0.5
    assert (told["alternatives"], told["remembers"], told["rounds"]) == ([], None, None)
    assert told["rows"] | {"learned_from": 0, "held_out": 0} == {
        "sensors": ["hall", "door"], "learned_from": 0, "held_out": 0, "group": None,
        "streamed": False,
    }  # fmt: skip
    assert told["training"]["privacy_ratio"] == 0.9 and told["training"]["private_risk"] > 0
    assert told["next"] == "discreet audit again home.csv --html report.html"


@pytest.mark.slow
def test_json_has_no_number_where_no_bound_is(command, monkeypatch):
    monkeypatch.setattr("discreet.mappers.base.structural_epsilon", lambda table: float("inf"))
    symbols = ["--exclude", "day", "--method", "ndd", "--out", "m", "--json"]
    printed = command("learn", "home.csv", *FACTS, *symbols)[1]
    told = json.loads(printed, parse_constant=lambda name: pytest.fail(name))
    assert told["structural_epsilon"] is None and told["asked"]["default"] is True


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour = 1", "'colour' is no option of discreet learn, which has table, public"),
        ("config = 'a'", "'config' is no option"),
        ("out = {a = 1}", "out must be a text, a number, true, false or a list"),
        ("out = ", "is no TOML file"),
        ("ratio = 2", "--ratio must be strictly between 0 and 1, got 2"),
        ("ratio = 'much'", "'much'"),
    ],
)
def test_a_mistake_in_the_file_of_options_is_one_message(command, text, words):
    Path("d.toml").write_text(text)
    code, printed, error = command("learn", "home.csv", *FACTS, "--config", "d.toml", "--out", "m")
    assert (code, printed) == (2, "") and error.count("\n") == 1 and words in error
    assert not Path("m").exists()


def test_no_file_of_options_and_one_in_the_way_are_one_message(command):
    facts = ("learn", "home.csv", *FACTS, "--out", "m")
    assert "none.toml: cannot be read (No such file" in command(*facts, "--config", "none.toml")[2]
    assert "is what is read" in command(*facts, "--write-config", "home.csv")[2]
    assert not Path("m").exists()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.slow
def test_a_column_of_times_teaches_how_long_the_public_fact_lasts(command, streamed, monkeypatch):
    if streamed:
        monkeypatch.setattr(opening, "DEFAULT_MEMORY", 1000)
    home = rooms().drop(columns="day")
    home["at"] = pd.date_range("2024-03-01", periods=len(home), freq="60s").astype(str)
    home.to_parquet("t.parquet")
    options = ["--time-column", "at", "--every", "1m", "--holdout", "0", *AT_ONCE, "--out", "m"]
    code, printed, progress = command("learn", "t.parquet", *FACTS, *options)
    assert (
        code == 0 and "2 sensors (hall, door)" in progress and ("streamed" in progress) == streamed
    )
    chain = Mapping.load("m").chain
    assert (chain.interval, chain.steps) == (60.0, len(home) - 1)
    stays = ", ".join(f"{chain.moves[k][k]:.4f} ({c})" for k, c in enumerate((False, True)))
    assert f"remembers: 60 s later 'fall' is the same with probability {stays}, from" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decide", "weights"),
    [("likely", [1.0, 1.0]), ("cost=True:10", [1.0, 10.0]), ("cost=True:2,False:.5", [0.5, 2.0])],
)
def test_what_decisions_are_good_for_is_written_down(command, decide, weights):
    options = ["--exclude", "day", *AT_ONCE, "--decide", decide, "--out", "m"]
    code, _, _ = command("learn", "home.csv", *FACTS, *options)
    stated = Mapping.load("m").fusion.decide
    assert code == 0 and stated.rule == decide.split("=")[0]
    assert list(stated.weights) == weights


@pytest.mark.slow
def test_by_default_rare_classes_are_decided_as_readily(command):
    table = rooms(300)
    table[(table["fall"].cumsum() % 4 == 0) | ~table["fall"]].to_csv("rare.csv", index=False)
    options = ["--exclude", "day", *AT_ONCE, "--out", "m"]
    code, _, _ = command("learn", "rare.csv", *FACTS, *options)
    stated = Mapping.load("m").fusion.decide
    assert code == 0 and stated.rule == "balanced"
    assert stated.shares[1] == pytest.approx(0.2, abs=0.05)
    np.testing.assert_allclose(np.array(stated.weights) * stated.shares, 0.5)


@pytest.mark.slow
def test_quiet_says_nothing(command):
    # Symbols that say enough for no warning, and no sensor that the rows are sorted by.
    options = ["--ratio", "0.9", "--exclude", "day", "--out", "m", "--quiet"]
    assert command("learn", "home.csv", *FACTS, *options) == (0, "", "")
    assert Mapping.load("m").names == ["hall", "door"]


@pytest.mark.slow
def test_rows_that_resemble_their_neighbours_are_reported_with_a_group(command):
    rng = np.random.default_rng(0)
    home = rooms(400).drop(columns="day").assign(bed=np.cumsum(rng.normal(size=400)).round(3))
    times = pd.date_range("2015-02-04", periods=400, freq="h")
    home["bed"] -= np.repeat(home["bed"][::24].to_numpy(), 24)[:400]  # every day begins at 0
    home.assign(date=times).to_csv("series.csv", index=False)
    options = [*FACTS, "--out", "m", *AT_ONCE, "--quiet"]
    code, printed, said = command("learn", "series.csv", "--exclude", "date", *options)
    assert (code, printed) == (0, "")
    assert said.startswith("warning: rows that follow one another resemble each other: ")
    assert "Nothing is certified from such rows. Run again with --group date:day." in said
    dependence = Mapping.load("m").design.source.dependence
    assert dependence.found and dependence.lag == 1 and dependence.strength > 0.5
    code, printed, said = command("learn", "series.csv", "--group", "date:day", *options)
    assert (code, "resemble" in said) == (0, False)
    source = Mapping.load("m").design.source
    assert (source.split.group, source.dependence) == ("date:day", None)
    assert Mapping.load("m").names == ["hall", "door", "bed"]


def test_rows_that_depend_show_no_limit_to_be_kept(command):
    twice = pd.concat([rooms(200).drop(columns="day")] * 4)
    twice["hall"] = np.tile(np.random.default_rng(0).normal(size=200), 4) + twice["hall"]
    twice.sample(frac=1.0, random_state=0).to_csv("twice.csv", index=False)
    asked = ["twice.csv", *FACTS, "--max-advantage", "0.4", "--out", "m", "--time-limit", "5s"]
    code, printed, said = command("learn", *asked)
    assert code == 3 and "Nothing is certified from such rows." in said
    assert "NOT SHOWN to be met, as rows may depend\n" in printed
    assert "private enough" not in printed and "asked for is met" not in printed
    why = "since rows occur again and again. Drop the copies, or name what they share with --group."
    assert f"\nNOT shown to be private, {why} If rows were independent: an attacker" in printed
    assert Mapping.load("m").design.expected["met"] == 0.0
    code, printed, _ = command("learn", *asked, "--json")
    told = json.loads(printed)
    assert (code, told["met"], told["expected"]["met"]) == (3, False, 0.0)
    assert told["not_shown"].startswith("rows occur again and again. Drop the copies")


@pytest.mark.slow
def test_copies_in_different_groups_show_no_limit_to_be_kept(command):
    """A table that was appended to itself, and groups that do not keep copies together."""
    once = rooms(200).drop(columns="day")
    once["hall"] += np.random.default_rng(0).normal(size=200)
    pd.concat([once] * 10).to_csv("ten.csv", index=False)
    asked = ["ten.csv", *FACTS, "--max-advantage", "0.4", "--out", "m", "--time-limit", "5s"]
    code, printed, said = command("learn", *asked)
    assert code == 3 and "rows that are 200 apart resemble each other" in said
    assert "--group rows" not in said and "without the 1800 rows that repeat an earlier" in said
    for group in ("rows:100", "rows:150"):
        code, printed, said = command("learn", *asked, "--group", group)
        assert code == 3 and "warning: rows occur again and again in different groups" in said
        assert "Nothing is certified from such groups. Drop the copies" in said
        assert "NOT shown to be private, since rows occur again and again in diff" in printed
        assert command("audit", "m", "ten.csv", "--max-advantage", "0.45")[0] == 3


@pytest.mark.slow
def test_homes_that_nobody_named_show_no_limit_to_be_kept(command, rng):
    homes(rng).to_csv("homes.csv", index=False)
    asked = [*FACTS, "--out", "m", "--max-advantage", "0.4", "--exclude", "Home ID"]
    code, printed, _ = command("learn", "homes.csv", *asked)
    assert code == 3 and "since rows of one 'Home ID' group may belong together. If " in printed
    assert "learn again with --group 'Home ID'. If rows were independent: an attacker" in printed


@pytest.mark.slow
def test_odd_names_are_no_markup_and_no_trouble(command):
    odd = {"hall": "[/red] küche 🏠 :smile:", "who": "wér", "door": "a, b"}
    rooms().rename(columns=odd).to_csv("odd.csv", index=False)
    names = ["--sensors", '[/red] küche 🏠 :smile:,"a, b"']
    facts = ["--public", "fall", "--private", "wér"]
    options = [*names, *AT_ONCE, "--out", "[red] é.json"]
    code, _, progress = command("learn", "odd.csv", *facts, *options)
    assert code == 0
    assert "2 sensors ([/red] küche 🏠 :smile:, a, b)" in progress
    mapping = Mapping.load("[red] é.json")
    assert mapping.names == [odd["hall"], "a, b"]
    assert mapping.private[0].name == "wér"


@pytest.mark.slow
def test_symbols_and_bins_are_chosen_for_all_columns_and_for_single_ones(command):
    rng = np.random.default_rng(0)
    names = {"hall": "a = b", "door": "c, d"}
    home = rooms().assign(level=rng.normal(size=N), room=rng.choice(["bath", "bed"], N))
    home["hall"] += rng.normal(size=N)
    home.rename(columns=names).to_csv("home.csv", index=False)
    options = ["--symbols", "3", "--symbols", "a = b=2", "--exclude", "day", "--holdout", "0"]
    options += ["--bins", '8,"c, d"=4', "--bins", "a = b=5", "--quiet", "--out", "m"]
    options += ["--binning", "uniform", "--binning", '"c, d"=categories', *AT_ONCE]
    assert command("learn", "home.csv", *FACTS, *options)[0] == 0
    mapping = Mapping.load("m")
    assert mapping.names == ["a = b", "c, d", "level", "room"]
    assert mapping.n_symbols == [2, 3, 3, 3]
    hall, door, level, room = (sensor.encoder for sensor in mapping.sensors)
    assert [len(hall.edges), len(level.edges)] == [4, 7]
    assert np.ptp(np.diff(level.edges)) < 1e-9  # of one width, as asked for all numbers
    assert (door.kind, room.kind) == ("categories", "categories")


@pytest.mark.slow
def test_a_choice_for_every_column_is_the_choice_for_all(command):
    for out, choice in (("a", "3"), ("b", "hall=3,door=3")):
        options = ["--exclude", "day", "--symbols", choice, "--quiet", *AT_ONCE, "--out", out]
        assert command("learn", "home.csv", *FACTS, *options)[0] == 0
    assert Mapping.load("a").id == Mapping.load("b").id


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv", "t.parquet"])
@pytest.mark.slow
def test_the_same_table_in_another_format_gives_the_same_mapping(command, name, tmp_path):
    home = rooms()
    if name == "t.parquet":
        home.to_parquet(name)
    else:
        home.to_csv(name, index=False, sep="\t" if "tsv" in name else ",")
    for table, out in (("home.csv", "a"), (name, "b")):
        arguments = ["--exclude", "day", "--out", out, *AT_ONCE, "--quiet"]
        assert command("learn", table, *FACTS, *arguments)[0] == 0
    assert Mapping.load("a").id == Mapping.load("b").id


@pytest.mark.slow
def test_no_holdout_is_said_aloud(command):
    options = ["--holdout", "0", *AT_ONCE, "--out", "m"]
    _, _, progress = command("learn", "home.csv", *FACTS, *options)
    assert "80 rows to learn from, none held out" in progress


@pytest.mark.slow
def test_a_stated_limit_that_is_not_shown_to_be_kept_is_exit_code_3_with_the_file(command):
    """Thirty rows show nothing."""
    few().to_csv("few.csv", index=False)
    options = ["--public", "h", "--private", "g", "--max-advantage", "0.05", "--out", "m"]
    code, printed, said = command("learn", "few.csv", *options, "--time-limit", "5s")
    assert code == 3 and "asked: 5); NOT MET" in printed and "Not met: at most" in said
    assert "\nNOT shown to be private: " in printed
    assert Mapping.load("m").design.expected["met"] == 0.0


def test_a_limit_that_nobody_can_exceed_is_refused(command, tmp_path):
    options = ["--exclude", "day", "--max-advantage", "0.7", "--out", "m"]
    code, _, error = command("learn", "home.csv", *FACTS, *options)
    assert code == 2 and "--max-advantage 0.7 limits nothing: guessing 'who', of 2" in error
    assert not Path("m").exists()


def test_a_limit_that_limits_nothing_is_refused_before_sensors_are_read(monkeypatch, command):
    monkeypatch.setattr(learning, "_draw_sample", lambda *_: pytest.fail("sensors were read"))
    options = ["--exclude", "day", "--max-advantage", "0.5", "--out", "m"]
    code, _, error = command("learn", "home.csv", *FACTS, *options)
    assert code == 2 and "--max-advantage 0.5 limits nothing" in error


def test_the_method_that_is_gone_names_the_one_in_its_place(command):
    code, _, error = command("learn", "home.csv", *FACTS, "--method", "model", "--out", "m")
    assert code == 2 and "Use --method auto" in error
    code, _, error = command("frontier", "home.csv", *FACTS, "--methods", "npo,model", "--out", "m")
    assert code == 2 and "Use --methods auto" in error


def homes(rng, count=60, rows=10, effect=0.0):
    """Rows of homes in random order; who lives there stays the same, and so does a habit."""
    home = rng.permutation(np.repeat(np.arange(count), rows))
    habit = effect * rng.normal(size=count)[home]
    table = rooms(count * rows).drop(columns="day")
    table["door"] = (habit + rng.normal(size=len(home))).round(2)
    return table.assign(who=np.where(home % 2, "ann", "bob"), **{"Home ID": home})


@pytest.mark.slow
def test_a_column_that_rows_may_belong_together_by_is_hinted_at(command, rng):
    homes(rng).to_csv("homes.csv", index=False)
    options = [*FACTS, "--out", "m", *AT_ONCE, "--quiet"]
    _, _, said = command("learn", "homes.csv", "--exclude", "Home ID", *options)
    assert said.startswith("warning: column 'Home ID' has 60 values in 600 rows, and 'who' is the ")
    assert "rows of one 'Home ID' group may belong together" in said
    assert "learn again with --group 'Home ID';" in said
    _, _, said = command("learn", "homes.csv", "--group", "Home ID", *options)
    assert "Home ID" not in said


@pytest.mark.slow
def test_homes_that_follow_one_another_are_proposed_before_stretches_of_rows(command, rng):
    homes(rng, effect=2.0).sort_values("Home ID").to_csv("homes.csv", index=False)
    options = [*FACTS, "--exclude", "Home ID", "--out", "m", *AT_ONCE, "--quiet"]
    _, _, said = command("learn", "homes.csv", *options)
    assert "resemble each other" in said and "Run again with --group 'Home ID'." in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "advice"),
    [(2, "Add groups, or name finer ones."), (4, "Add groups, hold out more, or name finer ones.")],
)
def test_groups_that_leave_one_to_the_audit_are_warned_of(command, count, advice):
    rooms().assign(day=np.arange(N) % count).to_csv("few.csv", index=False)
    options = ["--group", "day", "--out", "m", *AT_ONCE, "--quiet"]
    code, _, said = command("learn", "few.csv", *FACTS, *options)
    assert code == 0
    assert f"group 'day' has {count} groups, 1 of which is held out: an audit needs" in said
    assert advice in said and "give more rows" not in said


# --- Warnings ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_a_useless_mapping_is_warned_of_by_every_method_quiet_or_not(command, method):
    hall, door = np.random.default_rng(1).integers(2, size=(2, 400))
    rooms(400).assign(hall=hall, door=door).to_csv("noise.csv", index=False)
    options = ["--exclude", "day", "--method", method, "--out", "m"]
    options += ["--time-limit", "1s"] if method == "auto" else []
    for quiet in ([], ["--quiet"]):
        code, _, said = command("learn", "noise.csv", *FACTS, *options, *quiet)
        assert code == 0 and "warning: " in said and "no better than guessing" in said


@pytest.mark.slow
def test_warnings_of_ours_are_one_line_each_and_others_are_not_shown(command, monkeypatch):
    from discreet import learning

    learn = learning.learn

    def noisy(*args, **kwargs):
        warnings.warn("a library speaks", FutureWarning, stacklevel=1)
        return learn(*args, **kwargs)

    monkeypatch.setattr(learning, "learn", noisy)
    rng = np.random.default_rng(1)
    rooms().assign(hall=rng.integers(2, size=N), door=rng.integers(2, size=N)).to_csv(
        "noise.csv", index=False
    )
    options = ["--exclude", "day", "--kernel", "count", "--ratio", "0.999999", "--out", "m"]
    code, printed, error = command("learn", "noise.csv", *FACTS, *options, "--quiet")
    assert (code, printed) == (0, "")
    lines = error.splitlines()
    assert len(lines) == 2 and all(line.startswith("warning: ") for line in lines)
    assert "'count' kernel" in error and "no better than guessing" in error


# --- Help ----------------------------------------------------------------------------------

COMMANDS = typer.main.get_command(cli.command_line([])).commands


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_every_help_has_an_example_that_parses(command, name):
    code, printed, error = command(*([name] if name else []), "--help")
    assert (code, error) == (0, "")
    examples = [line.strip() for line in printed.splitlines() if line.startswith("      discreet ")]
    assert examples
    assert max(map(len, printed.splitlines())) <= 80
    for example in examples:
        program, sub, *arguments = shlex.split(example)
        assert program == "discreet" and sub in COMMANDS
        COMMANDS[sub].make_context(sub, arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name):
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_version_and_a_bare_command(command):
    assert command("--version") == (0, f"discreet {__version__}\n", "")
    code, printed, _ = command()
    assert code == 0 and "learn" in printed and "demo" in printed


def test_help_does_not_wait_for_the_numerical_libraries(tmp_path):
    shown = run_apart("--help", folder=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    assert "Usage: discreet" in shown.stdout
    assert "rich.progress" not in shown.stderr
    assert not re.search(r"\b(numpy|pandas|scipy|sklearn)\b", shown.stderr)


@pytest.mark.slow
def test_the_module_runs_like_the_command_and_a_mistake_has_no_traceback(tmp_path):
    ended = run_apart("learn", "none.csv", *FACTS, "--out", "m", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "discreet: none.csv: no such file. Check the path.\n"
    assert sys.modules["discreet.cli"].main is cli.main


@pytest.mark.slow
@pytest.mark.usefixtures("few_attackers")
def test_an_audit_of_homes_that_are_not_grouped_rests_on_that(command, rng):
    homes(rng).to_csv("homes.csv", index=False)
    options = ["--exclude", "Home ID", "--out", "m", *AT_ONCE, "--quiet"]
    command("learn", "homes.csv", *FACTS, *options)
    _, out, _ = command("audit", "m", "homes.csv", "--max-advantage", "0.9")
    first = out.splitlines()[0]
    assert first.startswith("WITHIN LIMITS ON CONDITION")
    assert "'who' is the same in all rows of each" in first and "--group 'Home ID'" in first
    _, out, _ = command("audit", "m", "homes.csv", "--max-advantage", "0.9", "--assume-independent")
    assert "rows are independent draws (declared)" in out.splitlines()[0]
