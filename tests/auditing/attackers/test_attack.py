from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.helpers import make_mapping, refused
from threadpoolctl import threadpool_limits

from discreet.auditing.attackers.attack import (
    ATTACKERS,
    attack,
    attack_with_tables,
    best_attack,
    evidence_by_halves,
    evidence_by_logs,
)
from discreet.auditing.attackers.models import by_fold, fit_table
from discreet.auditing.attackers.problem import deal_rows, pose

QUICK = ["table", "naive-bayes", "logistic"]


def flips(chance, sensors):
    """Tables that turn a bit over with this chance."""
    return [np.array([[1 - chance, chance], [chance, 1 - chance]])] * sensors


def draw(tables, codes, rng):
    edges = [np.cumsum(table, axis=1)[:, :-1] for table in tables]
    words = rng.random(codes.shape)
    columns = [(words[:, [t]] >= edge[codes[:, t]]).sum(axis=1) for t, edge in enumerate(edges)]
    return np.stack(columns, axis=1)


def attack_codes(codes, tables, fact, rng, **options):
    symbols = draw(tables, codes, rng)
    sizes = [table.shape[1] for table in tables]
    return attack(symbols, sizes, fact, 2, tables=tables, codes=codes, rng=rng, **options)


def by_name(results):
    return {result.name: result for result in results}


def lower_bounds(results):
    return {r.name: best_attack([r]).lower for r in results if r.skipped is None}


# --- What attackers find ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_joint_leak_of_two_sensors_among_sixteen_is_found():
    rng = np.random.default_rng(1)
    values = rng.integers(2, size=(4000, 16))
    fact = values[:, 3] ^ values[:, 11] ^ (rng.random(4000) < 0.1)
    results = attack(values, [2] * 16, fact, 2, rng=rng)
    lower = lower_bounds(results)
    for name in ("logistic-pairs", "boosting", "forest", "svm"):
        assert lower[name] > 0.35
    assert lower["naive-bayes"] == lower["logistic"] == 0.0  # each sensor alone says nothing
    assert 0.35 < best_attack(results).lower < 0.4
    assert by_name(results)["knows-all"].skipped == "needs the tables and the codes"


@pytest.mark.slow
def test_a_joint_leak_is_found_by_counting_where_outputs_are_few():
    rng = np.random.default_rng(2)
    codes = rng.integers(2, size=(4000, 4))
    fact = codes[:, 0] ^ codes[:, 2]
    lower = lower_bounds(attack_codes(codes, flips(0.1, 4), fact, rng))
    for name in ("table", "knows-all", "logistic-pairs", "boosting", "forest"):
        assert lower[name] > 0.25  # 0.9**2 + 0.1**2 - 0.5 is 0.32


def test_who_knows_the_tables_finds_a_joint_leak_among_sixteen():
    rng = np.random.default_rng(3)
    codes = rng.integers(2, size=(4000, 16))
    fact = codes[:, 3] ^ codes[:, 11]
    lower = lower_bounds(attack_codes(codes, flips(0.1, 16), fact, rng, attackers=["knows-all"]))
    assert lower["knows-all"] > 0.2


@pytest.mark.slow
def test_two_sensors_that_say_the_same_are_added_up():
    rng = np.random.default_rng(4)
    fact = rng.integers(2, size=8000)
    codes = rng.integers(2, size=(8000, 6))
    codes[:, 2] = codes[:, 5] = fact
    both = attack_codes(codes, flips(0.3, 6), fact, rng)
    # Two votes of which one in 0.42 of the rows contradicts the other: no more rows are right
    # than with one vote, but those with two equal votes stand out, and the AUC shows it.
    votes = np.array([0.09, 0.42, 0.49])  # for the right class; reversed, for the wrong one
    true_auc = sum(votes[i] * (votes[::-1][:i].sum() + votes[::-1][i] / 2) for i in range(3))
    for result in both:
        assert result.balanced_accuracy.low > 0.6
        assert result.auc.low < true_auc
    found = by_name(both)
    assert found["logistic"].auc.estimate == pytest.approx(true_auc, abs=0.02)
    assert found["knows-all"].auc.estimate == pytest.approx(true_auc, abs=0.02)


