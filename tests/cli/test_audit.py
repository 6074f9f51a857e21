"""``discreet audit`` as typed: what it prints, writes and answers with its exit code."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.commands import AT_ONCE, FACTS, rooms, run, run_in

from discreet import Mapping
from discreet.auditing.audit_file import AuditSummary, contradictions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_attackers")]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A table on disk and a mapping learned from it, a part of which is held out."""
    folder = tmp_path_factory.mktemp("learned")
    rooms(400).to_csv(folder / "home.csv", index=False)
    asked = ("--exclude", "day", "--ratio", "0.9", "--out", "home.json", "--quiet")
    assert run_in(folder, "learn", "home.csv", *FACTS, *asked) == 0
    return folder


@pytest.fixture
def home(learned, tmp_path, monkeypatch, capsys):
    """`discreet audit`, in a folder with that table and that mapping."""
    monkeypatch.chdir(shutil.copytree(learned, tmp_path, dirs_exist_ok=True))

    def audit(*arguments, mapping="home.json", table="home.csv"):
        return run(monkeypatch, capsys, "audit", mapping, table, *arguments)

    return audit


def test_the_verdict_comes_first_and_the_rows_are_named(home):
    code, out, err = home()
    assert code == 0 and "discreet:" not in err
    lines = out.splitlines()
    assert lines[0].startswith("NO LIMIT STATED: 'who': no attacker's advantage in one report is")
    assert "the 120 of 400 rows that were held out" in out
    for certificate in ("advantage", "accuracy", "information epsilon", "structural epsilon"):
        assert any(line.startswith(f"  {certificate} ") for line in lines)
    assert "every bound assumes:" in lines


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--rounds 60", "needs to know how long the private fact lasts"),
        ("--rounds 60 --time-column when", "no column 'when' for the times"),
        ("--rounds 60 --time-column who", "which is no time"),
        ("--rounds 60 --time-column hall", "column 'hall': "),
        ("--rounds 60 --stay 2", "--stay must be from 0 to 1, got 2.0"),
        ("--rounds 0 --stay 0.9", "--rounds must be at least 1, got 0"),
        ("--stay 0.9", "--stay is about many rounds. Give --rounds as well"),
        ("--time-column day", "--time-column is about many rounds. Give --rounds as well"),
        ("--rounds 60 --stay 0.9 --releases 2", "--rounds and --releases are two ways"),
        ("--rounds 60 --stay 0.9 --time-column day", "--stay is estimated from the series"),
    ],
)
def test_a_mistake_about_rounds_is_one_message_and_leaves_no_report(home, tmp_path, options, words):
    code, printed, error = home(*options.split(), "--html", "report.html")
    assert (code, printed) == (2, "") and error.count("\n") == 1 and words in error
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("options", [("--rounds", 60), ("--stay", 0.9), ("--time-column", "day")])
def test_what_is_asked_of_rounds_is_checked_before_a_file_is_opened(home, options):
    code, _, error = home(*options, mapping="none.json", table="none.csv")
    assert code == 2 and "rounds" in error and "none" not in error


def test_a_limit_on_many_rounds_that_is_not_shown_ends_in_3(home):
    code, out, _ = home("--rounds", 60, "--stay", 1, "--max-advantage", 0.01)
    assert code == 3 and out.startswith("NOT SHOWN") and "over 60 rounds" in out
    assert home("--rounds", 60, "--stay", 1)[0] == 0  # nothing was asked


def test_a_declared_chain_is_named_in_verdict_json_and_report(home):
    asked = ("--rounds", 60, "--stay", 0.6, "--max-advantage", 0.49)
    code, out, _ = home(*asked, "--html", "report.html", "--json")
    found, page = json.loads(out), Path("report.html").read_text()
    day = found["private"][0]["rounds"]["certificate"]
    declared = [each for each in day["assumptions"] if each.endswith("(declared)")]
    assert code == 0 and found["verdict"].startswith("WITHIN LIMITS ON CONDITION")
    assert len(declared) == 2 and "stay probabilities stated" in declared[0]
    assert "given the private fact of a round" in declared[1]
    for shown in (found["verdict"], page):
        assert "the private fact lasts as stated" in shown and "over 60 rounds" in shown
    assert all(each in page for each in declared)
    assert list(contradictions(AuditSummary.model_validate(found))) == []


def test_swapped_arguments_are_one_message(home):
    code, printed, error = home(
        "--rounds", 60, "--stay", 0.9, mapping="home.csv", table="home.json"
    )
    assert (code, printed) == (2, "") and "the mapping comes first, then the table" in error
    assert "got home.csv and home.json. Swap them." in error


def test_quiet_says_that_a_limit_is_not_met_and_nothing_else(home):
    code, out, _ = home("-q", "--max-advantage", "0.001")
    assert code == 3 and out.startswith(("NOT SHOWN", "LEAKS")) and out.count("\n") == 1
    assert home("-q", "--max-advantage", "0.45")[:2] == (0, "")


def test_a_pipe_hears_how_far_the_audit_is(home, monkeypatch):
    monkeypatch.setattr("discreet.cli.progress._LINE_SECONDS", 0.01)
    _, _, said = home("--max-advantage", "0.45")
    assert re.search(r"^[a-z].* \d+%", said, re.MULTILINE)
    assert home("-q", "--max-advantage", "0.45")[2] == ""


