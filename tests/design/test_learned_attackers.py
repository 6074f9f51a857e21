"""What attackers learn of states and kinds, against slow twins and the truth."""

from functools import reduce

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
