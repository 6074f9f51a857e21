"""``--dask`` from end to end: workers in processes, and what is left when they are lost."""

import pytest
from support.clusters import home, kill, process_ids, started
from support.commands import FACTS, rooms, run, run_apart

from discreet import Mapping
from discreet.cluster import connect
from discreet.cluster.fit import ClusterRows

pytestmark = pytest.mark.slow

COUNT = ("--kernel", "count", "--bins", "16", "--holdout", "0")


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


def test_learning_on_workers_of_its_own_gives_the_same_file(command, folder):
    learn = ("learn", "big.parquet", *FACTS, *COUNT)
    assert command(*learn, "--out", "here")[0] == 0
    ended = run_apart(*learn, "--out", "there", "--dask", "local:2", folder=folder)
    assert ended.returncode == 0 and "Traceback" not in ended.stderr, ended.stderr
    assert Mapping.load(folder / "here").id == Mapping.load(folder / "there").id


@pytest.fixture(scope="module")
def workers():
    """Where two workers are found that nobody kills."""
    with started(2) as client:
        yield "--dask", client.scheduler.address


def test_a_streamed_table_and_a_frontier_give_the_same_files_on_workers(command, folder, workers):
    learn = ("learn", "big.parquet", *FACTS, *COUNT, "--memory", "1M")
    for out, more in (("here", ()), ("there", workers)):
        code, _, error = command(*learn, "--out", out, *more)
        assert code == 0 and "streamed" in error, error
    assert Mapping.load(folder / "here").id == Mapping.load(folder / "there").id
    start = ("frontier", "home.csv", *FACTS, "--ratios", "0.9")
    for out, more in (("f-here", ("--jobs", "1")), ("f-there", workers)):
        assert command(*start, "--out", out, *more)[0] == 0
    assert (folder / "f-here").read_bytes() == (folder / "f-there").read_bytes()


def test_all_workers_lost_at_the_last_pass_is_one_message_and_no_file(command, folder, monkeypatch):
    sweep, passes = ClusterRows.sweep, []
    with started(2) as client:
        where = ("--dask", client.scheduler.address)
        learn = ("learn", "big.parquet", *FACTS, *COUNT, "--out", "m.json")

        def counting(box, *arguments):
            passes.append(box)
            return sweep(box, *arguments)

        monkeypatch.setattr(ClusterRows, "sweep", counting)
        assert command(*learn, *where)[0] == 0
        (folder / "m.json").unlink()
        last, before = len(passes), {each.name for each in folder.iterdir()}
        passes.clear()

        def ending(box, *arguments):
            passes.append(box)
            if len(passes) == last:
                pids = process_ids(client)
                while pids:
                    kill(pids)
            return sweep(box, *arguments)

        monkeypatch.setattr(connect, "_RETURN_SECONDS", 1.0)
        monkeypatch.setattr(ClusterRows, "sweep", ending)
        code, printed, error = command(*learn, *where)
    assert (code, printed) == (2, "")
    assert len(passes) == last
    told = error.splitlines()[-1]
    assert told.startswith("discreet: all workers of the cluster are gone")
    assert "Traceback" not in error
    assert {each.name for each in folder.iterdir()} == before


@pytest.mark.parametrize(
    "options,words",
    [
        (("--dask", "nowhere", *COUNT), "must be the address of a Dask scheduler"),
        (("--dask", "local:2"), "runs the 'count' kernel, got 'product'"),
        (("--dask", "local:2", "--method", "model", *COUNT), "'model' does not go over"),
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
