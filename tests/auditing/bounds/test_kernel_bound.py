import weakref
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from support.sensor_worlds import alike, flips, hidden, kernel_advantage, telling_homes

from discreet.auditing.bounds import deviations, kernel_rows
from discreet.auditing.bounds.deviations import (
    apart_deviation,
    capped_deviation,
    joint_deviation,
    kernel_balanced_gain,
    kernel_parts,
    kernel_total_variation,
)
from discreet.auditing.bounds.intervals import kl_upper
from discreet.auditing.bounds.kernel_rows import (
    _EIGEN_GAP,
    _WORTH_LANCZOS,
    KernelRows,
    ProductKernel,
    _largest_eigenvalue,
    minimax_law,
    mixed_law,
    set_variance,
)
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.exact import balanced_accuracy, total_variation
from discreet.leakage.joint_outputs import dobrushin, output_probabilities

ALPHA = 0.05


def some_rows(rng, n=60, n_classes=3, grouped=False):
    """Three sensors, one of which never sends some symbol and has two codes that are alike."""
    tables = (
        np.array([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.0, 0.3, 0.7]]),
        flips(0.7),
        np.array([[0.5, 0.0, 0.5], [0.2, 0.0, 0.8]]),
    )
    codes = np.stack([rng.integers(0, len(table), n) for table in tables], axis=1)
    groups = rng.integers(0, 12, n) if grouped else None
    return KernelRows(AuditRows(tables, codes, rng.integers(0, n_classes, n), n_classes, groups))


def law_of_outputs(rows):
    law = np.ones(1)
    for table, own in zip(rows.audited.tables, rows.audited.codes[rows.pilot].T, strict=True):
        law = np.outer(law, mixed_law(table, np.bincount(own, minlength=len(table)))).ravel()
    return law


def features(rows, codes=None):
    """Return Q(z|x)/sqrt(w(z)), row by row: the slow way to everything that is bounded."""
    law = law_of_outputs(rows)
    sent = output_probabilities(
        rows.audited.tables, rows.audited.codes[rows.used] if codes is None else codes
    )
    return sent[:, law > 0] / np.sqrt(law[law > 0])


def observations(rows, k):
    """Return the features of the rows of class k, or their means by group."""
    own = rows.audited.index[rows.used] == k
    found = features(rows)[own]
    if rows.audited.groups is None:
        return found
    group = rows.audited.groups[rows.used][own]
    return np.array([found[group == j].mean(axis=0) for j in np.unique(group)])


# --- The kernel against explicit features ----------------------------------------------------


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_inner_products_and_variances_are_those_of_explicit_features(
    rng, monkeypatch, grouped, block
):
    monkeypatch.setattr(kernel_rows, "_BLOCK_NUMBERS", block * 40)
    rows = some_rows(rng, grouped=grouped)
    each = [observations(rows, k) for k in range(3)]
    means = np.array([found.mean(axis=0) for found in each])
    assert rows.sizes == tuple(map(len, each))
    np.testing.assert_allclose(rows.inner, means @ means.T, rtol=1e-9)
    for found, variance, total in zip(each, rows.variances, rows.totals, strict=True):
        values = np.linalg.eigvalsh(np.cov(found, rowvar=False))
        assert variance == pytest.approx(values[-1], rel=1e-9)
        assert total == pytest.approx(values.sum(), rel=1e-9)


def test_with_a_cap_groups_weigh_as_many_rows_as_they_count_with(rng):
    rows = KernelRows(replace(some_rows(rng, n=200, grouped=True).audited, cap=4))
    own = [rows.audited.index[rows.used] == k for k in range(3)]
    sent, group = features(rows), rows.audited.groups[rows.used]
    means = []
    for k in range(3):
        sizes = np.bincount(group[own[k]], minlength=12)
        weights = (np.minimum(sizes, 4) / np.maximum(sizes, 1))[group[own[k]]]
        means.append(weights @ sent[own[k]] / weights.sum())
    np.testing.assert_allclose(rows.inner, np.array(means) @ np.array(means).T, rtol=1e-9)
    shown, strayed = kernel_parts(rows, (0, 1), ALPHA)
    each = [capped_deviation(rows.held[k], 4, ALPHA / 2) for k in (0, 1)]
    assert strayed == pytest.approx(rows.reach * sum(each) / np.sqrt(2))
    assert shown == pytest.approx(np.linalg.norm(means[0] - means[1]) / np.sqrt(2))


