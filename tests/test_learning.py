import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.commands import FACTS, rooms, run_apart
from support.helpers import refused

from discreet import Mapping
from discreet.choices import ByColumn
from discreet.data.split import split_rows, table_digest
from discreet.data.tables import read_table
from discreet.learning import learn, prepare
from discreet.task import Task, make_split

pytestmark = pytest.mark.slow

OCCUPANCY = Path(os.environ.get("DISCREET_DATA", ""), "occupancy_detection.csv.gz")


def task(folder, home=None, **changes):
    table = folder / "home.csv"
    (rooms() if home is None else home).to_csv(table, index=False)
    settings = {
        "exclude": ["day"],
        "options": {"random_state": 0, "n_restarts": 1, "privacy_ratio": 0.9},
    } | changes
    return Task(table, "fall", ["who"], **settings)


AT_ONCE = {
    "method": "randomized-response",
    "options": {"random_state": 0, "ldp_epsilon": 3.0},
}  # for what is the same with every method


# --- What is recorded ----------------------------------------------------------------------


# The rows to learn from have five days only, too few to show that the answers are good.
@pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")
@pytest.mark.parametrize("group", [None, "day"])
def test_the_held_out_rows_can_be_found_again_from_the_file(tmp_path, group):
    split = make_split(0.4, 7, group)
    wanted = task(tmp_path, split=split, exclude=["day"] * (group is None), **AT_ONCE)
    learned = learn(prepare(wanted))
    learned.mapping.save(tmp_path / "home.json")
    design = Mapping.load(tmp_path / "home.json").design
    table = read_table(tmp_path / "home.csv")
    assert design.source.digest == table_digest(table[["hall", "door", "fall", "who"]])
    assert design.source.rows == len(table)
    train, audit = split_rows(table, design.source.split, ["fall", "who"])
    assert len(train) == design.rows
    pd.testing.assert_frame_equal(learned.held_out, table.iloc[audit].reset_index(drop=True))
    if group is not None:
        assert not set(table["day"][train]) & set(table["day"][audit])


def test_no_held_out_row_has_a_say_in_the_mapping(tmp_path):
    home = rooms().astype({"hall": float})
    first = task(tmp_path, home)
    prepared = prepare(first)
    before = learn(prepared).mapping
    home.loc[prepared.audit, "hall"] = 99.0
    home.loc[prepared.audit, "door"] = 1 - home.loc[prepared.audit, "door"]
    second = task(tmp_path, home)
    after = learn(prepare(second)).mapping
    assert before.sensors == after.sensors and before.fusion == after.fusion
    assert before.design.source != after.design.source


def test_facts_and_sensors_keep_their_names(tmp_path):
    wanted = task(tmp_path, **AT_ONCE)
    mapping = learn(prepare(wanted)).mapping
    assert mapping.names == ["hall", "door"]
    assert mapping.public.name == "fall"
    assert mapping.public.classes == (False, True)
    assert [fact.name for fact in mapping.private] == ["who"]


def test_a_sensor_of_one_value_and_gaps_says_something_by_its_gaps(tmp_path):
    home = rooms()
    wanted = task(tmp_path, home.assign(hall=home["hall"].where(home["hall"] == 1)))
    assert prepare(wanted).sensors == ["hall", "door"]


def test_a_method_and_a_split_that_do_not_exist_are_refused(tmp_path):
    refused("--method must be one of auto", prepare, task(tmp_path, method="best"))
    refused("the split cannot be used: group must have at most", make_split, 0.3, 0, "x" * 2000)


# --- Choices by column ---------------------------------------------------------------------


def test_a_choice_for_all_and_one_for_a_column_reach_the_mapper_by_sensor(tmp_path):
    home = rooms().assign(room=["bath", "bed"] * 40)
    choices = {
        "n_symbols": ByColumn(2, {"hall": 3}),
        "binning": ByColumn("uniform", {"door": "codes"}),
        "n_bins": ByColumn(8, {}),
    }
    found = prepare(task(tmp_path, home, options=choices)).options
    assert found == {
        "n_symbols": {"hall": 3, "door": 2, "room": 2},
        "binning": {"hall": "uniform", "door": "codes"},  # text has no bins to choose
        "n_bins": 8,
    }


def test_a_choice_that_does_not_fit_the_sensors_is_refused_before_the_work(tmp_path):
    for choice in (ByColumn(2, {"day": 3}), ByColumn(2, {"hal": 3})):
        wanted = task(tmp_path, options={"n_symbols": choice})
        refused("n_symbols names the column .* no sensor", prepare, wanted)
    text = rooms().assign(hall=["bath", "bed"] * 40)
    wanted = task(tmp_path, text, options={"binning": {"hall": "uniform"}})
    refused("'uniform' was asked for 'hall', which does not hold numbers", prepare, wanted)


# --- The same again ------------------------------------------------------------------------


def test_the_same_command_gives_the_same_mapping_on_one_thread_and_on_two(tmp_path):
    rng = np.random.default_rng(0)
    home = rooms(120).assign(bed=rng.normal(size=120).round(3))
    home.to_csv(tmp_path / "home.csv", index=False)
    ids = []
    for threads in ("1", "2"):
        limits = {f"{name}_NUM_THREADS": threads for name in ("OMP", "OPENBLAS", "MKL")}
        options = ["--exclude", "day", "--out", f"{len(ids)}.json", "--seed", "3", "--ratio", "0.9"]
        ended = run_apart("learn", "home.csv", *FACTS, *options, folder=tmp_path, **limits)
        assert ended.returncode == 0, ended.stderr
        ids.append(Mapping.load(tmp_path / f"{len(ids)}.json").id)
    assert len(set(ids)) == 1


# --- Real readings -------------------------------------------------------------------------


@pytest.mark.skipif(not OCCUPANCY.exists(), reason=f"no {OCCUPANCY.name}; set DISCREET_DATA")
def test_a_real_office_is_still_known_to_be_occupied(tmp_path):
    office = pd.read_csv(OCCUPANCY, parse_dates=["date"])
    office["weekend"] = office["date"].dt.day_of_week >= 5
    office["day"] = office["date"].dt.strftime("%d %B")
    rows = office.iloc[::10].drop(columns=["part", "date", "HumidityRatio"])
    rows.to_csv(tmp_path / "office.csv", index=False)
    wanted = Task(
        tmp_path / "office.csv",
        "Occupancy",
        ["weekend"],
        split=make_split(0.3, 0, "day"),
        options={"random_state": 0, "privacy_ratio": 0.98, "n_bins": 5, "n_restarts": 4},
    )
    learned = learn(prepare(wanted))
    assert learned.mapper.useful_
    held_out = learned.held_out
    assert not set(held_out["day"]) & set(learned.training["day"])
    symbols = learned.mapping.transform(held_out, np.random.default_rng(0))
    right = learned.mapping.fuse(symbols) == held_out["Occupancy"].to_numpy()
    occupied = held_out["Occupancy"].to_numpy() == 1
    assert 0.5 * (right[occupied].mean() + right[~occupied].mean()) > 0.7
