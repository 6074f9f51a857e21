import itertools
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.bound_worlds.releases import Flips, HiddenBit
from support.helpers import refused
from support.worlds import (
    NOISY,
    colours,
    duplicated,
    exclusive_or,
    frame,
    mapping_of,
    rare_class,
    rare_symbol,
    silent,
)

import discreet
from discreet import audit
from discreet.auditing.audit import audit_checked_data
from discreet.auditing.bounds.certificates import NotCertifiable
from discreet.auditing.data import AuditOptions, audit_data_from_arrays
from discreet.auditing.findings import score_answers
from discreet.cli.audit import describe
from discreet.errors import InputError
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.parts import AdditiveFusion
from discreet.rounding import at_most

all_attackers = pytest.mark.all_attackers


@pytest.fixture(autouse=True)
def fewer_attackers(request):
    """Attack with few, except in tests of what all of them find."""
    if not request.node.get_closest_marker("all_attackers"):
        request.getfixturevalue("few_attackers")


def run(world, n, rng, **options):
    mapping, X, h, g = world(n, rng)
    return audit(mapping, X, h, private=g, **options)


def bounds(found):
    fact = found.private[0]
    return max(fact.attacks.best.lower, 0.0), fact.certificate("advantage").bound


# --- Leaks that must be found and named ----------------------------------------------------


@all_attackers
def test_an_exclusive_or_is_found_and_its_sensors_are_named(rng):
    found = run(exclusive_or, 4000, rng, max_advantage=0.1)
    low, high = bounds(found)
    assert low > 0.25 and low <= 0.32 <= high  # 0.82 right, by both bits or by neither
    assert not found.ok and found.verdict.startswith("LEAKS")
    assert any("'s1' and 's2' tell together" in each for each in found.private[0].findings)


@all_attackers
@pytest.mark.slow
def test_a_duplicated_sensor_is_found_and_named(rng):
    found = run(duplicated, 4000, rng)
    true = advantage(_true_given(duplicated))
    low, high = bounds(found)
    assert 0 < low <= true <= high
    assert any("'s1' and 's2' read nearly the same" in e for e in found.private[0].findings)


@cache
def _true_given(world):
    mapping, X, _, g = world(400_000, np.random.default_rng(9))
    codes, counts = np.unique(np.column_stack([mapping.encode(X), g]), axis=0, return_counts=True)
    outputs = output_probabilities(mapping.tables, codes[:, :-1])
    return np.stack(
        [counts[codes[:, -1] == k] @ outputs[codes[:, -1] == k] / counts[codes[:, -1] == k].sum()
         for k in (0, 1)]
    )  # fmt: skip


def test_a_leak_in_one_rare_symbol_is_found_and_named(rng):
    found = run(rare_symbol, 6000, rng)
    assert any(
        "symbol 2 of sensor 's1' is rare and telling" in e for e in found.private[0].findings
    )
    fact = found.private[0]
    # On average little leaks, but that symbol tells nearly all: epsilon must say so.
    assert fact.certificate("advantage").bound < 0.1
    assert fact.certificate("pairwise epsilon").bound > np.log(0.045 / 0.001)


@all_attackers
@pytest.mark.slow
def test_a_private_class_of_one_percent_is_found_and_named(rng):
    found = run(rare_class, 8000, rng)
    low, high = bounds(found)
    assert 0.2 < low <= 0.4 <= high
    assert any("class 1 is rare: 80 of 8000 rows" in each for each in found.private[0].findings)


@all_attackers
def test_a_mapping_that_leaks_nothing_shows_no_more_than_chance(rng):
    found = run(silent, 4000, rng, max_advantage=0.05)
    low, high = bounds(found)
    assert low == 0 and high < 0.05
    assert found.ok and found.verdict.startswith("WITHIN LIMITS")
    assert not found.private[0].plug_in.beyond_chance
    assert not found.private[0].findings


# --- What is promised ----------------------------------------------------------------------


