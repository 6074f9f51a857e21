"""The dashboard on both databases: the same figures, and no more than reading."""

import pytest

from discreet.network.store import open_reader
from discreet.network.store.rows import Batch, Decision, StoredMessage


@pytest.mark.slow
def test_everything_that_is_asked_for_is_answered(store, database, tmp_path):
    messages = [
        StoredMessage("hall", 1, k, k, bytes([k % 2]), 1000 * k, 100.0 + k) for k in range(5)
    ]
    store.commit(Batch([*messages, StoredMessage("door", 2, 0, 4, b"\1\0", 7, 105.0)]))
    store.decide([Decision(3, 104.0, 2, 3, (0.25, 0.75), "True")])
    store.note({"messages": 6, "lag_seconds": 0.5}, 105.0)
    reader = open_reader(database, tmp_path, "home")
    try:
        assert reader.symbols("hall", 3) == [(b"\0", 4000), (b"\1", 3000), (b"\0", 2000)]
        assert reader.symbols("door") == [(b"\1\0", 7)]
        assert reader.symbols("nobody") == []
        # Rounds 1 to 4 in pairs, of rounds of 10 s; the last message of each pair was the earliest.
        by_pair = [("door", 1, 1, 65.0), ("hall", 0, 2, 91.0), ("hall", 1, 2, 73.0)]
        assert sorted(reader.heard(1, 2, 10.0)) == by_pair
        assert reader.latest().probabilities == (0.25, 0.75)
        assert {each.client: each.messages for each in reader.clients()} == {"hall": 5, "door": 1}
        assert reader.health()["lag_seconds"].value == 0.5
    finally:
        reader.close()
