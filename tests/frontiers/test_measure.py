from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.helpers import DESIGN

from discreet.auditing.bounds.certificates import certify_advantage
from discreet.data.columns import Labels
from discreet.data.encoders import CodesEncoder
from discreet.design.fusion import Aim
from discreet.frontiers import study
from discreet.frontiers.results import FAMILIES
from discreet.frontiers.study import Side, Trial, leak, lower_bound, score_public, upper_bounds
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveClassesFusion, AdditiveFusion, Fact


def random_trial(rng, n=120, sizes=(3, 4, 2), classes=2, publics=2, groups=None, sharp=1.0):
    """A made-up mapping of two symbols a sensor, and rows whose readings tell their labels."""
    tables = [rng.dirichlet(np.full(2, sharp), size=x) for x in sizes]
    tables[1] = np.where(np.arange(sizes[1])[:, None] % 2 == [0, 1], 0.9, 0.1)  # tells on "who"
    names = [f"x{t}" for t in range(len(sizes))]
    weights = [rng.normal(size=(len(sizes), 2)).tolist() for _ in range(publics)]
    fusion = (
        AdditiveFusion(weights=weights[0], bias=0.1)
        if publics == 2
        else AdditiveClassesFusion(weights=weights, bias=[0.0] * publics)
    )
    mapping = Mapping.create(
        names=names,
        encoders=[CodesEncoder(size=size) for size in sizes],
        tables=tables,
        public=Fact(name="fall", classes=list(range(publics))),
        private=[Fact(name="who", classes=list(range(classes))), Fact(name="b", classes=[0, 1])],
        fusion=fusion,
        design=DESIGN,
    )

    def side(k):
        codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
        public = (codes[:, 0] + rng.integers(2, size=n)) % publics
        index = (codes[:, 1] + (rng.random(n) < 0.2)) % classes
        other = rng.integers(2, size=n)
        for labels, count in ((public, publics), (index, classes), (other, 2)):
            labels[:count] = np.arange(count)
        facts = Labels("who", index, range(classes)), Labels("b", other, range(2))
        return Side(codes, Labels("fall", public, range(publics)), facts, groups if k else None)

    return Trial(mapping, side(0), side(1), 0.05, 0)


# --- Answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("publics", [2, 3])
def test_the_listed_error_is_that_of_fuse_over_every_output_of_every_row(rng, publics):
    trial = random_trial(rng, publics=publics)
    every = np.array(list(product(range(2), repeat=3)))
    answers = trial.mapping.fuse(every)
    chances = output_probabilities(trial.tables, trial.unseen.codes)
    wrong = answers[None, :] != trial.unseen.public.index[:, None]
    found = score_public(trial)
    assert found.exact and found.cost is None
    assert found.error.value == pytest.approx(float((chances * wrong).sum(axis=1).mean()))
    for each in (found.error, found.balanced_accuracy):
        assert 0 < each.low < each.value < each.high < 1


def right_by_row(trial):
    """How often each held-out row is answered rightly, output by output."""
    right = []
    for codes, truth in zip(trial.unseen.codes, trial.unseen.public.index, strict=True):
        total = 0.0
        for output in product(*(range(table.shape[1]) for table in trial.tables)):
            chance = np.prod([t[x, z] for t, x, z in zip(trial.tables, codes, output, strict=True)])
            total += chance * (trial.mapping.decide(np.array([output]))[0] == truth)
        right.append(total)
    return np.array(right)


@pytest.mark.parametrize("publics", [2, 3])
def test_balanced_accuracy_is_the_mean_over_the_classes_row_by_row(rng, publics):
    trial = random_trial(rng, n=40, publics=publics)
    right, truth = right_by_row(trial), trial.unseen.public.index
    by_class = [right[truth == k].mean() for k in range(publics)]
    assert score_public(trial).balanced_accuracy.value == pytest.approx(np.mean(by_class))


def test_in_groups_every_group_that_has_a_class_counts_the_same(rng):
    groups = np.sort(rng.integers(8, size=40))
    trial = random_trial(rng, n=40, groups=groups)
    right, truth = right_by_row(trial), trial.unseen.public.index
    by_class = []
    for k in range(2):
        own = [(groups == g) & (truth == k) for g in range(8)]
        by_class.append(np.mean([right[rows].mean() for rows in own if rows.any()]))
    assert score_public(trial).balanced_accuracy.value == pytest.approx(np.mean(by_class))


def test_the_cost_is_that_of_the_misses_as_a_share_of_missing_all(rng):
    trial = replace(random_trial(rng, n=40, publics=3), aim=Aim("cost", (1.0, 10.0, 2.5)))
    right, price = right_by_row(trial), np.array([1.0, 10.0, 2.5])[trial.unseen.public.index]
    found = score_public(trial).cost
    assert found.value == pytest.approx(np.sum(price * (1 - right)) / np.sum(price))
    assert 0 < found.low < found.value < found.high < 1


def test_many_outputs_are_drawn_and_come_out_the_same(rng, monkeypatch):
    trial = random_trial(rng)
    listed = score_public(trial)
    monkeypatch.setattr(study, "_MOST_RULES", 1)
    drawn = score_public(trial)
    assert not drawn.exact
    assert drawn.error.value == pytest.approx(listed.error.value, abs=0.005)
    balanced = drawn.balanced_accuracy.value
    assert balanced == pytest.approx(listed.balanced_accuracy.value, abs=0.005)


