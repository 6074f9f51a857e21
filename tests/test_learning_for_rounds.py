import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.commands import run

from discreet.cli.learn_text import say_rounds
from discreet.errors import InputError
from discreet.learning import prepare
from discreet.learning_for_rounds import RoundsFigure, learn_for_rounds
from discreet.task import Task
from research.houses import house

pytestmark = pytest.mark.filterwarnings("ignore:sensor .motion. tells")  # as it is meant to
OPTIONS = {"max_advantage": 0.2, "random_state": 0}


@pytest.fixture
def prepared(tmp_path):
    def make(time_column=None, method="npo", **options):
        path = tmp_path / "house.csv"
        house(np.random.default_rng(0), 4, 200, (0.9, 0.9)).to_csv(path, index=False)
        exclude = [] if time_column else ["date"]
        return prepare(
            Task(path, "fall", ["who"], exclude=exclude, method=method, time_column=time_column,
                 options=OPTIONS | options)
        )  # fmt: skip

    return make


def test_a_limit_on_a_window_becomes_one_on_a_round(prepared):
    _, figure = learn_for_rounds(prepared(), 60, 0.9)
    # stay 0.9: 0.64 is left by a step, and both sides add up to (1 + 0.64) / (1 - 0.64)
    assert figure.target <= 0.2 / np.sqrt(1.64 / 0.36) * (1 + 1e-6)
    assert figure.met and figure.reached <= 0.2


@pytest.mark.slow
def test_the_design_from_counts_keeps_the_window_itself(prepared):
    learned, figure = learn_for_rounds(
        prepared(method="auto", beyond_answer=True, n_folds=2), 60, 0.9
    )
    assert learned.mapper.rounds == pytest.approx(1.64 / 0.36, rel=1e-4)
    # Half the root of x, of which so many add up to Phi(sqrt(n x)) - 1/2 = 0.2.
    assert figure.target == pytest.approx(0.5244 / 2 / np.sqrt(1.64 / 0.36), abs=1e-4)
    assert figure.designed and figure.beyond_answer
    assert learned.mapper.private_risk_ >= 0.5 - figure.target


@pytest.mark.slow
def test_how_long_a_fact_lasts_is_read_from_the_series(prepared):
    known, read = (
        learn_for_rounds(prepared(column), 60, stay)[1]
        for column, stay in ((None, 0.9), ("date", None))
    )
    assert read.target == pytest.approx(known.target, rel=0.15)


def test_rows_that_do_not_support_it_say_how_many_could():
    figure = RoundsFigure(1440, 0.1, 0.01, "who", 0.3, 500, 45_301)
    assert not figure.met and "about 46,000 to learn from could." in say_rounds(figure)
    many = say_rounds(replace(figure, rows_needed=None, audit_rows=1_996_119))
    assert "no number to learn from could" in many and "about 2,000,000 held-out rows" in many


@pytest.fixture
def day(tmp_path, monkeypatch, capfd):
    """Learn with a limit on many rounds; one sensor tells both facts, one the public one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    h, g = rng.integers(2, size=(2, 800))
    table = pd.DataFrame({"a": h + g + rng.normal(size=800), "b": h + rng.normal(size=800)})
    table.assign(h=h, g=g, time=60 * np.arange(800)).to_csv("t.csv", index=False)

    def learn(*wish):
        facts = ("--public", "h", "--private", "g", "--out", "m.json")
        return run(monkeypatch, capfd, "learn", "t.csv", *facts, *wish)

    return learn


@pytest.mark.slow
def test_a_day_that_is_not_shown_is_exit_code_3_and_says_how_many_rows_could(
    day, monkeypatch, capfd
):
    asked = ("--exclude", "time", "--rounds", "1440", "--stay", "1", "--max-advantage", "0.1")
    code, printed, error = day(*asked, "--beyond-answer")
    assert code == 3 and "NOT MET: 560 rows do not show it" in error
    needed = re.search(r"takes about ([\d,]+) held-out rows", error)[1]
    assert 1e5 < int(needed.replace(",", "")) < 1e7
    *_, useful, private, following = printed.splitlines()
    assert useful.startswith("use") and "no limit was asked for" not in printed
    assert private.startswith("NOT shown to be private over 1,440 rounds: an attacker who knows")
    assert private.endswith("points; 10 were allowed")
    command = shlex.split(following.removeprefix("next: discreet "))
    for option in ("--rounds", "--stay", "--beyond-answer", "--max-advantage"):
        assert option in command
    code, audited, _ = run(monkeypatch, capfd, *command)
    assert code == 3 and "over 1440 rounds is not shown" in audited
    assert re.search(
        r"About [\d,]+ more rows like these would certify an advantage of 10 points", audited
    )


def test_a_program_is_told_what_all_rounds_tell(day):
    asked = ("--exclude", "time", "--rounds", "1440", "--stay", "1", "--max-advantage", "0.1")
    code, printed, error = day(*asked, "--beyond-answer", "--json")
    found = json.loads(printed)
    assert code == 3 and found["met"] is False and "NOT MET" in error
    rounds = found["rounds"]
    assert (rounds["rounds"], rounds["asked"], rounds["met"]) == (1440, 0.1, False)
    assert 0.1 < rounds["reached"] <= 0.5 and rounds["rows"] == 560 < rounds["audit_rows"]


@pytest.mark.slow
def test_the_next_step_of_a_series_names_its_times(day, monkeypatch, capfd):
    code, printed, _ = day("--rounds", "2", "--time-column", "time", "--max-advantage", "0.4")
    *_, summary, _, private, following = printed.splitlines()
    told = re.search(
        r"2 rounds together: an attacker's advantage of about ([\d.]+) points", summary
    )[1]
    assert code == 0 and float(told) < 40  # an estimate of its own, not what was asked
    assert private.startswith("private enough over 2 rounds") and "40 were allowed" in private
    command = shlex.split(following.removeprefix("next: discreet "))
    assert command[command.index("--time-column") + 1] == "time" and "--stay" not in command
    assert "2 rounds of 60 s" in run(monkeypatch, capfd, *command)[1]


def test_what_is_missing_is_named(prepared):
    with pytest.raises(InputError, match="--stay"):
        learn_for_rounds(prepared(), 60, None)


@pytest.mark.slow
def test_the_command_prints_what_all_rounds_tell(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    house(np.random.default_rng(0), 4, 200, (0.9, 0.9)).to_csv("house.csv", index=False)
    facts = ("--public", "fall", "--private", "who", "--exclude", "date", "--method", "npo")
    wish = ("--rounds", "60", "--stay", "0.9", "--max-advantage", "0.2", "--out", "m.json")
    code, printed, _ = run(monkeypatch, capfd, "learn", "house.csv", *facts, *wish)
    assert code == 0 and "60 rounds together: an attacker's advantage of about " in printed
    code, _, error = run(
        monkeypatch, capfd, "learn", "house.csv", *facts, "--stay", "0.9", "--out", "m.json"
    )
    assert code == 2 and "without --rounds" in error
    code, printed, error = run(
        monkeypatch, capfd, "learn", "house.csv", *facts, "--beyond-answer", "--out", "n.json"
    )
    assert code == 2 and "Use --method auto" in error and not (tmp_path / "n.json").exists()
    facts = facts[:-2]  # the method is chosen
    code, printed, _ = run(
        monkeypatch, capfd, "learn", "house.csv", *facts, *wish, "--beyond-answer", "--symbols", "2"
    )
    assert code in (0, 3) and "attacker's advantage beyond the public fact" in printed
