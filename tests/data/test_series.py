import numpy as np
import pandas as pd
import pytest

from discreet.data.series import check_hidden_state, read_series
from discreet.errors import InputError


def test_a_row_follows_one_a_step_earlier_in_its_group():
    times = pd.Series([60.0, 0.0, 120.0, 0.0, 300.0, 61.0])
    groups = np.array([0, 0, 0, 1, 0, 1])
    series = read_series(times, groups, "t")
    assert series.step == 60.0
    assert series.follows.tolist() == [2, 0, -1, 5, -1, -1]  # nothing is 60 s before 300
    assert series.order.tolist() == [1, 0, 2, 4, 3, 5]
    assert series.pairs == 3


def test_german_dates_begin_with_the_day():
    series = read_series(pd.Series(["31.01.2026", "01.02.2026", "02.02.2026"]), None, "date")
    assert (series.step, series.pairs) == (86_400.0, 2)


def test_dates_are_times():
    texts = pd.Series(["2026-01-01 00:00:00", "2026-01-01 00:01:00", "2026-01-01 00:02:00"])
    assert read_series(texts, None, "date").step == 60.0


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["2026-01-01", "soon"], "'soon', which is no time"),
        ([1.0, 1.0], "no two rows at different times"),
        ([1.0, None], "rows without a time"),
    ],
)
def test_what_is_no_series_is_refused_in_one_sentence(times, words):
    with pytest.raises(InputError, match=words):
        read_series(pd.Series(times), None, "t")


def test_the_hour_that_comes_twice_needs_its_offset():
    clock = pd.date_range("2026-10-24 23:00", periods=600, freq="min", tz="Europe/Berlin")
    with pytest.raises(InputError, match=r"60 rows have the time of another.*offset from UTC"):
        read_series(pd.Series(clock.strftime("%Y-%m-%d %H:%M")), None, "t")
    assert read_series(pd.Series([each.isoformat() for each in clock]), None, "t").pairs == 599
    spring = pd.date_range("2026-03-29 00:00", periods=600, freq="min", tz="Europe/Berlin")
    assert read_series(pd.Series(spring.strftime("%Y-%m-%d %H:%M")), None, "t").pairs == 598


def house(rng, kind, days=20, rounds=100):
    """Facts that last and codes of three sensors, by day."""
    laws = rng.dirichlet(np.ones(4), size=(2, 3))
    facts, codes = [], []
    for _ in range(days):
        fact = np.cumsum(rng.random(rounds) < (0.5 if kind in ("turned", "later") else 0.1)) % 2
        state = np.roll(fact, {"late": 1, "later": 4}.get(kind, 0))
        drawn = (rng.random((rounds, 3, 1)) > laws[state].cumsum(axis=2)).sum(axis=2)
        if kind == "day":
            drawn[:, 0] = (fact + rng.integers(2)) % 2
        if kind == "turned":  # a slow state that nobody knows turns the meaning of some readings
            slow = np.cumsum(rng.random(rounds) < 0.01) % 2
            some = rng.random(rounds) < 0.5
            drawn[some, 0] = (fact ^ slow)[some]
        facts.append(fact)
        codes.append(drawn)
    times = pd.Series(np.tile(np.arange(rounds), days))
    series = read_series(times, np.repeat(np.arange(days), rounds), "t")
    return np.concatenate(codes), np.concatenate(facts), series


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "houses"),
    [
        *[("fact", 20), ("day", 5), ("late", 2), ("later", 5), ("turned", 5)],
        pytest.param("late", 5, marks=pytest.mark.exhaustive),
    ],
)
def test_whether_the_fact_is_all_that_links_rounds(kind, houses):
    rng = np.random.default_rng(7)
    broken = [check_hidden_state(*house(rng, kind), seed=k).broken for k in range(houses)]
    assert sum(broken) <= 2 if kind == "fact" else all(broken)


def test_few_rows_are_not_called_checked():
    rng = np.random.default_rng(0)
    assert not check_hidden_state(*house(rng, "fact", days=1, rounds=10)).checked
