"""A database that is replaced, copied or brought back under a running site loses nothing."""

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from support.commands import clean_environment, run
from support.network_samples import additive_mapping
from support.network_sites import PlainSite, Running, wait_for
from support.sites import make_site

from discreet.errors import InputError
from discreet.network.site import backups
from discreet.network.site.backups import back_up, bring_back, copy_database, restore
from discreet.network.site.settings import load_site, model_bytes
from discreet.network.store import open_store
from discreet.network.store.rows import REPLACED, Batch, Decision, StoredMessage
from discreet_sensor import wire

pytestmark = pytest.mark.slow

NAMES = ["hall", "door", "bed"]
KILLED = """
import os, sys
from pathlib import Path
from discreet.network.site import backups
def die(*_, **__):
    os.kill(os.getpid(), 9)
{patch}
{call}
"""


class Sender(threading.Thread):
    """Has messages of a device taken in, one each few milliseconds, and notes what is stored."""

    def __init__(self, service, site):
        super().__init__(daemon=True)
        self.service, self.key = service, bytes.fromhex(site.clients["hall"].key)
        self.topic = wire.message_topic("home", "hall")
        self.tag, self.acknowledged = wire.mapping_tag(site.mapping.id), set()
        self.first, self.halt = site.clock.number(time.time()) - 5000, threading.Event()
        service._link.send = self._answer
        self.start()

    def run(self):
        seq = 0
        while not self.halt.is_set():
            message = wire.Message(1, seq, self.first + seq, 0, b"\1", self.tag)
            sealed = wire.encode(message, self.key, self.topic)
            self.service._arrived(self.topic, sealed, (1, 1))
            seq += 1
            self.halt.wait(0.004)

    def _answer(self, _tickets, messages):
        for topic, payload, _ in messages:
            if topic.endswith("/ack"):
                for entry in wire.decode_acknowledgement(payload, self.key, topic):
                    assert entry.status == wire.STORED
                    self.acknowledged |= set(range(entry.first, entry.first + entry.length))

    def wait_for_more(self, count=100):
        before = len(self.acknowledged)
        wait_for(lambda: len(self.acknowledged) > before + count)


@pytest.fixture
def live(tmp_path):
    """A fusion centre that stores what is sent, and who sends it; no broker is needed."""
    site = PlainSite(tmp_path, additive_mapping(names=NAMES), 1, interval=0.2)
    site.enrol("hall", ["hall"])
    with Running(site.service()) as service:
        sender = Sender(service, site)
        sender.wait_for_more()
        yield site, sender
        sender.halt.set()


def stored(file):
    with closing(sqlite3.connect(file)) as base:
        rows = base.execute("SELECT seq FROM messages").fetchall()
        assert base.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    assert len(set(rows)) == len(rows)
    return {seq for (seq,) in rows}


@pytest.mark.parametrize("how", ["replaced", "emptied", "removed"])
def test_a_database_that_is_replaced_in_use_loses_nothing(live, tmp_path, how):
    site, sender = live
    file = tmp_path / "fusion.db"
    if how == "replaced":
        copy_database(file, tmp_path / "older.db")
        sender.wait_for_more()
        (tmp_path / "older.db").rename(file)
    elif how == "emptied":
        (tmp_path / "empty.db").touch()
        (tmp_path / "empty.db").rename(file)
    else:
        file.unlink()
    sender.wait_for_more(300)
    with closing(site.reader()) as reader:
        wait_for(lambda: [each.kind for each in reader.alarms()] == [REPLACED])
    sender.halt.set()
    acknowledged = set(sender.acknowledged)
    rescued = list(tmp_path.glob("fusion.db.replaced-*"))
    assert len(rescued) == (how != "removed")
    if rescued:
        assert acknowledged <= stored(file) | stored(rescued[0])
        bring_back(rescued[0], file)
    assert acknowledged <= stored(file)
    with closing(site.reader()) as reader:
        assert (reader.alarms() == []) == bool(rescued)


def test_backup_and_restore_of_a_site_that_runs(live, tmp_path):
    _, sender = live
    file = tmp_path / "fusion.db"
    for k in range(3):
        copy_database(file, tmp_path / f"copy-{k}.db")
        assert stored(tmp_path / f"copy-{k}.db") <= stored(file)
        sender.wait_for_more()
        counts = bring_back(tmp_path / f"copy-{k}.db", file)
        assert counts["messages"] == 0  # nothing was missing, nothing is doubled
    with closing(sqlite3.connect(file, timeout=30)) as base:
        lost = base.execute("DELETE FROM messages WHERE seq < 50").rowcount
        base.commit()
    assert bring_back(tmp_path / "copy-2.db", file)["messages"] == lost
    sender.halt.set()
    assert set(sender.acknowledged) <= stored(file)


