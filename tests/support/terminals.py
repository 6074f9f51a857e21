"""A command on a pseudo-terminal, for tests of bars and Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from support.commands import clean_environment

PATIENCE = 120.0


class Terminal:
    """A command that runs on a pseudo-terminal, and what it has printed so far."""

    def __init__(self, folder, arguments, changes, **environment):
        pty = pytest.importorskip("pty")  # there is none on Windows
        code = "import time, discreet.cli.learn, discreet.cli.progress, discreet.learning\n"
        code += changes + "from discreet.cli import main\nmain()"
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", code, *arguments],
            cwd=folder,
            env=clean_environment(**{"TERM": "xterm-256color", **environment}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.text, self.news = "", threading.Condition()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self):
        while True:
            try:
                data = os.read(self.master, 4096)
            except OSError:  # Linux says so when the other side is closed
                data = b""
            with self.news:
                self.text += data.decode(errors="replace")
                self.news.notify_all()
            if not data:
                return

    def wait_for(self, words):
        with self.news:
            seen = self.news.wait_for(lambda: words in self.text, PATIENCE)
        assert seen, f"no {words!r} in {self.text!r}"

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        code = self.process.wait(PATIENCE)
        self.listener.join(PATIENCE)
        return code


def on_screen(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
