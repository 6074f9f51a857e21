"""Silence is summed out: the same as listing everything that the silent might have sent."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.network_samples import (
    additive_mapping,
    classes_mapping,
    rare_fall_mapping,
    rare_fall_scores,
    table_mapping,
)

from discreet.network.fusion.closing import (
    MISSING,
    AdditiveRule,
    TableRule,
    absent_scores,
    decide,
    posterior,
    rule_of,
)

SIZES = (2, 3, 2)


def by_listing(joint, row):
    """The slow twin: add up the joint probability of every output that agrees with the row."""
    total = np.zeros(len(joint))
    outputs = itertools.product(*map(range, SIZES))
    for place, output in enumerate(outputs):
        if all(seen in (MISSING, sent) for seen, sent in zip(row, output, strict=True)):
            total += joint[:, place]
    if total.sum() == 0:
        total = joint.sum(axis=1)
    return total / total.sum()


def joint_of(weights, bias, bases):
    """Every output of the model that an additive rule is the exact posterior of."""
    columns = []
    for output in itertools.product(*map(range, SIZES)):
        score, base = bias.copy(), 1.0
        for t, symbol in enumerate(output):
            score += weights[t][:, symbol]
            base *= bases[t][symbol]
        columns.append(base * np.exp(score))
    joint = np.array(columns).T
    return joint / joint.sum()


rows = st.lists(
    st.tuples(*(st.integers(MISSING, size - 1) for size in SIZES)), min_size=1, max_size=8
).map(lambda each: np.array(each, dtype=np.int64))
joints = hnp.arrays(float, (3, 12), elements=st.sampled_from([0.0, 0.1, 0.5, 2.0])).filter(
    lambda each: (each.sum(axis=1) > 0).all()
)


@given(joints.map(lambda each: each / each.sum()), rows)
def test_a_table_is_summed_over_what_is_missing(joint, Z):
    found = posterior(TableRule(joint, SIZES).scores(Z))
    np.testing.assert_allclose(found, [by_listing(joint, row) for row in Z], atol=1e-12)


weight_tables = st.tuples(
    *(hnp.arrays(float, (2, size), elements=st.floats(-3, 3)) for size in SIZES)
)
frequency_tables = st.tuples(
    *(hnp.arrays(float, size, elements=st.floats(0.05, 1)) for size in SIZES)
).map(lambda each: [one / one.sum() for one in each])


@given(weight_tables, st.tuples(st.floats(-2, 2), st.floats(-2, 2)), frequency_tables, rows)
@pytest.mark.slow
def test_an_additive_rule_is_summed_out_in_the_model_it_is_exact_for(weights, bias, given_, Z):
    bias = np.array(bias)
    rule = AdditiveRule(weights, bias, given_)
    prior = np.exp(bias + rule.absent.sum(axis=1))
    prior /= prior.sum()
    bases = []
    for t, frequency in enumerate(given_):
        tilt = np.exp(weights[t] - rule.absent[:, [t]])
        bases.append(frequency / (prior @ tilt))
        # The model has the frequencies that were asked for, and its conditionals are such.
        np.testing.assert_allclose((bases[t] * tilt).sum(axis=1), 1, atol=1e-6)
    joint = joint_of(weights, bias, bases)
    np.testing.assert_allclose(joint.sum(axis=1), prior, atol=1e-6)
    found = posterior(rule.scores(Z))
    np.testing.assert_allclose(found, [by_listing(joint, row) for row in Z], atol=1e-6)


MAKERS = [additive_mapping, classes_mapping, table_mapping, rare_fall_mapping, rare_fall_scores]


@pytest.mark.parametrize("make", MAKERS)
def test_with_all_sensors_it_is_the_mapping_s_own_rule(make):
    mapping = make()
    Z = np.array(list(itertools.product(*map(range, mapping.n_symbols))))
    rule = rule_of(mapping)
    np.testing.assert_allclose(posterior(rule.scores(Z)), mapping.posterior(Z), atol=1e-12)
    np.testing.assert_array_equal(decide(mapping, rule.scores(Z), Z), mapping.decide(Z))


@pytest.mark.parametrize("rule", ["balanced", "likely", "cost"])
def test_what_is_missing_is_summed_out_before_the_mapping_s_rule_decides(rule):
    mapping = rare_fall_mapping(rule)
    joint, weights = np.array(mapping.fusion.joint), mapping.fusion.decide.weights
    heard = list(itertools.product((MISSING, 0, 1), repeat=3))[1:]
    for row in heard:
        total = np.zeros(2)
        for place, output in enumerate(itertools.product((0, 1), repeat=3)):
            if all(seen in (MISSING, sent) for seen, sent in zip(row, output, strict=True)):
                total += joint[:, place]
        Z = np.array([row])
        found = decide(mapping, rule_of(mapping).scores(Z), Z)
        assert found.tolist() == [int(np.argmax(total * weights))]


@pytest.mark.parametrize("make", [rare_fall_mapping, rare_fall_scores])
def test_falls_that_are_never_the_likelier_class_are_decided_where_the_rule_says_so(make):
    Z = np.array(list(itertools.product((0, 1), repeat=3)))
    decided = {
        rule: decide(make(rule), rule_of(make(rule)).scores(Z), Z)
        for rule in ("likely", "balanced", "cost")
    }
    assert not decided["likely"].any()
    assert 0 < decided["balanced"].sum() < len(Z)
    assert decided["cost"].sum() >= decided["balanced"].sum()


@pytest.mark.parametrize("make", [rare_fall_mapping, rare_fall_scores])
@pytest.mark.parametrize(("rule", "wanted"), [("balanced", 0), ("likely", 0), ("cost", 1)])
def test_where_nobody_is_heard_the_shares_of_the_classes_decide(make, rule, wanted):
    mapping, Z = make(rule), np.full((2, 3), MISSING)
    Z[1, 0] = 1  # and what the others are told of is not touched
    scores = rule_of(mapping).scores(Z)
    found = decide(mapping, scores, Z)
    assert found.tolist() == [wanted, int(mapping.fusion.choose(scores)[1])]


def test_frequencies_are_counted_from_what_arrives(rng):
    mapping = additive_mapping()
    rule = rule_of(mapping)
    before = rule.absent.copy()
    Z = np.zeros((2000, len(mapping.sensors)), dtype=np.int64)
    Z[:, 1] = MISSING
    rule.observe(Z)
    assert not np.allclose(rule.absent[:, 0], before[:, 0])
    # A sensor that always sends 0 tells nothing: its silence adds what its 0 does.
    gap = rule.absent[1] - [row[0] for row in mapping.fusion.weights]
    assert abs(gap[0]) < 0.05 < abs(gap[1])


def test_a_sensor_that_says_the_same_for_all_classes_adds_a_constant():
    weights = [np.array([[0.5, -1.0], [0.5, -1.0]])]
    absent = absent_scores(weights, np.zeros(2), [np.array([0.3, 0.7])])
    assert absent[0, 0] == pytest.approx(absent[1, 0])
