"""Answers about rows left out: against loops and against coins."""

import itertools

import numpy as np
import pytest
from support.problems import census_like

from discreet.choices import LOSSES
from discreet.data.columns import Labels
from discreet.design import fusion
from discreet.design.answers import (
    Answers,
    answer_drawn,
    answer_unseen,
    finish_fusion,
    is_useful,
    join,
    some_rows,
)
from discreet.design.fusion import Aim
from discreet.design.inputs import Settings
from discreet.design.kernels import ProductKernel
from discreet.design.training_rows import Sample
from discreet.mapping.parts import TableFusion


def answer_held_out(how, tables, fusion, known, unseen, rng):
    return answer_unseen(finish_fusion(how, tables, fusion, known, rng), tables, unseen, rng)


def answers(truth, right, n_classes=2):
    """Answers that name another class where they are not right."""
    truth, right = np.array(truth), np.array(right, dtype=float)
    shares = np.zeros(n_classes)
    for t, r in zip(truth, right, strict=True):
        shares[t] += r
        shares[(t + 1) % n_classes] += 1 - r
    return Answers(truth, right, shares / len(truth))


def test_errors_and_balanced_accuracy_are_those_of_a_count():
    found = answers([0, 0, 0, 0, 1], [1, 1, 0, 1, 0])
    assert found.error == pytest.approx(2 / 5)
    assert found.balanced_accuracy == pytest.approx((3 / 4 + 0) / 2)
    np.testing.assert_allclose(found.shares, [4 / 5, 1 / 5])


def test_the_interval_holds_for_a_coin_as_often_as_it_says(rng):
    """Unequal classes of 30 and 90: the truth, 1/2, is inside for about 95 %."""
    truth = np.repeat([0, 1], [30, 90])
    inside, above = 0, 0
    for _ in range(4000):
        low, high = answers(truth, rng.integers(2, size=120)).interval()
        inside, above = inside + (low <= 0.5 <= high), above + (low > 0.5)
    # Standard error of a share over 4,000 trials: 0.0034.
    assert inside / 4000 > 0.95 - 0.011
    assert above / 4000 < 0.025 + 0.008


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_handful_of_lucky_answers_is_not_taken_for_certainty(count):
    """Of all outcomes of as many coins for each of two classes, exactly."""
    truth = np.repeat([0, 1], count)
    rows = np.array(list(itertools.product([0, 1], repeat=min(2 * count, 10))))
    rng = np.random.default_rng(0)
    if 2 * count > 10:
        rows = rng.integers(2, size=(4000, 2 * count))
    lucky = np.mean([answers(truth, row).useful() for row in rows])
    assert lucky <= 0.025 + (0.011 if 2 * count <= 10 else 0.015)


@pytest.mark.slow
def test_rows_of_a_group_count_together(rng):
    """Forty homes of fifty equal rows: an interval for rows would be seven times as narrow."""
    homes, inside, naive = np.repeat(np.arange(40), 50), 0, 0
    truth = np.repeat(np.arange(40) % 2, 50)
    for _ in range(1000):
        found = answers(truth, np.repeat(rng.integers(2, size=40), 50))
        low, high = found.interval(homes)
        inside += low <= 0.5 <= high
        low, high = found.interval()
        naive += low <= 0.5 <= high
    assert inside / 1000 > 0.92  # 0.95 less what forty homes and the trials' own spread make
    assert naive / 1000 < 0.4


def test_useful_takes_an_interval_above_guessing_and_decisions_that_differ():
    assert is_useful(0.51, (0.5, 0.5)) and not is_useful(0.5, (0.5, 0.5))
    assert not is_useful(0.9, (0.0, 1.0))
    assert not answers([0] * 50 + [1] * 50, [1] * 50 + [0] * 50).useful()
    assert answers([0] * 50 + [1] * 50, [1] * 50 + [0.3] * 50).useful()


def test_a_class_without_rows_counts_as_answered_wrong():
    found = Answers(np.array([0, 0, 1]), np.ones(3), np.array([0.5, 0.5, 0.0]))
    assert found.balanced_accuracy == pytest.approx(2 / 3)
    assert np.isfinite(found.interval()).all()


def test_parts_join_to_the_answers_about_all_rows(rng):
    truth, right = rng.integers(2, size=30), rng.random(30)
    truth[[0, 1, 20, 21]] = [0, 1, 0, 1]
    whole = answers(truth, right)
    found = join([answers(truth[:20], right[:20]), answers(truth[20:], right[20:])])
    assert found.balanced_accuracy == pytest.approx(whole.balanced_accuracy)
    assert found.interval() == pytest.approx(whole.interval())
    np.testing.assert_allclose(found.shares, whole.shares)


