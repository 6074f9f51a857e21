"""What rows left out show of a leak, against the truth and against obvious twins."""

import numpy as np
import pytest
from support.leaking_rows import days, draw, hidden, in_parts, moved_without_a_group, noisy, tables
from support.matrices import crossed

from discreet.data.columns import Labels
from discreet.design import attacker_views, class_distances
from discreet.design.leak_estimates import average, estimate_fitted_leaks, estimate_leaks
from discreet.design.training_rows import Sample
from discreet.leakage.joint_outputs import output_probabilities


@pytest.mark.slow
# Outputs of four sensors are listed, of eight the symbols are looked at.
@pytest.mark.parametrize(
    ("n_sensors", "leak"), crossed([4, 8], [0.0, 0.1], kept=[(4, 0.1), (8, 0.0)])
)
def test_squared_distances_are_right_on_average(n_sensors, leak, monkeypatch):
    # Else many rows are looked at in two ways more.
    monkeypatch.setattr(attacker_views, "_MOST_LISTED", 0)
    monkeypatch.setattr(attacker_views, "_LEAST_LESSONS", np.inf)
    rng = np.random.default_rng(n_sensors)
    ours = tables(n_sensors, rng)
    known = draw(400, leak, rng, n_sensors)
    many = estimate_leaks(ours, known, draw(60_000, leak, rng, n_sensors))
    few = [estimate_leaks(ours, known, draw(300, leak, rng, n_sensors)) for _ in range(200)]
    found = np.stack([each.distance for each in few])
    # Of 200 draws, four standard errors of their mean; the matrix that weighs symbols is itself
    # learned from 300 rows, which stretches distances by a few per cent.
    room = 4 * found.std(axis=0) / np.sqrt(200) + 0.04 * many.distance.clip(0)
    assert np.all(np.abs(found.mean(axis=0) - many.distance) < room)
    told = np.mean([each.variance for each in few], axis=0)
    # Where nothing leaks it errs upwards: variances are not let fall to zero.
    ratio = np.sqrt(told) / found.std(axis=0)
    assert np.all((ratio > 0.8) & (ratio < 1.5))


def test_the_advantage_of_many_rows_is_that_of_the_best_rule():
    """Four sensors: the twin lists all outputs and sums."""
    rng = np.random.default_rng(0)
    ours, rows = tables(4, rng), draw(100_000, 0.2, rng)
    outputs = np.zeros((2, 16))
    for z in range(16):
        bits = [z >> 3 & 1, z >> 2 & 1, z >> 1 & 1, z & 1]
        likely = np.prod([ours[t][rows.codes[:, t], bits[t]] for t in range(4)], axis=0)
        outputs[:, z] = [likely[rows.private[0].index == k].mean() for k in (0, 1)]
    slow = 0.25 * np.abs(outputs[0] - outputs[1]).sum()
    found = estimate_leaks(ours, rows, rows)
    assert found.advantage == pytest.approx(slow, rel=0.01)


def test_groups_that_move_together_tell_less():
    rng = np.random.default_rng(1)
    ours, known = tables(4, rng), draw(400, 0.1, rng)
    part = draw(50, 0.1, rng)
    repeated = part.take(np.repeat(np.arange(50), 20))
    alone = estimate_leaks(ours, known, part)
    copies = estimate_leaks(ours, known, repeated, np.repeat(np.arange(50), 20))
    np.testing.assert_allclose(copies.variance, alone.variance, rtol=0.15)
    assert estimate_leaks(ours, known, repeated).error < 0.5 * copies.error


UNEQUAL = (2, 3, 5, 10, 40, 140)


@pytest.mark.parametrize("sizes", [UNEQUAL, (20, 180), (10, 90, 100), (50,) * 4], ids=str)
@pytest.mark.slow
def test_few_groups_of_any_size_show_the_distance_right_on_average(sizes):
    """The truth is what three thousand groups of one size show."""
    rng = np.random.default_rng(8)
    ours, known = tables(4, rng), draw(400, 0.2, rng)
    many, day = days((20,) * 3000, 0.2, rng)
    truth = estimate_leaks(ours, known, many, day).distance[0]
    few = [estimate_leaks(ours, known, *days(sizes, 0.2, rng)) for _ in range(400)]
    found = np.array([each.distance[0] for each in few])
    assert abs(found.mean() - truth) < 4 * found.std() / 20
    told = np.sqrt(np.mean([each.variance[0] for each in few]))
    assert 0.7 < told / found.std() < 2.0


def test_fitted_tables_leak_as_if_the_truth_were_drawn_around_what_was_seen():
    """The twin draws centres around those seen, as far off as groups move them."""
    rng = np.random.default_rng(10)
    ours, (part, day) = tables(4, rng), days((20,) * 8, 0.1, rng)
    found = estimate_fitted_leaks(ours, part, day)
    shown, index = output_probabilities(ours, part.codes), part.private[0].index
    own = [np.flatnonzero(index == k) for k in (0, 1)]
    means = np.stack([shown[rows].mean(axis=0) for rows in own])
    scale = 1 / np.sqrt(means.mean(axis=0))
    noise = moved_without_a_group(shown * scale, own, day)
    centres = ((means - means.mean(axis=0)) * scale / np.sqrt(2)).ravel()
    drawn = np.sum((centres + rng.normal(size=(100_000, len(noise))) @ noise) ** 2, axis=1)
    assert found.distance[0] == pytest.approx(drawn.mean(), rel=0.02)
    assert found.variance[0] == pytest.approx(drawn.var(), rel=0.05)


