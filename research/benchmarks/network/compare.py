"""The network's figures beside those of another commit, in one run that takes turns.

    git clone . ../before && git -C ../before checkout COMMIT
    python -m research.benchmarks.network.compare --against ../before [--python FILE] \
        [--times 5] [--only throughput,soak] [--size tiny]

Each turn runs the same command of both checkouts, one after the other, and the order changes from
turn to turn: what else the machine does meets both alike. ``--python`` runs the other if it needs
other packages. A figure is worse if the median of this checkout is worse than every turn of the
other, and than the median of these by more than 5 %. One turn of each shows nothing.
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parents[3]
NOISE = 0.05
Turns = dict[Path, list[float]]


@dataclass(frozen=True)
class Figure:
    """``pattern``: finds it in what is printed. ``sign``: 1 if more is better, -1 if less is.

    ``place``: which of the numbers found it is; none: their sum.
    """

    name: str
    pattern: str
    sign: int
    place: int | None = 0

    def read(self, printed: str) -> float:
        found = [float(each.replace(",", "")) for each in re.findall(self.pattern, printed)]
        if not found:
            sys.exit(f"compare: nothing like {self.pattern!r} was printed:\n{printed[-2000:]}")
        return sum(found) if self.place is None else found[self.place]


_AUC = r"│ {} +│ \d+ +│ ([\d.]+)"
FIGURES = {
    "throughput": (
        Figure("messages a second", r"discreet ([\d,]+) /s", 1),
        Figure("messages a second, TLS", r"discreet ([\d,]+) /s", 1, 1),
        Figure("messages a second of gateways", r"gateways ([\d,]+) messages", 1),
        Figure("µs of processor for a message", r"│ \d+ / (\d+) +│", -1),
        Figure("µs of processor for a message, TLS", r"│ \d+ / (\d+) +│", -1, 1),
    ),
    "intruder": (
        Figure("intruders accepted", r"│ \d+ +│ (\d+) +│ \d+ +│ (?:PASS|MISSED)", -1, None),
        Figure("messages read by intruders", r"│ (\d+) +│ (?:PASS|MISSED)", -1, None),
        Figure("seconds until a revoked session is cut", r"revocation took ([\d.]+) s", -1),
    ),
    "eavesdropper": (
        Figure("AUC, the reading", _AUC.format("the reading, 0 or 1"), -1),
        Figure("AUC, whether there was one", _AUC.format("whether there was a reading"), -1),
        Figure("AUC, the symbol", _AUC.format("the symbol"), -1),
    ),
    "soak": (
        Figure("MB of memory in the last quarter", r"MB: [\d., ]*?([\d.]+) +│", -1),
        Figure("ms to the acknowledgement, last quarter", r"ms: [\d., ]*?([\d.]+) +│", -1),
        Figure("messages not acknowledged", r"│ (\d+) open", -1),
    ),
}
SIZES = {
    "usual": {
        "throughput": "--clients 200 --each 100 --readings 1000000 --rounds 1 --only sqlite",
        "intruder": "--times 3",
        "eavesdropper": "--seconds 100",
        "soak": "--minutes 1 --sensors 200",
    },
    "tiny": {
        "throughput": "--clients 20 --each 20 --readings 20000 --rounds 1 --only sqlite",
        "intruder": "--times 1",
        "eavesdropper": "--seconds 10",
        "soak": "--minutes 0.2 --sensors 10",
    },
}


def environment(checkout: Path) -> dict[str, str]:
    parts = (checkout / "src", checkout / "sensor" / "src", checkout)
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, parts))}


def check(checkout: Path, python: str) -> None:
    """Make sure that a checkout runs its own code, not what is installed."""
    found = run(checkout, python, "-c", "import discreet; print(discreet.__file__)").strip()
    if not Path(found).is_relative_to(checkout):
        sys.exit(f"compare: {checkout} would run {found}: is it a checkout of discreet?")


def run(checkout: Path, *command: str) -> str:
    """Return what a command of a checkout prints; missed targets are no failure."""
    done = subprocess.run(
        command,
        cwd=checkout,
        env=environment(checkout),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


def take_turns(name: str, given: argparse.Namespace) -> list[tuple[Figure, Turns]]:
    figures = FIGURES[name]
    seen: list[Turns] = [{HERE: [], given.against: []} for _ in figures]
    command = ("-m", f"research.benchmarks.network.{name}", *SIZES[given.size][name].split())
    for turn in range(given.times):
        for checkout in (HERE, given.against)[:: 1 if turn % 2 else -1]:
            python = sys.executable if checkout == HERE else given.python
            printed = run(checkout, python, *command)
            for figure, turns in zip(figures, seen, strict=True):
                turns[checkout].append(figure.read(printed))
        print(f"  {name}: turn {turn + 1} of {given.times}", file=sys.stderr, flush=True)
    return list(zip(figures, seen, strict=True))


def row(figure: Figure, turns: Turns, against: Path) -> tuple[bool, list[str]]:
    now, before = turns[HERE], turns[against]
    ours, theirs = median(now), median(before)
    worse = all(figure.sign * ours < figure.sign * each for each in before)
    worse = worse and abs(ours - theirs) > NOISE * theirs
    ratio = f"{ours / theirs:.2f}" if theirs else ""
    cells = [
        f"{median(each):,.4g} ({min(each):,.4g} to {max(each):,.4g})" for each in (now, before)
    ]
    return worse, [figure.name, *cells, ratio, "WORSE" if worse else "no worse"]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--against", type=Path, required=True, metavar="CHECKOUT")
    options.add_argument("--python", default=sys.executable, metavar="FILE", help="of the other")
    options.add_argument("--times", type=int, default=5, metavar="N", help="turns of each")
    options.add_argument("--only", default=",".join(FIGURES), metavar="NAMES")
    options.add_argument("--size", choices=SIZES, default="usual")
    given = options.parse_args()
    given.against = given.against.resolve()
    check(HERE, sys.executable)
    check(given.against, given.python)
    table = Table("median (least to most)", "this checkout", "the other", "ratio", "")
    missed = False
    for name in given.only.split(","):
        for figure, turns in take_turns(name, given):
            worse, cells = row(figure, turns, given.against)
            missed |= worse
            table.add_row(*cells)
    Console(width=130).print(table)
    print(f"{given.times} turns of each, taken alternately; a ratio is of the medians.")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
