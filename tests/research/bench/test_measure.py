import os

import pytest

from research.bench.measure import Promise, Setup, one_thread, run_contest
from research.bench.results import Check


def setup(contestants, **more):
    options = {"rounds": 2, "ours": "ours", "yardstick": "peer"} | more
    return Setup("name", "Title", "small", contestants, **options)


def test_contestants_take_turns_and_the_first_round_does_not_count():
    seen, told = [], []
    contestants = {name: lambda k, name=name: seen.append((name, k)) for name in ("ours", "peer")}
    found = run_contest(setup(contestants), told.append)
    assert seen == [(name, k) for k in range(3) for name in ("ours", "peer")]
    assert told == [1, 2, 3]
    assert [len(each.clock) for each in found.times] == [2, 2]


def test_warm_contestants_work_twice_each_time():
    seen = []
    run_contest(setup({"ours": seen.append, "peer": lambda _: None}, warm=True, rounds=1))
    assert seen == [0, 0, 1, 1]


def test_what_a_missing_peer_would_decide_is_left_out():
    promised = [
        Promise("quick", lambda t: t["ours"].median, 10.0, True),
        Promise("quicker", lambda t: t["absent"].over(t["ours"]), 1.0, False),
    ]
    nothing = dict.fromkeys(("ours", "peer"), lambda _: None)
    found = run_contest(setup(nothing, promised=promised, missing=["absent"]))
    assert [check.words for check in found.checks] == ["quick"]
    assert found.missing == ("absent",)


@pytest.mark.parametrize("value,at_most,words", [(2.0, True, "PASS"), (2.0, False, "MISSED")])
def test_a_check_says_whether_it_is_met(value, at_most, words):
    assert Check(words="w", value=value, limit=3.0, at_most=at_most).text().startswith(words)


@pytest.mark.parametrize("before", [None, "7"])
def test_one_thread_is_for_the_time_being(monkeypatch, before):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if before:
        monkeypatch.setenv("OMP_NUM_THREADS", before)
    with pytest.raises(ZeroDivisionError), one_thread():
        assert os.environ["OMP_NUM_THREADS"] == "1"
        raise ZeroDivisionError
    assert os.environ.get("OMP_NUM_THREADS") == before