@all_attackers
@pytest.mark.slow
def test_bounds_lie_on_both_sides_of_the_truth(rng):
    """One draw of each world: the truth lies between the attackers and the certificates."""
    for world in (exclusive_or, duplicated, rare_symbol):
        given = _true_given(world)
        low, high = bounds(run(world, 3000, rng))
        assert low <= advantage(given) <= high


@pytest.mark.slow
def test_confidence_is_divided_over_facts_and_limits(rng):
    mapping = mapping_of([NOISY, NOISY], private=("g", "k"))
    bits = rng.integers(2, size=(3, 500))
    found = audit(
        mapping, frame(bits[:2]), bits[0], private=bits[1:].T, max_advantage=0.4, epsilon=3.0
    )
    each = found.private[0].certificate("advantage").confidence
    assert each == pytest.approx(1 - 0.05 / 4)
    assert len(found.limits) == 2


def test_a_limit_that_is_neither_certified_nor_broken_is_not_met(rng):
    found = run(silent, 200, rng, max_advantage=0.01)
    assert not found.ok
    assert found.limits[0].state == "not shown"
    assert found.verdict.startswith("NOT SHOWN")


@pytest.mark.slow
def test_where_nothing_is_certified_no_confidence_is_stated(rng):
    asked = {"groups": pd.Series(np.arange(40) % 4, name="home")}
    stated = run(exclusive_or, 40, rng, max_advantage=0.1, **asked)
    assert stated.limits[0].upper is None and "confidence" not in stated.verdict
    open_end = run(exclusive_or, 40, rng, **asked)
    assert "can be certified, no real attacker was shown to beat guessing; B" in open_end.verdict
    assert "95 % confidence" in run(silent, 200, rng, max_advantage=0.01).verdict
    assert "95 % confidence" in run(silent, 200, rng).verdict


@pytest.mark.slow
def test_the_fact_that_is_worst_speaks_for_a_limit(rng):
    mapping = mapping_of([NOISY, NOISY], private=("g", "k"))
    bits = rng.integers(2, size=(3, 2000))
    found = audit(mapping, frame(bits[:2]), bits[0], private=bits[[2, 1]].T, max_advantage=0.2)
    assert found.limits[0].fact == "k" and found.limits[0].state == "broken"


@pytest.mark.slow
def test_of_facts_that_all_keep_a_limit_the_worst_is_quoted(rng):
    mapping = mapping_of([NOISY, NOISY], private=("g", "k"))
    bits = rng.integers(2, size=(2, 3000))
    weak = np.where(rng.random(3000) < 0.6, bits[1], 1 - bits[1])
    private = np.stack([rng.integers(2, size=3000), weak], axis=1)
    found = audit(mapping, frame(bits), bits[0], private=private, max_advantage=0.4)
    assert found.ok and found.limits[0].fact == "k"
    assert found.limits[0].upper == found.private[1].certificate("advantage").bound


@pytest.mark.slow
def test_limits_are_about_all_releases_together(rng):
    one = run(silent, 2000, rng, epsilon=3.0, max_advantage=0.1)
    assert one.ok
    many = run(silent, 2000, np.random.default_rng(0), epsilon=3.0, max_advantage=0.1, releases=99)
    assert [check.state for check in many.limits] == ["not shown", "not shown"]
    assert "over 99 reports is not shown: so many reports" in many.limits[0].words
    assert many.limits[1].upper == many.private[0].over_time.any_readings.bound > 3.0


@pytest.mark.slow
def test_independence_of_releases_counts_only_if_declared_and_the_verdict_repeats_it(rng):
    asked = {"epsilon": 3.0, "releases": 5}
    plain = run(silent, 2000, rng, **asked)
    assert not plain.ok and plain.limits[0].upper > 3.0
    declared = run(silent, 2000, np.random.default_rng(0), **asked, independent_releases=True)
    assert declared.limits[0].upper == declared.private[0].over_time.independent.bound < 3.0
    assert declared.verdict.startswith("WITHIN LIMITS ON CONDITION")
    assert "readings of different releases are independent" in declared.verdict


