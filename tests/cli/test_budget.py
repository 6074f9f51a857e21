"""``discreet budget`` as typed: the table, what it rests on, JSON, the picture, and refusals."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.commands import AT_ONCE, FACTS, rooms, run
from support.helpers import make_mapping

from discreet import Mapping
from discreet.leakage.over_time import over_time
from research.houses import house

NOISY = [np.array([[0.55, 0.45], [0.5, 0.5], [0.45, 0.55]]), np.full((3, 3), 1 / 3)]


@pytest.fixture
def budget(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_STATE", str(tmp_path / "state"))
    make_mapping(tables=NOISY).save("home.json")
    return lambda *arguments: run(monkeypatch, capsys, "budget", *arguments)


@pytest.fixture
def learned(budget, tmp_path, monkeypatch, capsys):
    rooms(400).to_csv("rooms.csv", index=False)
    ask = (*FACTS, "--exclude", "day", *AT_ONCE, "--out", "rooms.json", "--quiet")
    assert run(monkeypatch, capsys, "learn", "rooms.csv", *ask)[0] == 0
    return budget


def test_without_rows_the_worst_of_the_tables_is_printed_with_what_it_rests_on(budget):
    code, printed, error = budget("home.json", "--rounds", 20, "--stay", 0.9)
    assert (code, error) == (0, "")
    policies = ["never", "code", "period", "every 4", "every 16"]
    lines = printed.splitlines()
    assert [line.split(":")[0].split("  ")[0] for line in lines[2:7]] == policies
    assert "at most 0.0" in lines[2] and "no bound" in lines[3]
    assert "depend on the past only through the fact of that round" in printed
    assert "if the fact stays with probability 0.9, 0.9 from round to round" in printed
    assert "worst case of the tables, whatever the sensors read" in printed
    assert "about the fact of the middle one of 20 rounds" in printed


def test_without_stay_nothing_is_assumed(budget):
    _, printed, _ = budget("home.json", "--rounds", 20)
    assert "nothing is assumed: only C1 times the number of fresh draws is a bound" in printed
    assert "if the" not in printed
    make_mapping().save("sharp.json")
    _, printed, _ = budget("sharp.json", "--rounds", 20)
    assert "no bound for sensors that answer in every round" in printed


@pytest.mark.slow
def test_of_the_learned_table_held_out_rows_count_and_are_noted(learned, tmp_path):
    code, printed, _ = learned("rooms.json", "rooms.csv", "--rounds", 50, "--stay", 1)
    assert code == 0
    assert "plug-in estimate from 120 rows, not certified" in printed
    assert "the 120 of 400 rows that were held out" in printed
    assert "--repeat " in printed.splitlines()[-1]
    assert (tmp_path / "state" / "audits.jsonl").exists()


@pytest.mark.slow
def test_json_says_what_python_says(learned):
    rows = rooms(300, seed=5)
    rows.to_csv("new.csv", index=False)
    ask = ("--rounds", 30, "--stay", "0.95,0.9", "--period-rounds", 10, "--every", 3)
    (found,) = json.loads(learned("rooms.json", "new.csv", *ask, "--json")[1])
    same = over_time(
        Mapping.load("rooms.json"), rows, rounds=30, stay=[0.95, 0.9], period_rounds=10, every=(3,)
    )
    assert found == json.loads(json.dumps(same.to_dict()))
    told = json.loads(learned("rooms.json", "new.csv", *ask, "--beyond-answer", "--json")[1])
    assert told[0]["one_round"]["advantage"] >= 0.0


@pytest.mark.slow
def test_the_curve_is_drawn(budget, tmp_path):
    code, _, error = budget("home.json", "--rounds", 50, "--stay", 0.9, "--plot", "day.svg")
    assert (code, error) == (0, "")
    drawn = (tmp_path / "day.svg").read_text()
    assert "rounds" in drawn and "who, closed form" in drawn
    assert "mathdefault" not in drawn


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("home.json --rounds 0", "--rounds must be at least 1, got 0"),
        ("home.json --rounds 100001", "rounds must be from 1 to 100000, got 100001"),
        ("home.json --stay 1.5", "--stay must be a probability, or one for each class, got '1.5'"),
        ("home.json --stay often", "--stay must be a probability.*got 'often'"),
        ("home.json --stay 0.9,0.8,0.7", "3 probabilities; the fact has 2 classes"),
        ("home.json --stay 0.9,1", "reach every class again"),
        ("home.json --rounds 5 --period-rounds 6", "period_rounds must be from 1 to the 5 rounds"),
        ("home.json --every 0", "every must hold numbers of at least 1, got 0"),
        ("home.json --plot day.pdf", "a picture ends in .svg or .png"),
        ("home.json --plot day.svg", "--plot needs --stay"),
        ("away.json", "away.json"),
        ("home.json --out quieter.json", "--out is for --at-most"),
        ("home.json --time-column at", "--time-column at is one of rows. Give their table"),
    ],
)
def test_a_mistake_is_one_line_with_the_value_seen(budget, options, words):
    code, _, error = budget(*options.split())
    assert code == 2 and error.startswith("discreet: ") and error.count("\n") == 1
    assert re.search(words, error)


@pytest.mark.slow
def test_ways_to_speak_that_keep_a_limit_are_listed(budget, tmp_path, monkeypatch, capsys):
    table = rooms(400).drop(columns="day")
    table["at"] = 1_700_000_000 + 60 * np.arange(400)
    table.to_csv("rooms.csv", index=False)
    ask = (*FACTS, "--time-column", "at", *AT_ONCE, "--out", "rooms.json", "--quiet")
    assert run(monkeypatch, capsys, "learn", "rooms.csv", *ask)[0] == 0
    limit = ("--rounds", 8, "--stay", 1, "--at-most", 0.3)
    code, printed, _ = budget("rooms.json", "rooms.csv", *limit)
    assert code == 0 and "ways to tell at most 0.3 of 'who' beyond the public fact" in printed
    (found,) = json.loads(budget("rooms.json", "rooms.csv", *limit, "--json")[1])
    assert found["ways"] and all(each["advantage"] <= 0.3 for each in found["ways"])
    errors = [each["error"] for each in found["ways"]]
    assert errors == sorted(errors) and printed.count("error 0.") == len(errors)
    (tried,) = json.loads(
        budget("rooms.json", "rooms.csv", *limit, "--time-column", "at", "--json")[1]
    )
    assert {each["every"] for each in tried["ways"]} == {each["every"] for each in found["ways"]}
    assert [each["error"] for each in tried["ways"]] != errors
    plain = [each for each in found["ways"] if each["kept"] == 1.0 and not each["in_turn"]]
    assert f"discreet init --interval {60 * plain[0]['every']}" in printed.splitlines()[-1]

    code, printed, _ = budget("rooms.json", "rooms.csv", *limit, "--out", "quieter.json")
    best = next(each for each in found["ways"] if not each["in_turn"])
    before, after = Mapping.load("rooms.json"), Mapping.load("quieter.json")
    assert code == 0 and f"--interval {60 * best['every']} --repeat never" in printed
    for table, noisy in zip(before.tables, after.tables, strict=True):
        even = (1 - best["kept"]) / table.shape[1]
        np.testing.assert_allclose(noisy, best["kept"] * table + even, atol=1e-9)
    assert after.design.source == before.design.source and after.chain == before.chain
    # What is written tells in so many rounds what was promised of it.
    quieter = (*limit, "--json")
    (again,) = json.loads(budget("quieter.json", "rooms.csv", *quieter)[1])
    same = next(w for w in again["ways"] if w["every"] == best["every"] and not w["in_turn"])
    assert same["kept"] == 1.0 and same["advantage"] == pytest.approx(best["advantage"], abs=1e-6)
    code, _, error = budget("rooms.json", "rooms.csv", *limit[:-1], 1e-6, "--out", "none.json")
    assert code == 2 and "--out has nothing to write" in error and not Path("none.json").exists()


def test_what_ways_to_speak_need_is_asked_for(budget):
    code, _, error = budget("home.json", "--rounds", 20, "--stay", 1, "--at-most", 0.1)
    assert code == 2 and "--at-most needs rows" in error


@pytest.mark.slow
def test_how_long_a_fact_lasts_is_estimated_from_a_series(budget, tmp_path, monkeypatch, capsys):
    rows = house(np.random.default_rng(0), 4, 300, (0.9, 0.8))
    rows.to_csv("house.csv", index=False)
    facts = ("--public", "fall", "--private", "who", "--exclude", "date", "--method")
    ask = (*facts, "randomized-response", "--ldp-epsilon", 0.5, "--out", "m.json", "--quiet")
    assert run(monkeypatch, capsys, "learn", "house.csv", *ask)[0] == 0
    code, printed, _ = budget("m.json", "house.csv", "--rounds", 30, "--time-column", "date")
    assert code == 0
    stays = re.search(r"if the fact stays with probability ([\d.]+), ([\d.]+) from", printed)
    assert [float(each) for each in stays.groups()] == pytest.approx([0.9, 0.8], abs=0.05)
    assert "estimated from 1,196 steps of 'date', rounds of 60 s, and not certified" in printed
    stated = ("--stay", ",".join(stays.groups()))
    _, same, _ = budget("m.json", "house.csv", "--rounds", 30, *stated)
    assert same.splitlines()[2] == printed.splitlines()[2]  # the figures of fresh draws
    code, _, error = budget("m.json", "house.csv", "--time-column", "date", *stated)
    assert code == 2 and "Give one of them" in error
    code, _, error = budget("m.json", "--time-column", "date")
    assert code == 2 and "Give their table as well" in error
