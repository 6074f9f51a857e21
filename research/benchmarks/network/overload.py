"""Ten times more messages than the fusion centre can commit, for a minute.

    python -m research.benchmarks.network.overload [--seconds 60] [--clients 3000] [--nice 15]

Generators send whatever the broker takes, while ``discreet serve`` gets what they leave of the
processors, as if it ran on a smaller machine. Memory must stay flat, everything that was
acknowledged must be in the database, and everything else must have been counted as shed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from rich.console import Console
from support.network_figures.overload import overload
from support.network_figures.verdicts import judge

from discreet.network.broker import find_mosquitto

TIMES, GROWTH = 10, 0.05


def rows(found):
    memory = found.samples[:, 1] / 2**20
    middle = memory[len(memory) // 2]
    yield (
        f"offered {found.sent / found.seconds:,.0f} /s, times what was committed",
        f"{found.factor:.1f}",
        f">= {TIMES}",
        found.factor >= TIMES,
    )
    yield (
        f"resident memory, MB: begin {memory[0]:.1f}, middle {middle:.1f}, end {memory[-1]:.1f}, "
        f"most {memory.max():.1f}",
        f"{found.growth:+.1%}",
        f"<= {GROWTH:+.0%}",
        found.growth <= GROWTH,
    )
    yield f"acknowledged {found.acknowledged:,}, lost", f"{found.lost}", "0", found.lost == 0
    yield (
        f"sent {found.sent:,}, stored {found.stored:,}, shed {found.shed:,}; uncounted",
        f"{found.uncounted}",
        "0",
        found.uncounted == 0,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--clients", type=int, default=3000, help="each sends at most a message every 20 ms"
    )
    parser.add_argument("--nice", type=int, default=15, help="of the fusion centre, 0 to 19")
    given = parser.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    console = Console(width=130)
    with tempfile.TemporaryDirectory() as name, console.status("starting") as status:
        sizes = {"clients": given.clients, "nice": given.nice}
        found = overload(Path(name), given.seconds, **sizes, say=status.update)
    passed = judge(console, "overload", rows(found))
    print(
        f"at most {found.samples[:, 4].max():,.0f} messages waited for one commit; "
        f"the broker's memory: {found.samples[-1, 2] / 2**20:.0f} MB at the end"
    )
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