def series(n_days, rng):
    """Days of one private class each, that differ in what their only sensor reads."""
    g = np.arange(n_days) % 2
    scores = np.outer(g, [0.0, 0.4, 0.8]) + 0.5 * rng.normal(size=(n_days, 3))
    steps = np.cumsum(np.exp(scores), axis=1)
    drawn = rng.random((n_days, 20)) * steps[:, -1:]
    codes = np.sum(drawn[:, :, None] > steps[:, None, :], axis=2).reshape(-1, 1)
    day = np.repeat(np.arange(n_days), 20)
    facts = Labels("h", day % 3 % 2, ("0", "1")), (Labels("g", g[day], ("0", "1")),)
    return Sample(codes, (3,), *facts), day


def flat_on(part, rng):
    """A table that tells nothing in these rows: both classes send as many ones."""
    counts = [np.bincount(part.codes[part.private[0].index == k, 0], minlength=3) for k in (0, 1)]
    apart = counts[1] / counts[1].sum() - counts[0] / counts[0].sum()
    ones = np.cross(apart, np.ones(3)) * rng.choice([-1, 1])  # adding a constant changes nothing
    ones = 0.5 + 0.4 * ones / np.abs(ones).max()
    return [np.stack([1 - ones, ones], axis=1)]


def test_tables_that_are_flat_on_few_days_leak_elsewhere_as_much_as_days_differ():
    """The truth is what two thousand other days show. As if it were drawn anew it seems none."""
    rng = np.random.default_rng(11)
    many, _ = series(2000, rng)
    truth, fitted, as_new = [], [], []
    for _ in range(200):
        part, day = series(10, rng)
        ours = flat_on(part, rng)
        truth.append(estimate_leaks(ours, many, many).distance[0])
        fitted.append(estimate_fitted_leaks(ours, part, day).distance[0])
        as_new.append(estimate_leaks(ours, part, part, day).distance[0])
    assert np.mean(as_new) < 0 < np.mean(truth)
    assert 0.7 < np.mean(truth) / np.mean(fitted) < 1.3


def test_a_class_in_one_group_shows_nothing_and_keeps_no_limit():
    rng = np.random.default_rng(9)
    ours, known = tables(4, rng), draw(400, 0.0, rng)
    part = draw(120, 0.0, rng)
    day = part.private[0].index * 3 + np.where(part.private[0].index == 0, np.arange(120) % 3, 0)
    alone = estimate_leaks(ours, known, part, day)
    assert np.isinf(alone.variance).all() and np.isinf(alone.error)
    assert alone.advantage > 0 == alone.low  # as seen, with what chance adds
    assert average([alone, alone]).error == np.inf
    # Another fold that has the class in several groups speaks for both.
    other = estimate_leaks(ours, known, part, np.arange(120) % 6)
    np.testing.assert_array_equal(average([alone, other]).distance, other.distance)
    np.testing.assert_array_equal(average([alone, other]).variance, other.variance)


def test_what_seems_to_leak_nothing_is_uncertain_all_the_same():
    rng = np.random.default_rng(5)
    ours = tables(4, rng)
    found = [estimate_leaks(ours, draw(200, 0, rng), draw(200, 0, rng)) for _ in range(10)]
    assert min(each.advantage for each in found) == 0.0
    assert min(each.error for each in found) > 0.005


def test_a_class_that_a_fold_lacks_is_told_by_the_others():
    rng = np.random.default_rng(3)
    ours, known = tables(4, rng), draw(300, 0.1, rng, n_classes=3)
    whole = draw(300, 0.1, rng, n_classes=3)
    lacking = whole.take(np.flatnonzero(whole.private[0].index < 2))
    full, part = estimate_leaks(ours, known, whole), estimate_leaks(ours, known, lacking)
    both = average([full, part])
    lost = np.isnan(part.distance)
    assert lost.tolist() == [False, True, True, True]  # pairs (0,1), (0,2), (1,2), and all
    np.testing.assert_allclose(both.distance[lost], full.distance[lost])
    assert np.isfinite(both.advantage)


def rare_class(n_rare):
    """Rows of three classes, of which the last is rare and shown by every reading."""
    rng = np.random.default_rng(3)
    rows = draw(300, 0.0, rng, n_classes=2)
    g = rows.private[0].index.copy()
    g[:n_rare] = 2
    rows.codes[:n_rare] = 2
    return Sample(rows.codes, rows.sizes, rows.public, (Labels("g", g, ("0", "1", "2")),))


