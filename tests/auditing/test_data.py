import numpy as np
import pandas as pd
import pytest
from support.commands import rooms
from support.helpers import refused
from support.worlds import NOISY, colours, frame, mapping_of, silent

from discreet import RandomizedResponseMapper
from discreet.auditing import table_rows
from discreet.auditing.audit import audit_checked_data
from discreet.auditing.data import (
    MIN_CLASS_ROWS,
    AuditOptions,
    audit_data_from_arrays,
    check_counts,
)
from discreet.auditing.table_rows import audit_data_from_table
from discreet.data import tables
from discreet.data.columns import Labels
from discreet.data.groups import group_values
from discreet.data.split import split_rows
from discreet.data.tables import Frame, Stream, read_table
from discreet.learning import learn, prepare
from discreet.mapping.parts import Fact
from discreet.task import Task, make_split

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")


def learned(folder, home=None, **split):
    file = folder / "home.csv"
    home = rooms(200) if home is None else home
    home.to_csv(file, index=False)
    split = {"holdout": 0.4, "seed": 3, "group": None} | split
    options = {"random_state": 0, "ldp_epsilon": 3.0}
    groups = {"day", "half", "Home ID"} & set(home.columns)
    exclude = sorted(groups - {split["group"]})
    how = {"method": "randomized-response", "options": options}  # any method: this one is quick
    task = Task(file, "fall", ["who"], exclude=exclude, split=make_split(**split), **how)
    return learn(prepare(task)), read_table(file)


def some_mapping(table):
    taught = table[:100]
    X, fall, who = taught[["door", "hall"]], taught["fall"], taught["who"]
    return RandomizedResponseMapper(ldp_epsilon=3.0).fit(X, fall, private=who).mapping_


# --- Rows that may vouch -------------------------------------------------------------------


@pytest.mark.slow
def test_of_the_learned_table_only_the_held_out_rows_are_used(tmp_path):
    result, table = learned(tmp_path)
    data = audit_data_from_table(result.mapping, table)
    assert data.n_rows == len(result.held_out) == 80
    pd.testing.assert_frame_equal(data.readings, result.held_out[["hall", "door"]])
    assert "80 of 200 rows that were held out" in data.origin


@pytest.mark.slow
def test_another_label_column_does_not_change_which_rows_were_held_out(tmp_path):
    home = rooms(200).assign(other=lambda t: np.where(t["who"] == "ann", True, False)[::-1])
    file_rows, table = learned(tmp_path, home.drop(columns="other"))
    before = audit_data_from_table(file_rows.mapping, table)
    renamed = audit_data_from_table(file_rows.mapping, table, public="fall", private=["who"])
    pd.testing.assert_frame_equal(before.readings, renamed.readings)


def test_a_table_without_held_out_rows_is_refused(tmp_path):
    result, table = learned(tmp_path, holdout=0.0)
    refused("learned from all 200 rows of this table", audit_data_from_table, result.mapping, table)


@pytest.mark.slow
def test_another_table_is_used_whole_and_said_to_be_another(tmp_path):
    result, _ = learned(tmp_path)
    data = audit_data_from_table(result.mapping, rooms(120, seed=9))
    assert data.n_rows == 120
    assert "whether some of them were learned from cannot be checked" in data.origin


def test_the_learned_table_is_known_again_whatever_its_columns_are_called(tmp_path):
    result, table = learned(tmp_path)
    wide = table.assign(more=1)[["who", "more", "door", "fall", "hall", "day"]]
    assert audit_data_from_table(result.mapping, wide).n_rows == 80
    renamed = table.rename(columns={"who": "person", "fall": "fell"})
    data = audit_data_from_table(result.mapping, renamed, public="fell", private=["person"])
    assert data.n_rows == 80


def test_a_shuffled_copy_of_the_learned_table_is_refused(tmp_path):
    result, table = learned(tmp_path)
    shuffled = table.sample(frac=1, random_state=0)
    refused("rows in another order", audit_data_from_table, result.mapping, shuffled)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.slow
def test_the_training_rows_alone_are_refused_from_everywhere(tmp_path, shuffle):
    result, _ = learned(tmp_path)
    rows = result.training.sample(frac=1, random_state=0) if shuffle else result.training
    refused("was learned from", audit_data_from_table, result.mapping, rows)
    X, y, g = rows[["hall", "door"]], rows["fall"], rows["who"]
    refused("was learned from", audit_data_from_arrays, result.mapping, X, y, g)
    fitted = RandomizedResponseMapper(ldp_epsilon=3.0).fit(X, y, private=g).mapping_
    refused("was learned from", audit_data_from_table, fitted, rows)


