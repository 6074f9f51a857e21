"""Half an hour with 200 sensors: memory and lag of the fusion centre must stay flat.

python -m research.benchmarks.network.soak [--minutes 30] [--sensors 200] [--interval 1]
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from rich.console import Console
from support.network_figures.soak import soak
from support.network_figures.verdicts import judge

from discreet.network.broker import find_mosquitto

MEMORY_GROWTH, LAG_GROWTH = 0.05, 0.5


def rows(found):
    memory = ", ".join(f"{each / 2**20:.1f}" for each in found.quarters(1))
    lag = ", ".join(f"{1000 * each:.0f}" for each in found.quarters(2))
    yield (
        f"resident memory by quarter, MB: {memory}",
        f"{found.growth(1):+.1%}",
        f"<= {MEMORY_GROWTH:+.0%}",
        found.growth(1) <= MEMORY_GROWTH,
    )
    yield (
        f"from sending to acknowledgement by quarter, ms: {lag}",
        f"{found.growth(2):+.0%}",
        f"<= {LAG_GROWTH:+.0%}",
        found.growth(2) <= LAG_GROWTH,
    )
    lost = found.acknowledged - found.stored
    yield (
        f"sent {found.sent:,}, acknowledged {found.acknowledged:,}, stored {found.stored:,}",
        f"{found.sent - found.acknowledged} open",
        "0",
        found.sent == found.acknowledged and lost <= 0,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--sensors", type=int, default=200)
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    given = parser.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    console = Console(width=130)
    with tempfile.TemporaryDirectory() as name, console.status("starting") as status:
        found = soak(
            Path(name), 60 * given.minutes, given.sensors, given.interval, say=status.update
        )
    passed = judge(console, "soak", rows(found))
    print(f"{found.decisions:,.0f} rounds decided; last quarter against the second")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
