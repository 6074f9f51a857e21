"""A short version of research/benchmarks/network/faults.py: kills lose nothing."""

import pytest
from support.network_figures import control, kills, life
from support.sites import needs_mosquitto

pytestmark = [pytest.mark.slow, needs_mosquitto]


def test_kills_lose_double_and_change_nothing(tmp_path):
    tally = kills.survive_kills(tmp_path, kills=1, sensors=2, seed=0)
    assert tally.clean, str(tally)
    assert tally.written > 10


def test_commands_that_are_killed_lose_double_and_change_nothing(tmp_path):
    tally = life.survive_life(tmp_path, kills=1, sensors=2, seed=0)
    assert tally.clean, str(tally)
    assert tally.written > 10


def test_the_control_loses_what_the_broker_had_acknowledged(tmp_path):
    for seed in range(5):  # by chance a kill may come when nothing is under way
        acknowledged, lost, _ = control.kill_with_broker_acknowledgements_only(
            tmp_path / str(seed), 1, seed
        )
        if lost:
            break
    assert 0 < lost <= acknowledged
