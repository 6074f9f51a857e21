import re
import shlex

import numpy as np
import pytest
from commands import run, run_apart

from discreet import Mapping
from discreet.demo import RESIDENTS, SENSORS, exact_outputs, make_home


def test_the_demo_tells_its_story_and_can_be_repeated(tmp_path):
    first = run_apart("demo", "--out", "my demo", "--seed", "1", folder=tmp_path)
    assert (first.returncode, first.stderr.count("\n")) == (0, 1)
    rows = re.findall(r"^from the .*?(\d\.\d{3}) +(\d\.\d{3})$", first.stdout, re.MULTILINE)
    (_, raw_who), (sent_fall, sent_who) = [tuple(map(float, row)) for row in rows]
    assert raw_who < 0.05 and sent_fall < 0.1 and sent_who > 0.4
    assert first.stdout.count("readings") >= 4 and "of the answers are right" in first.stdout
    made = Mapping.load(tmp_path / "my demo" / "home.json")
    # The command that it prints does what it has done, also in a folder that is there already.
    printed = re.search(r"^\$ discreet (.*)$", first.stdout, re.MULTILINE)[1]
    assert run_apart(*shlex.split(printed), folder=tmp_path).returncode == 0
    assert Mapping.load(tmp_path / "my demo" / "home.json").id == made.id


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
