"""The demo's network: site, broker, sensors, fusion centre and dashboard, all of it real.

Every part is the program that a site in earnest runs, in a process of its own. Only the readings
are made up: each round they are written to files, which the sensors read.

The processes are started in order, watched, and ended in reverse. One of them, where Mosquitto is
not installed, is amqtt on loopback: ``python -m`` with this module and a port runs it. It speaks
MQTT 3.1.1, without TLS and rights, so that only the demo may use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from discreet.errors import InputError
from discreet.export.neutral import Policy
from discreet.files import write_whole
from discreet.network.broker import Broker, answers, broker_process, end, find_mosquitto, free_port
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.making import make_folder
from discreet.network.site.settings import BrokerEndpoint, Endpoint, Site, load_site
from discreet.network.store import open_reader
from discreet.network.store.reading import Reader
from discreet.network.store.rows import Decision

# --- Processes ------------------------------------------------------------------------------

_SECONDS = 8.0


class Children:
    """Processes that end when the demo does.

    ``logs``: folder for what they print.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, *arguments: str) -> None:
        """Start Python with some arguments, in a session that Ctrl-C does not reach."""
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append((name, process))

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def printed(self, name: str) -> str:
        file = self.log(name)
        return file.read_text(errors="replace") if file.exists() else ""

    def check(self) -> None:
        """Check that all still run.

        Raises InputError: with the last line that an ended one printed.
        """
        for name, process in self._running:
            if process.poll() is not None:
                printed = self.printed(name).strip().splitlines()
                last = printed[-1] if printed else f"exit code {process.returncode}"
                raise InputError(f"the demo's {name} has ended: {last}. See {self.log(name)}.")

    def stop(self) -> None:
        """End all, the last one first; one that does not react is killed."""
        until = time.monotonic() + _SECONDS
        for _, process in reversed(self._running):
            end(process, max(0.1, until - time.monotonic()))
        self._running = []


async def _serve(port: int) -> None:
    from amqtt.broker import Broker

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    plugin = "amqtt.plugins.authentication.AnonymousAuthPlugin"
    listening = {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}}
    broker = Broker({"listeners": listening, "plugins": {plugin: {"allow_anonymous": True}}})
    await broker.start()
    await stop.wait()
    with contextlib.suppress(Exception):  # it is the demo's end in any case
        await asyncio.wait_for(broker.shutdown(), 3)


# --- The network ----------------------------------------------------------------------------

_MARK = ".made-by-the-demo"
_INTERVAL, _DEADLINE = 1.0, 0.7  # seconds
_ANSWERS = {"False": "Nobody has fallen", "True": "Somebody has fallen"}
_PATIENCE = 60.0  # seconds until everything has to be up
_SHOWN = 5

Draw = Callable[[], tuple[dict[str, int], str]]
"""Makes up the readings of a round, and what is true in it."""


@dataclass(frozen=True)
class DemoPlan:
    """What the network of the demo is made of.

    ``folder``: for the site, the devices and their logs; emptied if it is of an earlier demo.
    ``policy``: of all devices. ``seconds``: how long it runs; by default until it is stopped.
    ``say``: takes each line that the user sees.
    """

    folder: Path
    mapping: Path
    audit: Path
    frontier: Path
    sensors: Sequence[str]
    policy: Policy
    draw: Draw
    seconds: float | None
    say: Callable[[str], None]


@dataclass
class Account:
    """What came of it."""

    broker: str = ""
    decisions: list[Decision] = field(default_factory=list)
    truths: dict[int, str] = field(default_factory=dict)
    messages: int = 0
    refused: int = 0
    spent: int = 0

    @property
    def complete(self) -> list[Decision]:
        """The decisions of rounds in which every sensor reported, and the truth is known."""
        return [
            each
            for each in self.decisions
            if each.reported == each.expected and each.round in self.truths
        ]

    @property
    def right(self) -> int:
        return sum(each.decision == self.truths[each.round] for each in self.complete)


