"""``research.reproduce`` from end to end, on experiments that make their figures up."""

import json
import re

import pytest
from support.commands import run
from support.reproductions import quick

from discreet.errors import InputError
from research import reproduce
from research.paper.results import Result
from research.reproduce import EXPERIMENTS

QUICK = ("--draws", "2", "--jobs", "1")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {name: quick(name) for name in EXPERIMENTS})
    monkeypatch.setattr(reproduce, "find_file", only_adult(tmp_path))
    return lambda *arguments: run(monkeypatch, capsys, *arguments, main=reproduce.main)


def only_adult(folder):
    """Stand in for the search: Adult is there, OPPORTUNITY is not."""
    (folder / "data").mkdir()
    (folder / "data" / "adult.data").write_text("rows")

    def find(name, given=None):
        file = (folder / "data" if given is None else given) / name
        if not file.is_file():
            raise InputError(f"{name}: not found. Put it into a folder.")
        return file

    return find


@pytest.fixture
def mistake(command, tmp_path):
    """Run with a mistake, which must end in one line and leave nothing behind."""

    def check(*arguments):
        before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
        code, printed, error = command(*arguments)
        assert (code, printed) == (2, "")
        assert error.startswith("error: ") and error.count("\n") == 1
        after = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
        assert after == before
        return error

    return check


# --- The job -------------------------------------------------------------------------------


def test_one_experiment_gives_a_table_json_and_a_picture(command, tmp_path):
    code, printed, error = command("skewed-prior", *QUICK, "--out", "r")
    assert (code, error) == (0, "")
    assert sorted(each.name for each in (tmp_path / "r").iterdir()) == [
        "skewed-prior.json",
        "skewed-prior.svg",
    ]
    found = Result.load("r/skewed-prior.json")
    assert found.asked.draws == 2 and len(found.rows[0].figures["public"].values) == 2
    assert "printed" in printed and "difference" in printed and "Choices:" in printed
    assert "wrote r/skewed-prior.json and r/skewed-prior.svg" in printed
    assert "<svg" in (tmp_path / "r" / "skewed-prior.svg").read_text()


@pytest.mark.slow
def test_all_make_one_page_and_say_what_did_not_run(command, tmp_path):
    code, printed, _ = command("--all", *QUICK, "--out", "r")
    assert code == 0
    names = {each.name for each in (tmp_path / "r").iterdir()}
    ran = [name for name in EXPERIMENTS if name != "opportunity"]
    assert names == {"index.html", *(f"{n}.{e}" for n in ran for e in ("json", "svg"))}
    assert "Not run here: S2-Drill.dat: not found" in printed and "10.53 %" in printed
    assert "It is looked for where --data says" in printed
    assert printed.endswith("wrote r/index.html\n")
    page = (tmp_path / "r" / "index.html").read_text()
    assert page.count("<svg") == 5 and "Not run here." in page


