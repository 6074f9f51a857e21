"""``discreet fleet``: the state of many sites, in one table or for Prometheus."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import Json, argument, option
from discreet.cli.terminal import (
    interruptible,
    line_width,
    plain_print,
    print_json,
    print_lines,
)
from discreet.layout import Column, table
from discreet.network import need_network
from discreet_sensor.stopping import on_signals

if TYPE_CHECKING:
    from discreet.network.fleet import SiteState

UNWELL = 3
_MARKS = {"good": "ok", "warn": "WARNING", "bad": "FAILURE"}


def fleet(
    places: Annotated[
        list[str],
        argument("PLACE...", "Sites, folders with sites in them, or databases (postgresql://...)."),
    ],
    as_json: Json = False,
    port: Annotated[
        int | None,
        option("N", "Serve /metrics and /health of all sites on this port.", min=0, max=65535),
    ] = None,
    host: Annotated[str, option("HOST", "Address to serve them on.")] = "127.0.0.1",
) -> int:
    """Show the state of many sites, the worst first.

    Each is judged as `discreet doctor` judges a running site, by its database and its
    files. Exit code 3 if one has to be fixed. A database shows all sites in it; a
    password belongs in PGPASSFILE.

    Example:

        discreet fleet sites

    For Prometheus, until a signal comes:

        discreet fleet sites postgresql://fleet@db/discreet --port 9465
    """
    with interruptible("stopped."):
        need_network()
        from discreet.network.fleet import Fleet
        from discreet.network.fusion.state import Pages

        found = Fleet(places)
        try:
            if port is not None:
                stop = threading.Event()
                on_signals(stop.set)
                with Pages(found, host, port) as pages:
                    plain_print(f"metrics at http://{host}:{pages.port}/metrics")
                    stop.wait()
                return 0
            states = found.look()
            level, about = found.health()
        finally:
            found.close()
        if as_json:
            print_json(json.loads(about))
        else:
            print_lines(_table(states))
        return UNWELL if level == "bad" else 0


def _table(states: list[SiteState]) -> list[str]:
    columns = Column("SITE", gap=0), *map(Column, ("STATE", "HEARD", "DECIDED", "WHAT"))
    rows = []
    for each in states:
        devices = dict(each.devices)
        live = sum(count for state, count in devices.items() if state != "revoked")
        age = "never" if each.age is None else f"{each.age:.0f} s ago"
        what = "; ".join(finding.short for finding in each.findings[:3])
        heard = f"{devices.get('reporting', 0)} of {live}"
        rows.append((each.site, _MARKS[each.level], heard, age, what))
    bad = sum(each.level == "bad" for each in states)
    return [*table(columns, rows, line_width()), f"{len(states)} sites, {bad} to fix"]
