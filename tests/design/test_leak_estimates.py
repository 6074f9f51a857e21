"""What rows left out show of a leak, against the truth and against obvious twins."""

from functools import reduce

import numpy as np
import pytest
from scipy.stats import binom
from support.matrices import crossed

from discreet.data.columns import Labels
from discreet.design import leak_estimates, learned_attackers
from discreet.design.leak_estimates import average, estimate_fitted_leaks, estimate_leaks
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
    # Else many rows are looked at in two ways more.
    monkeypatch.setattr(leak_estimates, "_MOST_LISTED", 0)
    monkeypatch.setattr(leak_estimates, "_LEAST_LESSONS", np.inf)
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


@pytest.mark.parametrize("signs", [(1, 1, -1), (-1, 1, 1), (-1, -1, -1)], ids=str)
def test_how_libraries_choose_eigenvectors_is_no_matter(signs, monkeypatch):
    centres = np.random.default_rng(0).normal(size=(3, 8)) * 0.03
    gain, eigh = leak_estimates._gain_normal(centres), np.linalg.eigh

    def other_signs(matrix):
        value, vector = eigh(matrix)
        return value, vector * signs

    monkeypatch.setattr(np.linalg, "eigh", other_signs)
    assert leak_estimates._gain_normal(centres) == pytest.approx(gain, rel=1e-9)


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


# --- A state that nobody named ---------------------------------------------------------------

CHANCES = np.array([0.35, 0.5, 0.65])  # that a sensor reads one, in each of three states
STATES = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1 / 3, 1 / 3, 1 / 3]])  # of each class
SENSORS = 11
LEARNED = leak_estimates._LEARNED  # what learned attackers see is taken for that share


def hidden(n_rows, rng, n_classes=2):
    """Sensors that all follow a state: in the middle for one class, on either side for another.

    No symbol is more frequent in a class, and no pair of symbols tells much.
    """
    h, g = rng.integers(2, size=n_rows), rng.integers(n_classes, size=n_rows)
    state = (rng.random((n_rows, 1)) > STATES[g].cumsum(axis=1)[:, :-1]).sum(axis=1)
    codes = (rng.random((n_rows, SENSORS)) < CHANCES[state][:, None]).astype(np.int64)
    facts = Labels("h", h, range(2)), (Labels("g", g, range(n_classes)),)
    return Sample(codes, (2,) * SENSORS, *facts)


def hidden_truth(kept, n_classes=2):
    """Exact: how many sensors send one is all that matters; the best rule names a class by it."""
    sent = 0.5 + kept * (CHANCES - 0.5)
    counts = STATES[:n_classes] @ [binom.pmf(np.arange(SENSORS + 1), SENSORS, p) for p in sent]
    return (counts.max(axis=0).sum() - 1) / n_classes


def noisy(kept, n_symbols=2):
    return [kept * np.eye(n_symbols) + (1 - kept) / n_symbols] * SENSORS


def in_parts(sample, cut):
    return sample.take(slice(cut)), sample.take(slice(cut, len(sample.codes)))


@pytest.mark.parametrize("kept", [1.0, 0.8])
def test_attackers_that_learned_see_a_state_that_nobody_named(kept):
    parts, truth = in_parts(hidden(12_000, np.random.default_rng(13)), 8000), hidden_truth(kept)
    blind, seeing = (estimate_leaks(noisy(kept), *parts, hidden=each) for each in (False, True))
    assert blind.advantage < 0.6 * truth
    assert 0.75 * truth < seeing.advantage < truth / LEARNED + 2 * seeing.error


def test_attackers_that_learned_tell_all_classes_apart_at_once():
    sample = hidden(24_000, np.random.default_rng(14), n_classes=3)
    found = estimate_leaks(noisy(1.0), *in_parts(sample, 16_000), hidden=True)
    # Questions end with all classes, and views of a question with what was learned.
    learned = found.slope[-2:] * np.sqrt(np.maximum(found.distance[-2:], 0.0))
    truth = hidden_truth(1.0, n_classes=3)
    assert np.all((0.65 * truth < learned) & (learned < 1.15 * truth / LEARNED))
    assert estimate_leaks(noisy(1.0), *in_parts(sample, 16_000)).advantage < 0.6 * truth


