"""The add-on for Home Assistant: by the rules of its linter, and run as Home Assistant runs it."""

import importlib.util
import json
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from support.helpers import make_mapping, refused
from support.ports import free_port
from support.sites import eventually, needs_mosquitto

import discreet
from discreet.network.site.settings import load_clients, load_site
from research.addon import SOURCE, draw_icon, make_addon

CONFIG = yaml.safe_load((SOURCE / "config.yaml").read_text())
LANGUAGES = sorted(each.stem for each in (SOURCE / "translations").iterdir())

# What the linter of add-ons knows: kinds of values, and what they are if nothing is written.
SWITCHES = {
    "advanced", "audio", "auth_api", "devicetree", "docker_api", "full_access", "gpio",
    "hassio_api", "homeassistant_api", "host_dbus", "host_ipc", "host_network", "host_pid",
    "host_uts", "ingress", "ingress_stream", "journald", "kernel_modules", "legacy", "realtime",
    "stdin", "tmpfs", "uart", "udev", "usb", "video",
}  # fmt: skip
TEXTS = {"name", "version", "slug", "description", "url", "image", "panel_icon", "panel_title"}
CHOICES = {
    "startup": ("application", "initialize", "once", "services", "system"),
    "boot": ("auto", "manual", "manual_only"),
    "backup": ("hot", "cold"),
    "stage": ("stable", "experimental", "deprecated"),
    "hassio_role": ("default", "admin", "backup", "homeassistant", "manager"),
}
DEFAULTS = {
    "startup": "application", "boot": "auto", "backup": "hot", "stage": "stable", "init": True,
    "ingress_port": 8099, "panel_admin": True, "panel_icon": "mdi:puzzle", "timeout": 10,
    "options": {}, "schema": {}, "apparmor": True, "hassio_role": "default",
} | dict.fromkeys(SWITCHES, False)  # fmt: skip
OTHERS = {"arch", "map", "ports", "options", "schema", "init", "ingress_port", "panel_admin"}
FOLDERS = {
    "addon_config", "all_addon_configs", "addons", "backup", "config", "data",
    "homeassistant_config", "media", "share", "ssl",
}  # fmt: skip
KINDS = re.compile(
    r"(str|bool|email|url|password|port|match\(.+\)|list\(.+\)|device|(int|float|str)"
    r"(\([-\d.]*,[-\d.]*\))?)\??"
)


def complaints(config):
    """What the linter would complain of."""
    for name in ("name", "version", "slug", "description", "arch"):
        if name not in config:
            yield f"{name} is missing"
    for name, value in config.items():
        if name in DEFAULTS and value == DEFAULTS[name]:
            yield f"{name} is what it is anyway"
        if name in TEXTS and not isinstance(value, str):
            yield f"{name} is no text"
        elif name in SWITCHES and not isinstance(value, bool):
            yield f"{name} is no switch"
        elif name in CHOICES and value not in CHOICES[name]:
            yield f"{name} is none of {CHOICES[name]}"
        elif name not in TEXTS | SWITCHES | set(CHOICES) | OTHERS:
            yield f"{name} is unknown"
    if not set(config.get("arch", ())) <= {"aarch64", "amd64", "armhf", "armv7", "i386"}:
        yield "arch is none"
    for place in config.get("map", ()):
        folder, _, rights = place.partition(":")
        if folder not in FOLDERS or rights not in ("", "ro", "rw"):
            yield f"map {place}"
    for name, port in config.get("ports", {}).items():
        if not re.fullmatch(r"\d+/(tcp|udp)", name) or not (port is None or 1 <= port <= 65535):
            yield f"port {name}"
    if config.get("ingress") and ("webui" in config or config.get("ingress_port") == 0):
        yield "ingress needs neither a page of its own nor a random port"


