"""Short versions of the figures of benchmarks/network/faults.py: nothing is lost, come what may."""

import numpy as np
import pytest
from databases import why_no_postgres
from network_figures import bad_network, control, dropout, kills, mutations, outages
from sites import needs_mosquitto

pytestmark = [pytest.mark.slow, needs_mosquitto]

needs_small_disk = pytest.mark.skipif(
    outages.why_no_small_disk() is not None, reason=str(outages.why_no_small_disk())
)
needs_namespaces = pytest.mark.skipif(
    bad_network.why_no_namespaces() is not None, reason=str(bad_network.why_no_namespaces())
)
needs_postgres = pytest.mark.skipif(why_no_postgres() is not None, reason=str(why_no_postgres()))


def test_kills_lose_double_and_change_nothing(tmp_path):
    tally = kills.survive_kills(tmp_path, kills=1, sensors=2, seed=0)
    assert tally.clean, str(tally)
    assert tally.written > 10


def test_the_control_loses_what_the_broker_had_acknowledged(tmp_path):
    acknowledged, lost, _ = control.kill_with_broker_acknowledgements_only(tmp_path, 1, seed=0)
    assert 0 < lost <= acknowledged


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


@needs_namespaces
def test_a_bad_network_loses_nothing(tmp_path):
    tally, _, decided = bad_network.survive_bad_network(
        tmp_path, seconds=9, partitions=1, sensors=2, interval=0.5, deadline=2.0
    )
    assert tally.clean, str(tally)
    assert np.median(decided) >= 2.0


def test_mutated_messages_change_nothing(tmp_path):
    tally, accepted, refused, alive = mutations.survive_mutations(tmp_path, 3000)
    assert (accepted, refused, alive) == (0, 3000, True)
    assert tally.clean, str(tally)


def test_silence_summed_out_beats_silence_read_as_zero():
    _, found = dropout.curves(houses=(6, 11), losses=np.array([0.0, 0.4]))
    assert [name.rpartition(", ")[2] for name in found] == ["table rule", "additive rule"]
    for lines in found.values():
        assert lines["summed out"][0] == lines["read as zero"][0]
        assert lines["summed out"][1] < lines["read as zero"][1] - 0.05
