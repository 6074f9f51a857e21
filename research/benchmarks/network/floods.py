"""Devices with good certificates that flood their site: are the others heard?

    python -m research.benchmarks.network.floods [--seconds 60] [--rate 8600] [--only small,large]

One and three of ten devices send as much as they can, each over its own TLS session: nonsense,
payloads of 200 kB, messages at QoS 0, authentic ones with a new boot each, and one authentic
message again and again. The others send one message each round (of a second, with a deadline of
one more) and never a second time. They must be heard in 95 % of the rounds, memory must stay
flat, and the fusion centre must suspend whoever floods; doctor, /health and dashboard are asked
meanwhile, and must name them.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from rich.console import Console
from rich.table import Table
from support.network_figures import floods
from support.network_figures.verdicts import verdict

from discreet.network.broker import find_mosquitto

DEVICES, HEARD, GROWTH = 10, 0.95, 0.05


def row(kind, attackers, found):
    fusion, broker = found.memory.max(axis=0) / 2**20
    good = found.heard >= HEARD and found.growth <= GROWTH and len(found.named) == attackers
    good = good and len(found.told) == 3
    return good, [
        f"{attackers} of {DEVICES}: {kind.__doc__.rstrip('.').lower()}",
        f"{found.sent:,}",
        f"{found.heard:.1%} of {found.rounds}",
        f"{fusion:.0f} + {broker:.0f} MB, {found.growth:+.1%}",
        ", ".join(sorted(found.named)) or "nobody",
        ", ".join(sorted(found.told)) or "nobody",
        f"{found.rows}",
        verdict(good),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each flood")
    parser.add_argument("--rate", type=int, default=floods.RATE, help="messages a second, each")
    parser.add_argument("--only", default="", help="names of floods, separated by commas")
    given = parser.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    wanted = [each for each in floods.ALL if not given.only or each.__name__ in given.only]
    heads = (
        "flood",
        "sent",
        "honest heard, rounds",
        "fusion + broker",
        "suspended",
        "told by",
        "rows",
        "",
    )
    console, table, passed = Console(width=170), Table(*heads), True
    for kind in wanted:
        for attackers in (1, 3):
            with (
                tempfile.TemporaryDirectory() as name,
                floods.flooded_site(Path(name, "site"), DEVICES) as (site, serve),
            ):
                found = floods.flood(
                    *(site, serve, kind, range(attackers), range(attackers, DEVICES)),
                    *(given.seconds, given.rate),
                )
            good, cells = row(kind, attackers, found)
            passed &= good
            table.add_row(*cells)
    console.print(table)
    print(
        f"targets: heard in {HEARD:.0%} of the rounds, memory {GROWTH:+.0%} at most from the "
        "second third to the last, all who flood suspended and named by doctor, /health and "
        "dashboard; rows: most of one device and round"
    )
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
