import io

from rich.console import Console
from support.sites import eventually

from discreet.cli import progress
from discreet.cli.progress import ProgressReport
from discreet.progress import Progress, cost


def test_time_counts_down_between_steps(monkeypatch):
    clock = iter([0.0, 10.0, 10.0, 14.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    pace = ProgressReport(Console(file=io.StringIO()), quiet=True)
    pace.show("", 0.25)
    assert pace.left() == "0:30 left"  # one of four took ten seconds
    assert pace.left() == "0:26 left"
    assert pace.left() == ""


def test_a_share_that_falls_begins_a_new_phase(monkeypatch):
    clock = iter([0.0, 100.0, 100.0, 110.0, 110.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    pace = ProgressReport(Console(file=io.StringIO()), quiet=True)
    for done in (0.9, 0.0, 0.5):
        pace.show("", done)
    assert pace.left() == "0:10 left"


def _report(log: io.StringIO) -> ProgressReport:
    return ProgressReport(Console(file=log, soft_wrap=True))


def test_short_work_gets_no_line():
    log = io.StringIO()
    report = _report(log)
    report.count("steps of adult", 4)(1)
    report.close()
    assert log.getvalue() == ""


def test_a_log_gets_lines_though_no_step_ends(monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.01)
    log = io.StringIO()
    report = _report(log)
    report.count("steps of adult", 4)(1)
    assert eventually(lambda: log.getvalue().count("\n") > 2)
    report.close()
    lines = log.getvalue().splitlines()
    assert lines[-1].startswith("steps of adult 25%: 1 of 4")
    assert lines == log.getvalue().splitlines()  # nothing comes after the end


def test_it_is_a_report_that_never_stops_the_work():
    report = _report(io.StringIO())
    assert report(Progress("bounds", 0.5)) is False
    report.close()


def test_bar_share_and_time_left_stay_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    log = io.StringIO()
    log.isatty = lambda: True
    report = ProgressReport(Console(file=log, width=60, force_terminal=True, color_system=None))
    monkeypatch.setattr(report, "left", lambda: "1:00:59 left")
    report.show("a phase with quite a long name indeed", 0.25, "12 of 48 points and more " * 3)
    assert eventually(lambda: "left" in log.getvalue())
    report.close()
    line = next(each for each in log.getvalue().splitlines() if "left" in each)
    assert "25 %" in line and "1:00:59 left" in line and "━" in line and "…" in line


def test_that_the_time_is_up_is_said():
    """What has begun may take longer than the limit: that was silence, and looked like a hang."""
    report = ProgressReport(Console(file=io.StringIO()), quiet=True)
    report.show("search", 0.5, limit=0.0)
    assert report.left() == "time is up"
    report.close()


def test_what_is_left_is_never_said_to_be_more_than_may_be():
    def said(seconds, left):
        return cost(Progress("search", 0.0, seconds=seconds, left=left))

    assert said(84.0, 10.0) == "at most 10 s to go; without that limit about 84 s"
    assert said(8.0, 10.0) == "about 8 s to go, 10 s at most"
    assert said(8.0, None) == "about 8 s to go"
