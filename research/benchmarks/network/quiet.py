"""An hour in which nothing goes wrong: doctor, ``/health`` and dashboard must raise no alarm.

    python -m research.benchmarks.network.quiet [--minutes 60] [--sensors 5] [--interval 5]

Broker, fusion centre and devices are processes of their own on a site with TLS.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from support.network_figures.quiet import watch_quiet
from support.network_figures.verdicts import verdict

from discreet.network.broker import find_mosquitto


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--sensors", type=int, default=5)
    parser.add_argument("--interval", type=float, default=5.0, metavar="SECONDS")
    given = parser.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    with tempfile.TemporaryDirectory() as name:
        asked, alarms, tally = watch_quiet(
            Path(name), 60 * given.minutes, given.sensors, given.interval, say=_say
        )
    times = ", ".join(f"{who} {count}" for who, count in asked.items())
    good = not alarms and tally.clean
    print(f"{given.minutes:g} quiet minutes, asked: {times} times; {tally}")
    print(f"false alarms: {len(alarms)} (asked: 0) {verdict(good)}")
    return int(not good)


def _say(words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
