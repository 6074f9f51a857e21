"""Every public name has an example in its docstring, and every example does what it says."""

import doctest

import pytest

import discreet

PUBLIC = [name for name in discreet.__all__ if not name.startswith("_")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::discreet.errors.DiscreetWarning")
@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_in_the_docstring_is_true(name):
    found = getattr(discreet, name)
    tests = doctest.DocTestFinder(recurse=False).find(found, name, globs={})
    assert tests and tests[0].examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in tests:
        runner.run(test)
    assert runner.failures == 0
