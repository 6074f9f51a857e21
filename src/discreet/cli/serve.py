"""``discreet serve``: a worker of the fusion centre, until a signal comes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import Quiet, argument, flag, option
from discreet.cli.terminal import interruptible, log_to_stderr, plain_print
from discreet.errors import InputError
from discreet.network import find_site, need_network
from discreet_sensor.stopping import on_signals

if TYPE_CHECKING:
    from discreet.network.fusion.service import FusionService


def serve(
    folders: Annotated[
        list[Path] | None,
        argument(
            "FOLDER...",
            "Folders that `discreet init` wrote, one or many. [default: this one, or site in it]",
        ),
    ] = None,
    worker: Annotated[int, option("N", "Which worker of the site this is.", min=1, max=64)] = 1,
    keep: Annotated[
        float | None,
        option(
            "DAYS",
            "Delete messages, stored and refused, and decisions after that; 0: never. [default: "
            "what site.json has; 90 in a new site]",
            min=0,
        ),
    ] = None,
    trust_clock: Annotated[
        bool,
        flag("--trust-clock", "Trust this machine's clock, whatever time was seen before."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run the fusion centre: store what arrives, close rounds, publish decisions.

    A message is acknowledged after the commit that holds it. Rounds close on their
    deadline; silent sensors are summed out. New settings, mappings and certificates are
    loaded as they appear. Sites in one process that share a database share a connection
    to it; their metrics: `discreet fleet`.

    Example:

        discreet serve site

    All sites of a folder:

        discreet serve sites/*
    """
    with interruptible("stopped."):
        need_network()
        log_to_stderr(quiet)
        if folders and len(folders) > 1:
            if worker != 1:
                raise InputError("--worker is for one site. Name one folder, or leave it out.")
            _serve_many(folders, keep, trust_clock, quiet)
        else:
            _serve_one(find_site(folders[0] if folders else None), worker, keep, trust_clock, quiet)


def _serve_one(
    folder: Path, worker: int, keep: float | None, trust_clock: bool, quiet: bool
) -> None:
    """Run a worker, and another one in its place whenever the site has changed."""
    from discreet.network.fusion.hosting import host_worker
    from discreet.network.fusion.state import Pages
    from discreet.network.site.settings import load_site

    stopped = threading.Event()
    while not stopped.is_set():
        site = load_site(folder)
        service = host_worker(folder, worker, keep, trust_clock)
        trust_clock = False  # only at the start

        def stop(service: FusionService = service) -> None:
            stopped.set()
            service.stop()

        on_signals(stop)
        with Pages(service.state, site.metrics.host, site.metrics.port + worker - 1) as pages:
            if not quiet:
                plain_print(
                    f"site {site.site}: {service.about}; metrics at "
                    f"http://{site.metrics.host}:{pages.port}/metrics"
                )
            service.run()
        if not service.outdated:
            break


def _serve_many(
    folders: Sequence[Path], keep: float | None, trust_clock: bool, quiet: bool
) -> None:
    from discreet.network.fusion.hosting import host_sites

    hosted = host_sites(folders, keep, trust_clock)
    on_signals(hosted.stop)
    if not quiet:
        plain_print(f"{len(folders)} sites; how they are: discreet fleet")
    hosted.run()
