"""Public names: which they are, what each looks like, and examples that do what they say."""

import doctest
import inspect
import re

import pytest
from support.report_cases import private

import discreet
from discreet.auditing.results import Audit
from discreet.frontiers.results import Frontier

PUBLIC = {name: getattr(discreet, name) for name in discreet.__all__ if not name.startswith("_")}
RETURNED = {"Audit": Audit, "Frontier": Frontier}
FOR_PEOPLE = (discreet.Mapping, Audit, Frontier)
MAPPERS = [each for name, each in PUBLIC.items() if name.endswith("Mapper")]
# Of use to the package itself, or shown by another example: how parts are bound together.
INNER = {
    "create",
    "with_chain",
    "of",
    "certificate",
    "fit_coded",
    "fit_reporting",
    "check_row_count",
}


def examples_of(found, name):
    return doctest.DocTestFinder(recurse=False).find(found, name, globs=vars(discreet) | RETURNED)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::discreet.errors.DiscreetWarning")
@pytest.mark.parametrize("name", [*PUBLIC, *RETURNED])
def test_the_example_in_the_docstring_is_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tests = examples_of((PUBLIC | RETURNED)[name], name)
    assert tests and tests[0].examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in tests:
        runner.run(test)
    assert runner.failures == 0


def own_methods(cls):
    """Return the public methods that this project wrote, with what a class inherits of it."""
    for name, found in inspect.getmembers(cls, callable):
        ours = getattr(found, "__module__", "") or ""
        if not name.startswith("_") and ours.split(".")[0] == "discreet" and name not in INNER:
            yield name, found


def test_every_public_method_has_words_and_is_in_some_example():
    shown = "".join(
        example.source
        for name, found in (PUBLIC | RETURNED).items()
        for test in examples_of(found, name)
        for example in test.examples
    )
    checked = 0
    for cls in (*FOR_PEOPLE, *MAPPERS):
        for name, found in own_methods(cls):
            assert inspect.getdoc(found), f"{cls.__name__}.{name} has no docstring"
            assert re.search(rf"\.{name}\b", shown), f"no example has {cls.__name__}.{name}"
            checked += 1
    assert checked > 30


@pytest.mark.parametrize("cls", FOR_PEOPLE)
def test_what_people_look_at_is_short_a_page_a_picture_and_a_table(cls):
    for name in ("__repr__", "_repr_html_", "plot", "to_frame"):
        assert name in vars(cls), f"{cls.__name__} has no {name} of its own"
    assert "to_html" in vars(Audit)


def test_what_people_look_at_is_short_in_a_console():
    audit, data = private()
    for found in (audit, data.mapping):
        assert len(repr(found)) < 80 and repr(found).startswith(f"<{type(found).__name__} ")


def test_no_other_name_of_the_package_is_public():
    assert dir(discreet) == sorted(discreet.__all__)
    inside = {name for name in vars(discreet) if not name.startswith("_")}
    modules = {name for name in inside if inspect.ismodule(vars(discreet)[name])}
    assert inside - modules <= {*discreet.__all__, "annotations", "import_module",
                                "TYPE_CHECKING", "Any"}  # fmt: skip
