"""What decisions are good for: each rule against trying every rule there is."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.helpers import refused

from discreet.design.fusion import Aim, aim_for, check_decide
from discreet.mapping.parts import Fact, TableFusion

FALL = Fact(name="state", classes=["fall", "walk", "lie: still"])

# Eighths: their sums are exact, so that two rules of the same worth are found to be so.
joints = (
    hnp.arrays(np.int64, (2, 4), elements=st.integers(0, 8))
    | hnp.arrays(np.int64, (3, 3), elements=st.integers(0, 8))
).filter(lambda each: (each.sum(axis=1) > 0).all())


def decided(joint, aim):
    """The class decided for every output of a joint distribution."""
    p = joint / joint.sum()
    with np.errstate(divide="ignore"):
        scores = np.log(np.where(p.sum(axis=0) == 0, p.sum(axis=1, keepdims=True), p)).T
    return aim.deciding(p.sum(axis=1)).choose(scores)


def every_rule(joint):
    return map(np.array, itertools.product(range(len(joint)), repeat=joint.shape[1]))


def balanced_accuracy(joint, rule):
    p_given = joint / joint.sum(axis=1, keepdims=True)
    return np.mean([p_given[k, rule == k].sum() for k in range(len(joint))])


def cost(joint, rule, costs):
    return sum(costs[k] * joint[k, z] for k, z in np.ndindex(joint.shape) if rule[z] != k) / float(
        joint.sum()
    )


@given(joints)
@pytest.mark.slow
def test_balanced_has_the_largest_balanced_accuracy_of_all_rules(joint):
    found = balanced_accuracy(joint, decided(joint, Aim()))
    best = max(balanced_accuracy(joint, rule) for rule in every_rule(joint))
    assert found == pytest.approx(best, abs=1e-9)
    assert found >= balanced_accuracy(joint, decided(joint, Aim("likely"))) - 1e-9


@given(joints)
@pytest.mark.slow
def test_likely_has_the_fewest_errors_of_all_rules(joint):
    ones = np.ones(len(joint))
    found = cost(joint, decided(joint, Aim("likely")), ones)
    assert found == pytest.approx(min(cost(joint, r, ones) for r in every_rule(joint)), abs=1e-9)


@given(joints, st.tuples(*[st.sampled_from([0.5, 1.0, 10.0])] * 3))
@pytest.mark.slow
def test_cost_has_the_least_cost_of_all_rules(joint, costs):
    costs = costs[: len(joint)]
    found = cost(joint, decided(joint, Aim("cost", costs)), costs)
    assert found == pytest.approx(min(cost(joint, r, costs) for r in every_rule(joint)), abs=1e-9)


def test_equally_frequent_classes_are_decided_as_the_likeliest(rng):
    joint = rng.dirichlet(np.ones(20), size=3) / 3
    np.testing.assert_array_equal(decided(joint, Aim()), decided(joint, Aim("likely")))


@pytest.mark.parametrize("rule", ["balanced", "likely"])
def test_a_tie_and_an_output_that_never_occurs_go_to_the_most_frequent_class(rule):
    shares = np.array([0.2, 0.5, 0.3])
    deciding = Aim(rule).deciding(shares)
    nothing_said = np.log(shares) if rule == "balanced" else np.log(np.full(3, 1 / 3))
    assert deciding.choose(nothing_said[None] + 7.0).tolist() == [1]
    # A tie of the two others goes to the more frequent one of them.
    assert deciding.choose(nothing_said[None] - [0.0, 1.0, 0.0]).tolist() == [2]
    assert Aim(rule).deciding(np.full(2, 0.5)).choose(np.zeros((1, 2))).tolist() == [0]
    joint = np.column_stack([0.4 * shares, np.zeros(3), 0.6 * shares])
    fusion = TableFusion(joint=joint.tolist(), decide=deciding)
    assert fusion.choose(fusion.scores(np.array([[1]]), [3])).tolist() == [1]


def test_where_nothing_is_said_a_class_that_is_dear_to_miss_is_decided():
    deciding = Aim("cost", (10.0, 1.0)).deciding(np.array([0.2, 0.8]))
    assert deciding.choose(np.log([[0.2, 0.8]])).tolist() == [0]
    assert deciding.choose(np.log([[0.05, 0.95]])).tolist() == [1]


def test_symbols_that_say_nothing_never_seem_to_speak_for_a_class(rng):
    """Rounding alone must not decide: a thousand posteriors that equal the shares."""
    shares = np.array([0.24, 0.76])
    scores = np.log(shares) + rng.normal(scale=30.0, size=(1000, 1))
    assert (Aim().deciding(shares).choose(scores) == 1).all()


def test_costs_are_named_as_python_or_the_command_line_writes_classes():
    assert aim_for({"fall": 10}, FALL) == Aim("cost", (10.0, 1.0, 1.0))
    assert aim_for({"lie: still": 0.5, "walk": 2}, FALL) == Aim("cost", (1.0, 2.0, 0.5))
    for classes, name in (([0, 1], 1), ([0, 1], "1"), ([0, 1], 1.0), ([0.0, 1.0], np.int64(1))):
        assert aim_for({name: 3}, Fact(name="s", classes=classes)) == Aim("cost", (1.0, 3.0))
    for name in (True, "True", np.True_):
        assert aim_for({name: 3}, Fact(name="s", classes=[False, True])).costs == (1.0, 3.0)
    assert aim_for("likely", FALL) == Aim("likely") and aim_for("balanced", FALL) == Aim()


@pytest.mark.parametrize(
    "value", ["", "Balanced", "cost=fall:10", None, 3, {}, ["fall"], {"fall"}, b"likely"]
)
def test_what_is_no_rule_is_refused_with_what_to_write(value):
    said = refused("decide must be 'balanced', 'likely' or", check_decide, value)
    assert repr(value) in said and "{'fall': 10}" in said


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), 1e10, True, "10", None, 1j])
def test_what_is_no_cost_is_refused(bad):
    said = refused("the class 'fall' must be a number above 0", check_decide, {"fall": bad})
    assert said.endswith(f"got {bad!r}.")


def test_a_class_that_there_is_not_is_refused_with_those_there_are():
    said = refused(
        "decide names the class 'fal', which 'state' does not have", aim_for, {"fal": 2}, FALL
    )
    assert "Did you mean 'fall'" in said and "'walk'" in said
