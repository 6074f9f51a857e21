"""What changed between two mappings, against sums over all readings, symbols and outputs."""

import json
import math
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.helpers import DESIGN, DOOR, HALL, TABLES, home, joint, make_mapping, refused

from discreet import compare_mappings
from discreet.auditing.mapping_diff import match_symbols, rename_symbols, same_readings
from discreet.cli.diff import describe
from discreet.data.columns import label_column
from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder
from discreet.data.split import Split, hold_out, table_digest
from discreet.leakage.exact import advantage
from discreet.mapping.parts import (
    AdditiveClassesFusion,
    AdditiveFusion,
    Deciding,
    Fact,
    PublicChain,
    Source,
    TableFusion,
)

READINGS = {
    "bins": [*np.arange(-3, 4, 0.25), -np.inf, np.inf, None],
    "categories": ["shut", "open", "ajar", "1", 1, True, "", "other", None],
    "codes": [0, 1, 2, 3, 4, None],
}


# --- Random mappings -----------------------------------------------------------------------


@st.composite
def encoders(draw, kind):
    missing = draw(st.booleans())
    if kind == "bins":
        edges = draw(st.sets(st.integers(-8, 8), max_size=4))
        return BinsEncoder(edges=[edge / 4 for edge in sorted(edges)], missing=missing)
    if kind == "categories":
        names = st.sampled_from(["shut", "open", "ajar", "1", ""])
        chosen = draw(st.lists(names, max_size=4, unique=True))
        return CategoriesEncoder(categories=chosen, missing=missing)
    return CodesEncoder(size=draw(st.integers(1, 5)), missing=missing)


def draw_mapping(seed, symbols=(2, 3), kind="table", encoder=(HALL, DOOR), **changes):
    """A mapping with random tables, no two columns of which are alike, and a random rule."""
    rng = np.random.default_rng(seed)
    tables = [
        rng.dirichlet(np.ones(size), each.n_codes)
        for size, each in zip(symbols, encoder, strict=True)
    ]
    scores = [[rng.normal(size=size).tolist() for size in symbols] for _ in range(2)]
    fusions = {
        "additive": lambda: AdditiveFusion(weights=scores[0], bias=0.25),
        "additive-classes": lambda: AdditiveClassesFusion(weights=scores, bias=[0.5, -0.25]),
        "table": lambda: TableFusion(joint=joint(math.prod(symbols), seed=seed)),
    }
    parts = {"tables": tables, "encoders": encoder, "fusion": fusions[kind]()}
    return make_mapping(**{**parts, **changes})


def permuted(mapping, ways):
    """The same mapping, its symbols called otherwise: symbol z of sensor t was ways[t][z]."""
    tables = [table[:, way] for table, way in zip(mapping.tables, ways, strict=True)]
    fusion = rename_symbols(mapping.fusion, mapping.n_symbols, range(len(ways)), ways)
    encoder = [sensor.encoder for sensor in mapping.sensors]
    return make_mapping(tables=tables, fusion=fusion, encoders=encoder)


KINDS = st.sampled_from(["additive", "additive-classes", "table"])
SEEDS = st.integers(0, 10_000)
SIZES = st.tuples(st.integers(2, 4), st.integers(2, 4))


@given(SEEDS, SIZES, KINDS)
def test_a_mapping_does_not_differ_from_itself(seed, sizes, kind):
    mapping = draw_mapping(seed, sizes, kind)
    found = compare_mappings(mapping, mapping)
    assert found.same and found.differs_in == found.facts == found.design == found.expected == ()
    assert all(each.same and each.largest == each.mean == 0.0 for each in found.sensors)
    assert found.fusion.decided_differently == 0.0


@given(SEEDS, SIZES, KINDS, st.data())
def test_symbols_that_are_called_otherwise_are_matched(seed, sizes, kind, data):
    mapping = draw_mapping(seed, sizes, kind)
    ways = [tuple(data.draw(st.permutations(range(size)))) for size in sizes]
    found = compare_mappings(mapping, permuted(mapping, ways))
    unchanged = all(list(way) == sorted(way) for way in ways)
    assert found.same == unchanged and found.same_up_to_names == (not unchanged)
    for sensor, way in zip(found.sensors, ways, strict=True):
        assert sensor.largest == 0.0
        assert tuple(way[z] for z in sensor.matched) == tuple(range(len(way)))
    assert found.fusion.same and found.fusion.decided_differently == 0.0