@pytest.mark.slow
def test_a_leak_in_one_rare_symbol_is_found():
    rng = np.random.default_rng(5)
    fact = rng.integers(2, size=6000)
    values = rng.integers(2, size=(6000, 5))
    values[(fact == 1) & (rng.random(6000) < 0.04), 1] = 2
    results = attack(values, [2, 3, 2, 2, 2], fact, 2, rng=rng)
    best = best_attack(results)
    assert best.name == "telltale"
    assert 0.01 < best.lower < 0.02 < best.advantage + 0.005


@pytest.mark.slow
def test_a_class_of_one_percent_is_found():
    rng = np.random.default_rng(6)
    fact = (np.arange(10_000) % 100 == 0).astype(int)
    codes = rng.integers(2, size=(10_000, 6))
    codes[:, 2] = fact
    results = attack_codes(codes, flips(0.15, 6), fact, rng)
    assert best_attack(results).lower > 0.2
    for result in results:
        assert result.balanced_accuracy.low > 0.5
        # Always guessing the common class is right in 99 of 100 cases, and hard to beat.
        assert result.accuracy.estimate == pytest.approx(0.99, abs=0.003)


def test_the_worst_pair_of_classes_is_named():
    rng = np.random.default_rng(7)
    fact = rng.integers(4, size=4000)
    codes = np.stack([fact == 2, rng.integers(2, size=4000)], axis=1).astype(int)
    codes[fact == 0, 0] = 0
    codes[(fact == 1) | (fact == 3), 0] = rng.integers(2, size=int(np.isin(fact, (1, 3)).sum()))
    results = attack(codes, [2, 2], fact, 4, attackers=QUICK, rng=rng)
    for result in results:
        assert [question.classes for question in result.questions[:2]] == [(0, 1, 2, 3), (0, 1)]
        assert len(result.questions) == 7
        assert result.worst_pair.classes == (0, 2)
        assert result.worst_pair.estimate == 1.0
        assert 0.45 < result.balanced_accuracy.estimate < 0.55
    best = best_attack(results)
    assert best.classes == (0, 2)
    assert best.comparisons == 21
    assert 0.49 < best.lower < best.advantage == 0.5


# --- What attackers know ---------------------------------------------------------------------


def brute_evidence(tables, codes, counts, symbols):
    chances = np.ones((len(symbols), len(codes)))
    for t, table in enumerate(tables):
        chances *= table[codes[:, t]][:, symbols[:, t]].T
    return chances @ counts


@pytest.mark.parametrize("evidence", [evidence_by_halves, evidence_by_logs])
@pytest.mark.parametrize("sensors", [1, 2, 5])
def test_evidence_is_the_sum_over_rows(evidence, sensors, rng):
    sizes = [(3, 2), (2, 4), (5, 1), (2, 2), (4, 3)][:sensors]
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in sizes]
    tables[0][0] = np.eye(2)[0]  # a symbol that this code never sends
    codes = np.stack([rng.integers(x, size=30) for x, _ in sizes], axis=1)
    counts = rng.integers(3, size=(30, 3)).astype(float)
    symbols = np.array(list(product(*(range(z) for _, z in sizes))))
    found, true = (f(tables, codes, counts, symbols) for f in (evidence, brute_evidence))
    share = found / found.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(share, true / true.sum(axis=1, keepdims=True), atol=1e-12)


def some_problem(rng, n=300):
    codes = rng.integers(3, size=(n, 3))
    fact = rng.permutation(np.arange(n) % 3 % 2)
    tables = [rng.dirichlet(np.ones(2), size=3) for _ in range(3)]
    symbols = draw(tables, codes, rng)
    known = {"tables": tables, "codes": codes, "groups": None}
    return pose(symbols, [2] * 3, fact, 2, **known, n_folds=4, max_rows=1000, rng=rng)


def test_who_knows_the_tables_has_the_posterior_of_the_rows_before(rng):
    problem = some_problem(rng)
    guesses = attack_with_tables(problem, rng)
    for row, scores in zip(guesses.rows[::7], guesses.scores[::7], strict=True):
        before = problem.fold < problem.fold[row]
        classes = np.eye(2)[problem.fact[before]]
        symbols = problem.symbols[problem.place[[row]]]
        true = brute_evidence(problem.tables, problem.codes[before], classes, symbols)[0]
        true /= classes.sum(axis=0)
        np.testing.assert_allclose(scores, true / true.sum(), atol=1e-12)