@pytest.fixture
def filled(tmp_path):
    """A site with messages, decisions and a floor."""
    site = make_site(tmp_path, additive_mapping(names=NAMES))
    with closing(open_store(load_site(site).database, site, load_site(site).key)) as store:
        store.prepare()
        rows = [StoredMessage("hall", 1, k, k, b"\1", 10 * k, 100.0 + k) for k in range(50)]
        store.commit(Batch(rows))
        store.decide([Decision(k, 100.0 + k, 1, 3, (0.5, 0.5), "no") for k in range(50)])
        store.forget(10)
    return site


def content(site):
    with closing(open_store(load_site(site).database, site, load_site(site).key)) as store:
        return store.messages(0, 999), store.decisions(), store.clients(), store.floor()


def test_a_backup_makes_the_same_site_elsewhere(filled, tmp_path):
    assert back_up(filled, tmp_path / "saved")
    restore(tmp_path / "saved", tmp_path / "other")
    assert content(tmp_path / "other") == content(filled)
    names = {path.relative_to(filled).as_posix() for path in filled.rglob("*") if path.is_file()}
    passing = {"data/fusion.db-wal", "data/fusion.db-shm", ".lock"}
    for place in ("saved", "other"):
        there = [path for path in (tmp_path / place).rglob("*") if path.is_file()]
        assert {path.relative_to(tmp_path / place).as_posix() for path in there} >= names - passing
        assert all(path.stat().st_mode & 0o077 == 0 for path in there)
    with pytest.raises(InputError, match="not an empty folder"):
        back_up(filled, tmp_path / "saved")


def test_what_is_missing_comes_back_and_what_is_newer_stays(filled, tmp_path):
    back_up(filled, tmp_path / "saved")
    before = content(filled)
    with closing(open_store(load_site(filled).database, filled, load_site(filled).key)) as store:
        store.commit(Batch([StoredMessage("hall", 2, 0, 60, b"\1", 900, 200.0)]))
        store._base.change("DELETE FROM messages WHERE seq IN (20, 21)")
        store._base.change("UPDATE clients SET spent = 0, boot = 0")
        store.forget(15)
    (filled / "mapping.json").unlink()
    done = restore(tmp_path / "saved", filled)
    assert done.files == ["mapping.json"] and done.rows["messages"] == 2
    messages, decisions, clients, floor = content(filled)
    assert [each[2] for each in messages] == [*range(15, 50), 0] and floor == 15
    assert [each.round for each in decisions] == [*range(15, 50)]
    assert (clients[0].spent, clients[0].boot) == (before[2][0].spent, 1)
    assert restore(tmp_path / "saved", filled).rows["messages"] == 0


def test_a_damaged_database_is_set_aside(filled, tmp_path):
    back_up(filled, tmp_path / "saved")
    before = content(filled)
    for file in (filled / "data").glob("fusion.db*"):
        file.write_bytes(b"not a database" * 1000)
    done = restore(tmp_path / "saved", filled)
    assert done.rows is None and done.aside.read_bytes().startswith(b"not a database")
    assert content(filled) == before


def test_a_backup_of_an_earlier_version_is_migrated_and_not_changed(filled, tmp_path):
    back_up(filled, tmp_path / "saved")
    old = tmp_path / "saved/data/fusion.db"
    with closing(sqlite3.connect(old)) as base:
        for table in ("clocks", "alarms", "places"):
            base.execute(f"DROP TABLE {table}")
        base.execute("UPDATE schema_version SET version = 2")
        base.commit()
    data, before = old.read_bytes(), content(filled)
    for file in (filled / "data").glob("fusion.db*"):
        file.unlink()
    restore(tmp_path / "saved", filled)
    assert content(filled) == before and old.read_bytes() == data


# --- What is refused -----------------------------------------------------------------------


def tree(folder):
    """Every file of a folder but the lock, with its content."""
    files = (each for each in folder.rglob("*") if each.is_file() and each.name != ".lock")
    return {each.relative_to(folder): each.read_bytes() for each in files}


def cut(file):
    file.write_bytes(file.read_bytes()[:5000])


def scribble(file):
    file.write_bytes(b"not a database" * 1000)


