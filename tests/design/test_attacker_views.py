"""What attackers look at, and what they see there of leaks that are known exactly."""

import numpy as np
import pytest
from scipy.stats import binom
from support.leaking_rows import CHANCES, SENSORS, STATES, hidden, in_parts, noisy

from discreet.data.columns import Labels
from discreet.design import attacker_views
from discreet.design.attacker_views import Shown, Taught
from discreet.design.leak_estimates import estimate_leaks
from discreet.design.training_rows import Sample

LEARNED = attacker_views._LEARNED  # what learned attackers see is taken for that share


def taught(n_rows, rng, n_classes):
    sizes = (2, 3, 4, 2)
    ours = [rng.dirichlet(np.ones(size), size=3) for size in sizes]
    codes, index = rng.integers(3, size=(n_rows, 4)), rng.integers(n_classes, size=n_rows)
    codes[:, 2] = np.where(rng.random(n_rows) < 0.3, index % 3, codes[:, 2])
    codes[:, 3] = np.where(rng.random(n_rows) < 0.5, (codes[:, 0] + index) % 3, codes[:, 3])
    return Taught(Shown(ours, codes), codes, index, index)


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
    found = attacker_views._telling_sensors(known, classes)
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
    assert attacker_views._telling_pairs(known, classes) == pairs[:4]


def test_every_class_teaches_as_many_rows_in_any_order():
    index = np.sort(np.random.default_rng(21).choice(3, 80_000, p=[0.9, 0.0999, 0.0001]))
    known = Taught(None, None, index, index)
    for k, rows in known.rows.items():
        there = np.flatnonzero(index == k)
        assert len(np.unique(rows)) == len(rows) == min(len(there), 6666)
        assert np.all(index[rows] == k)
        assert abs(rows.mean() - there.mean()) < 3 * np.ptp(there) / np.sqrt(12 * len(rows)) + 1


def test_a_sensor_sends_one_symbol_and_as_often_as_its_table_says():
    table = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    codes = np.repeat([[0, 1], [1, 0]], 20_000, axis=0)
    drawn = attacker_views._draw([table, table], codes, 0)
    for symbols in drawn:
        for code in (0, 1):
            for t in (0, 1):
                own = np.bincount(symbols[codes[:, t] == code, t], minlength=3) / 20_000
                np.testing.assert_allclose(own, table[code], atol=0.015)


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


def test_pairs_are_found_in_sorted_rows():
    rng = np.random.default_rng(17)
    g = np.sort(rng.integers(2, size=24_000))
    codes = rng.integers(2, size=(24_000, 11))
    codes[:, 9] = codes[:, 7] ^ g
    facts = Labels("h", codes[:, 0], range(2)), (Labels("g", g, range(2)),)
    sample = Sample(codes, (2,) * 11, *facts)
    found = estimate_leaks(noisy(0.8), sample, sample)
    assert found.advantage == pytest.approx(0.32, abs=0.02)


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


# --- A state that nobody named ---------------------------------------------------------------


def hidden_truth(kept, n_classes=2):
    """Exact: how many sensors send one is all that matters; the best rule names a class by it."""
    sent = 0.5 + kept * (CHANCES - 0.5)
    counts = STATES[:n_classes] @ [binom.pmf(np.arange(SENSORS + 1), SENSORS, p) for p in sent]
    return (counts.max(axis=0).sum() - 1) / n_classes


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


@pytest.mark.parametrize(("n_classes", "beyond"), [(2, False), (2, True), (3, False), (3, True)])
def test_estimates_are_the_same_however_codes_and_classes_are_held(n_classes, beyond):
    """In memory, streamed and of workers they lie differently."""
    sample = hidden(5000, np.random.default_rng(31), n_classes)
    facts = [Labels(f.name, f.index.astype(np.uint8), f.classes) for f in sample.facts]
    other = Sample(np.asfortranarray(sample.codes), sample.sizes, facts[0], (facts[1],))
    found = [
        estimate_leaks(
            noisy(0.9), *in_parts(each, 3300), beyond=beyond, blocks=[(1, 4)], hidden=True
        )
        for each in (sample, other)
    ]
    for name in ("distance", "variance", "slope"):
        np.testing.assert_array_equal(*(getattr(each, name) for each in found))


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_what_sensors_tell_to_either_side_is_not_estimated_too_low_by_few_lessons(share):
    """Of 2,000 rows attackers learn roughly; on average of many draws nothing is missing."""
    rng, kept, ones, found = np.random.default_rng(32), 0.5, np.arange(41), []
    sides = {-1: 1.0 - share, 1: share}
    law = [
        sum(p * binom.pmf(ones, 40, 0.5 + kept * side * (0.1 + lean)) for side, p in sides.items())
        for lean in (-0.05, 0.05)
    ]
    truth = 0.25 * np.abs(law[0] - law[1]).sum()
    tables = [kept * np.eye(2) + (1 - kept) / 2] * 40
    for _ in range(8):
        sample = flipped(40_000, rng)
        keep = rng.random(40_000) < np.where(sample.public.index == 1, share, 1.0 - share)
        sample = sample.take(np.flatnonzero(keep)[:3000])
        found.append(estimate_leaks(tables, *in_parts(sample, 2000)).advantage)
    assert 0.9 * truth < np.mean(found) < 1.25 * truth
