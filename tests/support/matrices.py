"""Matrices of which `make test` runs a few cases and `make exhaustive` the rest."""

from itertools import product

import pytest


def sparing(values, *kept):
    """Mark all but some of these values, which together show every claim, as exhaustive.

    A value that carries marks already (``pytest.param``) is known by its only argument.
    """
    known = [each.values[0] if hasattr(each, "marks") else each for each in values]
    assert set(kept) <= set(known), "what is kept has to be one of the values"
    return [
        each if value in kept else _exhaustive(each)
        for each, value in zip(values, known, strict=True)
    ]


def crossed(*axes, kept):
    """All combinations of some values; those that are not kept are exhaustive."""
    assert all({case[k] for case in kept} == set(axis) for k, axis in enumerate(axes))
    return [case if case in kept else _exhaustive(case) for case in product(*axes)]


def _exhaustive(case):
    marks = (*getattr(case, "marks", ()), pytest.mark.exhaustive)
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=marks, id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)
