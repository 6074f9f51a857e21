"""`learn` from files on a Dask cluster of this machine: the same mapping, and what it costs.

    python -m research.benchmarks.cluster [--rows 2000000] [--sensors 32] [--workers 1 2 4]

A Parquet table is counted here, on so many workers, and on two of which one is killed (SIGKILL)
when the first part is done. Printed are the seconds of the clock of the pass over the rows, which
is what a cluster shares out, the workers lost, and whether the mapping is that of one machine.
"""

import argparse
import os
import signal
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

from discreet.cluster import connected
from discreet.data.tables import open_stream
from discreet.errors import LostWorkerWarning
from discreet.learning import learn, prepare
from discreet.task import Task, make_split
from research.benchmarks.streamed_learn import write


def timed(task, client=None, report=None):
    """Return the seconds that rows were counted, the mapping, and how many workers were lost."""
    spans: dict[str, float] = {}

    def note(progress):
        spans.setdefault(progress.phase, time.perf_counter())
        spans["last"] = time.perf_counter()
        return report is not None and report(progress)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = prepare(task, open_stream(task.files()), report=note, client=client)
        end = time.perf_counter()
        mapping = learn(found).mapping
    lost = sum(issubclass(each.category, LostWorkerWarning) for each in caught)
    return end - spans["sample"], mapping, lost


def show(name, found, alone):
    seconds, mapping, lost = found
    same = "the same mapping" if mapping.id == alone.id else "ANOTHER MAPPING"
    print(f"{name:24}{seconds:8.1f} s{lost:4} lost    {same}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--sensors", type=int, default=32)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.rows, given.sensors, "parquet")
        task = Task(
            Path(folder, "*.parquet"), "public", ["private"], split=make_split(0.3, 0, None)
        )
        # On a busy machine the limit on the clock would end one search earlier than another.
        task = replace(task, options={"random_state": 0, "n_restarts": 1, "time_budget": None})
        here = timed(task)
        show("one machine", here, here[1])
        for count in given.workers:
            with connected(f"local:{count}") as client:
                show(f"{count} workers", timed(task, client), here[1])
        with connected("local:2") as client:
            pids = sorted(client.run(os.getpid).values())

            def kill(progress):
                if progress.phase == "count" and pids:
                    os.kill(pids.pop(), signal.SIGKILL)
                    pids.clear()

            show("2 workers, 1 killed", timed(task, client, kill), here[1])


if __name__ == "__main__":
    main()
