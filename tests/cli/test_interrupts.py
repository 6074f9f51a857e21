"""Progress and Ctrl-C, with real signals to a real process on a pseudo-terminal.

Nothing here depends on how fast the machine is: each test waits for words on the screen
before it acts, and where the work could end too soon the process is made to wait.
"""

import io
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from rich.console import Console
from support.commands import AT_ONCE, FACTS, clean_environment, rooms, run
from support.sites import eventually
from support.terminals import PATIENCE, Terminal, on_screen

from discreet import Mapping, learning
from discreet.cli import progress
from discreet.cli.progress import LearnReport, stop_on_interrupt, time_left
from discreet.errors import InputError
from discreet.progress import Progress, cost, in_time, standing
from discreet.stopping import STOPS

pytestmark = pytest.mark.slow

STANDING = Progress("design", 0.25, 0.1234, 0.6926, 0.6925)

# Each makes the process wait where a test wants to interrupt it.
HELD_REPORTS = """
report = discreet.cli.progress.LearnReport.__call__
def slow(self, progress):
    answer = report(self, progress)
    for _ in range(1200):  # until the interrupt comes, which waits for what is shown
        if self.stop_asked or (progress.private_risk is None and not progress.keeps):
            break
        time.sleep(0.05)
    return answer or self.stop_asked
discreet.cli.progress.LearnReport.__call__ = slow
discreet.cli.progress._QUIET_SECONDS = 0.0
"""
SLOW_REPORTS = """
report = discreet.cli.progress.LearnReport.__call__
def slow(self, progress):
    time.sleep(0.1)
    return report(self, progress)
discreet.cli.progress.LearnReport.__call__ = slow
discreet.cli.progress._QUIET_SECONDS = 0.0
"""
SLOW_FUSION = """
def endless(*args):
    print("the mapping is nearly there")
    while True: time.sleep(0.05)  # a signal just before a long sleep would wait
import discreet.design.answers
discreet.design.answers.learn_fusion = endless
"""
HELD_FUSION = """
import os
import discreet.design.answers
learn_fusion = discreet.design.answers.learn_fusion
def held(*args):
    print("the mapping is nearly there")
    while not os.path.exists("go on"): time.sleep(0.05)
    return learn_fusion(*args)
discreet.design.answers.learn_fusion = held
"""
SLOW_READING = """
import time
def endless(*args):
    print("reading", flush=True)
    while True: time.sleep(0.05)  # a signal just before a long sleep would wait
import discreet.data.opening
discreet.data.opening.read_tables = endless
"""
SLOW_SAVING = """
import os
save = discreet.mapping.mapping.Mapping.save
def slow(self, path):
    print("saving")
    while not os.path.exists("go on"):
        time.sleep(0.02)
    return save(self, path)
discreet.mapping.mapping.Mapping.save = slow
"""


@pytest.fixture
def terminal(tmp_path):
    rooms().to_csv(tmp_path / "home.csv", index=False)
    (tmp_path / "old.json").write_text("old")
    started = []

    def start(*options, changes="", out="home.json", method="npo", **environment):
        arguments = ["learn", "home.csv", *FACTS, "--exclude", "day", "--out", out]
        arguments += ["--method", method, *options]
        started.append(Terminal(tmp_path, arguments, changes, **environment))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        each.listener.join(PATIENCE)
        os.close(each.master)


# --- Ctrl-C --------------------------------------------------------------------------------


def test_one_interrupt_keeps_the_best_mapping(terminal, tmp_path):
    command = terminal(changes=HELD_REPORTS)
    command.wait_for("floor")
    command.interrupt()
    assert command.end() == 0
    assert "stopped early" in command.text
    assert "Stopping with the best mapping so far" in command.text
    mapping = Mapping.load(tmp_path / "home.json")
    assert mapping.design.parameters["stopped"] is True
    assert mapping.id[:19] in command.text


def test_two_interrupts_keep_nothing(terminal, tmp_path):
    command = terminal(changes=HELD_REPORTS + SLOW_FUSION, out="old.json")
    command.wait_for("floor")
    command.interrupt()
    command.wait_for("nearly there")
    command.interrupt()
    assert command.end() == 130
    assert "discreet: stopped at once. No mapping was written." in command.text
    assert "Traceback" not in command.text
    assert (tmp_path / "old.json").read_text() == "old"


