"""``discreet init``: make a site and say what to do next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import (
    Anyway,
    Budget,
    Json,
    Period,
    PolicyRows,
    PrivateStay,
    Repeat,
    argument,
    option,
)
from discreet.cli.policies import choose_repeat
from discreet.cli.terminal import interruptible, json_result, print_lines, say_lasting
from discreet.errors import InputError, shown
from discreet.network import need_network

if TYPE_CHECKING:
    from discreet.network.site.settings import Site

_MOST_ASKED = 8  # classes
_LAST_PORT = 65535


def init(
    folder: Annotated[Path, argument("FOLDER", "New folder to write.")],
    mapping: Annotated[Path, option("FILE", "Mapping file that the site is to run.")],
    name: Annotated[str, option("NAME", "Name of the site: a-z, 0-9 and -.")] = "home",
    host: Annotated[
        str,
        option(
            "HOST",
            "Name or address by which sensors find the broker; localhost is for this machine only.",
        ),
    ] = "localhost",
    port: Annotated[int, option("N", "Port of the broker.", min=1, max=65535)] = 8883,
    interval: Annotated[
        float, option("SECONDS", "How often every sensor sends: one round.")
    ] = 60.0,
    deadline: Annotated[
        float, option("SECONDS", "How long after its end a round waits for stragglers.")
    ] = 15.0,
    database: Annotated[
        str, option("URL", "sqlite:PATH inside the folder, or postgresql://...")
    ] = "sqlite:data/fusion.db",
    dashboard_port: Annotated[int, option("N", "Port of the dashboard.", min=1, max=65535)] = 8080,
    metrics_port: Annotated[int, option("N", "Port of the metrics.", min=1, max=65535)] = 9464,
    audit: Annotated[
        Path | None, option("FILE", "What `discreet audit --json` printed, for the dashboard.")
    ] = None,
    frontier: Annotated[
        Path | None, option("FILE", "What `discreet frontier` wrote, for the dashboard.")
    ] = None,
    expires: Annotated[
        str | None,
        option(
            "DATE",
            "When the guarantee has to be looked at again, as 2030-01-31. [default: in a year]",
        ),
    ] = None,
    workers: Annotated[
        int,
        option(
            "N",
            "Fusion workers that share the site's sensors; several need PostgreSQL.",
            min=1,
            max=64,
        ),
    ] = 1,
    keep: Annotated[
        float, option("DAYS", "Delete what is stored after that; 0: never.", min=0)
    ] = 90.0,
    answer: Annotated[
        list[str] | None,
        option(
            "CLASS=TEXT",
            "What the dashboard shows when CLASS is decided, such as 'True=Somebody has fallen'; "
            "may be given several times. [default: asked for at a terminal, else the class]",
        ),
    ] = None,
    budget: Budget = None,
    period: Period = 86_400,
    repeat: Repeat = None,
    stay: PrivateStay = None,
    rows: PolicyRows = None,
    anyway: Anyway = False,
    as_json: Json = False,
) -> None:
    """Write a working deployment: certificates, broker, fusion centre, services.

    The folder appears whole or not at all, and only its owner can read it. Budget, period and
    repeat are for devices that are enrolled without their own.

    Example:

        discreet init site --mapping home.json --host gateway.local
    """
    with interruptible("stopped. Nothing was written."), json_result(as_json) as result:
        need_network()
        _check_database(database, workers)
        _check_ports(port, dashboard_port, range(metrics_port, metrics_port + workers))
        from discreet.data.columns import written
        from discreet.export.neutral import Policy
        from discreet.mapping.mapping import Mapping
        from discreet.network.broker import find_mosquitto
        from discreet.network.site.making import make_folder
        from discreet.network.site.settings import BrokerEndpoint, Endpoint, checked

        found = Mapping.load(mapping)
        chosen, policy_lines = choose_repeat(found, repeat, rows, stay, period, interval)
        classes = [written(each) for each in found.public.classes]
        site, span = make_folder(
            folder,
            mapping,
            Policy(budget=budget, period=period, repeat=chosen),
            site=name,
            broker=checked(BrokerEndpoint, host=host, port=port),
            interval=interval,
            deadline=deadline,
            database=database,
            dashboard=Endpoint(port=dashboard_port),
            metrics=Endpoint(port=metrics_port),
            audit=audit,
            frontier=frontier,
            **_end(expires),
            workers=workers,
            keep=keep or None,
            answers=read_answers(answer, classes, found.public.name),
            broker_program=find_mosquitto(),
            anyway=anyway,
        )
        result |= {"out": str(folder), "site": site.site, "mapping_id": found.id}
        lines = _made(folder, site)
        print_lines([lines[0], *policy_lines])
        say_lasting(span)
        print_lines(lines[1:])


def _check_database(database: str, workers: int) -> None:
    from discreet.network.site.settings import is_inside

    if not database.startswith("sqlite:"):
        return
    if not is_inside(database):
        raise InputError(
            f"--database {database[:200]} is not inside of the folder. Give a path from the folder "
            "on, such as sqlite:data/fusion.db."
        )
    if workers > 1:
        raise InputError(
            f"--workers {workers} need PostgreSQL: only one worker can write to SQLite. Give "
            "--database postgresql://... or leave out --workers."
        )


def _check_ports(broker: int, dashboard: int, metrics: range) -> None:
    """Refuse to have two of them listen at one port; each worker has one for its metrics."""
    named = {"--port": [broker], "--dashboard-port": [dashboard], "--metrics-port": metrics}
    for (one, ports), (other, others) in combinations(named.items(), 2):
        if both := set(ports) & set(others):
            raise InputError(f"{one} and {other} are both {min(both)}. Give each its own.")
    if metrics[-1] > _LAST_PORT:
        raise InputError(
            f"--metrics-port {metrics[0]} leaves no ports for {len(metrics)} workers. Give one "
            f"up to {_LAST_PORT + 1 - len(metrics)}."
        )


def _made(folder: Path, site: Site) -> list[str]:
    from discreet_sensor.enrolment import is_loopback

    broker = site.broker
    lines = [
        f"wrote {folder}, site {site.site}, broker at {broker.host}:{broker.port}, "
        f"a round every {site.interval:g} s",
        f"secret: everything in it; {folder / 'keys'} decides who belongs to the site",
    ]
    if is_loopback(broker.host):
        lines.append("sensors on other machines cannot reach localhost: for them, --host")
    return [
        *lines,
        f"next: discreet enroll NAME --site {shlex.quote(str(folder))}, for each device",
        f"to start it: {folder / 'README.md'}; to check it: discreet doctor",
    ]


def _end(text: str | None) -> dict[str, date]:
    if text is None:
        return {}
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--expires must be a date such as 2030-01-31, got {text!r}.") from None
    if found < datetime.now(UTC).date():
        raise InputError(f"--expires {found} has passed. Give a day that is yet to come.")
    return {"expires": found}


def read_answers(given: Sequence[str] | None, classes: Sequence[str], fact: str) -> dict[str, str]:
    """Return the sentence for each class; asked for at a terminal if none is given."""
    if given is None:
        asks = sys.stdin.isatty() and sys.stdout.isatty() and len(classes) <= _MOST_ASKED
        return _ask(classes, fact) if asks else {}
    found = {}
    for text in given:
        fits = [each for each in classes if text.startswith(f"{each}=")]
        if not fits:
            known = ", ".join(map(shown, classes[:10]))
            raise InputError(f"--answer must be CLASS=TEXT with a class of {known}, got {text!r}.")
        named = max(fits, key=len)
        if named in found:
            raise InputError(f"--answer is given twice for {shown(named)}. Keep one.")
        found[named] = text[len(named) + 1 :].strip()
    return found


def _ask(classes: Sequence[str], fact: str) -> dict[str, str]:
    print("What is the dashboard to show? One sentence for each class; Enter keeps its name.")
    found = {}
    for each in classes:
        with suppress(EOFError):
            found[each] = input(f"  {fact} is {each}: ").strip()
    return {each: text for each, text in found.items() if text}