def foreign(file):
    file.unlink()
    with closing(sqlite3.connect(file)) as base:
        base.execute("CREATE TABLE songs (title TEXT)")


@pytest.mark.parametrize(
    ("harm", "words"), [(cut, "damaged"), (scribble, "damaged"), (foreign, "no database of a site")]
)
@pytest.mark.parametrize("place", ["new", "empty", "site", "bare"])
def test_a_backup_with_a_damaged_database_is_refused(filled, tmp_path, harm, words, place):
    back_up(filled, tmp_path / "saved")
    harm(tmp_path / "saved/data/fusion.db")
    (tmp_path / "empty").mkdir()
    target = filled if place == "bare" else tmp_path / place
    if place == "bare":
        shutil.rmtree(filled / "data")
        (filled / "mapping.json").unlink()
    before = tree(tmp_path)
    with pytest.raises(InputError, match=words) as refusal:
        restore(tmp_path / "saved", target)
    assert "\n" not in str(refusal.value) and tree(tmp_path) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("how", ["missing", "empty", "without its folder"])
@pytest.mark.parametrize("place", ["new", "site"])
def test_a_backup_without_a_database_says_so(filled, tmp_path, monkeypatch, capsys, how, place):
    monkeypatch.chdir(tmp_path)
    back_up(filled, tmp_path / "saved")
    before = content(filled)
    if how == "empty":
        (tmp_path / "saved/data/fusion.db").write_bytes(b"")
    else:
        (tmp_path / "saved/data/fusion.db").unlink()
    if how == "without its folder":
        (tmp_path / "saved/data").rmdir()
    (filled / "mapping.json").unlink()
    code, printed, error = run(monkeypatch, capsys, "restore", "saved", "--site", place)
    assert code == 3 and "no messages or decisions came with it" in error
    assert "files were missing and are back" in printed
    assert (tmp_path / place / "mapping.json").exists() and (tmp_path / place / "data").is_dir()
    if place == "site":
        assert content(filled) == before


@pytest.fixture
def other(tmp_path):
    """A site of the same name that is another one, with a message."""
    (tmp_path / "elsewhere").mkdir()
    site = make_site(tmp_path / "elsewhere", additive_mapping(names=NAMES))
    with closing(open_store(load_site(site).database, site, load_site(site).key)) as store:
        store.prepare()
        store.commit(Batch([StoredMessage("hall", 1, 0, 0, b"\1", 10, 100.0)]))
    return site


def test_another_site_is_refused(filled, other, tmp_path, monkeypatch, capsys):
    back_up(other, tmp_path / "saved")
    copy_database(other / "data/fusion.db", tmp_path / "fusion.db.replaced-1")
    (filled / "mapping.json").unlink()
    before = tree(filled)
    for source in (tmp_path / "saved", tmp_path / "fusion.db.replaced-1"):
        code, _, error = run(monkeypatch, capsys, "restore", source, "--site", filled)
        assert code == 2 and error.count("\n") == 1 and tree(filled) == before
        assert load_site(filled).key in error and load_site(other).key in error
    (filled / "site.json").unlink()  # the keys tell them apart then
    with pytest.raises(InputError, match=r"has another keys/ca\.key"):
        restore(tmp_path / "saved", filled)
    assert not (filled / "site.json").exists()


def test_rows_of_another_site_in_a_backup_are_refused(filled, other, tmp_path):
    back_up(filled, tmp_path / "saved")
    shutil.copy(other / "data/fusion.db", tmp_path / "saved/data/fusion.db")
    for target in (filled, tmp_path / "new"):
        with pytest.raises(InputError, match=load_site(other).key):
            restore(tmp_path / "saved", target)
    assert not (tmp_path / "new").exists()


def test_a_copy_of_the_same_database_comes_back(filled, tmp_path):
    file, before = filled / "data/fusion.db", content(filled)
    copy_database(file, filled / "data/fusion.db.replaced-1")
    with closing(sqlite3.connect(file)) as base:
        base.execute("DELETE FROM messages")
        base.commit()
    assert restore(filled / "data/fusion.db.replaced-1", filled).rows["messages"] == 40
    assert content(filled) == before


@pytest.mark.parametrize("place", ["new", "site"])
def test_a_full_disk_is_one_message_and_leaves_nothing(
    filled, tmp_path, monkeypatch, capsys, place
):
    monkeypatch.chdir(tmp_path)
    back_up(filled, tmp_path / "saved")
    (filled / "mapping.json").unlink()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, error = run(monkeypatch, capsys, "restore", "saved", "--site", place)
    assert code == 2 and error.count("\n") == 1 and "(No space left on device)" in error
    assert f"{place}" in error and ".part" not in error
    assert not (tmp_path / "new").exists() and not list(tmp_path.rglob(".*.part"))


