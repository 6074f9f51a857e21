"""The health of the guarantee, day by day."""

import json
from datetime import date, timedelta

import pytest
from support.dashboards import make_audit, make_mapping, make_recheck
from support.report_cases import private

from discreet.auditing.audit_file import AuditSummary, load_audit
from discreet.errors import InputError
from discreet.network.dashboard.guarantee import assess, guarantee_of
from discreet.network.dashboard.snapshot import _Watched
from discreet.network.evidence_pack.packing import state_of

TODAY = date(2026, 6, 1)
DAY = timedelta(days=1)
MAPPING, OTHER = make_mapping(), make_mapping(("a", "b"))


BOUND = {"name": "advantage", "certifiable": True, "value": 0.1}
SECRET = {
    "column": "x", "from_answer": 0.0, "gain": {"estimate": 0.1, "low": -0.1, "high": 10**400},
}  # fmt: skip


def summary(day=TODAY - 5 * DAY, **changes):
    return AuditSummary.model_validate(make_audit(MAPPING, day, **changes))


def state(audit=None, recheck=None, expires=TODAY + 100 * DAY, mapping=MAPPING):
    found = assess(audit, recheck, mapping, expires, TODAY)
    return tuple((each.level, each.short) for each in (found.certificate, found.recheck))


@pytest.mark.parametrize(
    ("audit", "expires", "wanted"),
    [
        (None, None, ("warn", "No certificate")),
        (summary(), TODAY + 100 * DAY, ("warn", "Certified, never re-checked")),
        (
            summary().model_copy(update={"conditions": ("rows are independent (declared)",)}),
            TODAY + 100 * DAY,
            ("warn", "Certified on condition"),
        ),
        (
            summary().model_copy(
                update={"public": summary().public.model_copy(update={"useful": False})}
            ),
            TODAY + 100 * DAY,
            ("warn", "Certified, but not useful"),
        ),
        (summary(), TODAY + 14 * DAY, ("warn", "Certificate runs out soon")),
        (summary(), TODAY, ("warn", "Certificate runs out soon")),
        (summary(), TODAY - DAY, ("bad", "Certificate expired")),
        (summary(), None, ("warn", "Certified, without an end")),
        (summary(bound=None, limits=False), None, ("warn", "Not everything is certified")),
    ],
)
def test_a_certificate_has_a_date_and_runs_out(audit, expires, wanted):
    assert state(audit, expires=expires)[0] == wanted


def test_a_certificate_of_another_mapping_is_none():
    assert state(summary(), mapping=OTHER)[0] == ("bad", "No certificate for this mapping")


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [("broken", ("bad", "A limit is broken")), ("not shown", ("warn", "A limit is not shown"))],
)
def test_limits_that_are_not_met_are_told(limit, wanted):
    content = make_audit(MAPPING, TODAY)
    content["limits"][0]["state"] = limit
    assert state(AuditSummary.model_validate(content))[0] == wanted


AGREES = make_recheck(MAPPING, TODAY - 5 * DAY, TODAY - 2 * DAY)
LEAKS = make_recheck(MAPPING, TODAY - 5 * DAY, TODAY - 2 * DAY, leaks=True)
FEW = make_recheck(MAPPING, TODAY - 5 * DAY, TODAY - 2 * DAY, rows=9)
OLD = make_recheck(MAPPING, TODAY - 5 * DAY, TODAY - 31 * DAY)


@pytest.mark.parametrize(
    ("recheck", "certificate", "wanted"),
    [
        (None, ("warn", "Certified, never re-checked"), ("warn", "Never re-checked")),
        (AGREES, ("good", "Certified"), ("good", "The re-check agrees")),
        (FEW, ("warn", "Certified, a re-check is due"), ("warn", "A re-check is due")),
        (OLD, ("warn", "Certified, a re-check is due"), ("warn", "A re-check is due")),
        (LEAKS, ("bad", "Certificate withdrawn"), ("bad", "The guarantee no longer holds")),
    ],
)
def test_a_recheck_overrides_what_is_said_of_the_certificate(recheck, certificate, wanted):
    assert state(summary(), recheck) == (certificate, wanted)