@pytest.mark.parametrize("world", [Flips(), HiddenBit()], ids=["flips", "hidden bit"])
def test_a_secret_that_shows_in_many_reports_only_keeps_no_limit_over_them(world, rng):
    mapping, X, y, g = world.table(4000, rng)
    assert audit(mapping, X, y, private=g, max_advantage=0.1).ok  # one report tells nothing
    assert world.advantage(20) > 0.12
    asked = {"epsilon": 4.0, "max_advantage": 0.12, "releases": 20}
    many = audit(mapping, X, y, private=g, **asked)
    assert [check.state for check in many.limits] == ["not shown", "not shown"]
    assert not many.ok


def test_a_confidence_is_never_rounded_up_to_certainty(rng):
    assert "99.9 % confidence" in run(silent, 300, rng, confidence=0.999).verdict


def test_few_rows_certify_nothing_and_the_audit_says_so(rng):
    mapping = mapping_of([np.array([[1.0, 0.0], [0.0, 1.0]])] * 2)
    bits = rng.integers(2, size=(2, 40))
    found = audit(mapping, frame(bits), bits[0], private=np.arange(40) % 2)
    epsilon = found.private[0].certificate("information epsilon")
    assert isinstance(epsilon.value, NotCertifiable)
    told = found.to_dict()["private"][0]["certificates"]
    (epsilon,) = [each for each in told if each["name"] == "information epsilon"]
    assert epsilon["certifiable"] is False and "value" not in epsilon
    assert any("40 rows are few" in remark for remark in found.remarks)
    assert "not certifiable" in "\n".join(describe(found))


