from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest

from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.over_time import (
    _between,
    _silence_tells,
    bound_kept,
    bound_one_round,
    bound_window,
    why_no_chain,
)
from discreet.data.series import count_steps, read_series
from discreet.leakage.chains import Chain, add_up
from discreet.leakage.exact import squared_information
from research.houses import moving

TABLES = (np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]]), np.array([[0.8, 0.2], [0.3, 0.7]]))


def random_chain(rng, m):
    moves = rng.dirichlet(np.ones(m), size=m)
    moves = 0.8 * np.eye(m) + 0.2 * moves if rng.random() < 0.5 else moves
    values, vectors = np.linalg.eig(moves.T)
    law = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return moves, law / law.sum()


def enumerated(given, moves, law, rounds):
    """The law of all symbols given the fact of the middle round, one row per class."""
    m, outputs = given.shape
    middle = (rounds - 1) // 2
    found = np.zeros((m, outputs**rounds))
    for path in product(range(m), repeat=rounds):
        chance = law[path[0]] * np.prod([moves[a, b] for a, b in pairwise(path)])
        symbols = given[path[0]]
        for state in path[1:]:
            symbols = np.multiply.outer(symbols, given[state]).ravel()
        found[path[middle]] += chance * symbols
    return found / law[:, None]


def advantage(laws):
    return laws.max(axis=0).sum() / len(laws) - 1 / len(laws)


@pytest.mark.parametrize("m", [2, 3])
def test_many_rounds_tell_no_more_than_one_round_and_the_chain_allow(m):
    rng = np.random.default_rng(m)
    for _ in range(60):
        given = rng.dirichlet(np.ones(3), size=m)
        given = 0.7 * given[0] + 0.3 * given
        moves, law = random_chain(rng, m)
        kept = Chain(moves, law).kept
        x = max(squared_information(given[[a, b]]) for a in range(m) for b in range(a))
        for rounds in (1, 2, 5):
            bound = (1 - 1 / m) * np.sqrt(min(x * add_up(kept, rounds), 1.0))
            assert advantage(enumerated(given, moves, law, rounds)) <= bound + 1e-12


def test_a_constant_fact_adds_up_over_all_rounds():
    assert Chain.constant([0.5, 0.5]).kept == Chain.constant([0.2, 0.3, 0.5]).kept == 1.0
    assert add_up(1.0, 1440) == 1440.0
    assert add_up(0.5, 1) == 1.0
    assert add_up(0.5, 4) == 1 + 0.5 + 0.5 + 0.25


def drawn(rng, laws, facts):
    """Codes of two independent sensors."""
    return np.stack(
        [(rng.random((len(facts), 1)) > law[facts].cumsum(axis=1)).sum(axis=1) for law in laws],
        axis=1,
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_bound_on_a_round_holds_as_often_as_it_says(share):
    rng = np.random.default_rng(int(100 * share))
    failed, trials = 0, 400
    for trial in range(trials):
        if trial % 40 == 0:
            laws = [rng.dirichlet(np.ones(len(table)), size=2) for table in TABLES]
            if trial % 80 == 0:  # nothing to find
                laws = [np.repeat(law[:1], 2, axis=0) for law in laws]
            given = (
                np.multiply.outer(laws[0] @ TABLES[0], np.ones(2)) * (laws[1] @ TABLES[1])[:, None]
            )
            truth = squared_information(given.reshape(2, -1))
        facts = (rng.random(int(rng.choice([60, 500, 3000]))) < share).astype(np.int64)
        rows = AuditRows(TABLES, drawn(rng, laws, facts), facts, 2)
        failed += bound_one_round(rows, 0.2) < truth
    assert failed <= 0.2 * trials  # the promise; what is seen is far less


def test_the_bound_closes_in_with_rows():
    rng = np.random.default_rng(0)
    laws = [np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]), np.array([[0.5, 0.5], [0.6, 0.4]])]
    bounds = []
    for n_rows in (300, 3_000, 30_000):
        facts = np.arange(n_rows) % 2
        rows = AuditRows(TABLES, drawn(rng, laws, facts), facts, 2)
        bounds.append(bound_one_round(rows, 0.05))
    given = np.einsum("ga,gb->gab", laws[0] @ TABLES[0], laws[1] @ TABLES[1]).reshape(2, -1)
    assert bounds[0] > bounds[1] > bounds[2] > squared_information(given)
    found = bound_window(rows, 0.5, 1440, 0.05)
    assert not found.trivial and found.advantage == 0.5 * np.sqrt(bounds[2] * 3.0)


