"""Files used twice and state that was replaced: how soon a site notices, and what it loses."""

import shutil
import sqlite3
import time
from contextlib import ExitStack, closing

from discreet.network.site.backups import copy_database, restore
from discreet.network.site.settings import load_site
from support.databases import PostgresServer
from support.network_figures.home import Home, wait_until
from support.ports import free_port

ROUNDS = {"interval": 0.5, "deadline": 2.0}


def cloned(folder):
    """One enrolment runs on two devices."""
    with Home(folder, sensors=2, **ROUNDS) as home:
        _more(home)
        begun = time.monotonic()
        words = ("--state", home.folder / "twin", "--read", "csv:readings.csv")
        home._start("twin", "sensor", "s0.enrol", *words)
        seconds = _noticed(home, "A device runs twice", begun)
        wait_until(lambda: home.processes["twin"].poll() is not None, "the end of the second")
        return seconds, _lost(home)


def served_twice(folder):
    """A copy of the site's folder is served beside it."""
    with Home(folder, sensors=2, **ROUNDS) as home:
        _more(home)
        copy = home.folder / "copy"
        shutil.copytree(home.site, copy)
        found = load_site(copy)
        elsewhere = found.metrics.model_copy(update={"port": free_port()})
        text = found.model_copy(update={"metrics": elsewhere}).model_dump_json()
        (copy / "site.json").write_text(text)
        begun = time.monotonic()
        home._start("copy", "serve", copy)
        seconds = _noticed(home, "The site is served twice", begun)
        wait_until(lambda: home.processes["copy"].poll() is not None, "the end of the copy")
        _more(home)
        return seconds, _lost(home)


def restored(folder):
    """The state of a device is lost: it begins again with nothing spent."""
    with Home(folder, sensors=2, **ROUNDS) as home:
        _more(home)
        home.stop("s0")
        before = _acknowledged(home, "s0")
        shutil.rmtree(home.state / "s0")
        home._keep_journal(home.state / "s0")
        begun = time.monotonic()
        home.start_sensor("s0")
        return _noticed(home, "State of a device lost or restored", begun), _lost(home, before)


def replaced(folder):
    """An older copy takes the place of the database, and what was open is brought back."""
    with Home(folder, sensors=2, **ROUNDS) as home:
        _more(home)
        file = home.site / "data/fusion.db"
        copy_database(file, home.folder / "older.db")
        _more(home)
        begun = time.monotonic()
        (home.folder / "older.db").rename(file)
        seconds = _noticed(home, "The database was replaced", begun)
        (rescued,) = file.parent.glob("fusion.db.replaced-*")
        restore(rescued, home.site)
        return seconds, _lost(home)


def shared(folder):
    """Two sites of one name in one database are kept apart: there is nothing to notice."""
    with ExitStack() as stack:
        url = stack.enter_context(PostgresServer()).url
        homes = [
            stack.enter_context(Home(folder / name, sensors=2, database=url, **ROUNDS))
            for name in ("one", "other")
        ]
        for home in homes:
            _more(home)
        return 0.0, sum(_lost(home) + home.tally().strange for home in homes)


ALL = (cloned, served_twice, restored, replaced, shared)


def _more(home):
    """Wait until more messages have been stored."""
    before = home.count_stored()
    wait_until(lambda: home.count_stored() > before + 10, "traffic")


def _noticed(home, short, begun):
    """Return after how many seconds ``/health`` names something."""

    def named():
        return any(each["short"] == short for each in (home.metrics() or {}).get("findings", ()))

    wait_until(named, short)
    return time.monotonic() - begun


def _acknowledged(home, name):
    with closing(sqlite3.connect(home.state / name / "outbox.db")) as base:
        rows = base.execute("SELECT boot, seq FROM journal EXCEPT SELECT boot, seq FROM outbox")
        return {(name, *row) for row in rows}


def _lost(home, before=frozenset()):
    """Let everything be delivered; return how many messages are not stored."""
    home.settle()
    return len((before | home.journal().keys()) - {row[:3] for row in home.stored()[0]})
