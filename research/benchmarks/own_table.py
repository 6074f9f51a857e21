"""From one's own table to a report to sign: the commands, what has to be decided, and how long.

    DISCREET_DATA=FOLDER python -m research.benchmarks.own_table [--only adult,occupancy,log]

Two commands for a table, one more for a log. A decision is an option, or an argument of one, that
only the user can know; names of files that are written are none. The report has a place to sign.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from research.home_history import ZONE, make_history, write_history
from research.manual import DOCS

AUDIT = "audit m.json table.csv --max-advantage 0.1 --html report.html"
LEARN = {
    "adult": "learn table.csv --public income --private marital --out m.json",
    "occupancy": "learn table.csv --public Occupancy --private office_hours --group date:day "
    "--out m.json",
    "log": "learn table.csv --public cooking --private who --group time:day --out m.json",
}
IMPORT = (
    f"import log.db --timezone {ZONE} --label person.ann=who --label input_boolean.cooking=cooking "
    "--out table.csv"
)
PAGES = {"adult": "income", "occupancy": "occupancy"}
WRITTEN = ("--out", "--html")


def make_table(name: str, folder: Path) -> None:
    """Write the table, as the manual's gallery makes it, or the log of thirty days."""
    if name == "log":
        write_history(folder / "log.db", make_history(30))
        return
    page = (DOCS / "gallery" / f"{PAGES[name]}.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
        subprocess.run([sys.executable, "-c", block], cwd=folder, check=True)
    (made,) = folder.glob("*.csv")
    made.rename(folder / "table.csv")


def decisions(command: str) -> list[str]:
    """Return what the user has to know for a command: its options, but for what is written."""
    return [f"{option} {value}" for option, value in re.findall(r"(--[\w-]+) (\S+)", command)
            if option not in WRITTEN]  # fmt: skip


def processor() -> float:
    """Return the processor time of the commands so far."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def run(command: str, folder: Path) -> None:
    """Run a command and print how long it took and how it ended."""
    begin, before = time.perf_counter(), processor()
    ended = subprocess.run(
        [sys.executable, "-m", "discreet", *command.split()],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(f"\n$ discreet {command}\n{(ended.stdout + ended.stderr).rstrip()}")
    print(f"-- {time.perf_counter() - begin:.1f} s, {processor() - before:.1f} s of processor, "
          f"exit code {ended.returncode}")  # fmt: skip


def main() -> None:
    """Go from each table to its report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="adult,occupancy,log")
    for name in parser.parse_args().only.split(","):
        commands = [*([IMPORT] if name == "log" else []), LEARN[name], AUDIT]
        with tempfile.TemporaryDirectory() as where:
            folder = Path(where)
            make_table(name, folder)
            print(f"\n==> {name}")
            for command in commands:
                run(command, folder)
            page = (folder / "report.html").stat().st_size / 1e3
        asked = [each for command in commands for each in decisions(command)]
        print(f"\n{name}: {len(commands)} commands, {len(asked)} decisions: {', '.join(asked)}; "
              f"a report of {page:.0f} kB", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
