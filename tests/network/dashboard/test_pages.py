"""How values are written, where the points of the frontier go, and what a device's budget says."""

import hashlib
import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.dashboards import make_audit, make_frontier, make_mapping
from support.frontiers import ABOUT, point

from discreet.auditing.audit_file import AuditSummary
from discreet.export.neutral import Policy, sensor_table
from discreet.frontiers.results import Frontier
from discreet.network.dashboard import pages
from discreet.network.dashboard.charts import (
    HEIGHT,
    MOST_POINTS,
    WIDTH,
    StripPlan,
    draw,
    draw_bands,
    thinned,
)
from discreet.network.dashboard.guarantee import assess
from discreet.network.dashboard.pages import (
    REASONS,
    code,
    count,
    days,
    moment,
    percent,
    seconds,
    size,
)
from discreet.network.dashboard.sensors import Device, describe_devices
from discreet.network.observed import Stored
from discreet.network.site.settings import Client, Site
from discreet.network.store.rows import ClientState, Decision, Refusal, Sample

MAPPING = make_mapping()


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (percent(0.5), "50 %"),
        (percent(1.0), "100 %"),
        (percent(0.9999), "> 99 %"),
        (percent(0.0), "0 %"),
        (percent(0.0001), "< 1 %"),
        (percent(0.12345, 1), "12.3 %"),
        (percent(None), "–"),
        (seconds(0.0004), "< 1 ms"),
        (seconds(0.02), "20 ms"),
        (seconds(3.21), "3.2 s"),
        (seconds(30.0), "30 s"),
        (seconds(600), "10 min"),
        (seconds("x"), "–"),
        (size(10), "10 B"),
        (size(1536), "1.5 KiB"),
        (size(3 * 2**40), "3.0 TiB"),
        (size(None), "–"),
        (count(1234567), "1 234 567"),
        (days(0.0), "nothing"),
        (days(0.001), "less than 2 minutes"),
        (days(0.05), "72 minutes"),
        (days(0.99), "23 hours"),
        (days(1.99), "1 day"),
        (days(1234.5), "1 234 days"),
        (code("run `a <b>` & go"), "run <code>a &lt;b&gt;</code> &amp; go"),
        (code("one ` only <b>"), "one ` only &lt;b&gt;"),
        (moment(None), "never"),
        (moment(1e30), "unknown"),
    ],
)
def test_values_are_written_for_people(written, wanted):
    assert written.replace(" ", " ") == wanted


def test_a_moment_is_told_to_the_second():
    assert 'datetime="2026-01-02T03:04:05+00:00"' in moment(1767323045)


def test_few_points_are_left_of_many_and_the_last_one_always():
    for length in (0, 1, MOST_POINTS, MOST_POINTS + 1, 10_000):
        found = thinned(range(length))
        assert len(found) <= MOST_POINTS and found == sorted(found)
        assert not length or found[-1] == length - 1


# --- Bands and cells -------------------------------------------------------------------------


def decided(number, name, reported=4):
    return Decision(number, 10.0 * number + 12, reported, 4, (0.5, 0.5), name)


def test_a_band_shows_each_round_in_its_lane_and_leaves_gaps():
    rounds = [decided(k, "a" if k < 30 else "b") for k in range(10, 60) if k not in (40, 41)]
    placed = [(each, each.round % 10 != 9) for each in rounds]
    found = draw_bands(SITE, ("a", "b", "never"), placed, 900, 600.0)
    assert found.columns == 90 and found.rounds == 48 and found.times[0] == -300.0
    a, b, never = found.lanes
    # Round k is in column 30 + k; rounds 19, 29 and so on are unsure.
    assert a.sure == "M40 0h9v1h-9zM50 0h9v1h-9z" and a.unsure == "M49 0h1v1h-1zM59 0h1v1h-1z"
    assert b.sure.startswith("M60 0h9v1h-9zM72 0h7v1h-7z") and never.sure == never.unsure == ""
    assert (a.share, b.share, never.share) == (20 / 48, 28 / 48, 0) and found.unsure == 5 / 48
    assert found.heard == "M0 1V1H40V0H70V1H72V0H90V1z"


