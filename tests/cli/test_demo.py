import json
import re
import shlex
import signal
import subprocess
import time
import urllib.request
from collections import Counter

import numpy as np
import pytest
from support.commands import run, run_apart
from support.helpers import make_mapping
from support.sites import needs_mosquitto

from discreet import Mapping
from discreet import network as network_package
from discreet.cli import demo
from discreet.cli.made_up_home import (
    RESIDENTS,
    SENSORS,
    STAY,
    error_over,
    errors,
    exact_outputs,
    make_home,
    moments_of,
)
from discreet.export.neutral import Policy
from discreet.network.broker import broker_process
from discreet.network.demo import Account, Children, DemoPlan, check_room, run_network
from discreet.network.site.settings import load_clients, load_site
from discreet.network.store.rows import Decision

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The whole demo, once: what it printed and the folder it has left."""
    folder = tmp_path_factory.mktemp("told")
    first = run_apart("demo", "--out", "my demo", "--seed", "1", "--for", "2", folder=folder)
    return first, folder / "my demo"


def test_the_demo_tells_its_story_and_can_be_repeated(told):
    first, folder = told
    said = [line for line in first.stderr.splitlines() if not re.match(r"\w+ \d+%|.* to go", line)]
    assert (first.returncode, len(said)) == (0, 1)  # besides how far it is, on a slow machine
    rows = re.findall(r"^from the .*?(\d\.\d{3}) +(\d\.\d{3})$", first.stdout, re.MULTILINE)
    (_, raw_who), (sent_fall, sent_who) = [tuple(map(float, row)) for row in rows]
    assert raw_who < 0.05 and sent_fall < 0.1 and sent_who > 0.4
    assert first.stdout.count("readings") >= 4 and "of the answers are right" in first.stdout
    made = Mapping.load(folder / "home.json")
    # The command that it prints does what it has done, also in a folder that is there already.
    printed = re.search(r"^\$ discreet (.*)$", first.stdout, re.MULTILINE)[1]
    assert run_apart(*shlex.split(printed), folder=folder.parent).returncode == 0
    assert Mapping.load(folder / "home.json").id == made.id


def test_the_demo_says_what_a_day_tells_and_keeps_it(told):
    first, folder = told
    assert "for one report of every sensor" in first.stdout
    said = float(re.search(r"a day of 1,440 reports errs .* with (\d\.\d+),", first.stdout)[1])
    mapping = Mapping.load(folder / "home.json")
    assert said == pytest.approx(error_over(1440, mapping), abs=5e-4)
    assert error_over(1, mapping) == pytest.approx(errors(exact_outputs(mapping))[1], abs=1e-4)
    assert "a day of 1,440 releases of each sensor: all tell at most" in first.stdout
    days = float(re.search(r"the budget of 4180 nats lasts ([\d.]+) days", first.stdout)[1])
    spent = float(re.search(r"spent: at most ([\d.]+) of the 4180 nats", first.stdout)[1])
    assert days >= 1 and 0 < spent <= 4180
    assert all(each.budget == 4180 for each in load_clients(folder / "network/site").live.values())


def test_the_error_over_many_rounds_is_that_of_the_best_attacker(told):
    """A forward-backward pass over simulated symbols knows all that the rounds tell."""
    mapping, rounds, rng = Mapping.load(told[1] / "home.json"), 41, np.random.default_rng(0)
    outputs = exact_outputs(mapping)
    given = np.array([(outputs[False, who] + outputs[True, who]) / 2 for who in RESIDENTS])
    moves = np.array([[STAY, 1 - STAY], [1 - STAY, STAY]])
    trials = 4000
    who = rng.integers(2, size=(trials, 1)) ^ (rng.random((trials, rounds)) > STAY).cumsum(1) % 2
    cuts = given.cumsum(axis=1)
    seen = (rng.random((trials, rounds, 1)) > cuts[who][..., :-1]).sum(axis=2)
    belief = np.ones((2, trials, 2))
    for side, order in enumerate((range(rounds // 2), range(rounds - 1, rounds // 2, -1))):
        for number in order:
            belief[side] = (belief[side] * given[:, seen[:, number]].T) @ moves
    score = belief[0] * belief[1] * given[:, seen[:, rounds // 2]].T
    wrong = np.mean(score.argmax(axis=1) != who[:, rounds // 2])
    assert error_over(rounds, mapping) == pytest.approx(wrong, abs=4 * 0.5 / trials**0.5)


def test_the_demo_leaves_a_report(told):
    first, folder = told
    assert "rounds decided" in first.stdout and "nobody sent a reading" in first.stdout
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "network.md").read_text().startswith("# The demo's network")
    assert json.loads((folder / "audit.json").read_text())["format"] == "discreet-audit"
    assert processes_of(folder) == 0


def test_rows_come_from_the_distribution_that_the_figures_are_exact_for():
    home = make_home(4000, seed=0)
    levels = home.groupby(["fall", "who"])["hall_motion"].agg(["min", "max", "mean"])
    for (fall, who), row in levels.iterrows():
        middle = 2 + 4 * fall + 2 * (who == "Ben")
        assert (row["min"], row["max"]) == (middle - 1, middle + 1)
        assert row["mean"] == pytest.approx(middle, abs=0.1)
    outputs = exact_outputs(None)
    assert set(outputs) == {(fall, who) for fall in (False, True) for who in RESIDENTS}
    for given in outputs.values():
        assert given.sum() == pytest.approx(1)
        assert np.count_nonzero(given) == 3 ** len(SENSORS)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file", "the demo cannot write there"),
        ("file/deeper", "the demo cannot write there"),
        ("taken", "home.csv is there already and is not from the demo"),
        ("mapped", "home.json is there already and is not from the demo"),
    ],
)
def test_a_folder_that_is_not_for_the_demo_is_left_alone(
    monkeypatch, capsys, tmp_path, place, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "home.csv").write_text("mine,too\n")
    (tmp_path / "mapped").mkdir()
    (tmp_path / "mapped" / "home.json").write_text("mine as well")
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    code, printed, error = run(monkeypatch, capsys, "demo", "--out", place)
    assert (code, printed) == (2, "")
    assert words in error and "--out" in error and error.count("\n") == 1
    assert {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")} == before


# --- The network ---------------------------------------------------------------------------


@pytest.fixture
def network(told, tmp_path):
    """What runs the demo's network for some seconds; draw gets what was said so far."""
    _, learned = told

    def go(seconds, draw):
        said, moments = [], moments_of(0)
        plan = DemoPlan(
            folder=tmp_path / "network",
            mapping=learned / "home.json",
            audit=learned / "audit.json",
            frontier=learned / "frontier.json",
            sensors=SENSORS,
            policy=Policy(budget=4180.0, repeat="never"),
            draw=lambda: draw(said) or next(moments),
            seconds=seconds,
            say=said.append,
        )
        return run_network(plan), "\n".join(said)

    return go


