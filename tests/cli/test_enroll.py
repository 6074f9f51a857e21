"""``discreet init``, ``enroll`` and ``revoke`` as typed."""

import shlex
import sys

import pytest
from support.commands import run
from support.helpers import make_mapping
from support.network_samples import additive_mapping
from support.ports import free_port
from support.sites import broker_of, eventually, needs_mosquitto, visitor_of

from discreet import network
from discreet.export.neutral import Policy, neutral_form
from discreet.network.site import removing_devices
from discreet.network.site.settings import load_clients, load_site
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.runtime import Table


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_mapping().save("home.json")
    return lambda line: run(monkeypatch, capsys, *shlex.split(line))


@pytest.fixture
def mistake(command, tmp_path):
    """Run with a mistake, which must end in one line and change nothing."""

    def check(line):
        before = _state(tmp_path)
        code, printed, error = command(line)
        assert (code, printed) == (2, "")
        assert error.startswith("discreet: ") and error.count("\n") == 1
        assert "Traceback" not in error
        assert _state(tmp_path) == before
        return error

    return check


def _state(folder):
    return {
        path: path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
        if path.name != ".lock"
    }


def test_a_site_a_device_and_its_end(command, tmp_path):
    code, printed, error = command(f"init site --mapping home.json --port {free_port()}")
    assert (code, error) == (0, "")
    assert "wrote site, site home" in printed and "discreet enroll NAME --site site" in printed
    code, printed, _ = command("enroll hall")
    assert code == 0 and "wrote hall.enrol: hall speaks for 'hall'" in printed
    assert "systemctl reload discreet-home_" in printed
    secret = load_enrolment(tmp_path / "hall.enrol").mac_key
    assert secret not in printed
    code, printed, _ = command("revoke hall --site site")
    assert code == 0 and "no broker answers" in printed
    assert load_clients(tmp_path / "site").live == {}
    code, printed, _ = command("enroll watcher --observer --site site")
    assert code == 0 and "may read the decision" in printed


def test_every_option_reaches_the_settings(command, tmp_path):
    code, *_ = command(
        "init there --mapping home.json --name villa --host 10.0.0.7 --port 8884 --interval 5 "
        "--deadline 2 --database postgresql://db/home --dashboard-port 81 --metrics-port 82 "
        "--expires 2040-02-03 --workers 3"
    )
    assert code == 0
    site = load_site(tmp_path / "there")
    assert (site.site, site.broker.host, site.broker.port) == ("villa", "10.0.0.7", 8884)
    assert (site.interval, site.deadline, site.workers) == (5, 2, 3)
    assert (site.database, str(site.expires)) == ("postgresql://db/home", "2040-02-03")
    assert (site.dashboard.port, site.metrics.port) == (81, 82)
    # A broker that others are to reach listens on every address.
    config = (tmp_path / "there/broker/mosquitto.conf").read_text()
    assert "listener 8884\n" in config
    code, *_ = command(
        "enroll gate --site there --sensor door --sensor hall --out g --batch 4 --days 9 "
        "--period 60 --repeat period"
    )
    content = load_enrolment(tmp_path / "g")
    assert code == 0 and (content.batch, content.sensors) == (4, ("door", "hall"))


def test_a_batch_that_comes_after_its_rounds_are_closed_is_told_of(command):
    command("init site --mapping home.json --interval 10 --deadline 15")
    _, printed, _ = command("enroll hall --site site --batch 2")
    assert "note:" not in printed
    _, printed, _ = command("enroll hall --site site --batch 4 --renew --out again")
    assert "note: 2 rounds of each message are closed before it is sent" in printed


def test_a_renewed_device_keeps_budget_policy_and_batch(command, tmp_path):
    additive_mapping(names=["door", "hall"]).save("pair.json")
    command("init site --mapping pair.json")
    policy = "--batch 4 --budget 20 --period 60 --repeat period --anyway"
    command(f"enroll gate --site site --sensor door --sensor hall --out a {policy}")
    assert "less than a day" in command("enroll gate --site site --renew --out b")[2]
    assert command("enroll gate --site site --renew --out b --anyway")[0] == 0
    assert command("enroll gate --site site --renew --out c --period 90 --anyway")[0] == 0
    for name, period in (("b", 60), ("c", 90)):
        content = load_enrolment(tmp_path / name)
        assert (content.batch, content.sensors) == (4, ("door", "hall"))
        for bundle in content.bundle_bytes:
            table = Table(bundle[:-64])
            assert (table.budget, table.period, table.repeat) == (20_000_000, period, 1)


