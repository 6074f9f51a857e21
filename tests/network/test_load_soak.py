"""A short version of research/benchmarks/network/soak.py."""

import pytest
from support.network_figures.soak import soak
from support.sites import needs_mosquitto


@pytest.mark.slow
@pytest.mark.exhaustive  # `make load` measures it for half an hour
@needs_mosquitto
def test_memory_stays_flat_and_everything_is_acknowledged(tmp_path):
    found = soak(tmp_path, 8, sensors=50, interval=0.25)
    assert found.sent == found.acknowledged == found.stored > 50 * 10
    assert found.growth(1) < 0.05
    assert found.decisions > 10
