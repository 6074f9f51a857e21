"""Messages per second, acknowledged and committed, beside the bare broker.

    python -m research.benchmarks.network.throughput [--clients 200] [--each 100] [--rounds 5]

In every round the same messages go twice from the same generators through the same Mosquitto at
quality of service 1: to a bare subscriber (paho as it comes, which stores nothing), and to
``discreet serve``, which checks, commits and acknowledges each to its sender. First without TLS on
two connections, then as a site is in earnest: TLS, a certificate and a connection for each device.
Both databases are measured, and gateways that send many readings in one message. The rate counts
from the first message sent to the last acknowledgement received; afterwards all must be in the
database.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from rich.console import Console
from rich.table import Table
from support.databases import PostgresServer, why_no_postgres
from support.network_figures.devices import SecureSite
from support.network_figures.load import LoadSite, Serve, committed, run_bare
from support.network_figures.verdicts import verdict

from discreet.network.broker import Broker, find_mosquitto

MESSAGES, RATIO, READINGS = 4000, 0.8, 500_000
GATEWAYS, SENSORS, BATCH = 64, 16, 256


def once(site, serve, given, each):
    return committed(site, serve, given.processes, each, given.window)


def single(site, given):
    """Messages of one reading: bare and ours, rates and processor seconds, round by round."""
    found = []
    for _ in range(given.rounds):
        # The fusion centre is away meanwhile, or it would take its share of the machine.
        loads = site.loads(given.processes, given.each, window=given.window, bare=True)
        bare = run_bare(loads, site.tls)
        with Serve(site) as serve:
            once(site, serve, given, max(1, given.each // 10))  # to warm up
            found.append((*bare, *once(site, serve, given, given.each)))
        say(f"bare {found[-1][0]:,.0f} /s, discreet {found[-1][2]:,.0f} /s")
    return found


def say(words):
    print(f"  {words}", file=sys.stderr, flush=True)


def span(values, form=",.0f"):
    values = sorted(values)
    return f"{median(values):{form}} ({values[0]:{form}} to {values[-1]:{form}})"


def single_row(name, found):
    bare, bare_seconds, ours, seconds = zip(*found, strict=True)
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    good = median(ours) >= MESSAGES, median(ratios) >= RATIO
    figures = [
        *(name, span(bare), span(ours), f">= {MESSAGES:,} {verdict(good[0])}"),
        *(span(ratios, ".2f"), f">= {RATIO} {verdict(good[1])}"),
        f"{1e6 * median(bare_seconds):.0f} / {1e6 * median(seconds):.0f}",
    ]
    return figures, all(good)


def gateway_row(name, site, given):
    """Gateways of many sensors and rounds in one message."""
    each = max(1, given.readings // (GATEWAYS * SENSORS * BATCH))
    with Serve(site) as serve:
        once(site, serve, given, 1)
        rates = []
        for _ in range(given.rounds):
            rates.append(once(site, serve, given, each)[0])
            say(f"gateways {rates[-1]:,.0f} messages /s")
    found = [rate * SENSORS * BATCH for rate in rates]
    good = median(found) >= READINGS
    return [name, span(rates), span(found), f">= {READINGS:,} {verdict(good)}"], good


def places(stack, only):
    """Where the databases are, by name."""
    if only != "postgresql":
        yield "SQLite", None
    if why_no_postgres():
        print(f"not run with PostgreSQL: {why_no_postgres()}")
    elif only != "sqlite":
        yield "PostgreSQL", stack.enter_context(PostgresServer()).url


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--each", type=int, default=100, help="messages of each client")
    parser.add_argument("--readings", type=int, default=5_000_000, help="of the gateways")
    parser.add_argument("--processes", type=int, default=2, help="generators")
    parser.add_argument("--window", type=int, default=1000, help="messages under way, each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    given = parser.parse_args()
    if find_mosquitto() is None:
        print("not run: Mosquitto is not installed")
        return 0
    console, passed = Console(width=130), True
    one = Table("one reading", "bare broker /s", "discreet /s", "", "ratio", "", "µs bare / ours")
    many = Table("gateways", "messages /s", "readings /s", "")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker.plain(folder / "broker"))
        for name, url in places(stack, given.only):
            say(name)
            site = LoadSite(folder / name, broker.port, clients=given.clients, database=url)
            row, good = single_row(name, single(site, given))
            one.add_row(*row)
            secure = SecureSite(folder / f"{name}-tls", given.clients, url)
            with secure.broker:
                row, fine = single_row(f"{name}, a TLS connection each", single(secure, given))
            one.add_row(*row)
            passed &= fine
            shape = {"clients": GATEWAYS, "width": SENSORS, "batch": BATCH, "interval": 0.001}
            site = LoadSite(
                folder / f"{name}-many", broker.port, database=url, **shape, name="many"
            )
            row, fine = gateway_row(name, site, given)
            many.add_row(*row)
            passed &= good and fine
    console.print(one)
    console.print(many)
    print(
        f"{given.clients} clients in {given.processes} generators, {given.each} messages each; "
        f"{GATEWAYS} gateways of {SENSORS} sensors, {BATCH} rounds in a message; "
        f"{given.rounds} rounds: median (least to most). µs: processor time of the consumer alone."
    )
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