def test_the_table_counts_the_rows_before(rng):
    problem = some_problem(rng)
    guesses = by_fold(fit_table)(problem, rng)
    assert sorted(guesses.rows) == list(np.flatnonzero(problem.fold > 0))
    for row, scores in zip(guesses.rows[::7], guesses.scores[::7], strict=True):
        before = problem.fold < problem.fold[row]
        same = before & (problem.place == problem.place[row])
        share = [
            np.sum(same & (problem.fact == k)) / np.sum(before & (problem.fact == k))
            for k in (0, 1)
        ]
        np.testing.assert_allclose(scores, share / np.sum(share))


@pytest.mark.parametrize("name", ATTACKERS)
def test_nobody_learns_from_the_rows_that_come_after(name, rng):
    problem = some_problem(rng)
    last = problem.fold == 3
    other = problem.fact.copy()
    other[last] = 1 - other[last]
    with threadpool_limits(limits=1):
        first, second = (
            ATTACKERS[name].run(each, np.random.default_rng(0))
            for each in (problem, replace(problem, fact=other))
        )
    np.testing.assert_array_equal(first.scores, second.scores)


def test_tested_folds_have_the_same_number_of_each_class(rng):
    fact = np.repeat([0, 1, 2], [23, 9, 40])
    fold = deal_rows(fact, 5, rng)
    counts = np.bincount(fold * 3 + fact, minlength=15).reshape(5, 3)
    assert (counts[1:] == [4, 1, 8]).all()
    assert counts.min() > 0


# --- Intervals ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_cover_the_truth_and_the_lower_bound_stays_below():
    """One sensor that is right with 0.7: every rule that can be learned has these scores."""
    rng = np.random.default_rng(8)
    missed = {"accuracy": 0, "balanced_accuracy": 0, "auc": 0, "lower": 0}
    n, rounds = 300, 200
    for _ in range(rounds):
        fact = rng.permutation(np.arange(n) % 3 % 2)
        values = np.where(rng.random(n) < 0.7, fact, 1 - fact)[:, None]
        (result,) = attack(values, [2], fact, 2, attackers=["table"], n_folds=3, rng=rng)
        for key, true in (("accuracy", 0.7), ("balanced_accuracy", 0.7), ("auc", 0.7)):
            interval = getattr(result, key)
            assert interval.low <= interval.estimate <= interval.high
            missed[key] += not interval.low <= true <= interval.high
        missed["lower"] += best_attack([result]).lower > 0.2
    # 0.05 of 200, and three standard deviations
    assert max(missed.values()) <= 10 + 9


@pytest.mark.slow
def test_where_nothing_leaks_the_lower_bound_of_accuracy_keeps_its_word():
    """The case in which ordinary cross-validation fails two or three times as often as it says."""
    rng = np.random.default_rng(9)
    n, rounds, missed, leaks = 250, 400, 0, 0
    for _ in range(rounds):
        fact = rng.permutation(np.arange(n) % 2)
        values = rng.integers(16, size=(n, 1))
        (result,) = attack(values, [16], fact, 2, attackers=["table"], rng=rng)
        missed += result.accuracy.low > 0.5
        leaks += best_attack([result]).lower > 0
    assert missed <= 10 + 9
    assert leaks <= 20


@pytest.mark.slow
def test_where_nothing_leaks_no_attacker_claims_a_leak():
    rng = np.random.default_rng(10)
    codes, fact = rng.integers(3, size=(1500, 4)), rng.integers(2, size=1500)
    tables = [rng.dirichlet(np.ones(3), size=3) for _ in range(4)]
    results = attack_codes(codes, tables, fact, rng)
    assert [result.name for result in results] == list(ATTACKERS)
    for result in results:
        assert result.skipped is None
        for interval in (result.balanced_accuracy, result.auc):
            assert interval.low < 0.5 < interval.high
    assert best_attack(results).lower == 0.0