@pytest.mark.parametrize(
    ("tested", "wanted"),
    [
        ({}, ("good", "The re-check agrees")),
        ({"limit": 0.05}, ("good", "The re-check agrees")),
        ({"limit": 0.45}, ("warn", "Never re-checked")),
        ({"facts": ("who",)}, ("warn", "Never re-checked")),
    ],
)
def test_a_recheck_of_less_than_the_certificate_claims_is_none(tested, wanted):
    both, day = make_mapping(private=("who", "room")), TODAY - 5 * DAY
    audit = AuditSummary.model_validate(make_audit(both, day, facts=("who", "room")))
    looked = make_recheck(both, day, TODAY, rows=900, **tested)
    assert looked.supported == TODAY
    given = audit, looked, both, TODAY + 100 * DAY, TODAY
    found = assess(*given)
    pack = state_of(found, given[3])
    assert (found.recheck.level, found.recheck.short) == wanted
    assert pack.level == wanted[0] and bool(pack.recheck_rows) == (wanted[0] == "good")


@pytest.mark.parametrize(
    ("facts", "classes", "said"),
    [
        (("who",), (), "says nothing about the private fact 'room'"),
        (("who", "room", "age"), (), "is about 'age', which the mapping does not guard"),
        (("who", "room"), ("ann", "zoe"), "has other classes of 'who'"),
        (("room", "who"), ("ann", "bob"), ""),
    ],
)
def test_an_audit_of_other_private_facts_than_the_mapping_guards_is_none(facts, classes, said):
    both, day = make_mapping(private=("who", "room")), TODAY - 5 * DAY
    content = make_audit(both, day, facts=facts)
    for fact in content["private"]:
        fact["classes"] = classes
    audit = AuditSummary.model_validate(content)
    given = audit, make_recheck(both, day, TODAY, rows=900), both, TODAY + 100 * DAY, TODAY
    found = assess(*given)
    pack = state_of(found, given[3])
    assert (found.certificate.level, pack.level) == (("bad", "bad") if said else ("good", "good"))
    assert said in found.certificate.words and said in pack.words[0]
    assert len(found.facts) == (0 if said else 2) and pack.bounds_count == (not said)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("/private/0/certificates/0/value", 1e308),
        ("/private/0/certificates/1/value", 1e308),
        ("/private/0/certificates/0/value", -0.1),
        ("/private/0/attacks/best/lower", 10**400),
        ("/private/0/attacks/best/lower", 1.5),
        ("/private/0/attacks/best/advantage", -1e300),
        ("/private/0/figures/advantage", 2.0),
        ("/private/0/classes", ["ann"]),
        ("/private/0/rounds", {"rounds": 10**400, "certificate": BOUND}),
        ("/private/0/rounds", {"rounds": 9, "seconds": 0, "certificate": BOUND}),
        ("/other_secrets", {"found": [SECRET], "compared": 9}),
        ("/limits/0/limit", 1e308),
        ("/limits/0/upper", -1),
        ("/limits/0/radius", 1e308),
        ("/releases", 10**13),
        ("/releases", 10**400),
        ("/rows", 10**400),
        ("/sensors", 10**400),
        ("/private/0/certificates/0/value", "0.06"),
        ("/private/0/certificates/0/certifiable", "true"),
        ("/private/0/attacks/best/lower", True),
        ("/private/0/attacks/best_on_readings/lower", "0.4"),
        ("/public/balanced/estimate", "0.91"),
        ("/limits/0/limit", "0.1"),
        ("/rows", True),
        ("/rows", "4000"),
        ("/ok", 1),
    ],
)
def test_a_number_that_no_audit_has_is_one_message(tmp_path, place, value):
    content, path = make_audit(MAPPING, TODAY), tmp_path / "audit.json"
    path.write_text(json.dumps(content))
    assert load_audit(path)
    parent, name = content, place.split("/")[-1]
    for part in place.split("/")[1:-1]:
        parent = parent[int(part)] if isinstance(parent, list) else parent[part]
    parent[name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=rf"audit\.json: .*{name}"):
        load_audit(path)


def test_an_audit_of_no_private_fact_is_refused(tmp_path):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(make_audit(MAPPING, TODAY) | {"private": []}))
    with pytest.raises(InputError, match="private has 0 items"):
        load_audit(path)