@given(SEEDS, SEEDS, SIZES, KINDS, KINDS)
def test_both_directions_find_the_same_figures(seed, other, sizes, kind, other_kind):
    mappings = draw_mapping(seed, sizes, kind), draw_mapping(other, sizes, other_kind)
    found, back = compare_mappings(*mappings), compare_mappings(*mappings[::-1])
    assert found.differs_in == back.differs_in and found.epsilon == back.epsilon[::-1]
    assert found.fusion.decided_differently == back.fusion.decided_differently
    for own, its in zip(found.sensors, back.sensors, strict=True):
        assert (own.largest, own.mean, own.epsilon) == (its.largest, its.mean, its.epsilon[::-1])


# --- Slow twins ----------------------------------------------------------------------------


def slow_distance(own, other, way):
    return sum(abs(int(own[i, z]) - int(other[i, w])) for i in range(len(own))
               for z, w in enumerate(way))  # fmt: skip


@pytest.mark.parametrize("n_symbols", [2, 3, 5, 7])
def test_no_other_match_of_symbols_is_nearer(rng, n_symbols):
    own, other = rng.integers(0, 20, size=(2, 4, n_symbols))
    found = match_symbols(own, other)
    assert sorted(found) == list(range(n_symbols))
    best = min(slow_distance(own, other, way) for way in permutations(range(n_symbols)))
    assert slow_distance(own, other, found) == best


@pytest.mark.parametrize("n_symbols", [2, 6, 9])
def test_names_are_left_alone_where_nothing_is_nearer(n_symbols):
    assert match_symbols(*np.ones((2, 3, n_symbols), dtype=int)) == tuple(range(n_symbols))


@pytest.mark.parametrize("n_symbols", [4, 12])
def test_a_match_is_found_for_few_and_for_many_symbols(rng, n_symbols):
    own, way = rng.integers(0, 2**32, size=(6, n_symbols)), rng.permutation(n_symbols)
    assert np.argsort(way).tolist() == list(match_symbols(own, own[:, way]))


def code_of(encoder, reading):
    try:
        return int(encoder.encode(pd.Series([reading], dtype=object), "s")[0])
    except ValueError:
        return None


@pytest.mark.parametrize("kind", READINGS)
@given(data=st.data())
@pytest.mark.slow
def test_codes_are_paired_as_readings_pair_them(kind, data):
    own, other = data.draw(encoders(kind)), data.draw(encoders(kind))
    codes = {(code_of(own, each), code_of(other, each)) for each in READINGS[kind]}
    expected = {pair for pair in codes if None not in pair}
    assert set(map(tuple, same_readings(own, other).tolist())) == expected


def test_codes_of_different_kinds_are_not_paired():
    assert same_readings(HALL, DOOR).shape == (0, 2)


def test_distances_are_those_of_every_kind_of_reading():
    cut = BinsEncoder(edges=[0.5, 1.0])
    own, other = draw_mapping(1), draw_mapping(2, encoder=(cut, DOOR))
    found = compare_mappings(own, other).sensors[0]
    rows = [
        (own.tables[0][HALL.encode([x], "s")[0]], other.tables[0][cut.encode([x], "s")[0]])
        for x in (0.0, 0.75, 1.25, 2.0)
    ]
    ways = [[0.5 * abs(a - b[list(way)]).sum() for a, b in rows] for way in ([0, 1], [1, 0])]
    nearest = min(ways, key=sum)
    assert (found.compared, found.largest) == (4, pytest.approx(max(nearest)))
    assert found.mean == pytest.approx(np.mean(nearest))
    assert (found.encoder.removed, found.encoder.added) == ((1.5,), (1.0,))
    assert not found.encoder.same


@given(SEEDS, SEEDS, KINDS, KINDS)
def test_decisions_are_compared_output_by_output(seed, other, kind, other_kind):
    own, its = draw_mapping(seed, kind=kind), draw_mapping(other, kind=other_kind)
    found = compare_mappings(own, its)
    differing = 0
    for output in product(*map(range, own.n_symbols)):
        called = [each.matched[z] for each, z in zip(found.sensors, output, strict=True)]
        differing += own.fuse([output])[0] != its.fuse([called])[0]
    assert found.fusion.decided_differently == differing / 6
    assert found.fusion.kind == (kind, other_kind) and found.fusion.outputs == 6


def test_sensors_in_another_order_are_compared_by_name():
    own = draw_mapping(3)
    table = np.array(own.fusion.joint).reshape(2, 2, 3).transpose(0, 2, 1).reshape(2, 6)
    other = make_mapping(
        names=["door", "hall"], encoders=[DOOR, HALL], tables=own.tables[::-1],
        fusion=TableFusion(joint=table.tolist()),
    )  # fmt: skip
    found = compare_mappings(own, other)
    assert found.reordered and found.differs_in == ("sensors",)
    assert found.fusion.same and found.fusion.decided_differently == 0.0