def test_sensors_with_many_codes_are_looked_up_alike(rng, monkeypatch):
    rows = some_rows(rng)
    again = KernelRows(rows.audited)
    expected = rows.inner
    monkeypatch.setattr(kernel_rows, "_FEW_KINDS", 1)
    np.testing.assert_allclose(again.inner, expected, rtol=1e-12)


def test_reach_covers_every_two_rows_of_codes(rng):
    rows = some_rows(rng)
    every = features(rows, np.array(list(product(*(range(len(t)) for t in rows.audited.tables)))))
    widest = max(np.linalg.norm(a - b) for a in every for b in every)
    assert widest <= rows.reach <= np.sqrt(2) * np.linalg.norm(every, axis=1).max()


def test_reach_is_exact_for_two_symbols_and_the_law_of_the_tables(rng):
    tables = [np.array([[q, 1 - q] for q in rng.random(3)]) for _ in range(4)]
    laws = [minimax_law(table) for table in tables]
    codes = np.array(list(product(range(3), repeat=4)))
    law = laws[0]
    for each in laws[1:]:
        law = np.outer(law, each).ravel()
    every = output_probabilities(tables, codes) / np.sqrt(law)
    widest = max(np.linalg.norm(a - b) for a in every for b in every)
    # The law is found by steps, so that the extreme codes are alike up to what they leave.
    assert ProductKernel.of(tables, laws).reach == pytest.approx(widest, rel=1e-3)


def test_the_law_is_that_of_a_general_solver(rng):
    table = rng.dirichlet(np.ones(3), 5)

    def worst(free):
        law = np.exp(free) / np.exp(free).sum()
        return (table**2 / law).sum(axis=1).max()

    solved = min(
        minimize(worst, rng.normal(size=3), method="Nelder-Mead", options={"xatol": 1e-9}).fun
        for _ in range(5)
    )
    # The steps approach the optimum like one over their number.
    assert (table**2 / minimax_law(table)).sum(axis=1).max() == pytest.approx(solved, rel=5e-3)


def test_distances_of_embeddings_cover_what_any_attacker_gains(rng):
    for n_classes in (2, 3, 5):
        laws = rng.dirichlet(np.ones(6), n_classes)
        law = rng.dirichlet(np.full(6, 3.0))
        means = laws / np.sqrt(law)
        inner = means @ means.T
        together = np.sqrt(np.trace(inner) - inner.sum() / n_classes)
        gain = balanced_accuracy(laws) - 1 / n_classes
        assert gain <= np.sqrt((n_classes - 1) / n_classes) * together / n_classes + 1e-12
        pair = means[0] - means[1]
        assert total_variation(laws[:2]) <= 0.5 * np.linalg.norm(pair) + 1e-12


# --- Deviations ------------------------------------------------------------------------------


def test_two_classes_have_the_textbook_deviations():
    reach, sizes, pairs = 2.0, np.array([400.0, 100.0]), np.array([200, 50])
    # T is the distance over the square root of two, for two classes.
    wide = joint_deviation(reach, sizes, np.full(2, reach**2 / 2), pairs, ALPHA) * np.sqrt(2)
    exponent = np.log(1 / (0.9 * ALPHA))
    assert wide == pytest.approx(reach * np.sqrt(0.5 * exponent * (1 / 400 + 1 / 100)))
    narrow = joint_deviation(reach, sizes, np.array([0.02, 0.04]), pairs, ALPHA) * np.sqrt(2)
    whole = reach**2 / 2 * (1 / 400 + 1 / 100)
    level = np.log(1 / (0.1 * ALPHA)) * (reach**2 / 2 / (100 * 50)) / whole
    spread = whole * float(kl_upper((0.02 / 400 + 0.04 / 100) / whole, level))
    step = reach / 100 * exponent / 3
    assert narrow == pytest.approx(step + np.sqrt(step**2 + 2 * exponent * spread))