def test_what_is_no_place_for_a_backup_and_no_backup(filled, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    back_up(filled, tmp_path / "saved")
    (tmp_path / "link").symlink_to("site")
    (tmp_path / "nothing.db").touch()
    for typed, words in (
        (("backup", "site/inside", "--site", "site"), "inside of the site"),
        (("backup", "link/data/inside", "--site", "site"), "inside of the site"),
        (("restore", "saved", "--site", "saved/new"), "inside of the backup"),
        (("restore", "/dev/zero", "--site", "site"), "/dev/zero: is no backup"),
        (("restore", "/dev/zero", "--site", "new"), "/dev/zero: is no backup"),
        (("restore", "nothing.db", "--site", "site"), "is empty"),
        (("restore", "home.json", "--site", "site"), "not a database"),
    ):
        code, _, error = run(monkeypatch, capsys, *typed)
        assert code == 2 and words in error and error.count("\n") == 1, typed
    assert not list(tmp_path.rglob("inside")) and not list(tmp_path.rglob("new"))


def test_a_database_outside_of_the_folder_is_not_touched(filled, tmp_path):
    back_up(filled, tmp_path / "saved")
    outside = shutil.move(filled / "data/fusion.db", tmp_path / "outside.db")
    site = load_site(filled).model_copy(update={"database": f"sqlite:{outside}"})
    (filled / "site.json").write_bytes(model_bytes(site))
    before = outside.read_bytes(), outside.stat().st_ino
    with pytest.raises(InputError, match="is not inside of the site's folder"):
        back_up(filled, tmp_path / "b")
    with pytest.raises(InputError, match="is not inside of the site's folder"):
        restore(tmp_path / "saved", filled)
    assert (outside.read_bytes(), outside.stat().st_ino) == before
    assert not (tmp_path / "b").exists()


def test_a_site_on_a_read_only_disk_is_backed_up(filled, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("the lock cannot be taken")

    names = tree(filled).keys()
    before = content(filled)
    monkeypatch.setattr(backups, "_is_read_only", lambda folder: folder.is_relative_to(filled))
    monkeypatch.setattr(backups, "locked", refuse)
    assert back_up(filled, tmp_path / "saved")
    assert tree(filled).keys() == names
    monkeypatch.undo()
    restore(tmp_path / "saved", tmp_path / "other")
    assert content(tmp_path / "other") == before


# --- Kills ---------------------------------------------------------------------------------


KILLS = [
    ("back_up", "backups.copy_database = die"),
    ("back_up", "backups.os.fsync = die"),
    ("back_up", "backups._finish = die"),
    ("restore", "backups.migrate = die"),
    ("restore", "backups.SqliteConnection.change = die"),
    ("restore", "backups.SqliteConnection._confirm = die"),
    ("restore", "backups.SqliteConnection.close = die"),
]


@pytest.mark.parametrize(("what", "patch"), KILLS)
def test_a_kill_in_the_middle_leaves_all_as_it_was_or_finished(filled, tmp_path, what, patch):
    saved = tmp_path / "saved"
    if what == "restore":
        back_up(filled, saved)
    before = content(filled)
    call = f"backups.{what}(*map(Path, sys.argv[1:]))"
    pair = (saved, filled) if what == "restore" else (filled, saved)
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(patch=patch, call=call), *map(str, pair)],
        env=clean_environment(),
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert content(filled) == before
    if what == "back_up":
        assert not saved.exists()
        back_up(filled, saved)
        assert not list(tmp_path.glob(".*.part"))
    restore(saved, filled)
    shutil.rmtree(filled)
    restore(saved, filled)
    assert content(filled) == before


def test_the_commands(filled, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, printed, _ = run(monkeypatch, capsys, "backup", "saved")
    assert code == 0 and "wrote saved; it holds all keys" in printed
    code, _, error = run(monkeypatch, capsys, "backup", "saved")
    assert code == 2 and "not an empty folder" in error
    code, printed, _ = run(monkeypatch, capsys, "restore", "saved")
    assert code == 0 and "0 messages were missing" in printed
    code, _, error = run(monkeypatch, capsys, "restore", "nowhere", "--site", "site")
    assert code == 2 and "nowhere" in error