def test_groups_widen_the_interval(rng):
    alone = random_trial(np.random.default_rng(0))
    grouped = random_trial(np.random.default_rng(0), groups=np.arange(120) // 10)
    narrow, wide = score_public(alone).error, score_public(grouped).error
    assert narrow.value == wide.value
    assert wide.low < narrow.low and wide.high > narrow.high
    assert lower_bound(grouped) <= lower_bound(alone)
    assert upper_bounds(grouped)[0].value >= upper_bounds(alone)[0].value


@pytest.mark.slow
def test_the_intervals_miss_no_more_often_than_stated():
    """500 made-up audits of one mapping whose true figures are known, at 90 %."""
    rng = np.random.default_rng(1)
    trial = random_trial(rng, n=4000, sharp=1e-4)  # nearly certain symbols: errors are coins
    truth = score_public(trial)
    misses = np.zeros(2)
    for _ in range(500):
        rows = rng.choice(4000, 60)
        side = trial.unseen
        part = Side(side.codes[rows], Labels("fall", side.public.index[rows], range(2)), ())
        found = score_public(Trial(trial.mapping, trial.known, part, 0.1, 0))
        misses += [
            not found.error.low <= truth.error.value <= found.error.high,
            not found.balanced_accuracy.low
            <= truth.balanced_accuracy.value
            <= found.balanced_accuracy.high,
        ]
    assert max(misses) <= 50


# --- Advantage -----------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_the_estimate_is_that_of_the_search_for_a_level_for_the_worst_fact(rng, classes):
    trial = random_trial(rng, n=3000, classes=classes)
    outputs = output_probabilities(trial.tables, trial.unseen.codes)
    true = {
        fact.name: advantage(
            np.stack([outputs[fact.index == k].mean(axis=0) for k in range(fact.n_classes)])
        )
        for fact in trial.unseen.private
    }
    found, name = leak(trial)
    assert name == max(true, key=true.get) == "who"
    # Among so many rows hindsight gains little.
    assert found.value == pytest.approx(true[name], abs=0.02)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_a_rule_in_hindsight_has_the_exact_advantage(rng, classes):
    learned, true = rng.dirichlet(np.ones(8), size=(2, classes))
    for given, most in ((true, None), (learned, advantage(true))):
        questions = study._questions(classes)
        found = max(study.rule_accuracy(given[own], true[own]) for own in questions)
        assert found == pytest.approx(advantage(true)) if most is None else found <= most + 1e-12


@pytest.mark.slow
def test_low_end_estimate_and_bound_are_in_order(rng):
    for classes in (2, 3):
        for _ in range(5):
            trial = random_trial(rng, classes=classes)
            found, bounds = leak(trial)[0], upper_bounds(trial)
            assert 0 <= found.low <= found.value <= bounds[0].value


def test_bounds_are_those_of_the_worst_fact_at_an_ever_smaller_alpha(rng):
    trial = random_trial(rng)
    for bound in upper_bounds(trial):
        values = [certify_advantage(rows, 0.05 / bound.among).value for rows in trial.attacked]
        assert bound.value == max(values)
    assert tuple(bound.among for bound in upper_bounds(trial)) == FAMILIES


def test_nothing_is_certified_where_one_fact_cannot_be(rng):
    trial = random_trial(rng, n=8, sharp=1e-4)
    bound = upper_bounds(trial)[-1]
    assert not bound.certifiable and bound.value is None
    assert "do not rule out" in bound.reason


@pytest.mark.slow
def test_the_low_end_holds_as_often_as_stated():
    """The attacker is fixed; its true advantage is known; 90 % of the bounds lie below it."""
    rng = np.random.default_rng(2)
    trial = random_trial(rng, n=4000)
    facts = (trial.unseen.private[0],)
    known = Side(trial.known.codes, trial.known.public, (trial.known.private[0],))
    whole = Side(trial.unseen.codes, trial.unseen.public, facts)
    learned = study._learned(trial, known.private[0], [0, 1, 2])
    average = Trial(trial.mapping, known, whole, 0.1, 0).attacked[0].average
    truth = study.rule_accuracy(learned, average)
    above = 0
    for _ in range(400):
        rows = rng.choice(4000, 80)
        labels = Labels("who", facts[0].index[rows], range(2))
        part = Side(whole.codes[rows], whole.public, (labels,))
        above += lower_bound(Trial(trial.mapping, known, part, 0.1, 0)) > truth
    assert above <= 40


@pytest.mark.parametrize("sensors", [11, 22])
@pytest.mark.slow
def test_networks_whose_outputs_are_too_many_to_list_are_measured_too(rng, sensors):
    trial = random_trial(rng, n=300, sizes=(4,) * sensors, sharp=0.2)
    assert score_public(trial).exact == (sensors == 11)
    found, name = leak(trial)
    assert name == "who" and found.value > 0.2
    assert 0 < found.low <= found.value
    heard = study._sensors_heard(trial, trial.known.private[0])
    assert 1 in heard  # the sensor that tells most
    assert (len(heard) == sensors) == (sensors == 11)
    assert all(not b.certifiable or b.value >= found.low for b in upper_bounds(trial))
