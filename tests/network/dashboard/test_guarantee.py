"""The health of the guarantee, day by day."""

import json
from datetime import date, timedelta

import pytest
from support.dashboards import make_audit, make_mapping
from support.report_cases import private

from discreet.errors import InputError
from discreet.network.dashboard.guarantee import AuditSummary, assess, load_audit

TODAY = date(2026, 6, 1)
DAY = timedelta(days=1)
MAPPING = make_mapping()


def summary(day=TODAY - 5 * DAY, **changes):
    return AuditSummary.model_validate(make_audit(MAPPING, day, **changes))


def state(audit=None, canary=None, expires=TODAY + 100 * DAY, mapping=MAPPING.id):
    found = assess(audit, canary, mapping, expires, TODAY)
    return (found.certificate.level, found.certificate.short), (
        found.canary.level,
        found.canary.short,
    )


@pytest.mark.parametrize(
    ("audit", "expires", "wanted"),
    [
        (None, None, ("warn", "No certificate")),
        (summary(), TODAY + 100 * DAY, ("good", "Certified")),
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
        (summary(bound=None), None, ("warn", "Not everything is certified")),
    ],
)
def test_a_certificate_has_a_date_and_runs_out(audit, expires, wanted):
    assert state(audit, expires=expires)[0] == wanted


def test_a_certificate_of_another_mapping_is_none():
    assert state(summary(), mapping="sha256:other")[0] == ("bad", "No certificate for this mapping")


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [("broken", ("bad", "A limit is broken")), ("not shown", ("warn", "A limit is not shown"))],
)
def test_limits_that_are_not_met_are_told(limit, wanted):
    content = make_audit(MAPPING, TODAY)
    content["limits"][0]["state"] = limit
    assert state(AuditSummary.model_validate(content))[0] == wanted


@pytest.mark.parametrize(
    ("canary", "wanted"),
    [
        (None, ("warn", "No canary")),
        (summary(rows=220, bound=None), ("good", "The canary is quiet")),
        (summary(rows=40, bound=None), ("warn", "The canary is small")),
        (summary(TODAY - 31 * DAY, rows=220), ("warn", "The canary is old")),
        (summary(rows=220, reached=0.06), ("good", "The canary is quiet")),
        (summary(rows=220, reached=0.061), ("bad", "The guarantee no longer fits")),
        (summary(TODAY - 90 * DAY, reached=0.2), ("bad", "The guarantee no longer fits")),
    ],
)
def test_a_canary_that_leaks_more_than_is_certified_is_an_alarm(canary, wanted):
    assert state(summary(bound=0.06), canary)[1] == wanted


def test_a_canary_of_another_mapping_says_nothing():
    other = AuditSummary.model_validate(make_audit(make_mapping(("a", "b")), TODAY, reached=0.4))
    found = assess(summary(), other, MAPPING.id, None, TODAY)
    assert found.canary.short == "The canary is of another mapping"
    assert found.facts[0].canary is None


@pytest.mark.slow
def test_what_the_audit_writes_can_be_read(tmp_path):
    found, _ = private(400)
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
