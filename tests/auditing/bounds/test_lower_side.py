from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom
from support.helpers import refused

from discreet.auditing.bounds.certificates import certify_advantage
from discreet.auditing.bounds.lower_side import bound_sum, certify_lower
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities, set_probabilities

NOISY = np.array([[0.8, 0.2], [0.3, 0.7]])
SHARP = np.array([[1.0, 0.0], [0.0, 1.0]])
RARE = np.array([[1.0, 0.0], [0.97, 0.03]])
THREE = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])


def random_rows(rng, n=80, classes=2, groups=None):
    tables = tuple(rng.dirichlet(np.ones(k), size=4) for k in (2, 3, 2))
    codes = rng.integers(4, size=(classes * n, 3))
    codes[:, 0] = np.where(rng.random(classes * n) < 0.5, np.arange(classes * n) // n, codes[:, 0])
    return AuditRows(tables, codes, np.repeat(np.arange(classes), n), classes, groups)


# --- The parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("sensors", [1, 2, 3])
def test_chances_of_a_set_are_sums_over_its_outputs(sensors, rng):
    rows = random_rows(rng)
    tables, codes = rows.tables[:sensors], rows.codes[:, :sensors]
    every = output_probabilities(tables, codes)
    inside = rng.random(every.shape[1]) < 0.5
    found = set_probabilities(tables, codes, inside)
    np.testing.assert_allclose(found, every[:, inside].sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("centres", [(0.3, 0.6), (0.9, 0.05)], ids=["good guess", "bad guess"])
@pytest.mark.parametrize("variance", [0.2, 1e-4])
def test_the_bound_of_a_sum_fails_at_most_with_probability_alpha(centres, variance):
    # No simulation: all outcomes of two samples of coins, with their probabilities.
    sizes, alpha = (9, 14), 0.2
    bounds = {
        ones: bound_sum(
            [(np.arange(n) < k).astype(float) for n, k in zip(sizes, ones, strict=True)],
            np.array(centres),
            np.zeros(2),
            np.full(2, variance),
            alpha,
        )
        for ones in product(*(range(n + 1) for n in sizes))
    }
    for means in [(0.3, 0.6), (0.5, 0.5), (0.02, 0.01), (0.9, 0.3), (0.0, 0.4)]:
        fails = sum(
            np.prod([binom.pmf(k, n, p) for k, n, p in zip(ones, sizes, means, strict=True)])
            for ones, bound in bounds.items()
            if bound > sum(means) + 1e-9
        )
        assert fails <= alpha


def test_the_bound_of_a_sum_is_about_what_a_normal_law_would_give(rng):
    sample = [rng.uniform(0.4, 0.6, 5000), rng.uniform(0.2, 0.3, 3000)]
    variances = np.array([each.var() for each in sample])
    found = bound_sum(
        sample, np.array([each.mean() for each in sample]), np.zeros(2), variances, 0.05
    )
    loss = sum(each.mean() for each in sample) - found
    # Chernoff's factor sqrt(2 log(1/alpha)) in the place of the normal law's 1.64.
    expected = np.sqrt(2 * np.log(20) * np.sum(variances / [5000, 3000]))
    assert loss == pytest.approx(expected, rel=0.01)


def test_numbers_that_are_never_small_may_be_bet_on_harder(rng):
    sample, variances = [rng.uniform(0.45, 0.55, 30)], np.array([1e-3])
    wide, narrow = (
        bound_sum(sample, np.array([0.5]), np.array([low]), variances, 0.05) for low in (0.0, 0.45)
    )
    assert narrow > wide


# --- The whole, written out ------------------------------------------------------------------


def plain_bound(teacher, judge, alpha):
    """Choose and judge row by row, with every output of every row listed."""
    best = None
    taught, tested = (output_probabilities(part.tables, part.codes) for part in (teacher, judge))
    m = teacher.n_classes
    questions = [*combinations(range(m), 2)] + ([tuple(range(m))] if m > 2 else [])
    for classes in questions:
        given = np.stack([taught[teacher.index == k].mean(axis=0) for k in classes])
        named = given.argmax(axis=0)
        reached = np.array([given[place, named == place].sum() for place in range(len(classes))])
        spread = np.minimum(reached * (1 - reached), teacher.eta**2 / 4)
        counts = np.array([(judge.index == k).sum() for k in classes])
        promise = reached.sum() - 1 - np.sqrt(2 * np.log(2 / alpha) * np.sum(spread / counts))
        if best is None or promise / len(classes) > best[0] + 1e-12:
            best = promise / len(classes), classes, named
    _, classes, named = best
    total, spread, samples, centres, lows = 0.0, 0.0, [], [], []
    for place, k in enumerate(classes):
        before = taught[teacher.index == k][:, named == place].sum(axis=1)
        samples.append(tested[judge.index == k][:, named == place].sum(axis=1))
        centres.append(before.mean())
        spread += (before.var() + 0.25 / len(before)) / len(samples[-1])
        possible = np.array(list(product(*(range(len(table)) for table in judge.tables))))
        lowest = output_probabilities(judge.tables, possible)
        lows.append(
            max(
                lowest.min(axis=0)[named == place].sum(),
                1 - lowest.max(axis=0)[named != place].sum(),
            )
        )
    stake = np.sqrt(2 * np.log(2 / alpha) / spread)
    for sample, centre, low in zip(samples, centres, lows, strict=True):
        stake = min(stake, 0.95 * len(sample) / (max(centre - low, 0.0) + 1e-12))
    for sample, centre in zip(samples, centres, strict=True):
        total += centre + np.log(1 + stake / len(sample) * (sample - centre)).sum() / stake
    return (total - np.log(2 / alpha) / stake - 1) / len(classes), classes


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [40, 400])
def test_it_is_the_bound_written_out(classes, n, rng):
    rows = random_rows(rng, n=n, classes=classes)
    first, second = rows.split(0.5, 3)
    slow = max(plain_bound(first, second, 0.1), plain_bound(second, first, 0.1))
    found = certify_lower(rows, 0.1, 3)
    assert found.advantage == pytest.approx(max(slow[0], 0.0), abs=1e-9)
    assert found.classes == slow[1]
    assert found.confidence == pytest.approx(0.9)


def test_rows_that_are_groups_of_their_own_give_nearly_the_same(rng):
    rows = random_rows(rng, n=2000)
    alone = replace(rows, groups=np.arange(len(rows.index)))
    plain, grouped = (certify_lower(each, 0.05, 0) for each in (rows, alone))
    # Classes are bounded one by one there, which costs a little.
    assert 0 < grouped.advantage < plain.advantage
    assert grouped.advantage > plain.advantage - 0.05


def test_it_lies_below_the_upper_bound_and_near_the_truth_with_many_rows(rng):
    codes = np.concatenate([rng.random(20_000) < share for share in (0.3, 0.5)]).astype(int)
    rows = AuditRows((NOISY,), codes[:, None], np.repeat([0, 1], 20_000), 2)
    found = certify_lower(rows, 0.05, 0)
    truth = advantage(np.array([[0.7, 0.3], [0.5, 0.5]]) @ NOISY)
    assert 0.9 * truth < found.advantage < truth < certify_advantage(rows, 0.05).bound


# --- How often it holds ----------------------------------------------------------------------


def draw_world(tables, states, shares, n, rng):
    """Rows whose sensors read one hidden state, ``states`` by class; the truth besides."""
    index = np.concatenate([np.full(round(share * n), k) for k, share in enumerate(shares)])
    state = np.array([rng.choice(len(states[k]), p=states[k]) for k in index])
    codes = np.repeat(state[:, None], len(tables), axis=1)
    listed = np.repeat(np.arange(len(states[0]))[:, None], len(tables), axis=1)
    truth = advantage(np.array(states) @ output_probabilities(tables, listed))
    return AuditRows(tuple(tables), codes, index, len(states)), truth


WORLDS = {
    "nothing leaks": ([NOISY] * 3, [(0.4, 0.6)] * 2, (0.5, 0.5), 60),
    "nothing leaks, sharp tables": ([SHARP] * 2, [(0.4, 0.6)] * 2, (0.5, 0.5), 40),
    "a little leaks": ([NOISY] * 2, [(0.4, 0.6), (0.6, 0.4)], (0.5, 0.5), 200),
    "rare outputs": ([RARE, RARE], [(0.99, 0.01), (0.6, 0.4)], (0.5, 0.5), 200),
    "a rare class": ([SHARP], [(0.5, 0.5), (0.1, 0.9)], (0.9, 0.1), 100),
    "three classes": (
        [THREE],
        [(0.4, 0.3, 0.3), (0.3, 0.4, 0.3), (0.2, 0.2, 0.6)],
        (0.3, 0.4, 0.3),
        120,
    ),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.slow
def test_it_holds_as_often_as_promised(world, rng):
    alpha, trials, fails = 0.2, 300, 0
    for seed in range(trials):
        rows, truth = draw_world(*world, rng)
        fails += certify_lower(rows, alpha, seed).advantage > truth + 1e-12
    # 300 trials of a bound that fails in a fifth show more than 80 in one of a hundred runs.
    assert fails <= 80


def homes(rng, n_homes, telling, rows=20):
    """Homes of which some say by a code which rows are of class 1; elsewhere nothing shows."""
    tells = rng.random(n_homes) < telling
    index = rng.random((n_homes, rows)) < np.where(tells, 0.5, 0.05)[:, None]
    codes = index & tells[:, None]
    group = np.repeat(np.arange(n_homes), rows)
    return AuditRows(
        (SHARP,), codes.reshape(-1, 1).astype(int), index.ravel().astype(int), 2, group
    )


@pytest.mark.parametrize("telling", [0.03, 0.2])
@pytest.mark.slow
def test_homes_that_tell_count_once_each(telling, rng):
    alpha, trials, fails = 0.2, 300, 0
    # A home at random among those that have class 1, then one of its rows of that class.
    has_class = telling * (1 - 0.5**20), (1 - telling) * (1 - 0.95**20)
    truth = 0.5 * has_class[0] / sum(has_class)
    for seed in range(trials):
        fails += certify_lower(homes(rng, 40, telling), alpha, seed).advantage > truth + 1e-12
    assert fails <= 80


@pytest.mark.slow
def test_copies_within_groups_prove_nothing(rng):
    # 20 groups a class, each one reading 50 times; nothing leaks.
    alpha, trials, fails = 0.1, 200, 0
    for seed in range(trials):
        codes = np.repeat(rng.integers(2, size=40), 50)[:, None]
        groups = np.repeat(np.arange(40), 50)
        rows = AuditRows((SHARP,), codes, np.repeat([0, 1], 1000), 2, groups)
        fails += certify_lower(rows, alpha, seed).advantage > 1e-12
    assert fails <= 33  # 20, and three standard errors


def test_what_was_learned_by_heart_is_no_leak(rng):
    # 256 outputs and 100 rows a class: on its own rows the chosen attacker nearly always hits.
    alpha, trials, fails = 0.1, 100, 0
    for seed in range(trials):
        codes = rng.integers(2, size=(200, 8))
        rows = AuditRows((SHARP,) * 8, codes, np.repeat([0, 1], 100), 2)
        fails += certify_lower(rows, alpha, seed).advantage > 1e-12
    assert fails <= 19  # 10, and three standard errors


# --- Where there is nothing to say -----------------------------------------------------------


def test_outputs_that_cannot_be_listed_are_left_to_the_attackers():
    tables = (NOISY,) * 30
    rows = AuditRows(tables, np.zeros((10, 30), int), np.arange(10) % 2, 2)
    assert certify_lower(rows, 0.05, 0) is None


def test_one_class_cannot_be_told_apart(rng):
    rows = AuditRows((NOISY,), rng.integers(2, size=(50, 1)), np.zeros(50, int), 2)
    assert certify_lower(rows, 0.05, 0) is None


def test_an_empty_class_leaves_the_others(rng):
    codes = np.repeat([0, 1], 100)[:, None]
    rows = AuditRows((NOISY,), codes, np.repeat([0, 2], 100), 3)
    assert certify_lower(rows, 0.05, 0).classes == (0, 2)


def test_tables_that_say_nothing_leak_nothing(rng):
    rows = AuditRows((np.full((2, 2), 0.5),), rng.integers(2, size=(60, 1)), np.arange(60) % 2, 2)
    found = certify_lower(rows, 0.05, 0)
    assert found.advantage == 0
    assert found.estimate == pytest.approx(0.0, abs=1e-12)


def test_one_seed_gives_one_answer(rng):
    rows = random_rows(rng)
    assert certify_lower(rows, 0.05, 1) == certify_lower(rows, 0.05, 1)


def test_alpha_is_a_probability(rng):
    refused("alpha", certify_lower, random_rows(rng), 1.5, 0)