def test_classes_apart_add_their_deviations_and_never_beat_the_joint_one():
    for sizes in ([300.0, 300.0], [300.0, 30.0], [300.0, 200.0, 100.0], [900.0, 900.0, 12.0]):
        n = np.array(sizes)
        given = 1.5, n, np.linspace(0.05, 0.1, len(n)), (n // 2).astype(int), ALPHA
        assert apart_deviation(*given) > joint_deviation(*given)


@pytest.mark.parametrize("parts", [[3.0, 1.0], [3.0, 1.0, 0.5], [2.0, 1.5, 1.0], [5.0, 1, 1, 1]])
def test_largest_sum_is_what_a_search_finds(rng, parts):
    heights = np.array(parts)
    functions = rng.normal(size=(20_000, len(parts), 2))
    functions -= functions.mean(axis=1, keepdims=True)
    functions /= np.linalg.norm(functions, axis=(1, 2), keepdims=True)
    found = np.linalg.norm(functions, axis=2) @ heights
    bound = deviations._largest_sum(heights)
    assert found.max() <= bound + 1e-12
    assert found.max() >= 0.97 * bound  # twenty thousand tries come close in six dimensions


def test_set_variance_covers_every_set_of_outputs(rng):
    tables = (np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4]]))
    chance = np.array([0.4, 0.2, 0.1, 0.3])
    every = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    codes = every[rng.choice(4, 800, p=chance)]
    rows = KernelRows(AuditRows(tables, codes, np.repeat([0, 1], 400), 2))
    eta = dobrushin(tables)
    bound = set_variance(rows, 0, eta, 0.01)
    sent = output_probabilities(tables, every)
    for chosen in product([False, True], repeat=6):
        within = sent[:, list(chosen)].sum(axis=1)
        assert chance @ within**2 - (chance @ within) ** 2 <= bound
    assert bound < 0.8 * eta**2 / 4  # and is better than the range alone


@pytest.mark.parametrize("home", [0, 4])
@pytest.mark.slow
def test_set_variance_holds_for_the_set_that_varies_most(home):
    world = hidden("", (2, 2, 2), 0.5, 0.3, (60,) if home else (60, 60), home=home)
    rng, trials, alpha, eta = np.random.default_rng(3), 60, 0.2, dobrushin(world.tables)
    sets = np.array(list(product([0.0, 1.0], repeat=8)))
    many = replace(world, rows=(4_000,) if home else (4_000, 4_000)).draw(rng)
    truth = (sets @ outputs(many, 0).T).var(axis=1).max()
    held = sum(set_variance(world.draw(rng, t), 0, eta, alpha) >= truth for t in range(trials))
    assert held >= trials * (1 - alpha) - 2 * np.sqrt(trials * alpha * (1 - alpha))


def outputs(rows, k):
    """Return Q(z|x) of the observations of class k."""
    law = law_of_outputs(rows)
    return observations(rows, k) * np.sqrt(law[law > 0])


# --- Coverage --------------------------------------------------------------------------------

