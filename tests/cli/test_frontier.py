"""``discreet frontier`` from end to end, with real signals to a real process where it matters."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from support.commands import FACTS, rooms, run, run_apart
from support.frontiers import point
from support.sites import eventually
from support.terminals import Terminal, on_screen

from discreet import Mapping
from discreet.cli import progress
from discreet.cli.frontier import PointsReport
from discreet.frontiers import frontier as tradeoff
from discreet.frontiers.frontier import Frontier, Standing

pytestmark = pytest.mark.slow

QUICK = ("--exclude", "day", "--ratios", "0.9,0.99", "--jobs", "1", "--methods", "npo,ndd")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    rooms().to_csv("home.csv", index=False)
    return lambda *arguments: run(monkeypatch, capsys, "frontier", *arguments)


@pytest.fixture
def mistake(command, tmp_path):
    """Run with a mistake, which must end in one line and leave nothing behind."""

    def check(*options, table="home.csv", out="f.json"):
        before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
        code, printed, error = command(table, *FACTS, "--out", out, *options)
        assert (code, printed) == (2, "")
        assert error.startswith("discreet: ") and error.count("\n") == 1
        after = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
        assert after == before
        return error

    return check


# --- The job -------------------------------------------------------------------------------


def test_table_json_and_picture_from_one_command(command, tmp_path):
    code, printed, error = command("home.csv", *FACTS, *QUICK, "--out", "f.json", "--plot", "f.svg")
    assert code == 0 and "56 rows to learn from, 24 held out" in error
    found = Frontier.load("f.json")
    assert [p.key for p in found.points] == [
        ("ndd", 2, None),
        ("npo", 2, 0.9),
        ("npo", 2, 0.99),
    ]
    assert found.about.public == "fall" and found.about.private == ("who",)
    assert all(line in printed for line in found.table().splitlines())
    assert "wrote f.json and f.svg" in printed
    assert "<svg" in (tmp_path / "f.svg").read_text()
    code, printed, _ = command(
        "home.csv", *FACTS, *QUICK, "--out", "f.json", "--methods", "npo,ndd", "--json"
    )
    assert code == 0 and Frontier.from_dict(json.loads(printed)) == found


def test_the_same_command_again_computes_nothing(command, monkeypatch):
    first = command("home.csv", *FACTS, *QUICK, "--out", "f.json")
    monkeypatch.setattr(tradeoff, "_learn", None)
    code, printed, error = command("home.csv", *FACTS, *QUICK, "--out", "f.json")
    assert (code, printed) == (0, first[1])
    assert "3 of 3 points from f.json" in error


def test_another_table_begins_anew_and_says_so(command):
    command("home.csv", *FACTS, *QUICK, "--out", "f.json")
    before = Frontier.load("f.json")
    rooms(seed=1).to_csv("home.csv", index=False)
    error = command("home.csv", *FACTS, *QUICK, "--out", "f.json")[2]
    assert "f.json holds points of another table or other options; starting over" in error
    assert Frontier.load("f.json").about.source != before.about.source


def test_options_reach_the_mappers(command):
    options = ["--symbols", "3", "--loss", "square", "--bins", "hall=2", "--binning", "uniform"]
    code, _, _ = command(
        "home.csv", *FACTS, *QUICK, *options, "--group", "day", "--seed", "3", "--confidence",
        "0.8", "--methods", "ndd", "--exclude", "", "--sensors", "hall,door", "--out", "f.json",
    )  # fmt: skip
    found = Frontier.load("f.json")
    assert code == 0 and found.points[0].n_symbols == 3
    assert found.about.parameters["loss"] == "square"
    assert found.about.parameters["n_bins"] == {"door": 10, "hall": 2}
    assert found.about.source.split.group == "day" and found.about.source.split.seed == 3
    assert found.about.confidence == 0.8 and found.about.sensors == ("hall", "door")
    assert found.about.independent_rows < found.about.held_out


@pytest.mark.parametrize("rule", ["likely", "cost=True:10"])
def test_points_are_compared_by_what_decisions_are_good_for(command, rule):
    rooms(300).to_csv("home.csv", index=False)
    code, printed, _ = command(
        "home.csv", *FACTS, *QUICK, "--methods", "ndd", "--decide", rule, "--out", "f.json"
    )
    found = Frontier.load("f.json")
    kind = rule.partition("=")[0]
    assert code == 0 and found.about.rule == kind
    assert found.about.parameters["decide"] == ("likely" if kind == "likely" else {"True": 10.0})
    assert (found.points[0].cost is None) == (found.about.raw.cost is None) == (kind == "likely")
    assert f"compared by their {'error' if kind == 'likely' else 'cost'}." in printed
    assert found.points[0].public_error.value < found.about.guessing.error
    assert found.about.raw.error < found.about.guessing.error


def test_rows_that_resemble_their_neighbours_are_reported_and_may_be_declared(command):
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=400)).round(3)
    walk -= np.repeat(walk[::24], 24)[:400]  # every day begins at 0
    times = pd.date_range("2015-02-04", periods=400, freq="h")
    rooms(400).drop(columns="day").assign(bed=walk, date=times).to_csv("series.csv", index=False)
    options = ["--ratios", "0.9", "--methods", "ndd", "--jobs", "1", "--out", "f.json"]
    _, printed, said = command("series.csv", *FACTS, *options, "--exclude", "date")
    assert "warning: rows that follow one another resemble each other: " in said
    assert "Nothing is certified from such rows. Run again with --group date:day." in said
    assert "If they are independent all the same, add --assume-independent." in said
    assert "none: no bound, since rows that follow" in printed
    assert "Nothing holds for certain here" in printed and "hold at 95 %" not in printed
    declared = ["--exclude", "date", "--assume-independent"]
    _, printed, said = command("series.csv", *FACTS, *options, *declared)
    assert "warning" not in said and "other options; starting over" in said
    assert "what was declared: rows are independent draws, although rows that follow" in printed
    assert Frontier.load("f.json").points[0].bound.certifiable
    _, printed, said = command("series.csv", *FACTS, *options, "--group", "date:day")
    assert "warning" not in said and "This rests on" not in printed


def test_a_frontier_of_an_older_version_is_refused_and_left_alone(mistake, tmp_path):
    (tmp_path / "f.json").write_text('{"format": "discreet-frontier", "version": 1}')
    assert "f.json: version is 1, from before frontiers recorded balanced accuracy. " in mistake()


def test_the_knee_can_be_had_by_learn(command, monkeypatch, capsys):
    command("home.csv", *FACTS, *QUICK, "--methods", "npo", "--out", "f.json")
    wanted = Frontier.load("f.json").points[0]
    run(
        monkeypatch, capsys, "learn", "home.csv", *FACTS, "--exclude", "day",
        "--method", "npo", "--ratio", str(wanted.ratio), "--out", "m.json",
    )  # fmt: skip
    assert Mapping.load("m.json").id == wanted.mapping


def test_quiet_means_quiet_with_the_methods_that_are_tried_unless_named(command):
    quick = QUICK[: QUICK.index("--methods")]
    assert command("home.csv", *FACTS, *quick, "--out", "f.json", "--quiet") == (0, "", "")
    assert {each.method for each in Frontier.load("f.json").points} == {"auto", "ndd"}


def test_a_kernel_that_is_blind_is_warned_about_once(command):
    error = command("home.csv", *FACTS, *QUICK, "--kernel", "count", "--out", "f.json")[2]
    assert error.count("warning: The 'count' kernel") == 1


# --- Mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--methods best", "--methods: each must be one of auto, .*, got best"),
        ("--methods ,", "--methods is empty"),
        ("--ratios 0.9,1.5", "--ratios: each must be a number strictly between 0 and 1, got 1.5"),
        ("--ratios nan", "--ratios: each must be .*, got nan"),
        ("--ratios some", "--ratios: each must be .*, got some"),
        ("--symbols 2,1", "--symbols: each must be a whole number from 2 to 256, got 1"),
        ("--symbols hall=3", "--symbols: each must be a whole number from 2 to 256, got hall=3"),
        ("--jobs 0", "--jobs must be from 1 to 1024, got 0"),
        ("--jobs many", "--jobs must be a whole number, got 'many'"),
        ("--decide often", "--decide must be balanced, likely or cost=CLASS:COST"),
        ("--decide cost=slip:2", "--decide names the class 'slip'"),
        ("--holdout 0", "holdout leaves no rows to measure with"),
        ("--confidence 1", "--confidence must be"),
        ("--kernel gauss", "--kernel must be one of"),
        ("--bins hal=4", "--bins names the column 'hal', which is no sensor"),
        ("--plot f.pdf", "a picture ends in .svg or .png, got 'f.pdf'"),
        ("--plot none/f.svg", "--plot none/f.svg: there is no directory"),
        ("--plot home.csv", "a picture ends in"),
        ("--group who", "'who' is the private fact and cannot be --group"),
        ("--publik fall", "--publik.* See: discreet frontier --help"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(mistake, options, words):
    assert re.search(words, mistake(*options.split()))


def test_files_that_cannot_be_used_are_refused(mistake, tmp_path):
    assert "no such" in mistake(table="none.csv").lower()
    assert "is what is read" in mistake(out="home.csv")
    assert "there is no directory" in mistake(out="none/f.json")
    (tmp_path / "m.json").write_text('{"format": "discreet-mapping"}')
    assert "is not a file that `discreet frontier` wrote" in mistake(
        "--exclude", "day", out="m.json"
    )
    (tmp_path / "bad.json").write_text('{"format": "discreet-frontier", "points": [')
    assert "bad.json: is not JSON" in mistake("--exclude", "day", out="bad.json")
    (tmp_path / "f.svg").write_text("old")
    assert "--plot f.svg is --out as well" in mistake("--plot", "f.svg", out="f.svg")


def test_what_is_missing_is_named(command):
    for arguments, words in (([], "TABLE"), (["home.csv", *FACTS], "--out")):
        code, printed, error = command(*arguments)
        assert (code, printed) == (2, "") and words in error and error.count("\n") == 1


# --- Ctrl-C and processes ------------------------------------------------------------------

SLOW_THIRD = """
import discreet.frontiers.frontier
def slow(*arguments, run=discreet.frontiers.frontier._run):
    for k, found in enumerate(run(*arguments)):
        if k == 2:
            print("working on the third")
            while True: time.sleep(0.05)  # a signal just before a long sleep would wait
        yield found
