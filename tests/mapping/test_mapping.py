"""The mapping: exact rounding, exact sampling, and decisions by the rule it states."""

import copy
import itertools
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.helpers import DESIGN, DOOR, TABLES, joint, make_mapping, refused

from discreet.data.dependence import Dependence
from discreet.data.encoders import BinsEncoder, CodesEncoder
from discreet.errors import CodeRangeError, InputError, MappingFileError
from discreet.mapping import mapping as module
from discreet.mapping.mapping import Mapping, now, round_rows
from discreet.mapping.parts import (
    TOTAL,
    AdditiveClassesFusion,
    AdditiveFusion,
    Deciding,
    Fact,
    TableFusion,
)

# --- Rounding ------------------------------------------------------------------------------


@st.composite
def distributions(draw):
    raw = draw(st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda x: sum(x) > 1e-3))
    exponents = draw(st.lists(st.integers(0, 60), min_size=len(raw), max_size=len(raw)))
    row = np.array(raw) * 0.5 ** np.array(exponents)
    return row / row.sum() if row.sum() > 0 else np.eye(len(raw))[0]


@given(distributions())
def test_a_rounded_row_sums_exactly_and_keeps_what_is_possible_possible(row):
    (weights,) = round_rows([row])
    assert weights.sum() == TOTAL
    np.testing.assert_array_equal(weights > 0, row > 0)


@given(distributions())
def test_rounding_is_within_a_unit_of_the_exact_share_forced_minimums_aside(row):
    (weights,) = round_rows([row])
    exact = [Fraction(float(p)) * TOTAL / sum(map(Fraction, row.tolist())) for p in row]
    forced = [p > 0 and share < 1 for p, share in zip(row, exact, strict=True)]
    for i, (weight, share) in enumerate(zip(weights.tolist(), exact, strict=True)):
        slack = sum(forced) if row[i] > row.max() - 2 / TOTAL else 0
        assert forced[i] or abs(weight - share) <= 1 + slack + Fraction(1, 1000)


@given(st.lists(st.integers(0, 2**32), min_size=1, max_size=6).filter(any))
def test_a_table_that_is_already_whole_is_not_changed(units):
    cumulative = np.sort(np.array(units[1:]) % (TOTAL + 1))
    weights = np.diff(np.concatenate([[0], cumulative, [TOTAL]]))
    np.testing.assert_array_equal(round_rows([weights / TOTAL]), [weights])


def test_largest_remainders_round_up_and_ties_go_to_the_first():
    assert round_rows([[1 / 3, 1 / 3, 1 / 3]]).tolist() == [[1431655766, 1431655765, 1431655765]]
    units = np.array([10.2, 20.7, TOTAL - 30.9])
    assert round_rows([units / TOTAL]).tolist() == [[10, 21, TOTAL - 31]]


def test_the_units_for_forced_minimums_come_from_the_largest_entry():
    row = np.full(256, 1e-300)
    row[7] = 1.0
    (weights,) = round_rows([row])
    assert weights[7] == TOTAL - 255 and (np.delete(weights, 7) == 1).all()


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ([[0.5, 0.6]], "sums to"),
        ([[0.5, 0.5 + 2e-9]], "sums to"),
        ([[1.5, -0.5]], "column 1 of a table is -0.5"),
        ([[math.nan, 1.0]], "is nan"),
        ([[math.inf, 1.0]], "is inf"),
        ([[0.0, 0.0]], "sums to"),
        ([1.0], "2-D"),
        ([[]], "2-D"),
        ([[1 / 300] * 300], "256 columns"),
    ],
)
def test_what_is_no_distribution_is_not_rounded(table, match):
    with pytest.raises(InputError, match=match):
        round_rows(table)


# --- Making --------------------------------------------------------------------------------


def test_a_mapping_shows_its_parts():
    mapping = make_mapping()
    assert mapping.names == ["hall", "door"] and mapping.n_symbols == [2, 3]
    for weights, table, wanted in zip(mapping.weights, mapping.tables, TABLES, strict=True):
        assert weights.dtype == np.int64 and (weights.sum(axis=1) == TOTAL).all()
        np.testing.assert_array_equal(table * TOTAL, weights)
        np.testing.assert_allclose(table, wanted, atol=1 / TOTAL)
        with pytest.raises(ValueError, match="read-only"):
            weights[0, 0] = 1
    assert mapping.id[7:13] in repr(mapping) and len(repr(mapping)) < 80


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"names": ["hall"]}, "1 names, 2 encoders and 2 tables"),
        ({"names": ["hall", "hall"]}, r"sensors\[1\].name is 'hall'"),
        ({"names": ["hall", "a\nb"]}, "control characters"),
        ({"names": ["hall", ""]}, "sensor '': name"),
        ({"encoders": [DOOR, BinsEncoder(edges=[])]}, "sensor 'door': weights has 3 rows"),
        ({"tables": [TABLES[0], TABLES[1] * 2]}, "sensor 'door': row 0 of a table sums to 2"),
        ({"tables": [np.ones((3, 1)), TABLES[1]]}, "sensor 'hall': symbols"),
        ({"public": Fact(name="n", classes=[1, 2, 3])}, "is for 2 public classes; there are 3"),
        ({"fusion": AdditiveFusion(weights=[[1, 2]])}, "has 1 rows; there are 2 sensors"),
    ],
)
def test_parts_that_do_not_fit_make_no_mapping(changes, match):
    with pytest.raises(InputError, match=match):
        make_mapping(**changes)


