"""A short version of research/benchmarks/network/faults.py: full disks and an absent database."""

import pytest
from support.databases import why_no_postgres
from support.network_figures import outages
from support.sites import needs_mosquitto

pytestmark = [pytest.mark.slow, needs_mosquitto]

needs_small_disk = pytest.mark.skipif(
    outages.why_no_small_disk() is not None, reason=str(outages.why_no_small_disk())
)
needs_postgres = pytest.mark.skipif(why_no_postgres() is not None, reason=str(why_no_postgres()))


@needs_small_disk
@pytest.mark.parametrize("run", [outages.full_disk_at_sensor, outages.full_disk_at_fusion])
def test_a_full_disk_loses_nothing_and_is_told(tmp_path, run):
    tally, said = run(tmp_path, seconds=3)
    assert tally.clean, str(tally)
    assert said


@needs_postgres
def test_a_database_that_is_away_loses_nothing_and_is_told(tmp_path):
    tally, said = outages.database_away(tmp_path, seconds=3)
    assert tally.clean, str(tally)
    assert said
