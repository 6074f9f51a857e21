import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.helpers import refused

from discreet.leakage.exact import advantage, information_epsilon, pair_risk
from research.optimum.distribution import Distribution
from research.optimum.limits import TOLERANCE, Wishes, ceilings_from, ldp_tuple, leaks


def random_joint(seed, n_private=3, outputs=6):
    """Any p(cell, z), as sensors that send their code."""
    rng = np.random.default_rng(seed)
    public, private = np.indices((2, n_private)).reshape(2, -1)
    table = rng.dirichlet(np.ones(outputs), len(public))
    prior = rng.dirichlet(np.ones(len(public)))
    distribution = Distribution.independent([table], prior, public, [private])
    return distribution, distribution.joint_outputs([np.eye(outputs)])


@given(seed=st.integers(0, 2**32 - 1), classes=st.integers(2, 4), slack=st.floats(-0.1, 0.1))
def test_ceilings_hold_just_when_the_exact_figures_do(seed, classes, slack):
    distribution, joint = random_joint(seed, classes)
    fact = distribution.private[0]
    conditional = distribution.given_rows(fact) @ joint
    prior = distribution.class_rows(fact) @ distribution.weights.sum(axis=0)
    wishes = [
        (Wishes(risk=np.clip(pair_risk(conditional) - slack, 0.001, 0.499)), "risk"),
        (Wishes(max_advantage=max(advantage(conditional) + slack, 0.001)), "max_advantage"),
        (Wishes(epsilon=max(information_epsilon(conditional, prior) + slack, 0.001)), "epsilon"),
    ]
    if abs(slack) < 1e-6:
        return
    for wish, _ in wishes:
        over = max(c.excess(joint) for c in ceilings_from(wish, distribution))
        assert (over <= 1e-12) == wish.kept_by(distribution, joint)


def test_nothing_at_all_may_be_told_in_three_ways():
    distribution, joint = random_joint(0)
    constant = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    for wish in (Wishes(risk=0.5), Wishes(max_advantage=0), Wishes(epsilon=0)):
        (ceiling,) = ceilings_from(wish, distribution)
        assert ceiling.excess(joint) > 0.01
        assert ceiling.excess(constant) < 1e-15
        assert wish.kept_by(distribution, constant)
        assert not wish.kept_by(distribution, joint)


def test_the_best_attackers_steps_add_up_to_the_sum():
    distribution, joint = random_joint(1)
    for ceiling in ceilings_from(Wishes(max_advantage=0.01, epsilon=0.1), distribution):
        total = float((ceiling.guesses(joint) * joint).sum())
        assert total - ceiling.room == pytest.approx(ceiling.excess(joint))


def test_the_worst_of_several_facts_counts():
    distribution, joint = random_joint(2, 4)
    fact = distribution.private[0]
    both = Distribution(
        distribution.weights, distribution.profiles, distribution.public, (fact // 2, fact % 2)
    )
    each = [
        leaks(Distribution(both.weights, both.profiles, both.public, (one,)), joint)
        for one in both.private
    ]
    assert leaks(both, joint).risk == min(one.risk for one in each)
    assert leaks(both, joint).epsilon == max(one.epsilon for one in each)


def test_a_certain_fact_has_nothing_to_tell():
    distribution, joint = random_joint(3, 1)
    assert leaks(distribution, joint).risk == 0.5
    assert ceilings_from(Wishes(risk=0.5), distribution) == ()


def test_wishes_out_of_range_are_refused():
    refused("between 0 and 0.5", Wishes, risk=0.6)
    refused("risk must lie", Wishes, risk=float("nan"))
    refused("max_advantage must be 0 or more", Wishes, max_advantage=-0.1)
    refused("epsilon must be 0 or more", Wishes, epsilon=-1)
    refused("ldp_epsilon must be 0 or more", ldp_tuple, -1.0, 2)
    refused("one for each of 3 sensors, got 2", ldp_tuple, [1.0, 2.0], 3)


def test_a_local_limit_goes_to_every_sensor():
    assert ldp_tuple(1, 2) == (1.0, 1.0)
    assert ldp_tuple(None, 2) == (np.inf, np.inf)
    assert ldp_tuple([1, 0.5], 2) == (1.0, 0.5)
    assert TOLERANCE < 1e-8