@pytest.mark.parametrize(("n_rare", "shown"), [(2, False), (3, False), (4, True), (0, True)])
def test_what_no_fold_shows_may_leak_all(n_rare, shown):
    """Two rows of a class in one fold do not tell; a class that no row has is no secret."""
    rows = rare_class(n_rare)
    ours = [np.array([[0.6, 0.4], [0.6, 0.4], [0.4, 0.6]])] * 4
    even = np.arange(300) % 2 == 0
    found = average(
        [
            estimate_leaks(
                ours, rows.take(np.flatnonzero(known)), rows.take(np.flatnonzero(~known))
            )
            for known in (even, ~even)
        ]
    )
    assert np.isfinite(found.error) == shown
    assert np.isfinite(found.variance).all() == shown


def test_of_a_class_that_an_answer_excludes_nothing_leaks_beyond_it():
    rng = np.random.default_rng(4)
    rows = draw(400, 0.2, rng, n_classes=2)
    alike = Sample(
        rows.codes, rows.sizes, rows.public, (Labels("g", rows.public.index, ("0", "1")),)
    )
    found = estimate_leaks(
        tables(4, rng), alike.take(slice(200)), alike.take(slice(200, 400)), beyond=True
    )
    assert average([found]).advantage + average([found]).error == 0.0


def test_the_error_is_right_where_the_order_of_rows_means_something(monkeypatch):
    """Sensors read nothing at first and vary later: the first rows do not tell the spread."""
    monkeypatch.setattr(class_distances, "_MOST_ROWS", 500)
    monkeypatch.setattr(class_distances, "_MOST_NUMBERS", 500)
    rng, n_rows = np.random.default_rng(18), 2400
    ours, late = noisy(0.8)[:8], np.arange(n_rows) >= n_rows // 2
    found = []
    for _ in range(100):
        h, g = rng.integers(2, size=(2, n_rows))
        codes = np.where(late[:, None], rng.integers(2, size=(n_rows, 8)), 0)
        facts = Labels("h", h, range(2)), (Labels("g", g, range(2)),)
        sample = Sample(codes, (2,) * 8, *facts)
        half = sample.take(slice(0, n_rows, 2)), sample.take(slice(1, n_rows, 2))
        found.append(estimate_leaks(ours, *half))
    told = np.sqrt(np.mean([each.variance for each in found], axis=0))
    ratio = told / np.std([each.distance for each in found], axis=0)
    assert np.all((ratio > 0.75) & (ratio < 1.7)), ratio


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("absent", [(0,), (1,), (0, 1)], ids=str)
def test_what_nobody_could_learn_of_is_not_known(learned, absent):
    """No known row has the class, and many of those left out do."""
    rng = np.random.default_rng(22)
    known, unseen = in_parts(hidden(8000, rng, n_classes=3), 4000)
    known = known.take(np.flatnonzero(~np.isin(known.private[0].index, absent)))
    found = estimate_leaks(noisy(1.0), known, unseen, hidden=learned)
    assert average([found]).error == np.inf
    whole = estimate_leaks(noisy(1.0), unseen, unseen, hidden=learned)
    assert len(found.distance) == len(whole.distance)


def test_a_public_class_without_a_known_row_is_not_known():
    known, unseen = in_parts(hidden(4000, np.random.default_rng(23)), 2000)
    known = known.take(np.flatnonzero(known.public.index == 0))
    assert average([estimate_leaks(noisy(1.0), known, unseen, beyond=True, hidden=True)]).error > 1
    # And the other way round.
    assert average([estimate_leaks(noisy(1.0), unseen, known, beyond=True, hidden=True)]).error > 1


def test_questions_that_time_leaves_open_are_not_known():
    parts = in_parts(hidden(3000, np.random.default_rng(24), n_classes=3), 2000)
    asked = iter([False, True, True, True])
    found = estimate_leaks(noisy(1.0), *parts, over=lambda: next(asked))
    whole = estimate_leaks(noisy(1.0), *parts)
    first = len(whole.distance) // 4
    np.testing.assert_array_equal(found.distance[:first], whole.distance[:first])
    assert np.isnan(found.distance[first:]).all() and len(found.distance) == len(whole.distance)
    assert average([found]).error == np.inf and np.isfinite(average([whole]).error)
    # Another part that was looked at to the end does not speak for this one.
    assert average([found, whole]).error == np.inf


def test_attackers_that_learned_are_left_out_of_fitted_tables():
    """There are no rows that did not teach them; all else is looked at in the same places."""
    sample = hidden(1500, np.random.default_rng(25))
    days = np.arange(1500) % 15
    fitted = estimate_fitted_leaks(noisy(1.0), sample, days, hidden=True)
    fresh = estimate_leaks(noisy(1.0), sample, sample, days, hidden=True)
    without = estimate_fitted_leaks(noisy(1.0), sample, days)
    np.testing.assert_array_equal(fitted.distance[:-2], without.distance)
    assert np.isnan(fitted.distance[-2:]).all() and np.isfinite(fresh.distance).all()


def test_fitted_tables_are_not_looked_at_once_time_is_over():
    sample = hidden(600, np.random.default_rng(26))
    found = estimate_fitted_leaks(noisy(1.0), sample, np.arange(600) % 15, over=lambda: True)
    assert np.isnan(found.distance).all() and average([found]).error == np.inf
