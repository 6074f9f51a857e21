"""A real Node-RED with the node of this repository in it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path

import pytest

from support.devices import NATIVE, RUNTIMES, needs
from support.ports import free_port

PACKAGE = RUNTIMES / "node_red"
LOSSY = {"NODE_OPTIONS": f"--require {NATIVE / 'lossy_node_red.js'}"}
"""Environment of one that notes what it writes, and loses a tenth of the answers."""


@cache
def node_red():
    """The folder of npm's modules with Node-RED and mqtt in it, or a skip."""
    needs("node")
    folders = [os.environ.get("DISCREET_NODE_MODULES", "")]
    if shutil.which("npm"):
        asked = ["npm", "root", "-g"]
        folders.append(subprocess.run(asked, capture_output=True, text=True).stdout.strip())
    for folder in filter(None, folders):
        if (Path(folder) / "node-red" / "red.js").is_file():
            return Path(folder)
    pytest.skip("the npm package node-red is not installed; .ci/run installs it")


def run_job(job, content):
    """Run a job of ``node_red_jobs.js``; returns what it found."""
    paths = [Path(__file__)]  # none, where a job needs no package
    if job in ("messages", "starts", "enrolments", "refusals", "lives"):
        paths = [node_red() / "node-red" / "node_modules", node_red()]
    done = subprocess.run(
        [needs("node"), str(NATIVE / "node_red_jobs.js"), str(PACKAGE), job],
        input=json.dumps(content), capture_output=True, text=True, timeout=900,
        env={**os.environ, "NODE_PATH": os.pathsep.join(map(str, paths))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class NodeRed:
    """A Node-RED with one node of ours, and an inject node that reads."""

    def __init__(self, folder, enrolment, readings, package=PACKAGE):
        self.folder, modules = Path(folder), node_red()
        (self.folder / "node_modules").mkdir(parents=True)
        shutil.copytree(package, self.folder / "node_modules" / "node-red-contrib-discreet")
        for path in (modules / "node-red" / "node_modules", modules):
            if (path / "mqtt").is_dir():
                (self.folder / "node_modules" / "mqtt").symlink_to(path / "mqtt")
                break
        content = {"dependencies": {"node-red-contrib-discreet": "*"}}
        (self.folder / "package.json").write_text(json.dumps(content))
        (self.folder / "device.enrol").write_bytes(enrolment)
        (self.folder / "settings.js").write_text(SETTINGS.replace("PORT", str(free_port())))
        (self.folder / "flows.json").write_text(json.dumps(flow(readings)))
        self._red, self.process = modules / "node-red" / "red.js", None

    def start(self, **environment):
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            ["node", str(self._red), "--userDir", str(self.folder), "flows.json"],
            cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            env={**os.environ, "DISCREET_USER_DIR": str(self.folder), **environment},
        )  # fmt: skip
        log.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def log(self):
        return (self.folder / "log").read_text()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            self.kill()


SETTINGS = """module.exports = {
  uiPort: PORT, uiHost: "127.0.0.1", httpAdminRoot: false, httpNodeRoot: false,
  flowFile: "flows.json", credentialSecret: false,
  logging: { console: { level: "info", metrics: false, audit: false } },
  telemetry: { enabled: false, updateNotification: false },
};
"""


def flow(readings):
    inject = {"type": "inject", "z": "tab", "once": True, "onceDelay": 0.1, "wires": [["node"]]}
    inject |= {"props": [{"p": "payload"}, {"p": "topic", "vt": "str"}], "payloadType": "json"}
    reading = [
        inject | {"id": f"in{i}", "topic": name, "payload": json.dumps(value)}
        for i, (name, value) in enumerate(readings.items())
    ]
    node = {"id": "node", "type": "discreet", "z": "tab", "maxAge": 0, "wires": [[]]}
    node |= {"enrolment": "device.enrol", "state": "state"}
    return [{"id": "tab", "type": "tab", "label": "t"}, *reading, node]
