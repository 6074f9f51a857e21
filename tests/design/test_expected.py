"""Figures of what to expect: what they are of, what they are good for, what was lacking."""

from dataclasses import replace

import pytest
from support.expectations import expected_figures

from discreet.design.expected import Request, Shortfall


def test_useful_is_an_interval_above_guessing_and_decisions_that_differ():
    assert expected_figures(0.501, (0.6, 0.4)).useful
    assert not expected_figures(0.5, (0.6, 0.4)).useful
    assert not expected_figures(0.7, (1.0, 0.0)).useful
    assert expected_figures(0.35, (0.6, 0.4, 0.0)).useful  # guessing among three
    assert expected_figures(0.35, (0.6, 0.4, 0.0)).public_advantage == pytest.approx(0.4 - 1 / 3)


@pytest.mark.parametrize(
    ("folds", "silent", "of"),
    [(1, False, "the mapping written"), (2, False, "designs without"), (2, True, "the mapping")],
)
def test_figures_say_what_they_are_of(folds, silent, of):
    found = replace(expected_figures(0.501, (0.6, 0.4)), folds=folds, silent=silent)
    assert found.of.startswith(of) and found.of.endswith("on rows left out")


def lacking(asked, advantage, epsilon=None, kept=1.0):
    return Shortfall(asked, advantage, epsilon, 1.25, kept)


def test_what_levels_lacked_is_said_beside_the_limit():
    both = Request(0.05, 1.0)
    assert "is at least 5.01 points with 1.25 standard" in lacking(both, 0.0501, 0.5).words
    found = lacking(both, 0.039, 2.378, kept=0.75)
    assert found.of_epsilon and not found.of_advantage
    assert "at least 2.378 on rows left out (limit: 1); so 25 % of the symbols" in found.words
    assert "either the advantage or epsilon" in lacking(both, 0.04, 0.5).words
    assert "unbounded" in lacking(Request(None, 1.0), 0.04, float("inf")).words
    assert "in one group only" in lacking(Request(0.05), float("inf")).words


@pytest.mark.parametrize(("middle", "little"), [(0.55, True), (0.6, False)])
def test_little_is_kept_where_it_is_less_than_a_fifth_of_what_raw_readings_gain(middle, little):
    found = replace(expected_figures(0.501, (0.6, 0.4)), balanced_accuracy=middle)
    found = replace(found, raw_balanced_accuracy=0.95)
    assert found.useful and found.keeps_little == little
    assert found.share_of_raw_gain == pytest.approx((middle - 0.5) / 0.45)
    nothing = replace(found, raw_balanced_accuracy=0.5)
    assert nothing.share_of_raw_gain is None and not nothing.keeps_little