def test_the_structural_bound_is_that_of_every_pair_of_codes():
    tables = [np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]), TABLES[1]]
    found = compare_mappings(make_mapping(tables=tables), make_mapping(tables=tables))
    rows = [tables[0][:, z] for z in range(2)]
    slow = max(math.log(a / b) for row in rows for a, b in product(row, row))
    assert found.sensors[0].epsilon[0] == pytest.approx(slow)
    assert found.sensors[1].epsilon == found.epsilon == (None, None)


# --- Parts that differ ---------------------------------------------------------------------


def differing(**changes):
    return compare_mappings(make_mapping(), make_mapping(**changes))


def test_a_sensor_that_does_the_same_under_another_name_is_renamed():
    found = differing(names=["lobby", "door"])
    assert (found.sensors[0].name, found.sensors[0].new_name) == ("hall", "lobby")
    assert (found.removed, found.added, found.differs_in) == ((), (), ("sensors",))
    assert found.fusion.same


def test_other_sensors_are_removed_and_added():
    found = differing(names=["lobby", "door"], tables=[TABLES[0][::-1] * 0.5 + 0.25, TABLES[1]])
    assert (found.removed, found.added) == (("hall",), ("lobby",))
    assert not found.fusion.comparable and found.fusion.outputs is None
    assert found.differs_in == ("sensors", "fusion rule")


def test_other_numbers_of_symbols_are_not_compared():
    tables = [np.full((3, 3), 1 / 3), TABLES[1]]
    weights = [[0.0, 1.0, 2.0], [0.25, -0.5, 0.0]]
    found = differing(tables=tables, fusion=AdditiveFusion(weights=weights))
    assert found.sensors[0].symbols == (2, 3) and found.sensors[0].largest is None
    assert found.differs_in == ("numbers of symbols", "tables", "fusion rule")


def test_other_kinds_of_encoders_are_not_compared():
    found = differing(encoders=[CodesEncoder(size=3), DOOR])
    sensor = found.sensors[0]
    assert sensor.encoder.kind == ("bins", "codes")
    assert sensor.matched is None and (sensor.compared, sensor.mean) == (0, None)
    assert found.fusion.same and found.differs_in == ("encoders", "tables")


def test_facts_are_compared_with_their_classes():
    found = differing(
        public=Fact(name="fall", classes=[0, 1]), private=[Fact(name="age", classes=["old", "new"])]
    )
    assert [(each.role, each.name, each.before, each.after) for each in found.facts] == [
        ("public", "fall", (False, True), (0, 1)),
        ("private", "who", ("ann", "bob"), None),
        ("private", "age", None, ("old", "new")),
    ]
    assert "facts" in found.differs_in


def test_classes_in_another_order_are_decided_by_their_names():
    rule = AdditiveFusion(weights=[[1.2, -1.2], [-0.25, 0.5, 0.0]], bias=-0.1)
    found = differing(public=Fact(name="fall", classes=[True, False]), fusion=rule)
    assert found.fusion.decided_differently == 0.0 and not found.fusion.same


def test_a_decision_rule_counts_and_the_design_does_not():
    rule = Deciding(rule="likely", weights=[1.0, 1.0], shares=[0.5, 0.5])
    found = differing(fusion=make_mapping().fusion.model_copy(update={"decide": rule}))
    assert found.fusion.rule == ("unstated", "likely") and found.differs_in == ("fusion rule",)
    other = DESIGN.model_copy(
        update={"method": "ndd", "parameters": {"ratio": 0.99, "loss": "hinge"}, "expected": None}
    )
    found = differing(design=other)
    assert found.same and found.ids[0] != found.ids[1]
    changes = {each.name: (each.before, each.after) for each in found.design}
    assert changes["method"] == ("npo", "ndd") and changes["parameters.loss"] == (None, "hinge")
    assert "parameters.ratio" not in changes and "rows" not in changes
    assert [each.name for each in found.expected] == ["error"]


def test_a_chain_counts_and_is_shown():
    plain, moves = make_mapping(), [[0.9, 0.1], [0.2, 0.8]]
    found = compare_mappings(
        plain, plain.with_chain(PublicChain(moves=moves, interval=60.0, steps=9))
    )
    assert found.differs_in == ("chain of the public fact",)
    assert "  interval: None -> 60" in describe(found, ("a", "b"))
    assert json.loads(json.dumps(found.to_dict()))["chain"][0]["after"] == moves


def test_outputs_beyond_counting_are_not_listed():
    names, size = [f"s{t}" for t in range(40)], 3
    parts = {
        "names": names, "encoders": [CodesEncoder(size=2)] * 40,
        "tables": [np.array([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])] * 40,
    }  # fmt: skip
    rules = [AdditiveFusion(weights=[[0.0] * size] * 40, bias=bias) for bias in (0.0, 1.0)]
    found = compare_mappings(*(make_mapping(**parts, fusion=rule) for rule in rules))
    assert (found.fusion.comparable, found.fusion.outputs) == (True, None)
    assert found.fusion.decided_differently is None and found.differs_in == ("fusion rule",)