@pytest.mark.slow
def test_groups_make_bounds_wider(rng):
    mapping, X, h, g = silent(2000, rng)
    alone = audit(mapping, X, h, private=g)
    grouped = audit(mapping, X, h, private=g, groups=np.arange(2000) // 20)
    assert bounds(grouped)[1] > bounds(alone)[1]
    assert any("100 groups count" in remark for remark in grouped.remarks)


@pytest.mark.slow
def test_more_outputs_than_can_be_listed_fall_back_on_the_tables(rng):
    n = 400
    bits = rng.integers(2, size=(24, n))
    quiet = [np.array([[0.52, 0.48], [0.48, 0.52]])] * 24
    found = audit(mapping_of(quiet), frame(bits), bits[0], private=bits[1])
    fact = found.private[0]
    assert fact.figures is None
    assert fact.certificate("pairwise epsilon").bound == pytest.approx(24 * np.log(52 / 48))
    assert fact.contributions[1].lost is None
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (told["format"], told["version"]) == ("discreet-audit", 1)
    assert told["program"] == f"discreet {discreet.__version__}"


@pytest.mark.slow
def test_releases_add_up(rng):
    one, ten = run(silent, 1000, rng), run(silent, 1000, np.random.default_rng(0), releases=10)
    first = one.private[0].certificate("pairwise epsilon").bound
    assert ten.private[0].over_time.independent.bound == pytest.approx(10 * first)
    assert isinstance(one.structural.total.bound, float)
    assert ten.private[0].over_time.any_readings.bound == pytest.approx(
        10 * one.structural.total.bound
    )


# --- Groups --------------------------------------------------------------------------------


def telling_homes(rng, homes=100, rows=200):
    """In 1 % of the homes half of the rows are of class 1 and show it; elsewhere nothing shows."""
    telling = np.repeat(rng.random(homes) < 0.01, rows)
    g = (rng.random(homes * rows) < np.where(telling, 0.5, 0.005)).astype(int)
    h = rng.integers(2, size=len(g))
    home = pd.Series(np.repeat(np.arange(homes), rows), name="home")
    sharp = np.array([[0.95, 0.05], [0.05, 0.95]])
    X = frame([h, np.where(telling, g, 0)])
    return mapping_of([NOISY, sharp]), X, h, g, home


@pytest.mark.slow
def test_a_row_at_random_is_not_certified_by_homes_that_happen_not_to_tell(rng):
    while True:  # a sample without a telling home, which a third of all audits see
        mapping, X, h, g, home = telling_homes(rng)
        if not (X["s1"] == 1).any():
            break
    per_row = audit(mapping, X, h, private=g, groups=home, cap=200, max_advantage=0.15)
    assert per_row.limits[0].state == "not shown"
    assert "100 homes" in per_row.limits[0].words
    per_home = audit(mapping, X, h, private=g, groups=home, max_advantage=0.15)
    assert per_home.ok and "for a home drawn at random" in per_home.verdict
    assert "homes with rows of several classes" in per_home.private[0].telling_groups.words


@pytest.mark.slow
def test_a_cap_is_named_where_the_bound_is(rng):
    mapping, X, h, g = silent(3000, rng)
    home = pd.Series(np.arange(3000) % 600, name="home")
    found = audit(mapping, X, h, private=g, groups=home, cap=5, max_advantage=0.3)
    words = found.private[0].certificate("advantage").words
    assert "a row drawn at random, a home counting with at most 5 rows of a class" in words
    assert "at most 5 rows of a class" in found.verdict


@pytest.mark.slow
def test_a_bound_that_the_tables_alone_guarantee_says_so(rng):
    mapping, X, h, g = silent(200, rng)
    home = pd.Series(np.arange(200) % 12, name="home")
    asked = {"private": g, "groups": home, "cap": 1}
    found = audit(mapping, X, h, **asked, max_advantage=0.01)
    certificate = found.private[0].certificate("advantage")
    codes = itertools.product(*(range(len(table)) for table in mapping.tables))
    sent = [output_probabilities(mapping.tables, np.array([code]))[0] for code in codes]
    widest = max(0.5 * np.abs(a - b).sum() for a, b in itertools.combinations(sent, 2))
    assert certificate.of_tables and certificate.bound == pytest.approx(0.5 * widest)
    assert "The tables alone guarantee this; 12 homes (" in certificate.words
    assert "which the tables alone guarantee: 12 homes (" in found.verdict
    printed = "\n".join(describe(found))
    assert f"{at_most(certificate.bound)} (tables)" in printed
    assert "(tables): the tables alone guarantee it, and the rows add nothing" in printed
    met = audit(mapping, X, h, **asked, max_advantage=0.49)
    assert "within the limit of 49 points, by the tables alone" in met.verdict


def test_a_bound_from_rows_is_not_said_to_be_of_the_tables(rng):
    found = run(silent, 2000, rng)
    assert not any(each.of_tables for each in found.private[0].certificates[:2])
    assert "(tables)" not in "\n".join(describe(found))


# --- What the verdict rests on -------------------------------------------------------------


def series(n, rng):
    """Readings that stay as they are for long: rows that follow one another are near copies."""
    h = rng.integers(2, size=n)
    slow = np.cumsum(rng.random(n) < 0.01) % 2
    return mapping_of([NOISY, NOISY]), frame([slow, slow]), h, rng.integers(2, size=n)


@pytest.mark.slow
def test_rows_that_depend_on_one_another_certify_nothing(rng):
    mapping, X, h, g = series(3000, rng)
    found = audit(mapping, X, h, private=g, max_advantage=0.3)
    assert found.limits[0].state == "not shown" and "resemble each other" in found.verdict
    assert all(each.bound is None for each in found.private[0].certificates)
    assert found.private[0].beyond_answer.total.bound is None
    assert found.private[0].attacks.best.lower == 0
    assert found.structural.total.bound is not None  # needs no rows
    declared = audit(mapping, X, h, private=g, max_advantage=0.3, assume_independent=True)
    assert declared.ok and declared.verdict.startswith("WITHIN LIMITS ON CONDITION")
    assert "rows are independent draws (declared), although" in declared.verdict


@pytest.mark.slow
def test_classes_in_runs_say_nothing_about_their_frequencies(rng):
    mapping, X, h, g = silent(3000, rng)
    order = np.argsort(g, kind="stable")
    found = audit(mapping, X.iloc[order], h[order], private=g[order])
    fact = found.private[0]
    assert fact.certificate("advantage").bound is not None
    for name in ("accuracy", "information epsilon"):
        assert "do not come in random order" in fact.certificate(name).value.reason
    known = audit(mapping, X.iloc[order], h[order], private=g[order], prior=[0.5, 0.5])
    assert known.private[0].certificate("accuracy").bound is not None
    assert "as frequent as stated (declared)" in known.verdict


def test_that_learning_was_stopped_is_a_remark_and_no_condition(rng):
    """What is certified of the mapping as it is does not depend on how it came about."""
    mapping, X, h, g = silent(3000, rng)
    parameters = mapping.design.parameters | {"stopped": True}
    design = mapping.design.model_copy(update={"parameters": parameters})
    data = replace(
        audit_data_from_arrays(mapping.model_copy(update={"design": design}), X, h, g),
        held_out=True,
    )
    found = audit_checked_data(data, AuditOptions(max_advantage=0.05))
    assert found.conditions == () and found.verdict.startswith("WITHIN LIMITS: ")
    assert any(each.startswith("learning was stopped early") for each in found.remarks)


def test_held_out_rows_and_nothing_declared_make_a_plain_verdict(rng):
    mapping, X, h, g = silent(3000, rng)
    data = replace(audit_data_from_arrays(mapping, X, h, g), held_out=True)
    options = AuditOptions(max_advantage=0.05)
    found = audit_checked_data(data, options)
    assert found.conditions == () and found.verdict.startswith("WITHIN LIMITS: ")
    assert any(each.endswith("(checked)") for each in found.assumptions)
    before = audit_checked_data(replace(data, audited_before="audited before"), options)
    assert before.verdict.startswith("WITHIN LIMITS ON CONDITION")
    assert before.verdict.endswith("could not be checked: audited before.")


def test_a_mapping_that_answers_nothing_is_not_useful(rng):
    mapping, X, _, g = silent(2000, rng)
    found = audit(mapping, X, rng.integers(2, size=2000), private=g, max_advantage=0.1)
    assert found.ok and not found.public.useful and not found.public.constant
    assert "BUT NOT USEFUL" in found.verdict and "not useful" in "\n".join(describe(found))
    assert found.to_dict()["public"]["useful"] is False
    rare = (rng.random(2000) < 0.02).astype(int)
    always = mapping.model_copy(
        update={"fusion": AdditiveFusion(weights=mapping.fusion.weights, bias=-50.0)}
    )
    found = audit(always, X, rare, private=g, max_advantage=0.1)
    assert found.public.constant and "the same whatever the sensors send" in found.verdict


def test_a_limit_beyond_the_answer_is_another_limit(rng):
    h, g = rng.integers(2, size=(2, 4000))
    mapping, X = mapping_of([NOISY, NOISY]), frame([h, h ^ g])
    plain = audit(mapping, X, h, private=g, max_advantage=0.2)
    told = audit(mapping, X, h, private=g, max_advantage=0.2, beyond_answer=True)
    assert plain.private[0].beyond_answer.total.bound >= 0.32
    assert told.limits[0].name == "advantage beyond the answer" and not told.ok


def test_a_limit_that_is_met_names_the_drift_it_survives(rng):
    found = run(silent, 3000, rng, max_advantage=0.1)
    (check,) = found.limits
    # Each class moved by rho raises the advantage by at most rho * eta; here eta is 0.8.
    assert check.radius == pytest.approx((0.1 - check.upper) / 0.8)
    said = float(re.search(r"by more than ([\d.]+) in total variation", check.drift)[1])
    assert check.radius - 0.001 < said <= check.radius


def test_the_verdict_quotes_every_bound_in_points_and_rounds_it_up(rng):
    found = run(silent, 3000, rng)
    upper = found.private[0].certificate("advantage").bound
    for text in (found.verdict, found.private[0].certificate("advantage").words):
        said = float(re.search(r"(?:above|by more than) ([\d.]+) points", text)[1]) / 100
        assert upper <= said < upper + 0.001
    printed = "\n".join(describe(found))
    assert re.search(rf"^  advantage +{re.escape(at_most(upper))} ", printed, re.M)


# --- Use and form --------------------------------------------------------------------------


def test_the_error_of_the_fusion_rule_is_exact(rng):
    mapping, X, h, g = exclusive_or(500, rng)
    data = audit_data_from_arrays(mapping, X, h, g)
    rows = data.rows_with(data.public)
    outputs = output_probabilities(mapping.tables, data.codes)
    symbols = np.stack(np.unravel_index(np.arange(8), (2, 2, 2)), axis=1)
    decided = mapping.decide(symbols)
    twin = np.mean([outputs[i, decided != h[i]].sum() for i in range(500)])
    error, right, constant = score_answers(mapping, rows, 0, True)
    assert error == pytest.approx(twin) and not constant
    by_class = [np.mean([outputs[i, decided == k].sum() for i in np.flatnonzero(h == k)])
                for k in (0, 1)]  # fmt: skip
    assert right == pytest.approx(by_class)


@all_attackers
@pytest.mark.slow
def test_the_same_seed_gives_the_same_audit(rng):
    mapping, X, h, g = duplicated(600, rng)
    first, second = (audit(mapping, X, h, private=g).to_dict() for _ in range(2))
    for found in (first, second):
        for fact in (found["public"], *found["private"]):
            for each in fact["attacks"]["symbols"] + fact["attacks"]["readings"]:
                del each["seconds"]
    assert first == second


@pytest.mark.slow
def test_json_holds_no_infinity_and_no_nan(rng):
    for world in (silent, rare_symbol, colours):
        text = json.dumps(run(world, 300, rng).to_dict(), allow_nan=False)
        assert json.loads(text)["format"] == "discreet-audit"


def test_unseen_categories_are_counted(rng):
    assert any("7 readings that it was not taught" in r for r in run(colours, 300, rng).remarks)


def test_progress_is_told(rng):
    told = []
    run(silent, 300, rng, report=lambda progress: bool(told.append(progress)))
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert told[0].done == 0 and told[-1].done < 1
    assert any("attackers" in each.phase for each in told)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_advantage": 0}, "max_advantage must be strictly between 0 and 1, got 0"),
        ({"epsilon": -1}, "epsilon must be a finite number above 0, got -1"),
        ({"confidence": 1.0}, "confidence must be at least 0.5 and below 1, got 1.0"),
        ({"releases": 0}, "releases must be at least 1, got 0"),
        ({"cap": 3}, "cap=3 counts the rows of groups, and there are none"),
        ({"cap": 0}, "cap must be at least 1, got 0"),
        ({"beyond_answer": True}, "max_advantage is missing"),
        ({"prior": [0.5, 0.6]}, "prior must hold 2 positive numbers that sum to 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(rng, options, said):
    refused(said, run, silent, 60, rng, **options)


def test_the_words_begin_with_the_verdict_and_end_with_the_assumptions(rng):
    found = run(duplicated, 400, rng)
    assert found.verdict.startswith(
        "NO LIMIT STATED: 'g': no attacker's advantage in one report is"
    )
    lines = describe(found)
    assert "every bound assumes:" in lines


@pytest.mark.slow
def test_rows_that_depend_on_one_another_do_not_show_that_a_mapping_is_useful(rng):
    mapping, X, _, g = series(3000, rng)
    h = X.iloc[:, 0].to_numpy()
    found = audit(mapping, X, h, private=g)
    assert found.public.balanced.low > 0.5, "independent rows would show it"
    assert not found.public.useful and "resemble each other" in found.public.doubt
    assert "BUT NOT SHOWN TO BE USEFUL" in found.verdict and "without an interval" in found.verdict
    assert "intervals hold for independent rows only" in "\n".join(describe(found))
    declared = audit(mapping, X, h, private=g, assume_independent=True)
    assert declared.public.useful and not declared.public.doubt


@pytest.mark.parametrize("wrong", ["home.json", Path("home.json"), None, {"sensors": []}])
def test_what_is_no_mapping_is_refused_with_the_call_that_reads_a_file(wrong):
    with pytest.raises(InputError, match=r"must be a Mapping .* Mapping\.load\(PATH\)"):
        audit(wrong, [[0]], [0], private=[0])
