"""``discreet export`` as typed: what it prints and writes, and what it refuses."""

import json
import re
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from support.commands import run
from support.helpers import DESIGN, make_mapping

from discreet.cli import options
from discreet.data.encoders import BinsEncoder
from discreet.export import neutral, targets
from discreet.mapping.parts import AdditiveFusion
from discreet_sensor import runtime as device

FINITE = [
    np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]),
    np.array([[0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.25, 0.25]]),
]


@pytest.fixture
def export(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_mapping(tables=FINITE).save("home.json")
    make_mapping().save("certain.json")
    return lambda *arguments: run(monkeypatch, capsys, "export", *arguments)


@pytest.fixture
def mistake(export, tmp_path):
    """Run with a mistake, which must end in one line and leave nothing behind."""

    def check(*arguments):
        before = sorted(tmp_path.rglob("*"))
        code, printed, error = export(*arguments)
        assert (code, printed) == (2, "")
        assert error.startswith("discreet: ") and error.count("\n") == 1
        assert "Traceback" not in error
        assert sorted(tmp_path.rglob("*")) == before
        return error

    return check


def table_in(folder):
    public = (folder / "public_key.txt").read_text()
    return device.read_bundle(next(folder.glob("*.bundle")), public)


def test_a_program_learns_what_was_written(export, tmp_path):
    code, printed, _ = export("home.json", "--to", "python", "--out", "edge", "--json")
    found, mapping = json.loads(printed), json.loads((tmp_path / "home.json").read_text())
    sensors = [each["name"] for each in mapping["sensors"]]
    assert code == 0 and (found["out"], found["mapping_id"]) == ("edge", mapping["id"])
    assert list(found["sensors"].values()) == sensors
    assert {each.stem for each in (tmp_path / "edge").glob("*.bundle")} == set(found["sensors"])
    key = (tmp_path / "edge" / "public_key.txt").read_text().strip()
    assert (found["public_key"], found["repeat"]) == (key, "code")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "stay", "fresh", "same", "taken"),
    [
        (0.5, 0.9, ".0338", ".0200", device.REPEAT_CODE),
        (0.2, 0.9, ".0410", ".1271", device.REPEAT_NEVER),
        (0.2, 0.6, ".0217", ".2104", device.REPEAT_NEVER),
    ],
)
def test_the_policy_that_tells_least_in_a_day_is_taken(
    export, tmp_path, share, stay, fresh, same, taken
):
    """Fifteen rounds of a table with rows .52/.48, whose reading is the private fact."""
    make_mapping(
        names=["x"],
        encoders=[BinsEncoder(edges=[0.5])],
        tables=[np.array([[0.52, 0.48], [0.48, 0.52]])],
        fusion=AdditiveFusion(weights=[[-1.0, 1.0]], bias=0.0),
        design=DESIGN.model_copy(update={"source": None}),
    ).save("coin.json")
    who = np.repeat(["ann", "bob"], [round(100 * (1 - share)), round(100 * share)])
    rows = pd.DataFrame({"x": (who == "bob").astype(int), "fall": np.arange(100) % 2 == 0})
    rows.assign(who=who).to_csv("rows.csv", index=False)
    stays = f"{1 - (1 - stay) * share / (1 - share)},{stay}"
    given = ("coin.json", "--to", "python", "--rows", "rows.csv", "--stay", stays)
    day = ("--interval", "5760", "--key", "coin.key")
    code, printed, error = export(*given, *day, "--out", "edge")
    assert (code, error) == (0, "")
    assert f"never 0{fresh}, code 0{same}" in printed and "it tells least" in printed
    assert table_in(tmp_path / "edge").repeat == taken
    code, printed, _ = export(*given, *day, "--out", "other", "--repeat", "period")
    assert code == 0 and "--repeat period, as stated" in printed
    assert table_in(tmp_path / "other").repeat == device.REPEAT_PERIOD