def test_init_and_enroll_say_what_a_day_tells_and_how_long_the_budget_lasts(
    command, mistake, tmp_path
):
    pair = additive_mapping(names=["door", "hall"])
    pair.save("pair.json")
    cost = {each.name: each.micro_epsilon / 1e6 for each in neutral_form(pair, Policy())}
    most = max(cost.values())
    make = "init site --mapping pair.json --repeat never --budget"
    assert "less than a day of 1,440. For a day take" in mistake(f"{make} {most}")
    code, printed, error = command(f"{make} {most} --anyway")
    assert code == 0 and error.startswith("warning: the budget of")
    code, printed, error = command("init good --mapping pair.json --repeat period --budget 20")
    assert (code, error) == (0, "")
    assert "a day of 1,440 releases of each sensor: all tell at most" in printed
    assert f"the budget of 20 nats lasts {int(20 / most)} days" in printed
    # A device has the site's policy unless it is given one, and both are checked.
    code, printed, _ = command("enroll hall --site good")
    assert code == 0 and f"the budget of 20 nats lasts {int(20 / cost['hall'])} days" in printed
    table = Table(load_enrolment(tmp_path / "hall.enrol").bundle_bytes[0][:-64])
    assert (table.budget, table.period, table.repeat) == (20_000_000, 86_400, 1)
    assert "or give --anyway" in mistake("enroll door --site good --repeat never")
    code, printed, error = command("enroll door --site good --repeat never --anyway")
    assert code == 0 and "warning: " in error and "depend on no reading" in printed


def test_site_and_device_take_the_policy_that_tells_least(command, mistake, tmp_path):
    additive_mapping(names=["door", "hall"]).save("pair.json")
    # Without rows remembered symbols have no bound, so that fresh draws are the better policy.
    code, printed, error = command("init site --mapping pair.json --stay 0.5")
    assert (code, error) == (0, "") and "--repeat never: of never and code" in printed
    assert load_site(tmp_path / "site").repeat == "never"
    code, printed, _ = command("enroll hall --repeat code --stay 0.5")
    assert code == 0 and "--repeat code, as stated; never tells less" in printed
    code, printed, _ = command("enroll door --stay 0.5")
    assert code == 0
    table = Table(load_enrolment(tmp_path / "door.enrol").bundle_bytes[0][:-64])
    assert table.repeat == 2
    assert "--rows needs to know" in mistake("init other --mapping pair.json --rows no.csv")
    assert "--rows needs to know" in mistake("enroll hall --renew --rows no.csv")


@needs_mosquitto
def test_revoke_tells_what_it_has_seen(command, tmp_path):
    command(f"init site --mapping home.json --port {free_port()}")
    command("enroll hall")
    site = tmp_path / "site"
    with broker_of(site) as broker:
        hall = visitor_of(site, load_enrolment(tmp_path / "hall.enrol"), tmp_path)
        assert hall.connect(broker.port)
        code, printed, _ = command("revoke hall")
        assert code == 0 and "as was tried, and has cut its session" in printed
        assert eventually(hall.closed.is_set)
        hall.leave()


def test_a_broker_that_did_not_listen_is_told_of(command, monkeypatch):
    command(f"init site --mapping home.json --port {free_port()}")
    monkeypatch.setattr(
        removing_devices, "revoke", lambda *_: removing_devices.Revoked("pending", "Success")
    )
    code, printed, _ = command("revoke hall")
    assert code == 3 and "NOT YET SHUT OUT" in printed and "systemctl reload" in printed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("init home.json --mapping home.json", "not an empty folder"),
        ("init no/where --mapping home.json", "no directory"),
        ("init new --mapping none.json", "none.json: no such file"),
        ("init new --mapping home.json --host 'a b'", "host: .*got 'a b'"),
        ("init new --mapping home.json --expires soon", "--expires must be a date.*'soon'"),
        ("init new --mapping home.json --port 0", "'--port'"),
        ("init new --mapping home.json --name ../x", "name of the site"),
        ("enroll hall", "site: is no site"),
        ("revoke hall --site home.json", "is no site"),
    ],
)
def test_mistakes(mistake, line, words):
    import re

    assert re.search(words, mistake(line))


def test_an_observer_sends_nothing(command, mistake):
    command("init site --mapping home.json")
    assert "--observer reads the decision" in mistake("enroll a --observer --sensor hall")


def test_a_name_is_of_a_device_or_of_an_observer(command, mistake):
    command("init site --mapping home.json")
    command("enroll hall")
    command("enroll reader --observer")
    assert "'hall' is enrolled already, as a device" in mistake("enroll hall --observer")
    assert "--renew out" in mistake("enroll hall --observer --renew")
    for line in ("enroll reader --sensor door", "enroll reader --sensor door --renew"):
        assert "'reader' is enrolled already, as an observer" in mistake(line)


def test_what_is_not_installed_is_named(mistake, monkeypatch):
    for name in ("cryptography", "paho"):
        monkeypatch.setattr(
            network, "find_spec", lambda each, name=name: None if each == name else sys
        )
        assert "discreet[network]" in mistake("init site --mapping home.json")


@pytest.mark.parametrize(("to", "words"), [("c", "libmosquitto"), ("micropython", "mpremote mip")])
def test_a_device_in_another_language_gets_a_folder_and_how_to_install_it(
    command, tmp_path, to, words
):
    command(f"init site --mapping home.json --port {free_port()}")
    code, printed, error = command(f"enroll hall --to {to}")
    assert (code, error) == (0, "") and "wrote hall: hall speaks for 'hall'" in printed
    assert words in printed and (tmp_path / "hall" / "hall.enrolment").exists()


def test_a_target_that_nobody_knows_is_refused(command, mistake):
    command(f"init site --mapping home.json --port {free_port()}")
    assert "one of python, c, micropython" in mistake("enroll hall --to cobol")
