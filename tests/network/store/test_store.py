"""Both databases keep the same promises."""

import uuid
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.sites import make_site

from discreet.errors import InputError
from discreet.network.site.settings import database_to_write, load_site
from discreet.network.store import open_reader, open_store
from discreet.network.store.database import StoreError
from discreet.network.store.rows import Batch, Decision, Outcome, Refused, Seen, StoredMessage
from discreet.network.store.writing import MOST_FOR_ROUND


def message(client="hall", boot=1, seq=0, round=5, symbols=b"\x01", spent=7, received=100.0):
    return StoredMessage(client, boot, seq, round, symbols, spent, received)


def stored(store):
    return sorted(row[:5] for row in store.messages(0, 2**32))


@pytest.mark.slow
def test_a_message_is_stored_once(store):
    assert store.commit(Batch([message()])) == Outcome()
    again = store.commit(Batch([message(received=200.0)]))
    assert again == Outcome(repeated=frozenset([0]))
    assert stored(store) == [("hall", 1, 0, 5, b"\x01")]
    (client,) = store.clients()
    assert client.messages == 1


def test_the_same_key_with_another_content_is_refused(store):
    store.commit(Batch([message()]))
    outcome = store.commit(Batch([message(symbols=b"\x00"), message(seq=1, round=6)]))
    assert outcome == Outcome(conflicting=frozenset([0]))
    assert stored(store) == [("hall", 1, 0, 5, b"\x01"), ("hall", 1, 1, 6, b"\x01")]


def test_a_round_holds_few_messages_of_one_client(store):
    first = Batch([message(boot=boot) for boot in range(3)])
    second = Batch([message(boot=boot) for boot in range(2, 9)])
    assert store.commit(first) == Outcome()
    outcome = store.commit(second)
    assert outcome.repeated == {0} and len(outcome.excess) == 7 - 1 - (MOST_FOR_ROUND - 3)
    store.commit(Batch([message(boot=100, seq=1, round=6), message("door", boot=8)]))
    rounds = Counter((each[0], each[3]) for each in store.messages(0, 99))
    assert rounds == {("hall", 5): MOST_FOR_ROUND, ("hall", 6): 1, ("door", 5): 1}
    assert {each.reason: each.times for each in store.refused()} == {"replay": 1, "excess": 5}


def test_a_batch_may_repeat_and_contradict_itself(store):
    batch = Batch([message(), message(), message(symbols=b"\x00"), message(seq=1, round=6)])
    outcome = store.commit(batch)
    assert outcome == Outcome(repeated=frozenset([1]), conflicting=frozenset([2]))
    assert len(stored(store)) == 2


def test_refusals_are_counted_and_few_are_kept(store, database, tmp_path):
    kept = [Refused("hall", "mac", float(i), bytes([i])) for i in range(30)]
    store.commit(Batch([], Counter({("hall", "mac"): 30}), kept))
    store.commit(Batch([message(), message()], Counter({("hall", "mac"): 2})))
    reader = open_reader(database, tmp_path, "home")
    counts = {(each.client, each.reason): each.times for each in reader.refused()}
    assert counts == {("hall", "mac"): 32, ("hall", "replay"): 1}
    ((left,),) = store._base.query("SELECT count(*) FROM quarantine")
    assert left == 20
    reader.close()


def test_what_is_known_of_a_client_never_goes_back(store):
    store.commit(Batch([message(boot=3, seq=8, round=9, spent=50)]))
    store.commit(Batch([message(boot=2, seq=90, round=4, spent=40, received=300.0)]))
    (client,) = store.clients()
    assert (client.boot, client.seq, client.last_round, client.spent) == (3, 8, 9, 50)
    assert (client.messages, client.last_seen) == (2, 300.0)


def test_a_round_keeps_its_first_decision(store, database, tmp_path):
    first = Decision(5, 1.0, 2, 3, (0.25, 0.75), "yes")
    store.decide([first, Decision(6, 1.5, 3, 3, (0.5, 0.5), "no")])
    store.decide([first._replace(decision="no"), Decision(7, 2.0, 0, 3, (0.5, 0.5), "no")])
    reader = open_reader(database, tmp_path, "home")
    assert [each.round for each in reader.decisions()] == [5, 6, 7]
    assert reader.decisions(since_round=4, limit=3)[0] == first
    assert [each.round for each in reader.decisions(limit=2)] == [6, 7]
    assert reader.latest().round == 7
    assert store.last_decided() == 7
    reader.close()


