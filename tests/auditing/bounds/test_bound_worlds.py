"""The worlds that bounds are tried on say the truth of themselves."""

from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
from support.bound_worlds.homes import always, bits, capped_worlds, home_worlds, tossed
from support.bound_worlds.laws import information_changes, least_beyond
from support.bound_worlds.releases import Flips, HiddenBit
from support.bound_worlds.rows import row_worlds

import discreet
from discreet.leakage.exact import bayes_error, information_epsilon
from discreet.leakage.joint_outputs import output_probabilities

ERRORS = 5.0  # standard errors; a few thousand comparisons stay within them
HOMES = 1500


def by_name(world):
    return world.name


@pytest.mark.parametrize("world", row_worlds(), ids=by_name)
def test_rows_show_the_law_of_their_world(world, rng):
    rows = replace(world, rows=20_000).draw(rng)
    sent = output_probabilities(world.tables, rows.codes)
    for g, truth in enumerate(world.law.given):
        own = sent[rows.index == g]
        assert np.all(np.abs(own.mean(axis=0) - truth) <= ERRORS * errors_of(own) + 1e-9)
    if not world.stated:
        shares = rows.index == np.arange(len(world.prior))[:, None]
        assert shares.mean(axis=1) == pytest.approx(world.prior, abs=ERRORS * 0.5 / 20_000**0.5)


@pytest.mark.parametrize("world", [*home_worlds(), *capped_worlds()], ids=by_name)
@pytest.mark.slow
def test_homes_show_the_law_of_their_draw(world, rng):
    """Add up home by home, with nothing but the words of the definition."""
    homes = list(observed(replace(world, n_homes=HOMES), rng))
    classes = range(len(world.law.prior))
    if world.cap is None:
        given = [[sums[g] / counts[g] for sums, counts in homes if counts[g]] for g in classes]
        weights = [np.ones(len(each)) for each in given]
        joint = np.array([sums / counts.sum() for sums, counts in homes])
        if not world.stated:  # a stated prior takes the place of the homes' own
            check_ratio(joint.reshape(HOMES, -1), np.ones(HOMES), world.law.joint.ravel())
        check_ratio(joint.sum(axis=2), np.ones(HOMES), world.law.prior)
    else:
        kept = [np.minimum(counts, world.cap) for _, counts in homes]
        weights = [np.array([each[g] for each in kept]) for g in classes]
        given = [[sums[g] * n[g] / max(counts[g], 1) for (sums, counts), n in
                  zip(homes, kept, strict=True)] for g in classes]  # fmt: skip
        check_ratio(np.array(kept), np.sum(kept, axis=1), world.law.prior)
    for g in classes:
        check_ratio(np.array(given[g]), weights[g], world.law.given[g])


def observed(world, rng):
    """Yield the sums of Q(z|x) and the numbers of rows by class, home by home."""
    rows = world.draw(rng)
    sent = output_probabilities(world.tables, rows.codes)
    ends = np.searchsorted(rows.groups, np.arange(1, world.n_homes))  # drawn home by home
    for own, index in zip(np.split(sent, ends), np.split(rows.index, ends), strict=True):
        classes = [index == g for g in range(rows.n_classes)]
        yield np.array([own[c].sum(axis=0) for c in classes]), np.array([c.sum() for c in classes])


def check_ratio(parts, weights, truth):
    """The sum of parts over that of weights is the truth, within its standard errors."""
    strays = (parts - truth * weights[:, None]) / weights.mean()
    assert np.all(np.abs(strays.mean(axis=0)) <= ERRORS * errors_of(strays) + 1e-9)


def errors_of(values):
    return values.std(axis=0) / np.sqrt(len(values))


def test_the_figures_of_the_telling_homes():
    worlds = {world.name: world for world in (*home_worlds(), *capped_worlds())}
    row = worlds["100 homes, 1 % tell all, cap 200"].law.truths
    # 0.01 · 100 of 0.01 · 100 + 0.99 rows of class 1 tell, and the table's total variation is 0.9.
    assert row["advantage"] == pytest.approx(0.5 * 0.9 / 1.99)
    home = worlds["100 homes, 1 % tell all"].law.truths
    assert home["advantage"] == pytest.approx(0.5 * 0.9 * 0.01)