@pytest.mark.slow
def test_a_stay_probability_is_bounded_however_many_visits_there_were():
    rng = np.random.default_rng(1)
    failed = 0
    for _ in range(500):
        stay = rng.choice([0.3, 0.9, 0.99])
        stays = rng.random(2_000) < stay
        counts = np.arange(1, 2_001)
        hits = stays.cumsum()
        # Whoever looks at any time, and stops where it looks worst, is wrong rarely.
        looks = np.unique(np.geomspace(5, 2_000, 30).astype(int)) - 1
        ends = [_between(int(hits[k]), int(counts[k]), 0.2) for k in looks]
        failed += any(not low <= stay <= high for low, high in ends)
    assert failed <= 0.2 * 500


def test_ends_of_an_interval():
    assert _between(0, 0, 0.05) == (0.0, 1.0)
    low, high = _between(50, 50, 0.05)
    assert 0.8 < low < 1 and high == 1.0
    assert _between(3, 40, 0.05)[1] == pytest.approx(1 - _between(37, 40, 0.05)[0])


@pytest.mark.parametrize("m", [2, 3])
def test_what_a_step_leaves_is_bounded_from_counts(m):
    rng = np.random.default_rng(3)
    moves = np.full((m, m), 0.1 / (m - 1)) + np.eye(m) * (0.9 - 0.1 / (m - 1))
    facts = [0]
    for _ in range(5_000):
        facts.append(int(rng.choice(m, p=moves[facts[-1]])))
    facts = np.array(facts)
    follows = np.append(np.arange(1, len(facts)), -1)
    steps = count_steps(facts, follows, m)
    assert steps.sum() == len(facts) - 1
    assert steps[0, 1] == np.sum((facts[:-1] == 0) & (facts[1:] == 1))
    assert Chain.of_stay(moves, np.full(m, 1 / m)).kept < bound_kept(steps, 0.05) < 0.99
    assert bound_kept(np.zeros((m, m), dtype=np.int64), 0.05) == 1.0


# --- Is it a chain? --------------------------------------------------------------------------


def series_of(days, rounds, kept=None):
    """Days of rounds one after the other, of which some may be missing."""
    time, day = np.tile(np.arange(rounds), days), np.repeat(np.arange(days), rounds)
    kept = np.ones(len(time), dtype=bool) if kept is None else kept
    found = read_series(pd.Series(time[kept] * 60.0), day[kept], "minute", step=60.0)
    return found, day[kept]


@pytest.mark.parametrize("stay", [(0.95, 0.95), (0.98, 0.9), (0.9, 0.8, 0.7), (0.5, 0.5)])
def test_a_chain_is_hardly_ever_taken_for_none(stay, rng):
    series, day = series_of(20, 240)
    facts = [
        np.concatenate([moving(rng, 240, stay) for _ in range(20)]) for _ in range(50)
    ]  # fmt: skip
    none = np.zeros(20 * 240, dtype=np.int64)
    assert sum(why_no_chain(fact, series, day, none) != "" for fact in facts) <= 1


