"""How long a user waits for `import discreet` and for `discreet --help`.

Each round starts every command once, in turn, so that a slow moment of the machine touches all of
them alike. The import is what it adds to a bare interpreter started in the same round.
"""

import argparse
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

TARGET = 0.3  # seconds
SCRIPT = str(Path(sysconfig.get_path("scripts")) / "discreet")
COMMANDS = {
    "bare": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import discreet"],
    "help": [SCRIPT, "--help"],
}


def wall_time(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def slowest_imports(count: int) -> list[tuple[float, str]]:
    """Return the modules whose own code takes longest, in seconds, slowest first."""
    command = [sys.executable, "-X", "importtime", "-c", "import discreet"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    # A line reads "import time: self [us] | cumulative | name"; the first one is the heading.
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines()[1:]]
    return sorted(((int(own) / 1e6, name.strip()) for own, _, name in rows), reverse=True)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--slowest", type=int, default=5, help="modules to list")
    options = parser.parse_args()

    for command in COMMANDS.values():  # once unmeasured: bytecode and disk cache
        wall_time(command)
    rounds = [
        {name: wall_time(command) for name, command in COMMANDS.items()}
        for _ in range(options.rounds)
    ]
    measured = {
        "python -c pass": ([r["bare"] for r in rounds], None),
        "import discreet, beyond that": ([r["import"] - r["bare"] for r in rounds], TARGET),
        "discreet --help": ([r["help"] for r in rounds], TARGET),
    }

    table = Table("seconds", "median", "least", "most", "target")
    for what, (seconds, target) in measured.items():
        figures = (statistics.median(seconds), min(seconds), max(seconds))
        aim = "" if target is None else f"{target:.3f}"
        table.add_row(what, *(f"{figure:.3f}" for figure in figures), aim)

    slowest = Table("slowest modules of the import", "own seconds")
    for seconds, module in slowest_imports(options.slowest):
        slowest.add_row(module, f"{seconds:.3f}")

    console = Console()
    console.print(f"{options.rounds} interleaved rounds")
    console.print(table, slowest)


if __name__ == "__main__":
    main()
