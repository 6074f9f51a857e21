"""Rows in order: found where they depend on one another, and nowhere else."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.chance import autocovariances, centred, find_copies, shuffled_within
from discreet.data.dependence import (
    MIN_ROWS,
    Dependence,
    check_copies,
    check_dependence,
    correlation_length,
    looked_at,
    stretches,
    worse_of,
)
from discreet.data.table_warnings import (
    _settles,
    check_both_orders,
    doubt_rows,
    find_shared,
    propose_group,
)


def smooth(n, rng, correlation=0.5):
    """A series whose values have this correlation with the next one."""
    x = rng.normal(size=n)
    for i in range(1, n):
        x[i] = correlation * x[i - 1] + np.sqrt(1 - correlation**2) * x[i]
    return x


def check(columns, fact=None, seed=0, **options):
    readings = pd.DataFrame(columns).reset_index(drop=True)
    rng = np.random.default_rng([7, seed])
    fact = rng.integers(2, size=len(readings)) if fact is None else fact
    return check_dependence(readings, [fact], seed=seed, **options)


# --- Independent rows ------------------------------------------------------------------------


def gaps(n, rng):
    table = pd.DataFrame(rng.normal(size=(n, 3)))
    return table.mask(rng.random((n, 3)) < np.array([0.3, 0.01, 0.95]))


def words(n, rng):
    return pd.DataFrame({"many": rng.zipf(1.5, n).astype(str), "rare": rng.random(n) < 0.02})


INDEPENDENT = {
    "continuous": lambda n, rng: pd.DataFrame(rng.normal(size=(n, 3))),
    "binary": lambda n, rng: pd.DataFrame((rng.random((n, 3)) < 0.1).astype(int)),
    "skewed": lambda n, rng: pd.DataFrame(np.exp(2 * rng.normal(size=(n, 2))) // 1),
    "copies of a sensor": lambda n, rng: pd.DataFrame(rng.normal(size=n)[:, None] * [1, -2, 3]),
    "gaps": gaps,
    "words": words,
}


@pytest.mark.slow
def test_independent_rows_raise_no_alarm():
    """240 tables; an alarm has probability 0.006, so that more than 6 have 0.0004."""
    found = [
        name
        for name, make in INDEPENDENT.items()
        for k in range(40)
        if check(make(200, np.random.default_rng([1, k])), seed=k).found
    ]
    assert len(found) <= 6


@pytest.mark.parametrize("seed", range(4))
def test_a_table_sorted_by_its_classes_raises_no_alarm(seed):
    rng = np.random.default_rng(seed)
    g = np.sort(rng.integers(4, size=400))
    x = rng.normal(size=400) * (1 + g) + 2 * g
    found = check({"x": x}, g)
    assert not found.found and found.classes_in_runs
    other = rng.integers(2, size=400)
    assert not check({"x": x}, other, public=g).found
    assert check({"x": x}, other).found  # what sorts it is no fact then


def test_random_classes_are_not_in_runs_and_those_of_a_series_are(rng):
    x = rng.normal(size=500)
    assert not check({"x": x}, rng.integers(3, size=500)).classes_in_runs
    found = check({"x": x}, smooth(500, rng, 0.9) > 0)
    assert found.classes_in_runs and not found.found


# --- Dependent rows --------------------------------------------------------------------------


def rotation(n, rng):
    return {"x": np.stack([smooth(n // 7, rng, 0.9) for _ in range(7)]).T.ravel()}


def one_of_twenty(n, rng):
    return np.column_stack([rng.normal(size=(n, 19)), smooth(n, rng, 0.6)])


def levels(n, rng):
    return {"x": np.where(smooth(n, rng, 0.8) > 0, "in", "out"), "y": rng.choice(list("pqr"), n)}


def many_levels(n, rng):
    return {"x": np.repeat(rng.integers(500, size=n), 3)[:n].astype(str)}


def sizes_in_runs(n, rng):
    return {"x": rng.normal(size=n) * np.exp(1.5 * smooth(n, rng, 0.98))}


def exclusive_or(n, rng):
    a = rng.integers(2, size=n)
    return {"a": a, "b": a ^ (smooth(n, rng, 0.95) > 0)}


def delayed(n, rng):
    x = rng.normal(size=n + 1)
    return {"now": x[1:], "before": x[:-1]}


def seasons(n, rng):
    return {"x": np.sin(np.arange(n) * 2 * np.pi / 144) + rng.normal(size=n)}


def gaps_in_runs(n, rng):
    return {"x": np.where(smooth(n, rng, 0.9) > 1, np.nan, rng.normal(size=n))}


def two_rows_a_moment(n, rng):
    return {"x": np.repeat(rng.normal(size=n // 2), 2) + 0.3 * rng.normal(size=n // 2 * 2)}


def sorted_by_a_reading(n, rng):
    return {"x": np.sort(rng.normal(size=n)), "y": rng.normal(size=n)}


def drift(n, rng):
    return {"x": rng.normal(size=n) + np.linspace(0, 1, n)}


DEPENDENT = [
    rotation, one_of_twenty, levels, many_levels, sizes_in_runs, exclusive_or, delayed, seasons,
    gaps_in_runs, two_rows_a_moment, sorted_by_a_reading, drift,
]  # fmt: skip


@pytest.mark.parametrize("make", DEPENDENT)
@pytest.mark.parametrize("seed", range(3))
def test_dependent_rows_are_found(make, seed):
    found = check(make(700, np.random.default_rng(seed)), seed=seed)
    assert found.found and abs(found.strength) > found.chance


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.slow
def test_a_series_of_correlation_one_half_is_found(n):
    """Found in 99.7 % of the series of 200 rows, so that two misses of 30 have 0.004."""
    found = [check({"x": smooth(n, np.random.default_rng([2, k]))}, seed=k) for k in range(30)]
    assert sum(each.found for each in found) >= 29
    first = next(each for each in found if each.found)
    assert first.kind == "next" and first.lag == 1 and 0.2 < first.strength < 0.8


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_table_appended_to_itself_is_found_at_its_distance(rng, noise):
    x = np.tile(rng.normal(size=(300, 2)), (2, 1)) + noise * rng.normal(size=(600, 2))
    found = check(x)
    assert (found.kind, found.lag) == ("apart", 300)
    assert found.strength == pytest.approx(1 / (1 + noise**2), abs=0.06)


def test_homes_in_rotation_are_found_at_their_number(rng):
    found = check(rotation(700, rng))
    assert (found.kind, found.lag) == ("apart", 7)
    assert "rows that are 7 apart resemble each other: correlation 0." in found.words


@pytest.mark.slow
def test_a_long_table_is_looked_at_in_stretches(rng):
    half = rng.normal(size=30_000)
    found = check({"x": np.tile(half, 2)})
    assert found.found and found.kind == "apart" and found.rows <= 20_000
    assert check({"x": smooth(60_000, rng, 0.1)}).kind == "next"
    assert not check({"x": rng.normal(size=60_000)}).found


@given(st.integers(1, 10**9), st.integers(12, 3000), st.integers(12, 3000))
def test_of_stretches_fewer_are_chosen_as_of_the_whole_table(n_rows, one, other):
    few, many = sorted((one, other))
    places = stretches(n_rows, many)
    assert np.all(np.diff(places) > 0) and 0 <= places[0] <= places[-1] < n_rows
    assert len(places) == (n_rows if n_rows <= many else many // 12 * 12)
    np.testing.assert_array_equal(places[stretches(len(places), few)], stretches(n_rows, few))


LATE = {
    "next": lambda rng, rows: np.repeat(rng.normal(size=rows // 20), 20),
    "copies": lambda rng, rows: rng.permutation(np.repeat(rng.normal(size=rows // 2), 2)),
}


@pytest.mark.parametrize("kind", LATE)
@pytest.mark.slow
def test_what_depends_late_in_a_table_is_found_in_its_stretches_alone(rng, kind):
    rows = 260_000
    x = np.concatenate([rng.normal(size=rows // 2), LATE[kind](rng, rows // 2)])
    table = pd.DataFrame({"x": x, "g": rng.integers(2, size=rows)})
    whole = check_dependence(table[["x"]], [table["g"]])
    assert whole.found and whole.kind == kind
    some = table.iloc[looked_at(*table.shape)]
    assert len(some) < 100_001 and check_dependence(some[["x"]], [some["g"]]) == whole
    alone = table[: rows // 2]
    assert not check_dependence(alone[["x"]], [alone["g"]]).found


@pytest.mark.slow
def test_groups_late_in_a_table_are_found_in_its_stretches_alone(rng):
    rows = 260_000
    means = np.concatenate([rng.normal(size=6_500), np.repeat(rng.normal(size=650), 10)])
    table = pd.DataFrame({"x": np.repeat(means, 20), "g": rng.integers(2, size=rows)})
    groups = np.arange(rows) // 20
    whole = check_dependence(table[["x"]], [table["g"]], groups=groups)
    assert whole.found and whole.unit == "groups"
    places = looked_at(*table.shape)
    some = table.iloc[places]
    found = check_dependence(some[["x"]], [some["g"]], groups=groups[places])
    assert found == whole


# --- Copies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_copies_in_random_order_are_found(rng, times, noise):
    order = rng.permutation(300 * times)
    x = np.tile(rng.normal(size=(300, 2)), (times, 1))[order]
    g = np.tile(rng.integers(2, size=300), times)[order]
    found = check(x + noise * rng.normal(size=x.shape), g)
    assert found.kind == "copies" and found.lag == times
    assert f"different rows occur {times} times" in found.words


@given(st.integers(0, 10_000), st.floats(0.01, 3.0), st.integers(50, 3000))
@pytest.mark.slow
def test_independent_draws_of_any_kind_are_no_copies(seed, skew, n):
    """Half a thousand of these would have a false alarm with probability 0.4; these have none."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, 2001) ** -skew
    assert find_copies(rng.choice(2000, n, p=weights / weights.sum()), 0.001) is None


