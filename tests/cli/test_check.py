import io
import json
import sys

import pytest
from support.commands import FACTS, rooms, run

from discreet.data import tables


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    rooms(200).to_csv("home.csv", index=False)
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def test_everything_is_said_and_the_command_comes_last(command):
    code, printed, error = command("check", "home.csv", *FACTS)
    lines = printed.splitlines()
    assert (code, error) == (0, "")
    assert lines[0] == "home.csv: 200 rows, 5 columns"
    assert any("raw readings answer 'fall' with balanced accuracy " in each for each in lines)
    assert any("certify an advantage of at most 5 points" in each for each in lines)
    assert any(each.startswith("learning takes about ") for each in lines)
    assert lines[-1] == (
        "next: discreet learn home.csv --public fall --private who --out home.json"
    )


def test_facts_are_guessed_where_none_are_named(command):
    code, printed, _ = command("check", "home.csv")
    assert code == 0 and "facts are guessed" in printed
    assert "--public fall --private who" in printed.splitlines()[-1]


def test_facts_that_cannot_be_guessed_are_asked_for(command):
    rooms(100)[["hall", "door"]].to_csv("two.csv", index=False)
    code, printed, _ = command("check", "two.csv")
    assert code == 0 and "name the facts" in printed
    assert printed.endswith("--public PUBLIC --private PRIVATE --out two.json\n")


def spoilt():
    table = rooms(200)
    table["temperature"] = [f"{20 + k / 10:.1f}" for k in range(199)] + ["err"]
    table["fall"] = table["fall"].astype(object)
    table.loc[4, "fall"] = None
    return table


def test_learn_refuses_all_at_once_in_the_words_of_check(command):
    spoilt().to_csv("spoilt.csv", index=False)
    code, printed, _ = command("check", "spoilt.csv", *FACTS, "--json")
    found = json.loads(printed)
    assert (code, len(found["problems"])) == (1, 2)
    code, printed, error = command("learn", "spoilt.csv", *FACTS, "--out", "m.json")
    assert (code, printed) == (2, "") and error.startswith("discreet: 2 problems: (1) ")
    assert all(each in error for each in found["problems"])


@pytest.mark.slow
def test_learn_warns_in_the_words_of_check(command):
    rooms(200).assign(again=lambda table: 5 - table["hall"]).to_csv("copy.csv", index=False)
    _, printed, _ = command("check", "copy.csv", *FACTS, "--json")
    said = json.loads(printed)["warnings"]
    code, _, error = command("learn", "copy.csv", *FACTS, "--out", "m.json", "--quiet")
    assert code == 0 and len(said) == 2  # the copy, and the number of the day
    assert all(f"warning: {each}" in error for each in said)


def test_standard_input_is_a_table(command, monkeypatch):
    tables.read_standard_input.cache_clear()
    content = rooms(200).to_csv(index=False, sep=";").encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, printed, _ = command("check", "-", *FACTS)
    tables.read_standard_input.cache_clear()
    assert code == 0 and printed.startswith("-: 200 rows, 5 columns, separated by ';'")
    assert printed.splitlines()[-1].startswith("next: discreet learn - --public fall")


def test_a_table_that_cannot_be_read_is_a_mistake(command):
    code, printed, error = command("check", "none.csv", *FACTS)
    assert (code, printed) == (2, "") and "none.csv: no such file" in error
