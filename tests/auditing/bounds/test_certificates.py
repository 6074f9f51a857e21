import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.auditing.bounds.certificates import (
    SAME_WORLD,
    NotCertifiable,
    certify_accuracy,
    certify_advantage,
    certify_total_variation,
)
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.over_time import certify_structure
from discreet.errors import InputError
from discreet.leakage.exact import (
    advantage,
    bayes_error,
    pairwise_epsilon,
    structural_epsilons,
    total_variation,
)
from discreet.leakage.joint_outputs import dobrushin, output_probabilities

NOISY = np.array([[0.8, 0.2], [0.3, 0.7]])
seeds = st.integers(0, 2**32 - 1)
each_attack = pytest.mark.parametrize(
    "certify", [certify_total_variation, certify_advantage, certify_accuracy]
)


def random_tables(rng, sensors=2, codes=3, symbols=2):
    return tuple(rng.dirichlet(np.ones(symbols) * 2, size=codes) for _ in range(sensors))


def random_rows(rng, n=50, classes=2, groups=None, sensors=2):
    codes = rng.integers(3, size=(classes * n, sensors))
    index = np.repeat(np.arange(classes), n)
    return AuditRows(random_tables(rng, sensors), codes, index, classes, groups)


# --- structure -----------------------------------------------------------------------------


@given(seed=seeds)
def test_no_world_leaks_more_than_the_structure_allows(seed):
    rng = np.random.default_rng(seed)
    tables = random_tables(rng)
    grid = np.array([(a, b) for a in range(3) for b in range(3)])
    outputs = output_probabilities(tables, grid)
    worlds = rng.dirichlet(np.full(9, 0.1), size=3) @ outputs
    total = certify_structure(tables).total
    assert pairwise_epsilon(worlds) <= total.bound
    assert pairwise_epsilon(outputs) == pytest.approx(total.bound)  # and some world reaches it
    assert total.confidence == 1 and total.rows == ()
    assert total_variation(worlds) <= min(dobrushin(tables), np.tanh(total.bound / 2)) + 1e-12


def test_a_sensor_that_gives_codes_away_is_named():
    found = certify_structure([NOISY, np.eye(2)], ["door", "hall"])
    assert isinstance(found.total.value, NotCertifiable)
    assert found.total.value.reason == (
        "the table of sensor 'hall' sends some symbol only for some codes"
    )
    assert found.sensors[0].bound == pytest.approx(np.log(7 / 2))
    assert found.sensors[1].bound is None
    assert "hall" in found.total.words


def test_a_symbol_that_no_code_sends_does_not_count():
    assert structural_epsilons([np.array([[1.0, 0.0], [1.0, 0.0]])])[0] == 0.0


# --- any attacker --------------------------------------------------------------------------


@given(seed=seeds, classes=st.integers(2, 4))
@pytest.mark.slow
def test_bounds_are_above_what_the_rows_show_and_below_what_tables_allow(seed, classes):
    rows = random_rows(np.random.default_rng(seed), classes=classes)
    eta = dobrushin(rows.tables)
    prior = np.full(classes, 1 / classes)
    shown = rows.average
    variation, gain = certify_total_variation(rows, 0.05), certify_advantage(rows, 0.05)
    accuracy = certify_accuracy(rows, 0.05, prior)
    assert min(total_variation(shown), eta) <= variation.bound <= eta * (1 + 1e-9)
    assert gain.bound <= eta * (1 - 1 / classes) * (1 + 1e-9)
    assert gain.bound >= min(advantage(shown), eta / 2)
    assert accuracy.bound <= (1 + (classes - 1) * eta) / classes * (1 + 1e-9)
    if classes == 2:
        assert gain.bound == pytest.approx(variation.bound / 2)


@each_attack
def test_more_rows_and_more_alpha_are_not_looser(certify, rng):
    rows = random_rows(rng, n=30)
    more = AuditRows(rows.tables, np.tile(rows.codes, (9, 1)), np.tile(rows.index, 9), 2)
    assert certify(more, 0.05).bound < certify(rows, 0.05).bound
    assert certify(rows, 0.3).bound <= certify(rows, 0.05).bound