def test_the_bound_on_copies_holds_in_expectation():
    """The slow twin: expected counts of rows that occur k times, from the rates themselves."""
    rates = np.random.default_rng(0).exponential(size=(50, 400)) ** np.arange(1, 5).repeat(100)
    counts = [rates**0 * np.exp(-rates)]
    for k in range(1, 9):
        counts.append(counts[-1] * rates / k)
    f = np.array([each.sum(axis=1) for each in counts])
    for k in range(2, 8):
        assert np.all(f[k] ** 2 <= (k + 1) / k * f[k - 1] * f[k + 1] * (1 + 1e-12))


# --- Odd tables ------------------------------------------------------------------------------


def test_few_rows_are_not_checked(rng):
    found = check({"x": np.arange(MIN_ROWS - 1)})
    assert not found.found and not found.checked
    assert found.words == "29 rows are too few to check whether they are independent"
    assert not check({"x": []}).found


@pytest.mark.parametrize(
    "columns",
    [
        {"x": np.ones(50)},
        {"x": [None] * 50},
        {"x": [np.inf, -np.inf] * 25, "y": [1, "a", True, None, 2.5] * 10},
        {"x": [None] * 49 + [1.0]},
        {"x": pd.Categorical(["a", "b"] * 25)},
        {},
    ],
)
def test_odd_columns_do_no_harm(columns, rng):
    table = pd.DataFrame(columns, index=range(50))
    order = rng.permutation(50)
    found = check_dependence(table.iloc[order], [rng.integers(2, size=50)])
    assert isinstance(found, Dependence)