@pytest.mark.slow
def test_json_is_all_that_is_printed(command):
    code, printed, _ = command("m-ary", "adult", *QUICK, "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(printed)] == ["m-ary", "adult"]


@pytest.mark.slow
def test_quiet_means_quiet(command):
    assert command("m-ary", *QUICK, "--quiet") == (0, "", "")


@pytest.mark.slow
def test_the_data_file_and_the_seed_are_recorded(command, tmp_path):
    command("adult", *QUICK, "--seed", "7", "--data", "data", "--out", "r")
    found = Result.load("r/adult.json")
    assert found.asked.seed == 7 and re.fullmatch("[0-9a-f]{64}", found.asked.data)


@pytest.mark.slow
def test_draws_have_a_default_of_their_own(command):
    command("adult", "m-ary", "--jobs", "1", "--out", "r")
    assert Result.load("r/adult.json").asked.draws == 20
    assert Result.load("r/m-ary.json").asked.draws == 10


# --- Going on ------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_done_is_not_computed_again(command, monkeypatch):
    first = command("m-ary", *QUICK)
    monkeypatch.setattr(reproduce, "run_experiment", None)
    code, printed, error = command("m-ary", *QUICK)
    assert (code, printed) == (0, first[1])
    assert error == "m-ary: from discreet-reproduction/m-ary.json\n"


@pytest.mark.parametrize(
    "other", [("--draws", "3"), ("--draws", "2", "--seed", "1"), ("--draws", "2", "--fresh")]
)
@pytest.mark.slow
def test_other_settings_or_a_fresh_start_compute_anew(command, other):
    command("m-ary", *QUICK)
    error = command("m-ary", "--jobs", "1", *other)[2]
    assert "from" not in error
    assert Result.load("discreet-reproduction/m-ary.json").asked.draws == int(other[1])


@pytest.mark.slow
def test_another_version_computes_anew(command, monkeypatch):
    command("m-ary", *QUICK)
    monkeypatch.setattr("discreet.__version__", "99.0")
    assert "from" not in command("m-ary", *QUICK)[2]
    assert Result.load("discreet-reproduction/m-ary.json").asked.discreet == "99.0"


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_finished(command, monkeypatch, tmp_path):
    real = reproduce.run_experiment

    def interrupted(experiment, *args, **kwargs):
        if experiment.name == "skewed-prior":
            raise KeyboardInterrupt
        return real(experiment, *args, **kwargs)

    monkeypatch.setattr(reproduce, "run_experiment", interrupted)
    code, _, error = command("--all", *QUICK, "--out", "r")
    assert code == 130
    assert error == ("stopped. 2 of 6 experiments are in r; the same command goes on from there.\n")
    assert {each.stem for each in (tmp_path / "r").iterdir()} == {"correlation", "threshold-ratio"}
    monkeypatch.setattr(reproduce, "run_experiment", real)
    code, _, error = command("--all", *QUICK, "--out", "r")
    assert code == 0 and "threshold-ratio: from r/threshold-ratio.json" in error


def test_an_interrupt_before_anything_is_finished_says_so(command, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_experiment", interrupted)
    code, _, error = command("m-ary", *QUICK)
    assert (code, error) == (130, "stopped. No experiment was finished.\n")


def test_a_picture_that_cannot_be_written_leaves_no_json(command, monkeypatch, tmp_path):
    def broken(*_):
        raise InputError("no room.")

    monkeypatch.setattr(reproduce, "svg_of", broken)
    assert command("m-ary", *QUICK, "--out", "r")[0] == 2
    assert not list((tmp_path / "r").iterdir())


# --- Mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "name an experiment .correlation, .*, or give --all"),
        ("m-ary --all", "--all was given together with 'm-ary'"),
        ("skewed", "no experiment 'skewed'. Did you mean 'skewed-prior'"),
        ("m-ary --draws 0", "--draws: must be a whole number from 1 to 10000, got '0'"),
        ("m-ary --draws many", "--draws: must be a whole number .*'many'"),
        ("m-ary --jobs 0", "--jobs: must be a whole number from 1 to 1024"),
        ("m-ary --jobs 2 --dask local:2", "--jobs 2 was given together with --dask local:2"),
        ("m-ary --seed=-1", "--seed: must be a whole number from 0"),
        ("m-ary --data data", "none of these experiments reads a file"),
        ("adult --data none", "--data none: no such file or folder"),
        ("--all --data data/adult.data", "is one file, and 2 experiments read one each"),
        ("opportunity", "S2-Drill.dat: not found"),
        ("m-ary opportunity", "S2-Drill.dat: not found"),
        ("m-ary --out data/adult.data", "--out data/adult.data is a file. Name a folder"),
        ("m-ary --out none/r", "--out none/r: cannot be written there"),
        ("m-ary --drawz 3", "--drawz.* See: python -m research.reproduce --help"),
    ],
)
def test_a_mistake_is_one_message(mistake, arguments, words):
    assert re.search(words, mistake(*arguments.split()))


def test_a_file_that_is_none_of_ours_is_not_written_over(mistake, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "m-ary.json").write_text('{"format": "discreet-mapping"}')
    assert "is not a file that `make reproduce` wrote" in mistake("m-ary", "--out", "r")


def test_help_names_every_experiment(command):
    code, shown, _ = command("--help")
    assert code == 0 and all(name in shown for name in EXPERIMENTS)
