"""A site in containers, and its units under systemd, in a root made of Debian packages.

    python -m research.benchmarks.network.containers [--only compose,systemd] [--root FOLDER]

No registry is asked for images: debootstrap makes the root, and this clone is installed into it.
The services of the Compose file that `discreet init` writes run in namespaces of their own, with
the user, mounts, capabilities and read-only root that the file asks for. Then the units run under a
systemd that is the first process of a namespace. Not tried, because nothing here can run them:
Docker itself with its images, networks and seccomp profile, and memory limits of control groups.
Needs root on Linux, debootstrap, and a network that reaches Debian and PyPI.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from support.network_figures.verdicts import judge
from support.network_samples import additive_mapping
from support.ports import free_port

from research.debian import make_root, run, why_not

SOURCE = Path(__file__).parents[3]
PACKAGES = "mosquitto,python3-venv,systemd,systemd-sysv,util-linux,procps"
RELEASE, PYTHON = "bookworm", "3.11"
DISCREET = "/opt/discreet/bin/discreet"
OWNER = 4711
LONG = 240.0
NAMES = ["hall", "door"]
# They would change the kernel of the machine, not of the namespace.
MASKED = ("systemd-sysctl", "systemd-modules-load", "systemd-binfmt", "systemd-remount-fs",
          "systemd-udevd", "systemd-random-seed", "kmod-static-nodes")  # fmt: skip

Row = tuple[str, str, str, bool]


# --- The root ------------------------------------------------------------------------------


def inside(root: Path, script: str) -> str:
    return run("chroot", root, "/bin/sh", "-c", script)


def fill_root(root: Path) -> None:
    """Make a root of Debian packages, unless it is there, and install this clone into it."""
    make_root(root, RELEASE, PACKAGES)
    print("==> this clone into it", flush=True)
    pip = [sys.executable, "-m", "pip", "-qq"]
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory(dir=root) as wheels:
        run(*pip, "wheel", "--no-deps", "-w", own, SOURCE, SOURCE / "sensor")
        # Fetched outside: the root has neither the machine's certificates nor its settings.
        fetch = ["--python-version", PYTHON, "--only-binary=:all:", "--find-links", own]
        run(*pip, "download", *fetch, "-d", wheels, "discreet[network]")
        place = f"/{Path(wheels).name}"
        inside(
            root,
            "test -x /opt/discreet/bin/pip || python3 -m venv /opt/discreet; "
            f"/opt/discreet/bin/pip install -qq --no-index --find-links {place} 'discreet[network]'"
            f" && /opt/discreet/bin/pip install -qq --no-index --no-deps --force-reinstall "
            f"{place}/discreet*.whl",
        )
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    inside(root, "id discreet >/dev/null 2>&1 || useradd --system discreet")


def make_site(root: Path, name: str) -> dict[str, int]:
    """Make a site in the root with two devices; return its ports."""
    shutil.rmtree(root / "srv", ignore_errors=True)
    (root / "srv").mkdir()
    additive_mapping(names=NAMES).save(root / "srv/home.json")
    ports = {each: free_port() for each in ("port", "dashboard-port", "metrics-port")}
    options = " ".join(f"--{option} {port}" for option, port in ports.items())
    more = "--interval 1 --deadline 4"
    inside(
        root, f"{DISCREET} init /srv/site --mapping /srv/home.json --name {name} {options} {more}"
    )
    for device in NAMES:
        inside(root, f"cd /srv && {DISCREET} enroll {device} --site /srv/site")
        (root / f"srv/{device}.reading").write_text("1\n")
    return ports


@contextmanager
def devices(root: Path) -> Iterator[None]:
    """Run the sensors in the root, outside of all containers."""
    started = []
    for name in NAMES:
        command = f"{DISCREET} sensor /srv/{name}.enrol --state /srv/{name} --quiet"
        words = ["chroot", str(root), *command.split(), "--read", f"file:/srv/{name}.reading"]
        started.append(subprocess.Popen(words))
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.wait(LONG)


# --- What is checked of both ---------------------------------------------------------------


def page(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError:
        return 0, b""


def eventually(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def health(ports: dict[str, int]) -> dict[str, object]:
    code, body = page(f"http://127.0.0.1:{ports['metrics-port']}/health")
    return json.loads(body) if code in (200, 503) else {}


def traffic(root: Path, ports: dict[str, int]) -> Iterator[Row]:
    """Yield whether messages are stored and decided on, and the dashboard answers."""
    with devices(root):
        stored = eventually(lambda: health(ports).get("messages", 0) >= 6)
        decided = eventually(lambda: health(ports).get("reported") == len(NAMES))
    yield "messages of two devices are stored", str(health(ports).get("messages")), ">= 6", stored
    yield "rounds are decided on both", str(health(ports).get("reported")), "2", decided
    code, body = page(f"http://127.0.0.1:{ports['dashboard-port']}/")
    yield "the dashboard answers", str(code), "200", code == 200 and b"<html" in body.lower()


def confinement(name: str, pid: int, root: Path, site: str, hidden: list[str]) -> Iterator[Row]:
    """Yield what a running service is, sees and can change; ``pid``: as this machine counts."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if ":\t" in line
    )  # fmt: skip
    user, powers = status["Uid"].split()[0], int(status["CapEff"], 16)
    yield (
        f"{name}: user, capabilities, no new privileges",
        f"{user}, {powers:x}, {status['NoNewPrivs']}",
        "not 0, 0, 1",
        user != "0" and powers == 0 and status["NoNewPrivs"] == "1",
    )
    view = Path(f"/proc/{pid}/root")
    script = " ".join(f"{site}/{each}/*" for each in hidden)
    enter = ["nsenter", "-t", str(pid), "-m", f"--root={view}", "setpriv", f"--reuid={user}"]
    drop = ["--regid", status["Gid"].split()[0], "--clear-groups", "--bounding-set=-all"]
    seen = _answer(
        [*enter, *drop, "--inh-caps=-all", "/bin/sh", "-c", f"cat {script} 2>/dev/null | wc -c"]
    )
    yield f"{name}: bytes it can read in {', '.join(hidden)}", seen, "0", seen == "0"
    own = {"broker": "broker", "dashboard": "data"}.get(name, "fusion")
    control = f"cat {site}/{own}/* | wc -c"
    seen = _answer([*enter, *drop, "--inh-caps=-all", "/bin/sh", "-c", control])
    yield (
        f"{name}: control: bytes it can read in {own}",
        seen,
        "> 0",
        seen.isdigit() and seen != "0",
    )
    files = f"{site}/site.json {site}/mapping.json /usr/x /etc/x"
    tries = f"for f in {files}; do (echo >> $f) 2>/dev/null && echo $f; done; true"
    wrote = _answer([*enter, *drop, "--inh-caps=-all", "/bin/sh", "-c", tries])
    yield f"{name}: what it can write of site and system", wrote or "nothing", "nothing", not wrote


