import io
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.commands import AT_ONCE, FACTS, rooms, run
from support.logs import write_recorder

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
    counts = rooms(200)["who"].value_counts()
    shares = ", ".join(f"{name} {n} ({n / 200:.1%})" for name, n in counts.items())
    assert f"'who' (private): {shares}" in lines
    assert any("raw readings answer 'fall' with balanced accuracy " in each for each in lines)
    assert any("certify an advantage of at most 5 points" in each for each in lines)
    assert any(each.startswith("learning takes about ") for each in lines)
    assert lines[-1] == (
        "next: discreet learn home.csv --public fall --private who --out home.json"
    )


@pytest.mark.parametrize("name", ["-home.csv", "my home.csv"])
def test_the_command_runs_whatever_the_table_is_called(command, name):
    Path("home.csv").rename(name)
    words = shlex.split(command("check", f"./{name}", *FACTS)[1].splitlines()[-1])
    assert words[:3] == ["next:", "discreet", "learn"]
    assert command(*words[2:], "--time-limit", "1", "--quiet")[0] in (0, 3)


@pytest.mark.parametrize("name", ["-log.csv", "my log.csv", "-log.jsonl"])
def test_the_import_of_a_log_runs_and_what_follows_too(command, name):
    line = '{"time": 1767225600, "topic": "hall", "payload": "1"}\n'
    events = "".join(f"2026-01-01T00:{k:02}:00Z,{'ab'[k % 2]},{k}\n" for k in range(60))
    Path(name).write_text(line if "json" in name else f"last_changed,entity_id,state\n{events}")
    _, printed, error = command("check", f"./{name}")
    words = shlex.split((printed + error).splitlines()[-1].partition("discreet import")[2])
    code, printed, _ = command("import", *words)
    assert code == 0
    words = shlex.split(printed.splitlines()[-1])
    assert words[1:3] == ["discreet", "check"]
    assert "no column 'PUBLIC'" in command(*words[2:])[1]


def test_why_raw_readings_cannot_be_judged_is_said(command):
    home = np.arange(200) // 25
    rooms(200).assign(home=home, who=np.where(home < 2, "ann", "bob")).to_csv("h.csv", index=False)
    code, printed, _ = command("check", "h.csv", *FACTS, "--group", "home")
    assert code == 0 and "cannot be estimated: no two parts of the groups by 'home'" in printed


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
    options = (*AT_ONCE, "--out", "m.json", "--quiet")
    code, _, error = command("learn", "copy.csv", *FACTS, *options)
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


# --- Event logs --------------------------------------------------------------------------------


def log_of(items, names, **more):
    """A row per event, sorted by item as Home Assistant exports its history."""
    times = pd.date_range("2026-01-01", periods=40, freq="min").strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = [(time, item, value) for item, value in items.items() for time in times]
    return pd.DataFrame(rows, columns=names).assign(**more)


ADDRESSES = {"binary_sensor.door": "off", "person.ann": "home", "sensor.power": "12.5"}
PLAIN = {"power": 12.5, "hall": 3.0}
MIXED = {"power": "12.5", "hall": "on"}
LOGS = {
    "history": (log_of(ADDRESSES, ["last_changed", "entity_id", "state"]), ""),
    "numbers only": (log_of(PLAIN, ["time", "item", "value"]), ""),
    "more columns": (
        log_of(ADDRESSES, ["time", "item", "value"], session=3, quality=[1, 5, 3] * 40),
        "",
    ),
    "mixed kinds": (log_of(MIXED, ["time", "sensor", "value"], quality=[1, 5] * 40), ""),
    "other names": (log_of(MIXED, ["at", "id", "v"]), " --time-column at --item id --value v"),
}


@pytest.mark.parametrize("kind", LOGS)
def test_an_event_log_is_named_with_the_command_that_imports_it(command, kind):
    log, options = LOGS[kind]
    log.to_csv("log.csv", index=False)
    code, printed, _ = command("check", "log.csv")
    wanted = f"discreet import log.csv{options} --out log-table.csv"
    assert code == 1 and "log.csv: is an event log" in printed and "discreet learn" not in printed
    assert printed.splitlines()[-1] == f"next: {wanted}"
    code, printed, error = command("learn", "log.csv", *FACTS, "--out", "m.json")
    assert (code, printed) == (2, "") and error.endswith(f"Run: {wanted}\n")
    assert command(*wanted.split()[1:])[0] == 0
    assert command("check", "log-table.csv")[0] == 0


def test_facts_that_are_items_of_the_log_become_its_labels(command):
    LOGS["history"][0].to_csv("log.csv", index=False)
    facts = ["--public", "person.ann", "--private", "cooking"]
    _, _, error = command("learn", "log.csv", *facts, "--out", "m.json")
    assert error.endswith("Run: discreet import log.csv --label person.ann --out log-table.csv\n")


def test_a_table_of_several_devices_is_no_event_log(command):
    table = rooms(200).assign(time=range(1_767_225_600, 1_767_237_600, 60), device=["a", "b"] * 100)
    table.rename(columns={"hall": "value", "door": "state"}).to_csv("home.csv", index=False)
    assert command("check", "home.csv", *FACTS)[0] == 0


def test_a_file_that_is_no_table_but_may_be_a_log_is_named(command):
    write_recorder(Path("ha.db"), [(1_767_225_600, "person.ann", "home")])
    code, _, error = command("check", "ha.db")
    assert code == 2 and "run: discreet import ha.db --out ha-table.csv" in error
