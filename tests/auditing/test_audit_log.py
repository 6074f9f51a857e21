from dataclasses import replace

import pytest

from discreet.auditing.data import AuditEntry, log_file, note_audit, say_before

FIRST = AuditEntry("rows", "sha256:a", 0)


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("DISCREET_STATE", str(tmp_path / "state"))


def test_a_first_audit_and_its_repetition_say_nothing():
    assert say_before(FIRST) == ""
    assert note_audit(FIRST) and note_audit(FIRST)
    assert say_before(FIRST) == ""  # the same rows, mapping and seed give the same figures


def test_other_mappings_and_other_seeds_on_the_same_rows_are_counted():
    for mapping in ("sha256:b", "sha256:c", "sha256:c"):
        note_audit(replace(FIRST, mapping=mapping))
    assert "2 other mappings" in say_before(FIRST)
    assert "another mapping" in say_before(replace(FIRST, mapping="sha256:c"))
    assert say_before(replace(FIRST, rows="others")) == ""
    note_audit(replace(FIRST, rows="others", seed=5))
    assert "before with another seed;" in say_before(replace(FIRST, rows="others"))


def test_a_damaged_log_is_read_as_far_as_it_goes():
    note_audit(replace(FIRST, mapping="sha256:b"))
    with log_file().open("ab") as log:
        log.write(b'\xff{"rows": 1}\n[]\n{"rows": "rows"}\n')
    assert "another mapping" in say_before(FIRST)


def test_a_log_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "state").write_text("a file in the way")
    assert not note_audit(FIRST)
    assert say_before(FIRST) == ""


def test_the_log_is_where_the_system_keeps_state(monkeypatch, tmp_path):
    monkeypatch.delenv("DISCREET_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert log_file() == tmp_path / "discreet" / "audits.jsonl"
