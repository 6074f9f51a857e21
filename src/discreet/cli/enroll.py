"""``discreet enroll`` and ``discreet revoke``: let a device in, shut it out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import (
    Anyway,
    Json,
    OwnPeriod,
    OwnRepeat,
    PolicyRows,
    PrivateStay,
    SiteFolder,
    argument,
    flag,
    is_positive,
    one_of,
    option,
)
from discreet.cli.policies import choose_repeat
from discreet.cli.terminal import (
    interruptible,
    json_result,
    plain_print,
    print_lines,
    say_lasting,
    warn,
)
from discreet.errors import InputError
from discreet.network import find_site, need_network

if TYPE_CHECKING:
    from discreet.network.site.joining import Enrolled

NOT_IN_FORCE = 3
DEVICES = ("python", "c", "micropython", "node-red", "esphome")
"""As in ``device_files``, which is not imported for --help."""


def enroll(
    ctx: typer.Context,
    name: Annotated[str, argument("NAME", "Name of the device: a-z, 0-9 and -.")],
    site: SiteFolder = None,
    sensor: Annotated[
        list[str] | None,
        option(
            "SENSOR",
            "A sensor of the mapping that the device reads; may be given several times. "
            "[default: the one called NAME]",
        ),
    ] = None,
    to: Annotated[
        str, option("NAME", f"What the device runs: {', '.join(DEVICES)}.", one_of(DEVICES))
    ] = "python",
    out: Annotated[
        Path | None,
        option("PATH", "New file to write, or folder. [default: NAME.enrol; a folder NAME]"),
    ] = None,
    batch: Annotated[
        int, option("N", "Rounds in one message, for gateways.", min=1, max=65535)
    ] = 1,
    days: Annotated[int, option("N", "How long the certificate is valid.", min=1, max=3650)] = 730,
    budget: Annotated[
        float | None,
        option(
            "E",
            "What each sensor of the device may release in all, by C1, in nats. [default: the "
            "site's]",
            is_positive,
        ),
    ] = None,
    period: OwnPeriod = None,
    repeat: OwnRepeat = None,
    stay: PrivateStay = None,
    rows: PolicyRows = None,
    anyway: Anyway = False,
    renew: Annotated[
        bool,
        flag(
            "--renew",
            "New certificate and tables for an enrolled device; its old file is invalid at once.",
        ),
    ] = False,
    observer: Annotated[
        bool, flag("--observer", "May read the decision only; writes a folder of PEMs.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Admit a device: certificate, tables and configuration in one file.

    For all but python it is a folder, with the programs as well. It is secret. The
    device may send on its own topic and read its own acknowledgements, nothing else. Exit
    code 3 if --renew could not end the old file.

    Example:

        discreet enroll hall --sensor "Hall motion" --repeat period --budget 20

    A board with MicroPython:

        discreet enroll hall --to micropython

    Home Assistant, which may read the decision and nothing else:

        discreet enroll home-assistant --observer
    """
    with interruptible("stopped. Nothing has changed."), json_result(as_json) as result:
        need_network()
        from discreet.export.neutral import Policy
        from discreet.mapping.mapping import Mapping
        from discreet.network.site.joining import EnrolmentRequest, enroll_observer
        from discreet.network.site.joining import enroll as enroll_device
        from discreet.network.site.settings import load_site

        folder = find_site(site)
        if observer:
            if sensor or renew or batch != 1 or budget is not None:
                raise InputError(
                    "--observer reads the decision and sends nothing. Leave --sensor, --batch, "
                    "--budget and --renew out."
                )
            out = out or Path(name)
            done = enroll_observer(folder, name, out, days)
            plain_print(f"wrote {out}: certificate and key of {name}, who may read the decision")
        else:
            out = out or Path(f"{name}.enrol" if to == "python" else name)
            sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
            given = frozenset(
                name for name, each in sources.items() if each and each.name == "COMMANDLINE"
            )
            policy_lines: list[str] = []
            if stay is not None or rows:
                of_site = load_site(folder)
                known = Mapping.load(folder / of_site.mapping)
                seconds = period or of_site.period
                repeat, policy_lines = choose_repeat(
                    known, repeat, rows, stay, seconds, of_site.interval
                )
                given |= {"repeat"}
            policy = Policy(budget=budget, period=period or 86_400, repeat=repeat or "code")
            wish = EnrolmentRequest(
                name, sensor or [], batch, policy, days, renew, given, anyway, to
            )
            done = enroll_device(folder, wish, out)
            _say_enrolled(name, out, done, policy_lines)
            _say_install(name, out, to)
        result |= {"device": name, "out": str(out), "expires": str(done.expires)}
        result["sensors"] = [] if observer else list(done.sensors)
        return _say_how_it_ends(folder, done)