def test_attackers_that_learned_see_a_state_in_three_symbols():
    """The truth is that of likelihoods, of a hundred thousand rows."""
    rng = np.random.default_rng(15)
    given = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    sample = hidden(12_000, rng)
    g = sample.private[0].index

    def read(index):
        state = (rng.random((len(index), 1)) > STATES[index].cumsum(axis=1)[:, :-1]).sum(axis=1)
        steps = given[state].cumsum(axis=1)[:, None, :-1]
        return (rng.random((len(index), SENSORS, 1)) > steps).sum(axis=2), state

    codes = read(g)[0]
    sample = Sample(codes, (3,) * SENSORS, sample.public, sample.private)
    sent = given @ noisy(0.6, 3)[0]
    index = np.arange(100_000) % 2
    steps = sent[read(index)[1]].cumsum(axis=1)[:, None, :-1]
    symbols = (rng.random((100_000, SENSORS, 1)) > steps).sum(axis=2)
    likely = STATES[:2] @ np.exp(np.log(sent)[:, symbols].sum(axis=2))
    truth = np.mean(likely.argmax(axis=0) == index) - 0.5
    found = estimate_leaks(noisy(0.6, 3), *in_parts(sample, 8000), hidden=True)
    assert 0.75 * truth < found.advantage < truth / LEARNED + 2 * found.error


def test_a_sensor_sends_one_symbol_and_as_often_as_its_table_says():
    table = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    codes = np.repeat([[0, 1], [1, 0]], 20_000, axis=0)
    drawn = leak_estimates._draw([table, table], codes, 0)
    for symbols in drawn:
        for code in (0, 1):
            for t in (0, 1):
                own = np.bincount(symbols[codes[:, t] == code, t], minlength=3) / 20_000
                np.testing.assert_allclose(own, table[code], atol=0.015)


def test_states_are_found_so_that_outputs_are_as_likely_as_in_truth():
    """Two states of sensors with two and three symbols, of which all outputs are listed."""
    rng = np.random.default_rng(26)
    given = [[np.array([0.9, 0.1]), np.array([0.1, 0.2, 0.7])] * 3,
             [np.array([0.2, 0.8]), np.array([0.5, 0.4, 0.1])] * 3]  # fmt: skip
    n_symbols = np.array([2, 3] * 3)
    state = rng.random(4000) < 0.4
    symbols = np.stack(
        [np.where(state, rng.choice(n, 4000, p=given[1][t]), rng.choice(n, 4000, p=given[0][t]))
         for t, n in enumerate(n_symbols)], axis=1)  # fmt: skip
    chances = learned_attackers.learn_states(symbols, np.zeros(4000, dtype=int), n_symbols)
    outputs = np.stack(np.unravel_index(np.arange(216), n_symbols), axis=1)
    found = np.exp(chances(outputs)[:, 0])
    truth = [sum(weight * np.prod([own[t][z] for t, z in enumerate(output)])
                 for weight, own in zip((0.6, 0.4), given, strict=True))
             for output in outputs]  # fmt: skip
    assert found.sum() == pytest.approx(1.0)
    assert 0.5 * np.abs(found - truth).sum() < 0.05


def by(key, sample):
    """The rows in the order of a fact."""
    return sample.take(np.argsort(key(sample).index, kind="stable"))


SORTED = [lambda sample: sample.private[0], lambda sample: sample.public]


@pytest.mark.parametrize("key", SORTED, ids=["private", "public"])
def test_sorted_rows_teach_as_much_as_others(key):
    """Of each class ten thousand rows: attackers must not learn of the first ones only."""
    known, unseen = in_parts(hidden(30_000, np.random.default_rng(16)), 24_000)
    shuffled = estimate_leaks(noisy(1.0), known, unseen, hidden=True)
    found = estimate_leaks(noisy(1.0), by(key, known), by(key, unseen), hidden=True)
    assert found.advantage == pytest.approx(shuffled.advantage, abs=2 * shuffled.error)
    assert found.advantage > 0.75 * hidden_truth(1.0)


def test_pairs_are_found_in_sorted_rows():
    rng = np.random.default_rng(17)
    g = np.sort(rng.integers(2, size=24_000))
    codes = rng.integers(2, size=(24_000, 11))
    codes[:, 9] = codes[:, 7] ^ g
    facts = Labels("h", codes[:, 0], range(2)), (Labels("g", g, range(2)),)
    sample = Sample(codes, (2,) * 11, *facts)
    found = estimate_leaks(noisy(0.8), sample, sample)
    assert found.advantage == pytest.approx(0.32, abs=0.02)