def test_health_is_noted_and_read(store, database, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.network.store.reading.time.time", lambda: 100_060.0)
    for at, messages in ((10.0, 1), (100_000.0, 200), (100_060.0, 800)):
        store.note({"messages": messages, "state": {"database": "here"}}, at)
    reader = open_reader(database, tmp_path, "home")
    assert reader.overview(1, 120).rate == pytest.approx(10.0)
    assert reader.health()["state"].value == {"database": "here"}
    assert [each.at for each in reader.history("messages", 1e9)] == [100_000.0, 100_060.0]
    assert reader.overview(1, 1).rate is None
    reader.close()


def test_what_is_forgotten_cannot_come_back(store):
    store.commit(Batch([message(round=5), message(seq=1, round=6)]))
    store.decide([Decision(5, 1.0, 1, 1, (1.0,), "a"), Decision(6, 1.0, 1, 1, (1.0,), "a")])
    assert store.floor() == 0
    store.forget(6)
    store.forget(4)
    assert store.floor() == 6
    assert [each[3] for each in stored(store)] == [6]


def test_many_rounds_are_forgotten_some_at_a_time(store, monkeypatch):
    monkeypatch.setattr("discreet.network.store.writing.FORGOTTEN_AT_ONCE", 3)
    store.commit(Batch([message(seq=i, round=i) for i in range(2, 9)]))
    assert not store.forget(7)
    assert (store.floor(), [each[3] for each in stored(store)]) == (5, [5, 6, 7, 8])
    assert store.forget(7)
    assert (store.floor(), [each[3] for each in stored(store)]) == (7, [7, 8])
    assert not store.forget(20)
    assert store.forget(30)
    assert (store.floor(), stored(store)) == (30, [])


def test_sites_do_not_see_each_other(store, database, tmp_path):
    store.commit(Batch([message()]))
    other = open_store(database, tmp_path, "office")
    assert other.commit(Batch([message(symbols=b"\x00")])) == Outcome()
    assert stored(other) == [("hall", 1, 0, 5, b"\x00")]
    other.close()


def test_two_sites_called_home_share_a_database(database, tmp_path):
    sites = []
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        sites.append(load_site(make_site(tmp_path / part)))
    stores = [open_store(database, tmp_path, each.key) for each in sites]
    for each in stores:
        each.prepare()
        assert each.commit(Batch([message()])) == Outcome()  # no replay of the other's
        assert each.lead()
    stores[0].forget(6)
    assert [len(stored(each)) for each in stores] == [0, 1]
    assert [each.floor() for each in stores] == [6, 0]
    for each in stores:
        each.close()


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://db.example.org/home", "verify-full"),
        ("postgresql://127.0.0.1,db.example.org/home", "verify-full"),
        ("postgresql://db.example.org/home?sslmode=require", "require"),
        ("postgresql://127.0.0.1/home", None),
        ("postgresql:///home?host=/run/postgresql", None),
    ],
)
def test_a_server_elsewhere_has_to_show_who_it_is(url, mode):
    pytest.importorskip("psycopg")
    from discreet.network.store.postgres import connection_settings

    assert connection_settings(url).get("sslmode") == mode


def test_options_of_the_address_are_kept(postgres, tmp_path):
    url = f"{postgres.url}{'&' if '?' in postgres.url else '?'}options=-c%20work_mem%3D5MB"
    with closing(open_store(url, tmp_path, "home")) as store:
        ((mine,),), ((ours,),) = (
            store._base.query(f"SHOW {name}") for name in ("work_mem", "statement_timeout")
        )
    assert (mine, ours) == ("5MB", "30s")


def test_what_is_deleted_leaves_no_trace_in_the_file(tmp_path):
    store = open_store("sqlite:fusion.db", tmp_path, "home")
    store.prepare()
    mark = b"deleted symbols "
    store.commit(Batch([message(seq=i, round=i, symbols=mark * 8) for i in range(500)]))
    assert any(mark in file.read_bytes() for file in tmp_path.iterdir())
    assert store.forget(500)
    assert not any(mark in file.read_bytes() for file in tmp_path.iterdir())
    store.close()


def test_the_fusion_centre_may_have_an_address_of_its_own(tmp_path):
    folder = make_site(tmp_path)
    site = load_site(folder)
    assert database_to_write(folder, site) == site.database
    (folder / "fusion/database").write_text("postgresql://writer:x@127.0.0.1/home\n")
    assert database_to_write(folder, site) == "postgresql://writer:x@127.0.0.1/home"
    (folder / "fusion/database").write_text("secret")
    with pytest.raises(InputError) as caught:
        database_to_write(folder, site)
    assert "secret" not in str(caught.value)


def test_a_reader_cannot_write(store, database, tmp_path):
    reader = open_reader(database, tmp_path, "home")
    with pytest.raises(StoreError):
        reader._base.change("DELETE FROM messages")
    reader.close()


def test_the_file_is_for_its_owner(tmp_path):
    store = open_store("sqlite:fusion.db", tmp_path, "home")
    store.prepare()
    store.commit(Batch([message()]))
    files = list(tmp_path.glob("fusion.db*"))
    assert files and all(file.stat().st_mode & 0o077 == 0 for file in files)
    store.close()


@pytest.mark.parametrize("word", ["mysql://x", "sqlite:", "postgres.db", ""])
def test_an_unknown_database_is_refused(word, tmp_path):
    with pytest.raises(InputError, match="must begin with"):
        open_store(word, tmp_path, "home")