def test_a_fact_that_changes_by_the_clock_is_no_chain(rng):
    series, day = series_of(20, 240)
    minute = np.arange(240) + rng.integers(60, size=(20, 1))
    fact = (minute // 30 % 2).ravel()  # stays with 29/30, as a chain might
    none = np.zeros_like(fact)
    assert "it is no chain" in why_no_chain(fact, series, day, none)
    # Given a public fact that shows the clock, it is one again: nothing is left to chance.
    assert why_no_chain(fact, series, day, (minute % 60).ravel()) == ""


def test_evidence_of_a_fact_that_keeps_time_is_more_than_a_chain_allows(rng):
    """Why such a fact is refused: whoever knows the period learns its phase from all rounds."""
    given = np.array([[0.57, 0.43], [0.43, 0.57]])
    phases = (np.arange(240) + np.arange(60)[:, None]) // 30 % 2
    true = rng.integers(60, size=2000)
    sent = rng.random((2000, 240)) < given[phases[true], 1]
    logs = sent @ np.log(given[phases, 1]).T + ~sent @ np.log(given[phases, 0]).T
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    named = chances @ phases[:, 120] > chances @ (1 - phases[:, 120])
    reached = np.mean(named == phases[true, 120]) - 0.5
    kept = Chain.of_stay(29 / 30, [0.5, 0.5]).kept
    allowed = 0.5 * np.sqrt(squared_information(given) * add_up(kept, 240))
    assert reached > allowed + 0.05


def walk_in_circles(rng, days, rounds, turns=0.005):
    """Three classes in turn, in a direction that seldom changes: either next class as likely."""
    ways = rng.choice([-1, 1], size=(days, 1)) * np.cumprod(
        np.where(rng.random((days, rounds)) < turns, -1, 1), axis=1
    )
    return (rng.integers(3, size=(days, 1)) + ways.cumsum(axis=1)) % 3


def test_a_walk_in_circles_is_no_chain_and_tells_more(rng):
    series, day = series_of(20, 240)
    fact = walk_in_circles(rng, 20, 240).ravel()
    assert "came from" in why_no_chain(fact, series, day, np.zeros_like(fact))
    # Whoever knows the walk adds up a whole day; a chain with these steps forgets half in a round.
    given = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
    walks = walk_in_circles(rng, 3000, 121, turns=0.0)
    every = np.array([(start + way * np.arange(1, 122)) % 3 for start in range(3)
                      for way in (-1, 1)])  # fmt: skip
    sent = (rng.random((3000, 121, 1)) > given[walks].cumsum(axis=2)).sum(axis=2)
    logs = np.array([np.log(given[each, sent]).sum(axis=1) for each in every])
    reached = np.mean(every[logs.argmax(axis=0), 60] == walks[:, 60]) - 1 / 3
    kept = Chain.of_stay(0.0, np.full(3, 1 / 3)).kept
    x = max(squared_information(given[[a, b]]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert kept == pytest.approx(0.5)
    assert reached > 2 / 3 * np.sqrt(x * add_up(kept, 121)) + 0.1


@pytest.mark.parametrize("late", [-1, 1, 3])
def test_silence_that_comes_earlier_or_later_tells_too(rng, late):
    fact = rng.integers(2, size=(20, 240))
    kept = (rng.random(fact.shape) > np.where(np.roll(fact, late, axis=1), 0.4, 0.05)).ravel()
    series, day = series_of(20, 240, kept)
    none = np.zeros(int(kept.sum()), dtype=np.int64)
    assert "silence tells" in why_no_chain(fact.ravel()[kept], series, day, none)


def test_gaps_that_last_longer_for_one_class_tell_it(rng):
    fact = np.repeat(rng.integers(2, size=400), 12)  # long enough to see the end of a gap
    kept = np.ones(4800, dtype=bool)
    for start in np.arange(2, 4800, 12)[rng.random(400) < 0.8]:
        kept[start : start + (4 if fact[start] else 2)] = False
    series, day = series_of(20, 240, kept)
    assert _silence_tells(fact[kept], np.diff(np.flatnonzero(kept)) == 1, series.ahead, day)


def test_rounds_that_are_missing_for_one_class_tell_it(rng):
    fact = np.concatenate([moving(rng, 240, (0.95, 0.95)) for _ in range(20)])
    for share, told in ((0.8, False), (np.where(fact == 1, 0.6, 0.95), True)):
        kept = rng.random(len(fact)) < share
        series, day = series_of(20, 240, kept)
        none = np.zeros(int(kept.sum()), dtype=np.int64)
        assert ("silence tells" in why_no_chain(fact[kept], series, day, none)) is told