def test_on_a_terminal_the_verdict_is_in_colour(home, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert home("--max-advantage", "0.45")[1].startswith("\x1b[1;32mWITHIN LIMITS")
    monkeypatch.setenv("NO_COLOR", "1")
    assert home("--max-advantage", "0.45")[1].startswith("WITHIN LIMITS")


def test_a_limit_that_is_met_ends_in_0_and_one_that_is_not_in_3(home):
    code, out, _ = home("--max-advantage", "0.45")
    assert code == 0 and out.startswith("WITHIN LIMITS")
    code, out, _ = home("--max-advantage", "0.001")
    assert code == 3 and out.startswith(("NOT SHOWN", "LEAKS"))
    code, out, _ = home("--epsilon", "0.001")
    assert code == 3


def test_a_useless_mapping_within_its_limits_ends_in_0_and_is_called_useless(
    home, monkeypatch, capsys
):
    door, hall = np.random.default_rng(1).integers(2, size=(2, 400))
    rooms(400).assign(door=door, hall=hall).to_csv("noise.csv", index=False)
    facts = (*FACTS, "--exclude", "day", *AT_ONCE, "--out", "noise.json", "--quiet")
    run(monkeypatch, capsys, "learn", "noise.csv", *facts)
    code, out, _ = home("--max-advantage", "0.45", mapping="noise.json", table="noise.csv")
    assert code == 0 and "; BUT NOT USEFUL: " in out.splitlines()[0]


def test_json_is_all_of_it_and_nothing_else(home):
    code, out, err = home("--json", "--max-advantage", "0.001")
    found = json.loads(out)
    assert code == 3 and "discreet:" not in err
    assert found["ok"] is False and found["mapping_id"] == Mapping.load("home.json").id
    assert {each["name"] for each in found["private"][0]["certificates"]} >= {"advantage"}
    assert found["limits"][0]["state"] in ("not shown", "broken")


def test_rows_that_have_been_audited_with_another_mapping_turn_the_verdict(
    home, tmp_path, monkeypatch, capsys
):
    assert "audited before" not in home("--max-advantage", "0.45")[1]
    run(
        monkeypatch, capsys, "learn", "home.csv", *FACTS, "--exclude", "day", *AT_ONCE,
        "--out", "other.json", "--quiet",
    )  # fmt: skip
    _, out, _ = home("--max-advantage", "0.45", mapping="other.json")
    assert out.startswith("WITHIN LIMITS ON CONDITION")
    assert "have been audited before, with another mapping" in out.splitlines()[0]


def test_quiet_prints_a_limit_that_is_not_met_and_nothing_else(home):
    assert home("--quiet", "--max-advantage", "0.45") == (0, "", "")
    code, printed, error = home("--quiet", "--max-advantage", "0.001")
    assert (code, error) == (3, "") and printed.startswith("NOT SHOWN: the limit of 0.1 points")
    assert printed.count("\n") == 1


def test_a_report_is_written_whole(home, tmp_path):
    code, out, _ = home("--html", "report.html")
    assert code == 0 and "wrote report.html" in out
    assert (tmp_path / "report.html").read_text().rstrip().endswith("</html>")


def test_a_report_is_written_over_nothing_that_is_read(home, tmp_path):
    for name in ("home.json", "home.csv"):
        before = (tmp_path / name).read_bytes()
        code, out, err = home("--html", name)
        assert code == 2 and out == "" and "is what is read" in err
        assert (tmp_path / name).read_bytes() == before


def test_other_rows_may_be_given_with_other_names(home):
    other = rooms(300, seed=5).rename(columns={"fall": "fell", "who": "person"})
    other.to_csv("other.csv", index=False)
    code, out, _ = home("--public", "fell", "--private", "person", table="other.csv")
    assert code == 0 and "whether some of them were learned from cannot be checked" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--max-advantage", "1.5"), "--max-advantage must be strictly between 0 and 1, got 1.5"),
        (("--epsilon", "0"), "--epsilon must be a finite number above 0, got 0"),
        (("--confidence", "0.2"), "--confidence must be at least 0.5 and below 1, got 0.2"),
        (("--releases", "0"), "--releases must be at least 1, got 0"),
        (("--frontier", "f.json"), "--frontier is for the report"),
        (("--public", "fal"), "'fal'"),
        (("--private", "nobody"), "'nobody'"),
        (("--group", "week"), "'week'"),
    ],
)
def test_a_mistake_is_one_message_and_nothing_is_written(home, tmp_path, arguments, said):
    before = sorted(tmp_path.iterdir())
    code, out, err = home(*arguments)
    assert code == 2 and out == ""
    assert said in err and err.count("\n") == 1 and "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_rows_that_cannot_be_audited_are_refused_in_one_line(home, tmp_path):
    table = rooms(400)
    cases = {
        "one class only": (table[table["who"] == "ann"], "class 'bob' of 'who' has 0 of"),
        "ten rows": (table.head(10), "audit rows; at least 5 are needed"),
        "missing sensor": (table.drop(columns="door"), "'door'"),
    }
    for rows, said in cases.values():
        rows.to_csv("rows.csv", index=False)
        code, out, err = home(table="rows.csv")
        assert code == 2 and out == "" and said in err and err.count("\n") == 1


def test_the_training_rows_themselves_are_refused(home, tmp_path, monkeypatch, capsys):
    code, _, _ = run(
        monkeypatch, capsys, "learn", "home.csv", *FACTS, "--exclude", "day", *AT_ONCE,
        "--holdout", "0", "--out", "all.json", "--quiet",
    )  # fmt: skip
    code, out, err = home(mapping="all.json")
    assert code == 2 and out == ""
    assert "was learned from all 400 rows of this table" in err


def test_a_damaged_mapping_is_refused(home, tmp_path):
    (tmp_path / "home.json").write_text("{}")
    code, out, err = home()
    assert code == 2 and out == "" and "home.json" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which is always full")
def test_an_output_that_cannot_be_written_is_one_message(home, tmp_path):
    command = [sys.executable, "-m", "discreet", "audit", "home.json", "home.csv"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1 and "cannot be written" in ended.stderr
