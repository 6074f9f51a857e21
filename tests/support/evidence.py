"""Sites whose evidence is looked at: certified, expired, withdrawn, without an audit, and more."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np

from discreet.auditing.audit import audit_checked_data
from discreet.auditing.data import AuditOptions, audit_data_from_arrays
from discreet.auditing.results import with_report
from discreet.data.encoders import BinsEncoder
from discreet.mapping.parts import AdditiveClassesFusion, Fact
from support.dashboards import make_audit, make_mapping, make_recheck
from support.report_cases import mapping, page, private
from support.sites import make_site

TODAY = datetime.now(UTC).date()


def days_ago(count):
    return TODAY - timedelta(days=count)


def audited_site(folder):
    """A site with a real audit and its report."""
    audit, _ = private()
    return _with_report(folder, audit, page(private))


def _with_report(folder, audit, page):
    (folder / "found.json").write_text(json.dumps(with_report(audit.to_dict(), page.encode())))
    site = make_site(folder, audit.mapping, audit=folder / "found.json")
    (site / "report.html").write_bytes(page.encode())
    return site


def site_with(folder, day=TODAY, looked=None, leaks=False, facts=("who",), **changes):
    """A site whose audit is made up, of a day; ``looked``: when it was re-checked."""
    made = make_mapping(private=facts)
    (folder / "found.json").write_text(json.dumps(make_audit(made, day, facts=facts)))
    site = make_site(folder, made, audit=folder / "found.json", **changes)
    if looked is not None:
        make_recheck(made, day, looked, leaks=leaks).save(site / "recheck.json")
    return site


def site_of_five_classes(folder):
    """A real audit of five public classes and two secrets."""
    rng, n = np.random.default_rng(0), 600
    public, who, ill = rng.integers(5, size=n), rng.integers(2, size=n), rng.integers(3, size=n)
    found = mapping(
        ["heat", "sound"],
        [BinsEncoder(edges=[0.5, 1.5, 2.5, 3.5])] * 2,
        [np.full((5, 5), 0.1) + 0.5 * np.eye(5)] * 2,
        Fact(name="what", classes=["cook", "eat", "rest", "sleep", "away"]),
        [Fact(name="who", classes=["ann", "bob"]), Fact(name="<ill>", classes=[0, 1, 2])],
        fusion=AdditiveClassesFusion(
            weights=[[row.tolist()] * 2 for row in np.eye(5)], bias=[0.0] * 5
        ),
    )
    X = np.stack([public, (public + rng.integers(2, size=n)) % 5], axis=1).astype(float)
    names = np.array(["cook", "eat", "rest", "sleep", "away"])
    secrets = np.stack([np.array(["ann", "bob"], dtype=object)[who], ill.astype(object)], axis=1)
    data = audit_data_from_arrays(found, X, names[public], secrets)
    audit = audit_checked_data(data, AuditOptions(max_advantage=0.3))
    return _with_report(folder, audit, audit.to_html())
