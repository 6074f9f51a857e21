"""The re-check: its promise by enumeration, what it notices, its file and its one state."""

import itertools
import re
from datetime import date, timedelta

import numpy as np
import pytest
from support.helpers import make_mapping

from discreet.auditing.audit_file import AuditSummary
from discreet.auditing.recheck import (
    Claim,
    begin,
    claims_of,
    judge,
    load_recheck,
    load_state,
    not_judged,
    standing,
)
from discreet.auditing.recheck_bets import Attackers, LabelledRows, Waiting
from discreet.data.encoders import BinsEncoder
from discreet.errors import InputError
from discreet.mapping.parts import AdditiveFusion, Fact

DAY, DAYS = date(2026, 5, 1), timedelta
NOISY = np.array([[0.9, 0.1], [0.1, 0.9]])


def home(sensors=2, private=("ann", "bob")):
    return make_mapping(
        names=[f"s{t}" for t in range(sensors)],
        encoders=[BinsEncoder(edges=[0.5])] * sensors,
        tables=[NOISY] * sensors,
        private=[Fact(name="who", classes=list(private))],
        fusion=AdditiveFusion(weights=[[-1.0, 1.0]] * sensors),
    )


TWO = home()


def begun(mapping=TWO, limit=0.1, **more):
    return begin(mapping, [Claim(fact=mapping.private[0].name, limit=limit)], DAY, **more)


def rows_of(codes, private, **more):
    codes, private = np.array(codes), np.array(private)
    return LabelledRows(codes, private % 2, [private], **more)


def drawn(n, follows, seed=0, shares=(0.5, 0.5), sensors=2):
    """Return rows whose codes are the private class with a probability, and else a coin's."""
    rng = np.random.default_rng(seed)
    private = rng.choice(2, size=n, p=shares)
    told = rng.random((n, sensors)) < follows
    return rows_of(np.where(told, private[:, None], rng.integers(2, size=(n, sensors))), private)


# --- The promise -----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(0, 1) * 4, (0, 0, 1, 0, 0, 1, 0, 1), (1, 1, 0, 1, 0, 0, 1, 0)])
@pytest.mark.parametrize("sent", [False, True])
def test_no_bets_against_a_claim_that_holds_gain_on_average(labels, sent):
    """Every sequence of readings is played, each with its probability; the claim just holds."""
    mapping = home(1)
    ones = np.array([0.4, 0.75])  # of the code 1, by class
    told = ones if sent else NOISY[0, 1] + (NOISY[1, 1] - NOISY[0, 1]) * ones
    limit, total, most = float(told[1] - told[0]) / 2, 0.0, 0.0
    for codes in itertools.product((0, 1), repeat=len(labels)):
        chances = [ones[g] if code else 1 - ones[g] for code, g in zip(codes, labels, strict=True)]
        found = begun(mapping, limit, false_share=1e-9)
        judge(found, mapping, rows_of([[c] for c in codes], labels, sent=sent), DAY)
        total, most = total + np.prod(chances) * found.evidence, max(most, found.evidence)
    assert total <= 1 + 1e-9 and most > 1.01


@pytest.mark.slow
def test_groups_may_have_the_classes_that_their_readings_bring():
    """Groups with one class read otherwise than groups with both; the claim is about each class."""
    mapping = home(1)
    kinds = [([0, 0], [0, 1]), ([1, 1], [0, 1]), ([1], [1])]  # codes and classes, equally likely
    means = [np.mean([np.mean(np.array(c)[np.array(g) == k]) for c, g in kinds if k in g])
             for k in (0, 1)]  # fmt: skip
    limit, total, most = 0.8 * float(means[1] - means[0]) / 2, 0.0, 0.0
    for groups in itertools.product(kinds, repeat=8):
        codes, labels = (list(itertools.chain(*(each[k] for each in groups))) for k in (0, 1))
        index = np.repeat(np.arange(8), [len(each[0]) for each in groups])
        found = begun(mapping, limit, false_share=1e-9)
        judge(found, mapping, rows_of([[c] for c in codes], labels, groups=index), DAY)
        total, most = total + found.evidence / len(kinds) ** 8, max(most, found.evidence)
    assert total <= 1 + 1e-9 and most > 1.01


@pytest.mark.slow
def test_a_claim_that_just_holds_is_seldom_withdrawn():
    def withdrawn(seed):
        found = begun(limit=0.10665)  # what following with 0.25 gives away, see the next test
        judge(found, TWO, drawn(300, 0.25, seed), DAY)
        return found.withdrawn is not None

    assert np.mean([withdrawn(seed) for seed in range(150)]) <= 0.05


def test_a_rise_is_noticed_and_final():
    for seed in range(5):
        found = begun(limit=0.1)
        judge(found, TWO, drawn(300, 0.7, seed), DAY)
        assert found.withdrawn is not None and found.evidence >= 20
        assert re.search(r"an attacker gained about \d+\.\d points", found.withdrawn.words)
        seen = found.withdrawn.rows
        judge(found, TWO, drawn(300, 0.0), DAY + DAYS(1))
        assert found.withdrawn.rows == found.rows == seen


