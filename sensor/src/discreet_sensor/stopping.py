"""What ends a command that runs until it is told to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable


def on_signals(stop: Callable[[], None]) -> None:
    """End in order on Ctrl-C, on what systemd sends, and when the terminal is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop())
    on_hangup(stop)


def on_hangup(stop: Callable[[], None]) -> None:
    """End in order when the terminal is closed, unless that is to be outlived, as with nohup."""
    number = getattr(signal, "SIGHUP", None)  # Windows has none
    if number is None or signal.getsignal(number) == signal.SIG_IGN:
        return
    if threading.current_thread() is not threading.main_thread():
        return  # only that one may say what a signal does
    terminals = [each for each in (1, 2) if os.isatty(each)]

    def hung_up(*_: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # the shell and the kernel send one each
        for each in terminals:
            if not os.isatty(each):  # it is gone: what is said from now on is read by nobody
                _silence(each)
        stop()

    signal.signal(number, hung_up)


def _silence(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
