"""What becomes of messages of devices of every kind when everything is killed.

    python -m research.benchmarks.network.clients [--rounds 10000] [--kills 20] [--kinds c,python]

One site, a device of each kind, TLS; each device, the broker and the fusion centre are killed so
many times, and a tenth of the acknowledgements is lost on the way. MicroPython needs the Unix port,
on the PATH or named by DISCREET_MICROPYTHON.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from support.network_figures.clients import KINDS, survive, why_not


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--interval", type=float, default=0.1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    kinds = tuple(given.kinds.split(","))
    for kind in kinds:
        if why_not(kind):
            print(f"{kind}: not run: {why_not(kind)}")
    kinds = tuple(kind for kind in kinds if not why_not(kind))
    with tempfile.TemporaryDirectory() as folder:
        home = survive(
            Path(folder) / "home", given.rounds, given.kills, kinds, given.interval, 0, _say
        )
        tally, seen = home.tally(), home.observer
        written = home.written()
    for kind in kinds:
        own = [key for key in written if key[0] == kind]
        print(f"{kind}: {len(own)} messages, {len({boot for _, boot, _ in own})} starts")
    print(f"{tally}, {tally.strange} of unknown origin (asked: 0)")
    print(f"sent again: {seen.repeated} messages; with other bytes: {seen.differing} (asked: 0)")
    print(f"given up by a device or still waiting at the end: {home.undelivered} (asked: 0)")
    met = tally.clean and not seen.differing and not home.undelivered
    print("met" if met else "MISSED")
    return 0 if met else 1


def _say(line):
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
