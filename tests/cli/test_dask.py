"""``--dask`` from end to end: workers in processes, and what is left when they are lost."""

import pytest
from support.clusters import home, kill, process_ids, started
from support.commands import AT_ONCE, FACTS, rooms, run, run_apart

from discreet import Mapping, cluster
from discreet.data import opening, tables

pytestmark = pytest.mark.slow

# A method that takes no time: what is tested is where the rows are counted.
LEARN = ("learn", "big.parquet", *FACTS, "--method", "randomized-response")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, fall, who = home(6_000)
    X.assign(fall=fall, who=who).to_parquet("big.parquet", row_group_size=500)
    rooms().drop(columns="day").to_csv("home.csv", index=False)
    return tmp_path


@pytest.fixture
def command(folder, monkeypatch, capsys):
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


@pytest.fixture(scope="module")
def client():
    """Two workers, which the last test kills."""
    with started(2) as client:
        yield client


@pytest.fixture(autouse=True)
def many_parts(monkeypatch):
    monkeypatch.setattr(cluster, "_SENT_ROWS", 500)
    monkeypatch.setattr(tables, "_PART_ROWS", 500)


def test_a_table_and_a_frontier_give_the_same_files_on_workers(
    command, folder, client, monkeypatch
):
    ids, workers = set(), ("--dask", client.scheduler.address)
    for memory in (opening.DEFAULT_MEMORY, 1000):
        monkeypatch.setattr(opening, "DEFAULT_MEMORY", memory)
        for out, more in (("here", ()), ("there", workers)):
            code, _, error = command(*LEARN, "--out", out, *more)
            assert code == 0 and ("streamed" in error) == (memory == 1000), error
            ids.add(Mapping.load(folder / out).id)
    assert len(ids) == 1
    start = ("frontier", "home.csv", *FACTS, "--ratios", "0.9", "--methods", "npo,ndd")
    for out, more in (("f-here", ("--jobs", "1")), ("f-there", workers)):
        assert command(*start, "--out", out, *more)[0] == 0
    assert (folder / "f-here").read_bytes() == (folder / "f-there").read_bytes()


def test_workers_on_this_machine_leave_nothing_behind(folder):
    (folder / "scratch").mkdir()
    arguments = ("home.csv", *FACTS, *AT_ONCE, "--out", "m", "--dask", "local:2")
    ended = run_apart("learn", *arguments, folder=folder, TMPDIR=str(folder / "scratch"))
    assert ended.returncode == 0 and Mapping.load(folder / "m")
    assert not [*(folder / "scratch").iterdir()]


def test_mistakes_are_one_message_before_any_work(command, folder):
    code, printed, error = command(
        "learn", "home.csv", *FACTS, "--out", "m.json", "--dask", "nowhere"
    )
    assert (code, printed) == (2, "")
    assert error.startswith("discreet: ") and error.count("\n") == 1
    assert "must be the address of a Dask scheduler" in error
    assert not (folder / "m.json").exists()


def test_processes_and_a_cluster_are_not_asked_for_together(command):
    both = ("--jobs", "2", "--dask", "local:2")
    code, _, error = command("frontier", "home.csv", *FACTS, "--out", "f.json", *both)
    assert code == 2 and "--jobs 2 was given together with --dask local:2" in error


def test_all_workers_lost_is_one_message_and_no_file(command, folder, client, monkeypatch):
    monkeypatch.setattr(cluster, "_RETURN_SECONDS", 1.0)
    submit, sent = type(client).submit, []

    def ending(self, *arguments, **how):
        sent.append(1)
        if len(sent) == 3:
            pids = process_ids(client)
            while pids:
                kill(pids)
        return submit(self, *arguments, **how)

    before = {each.name for each in folder.iterdir()}
    monkeypatch.setattr(type(client), "submit", ending)
    code, printed, error = command(*LEARN, "--out", "m.json", "--dask", client.scheduler.address)
    assert (code, printed) == (2, ""), error
    assert len(sent) >= 3
    told = error.splitlines()[-1]
    assert told.startswith("discreet: all workers of the cluster are gone")
    assert "Traceback" not in error
    assert {each.name for each in folder.iterdir()} == before
