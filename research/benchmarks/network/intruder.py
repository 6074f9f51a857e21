"""What intruders get at a site: nothing may be accepted and nothing read.

    python -m research.benchmarks.network.intruder [--times 20]

A Mosquitto runs from a new site on loopback while an honest sensor sends. The tests try the
same with the same code (tests/support/intruders.py), fewer times.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from support.intruders import ALL, Stage, control
from support.network_figures.verdicts import verdict
from support.replays import replayed
from support.sites import make_site

from discreet.network.broker import find_mosquitto


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--times", type=int, default=20, metavar="N", help="rounds of each")
    times = options.parse_args().times
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    table = Table("intruder", "attempts", "accepted", "messages read", "")
    missed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Stage(make_site(folder), folder) as stage:
            for attempt in ALL:
                found = attempt(stage, times)
                good = found.accepted == found.read == 0 and stage.honest
                missed |= not good
                figures = (f"{found.attempts}", f"{found.accepted}", f"{found.read}")
                table.add_row(found.what, *figures, verdict(good))
            honest = f"{len(stage.sent)} sent meanwhile by the honest sensor"
            cut = stage.cut_after
            stage.be_quiet()
            checked = control(stage)
        (folder / "replays").mkdir()
        found, reasons = replayed(folder / "replays", times * 5)
    good = found.accepted == 0
    missed |= not good
    table.add_row(found.what, f"{found.attempts}", f"{found.accepted}", "0", verdict(good))
    found = checked
    table.add_row(found.what, f"{found.attempts}", f"{found.accepted}", f"{found.read}", "control")
    Console(width=110).print(table)
    told = ", ".join(f"{client} {reason} {times}" for (client, reason), times in reasons.items())
    print(f"the fusion centre on the replays: {told}; others the broker turned away")
    print(
        f"a revocation took {statistics.median(cut):.2f} s to cut the session (median of "
        f"{len(cut)}), {max(cut):.2f} s at most"
    )
    print(f"{honest}; no session of the honest was cut")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