def test_groups_that_are_missing_are_not_taken_for_independence(tmp_path):
    result, _ = learned(tmp_path, group="day")
    other = rooms(120, seed=9).rename(columns={"day": "date"})
    refused("in groups of 'day'", audit_data_from_table, result.mapping, other)
    assert audit_data_from_table(result.mapping, other, group="date").groups is not None
    assert audit_data_from_table(result.mapping, other, assume_independent=True).groups is None


@pytest.mark.slow
def test_groups_whose_rows_were_learned_from_are_named(tmp_path):
    result, table = learned(tmp_path)  # split row by row, so that every day is on both sides
    data = audit_data_from_table(result.mapping, table, group="day")
    assert "rows of the same day were learned from" in data.learned_groups
    assert "split one by one: learn again with --group day" in data.learned_groups
    found = audit_checked_data(data)
    assert "were learned from" in found.private[0].certificate("advantage").value.reason
    assert not audit_data_from_table(result.mapping, table).learned_groups
    other = rooms(120, seed=9)
    assert not audit_data_from_table(result.mapping, other, group="day").learned_groups


def test_finer_groups_within_those_of_the_split_were_not_learned_from(tmp_path):
    home = rooms(200).assign(half=np.arange(200) // 5)
    result, table = learned(tmp_path, home.assign(day=np.arange(200) // 10), group="day")
    assert not audit_data_from_table(result.mapping, table).learned_groups
    assert not audit_data_from_table(result.mapping, table, group="half").learned_groups
    assert audit_data_from_table(result.mapping, table, group="half").unit == "half"


@pytest.mark.slow
def test_a_group_whose_name_is_no_noun_is_quoted_in_every_sentence(tmp_path):
    home = rooms(300).assign(**{"Home ID": np.arange(300) // 5})
    result, table = learned(tmp_path, home.drop(columns="day"), group="Home ID")
    limit = AuditOptions(max_advantage=0.1)
    found = audit_checked_data(audit_data_from_table(result.mapping, table), limit)
    assert found.unit == "'Home ID' group"
    assert "'Home ID' groups (" in found.verdict
    assert any(said.startswith("rows of one 'Home ID' group may") for said in found.remarks)
    assert any(said.startswith("every 'Home ID' group is an") for said in found.assumptions)
    by_row, table = learned(tmp_path, home)
    apart = audit_data_from_table(by_row.mapping, table, group="Home ID").learned_groups
    assert apart.endswith("learn again with --group 'Home ID'")


@pytest.mark.parametrize("group", ["rows:10", "date:day"])
def test_groups_of_rows_and_times_are_found_again(tmp_path, group):
    times = pd.date_range("2015-02-04", periods=200, freq="3h").astype(str)
    home = rooms(200).drop(columns="day").assign(date=times)
    if group.startswith("rows"):
        home = home.drop(columns="date")
    result, table = learned(tmp_path, home, group=group)
    data = audit_data_from_table(result.mapping, table)
    pd.testing.assert_frame_equal(data.readings, result.held_out[["hall", "door"]])
    texts = group_values(table, group)
    held = texts[split_rows(table, result.mapping.design.source.split, ["fall", "who"])[1]]
    assert len(held) == data.n_rows
    assert len(set(zip(held, data.groups, strict=True))) == len(set(held)) > 1
    assert data.dependence.unit == "groups"
    assert data.unit == ("block" if group.startswith("rows") else "day")
    assert data.dependence.rows == len(set(texts))


@pytest.mark.slow
def test_a_dependent_table_is_known_as_such_when_its_held_out_rows_are_audited(tmp_path):
    smooth = np.sin(np.arange(200) / 9).round(3)
    result, table = learned(tmp_path, rooms(200).assign(hall=smooth))
    data = audit_data_from_table(result.mapping, table)
    assert data.dependence.found and not data.assumed_independent
    assert data.dependence == result.mapping.design.source.dependence
    declared = audit_data_from_table(result.mapping, table, assume_independent=True)
    assert declared.dependence.found and declared.assumed_independent
    independent = audit_data_from_table(result.mapping, rooms(120, seed=9))
    assert not independent.dependence.found and independent.dependence.rows == 120


def test_rows_handed_over_in_python_are_looked_at_in_their_order(rng):
    mapping, X, h, g = silent(300, rng)
    assert not audit_data_from_arrays(mapping, X, h, g).dependence.found
    order = np.argsort(X["s0"].to_numpy(), kind="stable")  # sorted by a reading
    ordered = X.iloc[order], rng.permutation(h), g[order]
    found = audit_data_from_arrays(mapping, *ordered, assume_independent=True)
    assert found.dependence.found and found.assumed_independent
    home = np.arange(300) // 2
    grouped = audit_data_from_arrays(mapping, X, h, g, home, assume_independent=True)
    assert grouped.groups is not None and grouped.dependence.unit == "groups"


def test_named_groups_are_kept_when_they_are_declared_independent(tmp_path):
    result, table = learned(tmp_path, group="day")
    kept = audit_data_from_table(result.mapping, table, group="day", assume_independent=True)
    assert kept.groups is not None and kept.assumed_independent


def test_the_groups_of_the_split_are_those_of_the_audit(tmp_path):
    result, table = learned(tmp_path, group="day")
    data = audit_data_from_table(result.mapping, table)
    days = result.held_out["day"].to_numpy()
    assert data.groups.tolist() == np.unique(days.astype(str), return_inverse=True)[1].tolist()
    assert "grouped by 'day'" in data.origin


def test_the_rows_of_a_fit_are_refused_and_others_are_not(rng):
    X = pd.DataFrame({"a": rng.integers(3, size=200), 7: rng.integers(2, size=200)})
    X.columns = X.columns.astype(str)
    y, g = rng.integers(2, size=200), np.where(X["a"] > 0, "x", "y")
    mapping = RandomizedResponseMapper(ldp_epsilon=3.0).fit(X, y, private=g).mapping_
    refused("200 rows that mapping .* was learned from", audit_data_from_arrays, mapping, X, y, g)
    shuffled = X[["7", "a"]]  # other columns in another order are the same rows
    refused("was learned from", audit_data_from_arrays, mapping, shuffled, y, g)
    assert audit_data_from_arrays(mapping, X[1:], y[1:], g[1:]).n_rows == 199


# --- Labels and readings -------------------------------------------------------------------


def test_labels_are_told_apart_by_how_they_are_written():
    fact = Fact(name="who", classes=(1, 2))
    for values in ([1, 2] * 5, [1.0, 2.0] * 5, ["1", "2"] * 5):
        assert fact.places(values).tolist() == [0, 1] * 5


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, 3] * 5, "'who' has the class '?3.*the mapping knows 1, 2"),
        ([1, None] * 5, "'who' is missing in 5 of 10 rows"),
        (["1", " Unknown"] * 5, "'who' is missing in 5 of 10 rows"),
        ([1] * 10, f"class 2 of 'who' has 0 of 10 audit rows; at least {MIN_CLASS_ROWS}"),
        ([1] * 9 + [2], "class 2 of 'who' has 1 of 10 audit rows"),
    ],
)
def test_labels_that_cannot_be_audited_are_refused(values, said):
    fact = Fact(name="who", classes=(1, 2))
    refused(said, lambda: check_counts(Labels("who", fact.places(values), fact.classes)))


def test_a_missing_sensor_is_named(rng):
    mapping, X, h, g = silent(60, rng)
    refused("'s1'", audit_data_from_arrays, mapping, X.drop(columns="s1"), h, g)
    refused("shape", audit_data_from_arrays, mapping, X.to_numpy()[:, :1], h, g)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"private": None}, "audit needs private="),
        ({"y": np.zeros(3)}, "'h' has 3 labels; there are 60 rows"),
        ({"private": np.zeros((60, 2))}, "private has 2 columns; the mapping guards 1: g"),
        ({"groups": np.zeros(60)}, "all rows are in one group"),
        ({"groups": np.zeros(5)}, "groups has 5 entries; there are 60 rows"),
        ({"groups": [None] * 60}, "the group is missing in 60 of 60 rows"),
    ],
)
def test_what_does_not_fit_the_rows_is_refused(rng, change, said):
    mapping, X, h, g = silent(60, rng)
    given = {"mapping": mapping, "X": X, "y": h, "private": g} | change
    refused(said, audit_data_from_arrays, **given)