def fits(value, kind):
    """Whether a default is what the schema asks for; None: the user has to fill it in."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(
            set(each) <= set(kind[0]) and all(fits(each[k], kind[0][k]) for k in each)
            for each in value
        )
    if value is None:
        return not kind.endswith("?")
    name = kind.rstrip("?").partition("(")[0]
    if name in ("int", "float"):
        low, high = re.findall(r"-?[\d.]+", kind)
        return float(low) <= value <= float(high)
    if name == "match":
        return re.search(kind[6:-1], value) is not None
    return isinstance(value, bool if name == "bool" else str)


def kinds(schema):
    for kind in schema.values():
        yield from kinds(kind[0]) if isinstance(kind, list) else [kind]


# --- The folder --------------------------------------------------------------------------------


def test_the_linter_has_nothing_to_complain_of():
    assert list(complaints(CONFIG)) == []
    assert re.fullmatch(r"\d+\.\d+\.\d+", CONFIG["version"])
    assert re.fullmatch(r"[a-z0-9_]+", CONFIG["slug"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arch": ["sparc"]}, "arch"),
        ({"ingress_port": 0}, "ingress"),
        ({"startup": "application"}, "anyway"),
        ({"watchdog": "tcp://x"}, "unknown"),
        ({"map": ["etc:rw"]}, "map"),
        ({"ports": {"8883": 8883}}, "port"),
        ({"name": 7}, "no text"),
    ],
)
def test_the_rules_find_what_is_wrong(change, words):
    assert any(words in each for each in complaints(CONFIG | change))


def test_options_are_what_the_schema_asks_for():
    options, schema = CONFIG["options"], CONFIG["schema"]
    assert all(KINDS.fullmatch(kind) for kind in kinds(schema))
    assert set(options) <= set(schema)
    for name, kind in schema.items():
        optional = isinstance(kind, str) and kind.endswith("?")
        assert optional or fits(options[name], kind), name
    assert not fits("a b", schema["host"]) and not fits(0, schema["interval"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_option_and_port_is_translated(language):
    texts = yaml.safe_load((SOURCE / "translations" / f"{language}.yaml").read_text())
    assert set(texts) == {"configuration", "network"}
    assert set(texts["configuration"]) == set(CONFIG["schema"])
    assert all(set(each) == {"name", "description"} for each in texts["configuration"].values())
    assert set(texts["network"]) == set(CONFIG["ports"])


def test_versions_ports_and_documents_agree():
    assert CONFIG["version"] == discreet.__version__
    assert f"## {CONFIG['version']}" in (SOURCE / "CHANGELOG.md").read_text()
    documents = (SOURCE / "DOCS.md").read_text()
    assert all(f"`{name}`" in documents for name in CONFIG["schema"])
    assert list(CONFIG["ports"]) == [f"{start.BROKER_PORT}/tcp"]
    assert CONFIG.get("ingress_port", 8099) == start.INGRESS_PORT


def test_the_image_is_built_for_every_processor_it_is_offered_for():
    build = yaml.safe_load((SOURCE / "build.yaml").read_text())
    assert set(build) == {"build_from"} and set(build["build_from"]) == set(CONFIG["arch"])
    image = re.compile(r"([a-z.]+/)?[\w-]+/(\w+)-[\w-]+:[\w.-]+")
    assert all(image.fullmatch(v)[2] == k for k, v in build["build_from"].items())
    lines = (SOURCE / "Dockerfile").read_text()
    assert re.search(r"^ARG BUILD_FROM.*\nFROM \$\{BUILD_FROM\}$", lines, re.M)
    for source in re.findall(r"^COPY (\S+) ", lines, re.M):
        assert source == "wheels" or (SOURCE / source).exists()


def test_it_is_put_together_with_the_package_and_an_icon(tmp_path):
    with zipfile.ZipFile(tmp_path / "discreet-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("discreet/__init__.py", "")
    make_addon(tmp_path / "addon", tmp_path / "discreet-0.1.0-py3-none-any.whl")
    there = {str(each.relative_to(tmp_path / "addon")) for each in (tmp_path / "addon").rglob("*")}
    assert there >= {"config.yaml", "Dockerfile", "DOCS.md", "icon.png", "start.py"}
    assert "wheels/discreet-0.1.0-py3-none-any.whl" in there


def test_the_icon_is_square_and_drawn(tmp_path):
    draw_icon(tmp_path / "icon.png")
    with Image.open(tmp_path / "icon.png") as picture:
        pixels = np.asarray(picture)
    assert pixels.shape == (256, 256, 4)
    assert pixels[0, 0, 3] == 0 and tuple(pixels[128, 8]) == (11, 106, 153, 255)
    assert (pixels[..., :3] == 255).all(axis=-1).any()


# --- Running -----------------------------------------------------------------------------------


def load_start():
    spec = importlib.util.spec_from_file_location("addon_start", SOURCE / "start.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules["addon_start"] = found
    spec.loader.exec_module(found)
    return found


start = load_start()


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The folders of the add-on, with a mapping, and ports that are free."""
    monkeypatch.setattr(start, "BROKER_PORT", free_port())
    found = start.Places(tmp_path / "data", tmp_path / "config", tmp_path / "share")
    for folder in (found.data, found.config, found.share):
        folder.mkdir()
    make_mapping().save(found.config / "mapping.json")
    return found


