from dataclasses import replace

import numpy as np
import pytest

from discreet import Mapper, RandomizedResponseMapper, audit
from discreet.auditing.audit import audit_checked_data
from discreet.auditing.bounds.certificates import Certificate, NotCertifiable
from discreet.auditing.bounds.over_time import WindowBound
from discreet.auditing.data import AuditOptions
from discreet.auditing.rounds import RoundsAudit, WindowAttack, _attacked_windows, certify_series
from discreet.auditing.table_rows import audit_data_from_table
from discreet.cli.audit import _describe_rounds
from discreet.errors import InputError
from discreet.mapping.mapping import Mapping
from discreet.rounding import say_span
from research.houses import house

SENSORS = ["motion", "weight"]
pytestmark = pytest.mark.usefixtures("few_attackers")


@pytest.fixture(scope="module")
def mapping() -> Mapping:
    rows = house(np.random.default_rng(0), 4, 300, (0.9, 0.9))
    mapper = Mapper(max_advantage=0.05, random_state=0)
    return mapper.fit(rows[SENSORS], rows["fall"], private=rows["who"]).mapping_


def audited(mapping, rows, rounds=60, **more):
    data = audit_data_from_table(mapping, rows, group="date:day", time_column="date")
    return audit_checked_data(data, AuditOptions(rounds=rounds, **more))


@pytest.mark.slow
def test_a_window_is_certified_where_the_fact_is_all_that_links_rounds(mapping):
    rows = house(np.random.default_rng(1), 8, 600, (0.9, 0.9))
    found = audited(mapping, rows, max_advantage=0.3)
    day = found.private[0].rounds
    assert found.ok and not day.beyond_answer and day.seconds == 60.0
    assert "as long as given the private fact of a round" in found.verdict
    assert "over 60 rounds of 60 s, an hour" in found.verdict
    assert day.certificate.bound == dict(day.by_window)[60] < 0.3
    assert sorted(value for _, value in day.by_window) == [value for _, value in day.by_window]
    assert {each.window for each in day.attacks} == {1, 4, 16, 60}
    for each in day.attacks:
        assert each.advantage < dict(day.by_window)[each.window] + 4 * each.error
    assert "a day" in say_span(1440, 60.0) and say_span(7, None) == "7 rounds"
    stored = found.to_dict()["private"][0]["rounds"]
    assert stored["certificate"]["certifiable"] and stored["rounds"] == 60


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["day", "late"])
@pytest.mark.slow
def test_a_series_that_contradicts_the_assumption_certifies_nothing(mapping, broken):
    rows = house(np.random.default_rng(2), 8, 600, (0.9, 0.9), broken=broken, leak=0.4)
    found = audited(mapping, rows, max_advantage=0.3)
    assert found.private[0].rounds.certificate.bound is None
    assert not found.ok and "what the series contradicts" in found.verdict


