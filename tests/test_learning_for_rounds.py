from dataclasses import replace

import numpy as np
import pytest
from support.commands import run

from discreet.cli.learn import say_rounds
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
    figure = RoundsFigure(1440, 0.1, 0.01, "who", 0.3, 500)
    assert not figure.met and figure.rows_needed == 4500
    beyond_certainty = replace(figure, reached=0.5, shown=0.9)
    assert beyond_certainty.rows_needed == 40_500
    # At most 20,000 rows are left out to judge by, so that more than 60,000 show no more.
    many = replace(figure, reached=0.5, shown=1.2)
    assert many.rows_needed is None and "no number would" in say_rounds(many)
    assert "about 4500 could." in say_rounds(figure)


def test_what_is_missing_is_named(prepared):
    with pytest.raises(InputError, match="--stay"):
        learn_for_rounds(prepared(), 60, None)


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
    assert code == 0 and "attacker's advantage beyond the public fact" in printed
