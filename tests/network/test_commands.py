"""``discreet serve`` and ``discreet sensor`` with a real site: TLS, rights and all."""

import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack, closing, suppress

import pytest
from support.commands import clean_environment, run_apart
from support.network_samples import additive_mapping
from support.network_sites import wait_for
from support.sites import broker_of, make_site, needs_mosquitto

from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.removing_devices import revoke
from discreet.network.site.settings import load_site
from discreet.network.store import open_reader, open_store

pytestmark = pytest.mark.slow

NAMES = ["hall", "door"]
PATIENT = ("--drain", "240")  # seconds: the fusion centre of a busy machine starts slowly
READ = ("--read", "csv:home.csv", *PATIENT)


@pytest.fixture
def start(tmp_path):
    """Start a command beside the test; none outlives it."""
    with ExitStack() as stack:

        def begin(*arguments):
            process = subprocess.Popen(
                [sys.executable, "-m", "discreet", *map(str, arguments)],
                cwd=tmp_path,
                env=clean_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def page_of(site, name):
    """What the fusion centre says of itself; nothing while it does not answer."""
    endpoint = load_site(site).metrics
    with suppress(OSError):
        page = f"http://{endpoint.host}:{endpoint.port}/{name}"
        try:
            return urllib.request.urlopen(page, timeout=60).read().decode()
        except urllib.error.HTTPError as unwell:  # 503, where something has to be fixed
            return unwell.read().decode()
    return ""


def read_all(site):
    store = open_store(load_site(site).database, site, load_site(site).key)
    try:
        return store.messages(0, 2**32)
    finally:
        store.close()


@pytest.fixture
def site(tmp_path):
    site = make_site(tmp_path, additive_mapping(names=NAMES), interval=0.5, deadline=5)
    (tmp_path / "home.csv").write_text("hall,door\n" + "0,1\n1,\nbroken,0\n" * 3)
    for name in NAMES:
        enroll(site, EnrolmentRequest(name), tmp_path / f"{name}.enrol")
    return site


@needs_mosquitto
def test_a_site_with_tls_stores_and_decides(site, start):
    with broker_of(site):
        serve = start("serve", "site")
        wait_for(lambda: '"broker": {"state": "here"' in page_of(site, "health"), 240)
        sensors = [start("sensor", f"{name}.enrol", "--state", name, *READ) for name in NAMES]
        for sensor in sensors:
            out, _ = sensor.communicate(timeout=300)
            assert sensor.returncode == 0, out
        wait_for(lambda: "discreet_messages_total 18.0\n" in page_of(site, "metrics"))
        reader = open_reader(load_site(site).database, site, load_site(site).key)
        last = max(each.last_round for each in reader.clients())
        wait_for(lambda: (found := reader.latest()) and found.round >= last)
        # How many rounds they share depends on when each has started; test_end_to_end sees to it.
        assert max(each.reported for each in reader.decisions()) >= 1
        reader.close()
        serve.send_signal(signal.SIGTERM)
        out, _ = serve.communicate(timeout=300)
        assert serve.returncode == 0, out
        assert "Traceback" not in out
    assert len(read_all(site)) == 18


@needs_mosquitto
def test_what_was_not_delivered_is_sent_at_the_next_start(site, tmp_path, start):
    first = run_apart(
        *("sensor", "hall.enrol", "--state", "hall", "--read", "csv:home.csv", "--drain", "0"),
        folder=tmp_path,
    )
    assert first.returncode == 3
    assert "9 messages wait" in first.stdout
    (tmp_path / "more.csv").write_text("hall\n1\n")
    with broker_of(site):
        serve = start("serve", "site")
        again = run_apart(
            *("sensor", "hall.enrol", "--state", "hall", "--read", "csv:more.csv", *PATIENT),
            folder=tmp_path,
        )
        assert again.returncode == 0, again.stderr
        serve.send_signal(signal.SIGTERM)
        serve.communicate(timeout=300)
    stored = read_all(site)
    assert len(stored) == 10
    assert len({each[1] for each in stored}) == 2  # two starts


@needs_mosquitto
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end_delivers_what_waits_and_is_no_failure(site, tmp_path, start, number):
    # Longer than the test: a signal that comes while a sensor ends by itself is not in order.
    (tmp_path / "long.csv").write_text("hall,door\n" + "0,1\n1,1\n" * 5000)
    sensor = start("sensor", "hall.enrol", "--state", "hall", "--read", "csv:long.csv")
    wait_for(lambda: _rows(tmp_path / "hall/outbox.db", "outbox") >= 1, 240)
    with broker_of(site):
        serve = start("serve", "site")
        wait_for(lambda: '"broker": {"state": "here"' in page_of(site, "health"), 240)
        wait_for(lambda: _rows(site / "data/fusion.db", "messages") >= 1, 240)
        for each in (sensor, serve):
            each.send_signal(number)
            out, _ = each.communicate(timeout=300)
            assert each.returncode == 0, out
    away = start("sensor", "door.enrol", "--state", "door", "--read", "csv:long.csv")
    wait_for(lambda: _rows(tmp_path / "door/outbox.db", "outbox") >= 1, 240)
    away.send_signal(number)
    out, _ = away.communicate(timeout=300)
    assert away.returncode == 0 and "the next start sends them" in out


def _rows(file, table):
    """How many rows a table has; none while its owner has not made it."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as base:
            return base.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


@needs_mosquitto
def test_a_device_that_is_shut_out_says_what_may_be_the_matter(site, tmp_path):
    with broker_of(site):
        assert revoke(site, "hall").outcome == "out"
        done = run_apart(
            *("sensor", "hall.enrol", "--state", "hall", "--read", "csv:home.csv", "--drain", "2"),
            folder=tmp_path,
        )
    assert done.returncode == 3
    assert "was this device revoked" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sensor", "none.enrol", "--state", "x"), "none.enrol"),
        (("sensor", "hall.enrol", "--state", "x", "--read", "carrier:pigeon"), "is no source"),
        (("sensor", "hall.enrol", "--state", "x", "--read", "csv:none.csv"), "cannot be read"),
        (("sensor", "hall.enrol", "--state", "x", "--read", "mqtt://host"), "names no topic"),
        (("sensor", "hall.enrol", "--state", "hall.enrol"), "cannot be written"),
        (("serve", "nowhere"), "no site.json"),
        (("serve", "site", "--worker", "7"), "--worker must be from 1 to 1"),
        (("serve", "site", "site"), "site and site are one folder"),
        (("serve", "site", "link"), "site and link are one folder"),
    ],
)
def test_a_mistake_is_one_message(site, tmp_path, arguments, words):
    (tmp_path / "link").symlink_to("site")
    done = run_apart(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_lost_ledger_does_not_refill_the_budget(tmp_path):
    from discreet.export.neutral import Policy

    site = make_site(tmp_path, additive_mapping(names=NAMES), interval=0.05)
    enroll(site, EnrolmentRequest("hall", policy=Policy(budget=20)), tmp_path / "hall.enrol")
    (tmp_path / "hall.csv").write_text("hall\n1\n")
    call = ("sensor", "hall.enrol", "--state", "hall", "--read", "csv:hall.csv", "--drain", "0")
    assert run_apart(*call, folder=tmp_path).returncode == 3
    (ledger,) = (tmp_path / "hall").glob("*.ledger")
    ledger.unlink()
    done = run_apart(*call, folder=tmp_path)
    assert done.returncode == 2
    assert "must not refill the budget" in done.stderr
