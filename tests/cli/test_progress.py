import io
import time

from rich.console import Console

from discreet.cli import progress
from discreet.cli.progress import StepsReport, TimeLeft


def test_time_counts_down_between_steps(monkeypatch):
    clock = iter([0.0, 10.0, 14.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    column = TimeLeft(2, 6)

    class Task:
        completed = 3

    assert str(column.render(Task)) == "0:30 left"  # one of four took ten seconds
    assert str(column.render(Task)) == "0:26 left"
    assert str(column.render(Task)) == ""


def test_a_log_gets_a_line_and_short_work_none(monkeypatch):
    log = io.StringIO()
    report = StepsReport(Console(file=log, soft_wrap=True), "steps of adult", 0, 4)
    report(1)
    assert log.getvalue() == ""
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    report = StepsReport(Console(file=log, soft_wrap=True), "steps of adult", 0, 4)
    time.sleep(0.01)
    report(1)
    report(2)
    report.close()
    assert log.getvalue().startswith("1 of 4 steps of adult, 0:00 left")
    assert log.getvalue().count("\n") == 1