def _answer(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"? {done.stderr.strip()[-200:]}"


def own_folders(service: str) -> list[str]:
    """Return what a service has no business with."""
    kind = "fusion" if service.startswith("fusion") else service
    return {
        "broker": ["keys", "fusion", "data", "dashboard"],
        "fusion": ["keys", "broker", "dashboard"],
        "dashboard": ["keys", "broker", "fusion"],
    }[kind]


# --- Compose -------------------------------------------------------------------------------


def container(root: Path, site: Path, service: dict[str, object]) -> list[str]:
    """Return the command that runs a service of a Compose file in namespaces of its own."""
    mounts = [(place, None, "") for place in service["tmpfs"]]
    for volume in service["volumes"]:
        source, target, *mode = volume.split(":")
        mounts.append((target, site / source, "".join(mode)))
    lines = ["set -e", "mount --make-rprivate /", f"mount --bind {root} {root}"]
    for target, source, mode in sorted(mounts, key=lambda each: each[0].count("/")):
        place = f"{root}{target}"
        lines.append(f"mkdir -p {place}")
        kind = "-t tmpfs -o mode=1777 tmpfs" if source is None else f"--bind {source}"
        lines.append(f"mount {kind} {place}")
        if mode == "ro":
            lines.append(f"mount -o remount,bind,ro {place}")
    lines.append(f"mount -t proc proc {root}/proc")
    lines.append(f"mount --rbind /dev {root}/dev")
    if service["read_only"]:
        lines.append(f"mount -o remount,bind,ro {root}")
    entry = service.get("entrypoint", [DISCREET])
    words = [str(each) for each in (*entry, *service.get("command", []))]
    drop = "--bounding-set=-all --inh-caps=-all --no-new-privs --clear-groups"
    place = service.get("working_dir", "/")
    inner = f"cd {place} && ulimit -c 0 && exec {shlex.join(words)}"
    lines.append(
        f"exec chroot {root} setpriv --reuid={OWNER} --regid={OWNER} {drop} "
        f"env -i PATH=/usr/sbin:/usr/bin:/bin HOME=/tmp /bin/sh -c {shlex.quote(inner)}"
    )
    flags = ["--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    return ["unshare", *flags, "bash", "-c", "\n".join(lines)]


def compose(root: Path) -> Iterator[Row]:
    """Run the services of the Compose file, and look at each."""
    ports, site = make_site(root, "compose"), root / "srv/site"
    run("chown", "-R", f"{OWNER}:{OWNER}", site)
    services = yaml.safe_load((site / "compose.yaml").read_text())["services"]
    with ExitStack() as running:
        started = {}
        for name, service in services.items():
            process = subprocess.Popen(container(root, site, service))
            running.callback(_kill, process)
            started[name] = process
        yield from traffic(root, ports)
        for name, process in started.items():
            yield from confinement(name, _leaf(process.pid), root, "/site", own_folders(name))
        ends = {}
        for name, process in reversed(started.items()):
            os.kill(_leaf(process.pid), signal.SIGTERM)
            ends[name] = process.wait(LONG)
        yield "exit codes after SIGTERM", str(ends), "all 0", not any(ends.values())


def _leaf(pid: int) -> int:
    """Return the last of a chain of children."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


# --- systemd -------------------------------------------------------------------------------


@contextmanager
def booted(root: Path) -> Iterator[Callable[[str], str]]:
    """Start systemd in the root; yield what runs a command beside it."""
    units = root / "etc/systemd/system"
    for name in MASKED:
        (units / f"{name}.service").unlink(missing_ok=True)
        (units / f"{name}.service").symlink_to("/dev/null")
    for name in ("sys-kernel-debug", "sys-kernel-tracing", "dev-hugepages"):
        (units / f"{name}.mount").unlink(missing_ok=True)
        (units / f"{name}.mount").symlink_to("/dev/null")
    lines = [
        "set -e",
        "mount --make-rprivate /",
        f"mount --bind {root} {root}",
        f"mount -t proc proc {root}/proc",
        f"mount --bind {root}/proc/sys {root}/proc/sys",
        f"mount -o remount,bind,ro {root}/proc/sys",
        f"mount -t sysfs -o ro sysfs {root}/sys",
        f"mount -t cgroup2 cgroup2 {root}/sys/fs/cgroup",
        f"mount -t tmpfs tmpfs {root}/run",
        f"mount --rbind /dev {root}/dev",
        f"exec env -i container=discreet PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot {root} "
        "/lib/systemd/systemd --log-target=null --unit=basic.target",
    ]
    flags = ["--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup"]
    process = subprocess.Popen(["unshare", *flags, "bash", "-c", "\n".join(lines)])
    try:
        time.sleep(0.5)

        def beside(script: str) -> str:
            enter = ["nsenter", "-t", str(_first(process.pid)), "-m", "-p", "chroot", str(root)]
            return _answer([*enter, "/bin/sh", "-c", script])

        eventually(lambda: beside("systemctl is-system-running --wait") in ("running", "degraded"))
        yield beside
    finally:
        _kill(process)


def _first(pid: int) -> int:
    """Return the only child: the first process of the namespace."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def systemd(root: Path) -> Iterator[Row]:
    """Run the units under a real systemd, and look at each service."""
    ports, site = make_site(root, "units"), root / "srv/site"
    inside(root, "chown -R discreet: /srv/site && chown -R root: /srv/site/keys")
    units = [each for each in (site / "systemd").glob("*.service") if "@" not in each.name]
    for old in (root / "etc/systemd/system").glob("discreet-*.service"):
        old.unlink()
    for unit in units:
        shutil.copy(unit, root / "etc/systemd/system")
    names = {unit.stem.rpartition("-")[2]: unit.stem for unit in units}
    with booted(root) as beside:
        version = beside("systemctl --version | head -1")
        beside(f"systemctl start {' '.join(names.values())}")
        states = {name: beside(f"systemctl is-active {unit}") for name, unit in names.items()}
        good = set(states.values()) == {"active"}
        yield f"{version}: units are active", str(states), "active", good
        yield from traffic(root, ports)
        for name, unit in names.items():
            pid = _outside(beside(f"systemctl show -P MainPID {unit}"), unit)
            yield from confinement(name, pid, root, "/srv/site", own_folders(name))
        reloaded = beside(f"systemctl reload {names['broker']} && echo yes")
        yield "the broker reloads", reloaded, "yes", reloaded == "yes"
        beside(f"systemctl stop {' '.join(names.values())}")
        ends = {name: beside(f"systemctl show -P Result {unit}") for name, unit in names.items()}
        yield "results after a stop", str(ends), "success", set(ends.values()) == {"success"}


def _outside(pid: str, unit: str) -> int:
    """Return the number that this machine has for a process of a namespace."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text, group = status.read_text(), (status.parent / "cgroup").read_text()
        except OSError:
            continue
        numbers = text.partition("NSpid:")[2].partition("\n")[0].split()
        if len(numbers) > 1 and numbers[-1] == pid and unit in group:
            return int(status.parent.name)
    raise SystemExit(f"{unit}: no process {pid} was found")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="compose,systemd")
    parser.add_argument("--root", type=Path, default=SOURCE / "build" / "containers")
    given = parser.parse_args()
    if reason := why_not("unshare", "setpriv"):
        print(f"not run: {reason}")
        return 0
    root, passed, console = given.root.absolute(), True, Console(width=150)
    fill_root(root)
    for name, part in (("compose", compose), ("systemd", systemd)):
        if name in given.only.split(","):
            print(f"==> {name}", flush=True)
            passed &= judge(console, name, part(root))
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