WORLDS = [
    alike("no leak", 25, 0.6, 0.0, (150, 150)),
    alike("leak", 25, 0.6, 0.04, (300, 60)),
    hidden("three classes", (2, 3, 2), 0.6, 0.5, (200, 100, 50), n_classes=3),
    hidden("homes", (2, 3, 2), 0.6, 0.3, (60,), home=5),
    telling_homes("telling homes", 10, 0.6, 0.05, 80, 20),
    replace(hidden("rows of homes", (2, 3, 2), 0.6, 0.3, (300,), home=5), capped=True),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.slow
def test_bounds_hold_as_often_as_promised(world):
    rng, trials, alpha = np.random.default_rng(5), 40, 0.2
    truth, held, near = world.advantage(), 0, 0
    for trial in range(trials):
        rows = world.draw(rng, trial)
        held += kernel_advantage(rows, alpha) >= truth
        near += sum(kernel_parts(rows, tuple(range(rows.audited.n_classes)), alpha)) >= (
            world.distance(rows)
        )
    # Two standard errors below what is promised; the bounds are far safer than that.
    least = trials * (1 - alpha) - 2 * np.sqrt(trials * alpha * (1 - alpha))
    assert held >= least and near >= least


@pytest.mark.slow
def test_many_noisy_sensors_are_certified():
    world = alike("forty", 40, 0.55, 0.03, (1000, 1000))
    assert world.advantage() == pytest.approx(0.015, abs=5e-4)
    rows = world.draw(np.random.default_rng(0))
    assert kernel_advantage(rows, ALPHA) <= kernel_advantage(rows, ALPHA / 2) <= 0.045


# --- What takes part -------------------------------------------------------------------------


def test_too_many_rows_are_thinned_by_class_and_said(rng, monkeypatch):
    monkeypatch.setattr(kernel_rows, "MAX_ROWS", 100)
    world = alike("many", 25, 0.6, 0.0, (1000, 30))
    rows = world.draw(rng)
    assert len(rows.used) == sum(rows.sizes) == 100
    assert rows.sizes[1] == 30 - rows.pilot[1000:].sum()  # the smaller class stays whole
    assert rows.left_out == f"100 of the {1030 - rows.pilot.sum()} rows, drawn at random"
    assert not np.isin(np.flatnonzero(rows.pilot), rows.used).any()


def test_few_possible_rows_are_never_thinned(rng, monkeypatch):
    monkeypatch.setattr(kernel_rows, "MAX_ROWS", 100)
    rows = alike("few", 5, 0.6, 0.0, (500, 500)).draw(rng)
    assert len(rows.used) == 1000 - rows.pilot.sum() and rows.left_out == ""


def test_groups_lose_rows_by_a_number_that_readings_cannot_move(rng, monkeypatch):
    monkeypatch.setattr(kernel_rows, "MAX_ROWS", 200)
    groups = np.concatenate([np.repeat(np.arange(20), 4), np.full(300, 20)])
    index = rng.integers(0, 2, len(groups))
    codes = rng.integers(0, 2, (len(groups), 3))
    rows = KernelRows(AuditRows((flips(0.6),) * 3, codes, index, 2, groups))
    kept = 21 - len(np.unique(groups[rows.pilot]))
    for j in np.unique(groups[~rows.pilot]):
        for k in range(2):
            there = np.sum((groups == j) & (index == k))
            taken = np.sum((groups[rows.used] == j) & (index[rows.used] == k))
            assert taken == min(there, 200 // (2 * kept))
    monkeypatch.setattr(kernel_rows, "MAX_ROWS", 10)
    few = KernelRows(rows.audited)
    assert len(np.unique(groups[few.used])) == 5 and len(few.used) <= 10


def test_rows_of_an_audit_are_compared_once_for_each_seed(rng):
    audited = some_rows(rng, grouped=True).audited
    same = KernelRows.of(audited, seed=5)
    assert same.seed == 5 and same.audited.codes is audited.codes
    assert KernelRows.of(audited, seed=5) is same is not KernelRows.of(audited)
    gone, _ = weakref.ref(audited), same.inner
    del audited, same
    assert gone() is None  # at once: large tables do not wait for the collector of circles


# --- Nothing to compare ----------------------------------------------------------------------


def test_tables_that_tell_nothing_leave_nothing_to_bound(rng):
    rows = alike("silent", 30, 0.5, 0.1, (50, 50)).draw(rng)
    assert rows.reach == pytest.approx(0.0, abs=1e-4)
    assert kernel_advantage(rows, ALPHA) == pytest.approx(0.0, abs=1e-4)
    assert set_variance(rows, 0, 0.0, ALPHA) == 0.0


@pytest.mark.parametrize("index", [[0, 0], [0, 1], []])
def test_classes_without_rows_or_pairs_promise_nothing(index):
    rows = KernelRows(
        AuditRows((flips(0.9),), np.zeros((len(index), 1), int), np.array(index, int), 2)
    )
    assert kernel_total_variation(rows, ALPHA) == 1.0
    assert kernel_balanced_gain(rows, ALPHA) == 0.5
    assert set_variance(rows, 0, 0.8, ALPHA) == pytest.approx(0.16)


@pytest.mark.slow
def test_more_sharp_sensors_than_numbers_can_hold_promise_nothing(rng):
    codes = rng.integers(0, 2, (40, 1_200))
    rows = KernelRows(AuditRows((np.eye(2),) * 1_200, codes, np.repeat([0, 1], 20), 2))
    assert kernel_advantage(rows, ALPHA) == 0.5


@pytest.mark.parametrize("rank", [0, 1, 40])
def test_the_largest_eigenvalue_is_never_too_small(rng, rank):
    factors = rng.standard_normal((_WORTH_LANCZOS + 50, rank))
    matrix = factors @ factors.T
    exact = max(0.0, float(np.linalg.eigvalsh(matrix)[-1]))
    found = _largest_eigenvalue(matrix)
    # The gap is what Lanczos' method may leave; rounding adds far less.
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 4 * _EIGEN_GAP) + 1e-9


def test_rows_that_are_all_alike_vary_by_nothing(rng):
    tables = (np.array([[0.6, 0.4], [0.4, 0.6]]),)
    index = np.arange(2 * _WORTH_LANCZOS) % 2
    alike = KernelRows.of(
        AuditRows(tables, np.zeros((len(index), 1), int), index, 2, groups=np.arange(len(index)))
    )
    assert alike.variances == pytest.approx(0.0, abs=1e-12)
