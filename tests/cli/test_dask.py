"""``--dask`` from end to end: workers in processes, and what is left when they are lost."""

import pytest
from support.clusters import home, kill, process_ids, started
from support.commands import FACTS, rooms, run

from discreet import Mapping
from discreet.cluster import connect
from discreet.cluster.fit import ClusterRows

pytestmark = pytest.mark.slow

COUNT = ("--method", "npo", "--kernel", "count", "--bins", "16", "--holdout", "0")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, fall, who = home(30_000)
    X.assign(fall=fall, who=who).to_parquet("big.parquet")
    rooms().drop(columns="day").to_csv("home.csv", index=False)
    return tmp_path


@pytest.fixture
def command(folder, monkeypatch, capsys):
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


@pytest.fixture(scope="module")
def workers():
    """Where two workers are found that nobody kills."""
    with started(2) as client:
        yield "--dask", client.scheduler.address


def test_a_table_and_a_frontier_give_the_same_files_on_workers(command, folder, workers):
    learn = ("learn", "big.parquet", *FACTS, *COUNT)
    for memory in ((), ("--memory", "1M")):
        for out, more in (("here", ()), ("there", workers)):
            code, _, error = command(*learn, *memory, "--out", out, *more)
            assert code == 0 and ("streamed" in error) == bool(memory), error
        assert Mapping.load(folder / "here").id == Mapping.load(folder / "there").id
    start = ("frontier", "home.csv", *FACTS, "--ratios", "0.9")
    for out, more in (("f-here", ("--jobs", "1")), ("f-there", workers)):
        assert command(*start, "--out", out, *more)[0] == 0
    assert (folder / "f-here").read_bytes() == (folder / "f-there").read_bytes()


def test_all_workers_lost_is_one_message_and_no_file(command, folder, monkeypatch):
    sweep, passes = ClusterRows.sweep, []
    with started(2) as client:

        def ending(box, *arguments):
            passes.append(box)
            if len(passes) == 3:
                pids = process_ids(client)
                while pids:
                    kill(pids)
            return sweep(box, *arguments)

        before = {each.name for each in folder.iterdir()}
        monkeypatch.setattr(connect, "_RETURN_SECONDS", 1.0)
        monkeypatch.setattr(ClusterRows, "sweep", ending)
        learn = ("learn", "big.parquet", *FACTS, *COUNT, "--out", "m.json")
        code, printed, error = command(*learn, "--dask", client.scheduler.address)
    assert (code, printed) == (2, "")
    assert len(passes) == 3
    told = error.splitlines()[-1]
    assert told.startswith("discreet: all workers of the cluster are gone")
    assert "Traceback" not in error
    assert {each.name for each in folder.iterdir()} == before


@pytest.mark.parametrize(
    "options,words",
    [
        (("--dask", "nowhere", *COUNT), "must be the address of a Dask scheduler"),
        (("--dask", "local:2", "--method", "npo"), "runs the 'count' kernel, got 'product'"),
        (("--dask", "local:2"), "'auto' does not go over"),
        (("--dask", "local:2", *COUNT, "--method", "model"), "'model' does not go over"),
    ],
)
def test_mistakes_are_one_message_before_any_work(command, folder, options, words):
    code, printed, error = command("learn", "home.csv", *FACTS, "--out", "m.json", *options)
    assert (code, printed) == (2, "")
    assert error.startswith("discreet: ") and error.count("\n") == 1 and words in error
    assert not (folder / "m.json").exists()


def test_processes_and_a_cluster_are_not_asked_for_together(command):
    both = ("--jobs", "2", "--dask", "local:2")
    code, _, error = command("frontier", "home.csv", *FACTS, "--out", "f.json", *both)
    assert code == 2 and "--jobs 2 was given together with --dask local:2" in error