def test_a_fact_that_keeps_time_and_silence_that_tells_certify_nothing():
    rng = np.random.default_rng(7)
    rows = house(rng, 20, 240, (0.95, 0.95))
    mapper = RandomizedResponseMapper(ldp_epsilon=1.0, random_state=0)
    mapping = mapper.fit(rows[SENSORS], rows["fall"], private=rows["who"]).mapping_
    minute = np.arange(240) + rng.integers(60, size=(20, 1))
    who = (minute // 30 % 2).ravel()
    timed = rows.assign(
        who=np.array(["ann", "bob"])[who], weight=(rng.random(4800) < 0.35 + 0.3 * who).astype(int)
    )
    silent = rows[rng.random(4800) < np.where(rows["who"] == "bob", 0.6, 0.95)]
    for table, why in ((timed, "it is no chain"), (silent, "silence tells")):
        data = audit_data_from_table(mapping, table, group="date:day", time_column="date")
        (fact,) = data.private
        day = certify_series(data.rows_with(fact), data.public, "who", data.series, 240, 0.05, 0)
        assert day.certificate.bound is None and why in day.certificate.words


@pytest.mark.slow
def test_a_public_fact_that_lasts_leaves_a_bound_beyond_the_answer(mapping):
    rows = house(np.random.default_rng(3), 8, 600, (0.9, 0.9), public_stay=0.95)
    found = audited(mapping, rows, max_advantage=0.3)
    day = found.private[0].rounds
    assert day.beyond_answer and not found.ok
    assert "given the private fact alone rounds are not independent" in found.verdict
    beyond = audited(mapping, rows, max_advantage=0.45, beyond_answer=True)
    assert beyond.ok and "who knows every public fact" in day.certificate.words


@pytest.mark.slow
def test_without_a_series_the_chain_is_declared(mapping):
    rows = house(np.random.default_rng(4), 4, 600, (0.9, 0.9))
    facts = {"y": rows["fall"], "private": rows["who"]}
    found = audit(mapping, rows[SENSORS], rounds=60, stay=0.9, max_advantage=0.3, **facts)
    assert found.ok and found.verdict.startswith("WITHIN LIMITS ON CONDITION")
    assert "the private fact lasts as stated" in found.verdict
    told = audit(
        mapping, rows[SENSORS], rounds=4, stay=0.9, max_advantage=0.45, beyond_answer=True, **facts
    )
    assert told.ok and "given the public and the private fact of a round" in told.verdict
    assert told.private[0].rounds.beyond_answer
    constant = audit(mapping, rows[SENSORS], rounds=1440, stay=1.0, **facts)
    assert constant.private[0].rounds.certificate.bound is None  # a day may tell all


def test_windows_up_to_the_one_asked_for_are_attacked_and_keep_bounds_of_their_own():
    assert _attacked_windows(240) == [1, 4, 16, 60, 240]
    assert _attacked_windows(1440) == [1, 4, 16, 60, 250, 1000] and _attacked_windows(1) == [1]
    attacks = tuple(WindowAttack("forward-backward", n, 0.01, 0.01) for n in (1, 60, 240))
    curve = ((1, 0.05), (60, 0.31), (240, 0.5))
    certificate = Certificate("advantage of 240 rounds", NotCertifiable("they may tell all"),
                              0.95, (9, 9), (), "", "")  # fmt: skip
    longest = WindowBound(240, 0.5, 0.1, 1.0, 0.05, 2)
    found = RoundsAudit(240, certificate, False, curve, 60.0, attacks, longest)
    _, one, hour, day = _describe_rounds(found)
    assert one.split()[:2] == ["1", "5.0"] and hour.split()[:2] == ["60", "31.0"]
    assert day.split()[:2] == ["240", "none"]
    withheld = _describe_rounds(replace(found, bound=None))
    assert all(line.split()[1] == "none" for line in withheld[1:])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": 60}, "--time-column"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"rounds": 60, "stay": 1.5}, "stay must hold probabilities"),
        (
            {"rounds": 60, "stay": [0.9, 0.9, 0.9]},
            "stay has 3 probabilities",
        ),
        ({"stay": 0.9}, "Give rounds as well"),
        ({"rounds": 60, "stay": 0.9, "releases": 2}, "Give one of them"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_work(mapping, options, words, monkeypatch):
    monkeypatch.delattr("discreet.auditing.audit._Auditor")
    rows = house(np.random.default_rng(5), 1, 300, (0.9, 0.9))
    with pytest.raises(InputError, match=words):
        audit(mapping, rows[SENSORS], rows["fall"], private=rows["who"], **options)


def test_a_series_tells_how_long_a_fact_lasts(mapping):
    rows = house(np.random.default_rng(6), 4, 300, (0.9, 0.9))
    data = audit_data_from_table(mapping, rows, time_column="date", assume_independent=True)
    with pytest.raises(InputError, match="estimated from the series"):
        audit_checked_data(data, AuditOptions(rounds=60, stay=np.array([0.9])))
    assert len(np.unique(data.series.group)) == 20  # no groups: stretches instead
