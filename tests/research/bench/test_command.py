"""``research.bench`` from end to end, small, and what it refuses."""

import pytest
from support.benches import contest, run_of
from support.commands import run
from support.matrices import sparing

from research.bench import __main__ as bench
from research.bench.__main__ import BENCHMARKS
from research.bench.report import draw
from research.bench.results import Run


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
@pytest.mark.parametrize("names", sparing(["one-pass fit", ""], "one-pass fit"))
def test_tables_json_and_picture_from_one_command(command, tmp_path, names):
    asked = ("--quick", "--rounds", "1", "--out", "run.json", "--plot", "run.svg")
    code, printed, _ = command(*names.split(), *asked, "--rows", "2000", "--sensors", "2")
    assert code == 0
    found = Run.load("run.json")
    assert [each.name for each in found.contests] == (names.split() or list(BENCHMARKS))
    assert found.quick and not any(each.checks for each in found.contests)
    for each in found.contests:
        assert each.title in printed
        assert all(timed.name in printed for timed in each.times)
        assert len(each.times[0].clock) == 1
    assert "wrote run.json and run.svg" in printed
    picture = (tmp_path / "run.svg").read_text()
    assert picture.startswith("<?xml") and "scikit-learn LogisticRegression" in picture


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