@pytest.mark.slow
def test_rows_of_a_group_count_once():
    """Ten copies of each row: split apart they are recognised, together they are one row."""
    rng = np.random.default_rng(11)
    rounds, missed, fooled = 40, 0, 0
    for _ in range(rounds):
        groups = np.repeat(np.arange(60), 10)
        fact = np.repeat(rng.permutation(np.arange(60) % 2), 10)
        values = np.repeat(rng.integers(4, size=(60, 6)), 10, axis=0)
        (kept,) = attack(
            values, [4] * 6, fact, 2, groups=groups, n_folds=3, attackers=["table"], rng=rng
        )
        (split,) = attack(values, [4] * 6, fact, 2, n_folds=3, attackers=["table"], rng=rng)
        scores = (kept.accuracy, kept.balanced_accuracy, kept.auc)
        missed += not all(each.low <= 0.5 <= each.high for each in scores)
        missed += best_attack([kept]).lower > 0
        fooled += split.balanced_accuracy.low > 0.8
    assert missed <= 4
    assert fooled == rounds


def test_groups_of_one_row_are_worth_as_much_as_rows(rng):
    fact = rng.permutation(np.arange(400) % 2)
    values = np.where(rng.random(400) < 0.9, fact, 1 - fact)[:, None]
    (result,) = attack(values, [2], fact, 2, groups=np.arange(400), attackers=["table"], rng=rng)
    (question,) = result.questions
    assert question.grouped and sum(question.tested) == result.rows
    assert result.balanced_accuracy.low > 0.8


def test_each_group_weighs_the_same_however_many_rows_it_has(rng):
    """A hundred homes with one row each are guessed by chance; two large ones would be always."""
    groups = np.concatenate([np.arange(200), np.repeat([200, 201], 400)])
    fact = np.concatenate([np.arange(200) % 2, np.tile([0, 1], 400)])
    told = np.concatenate([rng.integers(2, size=200), np.tile([0, 1], 400)])
    (result,) = attack(told[:, None], [2], fact, 2, groups=groups, attackers=["table"], rng=rng)
    (question,) = result.questions
    assert sum(question.tested) <= 2 * 202
    assert abs(result.balanced_accuracy.estimate - 0.5) < 0.1
    assert abs(result.accuracy.estimate - 0.5) < 0.1
    assert (result.auc.low, result.auc.high) == (0, 1)  # nothing is said for certain


def test_the_bound_pays_for_every_attacker_that_was_tried(rng):
    fact = rng.permutation(np.arange(600) % 2)
    values = np.where(rng.random(600) < 0.8, fact, 1 - fact)[:, None]
    results = attack(values, [2], fact, 2, attackers=QUICK, rng=rng)
    alone, chosen = best_attack(results[:1]), best_attack(results)
    assert (alone.comparisons, chosen.comparisons) == (1, 3)
    assert 0 < chosen.lower < alone.lower < alone.advantage
    assert best_attack(results, confidence=0.5).lower > chosen.lower
    skipped = attack(values, [2], fact, 2, attackers=["knows-all"], rng=rng)
    refused("no attacker ran", best_attack, skipped)


# --- Large, small and odd inputs -----------------------------------------------------------------


@pytest.mark.slow
def test_a_seed_gives_one_answer_whoever_else_attacks(rng):
    codes, fact = rng.integers(2, size=(500, 3)), rng.integers(2, size=500)
    args = (codes, flips(0.2, 3), fact)
    first, second = (attack_codes(*args, np.random.default_rng(5)) for _ in range(2))
    assert first == second
    (alone,) = attack_codes(*args, np.random.default_rng(5), attackers=["forest"])
    assert alone == by_name(first)["forest"]
    assert attack_codes(*args, np.random.default_rng(6), attackers=["forest"]) != [alone]


@pytest.mark.slow
def test_what_was_left_out_for_speed_is_said(rng):
    fact = (np.arange(3000) % 10 == 0).astype(int)
    values = rng.integers(2, size=(3000, 4))
    results = by_name(attack(values, [2] * 4, fact, 2, max_rows=1000, rng=rng))
    assert results["table"].note == ""
    assert results["table"].rows == 2400
    svm = results["svm"]
    assert svm.note == f"learned from at most 74 of 2400 rows; tested on {svm.rows} of 2400 rows"
    assert 490 <= svm.rows <= 500
    assert svm.questions[0].tested == (448, 48)  # in four folds, as many as in each other


