"""``discreet plot`` as typed."""

import json

import pytest
from support.commands import run
from support.report_cases import private


@pytest.fixture
def plot(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit.json").write_text(json.dumps(private()[0].to_dict()))
    return lambda *arguments: run(monkeypatch, capsys, "plot", *arguments)


def test_an_audit_becomes_a_picture(plot, tmp_path):
    assert plot("audit.json", "--out", "a.svg") == (0, "wrote a.svg\n", "")
    drawn = (tmp_path / "a.svg").read_text()
    assert ">answered right in" in drawn and ">nobody is right beyond" in drawn and "sends" in drawn
    assert plot("audit.json", "--out", "a.png")[0] == 0
    printed = plot("audit.json", "--out", "a.svg", "--json")[1]
    assert json.loads(printed) == {"out": "a.svg", "mapping_id": private()[1].mapping.id}
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_facts_and_sensors_have_the_names_that_are_given(plot, tmp_path):
    named = "--title", "In short", "--name", "h=Is it warm?", "--name", "g=Who = whom?"
    assert plot("audit.json", "--out", "a.svg", *named)[0] == 0
    drawn = (tmp_path / "a.svg").read_text()
    assert all(f">{text}<" in drawn for text in ("In short", "Is it warm?", "Who = whom?"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.json", "--out", "a.svg"), "none.json: there is no such file. Write it with"),
        (("audit.json", "--out", "a.pdf"), "a picture ends in .svg or .png, got 'a.pdf'"),
        (("audit.json", "--out", "audit.json"), "a picture ends in"),
        (
            ("audit.json", "--out", "a.svg", "--name", "h"),
            "must be a column, = and a text, got 'h'",
        ),
        (("audit.json", "--out", "a.svg", "--name", "q=Q"), "the picture has no 'q'. It has h, g"),
        (("other.json", "--out", "a.svg"), "is not a file that `discreet audit --json` wrote"),
    ],
)
def test_a_mistake_is_one_message_and_draws_nothing(plot, tmp_path, arguments, words):
    (tmp_path / "other.json").write_text("{}")
    code, printed, error = plot(*arguments)
    assert (code, printed) == (2, "") and error.count("\n") == 1 and words in error
    assert {each.name for each in tmp_path.iterdir()} == {"audit.json", "other.json"}
