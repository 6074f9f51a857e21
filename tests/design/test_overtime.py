"""Clocks of the search."""

import pytest

from discreet.design import overtime
from discreet.design.overtime import Clock, FirstFew, Overtime


def test_overtime_is_one_for_all_levels(monkeypatch):
    now, over, asked = [100.0], [False], []
    monkeypatch.setattr(overtime.time, "monotonic", lambda: now[0])
    looking = Overtime(lambda: asked.append(1) or over[0])
    first, second = Clock(looking), Clock(looking)
    assert not first() and not first() and len(asked) == 1  # not asked at once again
    now[0], over[0] = 1000.0, True  # a look before time is over costs none of it
    assert not first()
    now[0] += overtime._OVERTIME - 0.1
    assert not first() and not second()
    now[0] += 0.2
    assert second() and not first.struck  # that had been asked for the last time
    assert Clock(looking)()


def test_a_few_questions_tell_how_long_all_take(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(overtime.time, "thread_time", lambda: now[0])
    few, answered = FirstFew(), 0
    for _ in range(191):
        if not few():
            answered, now[0] = answered + 1, now[0] + (1.0 if answered == 0 else 0.1)
    assert answered == 3
    assert few.seconds_for_all() == pytest.approx(1.0 + 190 * 0.1)
    one = FirstFew()
    one()
    now[0] += 5.0
    assert one.seconds_for_all() == pytest.approx(5.0)
