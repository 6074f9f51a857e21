import numpy as np
import pytest
from support.rounds import HALF, law_of_remembered, law_of_sequences, random_law, skewed_chain

from discreet.leakage import sequences
from discreet.leakage.chains import Chain
from discreet.leakage.exact import advantage, mutual_information
from discreet.leakage.sequences import PeriodLaws, RoundLaw, remembered_laws, sequence_figures


def law_of(tables, codes, index, classes=2):
    return RoundLaw.of_rows([np.array(t) for t in tables], np.array(codes), index, classes)


SAME = law_of([HALF], [[0], [1]], np.array([0, 1]))
"""A sensor whose code is the fact."""


def test_listed_sequences_are_those_of_the_forward_recursion(rng):
    for classes in (2, 3, 4):
        given = random_law(rng, classes=classes)
        chain = Chain.of_stay(rng.uniform(0.2, 0.9, classes), np.ones(classes) / classes)
        law, found = law_of_sequences(given, chain, 5), sequence_figures(
            PeriodLaws.fresh(given), chain, 5
        )  # fmt: skip
        assert found.exact and found.advantage == pytest.approx((advantage(law),) * 2)
        assert found.information == pytest.approx((mutual_information(law, chain.prior),) * 2)


@pytest.mark.parametrize(
    ("share", "stay", "exact"), [(0.5, 0.9, 0.020), (0.2, 0.9, 0.127), (0.2, 0.6, 0.210)]
)
def test_the_same_code_with_the_same_symbol_for_fifteen_rounds(share, stay, exact):
    laws = remembered_laws(SAME, 15)
    found = sequence_figures(laws, skewed_chain(share, stay), 15)
    assert found.exact and found.advantage[1] == pytest.approx(exact, abs=5e-4)
    # The obvious twin: every one of the four ways to draw the symbols, by itself.
    mixed = sum(
        weight * law_of_sequences(given, skewed_chain(share, stay), 15)
        for given, weight in zip(laws.given, laws.weights, strict=True)
    )
    assert found.advantage[1] == pytest.approx(advantage(mixed), abs=1e-12)


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_remembered_symbols_are_those_of_every_path(period):
    table, chain = np.array([[0.7, 0.3], [0.2, 0.8]]), skewed_chain(0.3, 0.7)
    law = law_of([table], [[0]] * 3 + [[1]] + [[1]] * 4, np.array([0] * 4 + [1] * 4))
    exact = law_of_remembered(table, chain, 4, period, law.code_law)
    found = sequence_figures(remembered_laws(law, period), chain, 4)
    assert found.advantage[0] == pytest.approx(advantage(exact))
    assert found.information[0] == pytest.approx(mutual_information(exact, chain.prior))


@pytest.mark.slow
def test_a_sample_has_the_exact_figures_in_its_intervals(rng, monkeypatch):
    cases = []
    for classes in (2, 3):
        given = random_law(rng, 3, classes)
        chain = Chain.of_stay(rng.uniform(0.3, 0.9, classes), np.ones(classes) / classes)
        cases.append((PeriodLaws.fresh(given), chain, 7))
    cases.append((remembered_laws(SAME, 4), skewed_chain(0.2, 0.9), 12))
    exact = [sequence_figures(*case) for case in cases]
    monkeypatch.setattr(sequences, "_LISTED", 0)
    for case, known in zip(cases, exact, strict=True):
        for seed in range(5):
            found = sequence_figures(*case, seed=seed)
            assert not found.exact
            assert found.advantage[0] <= known.advantage[0] <= found.advantage[1]
            assert found.information[0] <= known.information[0] <= found.information[1]
            assert found.advantage[1] - found.advantage[0] < 0.05


def test_what_is_hidden_for_a_day_breaks_the_figures_of_a_round():
    # X = G xor U, U fixed for the day: one message tells nothing, fifteen tell much.
    given = np.array([[0.75, 0.25], [0.25, 0.75]])
    laws = PeriodLaws(np.stack([given, given[::-1]]), np.array([0.5, 0.5]), 15)
    chain = skewed_chain(0.2, 0.9)
    assert sequence_figures(laws, chain, 1).advantage[1] == pytest.approx(0.0, abs=1e-12)
    assert sequence_figures(laws, chain, 15).advantage[1] == pytest.approx(0.135, abs=5e-4)