def test_the_time_of_making_is_the_only_thing_the_id_leaves_out():
    later = DESIGN.model_copy(update={"created": now()})
    again = make_mapping(design=later)
    assert again.id == make_mapping().id and again != make_mapping()
    others = [
        {"names": ["hall", "gate"]},
        {"encoders": [BinsEncoder(edges=[0.5, 1.25]), DOOR]},
        {"tables": [TABLES[0] @ [[1 - 2**-30, 2**-30], [0, 1]], TABLES[1]]},
        {"public": Fact(name="fall", classes=[0, 1])},
        {"private": []},
        {"fusion": TableFusion(joint=joint())},
        {"design": DESIGN.model_copy(update={"rows": 1001})},
        {"design": DESIGN.model_copy(update={"expected": None})},
        {"design": DESIGN.model_copy(update={"source": None})},
    ]
    assert len({make_mapping(**change).id for change in [{}, *others]}) == 1 + len(others)


def test_what_was_seen_of_the_rows_is_kept_and_leaves_other_files_as_they_were():
    before = make_mapping()
    assert "dependence" not in before.dumps()
    found = Dependence(found=True, kind="next", lag=1, strength=0.97, chance=0.03, rows=900)
    source = DESIGN.source.model_copy(update={"dependence": found})
    mapping = make_mapping(design=DESIGN.model_copy(update={"source": source}))
    assert mapping.id != before.id
    assert Mapping.loads(mapping.dumps()).design.source.dependence == found
    false = mapping.dumps().replace('"kind": "next"', '"kind": null')
    with pytest.raises(MappingFileError, match="dependence must name kind and lag if, and only"):
        Mapping.loads(false)


def test_mappings_compare_hash_and_pickle():
    mapping = make_mapping()
    mapping.sample([[0, 0]])  # fills what is kept for speed
    assert mapping == make_mapping() and mapping != "mapping"
    assert hash(mapping) == hash(make_mapping())
    assert pickle.loads(pickle.dumps(mapping)) == mapping == copy.deepcopy(mapping)


@pytest.mark.parametrize(
    "classes",
    [["a"], ["a", "a"], [1, True], [0, False], [1, "1"], [1, 1.0], [None, 1], [math.inf, 1]],
)
def test_classes_must_be_at_least_two_and_distinct(classes):
    with pytest.raises(ValueError):
        Fact(name="who", classes=classes)


def test_a_fusion_table_of_too_many_outputs_is_refused():
    with pytest.raises(InputError, match="would list 8192 outputs; at most 4096"):
        make_mapping(
            names=[f"s{i}" for i in range(13)],
            encoders=[CodesEncoder(size=1)] * 13,
            tables=[[[0.5, 0.5]]] * 13,
            fusion=TableFusion(joint=[[1.0], [0.0]]),
        )


# --- Encoding ------------------------------------------------------------------------------


def test_a_table_is_matched_by_name_and_an_array_by_place():
    mapping = make_mapping()
    table = pd.DataFrame({"door": ["shut", None], "x": [0, 0], "hall": [1.0, 2.0]}, index=[4, 4])
    expected = [[1, 0], [2, 2]]
    assert mapping.encode(table).tolist() == expected
    assert mapping.encode(table[["hall", "door"]].to_numpy()).tolist() == expected
    assert mapping.encode([[1.0, "shut"], [2.0, "open"]]).tolist() == [[1, 0], [2, 1]]


def test_readings_of_another_shape_are_refused():
    for X in (np.zeros((2, 3)), np.zeros(2), np.zeros((1, 2, 2))):
        with pytest.raises(InputError, match="the mapping has 2 sensors"):
            make_mapping().encode(X)
    with pytest.raises(InputError, match="no column 'door'"):
        make_mapping().encode(pd.DataFrame({"hall": [1.0]}))


