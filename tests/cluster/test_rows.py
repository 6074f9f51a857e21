from itertools import pairwise

import numpy as np
import pytest
from support.clusters import kill, process_ids, started
from threadpoolctl import threadpool_limits

from discreet.choices import LOSSES
from discreet.cluster import connect
from discreet.cluster import fit as module
from discreet.cluster.fit import ClusterRows
from discreet.design.packing import pack
from discreet.design.sweep import WeightedRows
from discreet.errors import ClusterError, LostWorkerWarning

LOGISTIC = LOSSES["logistic"]


@pytest.fixture(scope="module")
def lasting():
    """Workers for the tests that end none."""
    with started() as client:
        yield client


def random_weighted_rows(rng, n=200_000, counted=False):
    codes = rng.integers(6, size=(n, 3))
    kinds = rng.integers(4, size=n).astype(np.uint8)
    counts = rng.integers(1, 4, size=n).astype(float) if counted else np.empty(0)
    return WeightedRows(pack(codes, [6] * 3), kinds, counts, rng.normal(size=(2, 4)) / n)


@pytest.mark.parametrize("loss", ["logistic", "square", "hinge"])  # compiled, and not
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.slow
def test_a_pass_gives_what_one_machine_gives_bit_for_bit(lasting, rng, loss, counted):
    weighted_rows = random_weighted_rows(rng, counted=counted)
    box = ClusterRows(lasting, weighted_rows)
    for _ in range(2):
        tables = rng.normal(size=(2, 18))
        with threadpool_limits(limits=1):  # as in every fit
            found, expected = (each.sweep(tables, LOSSES[loss]) for each in (box, weighted_rows))
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.sums, expected.sums)
    assert box.seconds > 0.0


@pytest.mark.slow
def test_rows_of_one_segment_need_one_worker(lasting, rng):
    weighted_rows = random_weighted_rows(rng, n=1000)
    tables = rng.normal(size=(2, 18))
    found = ClusterRows(lasting, weighted_rows).sweep(tables, LOGISTIC)
    np.testing.assert_array_equal(found.sums, weighted_rows.sweep(tables, LOGISTIC).sums)


@pytest.mark.slow
def test_rows_wait_until_a_worker_is_known(lasting, rng, monkeypatch):
    real, looks = connect.living_workers, iter([[], []])
    monkeypatch.setattr(connect, "living_workers", lambda client: next(looks, real(client)))
    weighted_rows, tables = random_weighted_rows(rng, n=1000), rng.normal(size=(2, 18))
    found = ClusterRows(lasting, weighted_rows).sweep(tables, LOGISTIC)
    np.testing.assert_array_equal(found.sums, weighted_rows.sweep(tables, LOGISTIC).sums)


@pytest.mark.slow
def test_what_is_not_swept_is_as_on_one_machine(lasting, rng):
    weighted_rows = random_weighted_rows(rng)
    box = ClusterRows(lasting, weighted_rows)
    assert len(box) == len(weighted_rows) and box.layout == weighted_rows.layout
    np.testing.assert_array_equal(box.totals(), weighted_rows.totals())
    np.testing.assert_array_equal(box.sample(500).kinds, weighted_rows.sample(500).kinds)


@pytest.mark.parametrize("parts,workers", [(1, 4), (5, 2), (32, 3), (4, 4)])
def test_every_segment_has_one_holder(parts, workers):
    edges = list(range(0, 10 * parts + 1, 10))
    dealt = module._deal([slice(a, b) for a, b in pairwise(edges)], workers)
    assert [share[0] for share in dealt] + [dealt[-1][-1]] == [0] + [e[-1] for e in dealt]
    assert sum(len(share) - 1 for share in dealt) == parts
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@pytest.mark.slow
def test_a_worker_killed_between_and_during_passes_costs_time_only(rng, monkeypatch):
    weighted_rows, tables = random_weighted_rows(rng), rng.normal(size=(2, 18))
    expected = weighted_rows.sweep(tables, LOGISTIC)
    with started(3) as client:
        box, pids = ClusterRows(client, weighted_rows), process_ids(client)
        kill(pids)
        with pytest.warns(LostWorkerWarning, match="lost a worker"):
            found = box.sweep(tables, LOGISTIC)
        np.testing.assert_array_equal(found.sums, expected.sums)

        ask = module._call

        def ask_and_kill(piece, question):
            monkeypatch.undo()
            call = ask(piece, question)
            kill(pids, piece.worker)
            return call

        monkeypatch.setattr(module, "_call", ask_and_kill)
        with pytest.warns(LostWorkerWarning):
            found = box.sweep(tables, LOGISTIC)
        np.testing.assert_array_equal(found.sums, expected.sums)


@pytest.mark.slow
def test_one_clear_error_when_all_workers_are_gone(rng, monkeypatch):
    monkeypatch.setattr(connect, "_RETURN_SECONDS", 1.0)
    with started(1) as client:
        box = ClusterRows(client, random_weighted_rows(rng))
        kill(process_ids(client))
        with (
            pytest.warns(LostWorkerWarning),
            pytest.raises(ClusterError, match="all workers of the cluster are gone"),
        ):
            box.sweep(rng.normal(size=(2, 18)), LOGISTIC)


@pytest.mark.slow
def test_a_worker_that_comes_back_is_used(rng):
    weighted_rows, tables = random_weighted_rows(rng), rng.normal(size=(2, 18))
    with started(1, restart=True) as client:
        box = ClusterRows(client, weighted_rows)
        kill(process_ids(client))
        with pytest.warns(LostWorkerWarning):
            found = box.sweep(tables, LOGISTIC)
    np.testing.assert_array_equal(found.sums, weighted_rows.sweep(tables, LOGISTIC).sums)