def test_every_row_a_class_of_its_own_hides_everything():
    found = check({"x": np.arange(60)}, np.arange(60))
    assert not found.found


def test_the_same_rows_give_the_same_answer_whatever_their_index(rng):
    table = pd.DataFrame({"x": smooth(300, rng)}, index=rng.permutation(300))
    g = pd.Series(rng.integers(2, size=300), index=table.index)
    first = check_dependence(table, [g])
    assert check_dependence(table.reset_index(drop=True), [g.to_numpy()]) == first


# --- Groups ----------------------------------------------------------------------------------


def test_groups_of_a_series_are_compared_with_one_another(rng):
    x, group = smooth(4000, rng, 0.9), np.arange(4000)
    for size, alike in ((2, True), (200, False)):
        found = check({"x": x}, groups=group // size)
        assert (found.found, found.unit, found.rows) == (alike, "groups", 4000 // size)
    assert "groups that follow one another" in check({"x": x}, groups=group // 2).words
    few = check({"x": x}, groups=group // 1000)
    assert not few.checked and "4 groups are too few" in few.words


def test_homes_that_differ_are_independent_groups(rng):
    home = np.repeat(np.arange(60), 20)
    x = rng.normal(size=60)[home] + 0.1 * rng.normal(size=1200)
    assert check({"x": x}).found
    assert not check({"x": x}, groups=home).found


# --- Its parts, beside slow twins ------------------------------------------------------------


def test_correlations_at_all_distances_are_plain_sums(rng):
    x = rng.normal(size=(2, 40))
    wanted = [[np.sum(row[:-lag] * row[lag:]) for lag in range(1, 31)] for row in x]
    np.testing.assert_allclose(autocovariances(x, 30), wanted, atol=1e-12)


def test_centring_takes_the_mean_of_each_cell(rng):
    x, cells = rng.normal(size=(2, 50)), rng.integers(4, size=50) * 2
    wanted = x.copy()
    for cell in np.unique(cells):
        wanted[:, cells == cell] -= x[:, cells == cell].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(centred(x, cells), wanted, atol=1e-12)


def test_shuffling_stays_within_cells_and_reaches_every_order():
    cells = np.array([0, 1, 0, 1, 0])
    rng = np.random.default_rng(0)
    seen = {tuple(shuffled_within(cells, rng)) for _ in range(300)}
    assert len(seen) == 6 * 2
    assert all(np.array_equal(cells[list(order)], cells) for order in seen)


def test_the_worse_of_two_is_the_one_that_was_found():
    found = Dependence(found=True, kind="next", lag=1, strength=0.9, rows=50)
    not_found = Dependence(found=False, rows=900)
    assert worse_of(found, not_found) == worse_of(not_found, found) == found


# --- Proposals -------------------------------------------------------------------------------


def proposal(**columns):
    table = pd.DataFrame(columns)
    rng = np.random.default_rng(5)
    table["h"], table["g"] = rng.integers(2, size=(2, len(table)))
    found = check_dependence(table[["x"]], [table["g"]])
    assert found.found
    return propose_group(found, table, ["x"], "h", ["g"])


def days_of(n, **step):
    return pd.Timestamp("2015-02-04") + pd.to_timedelta(np.arange(n) * pd.Timedelta(**step))


@pytest.mark.slow
def test_days_are_proposed_for_a_column_of_times(rng):
    x = smooth(3000, rng, 0.9)
    assert proposal(x=x, when=days_of(3000, minutes=10).astype(str)) == "when:day"
    assert proposal(x=x, when=days_of(3000, minutes=10)) == "when:day"
    assert proposal(x=x, when=days_of(3000, minutes=1).astype(str)) == "when:hour"  # two days
    slow = np.repeat(smooth(1500, rng, 0.5), 2)
    assert proposal(x=slow, when=days_of(3000, hours=12).astype(str)) == "when:week"


def test_stretches_longer_than_the_resemblance_are_proposed(rng):
    for correlation in (0.5, 0.9):
        x = smooth(5000, rng, correlation)
        length = correlation_length(pd.DataFrame({"x": x}), [rng.integers(2, size=5000)])
        assert correlation**length < 0.1  # four standard errors are 0.06
        spec = proposal(x=x)
        assert spec.startswith("rows:") and int(spec[5:]) >= 2 * length


def test_copied_rows_are_to_be_dropped_and_not_grouped(rng):
    once = pd.DataFrame({"x": rng.normal(size=600), "h": rng.integers(2, size=600)})
    once["g"] = rng.integers(2, size=600)
    for table in (once.loc[np.repeat(np.arange(600), 2)], pd.concat([once, once])):
        rows = table.reset_index(drop=True)
        found = check_both_orders(rows, ["x"], "h", ["g"])
        said = doubt_rows(found, rows, ["x"], "h", ["g"]).warning
        assert "gone without the 600 rows that repeat an earlier one" in said
        assert "--group rows" not in said
    slow = once.assign(x=np.cumsum(rng.normal(size=600)).round(1))  # a series with equal rows
    order = check_both_orders(slow, ["x"], "h", ["g"])
    said = doubt_rows(order, slow, ["x"], "h", ["g"]).warning
    assert "follow one another resemble" in said and "repeat" not in said


@pytest.mark.slow
def test_groups_proposed_for_a_long_table_are_of_rows_that_follow_one_another(rng):
    rows = 240_000
    for length in (100, 4000):
        table = pd.DataFrame({"x": np.repeat(rng.normal(size=rows // length), length)})
        table["h"], table["g"] = rng.integers(2, size=(2, rows))
        some = table.iloc[looked_at(*table.shape)]
        found = check_dependence(some[["x"]], [some["g"]])
        spec = propose_group(found, some, ["x"], "h", ["g"])
        assert spec.startswith("rows:") and int(spec[5:]) > length


def test_nothing_is_proposed_where_no_stretch_would_do(rng):
    assert proposal(x=np.linspace(0, 1, 500)) is None
    assert proposal(x=np.tile(rng.normal(size=500), 2)) is None
    assert proposal(x=rng.permutation(np.tile(rng.normal(size=500), 2))) is None


def test_a_column_whose_rows_are_alike_is_proposed_before_stretches(rng):
    habit, noise = rng.normal(size=40), rng.normal(size=1000)
    for home in (np.repeat(np.arange(40), 25), np.arange(1000) % 40):  # in blocks, in rotation
        assert proposal(x=habit[home] + noise, home=home) == "home"
    assert proposal(x=smooth(1000, rng, 0.9), phase=np.arange(1000) % 20).startswith("rows:")


def copied(rng, rows, times):
    once = pd.DataFrame(rng.normal(size=(rows, 2)).round(2), columns=["x", "y"])
    once["h"], once["g"] = rng.integers(2, size=(2, rows))
    return pd.concat([once] * times, ignore_index=True)


@pytest.mark.parametrize(("rows", "times"), [(200, 10), (150, 7)])
def test_few_rows_copied_many_times_are_to_be_dropped_and_not_grouped(rng, rows, times):
    table = copied(rng, rows, times)
    found = check_both_orders(table, ["x", "y"], "h", ["g"])
    assert (found.kind, found.lag) == ("apart", rows)
    said = doubt_rows(found, table, ["x", "y"], "h", ["g"]).warning
    assert f"gone without the {rows * (times - 1)} rows that repeat an earlier one" in said
    assert "--group rows" not in said
    assert propose_group(found, table, ["x", "y"], "h", ["g"]) is None


@pytest.mark.parametrize("size", [20, 50, 100, 150, 200, 330])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("rows", "times"), [(200, 10), (150, 7), (1000, 2)])
def test_copies_in_different_groups_are_found(rng, rows, times, size, shuffled):
    table = copied(rng, rows, times)
    if shuffled:
        table = table.sample(frac=1, random_state=0, ignore_index=True)
    found = check_copies(table[["x", "y"]], [table["h"], table["g"]], np.arange(len(table)) // size)
    assert (found.kind, found.unit) == ("copies", "groups")
    assert found.words.startswith("rows occur again and again in different groups: ")


def test_copies_in_the_same_group_are_none_that_matter(rng):
    table = copied(rng, 400, 5)
    groups = np.arange(len(table)) % 400 // 10
    assert not check_copies(table[["x", "y"]], [table["h"], table["g"]], groups).found


def test_days_that_are_alike_are_no_copies(rng):
    """Readings that change slowly, that the hour tells, and of days on which nothing happens."""
    days, hours = 150, 24
    hour = np.tile(np.arange(hours), days)
    busy = np.repeat(rng.random(days) < 0.2, hours)
    slow = np.cumsum(rng.random(days * hours) < 0.05) % 2
    warm = np.repeat(rng.integers(12, size=days), hours)
    worlds = {
        "slow": [slow, rng.permutation(slow[::-1])],
        "by the hour": [hour, (hour - 12) ** 2, rng.random(days * hours) < 0.1],
        "quiet": [hour, (hour - 12) ** 2, busy & (rng.random(days * hours) < 0.3)],
        "warm": [10 * warm + smooth(days * hours, rng, 0.9).round(), slow],
    }
    for name, columns in worlds.items():
        table = pd.DataFrame(dict(enumerate(columns))).astype(float)
        assert not check_copies(table, [slow], np.arange(days * hours) // hours).found, name


# --- Columns that rows may belong together by ------------------------------------------------


def settled(sensors=("x",), **columns):
    """Columns, with their number of values, within which the private fact stays the same."""
    home = np.random.default_rng(3).permutation(np.repeat(np.arange(40), 25))
    table = pd.DataFrame({"x": home * 0.5, "h": home % 3, "g": home % 2, "home": home} | columns)
    found = find_shared(table, sensors, "h", ["g"])
    return [(each.column, each.values, each.fact) for each in found if each.fact is not None]


def test_a_column_within_whose_values_the_private_fact_stays_is_found():
    assert settled() == [("home", 40, "g")]
    home = np.arange(1000) % 40
    text = {"home": [f"h{i}" for i in home], "g": home % 2}
    assert settled(("x", "home"), **text) == [("home", 40, "g")]


@pytest.mark.parametrize(
    "columns",
    [
        {"g": np.arange(1000) % 2},
        {"home": np.arange(1000) % 2, "g": np.arange(1000) % 2},
        {"home": np.arange(1000)},
        {"home": np.arange(1000) % 40 + 0.5, "g": np.arange(1000) % 2},
        {"home": [None, *[1, 2, 3] * 333], "g": [0, *[0, 1, 0] * 333]},
        {"home": days_of(1000, hours=6)},
    ],
    ids=["fact varies", "the fact itself", "no repeats", "no whole numbers", "gaps", "times"],
)
def test_other_columns_are_not_taken_for_homes(columns):
    assert settled(**columns) == []


def test_sensors_with_numbers_may_settle_the_private_fact():
    assert settled(("x", "home")) == []


def test_a_fact_that_stays_by_luck_is_rare(rng):
    """Of columns that have nothing to do with the fact, hardly any is found."""
    home = np.repeat(np.arange(8), 3)
    found = sum(_settles(rng.permutation(home), pd.Series(rng.random(24) < 0.1))
                for _ in range(2000))  # fmt: skip
    assert found <= 10


@pytest.mark.parametrize("clock", ["epoch", "written", "counter"])
def test_a_shuffled_series_is_found_by_any_clock(rng, clock):
    n = 1000
    level = np.zeros(n)
    for i in range(1, n):
        level[i] = 0.8 * level[i - 1] + rng.normal()
    times = pd.date_range("2024-01-01", periods=n, freq="10min")
    clocks = {
        "epoch": (times - pd.Timestamp("1970-01-01")) // pd.Timedelta("1s"),
        "written": times.strftime("%d.%m.%Y %H:%M"),
        "counter": np.arange(n) + 7,
    }
    table = pd.DataFrame({"s": level, "when": clocks[clock]})
    table["fall"], table["who"] = rng.integers(2, size=(2, n))
    shuffled = table.sample(frac=1, random_state=0).reset_index(drop=True)
    assert check_both_orders(shuffled, ["s"], "fall", ["who"]).found
    assert not check_both_orders(shuffled.drop(columns="when"), ["s"], "fall", ["who"]).found


def test_a_continuous_column_that_is_not_used_is_no_clock(rng):
    level = rng.normal(size=1000)
    table = pd.DataFrame({"s": level + 0.1 * rng.normal(size=1000), "other": level})
    table["fall"], table["who"] = rng.integers(2, size=(2, 1000))
    assert not check_both_orders(table, ["s"], "fall", ["who"]).found
