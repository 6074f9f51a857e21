"""What commands that change something print for programs: the result on stdout, words on stderr."""

import json

import pytest
from support.commands import FACTS, rooms, run
from support.ports import free_port

LEARN = ("learn", "home.csv", *FACTS, "--exclude", "day", "--method", "randomized-response",
         "--ldp-epsilon", "1", "--out", "m.json", "--quiet")  # fmt: skip


@pytest.mark.slow
def test_every_step_of_a_site_has_a_result_for_programs(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    rooms().to_csv("home.csv", index=False)
    assert run(monkeypatch, capsys, *LEARN)[0] == 0
    ports = [str(free_port()) for _ in range(3)]

    def result(*typed, ends=0):
        code, printed, words = run(monkeypatch, capsys, *typed, "--json")
        assert code == ends and words, (typed, words)
        return json.loads(printed)

    made = result("init", "site", "--mapping", "m.json", "--port", ports[0], "--metrics-port",
                  ports[1], "--dashboard-port", ports[2])  # fmt: skip
    mapping_id = json.loads((tmp_path / "m.json").read_text())["id"]
    assert (made["out"], made["mapping_id"]) == ("site", mapping_id)
    device = result("enroll", "hall")
    assert (device["out"], device["sensors"]) == ("hall.enrol", ["hall"])
    assert result("backup", "copy") == {"out": "copy", "database": False}
    (tmp_path / "site" / "README.md").unlink()
    back = result("restore", "copy", ends=3)
    assert (back["files"], back["database"]) == (["README.md"], "missing")
    assert ports[0] and result("renew-site")["names"]
    assert result("change-mapping", "m.json")["left"] == []
    assert result("revoke", "hall") | {"words": ""} == {
        "device": "hall", "outcome": "stopped", "words": "",
    }  # fmt: skip
