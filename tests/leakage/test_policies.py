import math

import numpy as np
import pytest
from support.rounds import HALF, law_of_sequences, random_law, skewed_chain

from discreet.leakage import sequences
from discreet.leakage.chains import Chain, figures_between
from discreet.leakage.exact import advantage, advantage_at, squared_information
from discreet.leakage.over_time import choose_policy, closed_form, leaks_of_policies
from discreet.leakage.sequences import PeriodLaws, RoundLaw, sequence_figures

FACT = np.array([0, 1])


def leaks(law, chain, rounds=15, period=None, every=(4,)):
    found = leaks_of_policies(law, chain, rounds, period or rounds, every, seed=0)
    return {leak.policy: leak for leak in found}


def same(table=HALF):
    """A sensor whose code is the fact."""
    return RoundLaw.of_rows([table], np.array([[0], [1]]), FACT, 2)


@pytest.mark.parametrize(
    ("stay", "printed"), [(0.9, 0.0426), (0.99, 0.1367), (0.999, 0.3473), (1.0, 0.4744)]
)
def test_the_closed_form_of_a_day(stay, printed):
    rounds = 1440 if stay == 1.0 else 1441
    found = closed_form(HALF, Chain.of_stay(stay, [0.5, 0.5]), rounds)
    assert found == pytest.approx(printed, abs=1e-4)


def test_the_closed_form_is_never_below_the_exact_figure(rng):
    for k in range(1000):
        given, n = random_law(rng), int(rng.integers(1, 7))
        stay = (1.0, rng.uniform(0.5, 1.0), rng.uniform(0, 1, 2))[k % 3]
        if k % 4 == 0:  # a law whose classes swap when its outputs are renamed
            given = np.stack([given[0], given[0][::-1]])
        chain = Chain.of_stay(stay, [0.5, 0.5])
        exact = advantage(law_of_sequences(given, chain, n))
        assert closed_form(given, chain, n) >= exact - 1e-12


def test_the_sharper_sum_needs_a_law_that_is_even():
    # 1 - (1 - x)(1 - y) is too little where an output of its own gives a class away.
    given = np.array([[1.0, 0.0], [0.5, 0.5]])
    x = squared_information(given)
    twice = squared_information(law_of_sequences(given, Chain.constant([0.5, 0.5]), 2))
    assert 1 - (1 - x) ** 2 < twice <= 2 * x
    assert closed_form(given, Chain.constant([0.5, 0.5]), 2) >= 0.5 * math.sqrt(twice)


@pytest.mark.parametrize(
    ("share", "stay", "fresh", "code", "best"),
    [
        (0.5, 0.9, 0.034, 0.020, "code"),
        (0.2, 0.9, 0.041, 0.127, "never"),
        (0.2, 0.6, 0.022, 0.210, "never"),
    ],
)
def test_the_better_policy_is_chosen(share, stay, fresh, code, best):
    found = leaks(same(), skewed_chain(share, stay))
    assert found["never"].advantage.high == pytest.approx(fresh, abs=5e-4)
    assert found["code"].advantage.high == pytest.approx(code, abs=5e-4)
    choice = choose_policy(list(found.values()))
    assert (choice.policy, choice.clear) == (best, True)


def test_a_symbol_for_a_period_and_every_kth_round_are_fewer_releases():
    found = leaks(same(), skewed_chain(0.2, 0.9), every=(4, 15))
    assert [leak.releases for leak in found.values()] == [15, 15, 1, 4, 1]
    assert found["period"].advantage.high == pytest.approx(0.02, abs=1e-6)
    assert found["period"].advantage == found["every 15"].advantage
    slower = skewed_chain(0.2, 0.9).every(4)
    exact = advantage(law_of_sequences(HALF, slower, 4))
    assert found["every 4"].advantage.high == pytest.approx(exact, abs=1e-4)


def test_without_a_chain_only_the_structure_bounds():
    found, one = leaks(same(), None), math.log(52 / 48)
    assert found["never"].epsilon == found["never"].any_epsilon == pytest.approx(15 * one)
    assert found["never"].advantage.high == pytest.approx(advantage_at(15 * one, 2))
    assert found["period"].any_epsilon == pytest.approx(one)
    assert found["code"].epsilon == math.inf and found["code"].advantage.how == "no bound"
    assert choose_policy(list(found.values())).policy == "never"


def test_a_sharp_table_has_no_bound_without_assumptions():
    found = leaks(same(np.eye(2)), None)
    assert all(leak.any_epsilon == math.inf for leak in found.values())
    assert all(leak.advantage.how == "no bound" for leak in found.values())


def test_the_worst_case_of_the_tables_covers_every_law_of_readings(rng):
    tables = [np.array([[0.6, 0.4], [0.45, 0.55]]), np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3]])]
    worst = RoundLaw.of_tables(tables, 2, "")
    chain = Chain.of_stay([0.9, 0.8], [0.5, 0.5])
    bound = leaks(worst, chain)["never"]
    assert bound.advantage.how == "at most"
    for _ in range(4):
        codes, index = rng.integers(2, size=(30, 2)), rng.integers(2, size=30)
        found = leaks(RoundLaw.of_rows(tables, codes, index, 2), chain)["never"]
        assert found.advantage.high <= bound.advantage.high + 1e-9
        assert found.epsilon <= bound.epsilon


def test_more_classes_without_rows_are_bounded_by_epsilon():
    worst = RoundLaw.of_tables([HALF], 3, "")
    found = leaks(worst, Chain.of_stay(0.9, np.ones(3) / 3))["never"]
    assert found.advantage.high == pytest.approx(advantage_at(found.epsilon, 3))


def test_too_many_ways_to_remember_are_bounded_by_showing_them(monkeypatch):
    codes, index = np.r_[np.arange(20) < 11, np.arange(20) < 9], np.repeat(FACT, 20)
    law = RoundLaw.of_rows([HALF], codes[:, None].astype(int), index, 2)
    chain = skewed_chain(0.2, 0.6)
    exact = leaks(law, chain)["code"].advantage
    monkeypatch.setattr(sequences, "_MOST_LAWS", 1)
    bound = leaks(law, chain)["code"].advantage
    assert bound.how == "at most, 95 %" and exact.high <= bound.high


def test_too_many_outputs_fall_back_to_the_worst_case(rng):
    tables = [np.array([[0.52, 0.48], [0.48, 0.52]])] * 17
    law = RoundLaw.of_rows(tables, rng.integers(2, size=(40, 17)), np.arange(40) % 2, 2)
    assert law.worst and "131072 joint outputs are too many to list" in law.source


@pytest.mark.slow
def test_a_simulation_of_two_classes_agrees_with_the_grid():
    chain = Chain.of_stay(0.95, [0.5, 0.5])
    found = sequence_figures(PeriodLaws.fresh(HALF), chain, 101)
    ((low, high),) = figures_between(HALF, chain, [101])
    assert found.advantage[0] <= low.advantage <= high.advantage <= found.advantage[1]