# --- Sampling ------------------------------------------------------------------------------


class Words:
    """A generator that hands out these words, to see where the thresholds lie."""

    def __init__(self, words):
        self.words = np.array(words)

    def integers(self, low, high, size, dtype):
        assert (low, high) == (0, TOTAL)
        return self.words.reshape(size).astype(dtype)


def symbol_by_hand(weights, word):
    total = 0
    for symbol, weight in enumerate(weights):
        total += int(weight)
        if word < total:
            return symbol
    raise AssertionError("the weights sum to less than 2**32")


@given(
    distributions().filter(lambda row: len(row) > 1),
    st.lists(st.integers(0, TOTAL - 1), max_size=9),
)
def test_a_word_picks_the_symbol_that_a_scan_of_the_row_picks(row, words):
    mapping = make_mapping(
        names=["a"],
        encoders=[CodesEncoder(size=1)],
        tables=[[row]],
        fusion=AdditiveFusion(weights=[[0.0] * len(row)]),
    )
    weights = mapping.weights[0][0]
    borders = [int(b) + d for b in np.cumsum(weights) for d in (-1, 0)]
    words = [0, TOTAL - 1, *words, *(w for w in borders if 0 <= w < TOTAL)]
    found = mapping.sample(np.zeros((len(words), 1), dtype=int), rng=Words(words))
    assert found[:, 0].tolist() == [symbol_by_hand(weights, word) for word in words]


