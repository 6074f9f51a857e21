import json
import re
import subprocess
import sys
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import discreet


def run_python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("statement", ["import discreet", "import discreet.cli"])
def test_importing_does_not_load_the_numerical_libraries(statement):
    loaded = run_python(f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))")
    heavy = {"numpy", "scipy", "pandas", "sklearn", "pydantic"}
    assert not heavy & {name.split(".")[0] for name in loaded}


def test_loading_a_mapping_does_not_load_scikit_learn():
    loaded = run_python(
        "import discreet.mapping.mapping, sys, json; print(json.dumps(sorted(sys.modules)))"
    )
    assert not {"sklearn", "scipy"} & {name.split(".")[0] for name in loaded}


def test_public_names_are_there_and_unknown_ones_are_not():
    for name in discreet.__all__:
        assert getattr(discreet, name)
    assert set(discreet.__all__) <= set(dir(discreet))
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        discreet.nothing_of_the_kind  # noqa: B018


ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def test_code_that_a_page_names_is_there():
    package, found = ROOT / "src" / "discreet", 0
    for page in PAGES:
        for folder, name in re.findall(r"`((?:[a-z_]+/)+)([\w.]+)`", page.read_text()):
            if (package / folder).is_dir():
                found += 1
                module, *parts = name.removesuffix(".py").split(".")
                known = import_module(f"discreet.{folder.replace('/', '.')}{module}")
                reduce(getattr, parts, known)
            elif folder.startswith(("tests/", "research/", "sensor/", "src/", "docs/")):
                assert (ROOT / folder / name).is_file(), f"{page.name} names {folder}{name}"
    assert found > 50


def test_the_tree_answers_the_questions_of_a_newcomer():
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("## Find it by the tree alone")[2]
    answers = re.findall(r"^\| .+\? \| `(\S+)` \|$", table, re.M)
    assert len(answers) >= 12 and len(answers) == table.count("? |")
    for path in answers:
        assert (ROOT / path).is_file() or (ROOT / "src" / "discreet" / path).is_file(), path


def test_a_folder_has_the_files_to_begin_reading_at():
    page, checked = (ROOT / "docs" / "architecture.md").read_text(), 0
    for folder, begin in re.findall(r"^\| `(\w+/)` \| .* \| (`.*`) \|$", page, re.M):
        for name in re.findall(r"`(\S+)`", begin):
            assert (ROOT / "src" / "discreet" / folder / name).is_file(), f"{folder}{name}"
            checked += 1
    assert checked >= 20


# The first versions without a flaw that is known of the ones before.
SOUND = {"h11": "0.16", "starlette": "0.49.1", "jinja2": "3.1.6", "cryptography": "44.0.1",
         "tornado": "6.5"}  # fmt: skip


def test_nothing_is_asked_for_in_a_version_with_known_flaws():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = [each for some in project["optional-dependencies"].values() for each in some]
    asked = [Requirement(each) for each in (*project["dependencies"], *extras)]
    assert {each.name for each in asked} >= set(SOUND)
    for each in asked:
        if each.name in SOUND:
            assert str(each.specifier) == f">={SOUND[each.name]}", each
