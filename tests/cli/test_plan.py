"""``discreet plan`` as typed: the table, the sentence, JSON, and what it refuses."""

import json
import re

import numpy as np
import pytest
from support.commands import run
from support.helpers import make_mapping

from discreet.auditing.bounds.rows_needed import Plan, rounded, rows_for

NOISY = [
    np.array([[0.7, 0.3], [0.5, 0.5], [0.3, 0.7]]),
    np.array([[0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.25, 0.25]]),
]


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_mapping(tables=NOISY).save("home.json")
    return lambda *arguments: run(monkeypatch, capsys, "plan", *arguments)


def test_a_sketch_is_answered_by_a_table_and_a_sentence(plan):
    code, printed, error = plan("--sensors", 5, "--noise", 0.02, "--max-advantage", 0.05)
    assert (code, error) == (0, "")
    lines = printed.splitlines()
    assert lines[0].split()[:2] == ["limit", "rows"]
    assert [line.split()[0] for line in lines[1:4]] == ["0.1", "0.05", "0.025"]
    counts = [int(line.split()[1].replace(",", "")) for line in lines[1:4]]
    assert counts == sorted(counts)
    asked = lines[2].split()[1]
    assert lines[4].startswith(f"About {asked} rows certify that no attacker beats guessing by")
    assert "more than 5 points, at confidence 95 %, if nothing leaks" in lines[4]


def test_a_mapping_brings_its_tables_classes_and_facts(plan):
    code, printed, _ = plan("home.json", "--max-advantage", 0.05, "--json")
    found = json.loads(printed)
    mapping = make_mapping(tables=NOISY)
    classes, facts = len(mapping.private[0].classes), len(mapping.private)
    assert code == 0 and found["unit"] == "row" and len(found["shares"]) == classes
    assert found["alpha"] == pytest.approx(0.05 / facts)
    same = Plan(tuple(mapping.tables), (1 / classes,) * classes, 0.05 / facts)
    asked = next(each for each in found["plans"] if each["limit"] == 0.05)
    assert asked["count"] == rows_for(same, 0.05)


def test_a_table_in_place_of_a_mapping_is_refused_in_one_line(plan, tmp_path):
    (tmp_path / "iid.csv").write_text("hall,fall,who\n1,True,ann\n")
    code, printed, error = plan("iid.csv", "--max-advantage", 0.05)
    assert (code, printed, error.count("\n")) == (2, "", 1)
    assert "iid.csv: is not a discreet mapping; it begins with 'hall,fall,who'. Give the" in error


def test_groups_are_counted_in_groups(plan):
    options = ("--sensors", 3, "--max-advantage", 0.1, "--group-size", 24, "--share", 0.1)
    _, printed, _ = plan(*options)
    assert "groups of 24 rows certify" in printed and "   groups" in printed
    found = json.loads(plan(*options, "--json")[1])
    assert found["unit"] == "group" and found["group_size"] == 24
    assert found["shares"] == [0.1, 0.9]
    assert all(each["rarest"] <= each["count"] for each in found["plans"])


def test_what_no_number_certifies_is_said(plan):
    _, printed, _ = plan("--sensors", 2, "--max-advantage", 0.05, "--leak", 0.07)
    lines = printed.splitlines()
    assert "no number" in lines[2] and "no number" not in lines[1]
    assert lines[4].startswith("No number of rows that an audit can use certifies that no attacker")


def test_limits_that_always_hold_are_left_out_of_the_table(plan):
    _, printed, _ = plan("--sensors", 2, "--max-advantage", 0.3, "--noise", 0.3)
    assert [line.split()[0] for line in printed.splitlines()[1:-1]] == ["0.3", "0.15"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "'--max-advantage'"),
        ("--max-advantage 0.05", "name a mapping file, or sketch the sensors by --sensors N"),
        ("--max-advantage 2 --sensors 3", "--max-advantage must be strictly between 0 and 1"),
        ("--max-advantage 0.6 --sensors 3", "--max-advantage 0.6 always holds: with 2 classes"),
        ("--max-advantage 0.05 --sensors 0", "--sensors must be from 1 to 1000, got 0"),
        ("--max-advantage 0.05 --sensors 3 --symbols 1", "--symbols must be from 2 to 256, got 1"),
        ("--max-advantage 0.05 --sensors 3 --noise 0.6", "--noise must be at most 0.5, .*got 0.6"),
        ("--max-advantage 0.05 --sensors 3 --share 0.6", "--share must be at most 1/2, .*got 0.6"),
        ("--max-advantage 0.05 --sensors 3 --classes 1", "--classes must be from 2 to 1000, got 1"),
        ("--max-advantage 0.05 --sensors 3 --facts 0", "--facts must be at least 1, got 0"),
        ("--max-advantage 0.05 --sensors 3 --group-size 0", "--group-size must be at least 1"),
        ("--max-advantage 0.05 --sensors 3 --leak 1", "--leak must be at least 0 and below 1"),
        ("home.json --max-advantage 0.05 --sensors 3", "--sensors was given together with home"),
        ("home.json --max-advantage 0.05 --noise 0", "--noise was given together with home.json"),
        ("away.json --max-advantage 0.05", "away.json"),
    ],
)
def test_a_mistake_is_one_line_with_the_value_seen(plan, options, words):
    code, printed, error = plan(*options.split())
    assert (code, printed) == (2, "")
    assert error.startswith("discreet: ") and error.count("\n") == 1
    assert re.search(words, error)


def test_numbers_are_rounded_up_to_two_digits():
    assert [rounded(n) for n in (7, 42, 101, 4192, 54_566)] == ["7", "42", "110", "4,200", "55,000"]
