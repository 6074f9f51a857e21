"""What the commands about a site say: ``init``, ``enroll``, ``revoke``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from discreet.errors import InputError

_GUARANTEE = timedelta(days=365)


@dataclass(frozen=True)
class InitTask:
    """What was asked of ``discreet init``."""

    folder: Path
    mapping: Path
    name: str
    host: str
    port: int
    interval: float
    deadline: float
    database: str
    dashboard_port: int
    metrics_port: int
    audit: Path | None
    frontier: Path | None
    expires: str | None
    workers: int


def run_init(task: InitTask) -> None:
    """Make the site and say what to do next.

    Raises
    ------
    InputError
        With what to do; nothing was written then.
    """
    from discreet.network.site.making import SitePlan, make_folder
    from discreet.network.site.settings import BrokerEndpoint, Endpoint

    site = make_folder(
        SitePlan(
            folder=task.folder,
            mapping=task.mapping,
            name=task.name,
            broker=BrokerEndpoint(host=task.host, port=task.port),
            interval=task.interval,
            deadline=task.deadline,
            database=task.database,
            dashboard=Endpoint(port=task.dashboard_port),
            metrics=Endpoint(port=task.metrics_port),
            audit=task.audit,
            frontier=task.frontier,
            expires=_date(task.expires),
            workers=task.workers,
        )
    )
    print(f"wrote {task.folder}, site {site.site}, broker at {site.broker.host}:{site.broker.port}")


def _date(text: str | None) -> date:
    if text is None:
        return (datetime.now(UTC) + _GUARANTEE).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--expires must be a date such as 2030-01-31, got {text!r}.") from None