def options(**more):
    given = {**CONFIG["options"], "host": "localhost", "dashboard_password": "a long password"}
    return given | {"interval": 2, "deadline": 1} | more


def test_without_a_mapping_it_says_where_to_put_one(places):
    (places.config / "mapping.json").unlink()
    refused("mapping.json: no such file. Put a mapping there", start.prepare, places, options())
    assert not places.site.exists()


@pytest.mark.slow
@needs_mosquitto
def test_the_first_start_makes_the_site_and_the_next_leaves_it_alone(places):
    sensor, other = (each.name for each in make_mapping().sensors[:2])
    first = options(devices=[{"name": "hall", "sensor": sensor}], bridge=True)
    start.prepare(places, first)
    site = load_site(places.site)
    assert (site.interval, site.broker.port) == (2, start.BROKER_PORT)
    assert (places.config / "hall.enrol").is_file()
    written = (places.share / "mosquitto" / "discreet.conf").read_text()
    for name in re.findall(r"^bridge_\w+file (.*)$", written, re.M):
        assert Path(name).is_file() and Path(name).stat().st_mode & 0o004
    second = options(devices=[*first["devices"], {"name": "played", "sensor": other, "read": "x:"}])
    start.prepare(places, second | {"bridge": True, "interval": 9})
    assert load_site(places.site) == site
    assert set(load_clients(places.site).clients) >= {"hall", "played"}
    assert (places.data / "played.enrol").is_file()
    assert ["sensor", str(places.data / "played.enrol")] in [
        each[:2] for each in start.commands(places, second)
    ]
    refused("discreet dashboard failed", start.prepare, places, options(dashboard_password="short"))


RUN = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import start
start.BROKER_PORT, start.INGRESS_PORT, start.METRICS_PORT = map(int, sys.argv[2:5])
start.SUPERVISOR = "127.0.0.1"
places = start.Places(*map(Path, sys.argv[5:8]))
sys.exit(start.run(places, json.loads((places.data / "options.json").read_text())))
"""


@pytest.mark.slow
@needs_mosquitto
def test_it_runs_until_it_is_told_to_end(places):
    import urllib.request

    port = free_port()
    content = json.dumps(options(devices=[]))
    (places.data / "options.json").write_text(content)
    log = (places.data / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, SOURCE, str(start.BROKER_PORT), str(port), str(free_port()),
         places.data, places.config, places.share],
        stdout=log, stderr=log,
    )  # fmt: skip

    def shown():
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/login", headers={"X-Ingress-Path": "/api/hassio_ingress/t"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return b"Log in to" in answer.read()
        except OSError:
            assert process.poll() is None, (places.data / "log").read_text()
            return False

    try:
        assert eventually(shown, 300)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        log.close()
