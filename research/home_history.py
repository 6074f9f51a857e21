"""A made home of two people, and thirty days of it in a database as Home Assistant's recorder has.

Somebody cooks now and then, which a helper (``input_boolean.cooking``) says: the public answer.
``person.ann`` is who is home. Motion, door, power, bed and climate sensors report by themselves,
each when it likes; some are unavailable for a while, and the recorder was restarted twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

Event = tuple[float, str, str]

ZONE = "Europe/Berlin"
BEGIN = pd.Timestamp("2026-03-10", tz=ZONE).timestamp()  # clocks go forward on the 29th
MINUTE = 60.0
RESTARTS = (9.4, 21.7)  # days after which the recorder stood still for 20 minutes
ROOMS = ("kitchen", "hall", "bath", "living", "bedroom")
_SCHEMA = """
CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id TEXT);
CREATE TABLE states (
  state_id INTEGER PRIMARY KEY, metadata_id INTEGER, state TEXT, last_updated_ts DOUBLE
);
CREATE TABLE recorder_runs (run_id INTEGER PRIMARY KEY, start TIMESTAMP, "end" TIMESTAMP);
"""


def make_history(days: int = 30, seed: int = 0) -> list[Event]:
    """Return (time, entity, state), in the order of time, but for when the recorder stood still."""
    rng = np.random.default_rng(seed)
    minutes = BEGIN + MINUTE * np.arange(days * 1440)
    hour = np.asarray(pd.to_datetime(minutes, unit="s", utc=True).tz_convert(ZoneInfo(ZONE)).hour)
    ann = _spells(rng, np.where((hour >= 8) & (hour < 17), 0.3, 0.85), 90)
    cooks = _spells(rng, np.where(np.isin(hour, (7, 12, 18, 19)), 0.7, 0.03), 25)
    events = [*_changes("person.ann", minutes, np.where(ann, "home", "not_home"), rng)]
    events += _changes("input_boolean.cooking", minutes, np.where(cooks, "on", "off"), rng)
    for room in ROOMS:
        busy = 0.05 + 0.25 * (ann & (room != "kitchen")) + 0.5 * (cooks & (room == "kitchen"))
        moves = np.where(rng.random(len(minutes)) < busy, "on", "off")
        events += _changes(f"binary_sensor.{room}_motion", minutes, moves, rng)
        warm = (
            20 + 1.5 * (cooks & (room == "kitchen")) + 0.8 * ann + rng.normal(0, 0.4, len(minutes))
        )
        events += _sometimes(f"sensor.{room}_temperature", minutes, warm.round(1), 0.06, rng)
    power = 150 + 1800 * cooks + 120 * ann + rng.gamma(2.0, 60.0, len(minutes))
    events += _sometimes("sensor.power", minutes, power.round(0), 0.8, rng)
    bed = np.where((hour < 6) & ann & (rng.random(len(minutes)) < 0.9), "on", "off")
    events += _changes("binary_sensor.bed", minutes, bed, rng)
    door = np.where(rng.random(len(minutes)) < 0.01 + 0.02 * ann, "on", "off")
    events += _changes("binary_sensor.front_door", minutes, door, rng)
    for k in range(5):
        noise = rng.normal(50, 10, len(minutes)).round(0)
        events += _sometimes(f"sensor.weather_{k}", minutes, noise, 0.05, rng)
    kept = sorted(each for each in events if not _stood_still(each[0]))
    return sorted([*kept, *_after_restarts(kept)])


def _after_restarts(events: list[Event]) -> Iterator[Event]:
    """Yield every entity's state when the recorder begins again, as Home Assistant writes it."""
    for begin in (BEGIN + day * 86_400 + 1200 for day in RESTARTS):
        last = {name: state for time, name, state in events if time < begin}
        yield from ((begin + 1.0, name, state) for name, state in last.items())


def _spells(rng: np.random.Generator, share: np.ndarray, length: float) -> np.ndarray:
    """Return a state that is on for a share of the time, in spells of about so many minutes."""
    draw, change = rng.random(len(share)), rng.random(len(share)) < 1.0 / length
    change[0] = True
    last = np.maximum.accumulate(np.where(change, np.arange(len(share)), 0))
    return draw[last] < share


def _changes(
    name: str, minutes: np.ndarray, states: np.ndarray, rng: np.random.Generator
) -> Iterator[Event]:
    """Yield a state whenever it is another."""
    for k in np.flatnonzero(np.append(True, states[1:] != states[:-1])):
        yield float(minutes[k] + rng.uniform(0, 50)), name, str(states[k])


def _sometimes(
    name: str, minutes: np.ndarray, values: np.ndarray, share: float, rng: np.random.Generator
) -> Iterator[Event]:
    """Yield some of the values, and once in a while that there is none."""
    for k in np.flatnonzero(rng.random(len(minutes)) < share):
        state = "unavailable" if rng.random() < 0.003 else f"{values[k]:g}"
        yield float(minutes[k] + rng.uniform(0, 50)), name, state


def _stood_still(time: float) -> bool:
    return any(0 <= time - BEGIN - day * 86_400 < 1200 for day in RESTARTS)


def write_history(file: Path, events: list[Event]) -> None:
    """Write events as the recorder would."""
    names = {name: k for k, name in enumerate(sorted({each[1] for each in events}), start=1)}
    stops = [BEGIN + day * 86_400 for day in RESTARTS]
    runs = zip([BEGIN, *(stop + 1200 for stop in stops)], [*stops, None], strict=True)
    with sqlite3.connect(file) as base:
        base.executescript(_SCHEMA)
        base.executemany(
            "INSERT INTO states_meta VALUES (?, ?)", [(k, name) for name, k in names.items()]
        )
        base.executemany(
            "INSERT INTO states (metadata_id, state, last_updated_ts) VALUES (?, ?, ?)",
            [(names[name], state, time) for time, name, state in events],
        )
        base.executemany(
            'INSERT INTO recorder_runs (start, "end") VALUES (?, ?)',
            [tuple(_utc(each) for each in run) for run in runs],
        )
    base.close()


def _utc(seconds: float | None) -> str | None:
    return None if seconds is None else str(pd.Timestamp(seconds, unit="s"))