def run_network(plan: DemoPlan) -> Account:
    """Set up the network, run it and print what it decides.

    Raises InputError: if a part does not come up.
    """
    check_room(plan.folder)
    _make_room(plan.folder)
    account = Account()
    with ExitStack() as stack:
        stack.enter_context(_ended_by_signals())
        site_folder, site = _init(plan)
        account.broker = stack.enter_context(_broker(plan, site_folder, site))
        children = Children(plan.folder / "logs")
        stack.callback(children.stop)
        _start(plan, children, site_folder)
        reader = open_reader(site.database, site_folder, site.key)
        stack.callback(reader.close)
        try:
            _watch(plan, site, children, reader, account)
        except KeyboardInterrupt:
            if plan.seconds is not None or not account.complete:
                raise
            plan.say("stopping")  # which is how it is meant to end
        with suppress(Exception):  # the summary is useful without it
            clients = reader.clients()
            account.messages = sum(each.messages for each in clients)
            account.spent = max((each.spent for each in clients), default=0)
            account.refused = sum(each.times for each in reader.refused() if each.kept_out)
    return account


# --- Setting up ----------------------------------------------------------------------------


def check_room(folder: Path) -> None:
    """Refuse a folder that is not of an earlier demo, or of one that still runs."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / _MARK).is_file():
        raise InputError(f"{folder} is not from the demo. Choose another folder: --out.")
    if _is_running(folder / "site"):
        raise InputError(f"a demo is still running in {folder}. Stop it, or choose --out.")


def _is_running(site: Path) -> bool:
    with suppress(InputError):
        return broker_process(site) is not None or answers(load_site(site).broker.port)
    return False


def _make_room(folder: Path) -> None:
    """Empty what an earlier demo has left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()
    for name in ("logs", "readings", "devices"):
        (folder / name).mkdir(mode=0o700)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have the demo's processes ended in order also when the terminal is closed."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    heeded = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]  # nohup
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _init(plan: DemoPlan) -> tuple[Path, Site]:
    folder = plan.folder / "site"
    with_mosquitto = find_mosquitto() is not None
    broker = BrokerEndpoint(
        host="localhost" if with_mosquitto else "127.0.0.1",
        port=free_port(),
        tls=with_mosquitto,
        mqtt="5" if with_mosquitto else "3.1.1",
    )
    dashboard, metrics = Endpoint(port=free_port()), Endpoint(port=free_port())
    options = {
        "--port": broker.port,
        "--dashboard-port": dashboard.port,
        "--metrics-port": metrics.port,
        "--interval": f"{_INTERVAL:g}",
        "--deadline": f"{_DEADLINE:g}",
        "--audit": plan.audit,
        "--frontier": plan.frontier,
        "--repeat": plan.policy.repeat,
        "--budget": plan.policy.budget,
    }
    words = ["init", str(folder), "--mapping", str(plan.mapping), "--name", "demo"]
    words += [text for key, each in _ANSWERS.items() for text in ("--answer", f"{key}={each}")]
    words += [str(each) for pair in options.items() for each in pair]
    plan.say(f"$ discreet {shlex.join([*words, '--anyway'])}")
    site, _ = make_folder(
        folder,
        plan.mapping,
        plan.policy,
        audit=plan.audit,
        frontier=plan.frontier,
        broker_program=find_mosquitto(),
        anyway=True,  # a round takes a second here, so that a day of them is soon over
        site="demo",
        broker=broker,
        interval=_INTERVAL,
        deadline=_DEADLINE,
        dashboard=dashboard,
        metrics=metrics,
        answers=_ANSWERS,
    )
    for sensor in plan.sensors:
        name, out = _device(sensor), plan.folder / "devices" / f"{_device(sensor)}.enrol"
        enroll(folder, EnrolmentRequest(name, [sensor], policy=plan.policy, anyway=True), out)
        words = ["enroll", name, "--site", str(folder), "--sensor", sensor, "--out", str(out)]
        plan.say(f"$ discreet {shlex.join([*words, '--anyway'])}")
    return folder, site


def _device(sensor: str) -> str:
    return sensor.replace("_", "-")


@contextmanager
def _broker(plan: DemoPlan, folder: Path, site: Site) -> Iterator[str]:
    if site.broker.tls:
        with Broker.of_site(folder):
            plan.say(
                "broker: Mosquitto with MQTT 5, certificates on both sides, and rights by name"
            )
            yield "Mosquitto: MQTT 5, mutual TLS, rights by name"
        return
    children = Children(plan.folder / "logs")
    children.start("broker", "-m", "discreet.network.demo", str(site.broker.port))
    try:
        _until(lambda: answers(site.broker.port), children)
        plan.say("broker: amqtt, as Mosquitto is not installed. It speaks MQTT 3.1.1 only.")
        plan.say(
            "  OFF: TLS, certificates, rights, revocation. For trying it on this machine only,"
        )
        plan.say("  never for a site: install Mosquitto 2 (Debian: apt install mosquitto).")
        yield "amqtt: MQTT 3.1.1; TLS, certificates, rights and revocation are off"
    finally:
        children.stop()


