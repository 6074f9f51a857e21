"""Label-free drift: its promise by enumeration, what it sees, and what it cannot see."""

import itertools
from datetime import date, timedelta

import numpy as np
import pytest

from discreet.auditing.recheck import REFERENCE_DAYS, DriftWatch, begin_watch, how_far
from discreet.errors import InputError

DAY = date(2026, 5, 1)


def day_of(rng, share=0.3, n=400):
    """Return what two sensors sent, whose shares go up and down together from day to day."""
    level = rng.normal(0, 0.05)
    ones = [int(rng.binomial(n, np.clip(p + level, 0, 1))) for p in (share, 0.5)]
    return [(n - each, each) for each in ones]


def watched(days, watch=None):
    watch = begin_watch("sha256:x") if watch is None else watch
    for k, counts in enumerate(days):
        watch.add(DAY + timedelta(k), counts)
    return watch


def test_the_watch_grows_by_at_most_one_a_day_if_days_are_exchangeable():
    """Every order of some scores is played."""
    for n in range(1, 7):
        total = 0.0
        for order in itertools.permutations(range(n)):
            watch = begin_watch("sha256:x")
            for score in order:
                watch._bet(float(score))
            total += watch.watched
        assert total / np.prod(np.arange(1, n + 1)) == pytest.approx(n)


def test_a_jump_of_one_sensor_is_seen_in_days():
    rng = np.random.default_rng(0)
    quiet = [day_of(rng) for _ in range(60)]
    watch = watched(quiet)
    assert watch.alarmed is None
    for k in range(60, 70):
        watch.add(DAY + timedelta(k), day_of(rng, share=0.5))
    assert watch.alarmed is not None and (watch.alarmed - DAY).days < 67


def test_who_causes_the_symbols_is_not_seen():
    rng = np.random.default_rng(1)
    days = [day_of(rng) for _ in range(80)]  # from day 60 on they follow the private fact: no trace
    assert watched(days).alarmed is None


def test_the_distance_is_that_of_the_reference(rng):
    reference = rng.normal(0, 1, (5000, 2))
    assert how_far(np.array([3.0, 0.0]), reference) == pytest.approx(9, rel=0.15)


def test_days_go_forward_and_have_all_symbols():
    watch = watched([[(5, 5), (5, 5)]])
    with pytest.raises(InputError, match="is not after 2026-05-01"):
        watch.add(DAY, [(5, 5), (5, 5)])
    with pytest.raises(InputError, match="has 2 symbols; 4 are watched"):
        watch.add(DAY + timedelta(1), [(5, 5)])


def test_a_watch_goes_on_from_its_file():
    rng = np.random.default_rng(2)
    days = [day_of(rng) for _ in range(REFERENCE_DAYS + 10)]
    whole, resumed = watched(days), begin_watch("sha256:x")
    for k, counts in enumerate(days):
        resumed.add(DAY + timedelta(k), counts)
        resumed = DriftWatch.model_validate_json(resumed.model_dump_json())
    assert resumed.model_dump() == whole.model_dump()
