"""From thirty days of a home's own history to an audited mapping: three commands, and how long.

    python -m research.benchmarks.home_history [--days 30]

Asked for: 100,000 states of 20 entities in at most 60 s.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from research.home_history import ZONE, make_history, write_history

MOST = 60.0  # seconds
FACTS = ("--public", "cooking", "--private", "who")
COMMANDS = (
    ("import", "ha.db", "--timezone", ZONE, "--label", "person.ann=who",
     "--label", "input_boolean.cooking=cooking", "--out", "home.csv"),
    ("learn", "home.csv", *FACTS, "--group", "time:day", "--out", "home.json"),
    ("audit", "home.json", "home.csv"),
)  # fmt: skip


def processor() -> float:
    """Return the processor time of the commands so far."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def main() -> None:
    """Run the commands and print how long each takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        events = make_history(given.days)
        write_history(Path(folder) / "ha.db", events)
        print(f"{len(events)} states of {len({each[1] for each in events})} entities")
        whole = used = 0.0
        for command in COMMANDS:
            begin, before = time.perf_counter(), processor()
            ended = subprocess.run(
                [sys.executable, "-m", "discreet", *command],
                cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            seconds, own = time.perf_counter() - begin, processor() - before
            whole += seconds
            used += own
            print(f"\n$ discreet {' '.join(command)}\n{ended.stdout}{ended.stderr}", end="")
            print(f"-- {seconds:.1f} s, {own:.1f} s of processor, exit code {ended.returncode}")
        print(f"\nall together: {whole:.1f} s, {used:.1f} s of processor; ", end="")
        print(f"load {os.getloadavg()[0]:.1f}: {'met' if whole <= MOST else 'MISSED'}")


if __name__ == "__main__":
    main()
