"""The options of the network's commands: what each is called, takes and means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# --- Shared --------------------------------------------------------------------------------

SiteFolder = Annotated[
    Path | None,
    typer.Option(
        "--site",
        metavar="FOLDER",
        help="Folder that `discreet init` wrote. [default: this one, or site in it]",
    ),
]

# --- The options of `init` -----------------------------------------------------------------

NewSite = Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder to write.")]
RunningMapping = Annotated[
    Path, typer.Option("--mapping", metavar="FILE", help="Mapping file that the site is to run.")
]
SiteName = Annotated[
    str,
    typer.Option("--name", metavar="NAME", help="Name of the site: a-z, 0-9 and -."),
]
BrokerHost = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Name or address by which sensors find the broker; localhost is for this machine "
        "only.",
    ),
]
BrokerPort = Annotated[
    int, typer.Option("--port", metavar="N", min=1, max=65535, help="Port of the broker.")
]
Interval = Annotated[
    float, typer.Option(metavar="SECONDS", help="How often every sensor sends: one round.")
]
Deadline = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="How long after its end a round waits for stragglers."),
]
DatabaseUrl = Annotated[
    str,
    typer.Option(
        "--database",
        metavar="URL",
        help="sqlite:PATH inside the folder, or postgresql://...",
    ),
]
DashboardPort = Annotated[
    int,
    typer.Option("--dashboard-port", metavar="N", min=1, max=65535, help="Port of the dashboard."),
]
MetricsPort = Annotated[
    int, typer.Option("--metrics-port", metavar="N", min=1, max=65535, help="Port of the metrics.")
]
AuditFile = Annotated[
    Path | None,
    typer.Option(
        "--audit",
        metavar="FILE",
        help="What `discreet audit --json` printed, for the dashboard.",
    ),
]
SiteFrontier = Annotated[
    Path | None,
    typer.Option(
        "--frontier", metavar="FILE", help="What `discreet frontier` wrote, for the dashboard."
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="When the guarantee has to be looked at again, as 2030-01-31. [default: in a year]",
    ),
]
Workers = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=64, help="Fusion workers that share the site's sensors."),
]


# --- The options of `enroll` and `revoke` --------------------------------------------------

ClientName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the device: a-z, 0-9 and -.")
]
BoundSensors = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SENSOR",
        help="A sensor of the mapping that the device reads; may be given several times. "
        "[default: the one called NAME]",
    ),
]
EnrolOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="New file to write. [default: NAME.enrol]"),
]
Batch = Annotated[
    int, typer.Option(metavar="N", min=1, max=65535, help="Rounds in one message, for gateways.")
]
Days = Annotated[
    int, typer.Option(metavar="N", min=1, max=3650, help="How long the certificate is good.")
]
Renew = Annotated[
    bool,
    typer.Option(
        "--renew",
        help="New certificate and tables for a device that is enrolled; its old file ends at once.",
    ),
]
Observer = Annotated[
    bool, typer.Option("--observer", help="May read the decision only; writes a folder of PEMs.")
]
RevokedName = Annotated[str, typer.Argument(metavar="NAME", help="Name that was enrolled.")]


# --- The options of `sensor` and `serve` ---------------------------------------------------

EnrolmentFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="What `discreet enroll` wrote for this device.")
]
StateFolder = Annotated[
    Path,
    typer.Option(
        "--state",
        metavar="FOLDER",
        help="Outbox, ledgers and certificates; survives reboots and is never copied.",
    ),
]
ReadFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="[SENSOR=]SOURCE",
        help="Where readings come from: - (standard input), csv:PATH, file:PATH, "
        "command:PROGRAM or mqtt://HOST/TOPIC#FIELD; may be given several times. [default: -]",
    ),
]
Hold = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="How long a reading stands, for sources that speak only when something changes. "
        "[default: the round in which it came]",
        show_default=False,
    ),
]
Drain = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, help="How long to wait for acknowledgements after the end."
    ),
]
ServedSite = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER",
        help="Folder that `discreet init` wrote. [default: this one, or site in it]",
    ),
]
Worker = Annotated[
    int, typer.Option(metavar="N", min=1, max=64, help="Which worker of the site this is.")
]
Keep = Annotated[
    float | None,
    typer.Option(
        metavar="DAYS", min=0.01, help="Forget readings and decisions after that. [default: never]"
    ),
]


# --- The options of `dashboard` ------------------------------------------------------------

ShownSite = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder that `discreet init` wrote.")
]
DashboardHost = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="HOST", help="Address to listen on. [default: as the site says]"
    ),
]
ListenPort = Annotated[
    int | None,
    typer.Option(
        "--port", metavar="N", min=0, max=65535, help="Port to listen on; 0 takes a free one."
    ),
]
Remote = Annotated[
    bool, typer.Option("--remote", help="Allow a host that other machines can reach.")
]
AnswersTo = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Further host name that the browser may use; may be given several times.",
    ),
]
TlsCertificate = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Serve over TLS.")
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="Key of the certificate.")
]
AddUser = Annotated[
    str | None,
    typer.Option(
        "--add-user",
        metavar="NAME",
        help="Add a user, or set a new password, and end; the password is asked for, or read "
        "from standard input.",
    ),
]
RemoveUser = Annotated[
    str | None, typer.Option("--remove-user", metavar="NAME", help="Remove a user, and end.")
]


# --- The options of `doctor` ---------------------------------------------------------------

Strict = Annotated[bool, typer.Option("--strict", help="Exit code 3 for warnings as well.")]
