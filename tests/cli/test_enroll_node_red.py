"""The commands that ``discreet enroll --to node-red`` prints install a node that can be loaded."""

import base64
import hashlib
import http.server
import io
import json
import os
import shlex
import subprocess
import tarfile
import threading

import pytest
from support.commands import run
from support.devices import needs
from support.helpers import make_mapping

MQTT = {"name": "mqtt", "version": "5.0.0", "main": "index.js"}


@pytest.fixture
def registry():
    """Serve an index of npm's packages that has an empty mqtt and nothing else."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (("package.json", json.dumps(MQTT)), ("index.js", "")):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    data = packed.getvalue()

    class Index(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = data if self.path == "/mqtt.tgz" else json.dumps(self.about()).encode()
            self.send_response(200 if self.path in ("/mqtt", "/mqtt.tgz") else 404)
            self.end_headers()
            self.wfile.write(answer)

        def about(self):
            digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
            dist = {"tarball": f"{url}/mqtt.tgz", "integrity": f"sha512-{digest}"}
            versions = {"5.0.0": {**MQTT, "dist": dist}}
            return {"name": "mqtt", "dist-tags": {"latest": "5.0.0"}, "versions": versions}

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever).start()
        yield url
        server.shutdown()


def test_the_printed_commands_install_the_node(tmp_path, monkeypatch, capsys, registry):
    needs("npm")
    monkeypatch.chdir(tmp_path)
    make_mapping().save("home.json")
    for line in ("init site --mapping home.json", "enroll hall --to node-red --out 'my hall'"):
        code, printed, error = run(monkeypatch, capsys, *shlex.split(line))
        assert (code, error) == (0, "")
    steps = [line.partition("  (")[0] for line in printed.splitlines() if line.startswith("  ")]
    user = tmp_path / "home" / ".node-red"
    user.mkdir(parents=True)
    environment = {
        **os.environ, "HOME": str(user.parent), "npm_config_registry": registry,
        "npm_config_audit": "false", "npm_config_update_notifier": "false",
    }  # fmt: skip
    subprocess.run(["sh", "-ec", "\n".join(steps)], env=environment, timeout=300, check=True)
    assert (user / "hall.enrol").is_file()
    loaded = "require('node-red-contrib-discreet/lib/client.js')"
    subprocess.run(["node", "-e", loaded], cwd=user, timeout=60, check=True)
