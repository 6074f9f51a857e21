import json
import subprocess
import sys

import pytest

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
