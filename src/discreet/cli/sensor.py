"""``discreet sensor``: the command of the package ``discreet_sensor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from discreet.cli.options import Quiet, argument, option
from discreet.cli.terminal import interruptible
from discreet.network import need_network
from discreet_sensor.__main__ import HOLD, READ, work


def sensor(
    enrolment: Annotated[Path, argument("FILE", "What `discreet enroll` wrote for this device.")],
    state: Annotated[
        Path,
        option("FOLDER", "Outbox, ledgers and certificates; survives reboots and is never copied."),
    ],
    read: Annotated[list[str] | None, option("[SENSOR=]SOURCE", READ)] = None,
    hold: Annotated[float, option("SECONDS", HOLD, min=0, show_default=False)] = 0.0,
    drain: Annotated[
        float, option("SECONDS", "How long to wait for acknowledgements after the end.", min=0)
    ] = 30.0,
    quiet: Quiet = False,
) -> int:
    """Read, draw symbols and send them: one message each round, whatever is read.

    A message stays on disk until the fusion centre has stored it, and a retry sends the
    same bytes. Exit code 3 if some are left when the readings end; the next start sends
    them. On a signal it stops cleanly, after a few seconds to deliver what waits. A device
    needs only the package discreet-sensor, which has this command by that name.

    Example:

        discreet sensor hall.enrol --state hall --read file:/run/temperature

    A motion sensor of Zigbee2MQTT, whose last value is valid for an hour:

        discreet sensor h.enrol --state h --hold 3600 --read mqtt://gw/z/h#on

    A table played back, a row each round:

        discreet sensor hall.enrol --state hall --read csv:home.csv
    """
    with interruptible("stopped. What was not acknowledged is sent at the next start."):
        need_network()
        return work(enrolment, state, read or [], hold, drain, quiet)
