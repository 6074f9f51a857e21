"""What attackers learn of states and kinds, against slow twins and the truth."""

import numpy as np
import pytest

from discreet.design import learned_attackers


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


def drawn_tables(sizes, rng):
    """Tables of sensors with so many codes and symbols."""
    return [rng.dirichlet(np.full(n_symbols, 2.0), n_codes) for n_codes, n_symbols in sizes]


def test_kinds_are_learned_as_a_slow_twin_does():
    """One kind after the other, one output of each block after the other."""
    rng = np.random.default_rng(22)
    # A block of one sensor is none.
    tables, blocks = drawn_tables([(4, 2), (5, 3), (3, 2)], rng), [(1,), (0, 2)]
    codes = rng.integers([4, 5, 3], size=(300, 3))
    index, kinds = rng.integers(2, size=300), rng.integers(3, size=300)
    learned = learned_attackers.LearnedKinds(tables, codes, index, kinds, blocks)
    outputs = np.stack(np.unravel_index(np.arange(12), (2, 3, 2)), axis=1)
    scores, unsure, units = learned(outputs), learned.unsure(outputs), [(1,), (0, 2)]

    def sent(rows, unit, output):
        """Probabilities of what a unit sends in an output, row by row."""
        return np.prod([tables[t][codes[rows, t], output[t]] for t in unit], axis=0)

    for k in (0, 1):
        variance = 0.0
        for number, output in enumerate(outputs):
            likely, doubt = [], []
            for kind in range(3):
                own = (index == k) & (kinds == kind)
                prior, n, chance, errors = learned_attackers._PRIOR_ROWS, own.sum(), [], 0.0
                for unit in units:
                    mean = sent(index >= 0, unit, output).mean()
                    chance.append((sent(own, unit, output).sum() + prior * mean) / (n + prior))
                    errors += sent(own, unit, output).var(ddof=1) / n / chance[-1] ** 2
                likely.append(n / np.sum(index == k) * np.prod(chance))
                doubt.append(errors)
            assert scores[number, k] == pytest.approx(np.log(sum(likely)))
            variance += np.dot((likely / np.sum(likely)) ** 2, doubt) / len(outputs)
        assert unsure[k] == pytest.approx(variance)


def test_many_kinds_and_codes_are_learned_some_at_a_time(monkeypatch):
    rng = np.random.default_rng(25)
    tables, blocks = drawn_tables([(9, 2), (8, 3), (7, 2)], rng), [(0, 1)]
    codes, index = rng.integers([9, 8, 7], size=(500, 3)), rng.integers(2, size=500)
    kinds = rng.integers(20, size=500)
    whole = learned_attackers.LearnedKinds(tables, codes, index, kinds, blocks)
    monkeypatch.setattr(learned_attackers, "_MOST_CHANCES", 200)
    parts = learned_attackers.LearnedKinds(tables, codes, index, kinds, blocks)
    symbols = rng.integers([2, 3, 2], size=(40, 3))
    np.testing.assert_allclose(parts(symbols), whole(symbols), rtol=1e-12)
    np.testing.assert_allclose(parts.unsure(symbols), whole.unsure(symbols), rtol=1e-9)


@pytest.mark.parametrize("shares", [[1], [1] * 4, [1] * 40, [1, 1, 0.001, 0.001, 0.001]], ids=len)
def test_what_lessons_add_to_the_variance_of_scores_is_known(shares):
    """Attackers learn of other rows each. What is unsure of kinds that look alike averages out."""
    rng, shares = np.random.default_rng(30), np.array(shares) / np.sum(shares)
    tables = drawn_tables([(4, 2)] * 9 + [(4, 3)], rng)
    scores, told = [], []
    outputs = rng.integers([2] * 9 + [3], size=(1000, 10))
    for _ in range(60):
        codes, kinds = rng.integers(4, size=(2000, 10)), rng.choice(len(shares), 2000, p=shares)
        found = learned_attackers.LearnedKinds(tables, codes, np.zeros_like(kinds), kinds)
        scores.append(found(outputs)[:, 0])
        told.append(found.unsure(outputs)[0])
    true = np.var(scores, axis=0, ddof=1).mean()
    assert 0.7 * true < np.mean(told) < 1.5 * true


def test_one_row_of_a_kind_tells_nothing_of_its_spread():
    tables = drawn_tables([(3, 2)], np.random.default_rng(24))
    index = np.array([0, 0, 1])
    codes, symbols = np.array([[0], [2], [1]]), np.array([[0], [1]])
    found = learned_attackers.LearnedKinds(tables, codes, index, index)
    # As if a symbol had been drawn once: (1 - p) / p of either one, which has probability p.
    p = np.exp(found(symbols)[:, 1])
    assert found.unsure(symbols)[1] == pytest.approx(np.mean((1.0 - p) / p))


@pytest.mark.parametrize("n_symbols", [[30, 2, 40], [2, 2, 50]], ids=str)
def test_states_of_many_symbols_are_the_same_in_a_sparse_matrix(n_symbols, monkeypatch):
    """Codes of raw readings took a gigabyte in a table of ones and zeros."""
    rng, n_symbols = np.random.default_rng(27), np.array(n_symbols)
    symbols, index = rng.integers(n_symbols, size=(600, 3)), rng.integers(2, size=600)
    found = []
    for few in (1, 100):
        monkeypatch.setattr(learned_attackers, "_FEW_SYMBOLS", few)
        found.append(learned_attackers.learn_states(symbols, index, n_symbols)(symbols[:50]))
    np.testing.assert_allclose(*found, rtol=1e-9)