def test_a_rare_decision_is_seen_in_a_long_window_and_many_classes_get_eight_lanes():
    classes = [str(k) for k in range(12)]
    rounds = [(decided(k, classes[11 if k == 7 else k % 7]), True) for k in range(8640)]
    found = draw_bands(SITE, classes, rounds, 86_400, 86_400.0)
    assert found.columns == 180 and len(found.lanes) == 8
    assert found.lanes[-1].name == "11" and found.lanes[-1].sure == "M0 0h1v1h-1z"


def cells(known=None, heard=(), suspended=(), now=3620.0):
    plan = StripPlan(SITE, now)
    return plan, plan.draw({"hall": known or client(enrolled=_at(0))}, heard, suspended).rows[
        "hall"
    ]


def _at(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def test_the_minute_in_which_a_device_was_started_is_not_called_partly_missing():
    new = client(enrolled=_at(1810))
    began = [("hall", 30, 2, 11.0), ("hall", 31, 6, 11.0)]
    assert cells(new, began)[1].counts["partly"] == 0
    assert cells(new, began)[1].counts["heard"] == 1
    later = [*began, ("hall", 40, 2, 11.0)]
    assert cells(new, later)[1].counts["partly"] == 1  # no first minute any more
    assert cells(client(enrolled=_at(0)), began)[1].counts["partly"] == 1


def test_a_cell_is_a_minute_and_only_whole_minutes_are_shown():
    plan, found = cells()
    assert (plan.rounds, plan.seconds, plan.columns, plan.first_round) == (6, 60.0, 60, 0)
    assert found.counts == {"silent": 59}  # the device was enrolled in the first minute
    short, long = (SITE.model_copy(update={"interval": each}) for each in (1.0, 600.0))
    assert (StripPlan(short, 1e6).columns, StripPlan(short, 1e6).seconds) == (12, 60.0)
    assert (StripPlan(long, 1e6).columns, StripPlan(long, 1e6).seconds) == (60, 600.0)


def test_cells_are_heard_partly_silent_or_suspended():
    whole = [("hall", k, 6, 11.0) for k in range(60)]
    assert cells(heard=whole)[1].counts == {"heard": 60} and cells(heard=whole)[1].share == 1.0
    whole[5], whole[7] = ("hall", 5, 4, 11.0), ("hall", 7, 6, 23.0)  # incomplete; late
    shut = [Sample(60.0 * 9 + 3, {"hall": "mac"}), Sample(60.0 * 30, {"door": "mac"})]
    found = cells(heard=whole[:20], suspended=shut)[1]
    assert found.counts == {"heard": 17, "partly": 2, "suspended": 1, "silent": 40}
    assert found.paths["partly"] == "M5 0h1v1h-1zM7 0h1v1h-1z"
    assert found.paths["silent"] == "M20 0h40v1h-40z"


def test_nobody_is_silent_before_being_enrolled_after_being_revoked_or_before_being_due():
    assert cells(client(enrolled=_at(1800)))[1].paths == {"silent": "M31 0h29v1h-29z"}
    gone = client(enrolled=_at(0), revoked=_at(1800))
    assert cells(gone)[1].paths == {"silent": "M1 0h29v1h-29z"}
    batch = client(enrolled=_at(0), batch=30)  # five minutes in a message
    sent = [("hall", k, 1, 305.0) for k in range(0, 50, 5)]
    assert cells(batch, sent)[1].paths == {"heard": "M0 0h50v1h-50z", "silent": "M50 0h5v1h-5z"}


def test_an_audit_of_a_day_is_shown_with_its_span_and_the_bound_on_all_of_it():
    content = make_audit(MAPPING, datetime.now(UTC).date())
    bound = {"name": "advantage of 1440 rounds", "certifiable": True, "value": 0.2111}
    content["private"][0]["rounds"] = {"rounds": 1440, "seconds": 60.0, "certificate": bound}
    content["limits"][0] |= {"limit": 0.1, "state": "not shown"}
    audit = AuditSummary.model_validate(content)
    assert audit.span == "1440 rounds of 60 s, a day"
    held = assess(audit, None, MAPPING, None, datetime.now(UTC).date())
    assert held.facts[0].bound == 0.2111 and held.certificate.short == "A limit is not shown"
    unknown = pages._templates().get_template("live/unknown.html")
    text = unknown.render(now=SimpleNamespace(guarantee=held), mapping=MAPPING)
    assert "at most 21.2 points, certified; ◇" in text
    assert "The dashed line is the limit, 10 points: not shown." in text
    assert "best attacker on raw readings, one report: about 46.0" in text
    assert "From 1440 rounds of 60 s, a day of every sensor" in text


def test_a_limit_is_said_once_for_all_private_facts():
    mapping = make_mapping(private=("who", "how many"))
    content = make_audit(mapping, datetime.now(UTC).date(), facts=("who", "how many"))
    content["limits"][0] |= {"limit": 0.05, "state": "not shown"}
    audit = AuditSummary.model_validate(content)
    held = assess(audit, None, mapping, None, datetime.now(UTC).date())
    unknown = pages._templates().get_template("live/unknown.html")
    text = unknown.render(now=SimpleNamespace(guarantee=held), mapping=mapping)
    assert text.count('class="scale"') == text.count('class="limit"') == 2
    assert text.count("limit, 5 points: not shown for <strong>who</strong>, ") == 1
    assert text.count("not shown for") == 1


def test_a_certified_epsilon_is_rounded_up_and_a_long_name_is_cut_where_a_limit_is_told():
    names, today = ("who", "n" * 150), datetime.now(UTC).date()
    mapping = make_mapping(private=names)
    content = make_audit(mapping, today, facts=names)
    content["private"][0]["certificates"][1]["value"] = 0.3301
    content["limits"][0] |= {"limit": 0.05, "state": "not shown"}
    held = assess(AuditSummary.model_validate(content), None, mapping, None, today)
    given = {"now": SimpleNamespace(guarantee=held), "mapping": mapping}
    templates = pages._templates()
    assert ">0.34</td>" in templates.get_template("live/certificate.html").render(given)
    told = templates.get_template("live/unknown.html").render(given).partition("not shown for")[2]
    assert "n" * 39 + "…" in told and "n" * 41 not in told


@pytest.mark.parametrize(
    ("expires", "other", "shown", "hidden"),
    [
        (1, False, ["At most, certified", "WITHIN LIMITS", "Expires", "Survives"], []),
        (-1, False, ["Certificate expired", "1 day ago"],
         ["At most, certified", "WITHIN LIMITS", "Survives"]),
        (1, True, ["No certificate for this mapping", "never, for this mapping"],
         ["At most, certified", "WITHIN LIMITS", "Survives", "Expires", "labelled rows at"]),
    ],
)  # fmt: skip
def test_the_page_of_the_guarantee_lists_only_what_counts(expires, other, shown, hidden):
    today = datetime.now(UTC).date()
    running = make_mapping(("a", "b")) if other else MAPPING
    audit = AuditSummary.model_validate(make_audit(MAPPING, today))
    held = assess(audit, None, running, today + timedelta(days=expires), today)
    page = pages._templates().get_template("live/certificate.html")
    text = page.render(now=SimpleNamespace(guarantee=held), mapping=running)
    assert all(each in text for each in shown)
    assert not any(each in text for each in hidden)


# --- The frontier ----------------------------------------------------------------------------


def test_points_stand_where_leak_and_error_say():
    picture = draw(make_frontier(MAPPING), MAPPING, None)
    places = sorted((dot.leak, dot.x) for dot in picture.dots)
    assert [x for _, x in places] == sorted(x for _, x in places)
    for dot in (*picture.dots, picture.here):
        assert 0 < dot.x < WIDTH and 0 < dot.y < HEIGHT
    lowest, highest = (min(picture.dots, key=lambda d: s * d.error) for s in (1, -1))
    assert lowest.y > highest.y  # down is better
    assert (picture.here.leak, picture.here.error) == (0.034, pytest.approx(0.071))
    assert [level.label for level in picture.levels] == ["guessing", "raw readings"]
    assert picture.levels[0].at < min(dot.y for dot in picture.dots)  # all beat guessing


def test_a_mapping_that_is_no_point_stands_where_the_audit_saw_it():
    frontier = Frontier.of(ABOUT, [point(0.1, 0.2), point(0.2, 0.1, 0.95)])
    content = make_audit(MAPPING, datetime.now(UTC).date())
    del content["public"]["balanced"]
    audit = AuditSummary.model_validate(content)
    assert draw(frontier, MAPPING, None).here is None
    assert draw(frontier, MAPPING, audit).here is None  # this audit has no balanced accuracy
    likely = Frontier.of(ABOUT.model_copy(update={"rule": "likely"}), frontier.points)
    here = draw(likely, MAPPING, audit).here
    assert (here.leak, here.error) == (0.034, 0.071)
    content = make_audit(MAPPING, datetime.now(UTC).date())
    content["public"]["balanced"] = {"estimate": 0.75, "low": 0.7, "high": 0.8}
    here = draw(frontier, MAPPING, AuditSummary.model_validate(content)).here
    assert (here.leak, here.error) == (0.034, 0.25)
    assert draw(frontier, make_mapping(("a", "b")), audit).here is None
    limit = draw(frontier, MAPPING, audit).limit  # of the audit, in points
    farthest = max(dot.x for dot in draw(frontier, MAPPING, None).dots)
    assert limit.label == "limit 10" and limit.at < farthest
    assert draw(frontier, MAPPING, None).limit is None
    assert draw(Frontier.of(ABOUT, []), MAPPING, audit) is None


@pytest.mark.parametrize("leak", [0.0, 1e-9, 0.001, 0.1, 0.19, 0.7, 0.8])
def test_axes_end_at_round_numbers(leak):
    picture = draw(Frontier.of(ABOUT, [point(leak, 0.5)]), MAPPING, None)
    labels = [float(tick.label) / 100 for tick in picture.across]  # in points
    assert labels[0] == 0 and labels[-1] >= leak * (1 - 1e-9) and 3 <= len(labels) <= 6
    assert leak == 0 or labels[-1] <= 2.01 * leak


# --- Devices ---------------------------------------------------------------------------------

SITE = Site(site="home", epoch=0, interval=10.0, deadline=2.0, broker={"port": 1})


def client(**known):
    about = {"sensors": ("hall",), "key": "0" * 64, "serial": "a", "enrolled": datetime.now(UTC)}
    return Client(**about | known)


def device(known=None, heard=None, refusals=(), now=1000.0):
    tables = {each.name: sensor_table(MAPPING.id, each, Policy()) for each in MAPPING.sensors}
    states = [] if heard is None else [ClientState("hall", *heard)]
    stored = Stored(clients=tuple(states), refusals=tuple(refusals))
    (found,) = describe_devices(SITE, {"hall": known or client()}, stored, tables, MAPPING.id, now)
    return found


@pytest.mark.parametrize(
    ("known", "last_seen", "state"),
    [
        (client(), None, "never seen"),
        (client(), 968.0, "reporting"),  # three rounds and the deadline
        (client(), 967.9, "silent"),
        (client(batch=6), 850.0, "reporting"),  # sends every six rounds only
        (client(revoked=datetime.now(UTC)), 999.0, "revoked"),
    ],
)
def test_silence_is_counted_in_rounds(known, last_seen, state):
    last = None if last_seen is None else int(last_seen // 10) - known.batch
    heard = None if last_seen is None else (last_seen, last, 1, 1, 0, 5)
    assert device(known, heard).state == state


def test_a_device_whose_rounds_are_closed_when_its_messages_come_is_late():
    for last, state in ((98, "reporting"), (97, "late")):
        assert device(client(), (999.0, last, 1, 1, 0, 5)).state == state


def test_a_budget_is_spent_and_left():
    found = device(client(budget=20.0), (999.0, 1, 1, 1, 500_000, 5))
    assert (found.spent, found.left, found.left_share) == (0.5, 19.5, 0.975)
    assert (found.cost, found.budget_level) == (pytest.approx(math.log(0.7 / 0.15), 1e-5), "good")
    # 12 releases of 1.54: four for each day, as there are three codes and the idle one.
    assert (found.days_left, days(found.days_left)) == (3.0, "3 days")
    assert device(client(budget=20.0, repeat="period"), (9.0, 1, 1, 1, 0, 5)).days_left == 12.0
    never = device(client(budget=20.0, repeat="never"), (9.0, 1, 1, 1, 0, 5))
    assert never.days_left == 12 * SITE.interval / 86_400
    assert device(client(budget=20.0), (999.0, 1, 1, 1, 18_300_000, 5)).budget_level == "warn"
    rest = device(client(budget=2.0), (999.0, 1, 1, 1, 1_600_000, 5))
    assert (round(rest.left, 6), rest.days_left, rest.budget_level) == (0.4, 0, "bad")
    gone = device(client(budget=2.0), (999.0, 1, 1, 1, 2_500_000, 5))
    assert (gone.left, gone.budget_level, gone.days_left) == (0.0, "bad", 0)


def test_without_a_limit_or_a_bound_nothing_is_promised():
    found = device(client(), (999.0, 1, 1, 1, 2**32 - 1, 5))
    assert (found.spent, found.left, found.budget_level, found.days_left) == (
        None,
        None,
        "",
        None,
    )
    damaged = device(client(budget=2.0), (999.0, 1, 1, 1, 2**32 - 1, 5))
    assert damaged.left == 0.0  # what cannot be counted counts as spent


def test_every_reason_that_the_network_page_names_has_words():
    page = (Path(__file__).parents[3] / "docs/network.md").read_text()
    told = page.partition("## Delivery")[2].partition("## Rounds")[0]
    named = set(re.findall("`([a-z][a-z-]+)`", told)) - {"shed", "quarantine"}
    assert named == set(REASONS)


def test_refusals_and_another_mapping_are_told():
    refusals = [Refusal("hall", "mac", 2, 1.0), Refusal("hall", "late", 3, 1.0)]
    refusals += [Refusal("other", "mac", 9, 1.0)]
    found = device(client(mapping="sha256:" + "0" * 64), refusals=refusals)
    assert found.refused == 2 and found.foreign  # what came late is stored
    assert not device(client(mapping=MAPPING.id)).foreign


def test_those_in_need_of_a_look_come_first():
    clients = {"b": client(sensors=("b",)), "a": client(sensors=("a",))}
    heard = [ClientState("a", 999.0, 1, 1, 1, 0, 5), ClientState("b", 1.0, 1, 1, 1, 0, 5)]
    stored = Stored(clients=tuple(heard))
    found = describe_devices(SITE, clients, stored, {}, MAPPING.id, 1000.0)
    assert [each.name for each in found] == ["b", "a"]
    assert all(isinstance(each, Device) and each.cost is None for each in found)


def test_vendored_files_are_those_that_were_recorded():
    folder = Path(pages.__file__).parent / "vendor/uplot"
    lines = re.findall(r"^    ([0-9a-f]{64})  (\S+)$", (folder / "README.md").read_text(), re.M)
    assert {name for _, name in lines} == {each.name for each in folder.glob("*.*s*")}
    for digest, name in lines:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
