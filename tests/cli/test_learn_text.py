"""What `learn` says in its summary: figures, wishes that are met or not, limits of use."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.commands import FACTS, few, same

from discreet import Mapping
from discreet.cli import progress

FIGURE = r"\d+\.\d"


@pytest.mark.slow
def test_guessing_and_raw_readings_stand_beside_the_error_of_the_answers(command):
    code, printed, _ = command("learn", "home.csv", *FACTS, "--ratio", "0.9", "--out", "m")
    assert code == 0 and "useless" not in printed
    found = re.search(
        rf"answers 'fall' with error ({FIGURE}) % and balanced accuracy ({FIGURE}) % "
        rf"\(({FIGURE}) to ({FIGURE})\)\n"
        rf"beside it, guessing: ({FIGURE}) % and 50.0 %; raw readings: ({FIGURE}) % and "
        rf"({FIGURE}) %\n",
        printed,
    )
    error, accuracy, low, high, guessing, raw_error, _ = (
        float(each) / 100 for each in found.groups()
    )
    assert 0.5 < low <= accuracy <= high
    # The hall tells of a fall in nine rows of ten; about half of the rows have one.
    assert raw_error < 0.25 and error < guessing and 0.35 < guessing <= 0.5
    recorded = Mapping.load("m").design.expected
    assert recorded["guessing_error"] == pytest.approx(guessing, abs=5e-4)
    assert recorded["raw_error"] == pytest.approx(raw_error, abs=5e-4)
    assert recorded["balanced_accuracy_low"] == pytest.approx(low, abs=1e-3)


@pytest.mark.slow
def test_a_wish_in_words_is_answered_with_what_to_expect(command):
    options = ["--exclude", "day", "--max-advantage", "0.2", "--out", "m"]
    code, printed, _ = command("learn", "home.csv", *FACTS, *options)
    assert code == 0
    assert re.search(
        r"expected of one report \(of designs without a fold, on rows left out: an estimate and no "
        r"certificate\): attacker's "
        r"advantage \d+\.\d points under the model, of which attackers that were tried show "
        r"\d+\.\d ± \d+\.\d points \(raw readings: \d+\.\d; asked: 20\); what was asked for is "
        r"met\n",
        printed,
    )
    assert Mapping.load("m").design.parameters["max_advantage"] == 0.2
    assert "\nthe mapping written may be better or worse than this; the" in printed
    assert "under the model of the rows learned from, beats guessing 'who'" in printed
    assert "is answered right by designs without a fold in" in printed


@pytest.mark.slow
def test_where_no_estimate_is_within_the_wish_the_symbols_are_noise(command):
    """Thirty rows show nothing, and what they let expect is above what was asked."""
    few().to_csv("few.csv", index=False)
    asked = ["--public", "h", "--private", "g", "--max-advantage", "0.001", "--out", "m"]
    code, printed, _ = command("learn", "few.csv", *asked)
    assert code == 3
    assert "\nNOT met: what was asked for leaves nothing to say" in printed
    said = r"pure noise: no design .* within 0\.1 points, even with .* \(raw .*\); NOT MET"
    assert re.search(said, printed)
    assert all(np.ptp(table, axis=0).max() < 1e-6 for table in Mapping.load("m").tables)


@pytest.mark.slow
def test_without_a_stated_limit_the_default_is_called_so_and_is_no_failure(command):
    """Fourteen rows to learn from show nothing of a public fact that is the private one."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=20)
    table = pd.DataFrame({"a": np.where(rng.random(20) < 0.9, h, 1 - h), "h": h, "g": h})
    table.assign(b=rng.integers(3, size=20)).to_csv("same.csv", index=False)
    code, printed, said = command(
        "learn", "same.csv", "--public", "h", "--private", "g", "--out", "m"
    )
    assert code == 0 and "the default is not met" in printed
    both = printed + said
    assert "NOT MET" not in both and "asked for" not in printed and "were allowed" not in both
    assert "at most advantage 0.05 is the default" in said or "pure noise" in printed


def of_use(printed):
    """The levels named, each as points, what it is promised to be worth, and its command."""
    named = re.findall(
        r"^a limit of ([\d.]+) points?(?: instead of epsilon [\d.]+)? would leave something of use "
        r"\(attacker's advantage (?:[\d.]+ points under the model, of which attackers that were "
        r"tried show )?[\d.−]+ ± [\d.]+ points\), error about [\d.]+ %, "
        r"balanced accuracy ([\d.]+) %: (discreet learn .*)$",
        printed,
        re.MULTILINE,
    )
    return [(float(leak), float(worth) / 100, shlex.split(line)[1:]) for leak, worth, line in named]


def keeps_promise(command, worth, again):
    """Tell whether a command that was proposed does what was promised of it."""
    code, printed, _ = command(*again)
    expected = Mapping.load("m").design.expected
    near = expected["balanced_accuracy"] == pytest.approx(worth, abs=0.02)
    return code == 0 and near and expected["met"] == 1.0 and "\nuseless" not in printed