def test_a_long_quiet_life_leaves_wealth_to_bet_with():
    found = begun(limit=0.1)
    judge(found, TWO, drawn(1500, 0.2), DAY)
    bettors = found.contests[0].bettors
    assert all(each.bets > 50 and each.wealth >= 0.9 * 50 / (50 + each.bets) for each in bettors)
    assert found.evidence < 1
    judge(found, TWO, drawn(300, 0.7, seed=1), DAY)
    assert found.withdrawn is not None


@pytest.mark.parametrize("shares", [(0.9, 0.1), (0.5, 0.5)])
def test_a_rare_class_delays_but_does_not_hide(shares):
    found = begun(limit=0.05)
    judge(found, TWO, drawn(1500, 0.6, shares=shares), DAY)
    assert found.withdrawn is not None
    assert all(len(rows) <= 200 for contest in found.contests for rows in contest.waiting)


def test_outputs_that_cannot_be_listed_are_drawn():
    mapping = home(14)
    found = begun(mapping, 0.1)
    judge(found, mapping, drawn(250, 0.3, sensors=14), DAY)
    assert found.withdrawn is not None
    quiet = begun(mapping, 0.1)
    judge(quiet, mapping, drawn(250, 0.0, sensors=14), DAY)
    assert quiet.withdrawn is None and quiet.evidence < 2
    assert [each.looks_at for each in quiet.contests[0].bettors] == ["decisions", "symbols"]


def test_three_classes_are_tested_in_pairs_and_together():
    mapping = home(1, "abc")
    found = begun(mapping)
    assert [each.classes for each in found.contests] == [[0, 1], [0, 2], [1, 2], [0, 1, 2]]
    assert sum(each.weight for each in found.contests) == pytest.approx(1)
    rng = np.random.default_rng(0)
    private = rng.integers(3, size=600)
    codes = np.where(rng.random(600) < 0.7, private == 2, rng.integers(2, size=600))
    judge(found, mapping, rows_of(codes[:, None].astype(int), private), DAY)
    assert found.withdrawn is not None


def test_an_answer_that_is_worse_than_claimed_is_withdrawn():
    found = begun(answer=0.95)
    rows = drawn(600, 0.0)
    judge(found, TWO, rows, DAY)
    assert found.withdrawn is not None and "at least 95.0 % was claimed" in found.withdrawn.words
    assert found.contests[-1].fact is None and found.contests[-1].weight == 0.1


def test_what_an_attacker_sees_is_the_mean_over_rows_and_symbols(rng):
    attackers, codes = Attackers(TWO), rng.integers(2, size=(3, 2)).tolist()
    rows = [Waiting(number=0, sent=False, codes=each) for each in (codes[:2], codes[2:])]
    joint = [np.outer(NOISY[a], NOISY[b]).ravel() for a, b in codes]
    wanted = (joint[0] + joint[1]) / 4 + joint[2] / 2
    np.testing.assert_allclose(attackers.cells("outputs", rows), wanted)
    decided = TWO.decide(list(itertools.product((0, 1), repeat=2)))
    np.testing.assert_allclose(
        attackers.cells("decisions", rows), np.bincount(decided, wanted, minlength=2)
    )


# --- The file --------------------------------------------------------------------------------


def test_rows_one_by_one_through_the_file_are_judged_as_all_at_once(tmp_path):
    rows, path = drawn(60, 0.5), tmp_path / "recheck.json"
    whole, found = begun(answer=0.6), begun(answer=0.6)
    judge(whole, TWO, rows, DAY)
    for k in range(60):
        judge(found, TWO, rows_of(rows.codes[k : k + 1], rows.private[0][k : k + 1]), DAY)
        found.save(path)
        found = load_recheck(path, TWO)
    assert found.evidence == pytest.approx(whole.evidence, rel=1e-12)
    assert path.stat().st_mode & 0o077 == 0


def test_a_table_that_has_grown_is_judged_from_where_it_was():
    rows, found = drawn(50, 0.2), begun()

    def part(end):
        return LabelledRows(rows.codes[:end], rows.public[:end], [rows.private[0][:end]])

    assert [len(not_judged(found, part(end)).codes) for end in (20, 20, 35, 50, 20)] == [
        20, 0, 15, 15, 0,
    ]  # fmt: skip


