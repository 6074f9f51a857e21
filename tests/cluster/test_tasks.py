"""Whole fits as tasks: the points of a frontier and the draws of an experiment."""

import os
import threading
from dataclasses import replace

import pytest
from support.clusters import kill, process_ids, product, started
from support.commands import rooms

from discreet import frontier
from discreet.cluster import run_tasks
from discreet.errors import ClusterError
from research.paper.experiment import ask, run_experiment
from research.reproduce import EXPERIMENTS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lasting():
    with started() as client:
        yield client


def test_results_come_from_the_workers_and_what_is_shared_is_sent_once(lasting):
    shared = [2]
    found = list(run_tasks(lasting, product, [(shared, k) for k in range(6)]))
    assert sorted(len(each) for each, _ in found) == list(range(6))
    assert {pid for _, pid in found} <= set(process_ids(lasting).values())
    assert list(run_tasks(lasting, product, [])) == []


def test_an_error_in_a_task_is_raised_here(lasting):
    with pytest.raises(TypeError):
        list(run_tasks(lasting, product, [("a", "b")]))


def test_one_fit_at_a_time_in_each_process(lasting):
    from discreet import cluster as tasks

    with tasks._ONE_AT_A_TIME:
        held = threading.Thread(target=tasks._run, args=(product, 1, 2))
        held.start()
        held.join(0.2)
        assert held.is_alive()
    held.join(60)
    assert not held.is_alive()


def test_the_frontier_is_that_of_processes(lasting):
    table = rooms(200)
    facts = (table[["hall", "door"]], table["fall"], table["who"])
    # Methods without a limit of time, which a busy machine would reach here or there.
    asked = {"methods": ("npo", "ndd"), "n_restarts": 1, "ratios": [0.9, 0.99]}
    assert frontier(*facts, **asked, client=lasting) == frontier(*facts, **asked, n_jobs=1)


def test_an_experiment_is_that_of_processes(lasting):
    whole = EXPERIMENTS["correlation"]
    few = replace(whole, settings=dict(list(whole.settings.items())[:1]))
    asked = ask(few, 1, 0, None)
    here, there = (run_experiment(few, asked, client=client) for client in (None, lasting))
    assert here.rows == there.rows


@pytest.mark.filterwarnings("ignore::discreet.errors.LostWorkerWarning")
def test_a_killed_worker_costs_time_and_no_result():
    with started(2, restart=True) as client:
        pids = process_ids(client)
        results = run_tasks(client, product, [(k, 1, 0.3) for k in range(6)])
        found = [next(results)[0]]
        kill(pids)
        found += [each for each, _ in results]
    assert sorted(found) == list(range(6))


@pytest.mark.filterwarnings("ignore::discreet.errors.LostWorkerWarning")
def test_workers_lost_again_and_again_are_one_error():
    with started(1, restart=True) as client, pytest.raises(ClusterError, match="again and again"):
        list(run_tasks(client, os._exit, [(1,)]))  # each process that takes it ends itself