def test_the_private_facts_must_be_as_many_as_the_mapping_guards(tmp_path):
    mapping = mapping_of([NOISY], private=("g", "k"))
    table = frame([np.arange(40) % 2]).assign(h=np.arange(40) % 2, g=0, k=1)
    refused("1 private facts were named; the mapping guards 2", audit_data_from_table, mapping,
            table, private=["g"])  # fmt: skip


def test_an_unseen_category_has_the_code_of_the_unknown(rng):
    mapping, X, h, g = colours(60, rng)
    assert np.sum(audit_data_from_arrays(mapping, X, h, g).codes == 2) == 7


# --- Batches -------------------------------------------------------------------------------


def test_a_table_in_batches_gives_the_data_of_one_in_memory(tmp_path, monkeypatch, rng):
    """Codes, labels and groups of all rows, readings of the same sample, whatever the batches."""
    table = rooms(400)
    table.to_parquet(tmp_path / "rooms.parquet")
    mapping = some_mapping(table)
    monkeypatch.setattr(tables, "BATCH_ROWS", 64)
    monkeypatch.setattr(table_rows, "_IN_MEMORY", 0)
    files, sample = [tmp_path / "rooms.parquet"], table_rows.Sample(most=50, seed=3)
    streamed = audit_data_from_table(
        mapping, table_rows.open_rows(files), group="day", sample=sample
    )
    whole = audit_data_from_table(mapping, table, group="day", sample=sample)
    assert isinstance(table_rows.open_rows(files), Stream)
    assert streamed.codes.dtype == np.uint8
    np.testing.assert_array_equal(streamed.codes, mapping.encode(table))
    facts = whole.public, *whole.private
    for data in (streamed, whole):
        np.testing.assert_array_equal(data.codes, whole.codes)
        np.testing.assert_array_equal(data.groups, whole.groups)
        np.testing.assert_array_equal(data.attacked, whole.attacked)
        for fact, same in zip((data.public, *data.private), facts, strict=True):
            np.testing.assert_array_equal(fact.index, same.index)
        pd.testing.assert_frame_equal(data.readings, whole.readings)
    expected = table[["door", "hall"]].iloc[whole.attacked].reset_index(drop=True)
    pd.testing.assert_frame_equal(whole.readings, expected)
    np.testing.assert_array_equal(
        whole.draw_symbols(5), mapping.sample(whole.codes, np.random.default_rng(5))
    )


