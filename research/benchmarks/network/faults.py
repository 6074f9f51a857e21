"""What must survive: kills, clones, full disks, a bad network, mutated messages and more.

    python -m research.benchmarks.network.faults [--only kills,disk] [--kills 50] \
        [--mutations 1000000]

Everything runs on this machine: Mosquitto and the commands `discreet serve` and `discreet sensor`
from a new site with TLS, in a folder that goes away. The tests try the same at a smaller size,
with the same code (tests/support/network_figures). What needs root or PostgreSQL is left out
without it and says so.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from support.databases import why_no_postgres
from support.network_figures import (
    bad_network,
    clocks,
    control,
    doubles,
    dropout,
    kills,
    life,
    mutations,
    outages,
)
from support.network_figures.verdicts import verdict

from discreet.network.broker import find_mosquitto

Row = tuple[str, str, str]
NOTICED = 30.0  # seconds
PICTURE = Path(tempfile.gettempdir()) / "discreet-dropout.png"


def say(words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)


def kill_all(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    tally = kills.survive_kills(folder / "kills", given.kills, say=say)
    what = f"SIGKILL of sensor, broker and fusion centre, {given.kills} times each"
    yield what, str(tally), verdict(tally.clean)
    acknowledged, lost, twice = control.kill_with_broker_acknowledgements_only(
        folder / "control", max(3, given.kills // 5)
    )
    found = f"{acknowledged} messages: {lost} lost, {twice} counted twice"
    yield "control: acknowledged by the broker only, never by the store", found, "control"


def live_on(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    tally = life.survive_life(folder / "life", given.kills, say=say)
    what = f"backup, restore, migration and change of the mapping, each killed {given.kills} times"
    yield what, str(tally), verdict(tally.clean)


def set_clocks(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    number = 0
    for who in ("fusion", "one", "all"):
        for name, size in clocks.JUMPS.items():
            found = []
            for sign, restart, keep in itertools.product((1, -1), (False, True), (None, 1)):
                number += 1
                place = folder / f"clocks-{number}"
                place.mkdir()
                seconds = sign * size
                found.append(clocks.jump(place, who, seconds, restart=restart, keep=keep))
            rounds, lost = max(each.rounds for each in found), sum(each.lost for each in found)
            told = min(each.told for each in found)
            whose = {"fusion": "the fusion centre's", "one": "a device's", "all": "all"}[who]
            what = f"{whose} clock{'s' * (who == 'all')} {name} ahead or behind, {len(found)} runs"
            good = rounds <= 10 and not lost and told == 3
            seen = (
                f"decided and all well after {rounds} rounds at most, {lost} lost, told by {told} "
                "of doctor, /health and dashboard at least"
            )
            yield what, seen, verdict(good)


def double(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    for run in doubles.ALL:
        what = (run.__doc__ or "").rstrip(".")
        if run is doubles.shared and (reason := why_no_postgres()):
            yield what, f"not run: {reason}", ""
            continue
        seconds, lost = run(folder / run.__name__)
        noticed = f"noticed after {seconds:.1f} s, " if seconds else ""
        good = seconds <= NOTICED and not lost
        yield what, f"{noticed}{lost} acknowledged messages lost", verdict(good)


def fill_disks(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    if reason := outages.why_no_small_disk():
        yield "full disk", f"not run: {reason}", ""
        return
    for who, run in (
        ("sensor", outages.full_disk_at_sensor),
        ("fusion centre", outages.full_disk_at_fusion),
    ):
        tally, said = run(folder / f"disk-{who[:6]}", given.outage)
        found = f"{tally}; told on the dashboard: {'yes' if said else 'no'}"
        yield f"disk of the {who} full for {given.outage:g} s", found, verdict(tally.clean and said)


def take_database(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    if reason := why_no_postgres():
        yield "database away", f"not run: {reason}", ""
        return
    tally, said = outages.database_away(folder / "database", given.outage)
    found = f"{tally}; told on the dashboard: {'yes' if said else 'no'}"
    yield f"PostgreSQL away for {given.outage:g} s", found, verdict(tally.clean and said)


def spoil_network(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    if reason := bad_network.why_no_namespaces():
        yield "bad network", f"not run: {reason}", ""
        return
    deadline = 5.0
    tally, messages, decided = bad_network.survive_bad_network(
        folder / "network", given.network, deadline=deadline
    )
    what = f"30 % of packets lost, 500 ms round trip, 2 partitions, {given.network:g} s"
    yield what, str(tally), verdict(tally.clean)
    for name, values in (("message stored", messages), ("decision", decided)):
        p50, p99 = np.percentile(values, [50, 99])
        yield f"  end of round to {name}", f"p50 {p50:.2f} s, p99 {p99:.2f} s", ""
    in_time = f"{np.mean(messages <= deadline):.0%} of the messages"
    yield "  stored before their round was closed", in_time, ""
    yield "  (rounds close at their deadline)", f"{deadline:g} s after their end", ""


def send_nonsense(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    tally, found = mutations.survive_mutations(folder / "mutations", given.mutations, say=say)
    good = found.alive and not found.accepted and found.refused >= given.mutations
    yield f"{given.mutations} mutated messages", str(found), verdict(good)
    yield "  other sensors meanwhile", str(tally), verdict(tally.clean)


def drop_messages(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    losses, found = dropout.curves()
    shown = [int(np.argmin(np.abs(losses - loss))) for loss in (0.0, 0.2, 0.4, 0.6)]
    for name, lines in found.items():
        zero, ours = np.array(lines["read as zero"]), np.array(lines["summed out"])
        yield (
            f"public error at 0, 20, 40 and 60 % loss, {name}",
            "",
            verdict(all((ours < zero)[1:])),
        )
        for way, values in lines.items():
            yield f"  silence {way}", ", ".join(f"{values[i]:.3f}" for i in shown), ""
    dropout.draw(losses, found, given.plot)
    yield "error against loss from 0 to 60 %", f"drawn to {given.plot}", ""


FIGURES: dict[str, Callable[[Path, argparse.Namespace], Iterator[Row]]] = {
    "kills": kill_all,
    "life": live_on,
    "clocks": set_clocks,
    "doubles": double,
    "disk": fill_disks,
    "database": take_database,
    "network": spoil_network,
    "mutations": send_nonsense,
    "dropout": drop_messages,
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--only", default=",".join(FIGURES), metavar="NAMES")
    options.add_argument("--kills", type=int, default=50, help="of each part")
    options.add_argument("--outage", type=float, default=60.0, metavar="SECONDS")
    options.add_argument("--network", type=float, default=120.0, metavar="SECONDS")
    options.add_argument("--mutations", type=int, default=1_000_000)
    options.add_argument("--plot", type=Path, default=PICTURE, metavar="FILE")
    given = options.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    table = Table("fault", "what was seen", "")
    missed = False
    for name in given.only.split(","):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="discreet-faults-") as folder:
            Path(folder).chmod(0o755)  # PostgreSQL runs as another user
            for row in FIGURES[name](Path(folder), given):
                table.add_row(*row)
                say(": ".join(row))
                missed |= row[-1] == "MISSED"
        say(f"{name} done in {time.monotonic() - began:.0f} s")
    Console(width=130).print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
