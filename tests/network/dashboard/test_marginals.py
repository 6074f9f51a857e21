"""Symbols against their tables: sound devices raise no alarm, whatever is read and repeated."""

from dataclasses import replace

import numpy as np
import pytest
from support.dashboards import make_mapping

from discreet.network.dashboard.sensors import Sent, check_marginals

MAPPING = make_mapping(("hall", "door"))
TABLE = np.array([[0.85, 0.15], [0.7, 0.3], [0.3, 0.7]])
COST = 1.0


def draw(rng, codes, per_period):
    """Symbols of one sensor that keeps the symbol of a code for a period."""
    periods = np.arange(len(codes)) // per_period
    kept = rng.random((periods[-1] + 1, len(TABLE))) > TABLE[:, 0]
    return kept[periods, codes].astype(int).tolist()


def sent(hall, door, periods, sensors=("hall", "door")):
    """Messages of a gateway with two sensors, and what its ledger counts for so many periods."""
    messages = tuple(bytes(pair) for pair in zip(hall, door, strict=True))
    return Sent("gateway", sensors, messages, 3 * COST * periods, COST)


@pytest.mark.parametrize("per_period", [1, 10])
@pytest.mark.slow
def test_a_sound_device_raises_no_alarm(per_period):
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        habit = rng.dirichlet([0.3] * 3)
        codes = rng.choice(3, size=2000, p=habit)
        hall, door = (draw(rng, codes, per_period) for _ in range(2))
        found = check_marginals(MAPPING, [sent(hall, door, 2000 // per_period)])
        assert found.checked == 2
        alarms += bool(found.outside)
    assert alarms <= 2  # one in a thousand is allowed


def test_a_device_that_does_not_draw_from_its_table_is_found():
    rng = np.random.default_rng(0)
    hall = [1] * 2000  # always the same symbol, which the table allows in 70 % at most
    door = draw(rng, rng.integers(3, size=2000), 1)
    found = check_marginals(MAPPING, [sent(hall, door, 2000)])
    assert {(each.sensor, each.symbol) for each in found.outside} == {("hall", 0), ("hall", 1)}
    assert found.finding.level == "bad" and "hall" in found.finding.words


def test_one_symbol_for_a_whole_period_says_nothing():
    found = check_marginals(MAPPING, [sent([1] * 2000, [0] * 2000, 2)])
    assert (found.checked, found.unsure, found.outside) == (0, 2, ())
    assert found.finding.level == ""


@pytest.mark.parametrize("change", [{"spent": None}, {"cost": None}, {"spent": 0.0}])
def test_without_a_ledger_nothing_is_said(change):
    found = check_marginals(MAPPING, [replace(sent([1] * 9, [1] * 9, 9), **change)])
    assert (found.checked, found.unsure) == (0, 2)


def test_a_sensor_that_the_mapping_does_not_know_is_left_alone():
    found = check_marginals(MAPPING, [sent([1] * 9, [1] * 9, 9000, ("hall", "attic"))])
    assert (found.checked, found.unsure) == (0, 2)


def test_no_messages_are_no_alarm():
    assert check_marginals(MAPPING, []).outside == ()
    assert check_marginals(MAPPING, [sent([], [], 9000)]).outside == ()


def test_drift_that_raises_the_leak_stays_inside():
    """The check is weak, and is called so: here the reading becomes the secret itself."""
    rng = np.random.default_rng(1)
    who = rng.integers(2, size=2000)
    before, after = rng.integers(3, size=2000), np.where(who == 1, 2, 0)
    for codes in (before, after):
        hall, door = (draw(rng, codes, 1) for _ in range(2))
        assert check_marginals(MAPPING, [sent(hall, door, 2000)]).outside == ()
