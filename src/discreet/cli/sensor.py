"""``discreet sensor``: read, draw symbols, send them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

from discreet.cli.options import Quiet, argument, option
from discreet.cli.terminal import interruptible, log_to_stderr, on_signals, plain_print
from discreet.network import need_network

NOT_DELIVERED = 3


def sensor(
    enrolment: Annotated[Path, argument("FILE", "What `discreet enroll` wrote for this device.")],
    state: Annotated[
        Path,
        option("FOLDER", "Outbox, ledgers and certificates; survives reboots and is never copied."),
    ],
    read: Annotated[
        list[str] | None,
        option(
            "[SENSOR=]SOURCE",
            "Where readings come from: - (standard input), csv:PATH, file:PATH, "
            "command:PROGRAM or mqtt://HOST/TOPIC#FIELD; may be given several times. [default: -]",
        ),
    ] = None,
    hold: Annotated[
        float,
        option(
            "SECONDS",
            "How long a reading stands, for sources that speak only when something changes. "
            "[default: the round in which it came]",
            min=0,
            show_default=False,
        ),
    ] = 0.0,
    drain: Annotated[
        float, option("SECONDS", "How long to wait for acknowledgements after the end.", min=0)
    ] = 30.0,
    quiet: Quiet = False,
) -> int:
    """Read, draw symbols and send them: one message each round, whatever is read.

    A message stays on disk until the fusion centre has stored it, and a retry sends the
    same bytes. Exit code 3 if some are left when the readings end; the next start sends
    them. A signal ends it in order, after a few seconds to deliver what waits.

    Example:

        discreet sensor hall.enrol --state hall --read file:/run/temperature

    A motion sensor of Zigbee2MQTT, whose last word stands for an hour:

        discreet sensor h.enrol --state h --hold 3600 --read mqtt://gw/z/h#on

    A table played back, a row each round:

        discreet sensor hall.enrol --state hall --read csv:home.csv
    """
    with interruptible("stopped. What was not acknowledged is sent at the next start."):
        need_network()
        from discreet.network.sensor.running import SensorTask, run_sensor
        from discreet.network.sensor.sources import STDIN, open_sources
        from discreet.network.site.settings import load_enrolment

        log_to_stderr(quiet)
        told = load_enrolment(enrolment)
        sources = open_sources(
            read or [STDIN],
            told.sensors,
            interval=told.interval,
            hold=hold,
        )
        stop, hurry = threading.Event(), threading.Event()
        on_signals(lambda: hurry.set() if stop.is_set() else stop.set())
        if not quiet:
            plain_print(
                f"{told.client} of site {told.site}: a message every "
                f"{told.batch * told.interval:g} s to {told.broker.host}"
            )
        try:
            task = SensorTask(told, state, drain=drain)
            waiting = run_sensor(task, sources, stop, hurry)
        finally:
            sources.close()
        if waiting and not quiet:
            plain_print(f"{waiting} messages wait in {state}; the next start sends them")
        return NOT_DELIVERED if waiting and not stop.is_set() else 0