discreet.frontiers.frontier._run = slow
"""
ENDLESS = """
import discreet.cli.progress
discreet.cli.progress._QUIET_SECONDS = 0.1
"""


@pytest.fixture
def terminal(tmp_path):
    rooms().to_csv(tmp_path / "home.csv", index=False)
    started = []

    def start(*options, changes=""):
        arguments = ["frontier", "home.csv", *FACTS, "--out", "f.json", *options]
        started.append(Terminal(tmp_path, arguments, changes))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def test_an_interrupt_keeps_the_points_that_are_done(terminal, tmp_path):
    command = terminal(*QUICK, "--jobs", "1", changes=SLOW_THIRD)
    command.wait_for("working on the third")
    command.interrupt()
    assert command.end() == 130
    words = on_screen(command.text)
    assert "2 of 3 points are in f.json; the same command goes on from there" in words
    assert "Traceback" not in words
    kept = Frontier.load(tmp_path / "f.json")
    assert len(kept.points) == 2 and kept.planned == 3
    ended = run_apart("frontier", "home.csv", *FACTS, *QUICK, "--out", "f.json", folder=tmp_path)
    assert ended.returncode == 0 and "2 of 3 points from f.json" in ended.stderr
    found = Frontier.load(tmp_path / "f.json")
    assert {p.key for p in kept.points} < {p.key for p in found.points}


def test_an_interrupt_while_processes_learn_ends_them(terminal, tmp_path):
    rooms(1000).to_csv(tmp_path / "home.csv", index=False)
    ratios = ",".join(f"0.{k}" for k in range(100, 400))
    command = terminal("--exclude", "day", "--ratios", ratios, "--jobs", "2", changes=ENDLESS)
    command.wait_for("left")  # the bar has an idea of the time once a point is there
    command.interrupt()
    assert command.end() == 130
    words = on_screen(command.text)
    assert re.search(r"\d+ of 301 points are in f.json", words) and "Traceback" not in words
    content = json.loads((tmp_path / "f.json").read_text())
    assert content["planned"] == 301 and content["points"]


# --- Progress ------------------------------------------------------------------------------


def test_a_log_gets_a_line_now_and_then(monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.2)
    log = io.StringIO()
    report = PointsReport(Console(file=log, soft_wrap=True), tmp_path / "f.json")
    report(Standing("points", 0.0, found=1, finished=1, planned=5))
    report(Standing("points", 0.25, found=1, finished=2, planned=5, latest=point()))
    assert eventually(lambda: len(log.getvalue().splitlines()) > 1)
    report.close()
    lines = log.getvalue().splitlines()
    assert lines[0] == f"1 of 5 points from {tmp_path / 'f.json'}"
    assert lines[1].startswith("points ") and " of 5" in lines[1]