def test_the_error_is_right_where_the_order_of_rows_means_something(monkeypatch):
    """Sensors read nothing at first and vary later: the first rows do not tell the spread."""
    monkeypatch.setattr(leak_estimates, "_MOST_ROWS", 500)
    monkeypatch.setattr(leak_estimates, "_MOST_NUMBERS", 500)
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


def test_one_telling_symbol_among_many_sensors_is_told_in_full():
    """A normal law alone would tell four fifths of it."""
    rng, found = np.random.default_rng(19), []
    for _ in range(20):
        h, g = rng.integers(2, size=(2, 9000))
        codes = rng.integers(2, size=(9000, SENSORS))
        codes[:, 4] = rng.random(9000) < np.where(g == 1, 0.6, 0.4)
        facts = Labels("h", h, range(2)), (Labels("g", g, range(2)),)
        sample = Sample(codes, (2,) * SENSORS, *facts)
        found.append(estimate_leaks(noisy(1.0), *in_parts(sample, 4000)).advantage)
    assert np.mean(found) == pytest.approx(0.1, abs=0.005)


def taught(n_rows, rng, n_classes):
    sizes = (2, 3, 4, 2)
    ours = [rng.dirichlet(np.ones(size), size=3) for size in sizes]
    codes, index = rng.integers(3, size=(n_rows, 4)), rng.integers(n_classes, size=n_rows)
    codes[:, 2] = np.where(rng.random(n_rows) < 0.3, index % 3, codes[:, 2])
    codes[:, 3] = np.where(rng.random(n_rows) < 0.5, (codes[:, 0] + index) % 3, codes[:, 3])
    return leak_estimates._Taught(leak_estimates._Shown(ours, codes), codes, index, index)


@pytest.mark.parametrize("classes", [(0, 2), (0, 1, 2)])
def test_telling_sensors_and_pairs_are_those_of_a_slow_twin(classes):
    known = taught(900, np.random.default_rng(20), 3)
    ours, parts = known.shown.tables, [known.codes[known.index == k] for k in classes]
    told = []
    for t, table in enumerate(ours):
        means = np.array([table[part[:, t]].mean(axis=0) for part in parts])
        middle = means.mean(axis=0)
        told.append(sum((mean[z] - middle[z]) ** 2 / middle[z]
                        for mean in means for z in range(table.shape[1])))  # fmt: skip
    best = np.argsort(-np.array(told)).tolist()
    found = leak_estimates._telling_sensors(known, classes)
    assert found == [[best[0]], [best[1]], best[:3]]

    def apart(t, u):
        middle = [np.mean([ours[s][part[:, s], 1:].mean(axis=0) for part in parts], axis=0)
                  for s in (t, u)]  # fmt: skip
        own = [
            (ours[t][part[:, t], 1:] - middle[0]).T @ (ours[u][part[:, u], 1:] - middle[1])
            / len(part)
            for part in parts
        ]  # fmt: skip
        return sum(np.abs(each - np.mean(own, axis=0)).sum() for each in own)

    pairs = [[t, u] for t in range(4) for u in range(t + 1, 4)]
    pairs.sort(key=lambda pair: -apart(*pair))
    assert leak_estimates._telling_pairs(known, classes) == pairs[:4]


def test_every_class_teaches_as_many_rows_in_any_order():
    index = np.sort(np.random.default_rng(21).choice(3, 80_000, p=[0.9, 0.0999, 0.0001]))
    known = leak_estimates._Taught(None, None, index, index)
    for k, rows in known.rows.items():
        there = np.flatnonzero(index == k)
        assert len(np.unique(rows)) == len(rows) == min(len(there), 6666)
        assert np.all(index[rows] == k)
        assert abs(rows.mean() - there.mean()) < 3 * np.ptp(there) / np.sqrt(12 * len(rows)) + 1


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


def flipped(n_rows, rng, n_sensors=40):
    """Rows in which the private class moves all sensors, to the side that the public one says."""
    h, g = rng.integers(2, size=(2, n_rows))
    chance = 0.5 + (2 * h - 1) * (0.1 + 0.05 * (2 * g - 1))
    codes = (rng.random((n_rows, n_sensors)) < chance[:, None]).astype(np.int64)
    facts = Labels("h", h, range(2)), (Labels("g", g, range(2)),)
    return Sample(codes, (2,) * n_sensors, *facts)


