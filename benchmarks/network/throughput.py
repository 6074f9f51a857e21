"""Messages per second, acknowledged and committed, beside the bare broker.

    python benchmarks/network/throughput.py [--clients 200] [--each 200] [--rounds 5]

In every round the same messages go twice from the same generators through the same Mosquitto at
quality of service 1: to a bare subscriber (paho as it comes, which stores nothing), and to
``discreet serve``, which checks, commits and acknowledges each to its sender. Both databases are
measured, then gateways that send many readings in one message. The rate counts from the first
message sent to the last acknowledgement received; afterwards all must be in the database.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from databases import PostgresServer, why_no_postgres
from network_figures.load import LoadSite, Serve, run_bare, run_loads
from rich.console import Console
from rich.table import Table

from discreet.network.broker import Broker, find_mosquitto

MESSAGES, RATIO, READINGS = 4000, 0.8, 500_000
WINDOW = 10  # messages of a client under way


def once(site, serve, given, **options):
    """One run: rate and the fusion centre's processor time per message."""
    loads = site.loads(given.processes, given.each, window=given.window, **options)
    before, used = stored(site), serve.processor()
    sent = run_loads(loads)
    count = sum(len(load.senders) for load in loads) * given.each
    fresh = stored(site) - before
    assert sum(each.stored for each in sent) == fresh == count, (fresh, count, sent)
    taken = max(each.end for each in sent) - min(each.begin for each in sent)
    return count / taken, (serve.processor() - used) / count


def stored(site):
    reader = site.reader()
    try:
        return sum(each.messages for each in reader.clients())
    finally:
        reader.close()


def compare(site, given):
    """Rates round by round: bare, ours, and processor seconds per message of both."""
    found = []
    with Serve(site) as serve:
        once(site, serve, given)  # to warm up
        for _ in range(given.rounds):
            bare = run_bare(site.loads(given.processes, given.each, window=given.window, bare=True))
            found.append((*bare, *once(site, serve, given)))
    return found


def verdict(good):
    return "PASS" if good else "MISSED"


def span(values, form):
    values = sorted(values)
    return f"{median(values):{form}} ({values[0]:{form}} to {values[-1]:{form}})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--each", type=int, default=200, help="messages of each client")
    parser.add_argument("--processes", type=int, default=2, help="generators")
    parser.add_argument("--window", type=int, default=1000, help="messages under way, each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["sqlite", "postgresql", "gateways"])
    given = parser.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    table = Table(
        "database", "bare broker /s", "discreet /s", "", "ratio", "", "us bare", "us ours"
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker.plain(folder / "broker"))
        places = {"sqlite": None}
        if why_no_postgres():
            print(f"not run with PostgreSQL: {why_no_postgres()}")
        elif given.only != "sqlite":
            places["postgresql"] = stack.enter_context(PostgresServer()).url
        for name, url in places.items():
            if given.only not in (None, name):
                continue
            site = LoadSite(folder / name, broker.port, clients=given.clients, database=url)
            found = compare(site, given)
            rates = [ours for _, _, ours, _ in found]
            ratios = [ours / bare for bare, _, ours, _ in found]
            table.add_row(
                name,
                span([bare for bare, *_ in found], ".0f"),
                span(rates, ".0f"),
                verdict(median(rates) >= MESSAGES),
                span(ratios, ".2f"),
                verdict(median(ratios) >= RATIO),
                f"{1e6 * median(each[1] for each in found):.0f}",
                f"{1e6 * median(each[3] for each in found):.0f}",
            )
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