def _say_enrolled(name: str, out: Path, done: Enrolled, policy_lines: Sequence[str]) -> None:
    plain_print(f"wrote {out}: {name} speaks for {', '.join(map(repr, done.sensors))}")
    print_lines(policy_lines)
    if done.lasting is not None:
        say_lasting(done.lasting)
    if done.spent is None:
        warn(
            "the database cannot be read here, so what the device has spent before is not handed "
            "to it. Enrol it where the database can be read."
        )
    elif done.spent:
        plain_print(f"it goes on from {done.spent / 1e6:,.4g} nats, which were spent before")
    if done.late:
        plain_print(
            f"note: {done.late} rounds of each message are closed before it is sent, and "
            "decided without this device. Take a smaller --batch, or a longer deadline in "
            "site.json"
        )


def _say_install(name: str, out: Path, to: str) -> None:
    from discreet.network.site.device_files import TARGETS

    given, whole = shlex.quote(str(out)), shlex.quote(str(out.absolute()))
    for line in TARGETS[to].install:
        plain_print(line.format(out=given, whole=whole, name=name))


def _say_how_it_ends(folder: Path, done: Enrolled) -> int:
    """Say when the file ends, and whether an old one still counts; return the exit code."""
    plain_print(f"secret: carry it there by a safe way and delete it here; it ends {done.expires}")
    if done.old is not None and done.old.outcome == "pending":
        plain_print(
            f"THE OLD FILE STILL COUNTS: the broker was not seen to refuse it ({done.old.words}). "
            f"Have it reload: {how_to_reload(folder)}. Who is connected with it stays so; "
            "--renew once more, where the broker is reached, ends that."
        )
        return NOT_IN_FORCE
    if not done.notified:
        plain_print(f"a broker that runs elsewhere has to reload: {how_to_reload(folder)}")
    return 0


def revoke(
    name: Annotated[str, argument("NAME", "Name that was enrolled.")],
    site: SiteFolder = None,
    as_json: Json = False,
) -> int:
    """Shut a device out at once, and make sure that it is.

    Its session is cut, its certificate is refused and its messages are no longer
    accepted. Exit code 3 if a running broker could not be notified.

    Example:

        discreet revoke hall
    """
    with (
        interruptible("stopped in the middle. Run the command again."),
        json_result(as_json) as result,
    ):
        need_network()
        from discreet.network.site.removing_devices import revoke as shut_out

        folder = find_site(site)
        done = shut_out(folder, name)
        result |= {"device": name, "outcome": done.outcome, "words": done.words}
        plain_print(f"{name} is revoked: the fusion centre believes nothing it sends")
        if done.outcome == "out":
            plain_print("the broker refuses its certificate, as was tried, and has cut its session")
        elif done.outcome == "stopped":
            plain_print(f"no broker answers ({done.words}); the next one to start will refuse it")
        else:
            plain_print(
                f"NOT YET SHUT OUT: the broker was not seen to refuse it ({done.words}). Have it "
                f"reload: {how_to_reload(folder)}. Then run this command again, where it is "
                "reached."
            )
        return 0 if done.outcome != "pending" else NOT_IN_FORCE


def how_to_reload(folder: Path) -> str:
    """Return the commands that have the broker of a site reload."""
    from discreet.network.site.settings import load_site

    name = load_site(folder).key
    return f"systemctl reload discreet-{name}-broker, or docker compose kill -s HUP broker"