@pytest.mark.parametrize("source", ["seeded", "system"])
def test_symbols_come_as_often_as_the_table_says(source, rng, monkeypatch):
    mapping, n = make_mapping(), 60_000
    if source == "system":  # the same path as os.urandom, but with bytes that repeat
        monkeypatch.setattr(os, "urandom", rng.bytes)
    codes = np.column_stack([np.arange(n) % 3, np.arange(n) // 3 % 3])
    symbols = mapping.sample(codes, rng if source == "seeded" else None)
    for t, code in itertools.product(range(2), range(3)):
        expected = mapping.tables[t][code]
        counts = np.bincount(symbols[codes[:, t] == code, t], minlength=len(expected))
        assert (counts[expected == 0] == 0).all()
        possible = expected > 0
        if possible.sum() > 1:
            assert chisquare(counts[possible], expected[possible] * counts.sum()).pvalue > 1e-3


def test_sensors_draw_independently(rng):
    tables = [np.array([[0.5, 0.5]])] * 2
    mapping = make_mapping(
        encoders=[CodesEncoder(size=1)] * 2,
        tables=tables,
        fusion=AdditiveFusion(weights=[[0, 1]] * 2),
    )
    symbols = mapping.sample(np.zeros((40_000, 2), dtype=int), rng)
    assert chisquare(np.bincount(symbols @ [2, 1], minlength=4)).pvalue > 1e-3


def test_a_seed_repeats_and_the_system_does_not():
    mapping, codes = make_mapping(), np.zeros((200, 2), dtype=int)
    first, second = (mapping.sample(codes, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(mapping.sample(codes), mapping.sample(codes))


def test_the_size_of_a_block_does_not_change_what_is_drawn(monkeypatch):
    mapping, codes = make_mapping(), np.zeros((100, 2), dtype=int)
    whole = mapping.sample(codes, np.random.default_rng(5))
    monkeypatch.setattr(module, "_BLOCK_WORDS", 21)
    np.testing.assert_array_equal(mapping.sample(codes, np.random.default_rng(5)), whole)


def test_transform_draws_for_readings(rng):
    table = pd.DataFrame({"hall": [9.0, np.inf], "door": ["?", None]})
    symbols = make_mapping().transform(table, rng)
    assert symbols[:, 0].tolist() == [1, 1] and symbols[1, 1] == 0  # certain in these tables
    assert symbols.dtype == np.int64
    assert make_mapping().transform(table.iloc[:0]).shape == (0, 2)


@pytest.mark.parametrize("bad", [[[3, 0]], [[0, -1]], [[0, 3]]])
def test_a_code_without_a_row_is_refused(bad):
    with pytest.raises(CodeRangeError, match=r"sensor '\w+' produced code .* covers 0\.\.2"):
        make_mapping().sample(bad)


@pytest.mark.parametrize("bad", [[[2, 0]], [[0, 3]], [[-1, 0]]])
def test_a_symbol_that_cannot_be_sent_is_refused(bad):
    for method in (make_mapping().fuse, make_mapping().posterior):
        with pytest.raises(CodeRangeError, match=r"sensor '\w+' sent symbol .* covers 0\.\."):
            method(bad)


@pytest.mark.parametrize(
    "bad", [[0, 0], [[0]], [[0, 0, 0]], [[0.0, 1.0]], [["0", "1"]], [[True, False]]]
)
def test_symbols_must_be_a_table_of_integers(bad):
    with pytest.raises(InputError, match="symbols"):
        make_mapping().fuse(bad)


# --- Fusion --------------------------------------------------------------------------------

OUTPUTS = list(itertools.product(range(2), range(3)))


def test_additive_fusion_adds_one_weight_per_sensor():
    mapping = make_mapping()
    for z, found in zip(OUTPUTS, mapping.posterior(OUTPUTS), strict=True):
        score = 0.1 + [-1.2, 1.2][z[0]] + [0.25, -0.5, 0.0][z[1]]
        assert found == pytest.approx([1 - 1 / (1 + math.exp(-score)), 1 / (1 + math.exp(-score))])
        assert mapping.fuse([z]).tolist() == [score > 0]


def test_a_score_of_zero_is_the_first_class_and_the_least_above_it_the_second():
    for bias, expected in ((0.0, False), (-5e-324, False), (5e-324, True)):
        fusion = AdditiveFusion(weights=[[0, 0], [0, 0, 0]], bias=bias)
        assert make_mapping(fusion=fusion).fuse([[0, 0]]).tolist() == [expected]


def test_additive_fusion_of_classes_is_a_softmax(rng):
    weights = [[rng.normal(size=2).tolist(), rng.normal(size=3).tolist()] for _ in range(3)]
    bias = rng.normal(size=3).tolist()
    mapping = make_mapping(
        public=Fact(name="act", classes=["lie", "sit", "walk"]),
        fusion=AdditiveClassesFusion(weights=weights, bias=bias),
    )
    for z, found in zip(OUTPUTS, mapping.posterior(OUTPUTS), strict=True):
        scores = [bias[k] + weights[k][0][z[0]] + weights[k][1][z[1]] for k in range(3)]
        total = sum(map(math.exp, scores))
        assert found == pytest.approx([math.exp(score) / total for score in scores])
        assert mapping.fuse([z])[0] == ["lie", "sit", "walk"][scores.index(max(scores))]


def test_table_fusion_reads_the_column_of_the_output_first_sensor_slowest():
    table = joint()
    mapping = make_mapping(fusion=TableFusion(joint=table))
    for o, z in enumerate(OUTPUTS):
        p = [table[0][o], table[1][o]]
        np.testing.assert_allclose(mapping.posterior([z])[0], np.array(p) / sum(p))
        assert mapping.fuse([z]).tolist() == [p[1] > p[0]]


def test_an_output_never_seen_gets_the_class_marginals():
    table = [[0.0, 0.0, 0.3, 0, 0, 0], [0.0, 0.2, 0.5, 0, 0, 0]]
    mapping = make_mapping(fusion=TableFusion(joint=table))
    found = mapping.posterior([[0, 0], [0, 1], [1, 2]])
    np.testing.assert_allclose(found, [[0.3, 0.7], [0, 1], [0.3, 0.7]], atol=1e-12)


BALANCED = Deciding(rule="balanced", weights=[0.625, 2.5], shares=[0.8, 0.2])


@pytest.mark.parametrize(
    ("decide", "wanted"),
    [
        (None, [0.5, 0.5]),
        (Deciding(rule="likely", weights=[1, 1], shares=[0.8, 0.2]), [0.5, 0.5]),
        (BALANCED, [0.8, 0.2]),
        (Deciding(rule="cost", weights=[1, 10], shares=[0.8, 0.2]), [10 / 11, 1 / 11]),
    ],
)
def test_decisions_are_where_the_posterior_crosses_what_the_rule_asks(decide, wanted):
    table = joint()
    mapping = make_mapping(fusion=TableFusion(joint=table, decide=decide))
    for z, p in zip(OUTPUTS, mapping.posterior(OUTPUTS), strict=True):
        second = p[1] / wanted[1] > p[0] / wanted[0]
        assert mapping.decide([z]).tolist() == [int(second)]
        assert mapping.fuse([z]).tolist() == [second]


def test_classes_that_tie_are_decided_for_the_most_frequent_if_the_rule_is_stated():
    for fusion in (
        AdditiveFusion(weights=[[0, 0], [0, 0, 0]], bias=math.log(0.25), decide=BALANCED),
        TableFusion(joint=[[0.8, 0, 0, 0, 0, 0], [0.2, 0, 0, 0, 0, 0]], decide=BALANCED),
    ):
        mapping = make_mapping(fusion=fusion)
        assert mapping.decide(OUTPUTS).tolist() == [0] * 6
    turned = Deciding(rule="balanced", weights=[2.5, 0.625], shares=[0.2, 0.8])
    fusion = AdditiveFusion(weights=[[0, 0], [0, 0, 0]], bias=math.log(4), decide=turned)
    assert make_mapping(fusion=fusion).decide(OUTPUTS).tolist() == [1] * 6


def test_three_classes_are_decided_by_weight(rng):
    shares = [0.7, 0.2, 0.1]
    table = np.array(shares)[:, None] * rng.dirichlet(np.ones(6), size=3)
    weights = [1 / (3 * share) for share in shares]
    mapping = make_mapping(
        public=Fact(name="act", classes=["lie", "sit", "walk"]),
        fusion=TableFusion(
            joint=table.tolist(),
            decide=Deciding(rule="balanced", weights=weights, shares=shares),
        ),
    )
    likelihood = table / table.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(mapping.decide(OUTPUTS), likelihood.argmax(axis=0))


def test_the_rule_is_in_the_file_and_changes_its_id():
    plain = make_mapping(fusion=TableFusion(joint=joint()))
    stated = make_mapping(fusion=TableFusion(joint=joint(), decide=BALANCED))
    assert plain.id != stated.id and "decide" not in plain.dumps()
    again = Mapping.loads(stated.dumps())
    assert again == stated and again.fusion.decide == BALANCED
    np.testing.assert_array_equal(again.decide(OUTPUTS), stated.decide(OUTPUTS))
    assert Mapping.loads(plain.dumps()).fusion.decide is None


def test_extreme_scores_stay_probabilities():
    fusion = AdditiveFusion(weights=[[-1e15, 1e15], [-1e15, 1e15, 0]], bias=1e15)
    found = make_mapping(fusion=fusion).posterior(OUTPUTS)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("classes", "kind"),
    [([False, True], "b"), ([3, 5], "i"), (["a", "b"], "U"), ([0.5, 1.5], "f"), (["a", 1], "O")],
)
def test_decisions_are_the_classes_themselves(classes, kind):
    mapping = make_mapping(public=Fact(name="fall", classes=classes))
    found = mapping.fuse([[0, 1], [1, 0]])
    assert found.tolist() == classes and found.dtype.kind == kind
    assert mapping.fuse(np.empty((0, 2), dtype=int)).shape == (0,)
    assert mapping.posterior(np.empty((0, 2), dtype=int)).shape == (0, 2)


def test_a_mapping_is_a_table_and_a_picture_in_a_notebook():
    found = make_mapping()
    frame = found.to_frame()
    assert list(dict.fromkeys(frame.index.get_level_values("sensor"))) == found.names
    first = frame.loc[found.names[0]].dropna(axis=1)
    np.testing.assert_array_equal(first.to_numpy(), found.tables[0])
    assert f"Mapping {found.id[7:13]}" in found._repr_html_()
    titles = [axes.get_title() for axes in found.plot().axes if axes.get_title()]
    assert titles == [name[:30] for name in found.names]


# --- Noise ---------------------------------------------------------------------------------


@given(st.floats(0.01, 1.0), st.integers(0, 2**16))
def test_with_noise_each_sensor_keeps_its_symbol_or_draws_one_evenly(kept, seed):
    plain = make_mapping(fusion=TableFusion(joint=joint(seed=seed)))
    noisy = plain.with_noise(kept)
    law = np.zeros((2, 2, 3))
    before = np.reshape(plain.fusion.joint, law.shape)
    for sent, heard in itertools.product(np.ndindex(2, 3), repeat=2):
        keeps = [
            kept * (a == b) + (1 - kept) / n for a, b, n in zip(sent, heard, (2, 3), strict=True)
        ]
        law[:, *heard] += before[:, *sent] * np.prod(keeps)
    np.testing.assert_allclose(noisy.fusion.joint, law.reshape(2, -1), atol=1e-12)
    for own, table in zip(noisy.tables, plain.tables, strict=True):
        np.testing.assert_allclose(own, kept * table + (1 - kept) / table.shape[1], atol=1e-9)
    assert noisy.design.parameters["kept"] == kept and noisy.id != plain.id
    assert Mapping.loads(noisy.dumps()) == noisy


def test_noise_needs_a_probability_and_a_rule_that_lists_outputs():
    listed = make_mapping(fusion=TableFusion(joint=joint()))
    for kept in (0.0, -0.1, 1.1, float("nan")):
        refused(f"kept must be above 0 and at most 1, got {kept}", listed.with_noise, kept)
    refused("adds up scores of its sensors", make_mapping().with_noise, 0.5)