def test_a_database_that_is_away_says_so_and_comes_back(tmp_path):
    folder = tmp_path / "gone"
    store = open_store("sqlite:fusion.db", folder, "home")
    with pytest.raises(StoreError) as caught:
        store.prepare()
    assert caught.value.state == "away"
    folder.mkdir()
    store.prepare()
    assert store.commit(Batch([message()])) == Outcome()
    store.close()


keys = st.tuples(st.sampled_from("ab"), st.integers(1, 2), st.integers(0, 3))
rows = st.builds(
    lambda key, symbol: message(*key, symbols=bytes([symbol])), keys, st.integers(0, 1)
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(rows, max_size=6), max_size=5))
@pytest.mark.slow
def test_any_sequence_of_batches_is_what_a_dictionary_would_hold(store, batches):
    store.site, store._highest = uuid.uuid4().hex, None  # a new one for each example
    kept: dict[tuple[str, int, int], bytes] = {}
    for batch in batches:
        repeated, conflicting, new = set(), set(), {}
        for place, row in enumerate(batch):
            if row[:3] not in kept:
                kept[row[:3]] = row.symbols
                new.setdefault(row.client, []).append(row[:3])
            else:
                (repeated if kept[row[:3]] == row.symbols else conflicting).add(place)
        dropped = set()
        for client, keys in new.items():
            count = sum(key[0] == client for key in kept)
            dropped |= set(keys[len(keys) - max(0, count - MOST_FOR_ROUND) :])
        excess = {
            place
            for place, row in enumerate(batch)
            if row[:3] in dropped and place not in conflicting
        }
        kept = {key: symbols for key, symbols in kept.items() if key not in dropped}
        outcome = store.commit(Batch(list(batch)))
        assert outcome == Outcome(repeated - excess, conflicting, excess)
    assert {row[:3]: row[4] for row in store.messages(0, 9)} == kept


def test_a_dead_connection_is_noticed_on_both_sides(postgres, tmp_path):
    store = open_store(postgres.url, tmp_path, "home")
    names = ("tcp_keepalives_idle", "tcp_user_timeout", "idle_in_transaction_session_timeout")
    shown = [store._base.query(f"SHOW {name}")[0][0] for name in names]
    assert shown == ["5", "15000", "30s"]
    assert store._base._base.info.get_parameters()["tcp_user_timeout"] == "15000"
    store.close()


def test_turning_back_marks_what_is_to_come_and_deletes_no_row(store):
    rows = [StoredMessage("hall", 1, k, k, b"\1", 0, 10.0 * k) for k in (5, 500)]
    store.commit(Batch(rows, Counter({("hall", "mac"): 1}), at=5000.0))
    store.decide([Decision(k, 10.0 * k, 1, 1, (0.5, 0.5), "no") for k in (5, 500)])
    store.forget(2)
    store._base.change("UPDATE floors SET round = 400")
    store.see(Seen(5000.0))
    store.rest(9000.0)
    store.turn_back(Seen(100.0), 10)
    assert [each[3] for each in store.messages(0, 999)] == [5, 500]
    assert [each[3] for each in store.messages(0, 999, earliest=(0.0, 10.0))] == [5]
    assert [each.closed for each in store.decisions()] == [50.0, 100.0]
    assert store.last_decided(10) == 5 and store.last_decided() == 500
    (client,), (refusal,) = store.clients(), store.refused()
    assert (client.last_round, client.last_seen, refusal.last) == (10, 100.0, 100.0)
    assert (store.floor(), store.seen().at, store.rests(8999.0), store.rests(9001.0)) == (
        10, 100.0, True, False,
    )  # fmt: skip
    # In its time the decision is replaced; one that was made in its time is not.
    store.decide(
        [Decision(k, 6000.0, 0, 1, (0.1, 0.9), "yes") for k in (5, 500)], lambda k: 10.0 * k
    )
    assert [each.decision for each in store.decisions()] == ["no", "yes"]


def test_an_alarm_stands_until_it_is_settled(store):
    store.alarm("hall", "cloned", "first", 5.0)
    store.alarm("hall", "cloned", "again", 9.0)
    (found,) = store.alarms()
    assert found == ("hall", "cloned", 5.0, "again") and found.short == "A device runs twice"
    store.settle("hall", "cloned")
    assert store.alarms() == []


def test_a_database_knows_its_place(store, database, tmp_path):
    assert store.is_at_home() == database.startswith("postgresql")
    store.settle_in()
    assert store.is_at_home()
    if database.startswith("sqlite"):
        store.close()
        (tmp_path / "other").mkdir()
        (tmp_path / "fusion.db").rename(tmp_path / "other/fusion.db")  # moved, and then copied
        (tmp_path / "fusion.db").write_bytes((tmp_path / "other/fusion.db").read_bytes())
        moved = open_store(database, tmp_path / "other", "home")
        assert moved.is_at_home() and not store.is_at_home()
        moved.close()