def test_nothing_counts_days_or_bounds_of_a_certificate_that_is_withdrawn():
    def found(recheck, expires=TODAY + 9 * DAY, problem=""):
        return assess(summary(), recheck, MAPPING, expires, TODAY, problem)

    assert (found(AGREES).days_left, len(found(AGREES).facts)) == (9, 1)
    assert found(FEW).days_left is None and found(None).days_left is None
    assert found(FEW, TODAY - DAY).days_left == -1
    assert (found(LEAKS).days_left, found(LEAKS).facts) == (None, ())
    assert found(LEAKS, TODAY - DAY).certificate.short == "Certificate withdrawn"
    unread = found(None, problem="It cannot be read.")
    assert (unread.standing.state, unread.certificate.level) == ("due", "bad")
    assert unread.facts == () and unread.days_left is None
    other = assess(summary(), AGREES, OTHER, TODAY + 9 * DAY, TODAY)
    assert (other.standing.state, other.facts, other.days_left) == ("none", (), None)
    assert (other.issued, other.expires, other.audit) == (None, None, None)
    expired = found(AGREES, TODAY - DAY)
    assert expired.facts == () and [each.short for each in expired.findings] == [
        "Certificate expired"
    ]


@pytest.mark.parametrize(
    ("day", "recheck", "short"),
    [
        (TODAY - 31 * DAY, None, "Not re-checked for 30 days"),
        (TODAY - 31 * DAY, "few", "Not re-checked for 30 days"),
        (TODAY - 90 * DAY, TODAY - 31 * DAY, "Not re-checked for 30 days"),
        (TODAY + DAY, None, "A date is yet to come"),
        (TODAY + DAY, TODAY, "A date is yet to come"),
        (TODAY - 5 * DAY, TODAY + DAY, "A date is yet to come"),
    ],
)
def test_old_and_future_certificates_are_judged_alike_by_dashboard_and_pack(day, recheck, short):
    looked = None
    if recheck is not None:
        few = recheck == "few"
        looked = make_recheck(MAPPING, day, TODAY if few else recheck, rows=9 if few else 260)
    given = summary(day), looked, MAPPING, TODAY + 300 * DAY, TODAY
    found = assess(*given)
    pack = state_of(found, given[3])
    assert (found.certificate.level, found.certificate.short) == ("bad", short)
    assert (found.level, found.standing.state, found.facts) == ("bad", "due", ())
    assert (pack.level, pack.headline, pack.certified) == ("bad", short, None)
    assert found.findings == [found.certificate]
    assert not pack.bounds_count and pack.words == (found.certificate.words,)


def test_thirty_days_without_a_re_check_are_not_too_many():
    found = assess(summary(TODAY - 30 * DAY), None, MAPPING, None, TODAY)
    assert (found.certificate.level, found.standing.until) == ("warn", TODAY) and found.facts


def test_a_recheck_of_another_mapping_says_nothing():
    other = make_recheck(make_mapping(("a", "b")), TODAY - 5 * DAY, TODAY, leaks=True)
    assert state(summary(), other)[1] == ("warn", "Never re-checked")


def test_the_state_of_a_folder_is_due_where_a_file_cannot_be_read(tmp_path):
    def now():
        return guarantee_of(tmp_path, None, MAPPING, TODAY).standing.state

    assert now() == "none"
    audit = make_audit(MAPPING, TODAY - 5 * DAY)
    (tmp_path / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    for recheck, wanted in ((AGREES, "valid"), (FEW, "due"), (LEAKS, "broken")):
        recheck.save(tmp_path / "recheck.json")
        assert now() == wanted
    (tmp_path / "recheck.json").write_text("{")
    assert now() == "due"


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 400])  # of 24 reports, and of one
def test_what_the_audit_writes_can_be_read(tmp_path, rows):
    found, _ = private(rows)
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(found.to_dict()), encoding="utf-8")
    read = load_audit(path)
    assert read.mapping_id == found.mapping_id
    assert read.private[0].bound == found.private[0].certificate("advantage").bound
    assert read.private[0].reached == found.private[0].attacks.best.lower
    assert [each.state for each in read.limits] == [each.state for each in found.limits]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "discreet-audit"}', "NaN", "[" * 9999])
def test_anything_else_is_one_message(tmp_path, text):
    path = tmp_path / "audit.json"
    assert load_audit(path) is None
    path.write_text(text)
    with pytest.raises(InputError, match=r"audit\.json"):
        load_audit(path)


def test_a_file_that_breaks_its_reader_is_a_problem_however_often_it_is_looked_at(tmp_path):
    def load(path):
        raise OverflowError("too large")

    (tmp_path / "audit.json").write_text("{}")
    watched = _Watched(tmp_path / "audit.json", load)
    for _ in range(2):
        assert watched.value is None and "is not sound (OverflowError)" in watched.problem
