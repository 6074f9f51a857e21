"""What the tests on clusters share: workers in processes of their own, and ways to end them."""

import logging
import os
import signal
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
from dask import config
from distributed import Client, LocalCluster


@contextmanager
def started(n_workers=2, *, restart=False):
    """Start workers in processes; one that is killed stays away unless it is to restart."""
    with (
        config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        for nanny in () if restart else cluster.workers.values():
            nanny.instantiate = _stay_away
        yield client


async def _stay_away():
    """Take the place of what would start a lost process again."""


def kill(pids, worker=None):
    """End the process of a worker, by default of any, without a word.

    ``pids`` are what ``process_ids`` gave before: a pass is over before they could be asked for.
    """
    os.kill(pids.pop(worker or min(pids)), signal.SIGKILL)


def process_ids(client):
    return client.run(os.getpid)


def product(a, b, wait=0.0):
    """A task that tells where it ran; workers cannot import it from a file of tests."""
    time.sleep(wait)
    return a * b, os.getpid()


def home(n, n_sensors=8, seed=0):
    """A table: readings, the public fact and the private one."""
    rng = np.random.default_rng(seed)
    fall, who = rng.integers(2, size=(2, n))
    shares = np.array([[2.0] * n_sensors, np.linspace(0, 2, n_sensors), [0.5] * n_sensors])
    causes = np.column_stack([fall - 0.5, who - 0.5, rng.normal(size=n)])
    readings = causes @ shares + rng.normal(size=(n, n_sensors))
    return pd.DataFrame(readings, columns=[f"s{t}" for t in range(n_sensors)]), fall, who
