"""The commands of the network: parse, call, print.

As in ``cli``, libraries are imported by the commands that need them.
"""

from __future__ import annotations

import typer

from discreet.network_options import (
    AddUser,
    AnswersTo,
    AuditFile,
    Batch,
    BoundSensors,
    BrokerHost,
    BrokerPort,
    ClientName,
    DashboardHost,
    DashboardPort,
    DatabaseUrl,
    Days,
    Deadline,
    Drain,
    EnrolmentFile,
    EnrolOut,
    Expires,
    Hold,
    Interval,
    Keep,
    ListenPort,
    MetricsPort,
    NewSite,
    Observer,
    ReadFrom,
    Remote,
    RemoveUser,
    Renew,
    RevokedName,
    RunningMapping,
    ServedSite,
    ShownSite,
    SiteFolder,
    SiteFrontier,
    SiteName,
    StateFolder,
    Strict,
    TlsCertificate,
    TlsKey,
    Worker,
    Workers,
)
from discreet.options import Budget, Json, Period, Quiet, Repeat
from discreet.stopping import interruptible

app = typer.Typer()


@app.command()
def init(
    folder: NewSite,
    mapping: RunningMapping,
    name: SiteName = "home",
    host: BrokerHost = "localhost",
    port: BrokerPort = 8883,
    interval: Interval = 60.0,
    deadline: Deadline = 15.0,
    database: DatabaseUrl = "sqlite:fusion/fusion.db",
    dashboard_port: DashboardPort = 8080,
    metrics_port: MetricsPort = 9464,
    audit: AuditFile = None,
    frontier: SiteFrontier = None,
    expires: Expires = None,
    workers: Workers = 1,
) -> None:
    """Write a working deployment: certificates, broker, fusion centre, services.

    The folder appears whole or not at all, and only its owner can read it.

    Example:

        discreet init site --mapping home.json --host gateway.local
    """
    with interruptible("stopped. Nothing was written."):
        from discreet.site_console import InitTask, run_init

        run_init(
            InitTask(
                folder=folder,
                mapping=mapping,
                name=name,
                host=host,
                port=port,
                interval=interval,
                deadline=deadline,
                database=database,
                dashboard_port=dashboard_port,
                metrics_port=metrics_port,
                audit=audit,
                frontier=frontier,
                expires=expires,
                workers=workers,
            )
        )


@app.command()
def enroll(
    ctx: typer.Context,
    name: ClientName,
    site: SiteFolder = None,
    sensor: BoundSensors = None,
    out: EnrolOut = None,
    batch: Batch = 1,
    days: Days = 730,
    budget: Budget = None,
    period: Period = 86_400,
    repeat: Repeat = "code",
    renew: Renew = False,
    observer: Observer = False,
) -> int:
    """Let a device in: certificate, tables and configuration in one file.

    The file is secret. The device may send on its own topic and read its own
    acknowledgements, nothing else. Exit code 3 if --renew could not end the old file.

    Example:

        discreet enroll hall --sensor "Hall motion" --budget 20

    Home Assistant, which may read the decision and nothing else:

        discreet enroll home-assistant --observer
    """
    with interruptible("stopped. Nothing has changed."):
        from discreet.site_console import EnrollTask, run_enroll

        return run_enroll(
            EnrollTask(
                name=name,
                site=site,
                out=out,
                sensors=sensor or [],
                batch=batch,
                days=days,
                budget=budget,
                period=period,
                repeat=repeat,
                renew=renew,
                observer=observer,
                given=_typed(ctx),
            )
        )


def _typed(ctx: typer.Context) -> frozenset[str]:
    """Return which options were given; the others have their defaults."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return frozenset(name for name, each in sources.items() if each and each.name == "COMMANDLINE")


@app.command()
def revoke(name: RevokedName, site: SiteFolder = None) -> int:
    """Shut a device out at once, and make sure that it is.

    Its session is cut, its certificate refused and its messages are not believed any
    more. Exit code 3 if a broker runs that could not be told.

    Example:

        discreet revoke hall
    """
    with interruptible("stopped in the middle. Run the command again."):
        from discreet.site_console import run_revoke

        return run_revoke(name, site)


@app.command()
def sensor(
    enrolment: EnrolmentFile,
    state: StateFolder,
    read: ReadFrom = None,
    hold: Hold = 0.0,
    drain: Drain = 30.0,
    quiet: Quiet = False,
) -> int:
    """Read, draw symbols and send them: one message each round, whatever is read.

    A message stays on disk until the fusion centre has stored it, and a retry sends the
    same bytes. Exit code 3 if some are left at the end; the next start sends them.

    Example:

        discreet sensor hall.enrol --state hall --read file:/run/temperature

    A motion sensor of Zigbee2MQTT, whose last word stands for an hour:

        discreet sensor h.enrol --state h --hold 3600 --read mqtt://gw/z/h#on

    A table played back, a row each round:

        discreet sensor hall.enrol --state hall --read csv:home.csv
    """
    with interruptible("stopped. What was not acknowledged is sent at the next start."):
        from discreet.network_console import SensorCommand, run_sensor_command

        return run_sensor_command(SensorCommand(enrolment, state, read or [], hold, drain, quiet))


@app.command()
def serve(
    folder: ServedSite = None,
    worker: Worker = 1,
    keep: Keep = None,
    quiet: Quiet = False,
) -> None:
    """Run the fusion centre: store what arrives, close rounds, publish decisions.

    A message is acknowledged after the commit that holds it. Rounds close on their
    deadline; sensors that are silent are summed out.

    Example:

        discreet serve site
    """
    with interruptible("stopped."):
        from discreet.network_console import ServeCommand, run_serve

        run_serve(ServeCommand(folder, worker, keep, quiet))


@app.command()
def dashboard(
    folder: ShownSite,
    host: DashboardHost = None,
    port: ListenPort = None,
    remote: Remote = False,
    names: AnswersTo = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    add_user: AddUser = None,
    remove_user: RemoveUser = None,
) -> None:
    """Show a site in the browser: decisions, sensors, budgets and the guarantee.

    It listens on this machine only and asks for a login. Without any user it prints a
    link that logs in once.

    Example:

        discreet dashboard site

    Add a user:

        discreet dashboard site --add-user ann
    """
    with interruptible("stopped."):
        from discreet.dashboard_console import run_dashboard

        run_dashboard(
            folder,
            add=add_user,
            remove=remove_user,
            host=host,
            port=port,
            remote=remote,
            names=names or (),
            certificate=tls_certificate,
            key=tls_key,
        )


@app.command()
def doctor(site: SiteFolder = None, json: Json = False, strict: Strict = False) -> int:
    """Look for what is wrong with a site, and say what to do about it.

    Clock, randomness, disk, certificates, broker, TLS, database, mapping and guarantee.
    Exit code 3 if something has to be mended.

    Example:

        discreet doctor --site site
    """
    with interruptible("stopped."):
        from discreet.network.site.finding import need_network

        need_network()
        from discreet.doctor_console import run_doctor

        return run_doctor(site, as_json=json, strict=strict)
