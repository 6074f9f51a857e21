"""``discreet diff`` as typed: the account, JSON, exit codes, and what it refuses."""

import json

import numpy as np
import pytest
from support.commands import AT_ONCE, FACTS, rooms, run
from support.helpers import HALL, TABLES, make_mapping

from discreet.data import opening
from discreet.data.encoders import BinsEncoder, CategoriesEncoder
from discreet.mapping.parts import AdditiveFusion, Fact

SWAPPED = {
    "tables": [TABLES[0][:, ::-1], TABLES[1]],
    "fusion": AdditiveFusion(weights=[[1.2, -1.2], [0.25, -0.5, 0.0]], bias=0.1),
}


@pytest.fixture
def diff(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_mapping().save("old.json")
    return lambda *arguments: run(monkeypatch, capsys, "diff", *arguments)


def changed(**parts):
    make_mapping(**parts).save("new.json")
    return "old.json", "new.json"


def test_the_same_mapping_ends_in_0(diff):
    assert diff("old.json", "old.json") == (0, f"the same mapping, {make_mapping().id[:19]}\n", "")


def test_another_design_ends_in_0_and_is_told(diff):
    design = make_mapping().design.model_copy(update={"method": "ndd", "rows": 5})
    code, printed, _ = diff(*changed(design=design))
    assert code == 0 and printed.startswith("same in all that devices and fusion centre use")
    assert "method: 'npo' -> 'ndd'" in printed and "rows: 1000 -> 5" in printed


def test_floats_have_as_few_digits_as_tell_them_apart(diff):
    designs = [
        make_mapping().design.model_copy(update={"expected": {"near": near, "far": far}})
        for near, far in ((0.4086806009090507, 1 / 3), (0.4086786466274237, 2 / 3))
    ]
    make_mapping(design=designs[0]).save("old.json")
    _, printed, _ = diff(*changed(design=designs[1]))
    assert "near: 0.408681 -> 0.408679\n" in printed and "far: 0.3333 -> 0.6667\n" in printed


def test_other_names_of_symbols_end_in_1_and_are_called_that(diff):
    code, printed, _ = diff(*changed(**SWAPPED))
    assert code == 1 and printed.startswith("same up to names of symbols")
    assert "symbols are matched crosswise: 0 is 1, 1 is 0" in printed
    assert "fusion rule" not in printed


def test_what_differs_is_named_first_and_then_shown(diff):
    code, printed, _ = diff(
        *changed(
            encoders=[BinsEncoder(edges=[0.5, 1.25]), CategoriesEncoder(categories=["open"],
                                                                        missing=True)],
            tables=[np.array([[0.9, 0.1], [0.5, 0.5], [0.25, 0.75]]), TABLES[1]],
            private=[Fact(name="who", classes=["ann", "bob", "cid"])],
            fusion=AdditiveFusion(weights=[[-1.2, 1.2], [0.25, -0.5, 0.0]], bias=-9.0),
        )
    )  # fmt: skip
    assert code == 1
    assert printed.startswith("different: encoders, tables, facts, fusion rule\n")
    for words in (
        "cut points removed: 1.5\n", "cut points added: 1.25\n", "categories added: 'open'",
        "tables are compared for 4 kinds of readings that both take", "no bound -> ",
        "private fact 'who': classes ['ann', 'bob'] -> ['ann', 'bob', 'cid']",
        "fusion rule: additive, decides unstated\n  decides 50 % of 6 outputs differently",
    ):  # fmt: skip
        assert words in printed
    row = next(line for line in printed.splitlines() if line.startswith("'hall'"))
    # Half of the four kinds: [0.5, 0.5] and [0, 1], each against [0.25, 0.75].
    assert row.split()[1:5] == ["3", "2", "0.25", "0.125"]


def test_removed_added_and_renamed_sensors_are_listed(diff):
    tables = [np.full((3, 2), 0.5), TABLES[1]]
    _, printed, _ = diff(*changed(names=["attic", "gate"], tables=tables))
    assert "sensor removed: 'hall'" in printed and "sensor added: 'attic'" in printed
    assert "renamed to 'gate'" in printed
    assert "for other sensors or symbols, so that decisions are not compared" in printed


def test_json_has_all_of_it_and_nothing_else(diff):
    code, printed, error = diff(*changed(**SWAPPED), "--json")
    found = json.loads(printed)
    assert (code, error) == (1, "") and found["same_up_to_names_of_symbols"] is True
    assert found["sensors"][0]["matched"] == [1, 0] and found["epsilon"] == [None, None]
    assert found["differs_in"] == ["names of symbols"] and found["measured"] is None


# --- With rows -----------------------------------------------------------------------------


@pytest.fixture
def learned(tmp_path, monkeypatch, capsys):
    """Two mappings that were learned from one table, a part of which is held out of both."""
    monkeypatch.chdir(tmp_path)
    rooms(400).drop(columns="day").to_csv("home.csv", index=False)
    for out, epsilon in (("old.json", "3"), ("new.json", "2")):
        asked = (*AT_ONCE[:-1], epsilon, "--out", out, "--quiet")
        assert run(monkeypatch, capsys, "learn", "home.csv", *FACTS, *asked)[0] == 0
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


@pytest.mark.slow
def test_error_and_leak_are_those_of_the_audit_and_are_called_estimates(learned):
    code, printed, _ = learned("diff", "old.json", "new.json", "home.csv")
    assert code == 1 and "on 120 rows" in printed
    assert "estimates, which promise nothing; `discreet audit` certifies" in printed
    assert "new.json: the 120 of 400 rows that were held out" in printed
    audits = [
        json.loads(learned("audit", name, "home.csv", "--json", "--quiet")[1])
        for name in ("old.json", "new.json")
    ]
    measured = json.loads(learned("diff", "old.json", "new.json", "home.csv", "--json")[1])
    answers, leak = measured["measured"]["answers"], measured["measured"]["advantages"][0]
    for side, audit in enumerate(audits):
        assert answers[side]["error"] == pytest.approx(audit["public"]["error"])
        balanced = audit["public"]["balanced"]["estimate"]
        assert answers[side]["balanced_accuracy"] == pytest.approx(balanced)
        found = (leak["before"], leak["after"])[side]
        assert found == pytest.approx(audit["private"][0]["figures"]["advantage"])


@pytest.mark.slow
def test_a_choice_by_held_out_rows_is_noted_for_the_next_audit(learned):
    learned("diff", "old.json", "new.json", "home.csv")
    printed = learned("audit", "old.json", "home.csv")[1]
    assert "have been audited before, with another mapping" in printed


def test_rows_of_unknown_origin_are_called_that_as_by_the_audit(learned):
    rooms(300, seed=7).to_csv("other.csv", index=False)
    _, printed, _ = learned("diff", "old.json", "new.json", "other.csv")
    assert "whether some of them were learned from cannot be checked" in printed
    assert "noted as an audit" not in printed


@pytest.mark.slow
def test_a_streamed_table_gives_the_figures_of_one_in_memory(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    table = rooms(1500).drop(columns="day")
    table.to_parquet("home.parquet")
    table.to_csv("home.csv", index=False)
    options = (*FACTS, *AT_ONCE)
    monkeypatch.setattr(opening, "DEFAULT_MEMORY", 1000)
    for seed in (0, 1):
        arguments = (*options, "--seed", seed, "--out", f"{seed}.json")
        said = run(monkeypatch, capsys, "learn", "home.parquet", *arguments)[2]
        assert "streamed, since there are too many for memory" in said
    streamed, whole = (
        json.loads(run(monkeypatch, capsys, "diff", "0.json", "1.json", name, "--json")[1])
        for name in ("home.parquet", "home.csv")
    )
    assert streamed == whole and streamed["measured"]["held_out"] == [True, True]


# --- Mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["old.json"], "AFTER"),
        (["old.json", "none.json"], "none.json: no such file"),
        (["rows.csv", "old.json"], "rows.csv: is not a discreet mapping; it begins with"),
        (["old.json", "deep.json"], "deep.json: is nested too deeply"),
        (["old.json", "bent.json"], "bent.json: id is"),
        (["old.json", "old.json", "rows.csv"], "no column 'fall'"),
        (["old.json", "old.json", "none.csv"], "none.csv"),
    ],
)
def test_a_mistake_is_one_message_and_ends_in_2(diff, tmp_path, arguments, words):
    (tmp_path / "rows.csv").write_text("hall,door\n1,shut\n2,open\n")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    bent = (tmp_path / "old.json").read_text().replace('"rows": 1000', '"rows": 1001')
    (tmp_path / "bent.json").write_text(bent)
    code, printed, error = diff(*arguments)
    assert (code, printed, error.count("\n")) == (2, "", 1)
    assert words in error and "Traceback" not in error


def test_texts_from_a_file_reach_no_terminal_as_they_are(diff):
    told = make_mapping().design.model_copy(update={"discreet": "\x1b[2J", "method": "ndd"})
    encoders = [HALL, CategoriesEncoder(categories=["\x1b]0;me\x07"], missing=True)]
    public = Fact(name="fall", classes=["\x1b[31m", "no"])
    _, printed, _ = diff(*changed(design=told, encoders=encoders, public=public))
    assert "\x1b" not in printed and "\\x1b[2J" in printed and "\\x1b[31m" in printed
