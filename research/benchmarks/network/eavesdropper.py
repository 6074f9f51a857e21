"""What an eavesdropper on the broker learns from the size and the time of messages.

    python -m research.benchmarks.network.eavesdropper [--seconds 400] [--sensors 4] \
        [--interval 0.25]

The sensors are the real command; a gradient-boosted classifier learns from the first half of what
was heard and is judged on the second. As a control the same attack is tried on messages that are
delayed by 2 ms, and on ones that are a byte longer, whenever the reading is 1: it must find these.
"""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from rich.console import Console
from rich.table import Table
from support.network_figures.eavesdropping import attack, eavesdrop
from support.network_figures.verdicts import verdict

from discreet.network.broker import find_mosquitto

LIMIT = 0.55
READING = "the reading, 0 or 1"


def controls(heard):
    late = [replace(each, at=each.at + 0.002 * (each.cells == 1)) for each in heard]
    longer = [replace(each, sizes=each.sizes + (each.cells == 1)) for each in heard]
    return {"control: 2 ms later for a 1": late, "control: a byte longer for a 1": longer}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--sensors", type=int, default=4)
    parser.add_argument("--interval", type=float, default=0.25)
    given = parser.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    console, passed = Console(width=110), True
    with tempfile.TemporaryDirectory() as name, console.status("starting") as status:
        heard = eavesdrop(
            Path(name),
            given.seconds,
            sensors=given.sensors,
            interval=given.interval,
            say=status.update,
        )
    table = Table("asked of size and time", "messages judged", "AUC", "95 % interval", "")
    for question, (auc, low, high, count) in attack(heard, given.interval).items():
        good = high < LIMIT
        passed &= good
        figures = f"{count}", f"{auc:.3f}", f"{low:.3f} to {high:.3f}"
        table.add_row(question, *figures, f"< {LIMIT} {verdict(good)}")
    for what, leaky in controls(heard).items():
        auc, low, high, count = attack(leaky, given.interval)[READING]
        table.add_row(what, f"{count}", f"{auc:.3f}", f"{low:.3f} to {high:.3f}", "")
    console.print(table)
    sizes = {int(size) for each in heard for size in each.sizes}
    print(f"{sum(len(each.at) for each in heard)} messages, of {sorted(sizes)} bytes")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