@pytest.mark.parametrize("number", STOPS)
def test_the_default_keeps_the_best_so_far_from_its_first_design_on(terminal, tmp_path, number):
    command = terminal(method="auto", changes=HELD_REPORTS)
    command.wait_for("search")
    os.kill(command.process.pid, number)
    assert command.end() == 0
    assert "stopped early" in command.text
    assert Mapping.load(tmp_path / "home.json").design.parameters["stopped"] is True


def test_a_terminal_that_is_closed_is_no_second_wish_to_stop(terminal, tmp_path):
    command = terminal(changes=HELD_REPORTS + HELD_FUSION)
    command.wait_for("floor")
    os.kill(command.process.pid, signal.SIGHUP)
    command.wait_for("nearly there")
    os.kill(command.process.pid, signal.SIGHUP)  # the system sends one, and the shell another
    (tmp_path / "go on").touch()
    assert command.end() == 0
    assert Mapping.load(tmp_path / "home.json").design.parameters["stopped"] is True


def test_a_terminal_that_is_closed_after_an_interrupt_costs_no_mapping(tmp_path):
    pty = pytest.importorskip("pty")
    rooms().to_csv(tmp_path / "home.csv", index=False)
    master, slave = pty.openpty()
    changes = "import time, discreet.cli.learn, discreet.cli.progress, discreet.learning\n"
    changes += HELD_REPORTS + HELD_FUSION
    arguments = ["learn", "home.csv", *FACTS, "--exclude", "day", "--out", "home.json"]

    def read_until(words):
        read = ""
        while words not in read:
            read += os.read(master, 4096).decode(errors="replace")

    with subprocess.Popen(
        [sys.executable, "-u", "-c", changes + ENTER, *arguments, "--method", "npo"],
        cwd=tmp_path, env=clean_environment(), stdin=slave, stdout=slave, stderr=slave,
    ) as process:  # fmt: skip
        os.close(slave)
        read_until("floor")
        process.send_signal(signal.SIGINT)
        read_until("nearly there")
        os.close(master)
        process.send_signal(signal.SIGHUP)
        (tmp_path / "go on").touch()
        assert process.wait(PATIENCE) == 0
    assert Mapping.load(tmp_path / "home.json").design.parameters["stopped"] is True


def test_what_is_printed_where_a_terminal_was_closed_is_no_error(tmp_path):
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    code = """
import sys
from discreet.stopping import let_go_of_terminal
sys.stdin.readline()
let_go_of_terminal()
print("a line", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=clean_environment(), stdin=subprocess.PIPE, stdout=slave, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        os.close(slave)
        os.close(master)
        assert process.communicate("\n", timeout=PATIENCE) == (None, "")
    assert process.returncode == 0


def test_an_interrupt_during_the_search_keeps_the_best_so_far(terminal, tmp_path):
    command = terminal("--max-advantage", "0.1", changes=HELD_REPORTS)
    command.wait_for("search")
    command.interrupt()
    assert command.end() == 0
    assert "stopped early" in command.text
    assert Mapping.load(tmp_path / "home.json").design.parameters["stopped"] is True


def test_an_interrupt_before_the_learning_ends_at_once(terminal, tmp_path):
    command = terminal(changes=SLOW_READING)
    command.wait_for("reading")
    command.interrupt()
    assert command.end() == 130
    assert "discreet: stopped before there was a result; nothing was written." in command.text
    assert "Traceback" not in command.text
    assert not (tmp_path / "home.json").exists()


def test_sigterm_before_the_learning_has_an_exit_code_of_its_own(terminal, tmp_path):
    command = terminal(changes=SLOW_READING)
    command.wait_for("reading")
    os.kill(command.process.pid, signal.SIGTERM)
    assert command.end() == 143
    assert "nothing was written." in command.text and "Traceback" not in command.text
    assert not (tmp_path / "home.json").exists()


def test_an_interrupt_while_the_file_is_written_changes_nothing(terminal, tmp_path):
    command = terminal(changes=SLOW_SAVING)
    command.wait_for("saving")
    command.interrupt()
    (tmp_path / "go on").touch()
    assert command.end() == 0
    assert "wrote home.json" in command.text
    assert Mapping.load(tmp_path / "home.json").design.parameters["stopped"] is False


SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            print("loading", flush=True)
            while True: time.sleep(0.02)
sys.meta_path.insert(0, Slow())
"""
SLOW_END = """
import atexit, os, time
def end():
    print("at the end", flush=True)
    while not os.path.exists("go on"): time.sleep(0.02)
atexit.register(end)
"""
SLOW_TEARDOWN = """
import os, time
class Last:
    def __del__(self, write=os.write, there=os.access, wait=time.sleep):
        write(1, b"at the end\\n")
        while not there("go on", 0): wait(0.02)
last = Last()
"""
ENTER = "from discreet.__main__ import main\nmain()"


