"""What rows left out show of a leak, against the truth and against obvious twins."""

import numpy as np
import pytest
from support.matrices import crossed

from discreet.data.labels import Labels
from discreet.design import leaks
from discreet.design.folds import Sample
from discreet.design.leaks import average, estimate_leaks

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
    monkeypatch.setattr(leaks, "_MOST_LISTED", 0)  # else many rows are looked at in one way more
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