def test_what_sensors_tell_to_either_side_by_the_public_class_is_seen():
    """How many of the sensors send a 1 is all that they tell: its law is binomial."""
    rng, ones = np.random.default_rng(21), np.arange(41)
    law = [
        np.mean([binom.pmf(ones, 40, 0.5 + side * (0.1 + lean)) for side in (-1, 1)], axis=0)
        for lean in (-0.05, 0.05)
    ]
    truth = 0.25 * np.abs(law[0] - law[1]).sum()
    tables = [np.eye(2) * 0.998 + 0.001] * 40
    known, unseen = flipped(8000, rng), flipped(8000, rng)
    found = estimate_leaks(tables, known, unseen)
    assert found.advantage == pytest.approx(truth, abs=0.02)
    assert estimate_leaks(tables, known, unseen, hidden=True).advantage > 0.9 * truth


def drawn_tables(sizes, rng):
    """Tables of sensors with so many codes and symbols."""
    return [rng.dirichlet(np.full(n_symbols, 2.0), n_codes) for n_codes, n_symbols in sizes]


def test_kinds_are_learned_as_a_slow_twin_does():
    """One kind after the other, one output of each block after the other."""
    rng = np.random.default_rng(22)
    tables, blocks = drawn_tables([(4, 2), (5, 3), (3, 2)], rng), [(0, 2)]
    codes = rng.integers([4, 5, 3], size=(300, 3))
    index, kinds = rng.integers(2, size=300), rng.integers(3, size=300)
    found, unsure = learned_attackers.learn_kinds(tables, codes, index, kinds, blocks)
    outputs = np.stack(np.unravel_index(np.arange(12), (2, 3, 2)), axis=1)
    scores = found(outputs)
    units = [(1,), (0, 2)]

    def sent(rows, unit, output):
        """Probabilities of what a unit sends in an output, row by row."""
        return np.prod([tables[t][codes[rows, t], output[t]] for t in unit], axis=0)

    for k in (0, 1):
        lessons = 0.0
        for number, output in enumerate(outputs):
            total = 0.0
            for kind in range(3):
                own = (index == k) & (kinds == kind)
                prior, n = learned_attackers._PRIOR_ROWS, own.sum()
                chance = []
                for unit in units:
                    mean = sent(index >= 0, unit, output).mean()
                    each = (sent(own, unit, output).sum() + prior * mean) / (n + prior)
                    chance.append(each)
                    # An output of one unit occurs with all outputs of the other one.
                    others = 12 / np.prod([tables[t].shape[1] for t in unit])
                    lessons += sent(own, unit, output).var(ddof=1) / each / others
                total += n / np.sum(index == k) * np.prod(chance)
            assert scores[number, k] == pytest.approx(np.log(total))
        assert unsure[k] == pytest.approx(lessons / np.sum(index == k))


def test_what_lessons_add_to_the_variance_of_scores_is_known():
    """Many attackers learn of other rows each; of what is sent they score all outputs."""
    rng, n_rows = np.random.default_rng(23), 400
    tables = drawn_tables([(4, 2), (4, 3), (4, 2)], rng)
    laws = rng.dirichlet(np.full(4, 5.0), 3)
    truth = reduce(np.multiply.outer, [law @ t for law, t in zip(laws, tables, strict=True)])
    outputs, none = np.stack(np.unravel_index(np.arange(12), (2, 3, 2)), axis=1), np.zeros(n_rows)
    apart, told = [], []
    for _ in range(400):
        codes = np.stack([rng.choice(4, n_rows, p=law) for law in laws], axis=1)
        index = none.astype(np.int64)
        found, unsure = learned_attackers.learn_kinds(tables, codes, index, index)
        apart.append(truth.ravel() @ (found(outputs)[:, 0] - np.log(truth.ravel())) ** 2)
        told.append(unsure[0])
    # The mean of 400 squares of about normal errors, of a few of which each is the sum.
    assert np.mean(told) == pytest.approx(np.mean(apart), rel=0.25)


def test_one_row_of_a_kind_tells_nothing_of_its_spread():
    tables = drawn_tables([(3, 2)], np.random.default_rng(24))
    index = np.array([0, 0, 1])
    _, unsure = learned_attackers.learn_kinds(tables, np.array([[0], [2], [1]]), index, index)
    assert unsure[1] == pytest.approx(1.0, abs=0.5)  # of a symbol that was drawn once, it is 1
