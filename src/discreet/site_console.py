"""What the commands about a site say: ``init``, ``enroll``, ``revoke``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from discreet.console import plain_print
from discreet.errors import InputError
from discreet.network.site.broker_files import is_loopback
from discreet.network.site.finding import find_site, need_network
from discreet.network.site.settings import Site

NOT_IN_FORCE = 3


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
    need_network()
    from discreet.network.broker import find_mosquitto
    from discreet.network.site.making import SitePlan, make_folder
    from discreet.network.site.settings import BrokerEndpoint, Endpoint, checked

    site = make_folder(
        SitePlan(
            folder=task.folder,
            mapping=task.mapping,
            name=task.name,
            broker=checked(BrokerEndpoint, host=task.host, port=task.port),
            interval=task.interval,
            deadline=task.deadline,
            database=task.database,
            dashboard=Endpoint(port=task.dashboard_port),
            metrics=Endpoint(port=task.metrics_port),
            audit=task.audit,
            frontier=task.frontier,
            expires=_date(task.expires),
            workers=task.workers,
            broker_program=find_mosquitto(),
        )
    )
    for line in _made(task, site):
        plain_print(line)


def _made(task: InitTask, site: Site) -> list[str]:
    broker = site.broker
    lines = [
        f"wrote {task.folder}, site {site.site}, broker at {broker.host}:{broker.port}, "
        f"a round every {site.interval:g} s",
        f"secret: everything in it; {task.folder / 'keys'} decides who belongs to the site",
    ]
    if is_loopback(broker.host):
        lines.append("sensors on other machines cannot reach localhost: for them, --host")
    return [
        *lines,
        f"next: discreet enroll NAME --site {shlex.quote(str(task.folder))}, for each device",
        f"to start it: {task.folder / 'README.md'}; to check it: discreet doctor",
    ]


@dataclass(frozen=True)
class EnrollTask:
    """What was asked of ``discreet enroll``."""

    name: str
    site: Path | None
    out: Path | None
    sensors: list[str]
    batch: int
    days: int
    budget: float | None
    period: int
    repeat: str
    renew: bool
    observer: bool
    given: frozenset[str] = frozenset()


def run_enroll(task: EnrollTask) -> int:
    """Enrol a device, or an observer, say what to do with its file, and return the exit code.

    Raises
    ------
    InputError
        With what to do; nothing has changed then.
    """
    need_network()
    from discreet.export.neutral import Policy
    from discreet.network.site.joining import Wish, enroll, enroll_observer

    folder = find_site(task.site)
    if task.observer:
        _check_observer(task)
        out = task.out or Path(task.name)
        done = enroll_observer(folder, task.name, out, task.days)
        plain_print(f"wrote {out}: certificate and key of {task.name}, who may read the decision")
    else:
        out = task.out or Path(f"{task.name}.enrol")
        policy = Policy(budget=task.budget, period=task.period, repeat=task.repeat)
        wish = Wish(task.name, task.sensors, task.batch, policy, task.days, task.renew, task.given)
        done = enroll(folder, wish, out)
        plain_print(f"wrote {out}: {task.name} speaks for {', '.join(map(repr, done.sensors))}")
        if done.late:
            plain_print(
                f"note: {done.late} rounds of each message are closed before it is sent, and "
                "decided without this device. Take a smaller --batch, or a longer deadline in "
                "site.json"
            )
        plain_print(f"on the device: discreet sensor {shlex.quote(str(out))} --state DIR ...")
    plain_print(f"secret: carry it there by a safe way and delete it here; it ends {done.expires}")
    if done.old is not None and done.old.outcome == "pending":
        plain_print(
            f"THE OLD FILE STILL COUNTS: the broker was not seen to refuse it ({done.old.words}). "
            f"Have it reload: {_how_to_reload(folder)}. Who is connected with it stays so; "
            "--renew once more, where the broker is reached, ends that."
        )
        return NOT_IN_FORCE
    if not done.told:
        plain_print(f"a broker that runs elsewhere has to reload: {_how_to_reload(folder)}")
    return 0


def _check_observer(task: EnrollTask) -> None:
    if task.sensors or task.renew or task.batch != 1 or task.budget is not None:
        raise InputError(
            "--observer reads the decision and sends nothing. Leave --sensor, --batch, --budget "
            "and --renew out."
        )


def run_revoke(name: str, site: Path | None) -> int:
    """Shut a device out, say how that went, and return the exit code.

    Raises
    ------
    InputError
        If there is no such device.
    """
    need_network()
    from discreet.network.site.joining import revoke

    folder = find_site(site)
    done = revoke(folder, name)
    plain_print(f"{name} is revoked: the fusion centre believes nothing it sends")
    if done.outcome == "out":
        plain_print("the broker refuses its certificate, as was tried, and has cut its session")
    elif done.outcome == "stopped":
        plain_print(f"no broker answers ({done.words}); the next one to start will refuse it")
    else:
        plain_print(
            f"NOT YET SHUT OUT: the broker was not seen to refuse it ({done.words}). Have it "
            f"reload: {_how_to_reload(folder)}. Then run this command again, where it is reached."
        )
    return 0 if done.outcome != "pending" else NOT_IN_FORCE


def _how_to_reload(folder: Path) -> str:
    from discreet.network.site.settings import load_site

    name = load_site(folder).site
    return f"systemctl reload discreet-{name}-broker, or docker compose kill -s HUP broker"


def _date(text: str | None) -> date:
    from discreet.network.site.making import a_year_from_now

    if text is None:
        return a_year_from_now()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--expires must be a date such as 2030-01-31, got {text!r}.") from None
