"""A table larger than memory on a cluster: the workers get their rows from the packed file."""

import pytest
from sklearn.base import clone
from support.clusters import home, kill, process_ids, started

from discreet import NPOMapper
from discreet.cluster.fit import ClusterRows, fit_packed
from discreet.data.tables import open_stream
from discreet.errors import LostWorkerWarning
from discreet.learning import Task, learn, make_split, pack_tables, prepare

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::discreet.errors.BlindKernelWarning"),
]


def task_in(tmp_path):
    readings, fall, who = home(n=32_000, n_sensors=6)
    table = tmp_path / "big.parquet"
    readings.assign(fall=fall, who=who).to_parquet(table)
    options = {"kernel": "count", "privacy_ratio": 0.99, "random_state": 0}
    return Task(table, "fall", ["who"], split=make_split(0.3, 0, None), options=options)


def streamed(tmp_path, client=None):
    task = task_in(tmp_path)
    prepared = prepare(task, open_stream(task.files()))
    return learn(prepared, work_dir=tmp_path, client=client).mapper


def test_the_mapping_is_that_of_one_machine_though_a_worker_is_lost(tmp_path, monkeypatch):
    alone = streamed(tmp_path)
    sweep, swept = ClusterRows.sweep, []
    with started() as client:
        pids = process_ids(client)

        def disturbed(box, *arguments):
            swept.append(len(box))
            if len(swept) == 3:
                kill(pids)
            return sweep(box, *arguments)

        monkeypatch.setattr(ClusterRows, "sweep", disturbed)
        with pytest.warns(LostWorkerWarning, match="changes nothing else"):
            together = streamed(tmp_path, client)
    assert len(swept) > 3
    assert together.mapping_.id == alone.mapping_.id
    assert together.passes_ == alone.passes_


def test_a_packed_file_teaches_the_same_on_a_cluster(tmp_path):
    pack_tables(task_in(tmp_path), tmp_path / "rows.packed")
    mapper = NPOMapper(kernel="count", privacy_ratio=0.99, random_state=0)
    alone = clone(mapper).fit_packed(tmp_path / "rows.packed")
    with started() as client:
        together = fit_packed(mapper, client, tmp_path / "rows.packed")
    assert together.mapping_.id == alone.mapping_.id
