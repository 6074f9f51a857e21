"""Rounds beside an obvious twin that looks at every event for every row."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs import WRITERS, write_recorder

from discreet.errors import InputError
from discreet.importing.rounds import EventList, Rounds, local_times, make_table, utc_seconds
from discreet.importing.sources import read_log

GONE = {"unavailable", "unknown", ""}
BEGIN = 1_774_738_800  # shortly before clocks in Berlin go forward, on 29 March 2026
AUTUMN = 1_792_886_400  # the evening before they go back, on 25 October 2026


def twin(events, rounds, gaps):
    """Return the rows, one dict each, by going through all events in the order of the log."""
    every, names = rounds.every, list(dict.fromkeys(name for _, name, _ in events))
    first = -(-min(time for time, _, _ in events) // every)
    last = -(-max(time for time, _, _ in events) // every)
    rows = []
    for k in range(int(first), int(last) + 1):
        end = k * every
        local = datetime.fromtimestamp(end, UTC).astimezone(ZoneInfo(rounds.zone))
        row = {"time": local.isoformat()}
        inside = any(low <= end < high for low, high in gaps)
        for name in names:
            history = {}
            for time, item, state in events:
                if item == name:
                    history[time] = state  # the last in the log wins
            if name in rounds.count or name in rounds.changes:
                row[name] = (
                    None if inside else happened(history, end, every, name in rounds.changes)
                )
            else:
                hold = float("inf") if name in rounds.forever else rounds.hold
                row[name] = held(history, end, hold, gaps)
        rows.append(row)
    return rows


def happened(history, end, every, changes):
    found, before = 0, None
    for time, state in sorted(history.items()):
        new = state not in GONE and (not changes or (before is not None and before != state))
        found += new and end - every < time <= end
        before = "nothing" if state in GONE else state
    return min(found, 1) if changes else found


def held(history, end, hold, gaps):
    past = [time for time in history if time <= end]
    if not past or end - max(past) > hold or history[max(past)] in GONE:
        return None
    if any(low <= end and max(past) < high for low, high in gaps):
        return None
    return history[max(past)]


def told(events, gaps=()):
    found = EventList()
    for time, name, state in events:
        found.add(np.array([float(time)]), [name], [state])
    return found.finish(list(gaps))


def same(table, rows):
    assert len(table) == len(rows)
    for name in rows[0]:
        for mine, wanted in zip(table[name], (row[name] for row in rows), strict=True):
            if wanted is None:
                assert pd.isna(mine)
            else:
                assert str(mine) == str(wanted) or float(mine) == float(wanted)


ITEMS = ("sensor.power", "binary_sensor.door", "person.ann", "event.bell", "light.hall")
STATES = {
    "sensor.power": ("1.5", "2", "-3", "unavailable", "unknown"),
    "binary_sensor.door": ("on", "off", "unavailable"),
    "person.ann": ("home", "not_home", "unknown"),
    "event.bell": ("ring", "again", "unavailable"),
    "light.hall": ("on", "off", ""),
}


@st.composite
def logs(draw):
    """Events in any order, at equal times, and times at which the recorder did not run."""
    begin = draw(st.sampled_from((BEGIN, AUTUMN)))
    moments = st.integers(0, 7_200).map(lambda each: begin + each)
    names = st.sampled_from(ITEMS)
    events = [
        (draw(moments), name := draw(names), draw(st.sampled_from(STATES[name])))
        for _ in range(draw(st.integers(1, 40)))
    ]
    if draw(st.booleans()):
        events.sort(key=lambda each: each[0])
    edges = sorted(draw(st.lists(moments, max_size=4, unique=True)))
    gaps = list(zip(edges[::2], edges[1::2], strict=False))
    rounds = Rounds(
        every=draw(st.sampled_from((60.0, 300.0, 47.0))),
        hold=draw(st.sampled_from((1.0, 600.0, 86_400.0))),
        zone="Europe/Berlin",
        forever=["person.ann"],
        count=["event.bell"],
        changes=["light.hall"],
    )
    return events, gaps, rounds


@given(logs())
def test_rounds_are_those_of_the_twin(made):
    events, gaps, rounds = made
    same(make_table(told(events, gaps), rounds), twin(events, rounds, gaps))


@settings(max_examples=25)
@given(logs(), st.booleans(), st.lists(st.booleans(), min_size=2, max_size=2))
def test_both_schemas_of_the_recorder_give_the_rows_of_the_twin(
    tmp_path_factory, made, old, crashes
):
    events, gaps, rounds = made
    file = tmp_path_factory.mktemp("recorder") / "home.db"
    edges = [BEGIN - 10**6, *(edge for gap in gaps for edge in gap), None]
    runs = list(zip(edges[::2], edges[1::2], strict=True))
    for k, crashed in enumerate(crashes[: len(gaps)]):
        if crashed:
            (start, _), (_, again) = runs[k], gaps[k]
            gaps[k] = max([start, *(time for time, _, _ in events if time < again)]), again
            runs[k] = start, None
    write_recorder(file, events, runs, old=old)
    same(make_table(read_log(str(file), "UTC"), rounds), twin(events, rounds, gaps))


@pytest.mark.parametrize("kind", WRITERS)
@settings(max_examples=15)
@given(logs())
def test_every_log_gives_the_rows_of_the_twin(tmp_path_factory, kind, made):
    events, _, rounds = made
    file = tmp_path_factory.mktemp("log") / ("log.xlsx" if kind == "Excel" else "log")
    WRITERS[kind](file, events)
    same(make_table(read_log(str(file), "UTC"), rounds), twin(events, rounds, []))


# --- Local times -------------------------------------------------------------------------------


def test_no_hour_is_lost_or_doubled_when_clocks_change():
    for begin, offsets in ((BEGIN, ["+01:00", "+02:00"]), (AUTUMN, ["+02:00", "+01:00"])):
        ends = np.arange(begin, begin + 8 * 3600, 900.0)
        texts = local_times(ends, "Europe/Berlin")
        assert len(set(texts)) == len(texts)
        assert list(dict.fromkeys(each[-6:] for each in texts)) == offsets
        assert utc_seconds(pd.Series(texts), "UTC").tolist() == ends.tolist()


@given(st.integers(0, 4 * 10**9))
def test_local_times_are_those_of_the_standard_library(moment):
    zone = ZoneInfo("America/New_York")
    wanted = datetime.fromtimestamp(moment, UTC).astimezone(zone).isoformat()
    assert local_times(np.array([float(moment)]), "America/New_York") == [wanted]


def test_the_hour_that_occurs_twice_is_told_by_the_order_of_the_log():
    zone = ZoneInfo("Europe/Berlin")
    moments = [AUTUMN + 600 * k for k in range(40)]
    naive = [
        datetime.fromtimestamp(each, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
        for each in moments
    ]
    assert len(set(naive)) < len(naive)
    assert utc_seconds(pd.Series(naive), "Europe/Berlin").tolist() == moments


@given(st.lists(st.integers(1, 1_500), min_size=1, max_size=40), st.sampled_from((BEGIN, AUTUMN)))
def test_local_times_without_an_offset_are_told_apart_if_the_log_never_pauses(steps, begin):
    zone = ZoneInfo("Europe/Berlin")
    moments = [begin - 1_800 + sum(steps[:k]) for k in range(len(steps))]
    naive = [
        datetime.fromtimestamp(each, UTC).astimezone(zone).replace(tzinfo=None).isoformat()
        for each in moments
    ]
    assert utc_seconds(pd.Series(naive), "Europe/Berlin").tolist() == moments


@pytest.mark.parametrize("by", ["time", "item"])
@pytest.mark.parametrize("begin", [BEGIN, AUTUMN])
def test_a_log_of_local_times_may_be_sorted_by_time_or_by_item(tmp_path, by, begin):
    zone = ZoneInfo("Europe/Berlin")
    events = [(begin + 600 * k + j, f"room {j}", str(k)) for k in range(30) for j in range(3)]
    key = {"time": lambda each: each[0], "item": lambda each: (each[1], each[0])}[by]
    lines = ["time,item,value"]
    for time, item, value in sorted(events, key=key):
        naive = datetime.fromtimestamp(time, UTC).astimezone(zone).replace(tzinfo=None)
        lines.append(f"{naive.isoformat()},{item},{value}")
    (tmp_path / "log.csv").write_text("\n".join(lines))
    rounds = Rounds(600.0, 86_400.0, zone="Europe/Berlin")
    table = make_table(read_log(str(tmp_path / "log.csv"), "Europe/Berlin"), rounds)
    same(table, twin(events, rounds, []))


def test_a_time_that_does_not_occur_is_the_next_that_does():
    (found,) = utc_seconds(pd.Series(["2026-03-29 02:30:00"]), "Europe/Berlin")
    assert datetime.fromtimestamp(found, UTC).isoformat() == "2026-03-29T01:00:00+00:00"


@pytest.mark.parametrize("text", ["1774738800", "1774738800000", "1774738800000000"])
def test_numbers_are_seconds_or_finer(text):
    assert utc_seconds(pd.Series([text]), "UTC").tolist() == [1774738800.0]


def test_an_offset_behind_z_counts_as_mosquitto_sub_writes_it():
    text = "2026-03-29T01:00:00.000000Z+0200"
    assert utc_seconds(pd.Series([text]), "Europe/Berlin").tolist() == [1774738800.0]


# --- What is refused ---------------------------------------------------------------------------


def test_a_clock_that_was_not_set_is_named():
    events = told([(100, "a", "1"), (BEGIN, "a", "2"), (BEGIN + 60, "a", "1")])
    with pytest.raises(InputError, match=r"nothing from 1970-01-01 to 2026-03-28: .* --from 2026"):
        make_table(events, Rounds(60.0, 60.0))


def test_rounds_without_end_are_refused():
    with pytest.raises(InputError, match=r"from 2001-09-09 to 2033-05-18.*--every"):
        make_table(told([(k * 10**7, "a", "1") for k in range(100, 201)]), Rounds(1.0, 60.0))


def test_an_item_does_not_take_the_place_of_the_times():
    events = EventList()
    events.add(np.array([0.0, 60.0]), ["time", "hall"], ["1", "2"])
    with pytest.raises(InputError, match=r"an item is called 'time'.*--items"):
        make_table(events.finish(), Rounds(60.0, 3600.0))


def test_a_log_without_events_is_refused():
    with pytest.raises(InputError, match="no events with a time"):
        EventList().finish()
