from itertools import product

import numpy as np
import pytest
from helpers import DESIGN

from discreet.auditing.certificates import certify_advantage
from discreet.codes import CodesEncoder
from discreet.design.heads import Labels
from discreet.design.held_out import rule_advantage
from discreet.exact import advantage
from discreet.mapping import Mapping
from discreet.mapping_parts import AdditiveClassesFusion, AdditiveFusion, Fact
from discreet.outputs import output_probabilities
from discreet.tradeoff import measure
from discreet.tradeoff.measure import Side, Trial, leak, lower_bound, public_error, upper_bounds
from discreet.tradeoff.points import FAMILIES


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
        facts = Labels("who", index, classes), Labels("b", other, 2)
        return Side(codes, Labels("fall", public, publics), facts, groups if k else None)

    return Trial(mapping, side(0), side(1), 0.05, 0)


# --- Public error --------------------------------------------------------------------------


@pytest.mark.parametrize("publics", [2, 3])
def test_the_listed_error_is_that_of_fuse_over_every_output_of_every_row(rng, publics):
    trial = random_trial(rng, publics=publics)
    every = np.array(list(product(range(2), repeat=3)))
    answers = trial.mapping.fuse(every)
    chances = output_probabilities(trial.tables, trial.unseen.codes)
    wrong = answers[None, :] != trial.unseen.public.index[:, None]
    found, exact = public_error(trial)
    assert exact
    assert found.value == pytest.approx(float((chances * wrong).sum(axis=1).mean()))
    assert 0 < found.low < found.value < found.high < 1


def test_many_outputs_are_drawn_and_come_out_the_same(rng, monkeypatch):
    trial = random_trial(rng)
    listed, _ = public_error(trial)
    monkeypatch.setattr(measure, "_MOST_RULES", 1)
    drawn, exact = public_error(trial)
    assert not exact
    assert drawn.value == pytest.approx(listed.value, abs=0.005)


def test_groups_widen_the_interval(rng):
    alone = random_trial(np.random.default_rng(0))
    grouped = random_trial(np.random.default_rng(0), groups=np.arange(120) // 10)
    narrow, wide = public_error(alone)[0], public_error(grouped)[0]
    assert narrow.value == wide.value
    assert wide.low < narrow.low and wide.high > narrow.high
    assert lower_bound(grouped) <= lower_bound(alone)
    assert upper_bounds(grouped)[0].value >= upper_bounds(alone)[0].value


def test_the_interval_of_the_error_misses_no_more_often_than_stated():
    """500 made-up audits of one mapping whose true error is known, at 90 %."""
    rng = np.random.default_rng(1)
    trial = random_trial(rng, n=4000, sharp=1e-4)  # nearly certain symbols: errors are coins
    truth = public_error(trial)[0].value
    misses = 0
    for _ in range(500):
        rows = rng.choice(4000, 60)
        side = trial.unseen
        part = Side(side.codes[rows], Labels("fall", side.public.index[rows], 2), ())
        found, _ = public_error(Trial(trial.mapping, trial.known, part, 0.1, 0))
        misses += not found.low <= truth <= found.high
    assert misses <= 50


# --- Advantage -----------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_the_estimate_is_the_middle_of_two_attackers_for_the_worst_fact(rng, classes):
    trial = random_trial(rng, classes=classes)
    estimates = {}
    for fact, held in zip(trial.known.private, trial.unseen.private, strict=True):
        learned, true = (
            np.stack([outputs[labels.index == k].mean(axis=0) for k in range(labels.n_classes)])
            for labels, outputs in (
                (fact, output_probabilities(trial.tables, trial.known.codes)),
                (held, output_probabilities(trial.tables, trial.unseen.codes)),
            )
        )
        estimates[fact.name] = (rule_advantage(learned, true) + advantage(true)) / 2
    found, name = leak(trial)
    assert found.value == pytest.approx(max(estimates.values()))
    assert name == max(estimates, key=estimates.get)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_the_best_rule_is_the_rule_of_held_out(rng, classes):
    learned, true = rng.dirichlet(np.ones(8), size=(2, classes))
    found = [measure.rule_accuracy(learned[own], true[own]) for own in measure._questions(classes)]
    assert max(found) == pytest.approx(rule_advantage(learned, true))


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


def test_the_low_end_holds_as_often_as_stated():
    """The attacker is fixed; its true advantage is known; 90 % of the bounds lie below it."""
    rng = np.random.default_rng(2)
    trial = random_trial(rng, n=4000)
    facts = (trial.unseen.private[0],)
    known = Side(trial.known.codes, trial.known.public, (trial.known.private[0],))
    whole = Side(trial.unseen.codes, trial.unseen.public, facts)
    learned = measure._learned(trial, known.private[0], [0, 1, 2])
    truth = rule_advantage(learned, Trial(trial.mapping, known, whole, 0.1, 0).attacked[0].average)
    above = 0
    for _ in range(400):
        rows = rng.choice(4000, 80)
        labels = Labels("who", facts[0].index[rows], 2)
        part = Side(whole.codes[rows], whole.public, (labels,))
        above += lower_bound(Trial(trial.mapping, known, part, 0.1, 0)) > truth
    assert above <= 40


@pytest.mark.parametrize("sensors", [11, 22])
def test_networks_whose_outputs_are_too_many_to_list_are_measured_too(rng, sensors):
    trial = random_trial(rng, n=300, sizes=(4,) * sensors, sharp=0.2)
    exact = public_error(trial)[1]
    assert exact == (sensors == 11)
    found, name = leak(trial)
    assert name == "who" and found.value > 0.2
    assert 0 < found.low <= found.value
    heard = measure._sensors_heard(trial, trial.known.private[0])
    assert 1 in heard  # the sensor that tells most
    assert (len(heard) == sensors) == (sensors == 11)
    assert all(not b.certifiable or b.value >= found.low for b in upper_bounds(trial))
