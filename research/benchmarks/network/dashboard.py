"""How long the dashboard takes to start and to answer, and what a page weighs.

    python -m research.benchmarks.network.dashboard [--rounds 5] [--devices 200]

The site is made up, with a store of its own on this machine. A start is from the command to the
first answer.
"""

import argparse
import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from support.dashboards import SiteMaker, make_mapping
from support.network_figures.verdicts import verdict

START, PAGE = 3.0, 0.5  # seconds
PAGES = ("/", "/sensors", "/guarantee", "/system", "/api/state", "/?window=86400")
FILES = ("style.css", "live.js", "charts.js", "uplot.js", "uplot.css", "icon.svg")


def make_site(folder: Path, devices: int) -> Path:
    names = tuple(f"sensor-{k}" for k in range(devices))
    maker = SiteMaker(folder, mapping=make_mapping(names))
    maker.clients = {}
    for name in names:
        maker.enroll(name, (name,), budget=20.0)
        maker.heard(name, ago=1.0, spent=1.0, messages=2000 // devices)
    maker.decide(hours=5.0, expected=devices)
    maker.note()
    maker.store.close()
    return folder


class Visit:
    """The command as it is, and a client that has used its link."""

    def __init__(self, folder: Path) -> None:
        begun = time.perf_counter()
        command = [sys.executable, "-m", "discreet", "dashboard", str(folder), "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        lines = [self._process.stdout.readline() for _ in range(3)]
        self._port = int(re.search(r":(\d+)/", lines[0])[1])
        self._cookie = ""
        form = self.ask("/login")
        self.started = time.perf_counter() - begun
        self._log_in(form, re.search(r"link=(\S+)", lines[2])[1])

    def ask(self, path: str, body: str | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"cookie": self._cookie, "content-type": "application/x-www-form-urlencoded"}
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        answer.content = answer.read()
        connection.close()
        return answer

    def _log_in(self, form: http.client.HTTPResponse, link: str) -> None:
        token = re.search(r'name="token" value="([^"]+)"', form.content.decode())[1]
        self._cookie = form.getheader("set-cookie").partition(";")[0]
        answer = self.ask("/login", f"token={token}&link={link}")
        assert answer.status == 303, answer.status
        self._cookie = answer.getheader("set-cookie").partition(";")[0]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rounds", type=int, default=5, metavar="N", help="starts to measure")
    options.add_argument("--devices", type=int, default=200, metavar="N", help="of the site")
    given = options.parse_args()
    starts, times, sizes = [], {path: [] for path in PAGES}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = make_site(Path(name) / "site", given.devices)
        for _ in range(given.rounds):
            visit = Visit(folder)
            starts.append(visit.started)
            for path in PAGES:
                begun = time.perf_counter()
                answer = visit.ask(path)
                times[path].append(time.perf_counter() - begun)
                assert answer.status == 200, path
                sizes[path] = len(answer.content)
            weight = sum(len(visit.ask(f"/static/{file}").content) for file in FILES)
            visit.close()
    return report(given, starts, times, sizes, weight)


def report(given, starts, times, sizes, weight) -> int:
    table = Table("what", "median", "least", "most", "kB", "")
    rows = [("start to first answer", starts, None, START)]
    rows += [(f"GET {path}", times[path], sizes[path], PAGE) for path in PAGES]
    missed = False
    for what, found, size, target in rows:
        good = statistics.median(found) <= target
        missed |= not good
        figures = (statistics.median(found), min(found), max(found))
        kilobytes = "" if size is None else f"{size / 1000:.0f}"
        told = f"{verdict(good)} (<= {target:g} s)"
        table.add_row(what, *(f"{each:.3f} s" for each in figures), kilobytes, told)
    Console(width=110).print(table)
    print(
        f"{given.devices} devices, {given.rounds} starts; script and style: {weight / 1000:.0f} kB"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
