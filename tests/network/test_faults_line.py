"""A short version of research/benchmarks/network/faults.py: what a bad line delivers."""

import numpy as np
import pytest
from support.network_figures import bad_network, dropout, mutations
from support.sites import needs_mosquitto

pytestmark = [pytest.mark.slow, needs_mosquitto]

needs_namespaces = pytest.mark.skipif(
    bad_network.why_no_namespaces() is not None, reason=str(bad_network.why_no_namespaces())
)


@needs_namespaces
def test_a_bad_network_loses_nothing(tmp_path):
    tally, _, decided = bad_network.survive_bad_network(
        tmp_path, seconds=9, partitions=1, sensors=2, interval=0.5, deadline=2.0
    )
    assert tally.clean, str(tally)
    assert np.median(decided) >= 2.0


def test_mutated_messages_change_nothing(tmp_path):
    tally, found = mutations.survive_mutations(tmp_path, 3000)
    assert (found.accepted, found.refused, found.alive) == (0, found.sent, True)
    assert found.refused >= 3000
    assert tally.clean, str(tally)


def test_silence_summed_out_beats_silence_read_as_zero():
    _, found = dropout.curves(houses=(6, 11), losses=np.array([0.0, 0.4]))
    assert [name.rpartition(", ")[2] for name in found] == ["table rule", "additive rule"]
    for lines in found.values():
        assert lines["summed out"][0] == lines["read as zero"][0]
        assert lines["summed out"][1] < lines["read as zero"][1] - 0.05
