import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from support.helpers import home, make_mapping, refused

import discreet
from discreet.leakage.exact import advantage, pairwise_epsilon
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.parts import Fact

TABLES = [
    np.array([[0.6, 0.4], [0.5, 0.5], [0.45, 0.55]]),
    np.array([[0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3], [0.3, 0.4, 0.3]]),
]


@pytest.fixture
def rows():
    found = home(200)
    return found[found["who"] != "cid"]


@pytest.fixture
def mapping():
    return make_mapping(tables=TABLES)


def test_rows_give_the_law_of_a_round(mapping, rows):
    found = discreet.over_time(mapping, rows, rounds=5, stay=0.9)
    sent = output_probabilities(mapping.tables, mapping.encode(rows))
    given = np.stack([sent[rows["who"] == who].mean(axis=0) for who in ("ann", "bob")])
    assert found.one_round[0] == pytest.approx(advantage(given))
    assert found.one_round_epsilon == pytest.approx(pairwise_epsilon(given))
    assert found.source == f"plug-in estimate from {len(rows)} rows, not certified"
    assert any("only through the fact of that round" in each for each in found.assumptions)


def test_without_rows_the_tables_are_taken_at_their_worst(mapping, rows):
    worst = discreet.over_time(mapping, rounds=20, stay=0.9)
    known = discreet.over_time(mapping, rows, rounds=20, stay=0.9)
    assert "worst case of the tables, whatever the sensors read" in worst.assumptions
    for one, other in zip(known.leaks, worst.leaks, strict=True):
        assert one.advantage.high <= other.advantage.high + 1e-9
    assert worst.leaks[1].advantage.how == "no bound"


def test_without_stay_nothing_is_assumed(mapping, rows):
    found = discreet.over_time(mapping, rows, rounds=20)
    assert found.chain is None and found.curve() == []
    assert found.assumptions[0].startswith("nothing is assumed")
    assert all(leak.epsilon == leak.any_epsilon for leak in found.leaks)


@pytest.mark.slow
def test_beyond_the_answer_the_worst_public_class_counts(mapping, rows):
    told = discreet.over_time(mapping, rows, rounds=5, stay=0.9, beyond_answer=True)
    own = [
        discreet.over_time(mapping, rows[rows["fall"] == fall], rounds=5, stay=0.9)
        for fall in (False, True)
    ]
    assert told.one_round[0] == max(each.one_round[0] for each in own)


@pytest.mark.slow
def test_the_curve_rises_to_the_figure_of_all_rounds(mapping, rows):
    found = discreet.over_time(mapping, rows, rounds=60, stay=0.9)
    curve = found.curve()
    assert curve[0][0] == 1 and curve[-1][0] == 60
    assert curve[-1][1] == found.leaks[0].advantage
    assert all(one[1].low <= other[1].high for one, other in pairwise(curve))
    assert all(closed >= ends.high for _, ends, closed in curve)


@pytest.mark.slow
def test_three_classes_are_simulated(mapping):
    whole = make_mapping(tables=TABLES, private=[Fact(name="who", classes=["ann", "bob", "cid"])])
    found = discreet.over_time(whole, home(200), rounds=20, stay=0.9)
    leak = found.leaks[0]
    assert leak.advantage.how == "simulated, 95 %" and leak.closed_form is None
    assert leak.advantage.low < leak.advantage.high < 2 / 3
    assert [n for n, _, _ in found.curve()][::6] == [1, 20]


def test_json_holds_everything_and_no_infinity(mapping, rows):
    sharp = make_mapping()
    found = json.loads(json.dumps(discreet.over_time(sharp, rows, rounds=5).to_dict()))
    assert found["policies"][0]["any_epsilon"] is None
    assert found["least"]["policy"] == "never"
    assert [each["policy"] for each in found["policies"]][:3] == ["never", "code", "period"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 0}, "rounds must be from 1 to 100000, got 0"),
        ({"rounds": 5, "every": (4, 0)}, "every must hold numbers of at least 1, got 0"),
        ({"rounds": 5, "period_rounds": 0, "every": ()}, "period_rounds must be from 1 to the 5"),
        ({"fact": "age"}, r"guards \('who'\), got 'age'"),
        ({"stay": [0.9, 1.0]}, "reach every class again"),
    ],
)
def test_mistakes_are_named(mapping, rows, changes, words):
    refused(words, discreet.over_time, mapping, rows, **changes)


def test_rows_must_have_the_columns_and_every_class(mapping, rows):
    refused("no column 'who'", discreet.over_time, mapping, rows.drop(columns="who"))
    one = rows[rows["who"] == "ann"]
    refused("no row has the class 'bob'", discreet.over_time, mapping, pd.DataFrame(one))
