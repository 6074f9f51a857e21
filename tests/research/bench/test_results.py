import json

import pytest
from pydantic import ValidationError
from support.benches import contest, run_of, timed

from discreet.errors import InputError
from research.bench import results
from research.bench.results import Contest, Run


def test_medians_spreads_and_ratios_are_taken_round_by_round():
    ours, peer = timed("ours", 1.0, 2.0, 4.0), timed("peer", 3.0, 2.0, 8.0)
    assert ours.median == 2.0
    assert ours.spread == pytest.approx((3.0 - 1.5) / 2 / 2.0)
    assert peer.over(ours) == 2.0


def test_a_run_is_its_file(tmp_path):
    run = run_of(contest(missing=("LightGBM stump",), notes=("10 passes",)))
    run.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == run


def test_the_file_tells_nothing_about_whose_machine_it_was(tmp_path):
    run_of(contest()).save(tmp_path / "run.json")
    machine = json.loads((tmp_path / "run.json").read_text())["machine"]
    assert set(machine) == {"cores", "python", "versions"}


def changed(run, *path_and_value):
    content = json.loads(run.model_dump_json())
    *path, last, value = path_and_value
    part = content
    for step in path:
        part = part[step]
    part[last] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    "path_and_value",
    [
        ("version", 2),
        ("discreet", 1),
        ("contests", []),
        ("contests", 0, "ours", "nobody"),
        ("contests", 0, "yardstick", "nobody"),
        ("contests", 0, "factor", 0.0),
        ("contests", 0, "times", 0, "clock", []),
        ("contests", 0, "times", 0, "clock", [1.0]),
        ("contests", 0, "times", 0, "clock", [1.0, 0.0, 1.0]),
        ("contests", 0, "times", 0, "name", "peer"),
        ("contests", 0, "times", 0, "more", 1),
        ("machine", "cores", 0),
        ("machine", "python", "x" * 1000),
    ],
)
def test_a_file_that_was_changed_is_refused(tmp_path, path_and_value):
    file = tmp_path / "run.json"
    file.write_text(changed(run_of(contest()), *path_and_value))
    with pytest.raises(InputError, match=r"run\.json: "):
        Run.load(file)


@pytest.mark.parametrize("text", ["", "{}", '{"format": "discreet-bench"', "[1, 2]", "\x00"])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=r"run\.json: is not"):
        Run.load(tmp_path / "run.json")


def test_too_large_absent_and_odd_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no such file"):
        Run.load(tmp_path / "absent.json")
    with pytest.raises(InputError, match="not a regular file"):
        Run.load(tmp_path)
    run_of(contest()).save(tmp_path / "run.json")
    monkeypatch.setattr(results, "MAX_BYTES", 10)
    with pytest.raises(InputError, match="at most 10 are read"):
        Run.load(tmp_path / "run.json")


def test_a_contest_needs_ours_and_the_yardstick():
    with pytest.raises(ValidationError, match="one that is not there"):
        Contest(
            name="n", title="t", size="s", unit="s", factor=1.0, ours="ours", yardstick="peer",
            times=(timed("ours", 1.0),),
        )  # fmt: skip
