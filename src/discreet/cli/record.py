"""``discreet record``: what a live broker sends, into a log to import."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from discreet.cli.options import Quiet, argument, option, seconds_of
from discreet.cli.terminal import check_out, log_to_stderr, plain_print
from discreet.errors import InputError, as_argument
from discreet_sensor.stopping import on_signals


def record(
    broker: Annotated[
        str,
        argument("BROKER", "mqtt[s]://[USER@]HOST[:PORT]/[TOPIC], such as mqtt://ha/zigbee2mqtt/#"),
    ],
    out: Annotated[Path, option("FILE", "Log of JSON lines to append to.")],
    lasting: Annotated[
        str | None,
        option("TIME", "How long, such as 30m or 7d. [default: until stopped]", name="--for"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Record messages of a broker until Ctrl-C, for `discreet import`.

    The password goes into DISCREET_MQTT_PASSWORD. The log holds raw readings: keep it where
    only you can read it, and delete it when it has been learned from.

    Example:

        discreet record mqtt://ha/zigbee2mqtt/# --for 30d --out z.jsonl
    """
    import threading

    from discreet.importing.recording import MAX_PAYLOAD, Recorder, open_log

    seconds = seconds_of("--for", lasting)
    check_out(out, None)
    log_to_stderr(quiet)
    stop = threading.Event()
    on_signals(stop.set)
    new = not out.exists()
    with open_log(out) as log:
        try:
            recorder = Recorder(broker, log)
            recorder.run(stop, seconds)
        except InputError:
            if new:  # there was nothing to record
                out.unlink()
            raise
    if not quiet:
        longer = f", {recorder.too_long} left out that are longer than {MAX_PAYLOAD} bytes"
        plain_print(f"{recorder.recorded} messages recorded{longer if recorder.too_long else ''}")
        words = ["discreet", "import", as_argument(out), "--out", f"{out.stem}.csv"]
        plain_print(f"next: {shlex.join(words)}")
