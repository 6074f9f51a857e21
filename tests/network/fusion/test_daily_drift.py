"""Days of symbols as the fusion centre watches them: whole ones, across restarts, one file."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from support.network_samples import additive_mapping

from discreet.auditing.recheck import REFERENCE_DAYS, load_watch
from discreet.network.fusion.watching import ALARM, LEARNING, QUIET, DailyDrift
from discreet_sensor.wire import RoundClock

START = datetime(2026, 3, 1, 15, tzinfo=UTC)
CLOCK = RoundClock(START.timestamp() - 7200, 300.0)
MAPPING = additive_mapping(2)
LATE = 60  # days after the start from which on symbols are others


def symbols(first, last):
    """Symbols of rounds; the same whenever they are asked for."""
    numbers = np.arange(first, last + 1)
    day = (CLOCK.end(int(first)) - START.timestamp()) / 86_400
    level = 0.3 + (0.3 if day > LATE else 0.0)
    return (np.random.default_rng(first).random((len(numbers), 2)) < level).astype(np.int64)


def watch_in(folder, symbols=symbols, mapping=MAPPING):
    return DailyDrift(folder / "drift.json", mapping, CLOCK, symbols)


def after(days):
    return (START + timedelta(days=days)).timestamp()


@pytest.mark.slow
def test_whole_days_are_watched_across_restarts_and_a_change_is_an_alarm(tmp_path):
    assert watch_in(tmp_path).look(after(0))[0] == LEARNING
    states = [watch_in(tmp_path).look(after(day))[0] for day in range(1, LATE + 12)]
    assert states[:REFERENCE_DAYS] == [LEARNING] * REFERENCE_DAYS
    assert set(states[REFERENCE_DAYS + 1 : LATE]) == {QUIET}
    assert states[-1] == ALARM
    found = load_watch(tmp_path / "drift.json")
    assert len(found.reference) == REFERENCE_DAYS
    assert LATE < (found.alarmed - START.date()).days < LATE + 8
    assert watch_in(tmp_path).look(after(LATE + 60))[0] == LEARNING  # again, a month after


def test_days_that_were_slept_through_are_made_up_for_in_turns(tmp_path):
    watch_in(tmp_path).look(after(0))
    for _ in range(4):
        watch_in(tmp_path).look(after(9))
    assert len(load_watch(tmp_path / "drift.json").reference) == 8


def test_a_day_with_a_silent_sensor_does_not_count(tmp_path):
    def half_silent(first, last):
        found = symbols(first, last)
        found[:, 1] = -1
        return found

    for day in range(4):
        watch_in(tmp_path, half_silent).look(after(day))
    assert len(load_watch(tmp_path / "drift.json").reference) == 0


@pytest.mark.parametrize("text", ["{", '{"format": "discreet-drift"}'])
def test_a_damaged_file_begins_anew(tmp_path, text):
    (tmp_path / "drift.json").write_text(text)
    assert watch_in(tmp_path).look(after(5))[0] == LEARNING
    assert load_watch(tmp_path / "drift.json").mapping_id == MAPPING.id


def test_another_mapping_begins_anew_and_a_full_disk_is_told(tmp_path):
    watch_in(tmp_path).look(after(0))
    watch_in(tmp_path).look(after(3))
    other = additive_mapping(3)
    watch_in(tmp_path, mapping=other).look(after(4))
    assert load_watch(tmp_path / "drift.json").mapping_id == other.id
    state, words = watch_in(tmp_path / "nowhere").look(after(0))
    assert state == LEARNING and "cannot be written" in words