def settings(aim):
    return Settings((2, 2), ProductKernel(), LOSSES["logistic"], 1e-4, 1e-4, aim=aim)


BLURRED = [np.array([[0.8, 0.2], [0.65, 0.35], [0.45, 0.55], [0.3, 0.7]])] * 2


def test_where_a_class_is_rare_likely_names_the_other_always_and_balanced_does_not(rng):
    sample = census_like(rng)
    known, unseen = sample.take(np.arange(1000)), sample.take(np.arange(1000, 2000))
    found = {
        aim: answer_held_out(settings(Aim(*aim)), BLURRED, None, known, unseen, rng)
        for aim in (("likely",), ("balanced",), ("cost", (1.0, 10.0)))
    }
    likely, balanced, dear = found.values()
    assert likely.constant and likely.balanced_accuracy == pytest.approx(0.5)
    assert not likely.useful()
    assert not balanced.constant and balanced.useful()
    assert balanced.error > likely.error  # the price of naming the rare class at all
    assert dear.shares[1] > balanced.shares[1] > likely.shares[1] == 0.0


def test_outputs_that_are_listed_are_averaged_as_a_loop_over_rows_would(rng):
    sample = census_like(rng, 60)
    joint = np.array([[0.3, 0.2, 0.15, 0.05], [0.05, 0.05, 0.1, 0.1]])
    fusion = TableFusion(joint=joint.tolist())
    found = answer_held_out(settings(Aim("likely")), BLURRED, fusion, sample, sample, rng)
    rule = joint.argmax(axis=0)
    for i, codes in enumerate(sample.codes):
        q = np.outer(*(table[code] for table, code in zip(BLURRED, codes, strict=True))).ravel()
        assert found.right[i] == pytest.approx(q[rule == sample.public.index[i]].sum())
    drawn = answer_drawn(fusion, BLURRED, sample.codes, sample.public, rng)
    # 60 rows of 20 draws: a standard error of 0.014.
    assert drawn.error == pytest.approx(found.error, abs=0.06)


@pytest.mark.parametrize("n_symbols", [2, 3])
@pytest.mark.slow
def test_many_outputs_are_answered_by_the_rule_that_ships(n_symbols, rng):
    n, sensors = 1500, 12
    h = (rng.random(n) < 0.2).astype(np.int64)
    codes = (rng.random((n, sensors)) < 0.3 + 0.2 * h[:, None]).astype(np.int64)
    sample = Sample(codes, (2,) * sensors, Labels("h", h, range(2)), ())
    table = np.full((2, n_symbols), 0.1)
    table[:, :2] = [[0.8, 0.1], [0.1, 0.8]] if n_symbols == 3 else [[0.9, 0.1], [0.1, 0.9]]
    many = Settings(
        (n_symbols,) * sensors, ProductKernel(), LOSSES["logistic"], 1e-3, 1e-3, aim=Aim()
    )
    assert not many.lists_outputs
    known, unseen = sample.take(np.arange(1000)), sample.take(np.arange(1000, n))
    found = answer_held_out(many, [table] * sensors, None, known, unseen, rng)
    assert found.useful() and 0.25 < found.shares[1] < 0.6
    silent = [np.full((2, n_symbols), 1.0 / n_symbols)] * sensors
    assert not answer_held_out(many, silent, None, known, unseen, rng).useful()


def test_of_many_rows_some_are_taken_and_every_class_stays(rng):
    public = Labels("h", (np.arange(40_000) < 3).astype(np.int64), range(2))
    index = np.arange(0, 40_000, 2)
    found = some_rows(index, public, rng, 500)
    assert 500 <= len(found) <= 600 and set(found) <= set(index)
    assert (public.index[found] == 1).sum() == 2
    np.testing.assert_array_equal(some_rows(index[:500], public, rng, 500), index[:500])


@pytest.mark.parametrize(("most", "drawn"), [(None, 10_000), (500, 1000)])
def test_a_rule_that_is_learned_from_fewer_rows_draws_fewer_symbols(rng, monkeypatch, most, drawn):
    how = Settings((2,) * 11, ProductKernel(), LOSSES["logistic"], 1e-3, 1e-3)
    assert not how.lists_outputs
    h = rng.integers(2, size=2000)
    h[:900] = 0  # classes as frequent as each other need no draws to be decided on
    known = Sample(np.repeat(h[:, None], 11, axis=1), (2,) * 11, Labels("h", h, range(2)), (), ())
    rows, draw = [], fusion.draw_symbols
    monkeypatch.setattr(
        fusion, "draw_symbols", lambda *given: rows.append(len(given[1])) or draw(*given)
    )
    finish_fusion(how, [np.array([[0.8, 0.2], [0.3, 0.7]])] * 11, None, known, rng, most)
    assert len(rows) == 2 and max(rows) <= 1.3 * drawn
