"""A short version of benchmarks/network/overload.py."""

import pytest
from network_figures.overload import overload
from sites import needs_mosquitto

pytestmark = [pytest.mark.slow, needs_mosquitto]


def test_overload_is_shed_and_counted_and_takes_no_memory(tmp_path):
    found = overload(tmp_path, 4, nice=19, listen=3.0)
    assert found.shed > 0
    assert found.acknowledged > 0
    assert (found.lost, found.uncounted) == (0, 0)
    # In so short a time it may still be filling the room it has, about 10 MB of 150. Messages that
    # it kept beyond that would take some 100 MB.
    assert found.growth < 0.25
