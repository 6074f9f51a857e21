"""``discreet recheck`` as typed: one sentence, the exit code, and what it refuses."""

import json
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from support.commands import run
from support.dashboards import make_audit, make_mapping, settle

from discreet.cli.recheck import NOT_VALID

HOME = make_mapping(("hall", "stairs"))


@pytest.fixture
def recheck(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    HOME.save("home.json")
    today = datetime.now(UTC).date()
    audit = make_audit(HOME, today)
    del audit["public"]["balanced"]  # the rows below are about the private fact alone
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    return lambda *arguments: run(monkeypatch, capsys, "recheck", "home.json", *arguments)


def write_rows(name, n=300, follows=0.0, seed=0, sent=False):
    rng = np.random.default_rng(seed)
    bob, fall = rng.integers(2, size=(2, n))
    told = np.where(rng.random((n, 2)) < follows, bob[:, None], rng.integers(2, size=(n, 2)))
    table = pd.DataFrame(2 * told, columns=HOME.names)
    if sent:
        table[HOME.names] = HOME.transform(table, rng)
    table["fall"], table["who"] = fall == 1, np.where(bob == 1, "bob", "ann")
    table["day"] = np.arange(n) // 2
    table.to_csv(name, index=False)


def test_clumsy_tables_are_one_message_and_begin_nothing(recheck, tmp_path, monkeypatch, capsys):
    write_rows("rows.csv", 20)
    table = pd.read_csv("rows.csv")
    table.head(0).to_csv("header.csv", index=False)
    table.rename(columns={"hall": "hal"}).to_csv("renamed.csv", index=False)
    table.assign(hall="many").to_csv("texts.csv", index=False)
    table.assign(who="zoe").to_csv("strangers.csv", index=False)
    (tmp_path / "empty.csv").touch()
    for name in ("empty", "header", "renamed", "texts", "strangers", "none"):
        code, printed, error = recheck(f"{name}.csv")
        assert (code, printed, error.count("\n")) == (2, "", 1) and "Traceback" not in error
        assert not (tmp_path / "recheck.json").exists()
    code, _, error = run(monkeypatch, capsys, "recheck", "rows.csv", "home.json")
    assert code == 2 and "Swap them" in error
    table.head(1).to_csv("one.csv", index=False)
    code, printed, _ = recheck("one.csv")
    assert code == NOT_VALID and printed.startswith("due: 1 labelled row shows no fault")


def test_rows_that_agree_make_it_valid_and_a_leak_ends_it(recheck):
    write_rows("few.csv", 10)
    assert recheck("few.csv")[:2] == (
        NOT_VALID,
        "due: 10 labelled rows show no fault, but would show a rise of 0.1 hardly. Add more, of "
        "every class.\n",
    )
    write_rows("quiet.csv", seed=1)
    code, printed, _ = recheck("quiet.csv")
    assert code == 0 and printed.startswith("valid: 310 labelled rows agree with it")
    code, printed, _ = recheck("quiet.csv", "--json")  # all of them were judged
    found = json.loads(printed)
    assert (code, found["state"], found["rows"], found["new"]) == (0, "valid", 310, 0)
    write_rows("leak.csv", follows=1.0, seed=2)
    for _ in range(2):
        code, printed, _ = recheck("leak.csv")
        assert code == NOT_VALID and printed.startswith("broken: Withdrawn on ")
        assert "on 'who', and at most 10.0 points was claimed" in printed


def test_symbols_that_were_sent_will_do(recheck):
    write_rows("sent.csv", 900, follows=1.0, sent=True)
    code, printed, _ = recheck("sent.csv", "--sent", "--state", "other.json")
    assert code == NOT_VALID and printed.startswith("broken")
    write_rows("readings.csv")
    code, _, error = recheck("readings.csv", "--sent", "--state", "third.json")
    assert code == 2 and "sent symbol 2" in error


def test_groups_are_draws(recheck):
    write_rows("days.csv", 600)
    code, printed, _ = recheck("days.csv", "--group", "day", "--json")
    assert code == 0 and json.loads(printed)["rows"] == 600


def test_a_limit_takes_the_place_of_a_certificate(recheck, tmp_path):
    (tmp_path / "audit.json").unlink()
    write_rows("quiet.csv")
    code, _, error = recheck("quiet.csv")
    assert code == 2 and "Name the certificate with --certificate, or the limit" in error
    assert recheck("quiet.csv", "--max-advantage", 0.1)[0] == 0


def test_a_stricter_audit_of_the_same_day_is_judged_from_the_start(recheck, tmp_path):
    write_rows("quiet.csv")
    assert recheck("quiet.csv")[0] == 0
    assert json.loads(recheck("quiet.csv", "--json")[1])["new"] == 0
    audit = json.loads((tmp_path / "audit.json").read_text())
    audit["limits"][0]["limit"] = 0.07
    (tmp_path / "audit.json").write_text(json.dumps(settle(audit)))
    found = json.loads(recheck("quiet.csv", "--json")[1])
    assert (found["rows"], found["new"]) == (300, 300)
    assert json.loads((tmp_path / "recheck.json").read_text())["claims"][0]["limit"] == 0.07


def test_a_certificate_of_another_mapping_is_refused(recheck, tmp_path):
    write_rows("quiet.csv")
    make_mapping(("hall", "kitchen")).save("home.json")
    code, _, error = recheck("quiet.csv")
    assert code == 2 and "audit.json: is of another mapping" in error
    assert not (tmp_path / "recheck.json").exists()
