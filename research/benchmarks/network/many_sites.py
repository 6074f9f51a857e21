"""A thousand sites on one PostgreSQL, served by one process: nothing lost, decisions in time.

    python -m research.benchmarks.network.many_sites [--sites 1000] [--sensors 10] \
        [--interval 60] [--minutes 10]

Broker without TLS, PostgreSQL and devices run on this machine; the rounds of all sites begin at the
same moment, and their devices send in the five seconds after each.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from rich.console import Console
from support.databases import PostgresServer, why_no_postgres
from support.network_figures.many_sites import run_many_sites
from support.network_figures.verdicts import judge

from discreet.network.broker import find_mosquitto

LATE = 10.0


def rows(found):
    yield (
        f"{found.sites:,} sites of {found.sensors} sensors: {found.sent:,} sent, "
        f"{found.acknowledged:,} acknowledged, {found.stored:,} stored",
        f"{found.lost} lost",
        "0",
        found.lost == 0 and found.stored == found.sent,
    )
    yield "sensors heard by the decisions", f"{found.heard:.2%}", ">= 99 %", found.heard >= 0.99
    middle = found.delays[len(found.delays) // 2] if found.delays else float("inf")
    most = found.delays[-1] if found.delays else float("inf")
    yield (
        f"{found.decided:,} decisions, seconds after the deadline: median, most",
        f"{middle:.1f}, {most:.1f}",
        f"median <= {LATE:g}",
        middle <= LATE,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--sensors", type=int, default=10)
    parser.add_argument("--interval", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    reason = "Mosquitto is not installed" if find_mosquitto() is None else why_no_postgres()
    if reason:
        print(f"not run: {reason}")
        return 0
    console = Console(width=130)
    status = console.status("starting")
    with tempfile.TemporaryDirectory() as name, PostgresServer() as server, status:
        found = run_many_sites(
            Path(name),
            server.url,
            sites=given.sites,
            sensors=given.sensors,
            interval=given.interval,
            rounds=max(1, round(60 * given.minutes / given.interval)),
            say=status.update,
        )
    passed = judge(console, "many sites", rows(found))
    load = os.getloadavg()[1]
    print(
        f"processor time of the fusion centre: {found.cpu:.0f} s in {found.seconds:.0f} s; "
        f"{found.megabytes:.0f} MB; load of the machine {load:.1f}"
    )
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
