from dataclasses import replace

import numpy as np
import pytest

from discreet.auditing.bounds.certificates import Certificate, NotCertifiable, certify_advantage
from discreet.auditing.bounds.epsilon import PointwiseAudit
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.over_time import bound_window
from discreet.auditing.bounds.rows_needed import (
    rounded,
    rows_for_rounds,
    say_needed,
    say_needed_for_epsilon,
    say_needed_for_rounds,
    say_needed_within,
)

NOISY = np.array([[0.9, 0.1], [0.1, 0.9]])


def coins(n, rng, ones=(0.5, 0.5)):
    index = np.repeat([0, 1], n)
    codes = (rng.random(2 * n) < np.array(ones)[index]).astype(int)
    return AuditRows((NOISY,), codes[:, None], index, 2)


def number(text):
    return int(text.split()[1].replace(",", ""))


def test_as_many_rows_as_it_says_nearly_suffice(rng):
    few = coins(100, rng)
    more = number(say_needed(few, 0.06, 0.05))
    bounds = [certify_advantage(coins(100 + n // 2, rng), 0.05).bound for n in [more] * 31]
    # An estimate from 200 rows: twice the limit would be no help, and half of it a waste.
    assert 0.03 < np.median(bounds) < 0.12


def test_what_leaks_is_not_mended_by_rows(rng):
    text = say_needed(coins(2000, rng, (0.2, 0.8)), 0.05, 0.05)
    assert text.startswith("More rows are not expected to certify an advantage of 5 points")


def test_groups_are_counted_by_their_name(rng):
    homes = replace(coins(500, rng), groups=np.arange(1000) % 100, unit="home")
    assert " more homes like these" in say_needed(homes, 0.05, 0.05)


def test_the_public_class_that_needs_most_decides(rng):
    small, large = coins(20, rng), coins(400, rng)
    both = number(say_needed_within([small, large], 0.08, 0.05))
    assert both > number(say_needed(small, 0.08, 0.05))  # of all rows few are of that class


@pytest.mark.parametrize("bound", [0.9, None])
def test_epsilon_asks_for_the_rows_that_its_bound_is_short_of(bound, rng):
    rows = coins(200, rng)
    value = NotCertifiable("rare") if bound is None else bound
    found = Certificate("information epsilon", value, 0.95, (), (), "")
    assert say_needed_for_epsilon(rows, found, 0.4).startswith(("About ", "One more row "))
    leaking = coins(200, rng, (0.1, 0.9))
    assert "not expected" in say_needed_for_epsilon(leaking, found, 0.4)


def test_an_epsilon_is_certified_by_about_the_rows_it_asked_for(rng):
    rows = coins(400, rng)
    found = PointwiseAudit(rows, 0).information(0.05)
    more = number(say_needed_for_epsilon(rows, found, found.bound / 2))
    again = PointwiseAudit(coins(400 + more // 2, rng), 0).information(0.05)
    assert again.bound < 0.75 * found.bound


def test_counts_are_rounded_up_to_two_digits():
    assert [rounded(n) for n in (1, 99, 101, 4192)] == ["1", "99", "110", "4,200"]


def test_as_many_rows_as_are_said_certify_a_window(rng):
    """Of a coin that tells half as much in sixty rounds: a quarter of x."""
    needed = rows_for_rounds((NOISY,), [[1, 1]], 60.0, 0.1)
    off = 0.5 * np.sqrt(0.04 / 60) / 1.6  # x of the coin is (1.6 off)^2
    enough, few = (
        np.mean([_certified(coins(n, rng, (0.5 - off, 0.5 + off))) for _ in range(20)])
        for n in (needed // 2, needed // 10)
    )
    assert enough >= 0.5 > 0.1 >= few
    some = coins(needed // 40, rng)
    said = say_needed_for_rounds([some], bound_window(some, 1.0, 60, 0.05), 0.1)
    assert 0.2 < number(said) / needed < 1.2  # this one tells nothing


def _certified(rows):
    return bound_window(rows, 1.0, 60, 0.05).advantage <= 0.1


def test_of_a_day_that_leaks_no_number_is_said(rng):
    leaky = coins(5_000, rng, ones=(0.45, 0.55))
    said = say_needed_for_rounds([leaky], bound_window(leaky, 1.0, 1440, 0.05), 0.1)
    assert said.startswith(
        "More rows are not expected to certify an advantage of 10 points over 1440"
    )