@contextmanager
def learning_apart(folder, changes, *options, preexec_fn=None, **environment):
    """Run ``learn`` as the command does, in a session of its own, none of which is left."""
    rooms().to_csv(folder / "home.csv", index=False)
    arguments = ["learn", "home.csv", *FACTS, "--exclude", "day", "--out", "home.json", *AT_ONCE]
    with subprocess.Popen(
        [sys.executable, "-c", changes + ENTER, *arguments, *options],
        cwd=folder, env=clean_environment(**environment), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=preexec_fn,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def signalled(folder, changes, words, number):
    """Send a signal to ``learn`` once it prints some words, and let it end."""
    with learning_apart(folder, changes) as process:
        read = _read_until(process, words)
        process.send_signal(number)
        (folder / "go on").touch()
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, read + out, err


def _read_until(process, words):
    return "".join(iter(lambda: _line_before(process, words), ""))


def _line_before(process, words):
    line = process.stdout.readline()
    return "" if words in line else line


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("name", ["typer", "pandas", "discreet.learning"])
def test_a_signal_while_libraries_are_loaded_ends_in_one_line(tmp_path, name, number):
    changes = SLOW_IMPORT.format(name=name)
    code, out, err = signalled(tmp_path, changes, "loading", number)
    assert (code, out) == (128 + number, "")
    assert err == "discreet: stopped before there was a result; nothing was written.\n"
    assert not (tmp_path / "home.json").exists()


@pytest.mark.parametrize("closed", ["the only reader left", "closed"])
def test_a_signal_while_libraries_are_loaded_tells_by_its_code_even_if_nobody_reads(
    tmp_path, closed
):
    read, write = os.pipe()
    code = SLOW_IMPORT.format(name="pandas") + ENTER
    with subprocess.Popen(
        [sys.executable, "-c", code, "learn", "home.csv", *FACTS, "--out", "home.json"],
        cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=write, text=True,
        preexec_fn=(lambda: os.close(2)) if closed == "closed" else None,
    ) as process:  # fmt: skip
        os.close(write)
        os.close(read)
        assert "loading" in process.stdout.readline()
        process.terminate()
        assert process.wait(PATIENCE) == 143


def full_pipe():
    """Return both ends of a pipe that takes nothing more."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    os.set_blocking(write, True)
    return read, write


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("unread", ["stdout", "stderr", "json"])
@pytest.mark.parametrize(("limit", "code"), [("0.4", 0), ("0.001", 3)])
def test_output_that_nobody_reads_does_not_outlive_a_signal(tmp_path, number, unread, limit, code):
    rooms().to_csv(tmp_path / "home.csv", index=False)
    arguments = ["learn", "home.csv", *FACTS, "--exclude", "day", "--out", "home.json"]
    # What is not met takes all the time it has; the other may warn if time is up, and wait there.
    time_limit = "1s" if code else "10m"
    arguments += ["--max-advantage", limit, "--time-limit", time_limit]
    arguments += ["--write-config", "home.toml"]
    read, write = full_pipe()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    streams["stderr" if unread == "stderr" else "stdout"] = write
    flags = {"stderr": ["--quiet"], "json": ["--json"]}.get(unread, [])
    with subprocess.Popen(
        [sys.executable, "-c", ENTER, *arguments, *flags],
        cwd=tmp_path, env=clean_environment(), **streams,
    ) as process:  # fmt: skip
        os.close(write)
        try:
            assert eventually((tmp_path / "home.toml").exists, PATIENCE)
            if unread != "stderr" or code:  # the warning of a limit that is not met waits there
                time.sleep(0.5)
                assert process.poll() is None
                process.send_signal(number)
            assert process.wait(PATIENCE) == code
        finally:
            os.close(read)
    Mapping.load(tmp_path / "home.json")


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("end", [SLOW_END, SLOW_TEARDOWN], ids=["at exit", "teardown"])
def test_a_signal_once_there_is_a_result_changes_nothing(tmp_path, number, end):
    code, out, err = signalled(tmp_path, end, "at the end", number)
    assert code == 0 and "\nnext: discreet audit" in out and "Traceback" not in err
    Mapping.load(tmp_path / "home.json")


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_one_that_ended_everything_changes_nothing(tmp_path, second):
    with learning_apart(tmp_path, SLOW_READING + SLOW_TEARDOWN) as process:
        _read_until(process, "reading")
        process.send_signal(signal.SIGINT)
        _read_until(process, "at the end")
        process.send_signal(second)
        (tmp_path / "go on").touch()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err == "discreet: stopped before there was a result; nothing was written.\n"


# Workers come up, and their nannies never learn of it.
SLOW_WORKERS = """
import asyncio
from distributed.nanny import WorkerProcess
async def endless(self, *_):
    print("worker", self.process.pid, flush=True)
    while self.process is not None: await asyncio.sleep(0.02)
WorkerProcess._wait_until_connected = endless
"""


def count_locks(folder):
    """Return how many workers hold a folder; others come and go meanwhile."""
    files = (name for _, _, names in os.walk(folder) for name in names)
    return sum(name.startswith("worker-") and name.endswith(".dirlock") for name in files)


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
@pytest.mark.parametrize("number", STOPS)
def test_a_signal_while_dask_starts_workers_ends_in_one_line(tmp_path, number, send):
    psutil = pytest.importorskip("psutil")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with learning_apart(tmp_path, SLOW_WORKERS, "--dask", "local:2", TMPDIR=scratch) as process:
        workers = [int(process.stdout.readline().split()[1]) for _ in range(2)]
        assert eventually(lambda: count_locks(scratch) == 2, PATIENCE)
        send(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (128 + number, "")
    assert err == "discreet: stopped before there was a result; nothing was written.\n"
    assert not any(map(psutil.pid_exists, workers))
    # Dask writes its keys to a folder for a moment, which may be this one; nothing else is left.
    assert not [*scratch.glob("discreet-*")] and not [*scratch.rglob("worker-*")]
    assert not (tmp_path / "home.json").exists()


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_that_is_closed_costs_no_result(tmp_path, closed):
    with learning_apart(tmp_path, "", preexec_fn=lambda: os.close(closed)) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "Traceback" not in err
    assert ("\nnext: discreet audit" in out) is (closed == 2)
    Mapping.load(tmp_path / "home.json")


def test_an_interrupt_that_a_library_makes_another_error_of_is_one_all_the_same():
    before = signal.getsignal(signal.SIGINT)
    report = LearnReport(Console(), quiet=True)
    with (
        pytest.raises(KeyboardInterrupt, match="nothing was written"),
        stop_on_interrupt(report),
    ):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("the library cannot be loaded") from None
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", STOPS)
def test_what_is_ignored_in_the_background_or_under_nohup_stays_so(number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with stop_on_interrupt(LearnReport(Console(), quiet=True)):
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_under_nohup_libraries_are_loaded_to_the_end(tmp_path):
    rooms().to_csv(tmp_path / "home.csv", index=False)
    changes = SLOW_IMPORT.format(name="pandas").replace("True", "not os.path.exists('go on')")
    ignored = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    with learning_apart(tmp_path, "import os" + changes, preexec_fn=ignored) as process:
        _read_until(process, "loading")
        process.send_signal(signal.SIGHUP)
        (tmp_path / "go on").touch()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


# --- Progress ------------------------------------------------------------------------------


def test_a_terminal_shows_a_bar_with_risks_and_time(terminal):
    command = terminal(changes=SLOW_REPORTS)
    command.wait_for(" left public risk ")  # the time, and after it the risks
    command.interrupt()
    command.end()
    bar = r"design [━╸╺ ]+ \d+ % +\d+:\d\d left +public risk \d\.\d{4}, private \d\.\d{4} \(floor"
    assert re.search(bar, on_screen(command.text))
    lines = re.split("[\r\n]+", on_screen(command.text))
    assert max(len(line) for line in lines if "━" in line) <= 80


@pytest.mark.parametrize("environment", [{}, {"TERM": "dumb"}], ids=["quiet", "dumb"])
def test_no_bar_when_it_is_not_wanted_or_not_possible(terminal, environment):
    # A loose ratio: a mapping that says nothing would be warned of, quiet or not.
    options = ["--ratio", "0.9"] + ([] if environment else ["--quiet"])
    command = terminal(
        *options, changes="discreet.cli.progress._QUIET_SECONDS = 0.0\n", **environment
    )
    assert command.end() == 0
    assert "━" not in command.text
    if not environment:
        assert command.text == ""


def log(monkeypatch, *reports, quiet=False):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.01)
    file = io.StringIO()
    # Forced colours make Rich take any file for a terminal.
    report = LearnReport(Console(file=file, force_terminal=True, color_system=None), quiet=quiet)
    answers = []
    for each in reports:
        answers.append(report(each))
        assert quiet or eventually(lambda phase=each.phase: phase in file.getvalue())
    report.shown.close()
    return answers, file.getvalue()


def test_a_log_gets_lines_with_risks_and_share(monkeypatch):
    answers, text = log(monkeypatch, Progress("search", 0.5, 0.2), STANDING)
    assert answers == [False, False]
    assert text.splitlines()[0].startswith("search 50%: public risk 0.2000")
    assert "design 25%: public risk 0.1234, private 0.6926 (floor 0.6925)" in text


def test_a_log_gets_nothing_when_quiet(monkeypatch):
    assert log(monkeypatch, STANDING, quiet=True) == ([False], "")


def test_short_work_is_not_reported():
    file = io.StringIO()
    LearnReport(Console(file=file), quiet=False)(STANDING)
    assert file.getvalue() == ""


def test_a_report_passes_on_the_wish_to_stop_even_when_quiet():
    report = LearnReport(Console(file=io.StringIO()), quiet=True)
    assert report(STANDING) is False
    report.stop_asked = True
    assert report(STANDING) is True


def test_time_left_follows_the_pace_so_far():
    assert time_left(10.0, 0.0) == ""
    assert time_left(10.0, 0.5) == "0:10 left"
    assert time_left(30.0, 0.25) == "1:30 left"
    assert time_left(3700.0, 0.5) == "1:01:40 left"
    assert time_left(10.0, 1.0) == "0:00 left"
    assert time_left(30.0, 0.25, most=12.0) == "0:12 left"  # a limit ends it sooner
    assert time_left(10.0, 0.5, most=12.0) == "0:10 left"


def test_what_it_will_take_is_said_before_it_begins():
    said = []
    report = in_time(lambda progress: said.append(cost(progress)), 60.0)
    report(Progress("search", 0.0, seconds=14.2))
    assert re.fullmatch(r"about 14 s to go, (60|59) s at most", said[0])


def test_a_long_list_of_sensors_is_cut_short(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    home = rooms()
    more = {f"s{i}": (home["hall"] + i) % 2 for i in range(9)}
    home.drop(columns=["hall", "door", "day"]).assign(**more).to_csv("wide.csv", index=False)
    monkeypatch.setattr(learning, "learn", _stop)
    code, _, err = run(monkeypatch, capsys, "learn", "wide.csv", *FACTS, "--out", "m")
    assert code == 2
    assert "9 sensors (s0, s1, s2, s3, s4, s5, s6, s7, ...)" in err


def _stop(*args, **kwargs):
    raise InputError("stopped before the work")


def test_before_there_is_a_mapping_the_bar_tells_of_rows():
    assert standing(Progress("scan", 0.5)) == ""
    assert standing(STANDING).startswith("public risk 0.1234")