def test_the_accuracy_of_a_home_at_random_is_not_that_of_its_product():
    world = bits("", [(0.5, always(9, 1), (0, 1)), (0.5, always(1, 9), (1, 0))], 10, keep=1.0)
    given, prior = world.law.given, world.law.prior
    assert given == pytest.approx(np.full((2, 2), 0.5)) and prior == pytest.approx([0.5, 0.5])
    assert 1 - bayes_error(given, prior) == pytest.approx(0.5)
    assert world.law.truths["accuracy"] == pytest.approx(0.5)
    skewed = bits("", [(0.5, always(9, 1), (0, 0)), (0.5, always(1, 9), (1, 1))], 10, keep=1.0)
    assert skewed.law.truths["advantage"] == pytest.approx(0.0)  # each class is in either home
    assert skewed.law.truths["accuracy"] == pytest.approx(0.9)  # and each home has its own class


@pytest.mark.parametrize("delta", [0.001, 0.05])
def test_the_least_epsilon_beyond_a_mass_is_that_of_the_best_set(delta, rng):
    for _ in range(20):
        given = rng.dirichlet([0.02, 0.05, 0.1, 1, 3, 3], size=3)
        changes = information_changes(given, np.full(3, 1 / 3))
        sets = chain.from_iterable(combinations(range(6), size) for size in range(7))
        allowed = [list(s) for s in sets if given[:, s].sum(axis=1).max(initial=0) <= delta]
        best = min(np.delete(changes, s).max() for s in allowed)
        assert least_beyond(given, changes, delta) == pytest.approx(best)


def test_changes_are_those_of_the_exact_epsilon(rng):
    given, prior = rng.dirichlet(np.ones(5), size=3), rng.dirichlet(np.ones(3))
    assert information_changes(given, prior).max() == information_epsilon(given, prior)


def test_tossed_rows_are_all_there():
    law = tossed(7, 0.3)
    assert sum(p for p, _ in law) == pytest.approx(1)
    assert sum(p * ones for p, (_, ones) in law) == pytest.approx(2.1)
    assert all(sum(counts) == 7 for _, counts in law)


# --- Releases -------------------------------------------------------------------------------

RELEASES = 20
each_day = pytest.mark.parametrize("world", [Flips(), HiddenBit()], ids=lambda w: type(w).__name__)


@each_day
def test_one_report_tells_nothing_and_a_day_much(world, rng):
    private = rng.integers(2, size=20_000)
    hits = world.guess(world.reports(private, RELEASES, rng)) == private
    reached = 0.5 * (hits[private == 0].mean() + hits[private == 1].mean()) - 0.5
    error = 0.5 / np.sqrt(len(private) / 2)  # of one class's share, at most; the mean has less
    assert world.advantage(1) == pytest.approx(0, abs=1e-12)
    assert 0.19 < reached <= world.advantage(RELEASES) + ERRORS * error


@each_day
@pytest.mark.parametrize("releases", [2, 5])
def test_the_exact_advantage_of_a_day_is_that_of_its_listed_reports(world, releases, rng):
    listed = 2 ** np.arange(releases)
    shown = [
        np.bincount(world.reports(np.full(200_000, g), releases, rng) @ listed, minlength=32)
        for g in (0, 1)
    ]
    reached = 0.25 * np.abs(shown[1] - shown[0]).sum() / 200_000
    # A plug-in of 32 outputs is biased by less than the sum of their standard errors.
    assert reached == pytest.approx(world.advantage(releases), abs=0.006)


def test_counting_switches_names_the_device_that_switches():
    assert Flips().advantage(RELEASES) + 0.5 > 0.9999


@each_day
@pytest.mark.slow
def test_no_limit_over_a_day_is_met(world, rng):
    mapping, X, y, private = world.table(3000, rng)
    found = discreet.audit(mapping, X, y, private=private, releases=RELEASES, epsilon=4)
    assert not any(limit.met for limit in found.limits), found.verdict
