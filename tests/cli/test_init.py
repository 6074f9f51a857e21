"""What ``discreet init`` asks for, and what it refuses."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from support.commands import run
from support.dashboards import make_audit, make_mapping
from support.network_samples import additive_mapping
from support.terminals import Terminal

from discreet.network.site.settings import load_site


@pytest.fixture
def mapping(tmp_path):
    file = tmp_path / "home.json"
    additive_mapping(names=["hall"]).save(file)
    return file


def make(monkeypatch, capsys, tmp_path, mapping, *options):
    return run(monkeypatch, capsys, "init", tmp_path / "site", "--mapping", mapping, *options)


def test_answers_are_kept_with_the_site(monkeypatch, capsys, tmp_path, mapping):
    given = ("--answer", "True=Somebody has fallen = help", "--answer", "False= All quiet ")
    assert make(monkeypatch, capsys, tmp_path, mapping, *given)[0] == 0
    wanted = {"True": "Somebody has fallen = help", "False": "All quiet"}
    assert load_site(tmp_path / "site").answers == wanted


def test_without_a_terminal_nothing_is_asked(monkeypatch, capsys, tmp_path, mapping):
    assert make(monkeypatch, capsys, tmp_path, mapping)[0] == 0
    assert load_site(tmp_path / "site").answers == {}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("Somebody has fallen", "--answer must be CLASS=TEXT with a class of 'False', 'True'"),
        ("Perhaps=x", "got 'Perhaps=x'"),
        ("True=", "at least 1 character"),
        ("True=" + "x" * 121, "at most 120 characters"),
        ("True=a\tb", "without control characters"),
    ],
)
def test_a_wrong_answer_is_one_message(monkeypatch, capsys, tmp_path, mapping, answer, problem):
    code, _, error = make(monkeypatch, capsys, tmp_path, mapping, "--answer", answer)
    assert code == 2 and problem in error and error.count("\n") <= 2
    assert not (tmp_path / "site").exists()


def test_two_answers_for_a_class_are_one_message(monkeypatch, capsys, tmp_path, mapping):
    given = ("--answer", "True=Yes", "--answer", "True=No")
    code, _, error = make(monkeypatch, capsys, tmp_path, mapping, *given)
    assert code == 2 and "--answer is given twice for 'True'" in error and error.count("\n") == 1
    assert not (tmp_path / "site").exists()


def test_an_expiry_in_the_past_is_one_message(monkeypatch, capsys, tmp_path, mapping):
    day = datetime.now(UTC).date() - timedelta(days=1)
    code, _, error = make(monkeypatch, capsys, tmp_path, mapping, "--expires", day)
    assert code == 2 and f"--expires {day} has passed" in error and error.count("\n") == 1
    assert not (tmp_path / "site").exists()
    today = day + timedelta(days=1)
    assert make(monkeypatch, capsys, tmp_path, mapping, "--expires", today)[0] == 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("--workers 3", "--workers 3 need PostgreSQL"),
        ("--port 8883 --dashboard-port 8883", "--port and --dashboard-port are both 8883"),
        ("--port 9464", "--port and --metrics-port are both 9464"),
        ("--metrics-port 8080", "--dashboard-port and --metrics-port are both 8080"),
        (
            "--metrics-port 8079 --workers 2 --database postgresql://db/home",
            "--dashboard-port and --metrics-port are both 8080",
        ),
        (
            "--metrics-port 65535 --workers 2 --database postgresql://db/home",
            "leaves no ports for 2 workers. Give one up to 65534",
        ),
        ("--database sqlite:/etc/fusion.db", "is not inside of the folder"),
        ("--database sqlite:../fusion.db", "is not inside of the folder"),
        ("--database sqlite:data/../../fusion.db", "is not inside of the folder"),
        ("--database sqlite:.", "is not inside of the folder"),
    ],
)
def test_settings_that_do_not_fit_are_one_message(
    monkeypatch, capsys, tmp_path, mapping, given, problem
):
    code, _, error = make(monkeypatch, capsys, tmp_path, mapping, *given.split())
    assert code == 2 and problem in error and error.count("\n") == 1
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"mapping_id": "sha256:" + "0" * 64}, "is of another mapping"),
        ({"private": None}, "private must be"),
        ({"date": "soon"}, "date must be"),
        ({"private": []}, "private has 0 items"),
        ({"ok": False}, "contradicts itself: ok"),
        ({"format": "discreet-mapping"}, "is not what `discreet audit --json` prints"),
    ],
)
def test_an_audit_that_cannot_count_is_one_message(monkeypatch, capsys, tmp_path, change, problem):
    made, file = make_mapping(), tmp_path / "audit.json"
    made.save(tmp_path / "home.json")
    given = tmp_path / "home.json", "--audit", file
    audit = make_audit(made, datetime.now(UTC).date())
    file.write_text(json.dumps(audit | change))
    code, _, error = make(monkeypatch, capsys, tmp_path, *given)
    assert code == 2 and problem in error and str(file) in error and error.count("\n") == 1
    assert not (tmp_path / "site").exists()
    file.write_text(json.dumps(audit))
    assert make(monkeypatch, capsys, tmp_path, *given)[0] == 0


def test_an_audit_that_leaves_out_a_private_fact_is_refused(monkeypatch, capsys, tmp_path):
    made, file = make_mapping(private=("who", "room")), tmp_path / "audit.json"
    made.save(tmp_path / "home.json")
    file.write_text(json.dumps(make_audit(made, datetime.now(UTC).date())))
    code, _, error = make(monkeypatch, capsys, tmp_path, tmp_path / "home.json", "--audit", file)
    assert code == 2 and "says nothing about the private fact 'room'" in error
    assert not (tmp_path / "site").exists()


@pytest.mark.slow
def test_at_a_terminal_one_sentence_is_asked_for_each_class(tmp_path, mapping):
    terminal = Terminal(tmp_path, ["init", "site", "--mapping", mapping.name], "")
    for question, answer in (("is False: ", b"\n"), ("is True: ", b"Somebody has fallen\n")):
        terminal.wait_for(question)
        os.write(terminal.master, answer)
    assert terminal.end() == 0, terminal.text
    assert load_site(tmp_path / "site").answers == {"True": "Somebody has fallen"}
