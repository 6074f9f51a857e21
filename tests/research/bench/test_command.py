"""``research.bench`` from end to end, small, and what it refuses."""

import sys

import pytest
from support.benches import contest, run_of
from support.commands import run

from research.bench import __main__ as bench
from research.bench import large_cases
from research.bench.__main__ import BENCHMARKS
from research.bench.report import draw
from research.bench.results import Run
from research.bench.tables import Size


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(monkeypatch, capsys, *arguments, main=bench.main)


@pytest.fixture
def mistake(command, tmp_path):
    def check(*arguments):
        before = {each: each.read_bytes() for each in tmp_path.rglob("*")}
        code, printed, error = command(*arguments)
        assert (code, printed) == (2, "")
        assert error.startswith("error: ") and error.count("\n") == 1
        assert {each: each.read_bytes() for each in tmp_path.rglob("*")} == before
        return error

    return check


@pytest.mark.slow
def test_tables_json_and_picture_from_one_command(command, tmp_path):
    code, printed, _ = command("--quick", "--rounds", "1", "--out", "run.json", "--plot", "run.svg")
    assert code == 0
    found = Run.load("run.json")
    assert [each.name for each in found.contests] == list(BENCHMARKS)
    assert found.quick and not any(each.checks for each in found.contests)
    for each in found.contests:
        assert each.title in printed
        assert all(timed.name in printed for timed in each.times)
        assert len(each.times[0].clock) == 1
    assert "wrote run.json and run.svg" in printed
    picture = (tmp_path / "run.svg").read_text()
    assert picture.startswith("<?xml") and "scikit-learn LogisticRegression" in picture


@pytest.mark.slow
def test_both_end_at_the_same_objective(command):
    code, printed, _ = command("logistic", "--quick", "--rounds", "1")
    assert code == 0
    line = next(line for line in printed.splitlines() if line.startswith("objective"))
    ours, theirs = (float(word.strip(",;")) for word in line.split() if word[:2] == "0.")
    assert ours <= theirs + 1e-6


def test_what_is_not_installed_is_said(command, monkeypatch):
    monkeypatch.setattr(large_cases, "find_spec", lambda name: None)
    monkeypatch.setattr(large_cases, "has_numba", lambda: False)
    code, printed, _ = command("one-pass", "--quick", "--rounds", "1")
    assert code == 0
    for name in ("ours, 1 thread", "ours, 2 threads", "LightGBM stump"):
        assert f"{name}: not installed" in printed


def test_lightgbm_takes_part_where_it_is(monkeypatch):
    calls = []

    class Booster:
        def __init__(self, options, data):
            assert options["num_threads"] == 1

        def update(self):
            calls.append(1)

    library = type(sys)("lightgbm")
    library.Booster, library.Dataset = Booster, lambda *data, **more: data
    monkeypatch.setitem(sys.modules, "lightgbm", library)
    monkeypatch.setattr(large_cases, "find_spec", lambda name: library)
    setup = large_cases.prepare_pass(Size.of(True))
    setup.contestants["LightGBM stump"](0)
    assert calls == [1] and not setup.missing


def test_two_runs_are_compared(command):
    run_of(contest()).save("old.json")
    run_of(contest(ours=(3.0, 3.1, 2.9))).save("new.json")
    code, printed, _ = command("--compare", "old.json", "new.json")
    assert code == 0
    assert "slower" in printed


def test_mistakes_are_one_message_and_write_nothing(mistake, tmp_path):
    (tmp_path / "mine.json").write_text("precious")
    assert "no benchmark 'one-pas'. Did you mean 'one-pass'?" in mistake("one-pas")
    assert "--rounds: must be" in mistake("--rounds", "0")
    assert "--rows: must be" in mistake("--rows", "5")
    assert "is not a file that `make bench` wrote" in mistake("--quick", "--out", "mine.json")
    assert "ends in .svg or .png" in mistake("--quick", "--plot", "run.pdf")
    assert "is --out as well" in mistake("--quick", "--out", "a.svg", "--plot", "a.svg")
    assert "measures nothing; leave --quick out" in mistake(
        "--quick", "--compare", "mine.json", "mine.json"
    )
    assert "no such file" in mistake("--compare", "absent.json", "mine.json")


def test_the_picture_has_every_contestant_and_its_ratio():
    figure = draw(run_of(contest(), contest(name="fit", title="A fit")))
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["ours", "peer"]
    assert [each.get_text() for each in first.texts] == ["1", "2, ×2"]
    assert second.get_title(loc="left").startswith("A fit")
