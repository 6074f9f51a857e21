"""What tries the packages: which Pythons it finds, and what it asks of a device's package."""

import json
import shutil
import sys

import pytest

from research.benchmarks.own_table import decisions
from research.manual import DOCS, script_of
from research.package import VECTORS, Place, pythons


def test_one_python_of_each_version_is_tried_and_this_one_first():
    places = pythons()
    versions = [place.version() for place in places]
    assert places[0] == Place(sys.executable) and versions[0] == sys.version_info[:2]
    assert len(set(versions)) == len(versions) and min(versions) >= (3, 11)


def test_a_device_is_held_to_the_listed_messages(tmp_path):
    shutil.copy(DOCS / "vectors.json", tmp_path)
    said = Place(sys.executable).run(tmp_path, sys.executable, "-c", VECTORS)
    known = json.loads((DOCS / "vectors.json").read_text())
    number = len(known["messages"]) + sum(len(each["draws"]) for each in known["tables"])
    assert said.strip() == f"{number} messages and draws equal docs/vectors.json"
    known["messages"][0]["seq"] += 1
    (tmp_path / "vectors.json").write_text(json.dumps(known))
    with pytest.raises(SystemExit, match="AssertionError"):
        Place(sys.executable).run(tmp_path, sys.executable, "-c", VECTORS)


def test_a_decision_is_what_only_the_user_knows():
    command = "learn t.csv --public a --private b --group date:day --out m.json"
    assert decisions(command) == ["--public a", "--private b", "--group date:day"]


def test_a_block_in_another_language_is_a_mistake(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\ntrue\n```\n```{note}\nx\n```\n```text\nmake demo\n```\n")
    assert "true" in script_of(page) and "make demo" not in script_of(page)
    page.write_text("```\ntrue\n```\n")
    with pytest.raises(ValueError, match=r"page\.md: a block of nothing is not run"):
        script_of(page)
