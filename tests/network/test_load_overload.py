"""A short version of research/benchmarks/network/overload.py."""

import pytest
from support.network_figures.overload import overload
from support.sites import needs_mosquitto

pytestmark = [pytest.mark.slow, needs_mosquitto]


def test_overload_is_shed_and_counted_and_takes_no_memory(tmp_path):
    # How much may wait at the broker before it sheds, and how fast it fills, is the machine's.
    for seconds in (4, 12, 24):
        found = overload(tmp_path / str(seconds), seconds, nice=19, idle=0.95)
        if found.shed:
            break
    else:
        pytest.skip(f"{found.sent} messages in {seconds} s did not overload this machine")
    assert found.acknowledged > 0
    assert (found.lost, found.uncounted) == (0, 0)
    # In so short a time it may still be filling the room it has, about 10 MB of 150. Messages that
    # it kept beyond that would take some 100 MB.
    assert found.growth < 0.25