def processes_of(folder):
    """How many processes have the folder in their command."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return sum(str(folder) in line for line in listed.stdout.splitlines())


@needs_mosquitto
def test_the_network_has_run_with_certificates_and_every_part(told, monkeypatch, capsys):
    said, folder = told[0].stdout, told[1]
    assert "Mosquitto with MQTT 5, certificates on both sides" in said and "OFF" not in said
    for word in ("init", "enroll", "serve", "dashboard", "sensor"):
        assert f"$ discreet {word} " in said
    assert re.search(r"http://127.0.0.1:\d+/login\?link=", said)
    site = folder / "network" / "site"
    assert load_site(site).broker.tls and broker_process(site) is None
    assert (site / "audit.json").exists() and (site / "frontier.json").exists()
    # The commands that it prints do what it has done.
    printed = re.findall(r"^\$ discreet (init .*|enroll .*)$", said, re.MULTILINE)
    assert len(printed) == 1 + len(SENSORS)
    (folder / "again" / "devices").mkdir(parents=True)
    monkeypatch.chdir(folder.parent)
    for line in printed:
        words = [word.replace("/network/", "/again/") for word in shlex.split(line)]
        assert run(monkeypatch, capsys, *words)[0] == 0, line
    again = folder / "again" / "site"
    assert load_clients(again).clients.keys() == load_clients(site).clients.keys()


def test_without_mosquitto_the_embedded_broker_serves_and_says_what_is_off(
    network, tmp_path, monkeypatch
):
    monkeypatch.setenv("DISCREET_MOSQUITTO", "none")
    monkeypatch.setattr("discreet.network.demo._DEADLINE", 3.0)  # for a busy machine to be in time
    account, said = network(3.0, lambda _: None)
    assert len(account.complete) >= 2 and account.refused == 0
    assert account.messages >= 4 * len(account.complete)
    assert "MQTT 3.1.1 only" in said and "OFF: TLS, certificates, rights, revocation" in said
    settings = load_site(tmp_path / "network" / "site")
    assert (settings.broker.tls, settings.broker.host) == (False, "127.0.0.1")
    assert processes_of(tmp_path) == 0


@needs_mosquitto
def test_kept_up_it_runs_until_it_is_stopped(network, tmp_path):
    earlier = tmp_path / "network"
    earlier.mkdir()
    for name in (".made-by-the-demo", "old"):  # what an earlier demo has left makes room
        (earlier / name).touch()

    def draw(said):
        if any("stays up until you press Ctrl-C" in line for line in said):
            with pytest.raises(ValueError, match="a demo is still running"):
                check_room(earlier)
            with urllib.request.urlopen(_dashboard(tmp_path), timeout=60) as page:
                assert page.status == 200
            signal.raise_signal(signal.SIGTERM)

    account, said = network(None, draw)
    assert said.endswith("stopping") and account.complete
    assert not (earlier / "old").exists() and processes_of(tmp_path) == 0


def _dashboard(folder):
    return f"http://127.0.0.1:{load_site(folder / 'network' / 'site').dashboard.port}/login"


@pytest.mark.parametrize(("module", "word"), [("paho", "paho-mqtt"), ("uvicorn", "uvicorn")])
def test_what_is_not_installed_is_named(monkeypatch, module, word):
    monkeypatch.setattr(
        network_package, "find_spec", lambda name: None if name == module else object()
    )
    missing = demo._missing_parts()
    assert word in missing and "discreet[demo]" in missing


def test_without_the_network_the_rest_is_shown(monkeypatch, capsys, tmp_path):
    shown = []
    monkeypatch.setattr(demo, "_missing_parts", lambda: "a broker")
    for name in ("_show_figures", "_show_sending", "_show_frontier", "_show_audit"):
        monkeypatch.setattr(demo, name, lambda *_, name=name: shown.append(name))
    learned = type("Learned", (), {"held_out": None})()
    monkeypatch.setattr(
        demo, "run_learn", lambda _, out: make_mapping().save(out) or (learned, None)
    )
    demo.run_demo(tmp_path, 0, 5.0)
    assert len(shown) == 4
    assert "The network is left out. It needs a broker." in capsys.readouterr().out


def test_no_broker_at_all_is_said(monkeypatch):
    monkeypatch.setenv("DISCREET_MOSQUITTO", "none")
    assert demo._missing_parts() == ""
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "amqtt" else object())
    assert "apt install mosquitto" in demo._missing_parts()


def test_a_folder_of_somebody_else_is_not_emptied(network, tmp_path):
    (tmp_path / "network").mkdir()
    (tmp_path / "network" / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is not from the demo"):
        network(1.0, lambda _: None)
    assert (tmp_path / "network" / "mine").read_text() == "mine"


def test_keep_and_for_exclude_each_other(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, printed, error = run(monkeypatch, capsys, "demo", "--keep", "--for", "5")
    assert (code, printed) == (2, "") and "--keep was given together with --for 5" in error


def test_a_part_that_ends_is_told_of_with_its_last_words(tmp_path):
    children = Children(tmp_path)
    children.start("fusion", "-c", "raise SystemExit('no such thing')")
    end = time.monotonic() + 60
    with pytest.raises(ValueError, match="demo's fusion has ended: no such thing"):
        while time.monotonic() < end:
            children.check()
            time.sleep(0.05)
    children.stop()


def test_who_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.network.demo._SECONDS", 0.5)
    children = Children(tmp_path)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    children.start("deaf", "-c", f"{code}; time.sleep(60)")
    while not children.printed("deaf"):
        time.sleep(0.02)
    (_, process) = children._running[0]
    children.stop()
    assert process.returncode == -signal.SIGKILL


def test_rounds_that_miss_a_sensor_or_a_truth_do_not_count():
    def decision(number, reported, word):
        return Decision(number, 0.0, reported, 4, (0.5, 0.5), word)

    account = Account(truths={1: "true", 2: "false", 3: "true"})
    account.decisions += [decision(1, 4, "true"), decision(2, 3, "false"), decision(3, 4, "false")]
    account.decisions.append(decision(4, 4, "true"))
    assert [each.round for each in account.complete] == [1, 3] and account.right == 1


def test_moments_of_the_home_come_from_its_distribution():
    moments = moments_of(0)
    found = Counter()
    for _ in range(3000):
        readings, fell = next(moments)
        assert set(readings) == set(SENSORS)
        assert all(
            reading >= 5 if fell == "True" else reading <= 5 for reading in readings.values()
        )
        found[fell] += 1
    assert set(found) == {"True", "False"} and abs(found["True"] - 1500) < 200