def test_what_a_day_tells_needs_to_know_how_long_the_fact_lasts(export, mistake):
    given = ("home.json", "--to", "c", "--out", "edge")
    assert "--rows needs to know" in mistake(*given, "--rows", "no.csv")
    assert "--stay must be a probability" in mistake(*given, "--stay", "long")
    code, printed, _ = export(*given)
    assert code == 0 and "--repeat code: give --stay and --rows" in printed


def test_names_in_the_options_are_those_of_the_library():
    assert neutral.REPEATS == options.REPEATS


def test_python_bundles_are_signed_and_the_key_stays_behind(export, tmp_path):
    code, out, err = export("home.json", "--to", "python", "--out", "edge", "--key", "home.key")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("wrote edge, 2 sensors of sha256:")
    assert lines[1] == ("  hall: 3 codes, 2 symbols, one release tells at most 2.079442 nats (C1)")
    assert lines[-2] == "made the signing key home.key: keep it secret, and keep it"
    public = lines[-1].rpartition(" ")[2]
    assert (tmp_path / "edge" / "public_key.txt").read_text() == public + "\n"
    assert stat.S_IMODE((tmp_path / "home.key").stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "edge").iterdir()) == [
        "discreet_gateway.py", "discreet_sensor.py", "door.bundle", "hall.bundle",
        "public_key.txt",
    ]  # fmt: skip
    assert device.read_bundle(tmp_path / "edge" / "door.bundle", public).name == "door"
    code, out, _ = export("home.json", "--to", "python", "--out", "again", "--key", "home.key")
    assert code == 0 and "made the signing key" not in out and public in out


@pytest.mark.slow
def test_the_exported_files_run_by_themselves(export, tmp_path):
    _, out, _ = export("home.json", "--to", "python", "--out", "edge", "--key", "home.key")
    script = """
import discreet_sensor, discreet_gateway
pins = {"public_key": open("public_key.txt").read(), "mapping_id": MAPPING_ID}
hall = discreet_sensor.Sensor("hall.bundle", **pins, ledger="hall.ledger", name="hall")
assert hall.release(1.25) in (0, 1)
door = discreet_gateway.GatewaySensor("door.bundle", **pins, ledger="d.ledger", name="door")
assert set(door.release_many(["shut", None, "ajar"])) <= {0, 1, 2}
""".replace("MAPPING_ID", repr(re.search("mapping id, to be pinned .*: (.*)", out)[1]))
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.')\n{script}"],
        cwd=tmp_path / "edge", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_without_a_name_the_key_lies_beside_the_mapping(export, tmp_path):
    code, out, _ = export("home.json", "--to", "python", "--out", "edge")
    assert code == 0 and "made the signing key home.key" in out
    assert (tmp_path / "home.key").is_file()
    code, again, _ = export("home.json", "--to", "python", "--out", "more")
    assert again.splitlines()[-1] == out.splitlines()[-1]


@pytest.mark.parametrize("target", ["micropython", "c"])
def test_other_targets_need_no_key(export, tmp_path, target):
    code, out, err = export("home.json", "--to", target, "--out", "edge", "--budget", "10")
    assert (code, err) == (0, "")
    assert "the budget of 10 nats lasts 1 days, 1,440 releases" in out and "public key" not in out
    assert any("hall" in path.name for path in (tmp_path / "edge").rglob("*"))


def test_a_budget_of_less_than_a_day_is_refused_or_warned_of(export, mistake):
    wanted = ["home.json", "--to", "c", "--out", "edge", "--repeat", "never", "--budget", "20"]
    error = mistake(*wanted)
    assert "lasts 9 releases of sensor 'hall', less than a day of 1,440" in error
    assert "or give --anyway" in error
    assert "of 24" in mistake(*wanted, "--interval", "3600")
    code, out, err = export(*wanted, "--anyway")
    assert code == 0 and err.startswith("warning: the budget of 20 nats lasts 9 releases")
    assert "all tell at most" in out and "lasts 0.00625 days, 9 releases" in out


