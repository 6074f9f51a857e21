"""A PostgreSQL server of our own, on a free loopback port and in a folder that goes away."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from support.ports import free_port

FOLDERS = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/bin")]


def why_no_postgres():
    """Return the reason to skip, or None."""
    if find_postgres() is None:
        return "PostgreSQL's initdb is missing"
    if os.geteuid() == 0 and not _other_user():
        return "PostgreSQL refuses to run as root and there is no user postgres"
    return None


def find_postgres():
    return next((folder for folder in FOLDERS if (folder / "initdb").exists()), None)


def _other_user():
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None


class PostgresServer:
    """Start with ``with``; ``stop`` and ``start`` take it away and bring it back."""

    def __init__(self):
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="discreet-pg-")), free_port()
        self.url = f"postgresql://discreet@127.0.0.1:{self.port}/postgres"
        self._user = _other_user() if os.geteuid() == 0 else None
        self._process = None

    def __enter__(self):
        if self._user:
            shutil.chown(self.folder, self._user)
        self._run("initdb", "-D", self.data, "-U", "discreet", "-A", "trust", "-N", "-E", "UTF8")
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def data(self):
        return self.folder / "data"

    def _command(self, name, *arguments):
        return [str(find_postgres() / name), *map(str, arguments)]

    def _run(self, name, *arguments):
        subprocess.run(
            self._command(name, *arguments),
            user=self._user,
            cwd=self.folder,
            check=True,
            capture_output=True,
        )

    def start(self):
        options = ("-D", self.data, "-p", self.port, "-k", self.folder, "-h", "127.0.0.1")
        self._process = subprocess.Popen(
            self._command("postgres", *options),
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 240
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("PostgreSQL does not start")
            time.sleep(0.05)

    def _answers(self):
        ready = self._command("pg_isready", "-h", "127.0.0.1", "-p", self.port, "-U", "discreet")
        return subprocess.run(ready, capture_output=True, check=False).returncode == 0

    def stop(self):
        if self._process is not None:
            self._process.send_signal(2)  # fast shutdown
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