def _start(plan: DemoPlan, children: Children, site: Path) -> None:
    _write_readings(plan, plan.draw()[0])
    commands = {"fusion": ["serve", str(site)], "dashboard": ["dashboard", str(site)]}
    for sensor in plan.sensors:
        device = plan.folder / "devices" / _device(sensor)
        device.mkdir(mode=0o700)
        source = f"file:{plan.folder / 'readings' / sensor}"
        commands[_device(sensor)] = [
            "sensor", f"{device}.enrol", "--state", str(device), "--read", source,
        ]  # fmt: skip
    for name, words in commands.items():
        plan.say(f"$ discreet {shlex.join(words)}")
        children.start(name, "-m", "discreet", *words)
        if name == "fusion":  # it makes the database that the dashboard reads
            _until(lambda: (site / "data" / "fusion.db").exists(), children)


def _until(condition: Callable[[], bool], children: Children) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        children.check()
        if time.monotonic() > end:
            raise InputError(f"the demo's network did not come up in {_PATIENCE:g} s.")
        time.sleep(0.05)


# --- Running -------------------------------------------------------------------------------


def _write_readings(plan: DemoPlan, readings: dict[str, int]) -> None:
    for sensor, reading in readings.items():
        write_whole(plan.folder / "readings" / sensor, f"{reading}\n")


def _watch(
    plan: DemoPlan, site: Site, children: Children, reader: Reader, account: Account
) -> None:
    """Make up readings round by round and print what is decided, until the time is over."""
    end: float | None = None
    began, said_link, seen = time.monotonic(), False, -1
    number = -1
    while end is None or time.monotonic() < end:
        children.check()
        if (now := _moment(site)) is not None and now != number:
            number = now
            readings, truth = plan.draw()
            _write_readings(plan, readings)
            if _moment(site) == number:  # else a sensor may have read the old ones
                account.truths[number] = truth
        if not said_link:
            said_link = _say_link(plan, children)
        decided: list[Decision] = []
        with suppress(Exception):  # the database is just being made
            decided = reader.decisions(seen)
        for decision in decided:
            seen = decision.round
            _tell(plan, account, decision)
        if end is None and account.complete and said_link:
            until = "and stays up until you press Ctrl-C"
            stays = until if plan.seconds is None else f"for {plan.seconds:g} s more"
            plan.say(f"All is up, {stays}.")
            end = time.monotonic() + (plan.seconds if plan.seconds is not None else float("inf"))
        if end is None and time.monotonic() - began > _PATIENCE:
            raise InputError(f"the demo's network decided nothing in {_PATIENCE:g} s.")
        time.sleep(0.05)


def _moment(site: Site) -> int | None:
    """Return the round that readings may be written for now.

    Sensors read at the end of a round, so that it is left alone around that.
    """
    number, part = divmod((time.time() - site.epoch) / site.interval, 1.0)
    return int(number) if 0.3 <= part <= 0.9 else None


def _say_link(plan: DemoPlan, children: Children) -> bool:
    """Pass on what the dashboard prints once it listens: its address and the way in."""
    printed = children.printed("dashboard")
    if "http" not in printed or not printed.endswith("\n"):
        return False
    plan.say("the dashboard is up:")
    for line in printed.strip().splitlines():
        if "http" in line:
            plan.say(f"  {line.strip()}")
    plan.say("  (the link with login in it is the way in; it works once)")
    return True


def _tell(plan: DemoPlan, account: Account, decision: Decision) -> None:
    if decision.reported == 0:
        return  # before the sensors were up
    account.decisions.append(decision)
    if len(account.decisions) > _SHOWN:
        return
    truth = account.truths.get(decision.round)
    known = "" if truth is None else f" (truth: {truth})"
    plan.say(
        f"  round {decision.round}: {decision.reported} of {decision.expected} sensors -> "
        f"{decision.decision}, probability {max(decision.probabilities):.2f}{known}"
    )
    if len(account.decisions) == _SHOWN:
        plan.say("  ... and so on")


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_serve(int(sys.argv[1])))
