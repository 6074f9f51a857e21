"""``discreet serve``: a worker of the fusion centre, until a signal comes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import Quiet, argument, flag, option
from discreet.cli.terminal import interruptible, log_to_stderr, on_signals, plain_print
from discreet.errors import InputError
from discreet.network import find_site, need_network

if TYPE_CHECKING:
    from discreet.network.fusion.upkeep import FusionSettings

_DAY = 86_400.0
_PROBATION = 3.0  # seconds: ten times what a fusion centre takes to connect again


def serve(
    folder: Annotated[
        Path | None,
        argument("FOLDER", "Folder that `discreet init` wrote. [default: this one, or site in it]"),
    ] = None,
    worker: Annotated[int, option("N", "Which worker of the site this is.", min=1, max=64)] = 1,
    keep: Annotated[
        float | None,
        option("DAYS", "Forget readings and decisions after that. [default: never]", min=0.01),
    ] = None,
    trust_clock: Annotated[
        bool,
        flag(
            "--trust-clock", "Take this machine's clock for right, whatever time was seen before."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run the fusion centre: store what arrives, close rounds, publish decisions.

    A message is acknowledged after the commit that holds it. Rounds close on their
    deadline; sensors that are silent are summed out.

    Example:

        discreet serve site
    """
    with interruptible("stopped."):
        need_network()
        from discreet.mapping.mapping import Mapping
        from discreet.network.dashboard.guarantee import standing_of
        from discreet.network.fusion.intake import Registry
        from discreet.network.fusion.service import FusionService
        from discreet.network.fusion.state import Pages
        from discreet.network.site.settings import SiteFiles, database_to_write, load_site
        from discreet.network.store import check_database, open_store

        log_to_stderr(quiet)
        site_folder = find_site(folder)
        site, files = load_site(site_folder), SiteFiles(site_folder)
        if not 1 <= worker <= site.workers:
            raise InputError(
                f"--worker must be from 1 to {site.workers}, which is how many {site_folder} has; "
                f"got {worker}. Make a site with more: discreet init --workers"
            )
        mapping = Mapping.load(site_folder / site.mapping)
        registry = Registry(files.clients, site.site, mapping)
        store = open_store(database_to_write(site_folder, site), site_folder, site.key)
        service = FusionService(
            fusion_settings(site_folder, worker, keep, trust_clock),
            mapping,
            registry,
            store,
            standing=lambda: standing_of(
                site_folder, site.expires, mapping.id, datetime.now(UTC).date()
            ),
            drift=files.drift,
            check=lambda: check_database(site.database, site_folder),
        )
        on_signals(service.stop)
        with Pages(service.state, site.metrics.host, site.metrics.port + worker - 1) as pages:
            if not quiet:
                plain_print(
                    f"site {site.site}: {len(mapping.sensors)} sensors, {len(registry.by_name)} "
                    f"clients; metrics at http://{site.metrics.host}:{pages.port}/metrics"
                )
            service.run()


def fusion_settings(
    folder: Path, worker: int = 1, keep: float | None = None, trust_clock: bool = False
) -> FusionSettings:
    """Return what a worker of a site runs with; readings are kept for so many days."""
    from discreet.network.connecting import BrokerAddress
    from discreet.network.fusion.upkeep import FusionSettings
    from discreet.network.site.settings import SiteFiles, load_site, worker_group, worker_name
    from discreet.network.wire import RoundClock

    site, files = load_site(folder), SiteFiles(folder)
    ca = folder / "fusion" / "ca.crt"
    return FusionSettings(
        site=site.site,
        key=site.key,
        clock=RoundClock(float(site.epoch), site.interval, site.deadline),
        broker=BrokerAddress.of(site.broker, ca, *files.fusion_certificate(worker)),
        name=worker_name(worker),
        group=worker_group(folder) if site.workers > 1 else None,
        keep=None if keep is None else keep * _DAY,
        trust_clock=trust_clock,
        workers=site.workers,
        probation=_PROBATION if site.broker.tls and site.broker.mqtt == "5" else 0.0,
    )