def test_an_infinite_epsilon_is_said_aloud(export):
    code, out, _ = export("certain.json", "--to", "c", "--out", "edge")
    assert code == 0
    assert out.count("tells without bound (C1)") == 2
    assert "no budget can be kept: learn with --ldp-epsilon" in out


def test_an_empty_folder_may_be_there_already(export, tmp_path):
    (tmp_path / "edge").mkdir()
    assert export("home.json", "--to", "c", "--out", "edge", "--quiet") == (0, "", "")
    assert (tmp_path / "edge" / "hall.h").is_file()


def test_the_policy_reaches_the_bundle(export, tmp_path):
    export(
        "home.json", "--to", "python", "--out", "edge", "--key", "k", "--budget", "2.5",
        "--period", "60", "--repeat", "period", "--quiet", "--anyway",
    )  # fmt: skip
    public = (tmp_path / "edge" / "public_key.txt").read_text()
    table = device.read_bundle(tmp_path / "edge" / "hall.bundle", public)
    assert (table.budget, table.period, table.repeat) == (2_500_000, 60, device.REPEAT_PERIOD)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("home.json --to rust --out e", "--to must be one of python, micropython, c"),
        ("home.json --to c --out e --key k", "only bundles for Python are signed"),
        ("none.json --to c --out e", "no such file"),
        ("home.json --to c --out .", "is not an empty folder"),
        ("home.json --to c --out home.json", "is not an empty folder"),
        ("home.json --to c --out a/b/c", "there is no directory"),
        ("home.json --to c --out e --budget 0", "--budget must be a finite number above 0"),
        ("home.json --to c --out e --budget 9999", "at most 4294 nats"),
        ("home.json --to c --out e --period 0", "--period must be from 1"),
        ("home.json --to c --out e --repeat x", "--repeat must be one of code, period, never"),
        ("certain.json --to c --out e --budget 1", "no budget can be kept"),
        ("home.json --to python --out e --key e/k", "Keep it apart"),
        ("home.json --to python --out e --key home.json", "--key home.json"),
    ],
)
def test_a_mistake_is_one_message_and_leaves_nothing(mistake, arguments, words):
    assert words in mistake(*arguments.split())


def test_what_cannot_be_written_leaves_nothing_not_even_a_key(mistake, monkeypatch, tmp_path):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("discreet_sensor.files.os.fsync", full)
    assert "No space left" in mistake("home.json", "--to", "c", "--out", "e")
    # The key itself is written with the same call, so it fails first and is not left either.
    error = mistake("home.json", "--to", "python", "--out", "e", "--key", "k")
    assert "No space left" in error


def test_a_key_made_for_nothing_is_removed(mistake, monkeypatch):
    def refuse(*_):
        from discreet.errors import InputError

        raise InputError("--out e: cannot be written (no). Name another place.")

    monkeypatch.setattr(targets, "write_folder", refuse)
    assert "cannot be written" in mistake("home.json", "--to", "python", "--out", "e", "--key", "k")


def test_who_stops_the_export_keeps_nothing(export, monkeypatch, tmp_path):
    def interrupt(*given):
        raise KeyboardInterrupt

    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(targets, "write_folder", interrupt)
    code, _, error = export("home.json", "--to", "python", "--out", "e")
    assert code != 0 and "Nothing was written" in error
    assert sorted(tmp_path.rglob("*")) == before


def test_a_key_that_has_signed_is_kept_whatever_comes_after(export, monkeypatch, tmp_path):
    write = targets.write_folder

    def interrupt(*given):
        write(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(targets, "write_folder", interrupt)
    export("home.json", "--to", "python", "--out", "e")
    assert (tmp_path / "home.key").is_file()


def test_without_cryptography_it_says_what_to_install(mistake, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    error = mistake("home.json", "--to", "python", "--out", "e", "--key", "k")
    assert 'pip install "discreet[edge]"' in error