@each_attack
def test_groups_are_looser_than_rows(certify, rng):
    rows = random_rows(rng, n=1000)
    homes = replace(rows, groups=np.arange(2000) % 1000 // 5, unit="home")
    capped = replace(homes, cap=5)
    bounds = [certify(one, 0.05).bound for one in (rows, homes, capped)]
    assert bounds[0] < bounds[1] < bounds[2]
    assert SAME_WORLD in certify(rows, 0.05).assumptions
    assert any("every home is an independent draw" in a for a in certify(homes, 0.05).assumptions)
    assert "for a home drawn at random" in certify(homes, 0.05).words
    assert "a home counting with at most 5 rows of a class" in certify(capped, 0.05).words


@each_attack
def test_what_cannot_be_bounded_is_not_certifiable(certify):
    sharp = AuditRows((np.eye(2),), np.zeros((10, 1), int), np.zeros(10, int), 2)
    found = certify(sharp, 0.05)
    if certify is certify_accuracy:  # one class in ten rows: the other one may be frequent
        assert found.bound is None or found.bound < 1
    else:
        assert isinstance(found.value, NotCertifiable)
        assert "10, 0" in found.value.reason
        assert json.loads(json.dumps(found.as_dict()))["certifiable"] is False
        assert "value" not in found.as_dict()


@each_attack
def test_too_many_outputs_leave_the_tables(certify, rng):
    quiet = np.array([[0.55, 0.45], [0.45, 0.55]])
    rows = AuditRows((quiet,) * 21, rng.integers(2, size=(60, 21)), np.repeat([0, 1], 30), 2)
    found = certify(rows, 0.05)
    eta = dobrushin(rows.tables)
    if certify is certify_total_variation:
        assert found.bound <= min(eta, np.tanh(21 * np.log(55 / 45) / 2)) * (1 + 1e-9)
    assert found.bound < 1
    silent = (np.full((2, 2), 0.5),) * 21
    assert certify_advantage(replace(rows, tables=silent), 0.05).bound == 0
    deaf = certify_advantage(replace(rows, tables=(np.eye(2),) * 21), 0.05)
    assert "too many to list" in deaf.value.reason


def test_silent_tables_leak_nothing(rng):
    rows = replace(random_rows(rng), tables=(np.full((3, 2), 0.5),) * 2)
    assert certify_total_variation(rows, 0.05).bound == 0
    assert certify_advantage(rows, 0.05).bound == 0
    assert certify_accuracy(rows, 0.05, np.array([0.9, 0.1])).bound == pytest.approx(0.9)


SHARES = {2: np.array([0.5, 0.5]), 3: np.array([0.2, 0.5, 0.3])}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.slow
def test_bounds_hold_as_often_as_promised(classes, rng):
    alpha, trials, n, prior = 0.2, 200, 200, SHARES[classes]
    tables = (np.array([[0.97, 0.03], [0.05, 0.95]]),)
    ones = np.linspace(0.2, 0.7, classes)
    truth = np.stack([1 - ones, ones], axis=1) @ tables[0]
    fails = np.zeros(4)
    for _ in range(trials):
        index = rng.choice(classes, n, p=prior)
        codes = (rng.random(n) < ones[index]).astype(int)[:, None]
        rows = AuditRows(tables, codes, index, classes)
        fails += [
            certify_total_variation(rows, alpha).bound < total_variation(truth),
            certify_advantage(rows, alpha).bound < advantage(truth),
            certify_accuracy(rows, alpha).bound < 1 - bayes_error(truth, prior),
            certify_accuracy(rows, alpha, prior).bound < 1 - bayes_error(truth, prior),
        ]
    # At exactly 0.2 more than 60 of 200 fail in fewer than one of 2,000 runs.
    assert fails.max() <= 60
    if classes == 2:
        assert fails.max() > 0  # hard enough to tell; with three the plug-in errs upwards more


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
@each_attack
def test_alpha_must_be_a_probability(certify, alpha, rng):
    with pytest.raises(InputError, match="alpha"):
        certify(random_rows(rng), alpha)