def test_a_group_that_was_begun_is_not_gone_on_with():
    found, groups = begun(), np.repeat(np.arange(5), 10)
    rows = drawn(50, 0.2)
    short = LabelledRows(rows.codes[:15], rows.public[:15], [rows.private[0][:15]], groups[:15])
    not_judged(found, short)
    left = not_judged(found, LabelledRows(rows.codes, rows.public, rows.private, groups))
    assert left.groups.tolist() == np.repeat([2, 3, 4], 10).tolist()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"rows":8', '"rows":-8'),
        ('"version":2', '"version":1'),
        ('"rows":8', '"rows":8,"more":1'),
        ('"in_play":0.1', '"in_play":NaN'),
        ('"in_play":0.1', '"in_play":"9"'),
        ('"share":0.75', '"share":0.95'),
        ('"looks_at":"outputs"', '"looks_at":"symbols"'),
        ('"classes":[0,1]', '"classes":[0,7]'),
        ('"limit":0.1,"weight":1.0', '"limit":0.9,"weight":1.0'),
        ('"sums":[[', '"sums":[[-1.0,'),
        ('"codes":[[', '"codes":[[7,'),
        ('"codes":[[1,', '"codes":[[2,'),
    ],
)
def test_a_file_that_was_tampered_with_is_refused(tmp_path, old, new):
    found, path = begun(), tmp_path / "recheck.json"
    judge(found, TWO, rows_of([[1, 0]] * 8, [0] * 8), DAY)
    found.save(path)
    load_recheck(path, TWO)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=r"recheck\.json: .*\."):
        load_recheck(path, TWO)


def test_the_file_of_another_mapping_is_refused(tmp_path):
    begun().save(tmp_path / "recheck.json")
    assert load_state(tmp_path / "recheck.json").mapping_id == TWO.id
    with pytest.raises(InputError, match="another mapping"):
        load_recheck(tmp_path / "recheck.json", home(1))


# --- Claims and the one state ----------------------------------------------------------------


def audit_of(limits=(), bound=0.06, releases=1, useful=True, rounds=None):
    certificate = {"name": "advantage", "certifiable": bound is not None, "value": bound}
    best = {"name": "forest", "advantage": 0.1, "lower": 0.0}
    fact = {"name": "who", "certificates": [certificate], "attacks": {"best": best}}
    fact["rounds"] = rounds
    public = {"name": "fall", "error": 0.1, "error_low": 0.0, "error_high": 0.2, "useful": useful}
    checks = [{"name": name, "limit": 0.1, "state": state, "words": ""} for name, state in limits]
    return AuditSummary.model_validate(
        {
            "mapping_id": TWO.id,
            "rows": 900,
            "confidence": 0.95,
            "date": DAY,
            "verdict": "",
            "public": {**public, "balanced": {"estimate": 0.9, "low": 0.8}},
            "private": [fact],
            "limits": checks,
            "releases": releases,
        }
    )


A_DAY = {"rounds": 1440, "certificate": {"name": "day", "certifiable": True, "value": 0.09}}


@pytest.mark.parametrize(
    ("audit", "limit", "answer"),
    [
        (audit_of(), 0.06, 0.8),
        (audit_of(useful=False), 0.06, None),
        (audit_of([("advantage", "met")]), 0.1, 0.8),
        (audit_of([("advantage", "not shown")]), 0.06, 0.8),
        (audit_of([("advantage", "met")], releases=9), 0.06, 0.8),
        (audit_of([("advantage", "met")], rounds=A_DAY), 0.06, 0.8),
        (audit_of(bound=None), None, 0.8),
    ],
)
def test_the_claim_is_the_limit_that_is_met_and_else_the_bound(audit, limit, answer):
    claims = [] if limit is None else [Claim(fact="who", limit=limit)]
    assert claims_of(audit) == (claims, answer)


def test_a_file_without_the_bound_over_all_reports_promises_none():
    assert audit_of().promised(audit_of().private[0]) == 0.06
    many = audit_of(releases=9)  # the bound on one of them is no bound on nine
    assert many.promised(many.private[0]) is None


def test_without_a_claim_there_is_nothing_to_check():
    with pytest.raises(InputError, match="nothing is claimed"):
        begin(TWO, [], DAY)
    with pytest.raises(InputError, match="does not guard 'age'"):
        begin(TWO, [Claim(fact="age", limit=0.1)], DAY)


def test_the_one_state():
    found = begun()

    def state(found, today=DAY, certified=DAY, expires=None, mapping=TWO, claims=found.claims):
        return standing(found, mapping.id, certified, expires, today, claims).state

    assert state(None) == "none" and state(None, certified=None) == "none"
    assert state(found) == "none"
    judge(found, TWO, drawn(20, 0.1), DAY)
    assert state(found) == "due"
    judge(found, TWO, drawn(400, 0.1, seed=1), DAY + DAYS(1))
    assert state(found, DAY + DAYS(31)) == "valid"
    assert state(found, DAY + DAYS(32)) == "due"
    assert state(found, expires=DAY - DAYS(1)) == "due"
    assert state(found, certified=DAY - DAYS(1)) == "none"
    assert state(found, mapping=home(1)) == "none"
    looser = [Claim(fact="who", limit=0.11)]
    assert state(found, DAY + DAYS(1), claims=looser) == "valid"
    for claims in ([Claim(fact="who", limit=0.09)], [*looser, Claim(fact="age", limit=0.2)], []):
        assert state(found, DAY + DAYS(1), claims=claims) == "none"
    judge(found, TWO, drawn(400, 0.9, seed=2), DAY + DAYS(2))
    assert state(found) == state(found, expires=DAY - DAYS(9)) == "broken"
    # A later audit may rest on the old rows: it brings a mapping that was withdrawn nothing.
    assert state(found, certified=DAY + DAYS(3)) == "broken"