@pytest.mark.slow
def test_networks_with_too_many_outputs_to_list_are_attacked_all_the_same():
    rng = np.random.default_rng(12)
    fact = rng.integers(2, size=3000)
    codes = rng.integers(2, size=(3000, 60))
    codes[:, ::10] = fact[:, None]
    results = by_name(attack_codes(codes, flips(0.25, 60), fact, rng, max_rows=5000))
    assert "outputs" in results["table"].skipped
    assert results["knows-all"].balanced_accuracy.low > 0.6
    assert results["naive-bayes"].balanced_accuracy.low > 0.8


@pytest.mark.slow
def test_wide_alphabets_are_skipped_by_those_that_count_pairs(rng):
    values, fact = rng.integers(5000, size=(100, 1)), rng.integers(2, size=100)
    results = by_name(attack(values, [5000], fact, 2, rng=rng))
    assert "counted up to" in results["telltale"].skipped
    assert results["logistic-pairs"].skipped == "there is only one sensor"
    assert results["boosting"].skipped is None


@pytest.mark.slow
def test_constant_columns_say_nothing(rng):
    fact = rng.permutation(np.arange(100) % 2)
    results = attack(np.zeros((100, 3), dtype=int), [1, 2, 3], fact, 2, rng=rng)
    for result in results[1:]:
        assert result.skipped is None
        assert result.balanced_accuracy.estimate == 0.5
        assert result.auc.estimate == 0.5


def test_a_class_with_fewer_rows_than_folds_gets_fewer_folds(rng):
    fact = np.repeat([0, 1], [40, 3])
    values = fact[:, None].copy()
    (result,) = attack(values, [2], fact, 2, attackers=["table"], rng=rng)
    assert result.questions[0].tested == (26, 2)
    assert result.balanced_accuracy.estimate == 1.0


def attack_mapping(mapping, codes, fact, **options):
    """Attack symbols that are drawn once for every row of codes, by the same generator."""
    symbols = mapping.sample(codes, options.get("rng"))
    return attack(
        symbols, mapping.n_symbols, fact, 2, tables=mapping.tables, codes=codes, **options
    )


@pytest.mark.slow
def test_raw_readings_stand_beside_the_symbols(rng):
    mapping = make_mapping()
    codes = np.stack([rng.integers(3, size=400), rng.integers(3, size=400)], axis=1)
    fact = (codes[:, 0] == 2).astype(int)
    mapped = attack_mapping(mapping, codes, fact, rng=np.random.default_rng(0))
    again = attack_mapping(mapping, codes, fact, rng=np.random.default_rng(0))
    raw = attack(codes, [3, 3], fact, 2, rng=rng)
    assert mapped == again
    assert best_attack(raw).lower > 0.3
    assert 0 < best_attack(mapped).lower < best_attack(raw).lower
    fresh = attack_mapping(mapping, codes, fact, attackers=["table"])  # the system's source
    assert fresh[0].balanced_accuracy.estimate > 0.6


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"values": np.zeros((10, 2))}, "must be integers"),
        ({"values": np.zeros(10, dtype=int)}, "one column per sensor"),
        ({"values": np.full((10, 2), 2)}, "column 0 of the values holds 2; its size covers 0..1"),
        ({"fact": np.zeros(9, dtype=int)}, "each of the 10 rows"),
        ({"fact": np.full(10, 2)}, r"classes 0\.\.1"),
        ({"fact": np.arange(10) // 9}, "class 1 has 1 rows"),
        ({"n_classes": 3}, "class 2 has 0 rows"),
        ({"attackers": ["tabel"]}, "Did you mean 'table'"),
        ({"tables": flips(0.1, 2)}, "give both"),
        ({"tables": flips(0.1, 2), "codes": np.zeros((9, 2), dtype=int)}, "not those behind"),
        ({"tables": flips(0.1, 2), "codes": np.full((10, 2), 3)}, "column 0 of the codes holds 3"),
        ({"n_folds": 1}, "n_folds must be at least 2"),
        ({"confidence": 1.0}, "confidence must be between 0 and 1"),
        ({"groups": np.zeros(9)}, "there are 10 rows"),
        ({"groups": np.arange(10) // 5}, "cannot be dealt"),
    ],
)
def test_what_cannot_be_attacked_is_refused(changes, match):
    given = {
        "values": np.zeros((10, 2), dtype=int),
        "sizes": [2, 2],
        "fact": np.arange(10) // 5,
        "n_classes": 2,
        "rng": np.random.default_rng(0),
    }
    refused(match, attack, **{**given, **changes})