@pytest.mark.slow
def test_levels_that_would_be_of_use_are_named_with_the_command(command):
    asked = same("same.csv")
    code, printed, _ = command(*asked, "--max-advantage", "0.01")
    assert code in (0, 3) and re.search("^useless", printed, re.MULTILINE)
    named = of_use(printed)
    assert 1 <= len(named) <= 3
    for leak, _, again in named:
        assert again[:-2] == asked and again[-2] == "--max-advantage"
        assert 100 * float(again[-1]) == pytest.approx(leak)
    told = json.loads(command(*asked, "--max-advantage", "0.01", "--json")[1])
    others = [(100 * each["limit"], shlex.split(each["command"])) for each in told["alternatives"]]
    assert [leak for leak, _ in others] == pytest.approx([leak for leak, *_ in named])
    assert all(line[1 : len(asked) + 1] == asked and "--json" in line for _, line in others)
    assert {"public_error", "balanced_accuracy"} <= set(told["alternatives"][0])
    assert told["asked"]["max_advantage"] == 0.01 and told["structural_epsilon"] > 0
    assert keeps_promise(command, *named[0][1:])


@pytest.mark.slow
def test_a_level_of_use_names_what_stands_in_a_file_of_options(command):
    same("same.csv")
    Path("d.toml").write_text(
        'table = ["same.csv"]\npublic = "h"\nprivate = ["g"]\nepsilon = 0.05\nquiet = false\n'
        'symbols = ["b=3"]\nout = "other"\n'
    )
    _, printed, _ = command("learn", "--config", "d.toml", "--out", "m")
    assert "instead of epsilon 0.05" in printed
    (_, worth, again), *_ = of_use(printed)
    assert again[:-1] == [
        "learn", "same.csv", "--public", "h", "--private", "g", "--out", "m", "--symbols", "b=3",
        "--max-advantage",
    ]  # fmt: skip
    assert keeps_promise(command, worth, again)


@pytest.mark.slow
def test_an_epsilon_that_is_not_kept_is_named_with_what_was_seen(command):
    rng = np.random.default_rng(0)
    h, g = rng.integers(2, size=(2, 600))
    table = pd.DataFrame({f"x{k}": rng.binomial(3, 0.5, 600) + 4 * h + 2 * g for k in range(4)})
    table.assign(fall=h, who=g).to_csv("two.csv", index=False)
    limits = ["--max-advantage", "0.3", "--epsilon", "0.5"]
    code, printed, said = command("learn", "two.csv", *FACTS, "--out", "m", *limits)
    seen = r"at every level that was tried epsilon is at least [\d.]+ on rows left out \(limit: 0.5"
    assert code == 3 and re.search(f"NOT MET: {seen}", printed) and re.search(seen, said)
    assert "Of few rows this epsilon errs upwards: ask for a larger one." in said


@pytest.mark.slow
def test_an_epsilon_that_is_shared_out_is_said_with_what_would_be_of_use(command):
    rng = np.random.default_rng(0)
    h, g = rng.integers(2, size=(2, 600))
    table = pd.DataFrame({f"x{k}": np.where(rng.random(600) < 0.8, h, 1 - h) for k in range(11)})
    table.assign(fall=h, who=g).to_csv("many.csv", index=False)
    asked = ["learn", "many.csv", *FACTS, "--out", "m", "--epsilon", "0.2"]
    code, printed, said = command(*asked)
    assert code == 0 and "private enough: epsilon 0.2 holds by construction" in printed
    assert "--epsilon 0.2 is shared out among the 11 sensors, 0.0182 each" in said
    assert "fewer --sensors, --max-advantage instead, or a larger --epsilon." in said
    named = of_use(printed)
    assert named and all("--epsilon" not in again for *_, again in named)
    assert printed.count(" instead of epsilon 0.2 ") == len(named)
    told = json.loads(command(*asked, "--json")[1])
    assert [each for each in told["warnings"] if "shared out among the 11 sensors" in each]
    assert all(f"warning: {each}\n" in said for each in told["warnings"])
    assert told["asked"]["epsilon_per_sensor"] == pytest.approx(0.2 / 11)
    assert len(told["alternatives"]) == len(named) and told["expected"]["share_of_raw_gain"] < 0.2


@pytest.mark.slow
def test_a_run_that_time_ends_marks_what_raw_readings_are_worth(command):
    options = ["--exclude", "day", "--time-limit", "0.001s", "--out", "m"]
    _, printed, _ = command("learn", "home.csv", *FACTS, *options)
    assert "stopped early" in printed and re.search(r"\(raw readings: [\d.]+, roughly; ", printed)
    assert re.search(r"; raw readings: .* \(roughly, time was up\)\n", printed)
    told = json.loads(command("learn", "home.csv", *FACTS, *options, "--json")[1])
    assert told["stopped"] and told["expected"]["raw_roughly"]


@pytest.mark.slow
def test_a_run_that_was_stopped_does_not_say_that_time_was_up(command, monkeypatch):
    report = progress.LearnReport.__call__

    def interrupted(self, found):
        report(self, found)
        self.stop_asked = self.keeps  # as after Ctrl-C
        return self.stop_asked

    monkeypatch.setattr(progress.LearnReport, "__call__", interrupted)
    _, printed, _ = command("learn", "home.csv", *FACTS, "--exclude", "day", "--out", "m")
    assert "stopped early" in printed and "time was up)" not in printed
    assert re.search(r"; raw readings: .* \(roughly, it was stopped\)\n", printed)
