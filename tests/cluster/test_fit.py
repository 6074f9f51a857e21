import numpy as np
import pytest
from support.clusters import home, kill, process_ids, started

from discreet import ModelMapper, NPOMapper, RandomizedResponseMapper
from discreet.cluster import fit as module
from discreet.cluster.fit import ClusterRows, fit, fit_packed
from discreet.design import sweep
from discreet.design.problem import MANY_ROWS
from discreet.errors import InputError, LostWorkerWarning
from discreet.learning import Task, make_split, pack_tables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::discreet.errors.BlindKernelWarning"),
]


N = MANY_ROWS + 2000  # some more than are left where they are


def mapper(**more):
    return NPOMapper(kernel="count", privacy_ratio=0.99, random_state=0, n_bins=16, **more)


@pytest.fixture(scope="module", autouse=True)
def short_segments():
    """Have few rows make enough segments for several workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "_SEGMENT_ROWS", 1 << 12)
        yield


@pytest.fixture(scope="module")
def alone(short_segments):
    X, fall, who = home(N)
    return mapper().fit(X, fall, private=who)


@pytest.fixture
def passes(monkeypatch):
    """Count the passes on the cluster, and let one of them be disturbed."""
    counted, real = {"done": 0, "disturb": {}}, ClusterRows.sweep

    def counting(box, *arguments):
        disturb = counted["disturb"].pop(counted["done"], None)
        counted["done"] += 1
        if disturb is not None:
            disturb(box)
        return real(box, *arguments)

    monkeypatch.setattr(ClusterRows, "sweep", counting)
    return counted


def assert_same(found, expected):
    assert found.public_risk_ == pytest.approx(expected.public_risk_, abs=1e-8)
    assert found.private_risk_ == pytest.approx(expected.private_risk_, abs=1e-8)
    assert found.passes_ == expected.passes_
    for ours, theirs in zip(found.mapping_.tables, expected.mapping_.tables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_mapping_is_that_of_one_machine_though_a_worker_is_killed(alone, passes, monkeypatch):
    X, fall, who = home(N)
    with started(2) as client:
        assert_same(fit(mapper(), client, X, fall, private=who), alone)
        count = passes["done"]
        assert count > 3

        ask, pids = module._call, process_ids(client)

        def kill_while_asked(box):
            """Kill the worker that is asked next, with its pass begun."""

            def ask_and_kill(piece, question):
                monkeypatch.setattr(module, "_call", ask)
                call = ask(piece, question)
                kill(pids, piece.worker)
                return call

            monkeypatch.setattr(module, "_call", ask_and_kill)

        passes.update(done=0, disturb={count - 1: kill_while_asked})  # at the last pass
        with pytest.warns(LostWorkerWarning):
            found = fit(mapper(), client, X, fall, private=who)
        assert passes == {"done": count, "disturb": {}}
        assert_same(found, alone)
        assert len(client.nthreads()) == 1


def test_rows_in_a_file_are_held_by_workers_and_read_again_for_a_lost_one(tmp_path):
    X, fall, who = home(N)
    X.assign(fall=fall, who=who).to_parquet(tmp_path / "home.parquet")
    task = Task(
        table=tmp_path / "home.parquet",
        public="fall",
        private=["who"],
        split=make_split(0.0, 0, None),
        options={"n_bins": 16},
    )
    pack_tables(task, tmp_path / "home.packed")
    expected = mapper().fit_packed(tmp_path / "home.packed")
    with started(2) as client:
        pids, ask = process_ids(client), module._call

        def ask_and_kill(piece, question):
            patch.undo()
            call = ask(piece, question)
            kill(pids, piece.worker)
            return call

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_call", ask_and_kill)  # lost while its rows are on the way
            with pytest.warns(LostWorkerWarning):
                found = fit_packed(mapper(), client, tmp_path / "home.packed")
    assert_same(found, expected)


def test_a_small_table_stays_here(passes):
    X, fall, who = home(400)
    found = fit(mapper(), None, X, fall, private=who)  # no client is ever asked
    assert passes["done"] == 0
    assert found.mapping_.names == list(X.columns)


@pytest.mark.parametrize(
    "wrong,words",
    [
        (NPOMapper(), "runs the 'count' kernel, got 'product'"),
        (ModelMapper(), "'model' does not go over the rows"),
        (RandomizedResponseMapper(), "'randomized-response' does not go over the rows"),
    ],
)
def test_what_no_cluster_runs_is_refused(wrong, words):
    X, fall, who = home(400)
    with pytest.raises(InputError, match=words):
        fit(wrong, None, X, fall, private=who)