@pytest.mark.usefixtures("few_attackers")
def test_attackers_that_see_a_sample_are_said_to():
    table = rooms(400)
    mapping = some_mapping(table)
    few = table_rows.Sample(most=120)
    found = audit_checked_data(audit_data_from_table(mapping, table, sample=few))
    assert any("tried on 120 of the 400 rows, drawn at random" in each for each in found.remarks)
    assert found.rows == 400 and found.private[0].attacks.symbols[1].rows < 120


# --- More rows than fit into memory --------------------------------------------------------


@pytest.fixture
def room_for_60(monkeypatch):
    monkeypatch.setattr(table_rows.Sample, "most_rows", lambda *_: 60)


def test_of_more_rows_than_fit_some_serve_and_are_said_to(room_for_60):
    table = rooms(1000, seed=4)
    mapping = some_mapping(rooms(400))
    data = audit_data_from_table(mapping, table, sample=table_rows.Sample(seed=1))
    assert 30 < data.n_rows < 100  # 60 on average, with a standard deviation below 8
    assert f"; {data.n_rows} of these 1000, drawn at random, fit into --memory" in data.origin
    here = data.readings.merge(table, how="left", on=["door", "hall"])
    assert not here["fall"].isna().any()
    other = audit_data_from_table(mapping, table, sample=table_rows.Sample(seed=2))
    assert not np.array_equal(other.codes, data.codes)


def test_every_row_is_as_likely_to_serve_as_any_other():
    chosen = np.arange(200) % 4 > 0
    drawn = np.array([table_rows._draw(chosen, None, 30, seed) for seed in range(2000)])
    share = drawn.mean(axis=0)
    assert not share[~chosen].any()
    assert abs(share[chosen] - 0.2).max() < 0.05  # five standard deviations
    pairs = (drawn[:, 1] & drawn[:, 2]).mean()
    assert abs(pairs - 0.04) < 0.02


def test_groups_serve_whole_or_not_at_all(room_for_60):
    table = rooms(1000, seed=4).assign(day=np.arange(1000) // 5)
    data = audit_data_from_table(some_mapping(rooms(400)), table, group="day")
    assert set(np.bincount(data.groups)) == {5}
    assert 2 < data.n_rows // 5 < 30  # 12 on average, with a standard deviation below 4


def test_rows_that_were_learned_from_are_refused_if_only_some_of_them_fit(tmp_path, room_for_60):
    result, _ = learned(tmp_path)
    rows = result.training.sample(frac=1, random_state=0)
    refused("these are the 120 rows that mapping", audit_data_from_table, result.mapping, rows)
    other = rooms(120, seed=9)  # as many, and none of them
    assert audit_data_from_table(result.mapping, other).n_rows < 120


def test_too_little_memory_is_one_message():
    mapping, table = some_mapping(rooms(400)), rooms(500)
    little = table_rows.Sample(memory=100 << 20)
    refused(
        "--memory allows 100 MiB; an audit with these 500 rows takes at least",
        audit_data_from_table, mapping, table, sample=little,
    )  # fmt: skip
    enough = table_rows.Sample(memory=2 << 30)
    assert audit_data_from_table(mapping, table, sample=enough).n_rows == 500
    half = table_rows.Sample(memory=1 << 30)
    more = enough.most_rows(mapping, Frame(table)) - half.most_rows(mapping, Frame(table))
    assert 50 < (1 << 30) / more < 500  # bytes a row
