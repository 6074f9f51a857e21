"""What rows left out show of a leak, against the truth and against obvious twins."""

import numpy as np
import pytest
from scipy.stats import binom
from support.matrices import crossed

from discreet.data.columns import Labels
from discreet.design import leak_estimates
from discreet.design.leak_estimates import average, estimate_leaks
from discreet.design.training_rows import Sample
from discreet.leakage.joint_outputs import output_probabilities

SIZES = (3, 3, 3, 3, 3, 3, 3, 3)


def draw(n_rows, leak, rng, n_sensors=4, n_classes=2):
    """Rows whose codes lean to the private class by ``leak``; one of the sensors is a copy."""
    g = rng.integers(n_classes, size=n_rows)
    h = rng.integers(2, size=n_rows)
    codes = rng.integers(3, size=(n_rows, n_sensors))
    moved = rng.random((n_rows, n_sensors)) < leak
    codes[moved] = np.repeat(g[:, None] % 3, n_sensors, axis=1)[moved]
    codes[:, -1] = codes[:, 0]
    names = tuple(map(str, range(n_classes)))
    facts = Labels("h", h, ("0", "1")), (Labels("g", g, names),)
    return Sample(codes, (3,) * n_sensors, *facts)


def tables(n_sensors, rng):
    one = 0.1 + 0.8 * rng.random((n_sensors, 3))
    return [np.stack([1 - each, each], axis=1) for each in one]


@pytest.mark.slow
# Outputs of four sensors are listed, of eight the symbols are looked at.
@pytest.mark.parametrize(
    ("n_sensors", "leak"), crossed([4, 8], [0.0, 0.1], kept=[(4, 0.1), (8, 0.0)])
)
def test_squared_distances_are_right_on_average(n_sensors, leak, monkeypatch):
    monkeypatch.setattr(
        leak_estimates, "_MOST_LISTED", 0
    )  # else many rows are looked at in one way more
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


def days(sizes, leak, rng, lean=1.5):
    """Rows in groups of these sizes, each of which leans to some codes of its own."""
    part = draw(sum(sizes), leak, rng)
    day = np.repeat(np.arange(len(sizes)), sizes)
    liked = rng.integers(3, size=(len(sizes), 4))
    moved = rng.random(part.codes.shape) < lean * rng.random(len(sizes))[day, None] / 2
    part.codes[moved] = liked[day][moved]
    return part, day


def moved_without_a_group(shown, own, groups):
    """The slow twin: every mean computed anew without each group, less the mean of all."""
    means = np.stack([shown[rows].mean(axis=0) for rows in own])
    found = []
    for d in np.unique(groups):
        moves = np.zeros_like(means)
        for k, rows in enumerate(own):
            inside, count = groups[rows] == d, len(np.unique(groups[rows]))
            if inside.any():
                without = shown[rows[~inside]].mean(axis=0)
                moves[k] = np.sqrt((count - 1) / count) * (without - means[k])
        found.append(((moves - moves.mean(axis=0)) / np.sqrt(len(own))).ravel())
    return np.array(found)


def distance_of_pairs(shown, own, groups):
    """The slow twin: products of two rows of different groups, averaged over all such pairs."""
    total = 0.0
    for k, first in enumerate(own):
        for m, second in enumerate(own):
            apart = [(i, j) for i in first for j in second if groups[i] != groups[j]]
            product = np.mean([shown[i] @ shown[j] for i, j in apart])
            total += ((k == m) - 1 / len(own)) / len(own) * product
    return total


@pytest.mark.parametrize("sizes", [(2, 3, 5, 40), (1, 4), (8,) * 6], ids=str)
def test_distances_are_of_pairs_of_groups_and_spread_as_without_each_group(sizes):
    rng = np.random.default_rng(7)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), 3 * np.array(sizes)))
    shown = rng.random((len(groups), 5))
    index = np.arange(len(groups)) % 3
    own = [np.flatnonzero(index == k) for k in range(3)]
    means = np.stack([shown[rows].mean(axis=0) for rows in own])
    keep = (np.eye(3) - 1 / 3) / np.sqrt(3)
    weights, parts = leak_estimates._by_group(
        leak_estimates._View(shown, None, np.zeros(5)), own, groups, np.copy
    )
    bias = leak_estimates._shared_by_groups(weights, parts, keep)
    assert np.sum((keep @ means) ** 2) - bias == pytest.approx(
        distance_of_pairs(shown, own, groups)
    )
    found = leak_estimates._moved_by_groups(weights, parts, keep)
    (moves,) = found.moves
    np.testing.assert_allclose(moves, -moved_without_a_group(shown, own, groups), atol=1e-12)