def test_everything_goes_into_json():
    found = compare_mappings(draw_mapping(0), draw_mapping(1))
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["same"] is False and content["differs_in"] == ["tables", "fusion rule"]
    assert content["sensors"][0]["largest"] == found.sensors[0].largest


# --- Error and leak ------------------------------------------------------------------------

ROWS = home(60).assign(who=["ann", "bob"] * 30, hall=np.linspace(-1, 3, 60))


def slow_figures(mapping, rows):
    """Error, balanced accuracy and advantage by going over rows and outputs one by one."""
    codes, wrong, given_who = mapping.encode(rows), [], {"ann": [], "bob": []}
    for i, row in enumerate(rows.itertuples()):
        likely = []
        for z in product(*map(range, mapping.n_symbols)):
            tables = zip(mapping.tables, codes[i], z, strict=True)
            likely.append(math.prod(table[x, symbol] for table, x, symbol in tables))
        answers = mapping.fuse(list(product(*map(range, mapping.n_symbols))))
        wrong.append(np.dot(likely, answers != row.fall))
        given_who[row.who].append(likely)
    by_class = [np.mean(np.array(wrong)[rows.fall == each]) for each in (False, True)]
    given = np.array([np.mean(each, axis=0) for each in given_who.values()])
    return np.mean(wrong), 1 - np.mean(by_class), advantage(given)


def figures(measured, side):
    answers, leak = measured.answers[side], measured.advantages[0]
    return answers.error, answers.balanced_accuracy, (leak.before, leak.after)[side]


@given(SEEDS, SEEDS)
@pytest.mark.slow
def test_error_and_leak_are_those_of_every_row_and_output(seed, other):
    mappings = draw_mapping(seed), draw_mapping(other, kind="additive")
    measured = compare_mappings(*mappings, ROWS, assume_independent=True).measured
    assert measured.rows == 60 and measured.held_out == (False, False)
    for side, mapping in enumerate(mappings):
        assert figures(measured, side) == pytest.approx(slow_figures(mapping, ROWS))


def learned(seed, split_seed, holdout=0.5, group=None, rows=ROWS):
    """A mapping that says it learned from these rows."""
    used = rows[["hall", "door", "fall", "who"]]
    split = Split(holdout=holdout, seed=split_seed, group=group)
    source = Source(digest=table_digest(used), rows=len(rows), split=split)
    return draw_mapping(seed, design=DESIGN.model_copy(update={"source": source}))


def test_rows_that_either_mapping_learned_from_are_left_out():
    mappings = learned(1, 0), learned(2, 1)
    measured = compare_mappings(*mappings, ROWS).measured
    labels = [label_column(name, ROWS[name]) for name in ("fall", "who")]
    kept = [hold_out(Split(holdout=0.5, seed=seed), labels) for seed in (0, 1)]
    both = ROWS[kept[0] & kept[1]]
    assert measured.rows == len(both) < 30 and measured.held_out == (True, True)
    assert "the 30 of 60 rows that were held out" in measured.origins[0]
    for side, mapping in enumerate(mappings):
        assert figures(measured, side) == pytest.approx(slow_figures(mapping, both))


def test_rows_that_were_all_learned_from_are_refused_as_by_the_audit():
    said = refused("cannot vouch for it", compare_mappings, learned(1, 0, holdout=0.0),
                   learned(2, 0), ROWS)  # fmt: skip
    assert "was learned from all 60 rows of this table" in said


def test_groups_are_those_of_the_learning_or_named():
    by_day, by_hour = learned(1, 0, group="day"), learned(2, 0, group="rows:6")
    refused("groups of 'day' and of 'rows:6'. Name the groups", compare_mappings, by_day,
            by_hour, ROWS)  # fmt: skip
    measured = compare_mappings(by_day, learned(2, 3), ROWS).measured
    assert "rows of the same day were learned from" in measured.learned_groups[1]
    assert measured.learned_groups[0] == ""


def test_a_private_fact_of_one_mapping_is_measured_for_both():
    other = draw_mapping(2, private=[Fact(name="pet", classes=["cat", "dog"])])
    rows = ROWS.assign(pet=["cat", "cat", "dog"] * 20)
    measured = compare_mappings(draw_mapping(1), other, rows, assume_independent=True).measured
    assert {each.name for each in measured.advantages} == {"who", "pet"}
    assert all(0 <= each.before <= 0.5 and 0 <= each.after <= 0.5 for each in measured.advantages)


def test_a_table_without_labels_is_refused():
    refused("'who'", compare_mappings, draw_mapping(1), draw_mapping(2), ROWS.drop(columns="who"))
