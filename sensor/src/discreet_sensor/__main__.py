"""The command ``discreet-sensor``; ``discreet sensor`` is the same."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from discreet_sensor import __version__
from discreet_sensor.errors import DiscreetError

NOT_DELIVERED = 3
READ = (
    "Where readings come from: - (standard input), csv:PATH, file:PATH, command:PROGRAM or "
    "mqtt://HOST/TOPIC#FIELD; may be given several times. [default: -]"
)
HOLD = (
    "How long a reading is valid, for sources that report only changes. "
    "[default: the round in which it came]"
)


def work(
    file: Path, state: Path, read: Sequence[str], hold: float, drain: float, quiet: bool
) -> int:
    """Run a sensor until its readings end or a signal comes; return the exit code.

    ``file``: the enrolment. The others are the options of the command. Raises DiscreetError.
    """
    from discreet_sensor.enrolment import load_enrolment
    from discreet_sensor.running import SensorTask, run_sensor
    from discreet_sensor.sources import STDIN, open_sources
    from discreet_sensor.stopping import on_signals

    _log_to_stderr(quiet)
    enrolment = load_enrolment(file)
    sources = open_sources(
        read or [STDIN], enrolment.sensors, interval=enrolment.interval, hold=hold
    )
    stop, hurry = threading.Event(), threading.Event()
    on_signals(lambda: hurry.set() if stop.is_set() else stop.set())
    if not quiet:
        every = enrolment.batch * enrolment.interval
        who, host = f"{enrolment.client} of site {enrolment.site}", enrolment.broker.host
        _print(f"{who}: a message every {every:g} s to {host}")
    try:
        waiting = run_sensor(SensorTask(enrolment, state, drain=drain), sources, stop, hurry)
    finally:
        sources.close()
    if waiting and not quiet:
        _print(f"{waiting} messages wait in {state}; the next start sends them")
    return NOT_DELIVERED if waiting and not stop.is_set() else 0


def _print(line: str) -> None:
    print(line, flush=True)


def _log_to_stderr(quiet: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.ERROR if quiet else logging.INFO,
        format="%(asctime)s discreet: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="discreet-sensor",
        description="Read, draw symbols and send them: one message each round, whatever is read. "
        "Exit code 3 if messages are left when the readings end; the next start sends them.",
        epilog="example: discreet-sensor hall.enrol --state hall --read file:/run/temperature",
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="What `discreet enroll` wrote for this device.")
    add(
        "--state",
        metavar="FOLDER",
        type=Path,
        required=True,
        help="Outbox, ledgers and certificates; survives reboots and is never copied.",
    )
    add("--read", metavar="[SENSOR=]SOURCE", action="append", default=[], help=READ)
    add("--hold", metavar="SECONDS", type=_seconds, default=0.0, help=HOLD)
    add(
        "--drain",
        metavar="SECONDS",
        type=_seconds,
        default=30.0,
        help="How long to wait for acknowledgements after the end. [default: 30]",
    )
    add("--quiet", action="store_true", help="Print warnings and errors only.")
    add("--version", action="version", version=__version__)
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        return work(given.file, given.state, given.read, given.hold, given.drain, given.quiet)
    except DiscreetError as error:
        print(f"discreet-sensor: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped. What was not acknowledged is sent at the next start.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