@pytest.mark.parametrize(("columns", "within"), [(6, 1e-9), (300, 0.03)])
def test_traces_of_noise_are_those_of_its_whole_covariance(columns, within):
    """With many columns, pairs of some of the rows stand for all: 500 tell it to a few percent."""
    rng = np.random.default_rng(12)
    keep = (np.eye(3) - 1 / 3) / np.sqrt(3)
    scales = rng.random((3, columns)) ** 2
    parts = [(keep[:, k], rng.normal(size=(900, columns)) * scales[k]) for k in range(3)]
    rows = np.concatenate([(share[:, None] * moves[:, None, :]) for share, moves in parts])
    rows = rows.reshape(len(rows), -1)
    noise, centres = leak_estimates._Noise(parts), rng.normal(size=(3, columns))
    assert noise.trace() == pytest.approx(np.sum(rows**2))
    assert noise.along(centres) == pytest.approx(np.sum((rows @ centres.ravel()) ** 2))
    assert noise.squared_trace() == pytest.approx(np.sum((rows @ rows.T) ** 2), rel=within)


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
    found = leak_estimates.estimate_fitted_leaks(ours, part, day)
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
        fitted.append(leak_estimates.estimate_fitted_leaks(ours, part, day).distance[0])
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


def test_an_exclusive_or_of_two_sensors_is_seen():
    rng = np.random.default_rng(2)
    g = rng.integers(2, size=20_000)
    codes = rng.integers(2, size=(20_000, 8))
    codes[:, 5] = codes[:, 2] ^ g
    sample = Sample(codes, (2,) * 8, Labels("h", codes[:, 0], ("0", "1")),
                    (Labels("g", g, ("0", "1")),))  # fmt: skip
    clear = [np.array([[0.9, 0.1], [0.1, 0.9]])] * 8
    found = estimate_leaks(
        clear, sample.take(np.arange(10_000)), sample.take(np.arange(10_000, 20_000))
    )
    # Both symbols are right, or both wrong, with probability 0.82: an advantage of 0.32.
    assert found.advantage == pytest.approx(0.32, abs=0.02)


def test_a_parity_of_three_is_seen_where_rows_are_many_for_the_outputs():
    rng = np.random.default_rng(4)
    g = rng.integers(2, size=9000)
    codes = rng.integers(2, size=(9000, 8))
    codes[:, 6] = codes[:, 1] ^ codes[:, 3] ^ g
    sample = Sample(codes, (2,) * 8, Labels("h", codes[:, 0], ("0", "1")),
                    (Labels("g", g, ("0", "1")),))  # fmt: skip
    clear = [np.array([[0.9, 0.1], [0.1, 0.9]])] * 8
    found = estimate_leaks(clear, sample.take(np.arange(6000)), sample.take(np.arange(6000, 9000)))
    # An even number of three symbols is wrong with probability 0.756: an advantage of 0.256.
    assert found.advantage == pytest.approx(0.256, abs=0.03)


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


def test_attackers_that_learned_see_a_state_that_nobody_named():
    """Eleven sensors all follow a state: in the middle for one class, on either side for the other.

    No symbol is more frequent in a class, and no pair of symbols tells much. The truth is exact.
    """
    rng = np.random.default_rng(13)
    g = rng.integers(2, size=12_000)
    state = np.where(g == 1, 1, 2 * rng.integers(2, size=12_000))  # 0 or 2, or 1
    chances = np.array([0.35, 0.5, 0.65])
    codes = (rng.random((12_000, 11)) < chances[state][:, None]).astype(np.int64)
    h = Labels("h", rng.integers(2, size=12_000), range(2))
    sample = Sample(codes, (2,) * 11, h, (Labels("g", g, range(2)),))
    ours = [np.eye(2)] * 11
    ones = np.arange(12)
    p = [binom.pmf(ones, 11, chance) for chance in chances]
    truth = 0.25 * np.abs(p[1] - 0.5 * (p[0] + p[2])).sum()
    parts = sample.take(np.arange(8000)), sample.take(np.arange(8000, 12_000))
    blind, seeing = (estimate_leaks(ours, *parts, learned=each) for each in (False, True))
    assert blind.advantage < 0.6 * truth
    assert 0.75 * truth < seeing.advantage < truth + 2 * seeing.error
