"""What a day tells and how long a budget lasts, against counting release by release."""

import itertools
import math
from fractions import Fraction

import pytest
from support.devices import make_sensor, write_signed
from support.helpers import refused

from discreet.data.encoders import CodesEncoder
from discreet.export.lasting import DAY, Schedule, lasting
from discreet.export.neutral import Policy
from discreet_sensor import runtime as device

COST = 2_079_442  # millionths of a nat: make_sensor's table has the ratio 8
PERIODS = [600, 7_000, 43_200, DAY, 100_000, 3 * DAY]
INTERVALS = [300, 450, 1_700, 50_000]
policies = pytest.mark.parametrize(
    ("repeat", "period", "interval"),
    list(itertools.product(["never", "code", "period"], PERIODS, INTERVALS)),
)


def counts(repeat, moments, period, rows):
    """For each release, whether a ledger counts it."""
    seen, found = {}, []
    for moment in moments:
        number = moment // period
        seen[number] = seen.get(number, 0) + 1
        most = {"never": math.inf, "code": rows, "period": 1}[repeat]
        found.append(seen[number] <= most)
    return found


@policies
def test_no_day_counts_more_than_said(repeat, period, interval):
    plan = Schedule(Policy(period=period, repeat=repeat), Fraction(interval), 4)
    most = 0
    for day in range(7):
        moments = range(day * DAY, (day + 1) * DAY, interval)  # each day seen on its own
        assert len(moments) == plan.a_day
        most = max(most, sum(counts(repeat, moments, period, 4)))
    assert most <= plan.counted_a_day
    if period % interval == 0 and DAY % period == 0:
        assert most == plan.counted_a_day


@policies
def test_a_budget_lasts_at_least_as_long_as_said(repeat, period, interval):
    plan = Schedule(Policy(period=period, repeat=repeat), Fraction(interval), 4)
    counted = counts(repeat, range(0, 60 * DAY, interval), period, 4)
    for draws in range(10):
        spent, answered = 0, 0
        while answered < len(counted) and spent + counted[answered] <= draws:
            spent += counted[answered]
            answered += 1
        if answered < len(counted):
            assert plan.answered(draws) <= answered
            if period % interval == 0 or repeat == "never":
                assert plan.answered(draws) == answered


@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_the_runtime_answers_as_many_releases_as_said(tmp_path, key, repeat):
    table = make_sensor(repeat=repeat, period=3600, budget=9.5 * COST / 1e6)
    path, ledger = write_signed(tmp_path, table, key), tmp_path / "hall.ledger"
    sensor = device.Sensor(path, public_key=key.public_hex, ledger=ledger, make_new=True)
    answered = 0
    for moment in itertools.count(0, 600):
        sensor._pass(moment)
        if not sensor._charged(sensor._turned(), 1)[1]:
            break
        sensor.release_rows([0], uptime=moment)
        answered += 1
    sensor.close()
    found = lasting([table], 600.0)
    assert found.releases == answered == {"never": 9, "code": 13, "period": 54}[repeat]


def test_days_and_figures_of_several_sensors_and_policies():
    mild = make_sensor(CodesEncoder(size=2), [[0.6, 0.4], [0.4, 0.6]], repeat="never", budget=3000)
    strong = make_sensor(name="door", repeat="never", budget=3000)
    found = lasting([mild, strong], 60.0)
    assert (found.a_day, found.first) == (1440, "door")
    assert found.releases == 3_000_000_000 // COST == 1442
    assert found.day == pytest.approx(1440 * (math.log(1.5) + math.log(8)), rel=1e-6)
    assert found.lines() == [
        "a day of 1,440 releases of each sensor: all tell at most 3,579 nats (C1), whatever is "
        "read; that much may settle any fact",
        "the budget of 3000 nats lasts 1.001 days, 1,442 releases; from then on symbols depend on "
        "no reading",
    ]
    assert lasting([make_sensor(repeat="period")], 60.0).lines() == [
        "a day of 1,440 releases of each sensor: all tell at most 2.08 nats (C1), whatever is read",
        "no budget: no bound on all days",
    ]
    code = lasting([make_sensor(budget=20)], 60.0)
    assert code.day == math.inf and code.counted == pytest.approx(4 * math.log(8), rel=1e-6)
    assert "no bound on all of them, since --repeat code shows which" in code.lines()[0]
    assert code.days == (9 // 4) + 1 / 1440
    certain = lasting([make_sensor(table=[[1, 0], [0, 1], [0.5, 0.5]], repeat="period")], 60.0)
    assert certain.lines()[0].endswith(
        "no bound on all of them: some symbol is sent only for some codes"
    )
    even = lasting([make_sensor(table=[[0.5, 0.5]] * 3, repeat="code", budget=1)], 60.0)
    assert (even.day, even.days) == (0, math.inf)
    assert even.lines()[1] == "the budget of 1 nats is never spent: the symbols tell nothing"


def test_a_budget_of_less_than_a_day_is_refused():
    for policy, says in (
        ({"repeat": "never", "budget": 20}, "lasts 9 releases of sensor 'hall', less than a day"),
        ({"repeat": "code", "budget": 2}, "lasts 0 releases"),
        ({"repeat": "period", "budget": 2}, "For a day take 2.08 nats"),
        ({"repeat": "period", "period": 3600, "budget": 20}, "lasts 540 releases"),
    ):
        table = make_sensor(**policy)
        refused(says, lasting, [table], 60.0, False)
        assert lasting([table], 60.0).shortage  # a warning, if it is wanted anyway
        enough = lasting([table], 60.0).enough
        if enough < 4294:
            assert not lasting([make_sensor(**policy | {"budget": enough})], 60.0, False).shortage
    assert lasting([make_sensor(repeat="period", budget=2.1)], 60.0, False).days == 1


def test_a_day_under_a_budget_tells_no_more_than_the_budget():
    assert lasting([make_sensor(repeat="never", budget=20)], 60.0).day == 20


def test_what_was_spent_before_is_not_counted_as_left():
    table = make_sensor(repeat="never", budget=3000)
    found = lasting([table], 60.0, spent=2_000_000_000)
    assert found.releases == 1_000_000_000 // COST == 480
    assert found.lines()[1].startswith(
        "the budget of 3000 nats, of which 2000 were spent before, lasts 0.3333 days, 480 releases"
    )
    assert "less than a day" in found.shortage
    over = lasting([table], 60.0, spent=3_500_000_000)
    assert over.releases == 0 and "of which 3000 were spent before, lasts 0 days" in over.lines()[1]
    assert lasting([make_sensor(repeat="never")], 60.0, spent=1).lines()[1].startswith("no budget")
