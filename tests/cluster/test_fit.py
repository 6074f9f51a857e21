"""The pass over the rows on workers: the mapping of one machine, whatever happens to them."""

import numpy as np
import pytest
from support.clusters import home, kill, process_ids, started

from discreet import Mapper, cluster
from discreet.cluster import fit
from discreet.data import dependence, tables
from discreet.data.tables import open_stream
from discreet.errors import LostWorkerWarning
from discreet.learning import prepare
from discreet.task import Task, make_split

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::discreet.errors.DiscreetWarning"),
]

ROWS = 3000
OPTIONS = {"random_state": 0, "n_restarts": 1, "time_budget": None}


@pytest.fixture(autouse=True)
def many_parts(monkeypatch):
    """Have few rows make enough parts for several workers."""
    monkeypatch.setattr(cluster, "_SENT_ROWS", 200)
    monkeypatch.setattr(tables, "_PART_ROWS", 200)


@pytest.fixture
def wanted(tmp_path):
    X, fall, who = home(ROWS)
    X.assign(fall=fall, who=who).to_parquet(tmp_path / "home.parquet", row_group_size=150)
    return Task(
        tmp_path / "home.parquet", "fall", ["who"], split=make_split(0.3, 0, None), options=OPTIONS
    )


def assert_same(found, expected):
    """All that a mapping is learned from is the same, to the last bit."""
    assert found.source == expected.source and found.encoders == expected.encoders
    ours, theirs = found.counted, expected.counted
    for one, two in zip(ours.counts.by_code, theirs.counts.by_code, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(ours.sample.codes, theirs.sample.codes)
    np.testing.assert_array_equal(ours.numbers, theirs.numbers)


@pytest.fixture(scope="module")
def lasting():
    """Two workers that nobody kills."""
    with started() as client:
        yield client


def assert_all_counted(wanted, client):
    alone = prepare(wanted).coded
    for table in (None, open_stream(wanted.files())):
        assert_same(prepare(wanted, table, client=client).coded, alone)


def test_workers_count_what_one_machine_counts(wanted, lasting):
    assert_all_counted(wanted, lasting)


def test_rows_that_depend_late_in_a_table_are_found_with_workers(wanted, lasting, monkeypatch):
    monkeypatch.setattr(dependence, "MOST_ROWS", 600)
    monkeypatch.setattr(dependence, "_MOST_COMPARED", 900)
    X, fall, who = home(ROWS)
    X.iloc[ROWS // 2 :, 0] = np.repeat(X.iloc[: ROWS // 20, 0].to_numpy(), 10)
    X.assign(fall=fall, who=who).to_parquet(wanted.table, row_group_size=150)
    assert_all_counted(wanted, lasting)
    found = prepare(wanted, open_stream(wanted.files()), client=lasting).source.dependence
    assert found.found and found.rows == 600


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_workers", [1, 4])
def test_any_number_of_workers_counts_what_one_machine_counts(wanted, n_workers):
    with started(n_workers) as client:
        assert_all_counted(wanted, client)


def test_rows_handed_over_in_python_give_the_mapping_of_one_machine(lasting):
    X, fall, who = home(600, 3)
    mapper = Mapper(privacy_ratio=0.9, **OPTIONS)
    alone = mapper.fit(X, fall, private=who).mapping_
    assert fit(mapper, lasting, X, fall, private=who).mapping_.id == alone.id


def test_workers_that_do_not_see_the_files_are_sent_the_rows(wanted, lasting, monkeypatch):
    monkeypatch.setattr(cluster, "_all_see", lambda *_: False)
    found = prepare(wanted, open_stream(wanted.files()), client=lasting).coded
    assert_same(found, prepare(wanted).coded)


def test_a_killed_worker_costs_time_and_is_reported(wanted, monkeypatch):
    monkeypatch.setattr(cluster, "_WAITING", 1)
    with started(2) as client:
        pids, done = process_ids(client), []

        def kill_one(progress):
            if progress.phase == "count" and not done:
                done.append(kill(pids))

        with pytest.warns(LostWorkerWarning, match="another one does the work"):
            found = prepare(wanted, open_stream(wanted.files()), report=kill_one, client=client)
            assert len(client.nthreads()) == 1
    assert_same(found.coded, prepare(wanted).coded)
