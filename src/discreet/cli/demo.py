"""``discreet demo``: the main job end to end on made-up data, no hardware needed.

The home is made up in ``made_up_home``; the figures printed for the mapping are exact for it.
Then the home is lived in for a while: its sensors send over a real broker to a fusion
centre, and a dashboard shows what is decided.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.audit import AuditTask, audit_files, for_json
from discreet.cli.frontier import Job, run_frontier
from discreet.cli.learn import run_learn
from discreet.cli.options import flag, is_seed, option
from discreet.cli.terminal import interruptible, plain_print, print_lines
from discreet.errors import InputError
from discreet.files import write_whole
from discreet.rounding import up

if TYPE_CHECKING:
    import pandas as pd

    from discreet.learning import Learned
    from discreet.mapping.mapping import Mapping
    from discreet.network.demo import Account
    from discreet.task import Task

_SECONDS = 8.0
_ROWS = 1500
_LIMIT = 0.15  # of the attacker's advantage; what 450 held-out rows can certify
_EPSILON = 2.9  # of one release, C1: a device can count a day of them, at most 4,294 nats
_DAY = 1440  # rounds
_BUDGET = 4180.0  # a day's, and no more
_RATIOS = [0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999]


def demo(
    folder: Annotated[
        Path, option("FOLDER", "Where everything goes that the demo makes.", name="--out")
    ] = Path("discreet-demo"),
    seed: Annotated[int, option("N", "Seed of the rows.", is_seed)] = 0,
    seconds: Annotated[
        float | None,
        option(
            "SECONDS",
            "How long the network runs once it is up; 0 leaves it out. [default: 8]",
            name="--for",
            min=0,
            max=86_400,
        ),
    ] = None,
    keep: Annotated[
        bool, flag("--keep", "Leave the network up until Ctrl-C, to look around.")
    ] = False,
) -> None:
    """Learn from a made-up home, audit it, and run it as a network.

    No hardware and no data are needed; it takes less than a minute. The network has a
    broker, four sensors, the fusion centre and a dashboard to look at.

    Example:

        discreet demo --out my-home

    To look around, until Ctrl-C:

        discreet demo --keep
    """
    if keep and seconds is not None:
        raise InputError(f"--keep was given together with --for {seconds:g}. Give one of them.")
    with interruptible("stopped."):
        run_demo(folder, seed, None if keep else _SECONDS if seconds is None else seconds)


def run_demo(folder: Path, seed: int, seconds: float | None = 0.0) -> Learned:
    """Make the table, learn from it, show what symbols and readings tell, and run the network.

    ``folder``: where ``home.csv`` and ``home.json`` go; made if it is not there. ``seed``: seed of
    the made-up rows and of the learning. ``seconds``: how long the network runs once it is up; 0
    leaves it out, None is until it is stopped. Raises InputError: if the folder cannot be used, or
    holds a ``home.csv`` or ``home.json`` of somebody else.
    """
    from discreet.cli.made_up_home import make_home
    from discreet.mapping.mapping import Mapping
    from discreet.task import Task, make_split

    table, out = folder / "home.csv", folder / "home.json"
    missing = _missing_parts() if seconds != 0.0 else ""
    if seconds != 0.0 and not missing:
        from discreet.network.demo import check_room

        check_room(folder / "network")  # before the work
    _write_table(table, make_home(_ROWS, seed))
    plain_print(f"A made-up home, {_ROWS} rows. To be inferred: did somebody fall. Not: who.")
    command = ["discreet", "learn", str(table), "--public", "fall", "--private", "who"]
    command += ["--ldp-epsilon", str(_EPSILON)]
    command += ["--seed", str(seed)] * (seed != 0) + ["--out", str(out)]
    plain_print(f"$ {shlex.join(command)}")
    split = make_split(0.3, seed, None)
    task = Task(table, "fall", ["who"], split=split, options={"random_state": seed})
    learned, *_ = run_learn(replace(task, options={**task.options, "ldp_epsilon": _EPSILON}), out)
    mapping = Mapping.load(out)
    plain_print()
    _show_figures(mapping)
    _show_sending(mapping, learned.held_out)
    _show_frontier(task, folder)
    _show_audit(folder, seed)
    if missing:
        plain_print()
        plain_print(f"The network is left out. It needs {missing}.")
    elif seconds != 0.0:
        _show_network(folder, seed, seconds)
    return learned


def _show_frontier(task: Task, folder: Path) -> None:
    """Draw what other levels of privacy would cost, for the report."""
    from discreet.frontiers.results import Frontier
    from discreet.frontiers.study import plan

    plain_print()
    out = folder / "frontier.json"
    command = ["discreet", "frontier", str(task.table), "--public", "fall", "--private", "who"]
    command += ["--seed", str(task.split.seed)] * (task.split.seed != 0) + ["--out", str(out)]
    plain_print(f"$ {shlex.join(command)}")
    run_frontier(Job(task, plan(["npo", "ndd"], _RATIOS, [2]), out, quiet=True))
    shown = Frontier.load(out)
    plain_print(f"{len(shown.points)} points from nothing protected to nearly nothing said")


def _show_audit(folder: Path, seed: int) -> None:
    """Say what can be promised, and write the page for whoever signs it."""
    from discreet.auditing.data import AuditOptions

    plain_print()
    page = folder / "report.html"
    task = AuditTask(
        folder / "home.json",
        [folder / "home.csv"],
        AuditOptions(max_advantage=_LIMIT, seed=seed),
        html=page,
        frontier=folder / "frontier.json",
    )
    command = ["discreet", "audit", str(task.mapping), str(task.tables[0])]
    command += ["--max-advantage", str(_LIMIT), "--frontier", str(task.frontier)]
    command += ["--seed", str(seed)] * (seed != 0) + ["--html", str(page)]
    plain_print(f"$ {shlex.join(command)}")
    found = audit_files(task)
    write_whole(folder / "audit.json", json.dumps(for_json(found, page), indent=1) + "\n")
    plain_print(found.verdict)
    plain_print(f"The whole account, to read in a browser: {page}")


# --- The network ---------------------------------------------------------------------------


def _missing_parts() -> str:
    """Return what is not installed and how to have it; empty if all is there."""
    from discreet.network import missing_packages
    from discreet.network.broker import find_mosquitto

    missing = missing_packages()
    if missing:
        return f'{", ".join(missing)} (pip install "discreet[demo]")'
    if find_mosquitto() is None and find_spec("amqtt") is None:
        return (
            "a broker: Mosquitto 2 (Debian: apt install mosquitto), or another "
            '(pip install "discreet[demo]")'
        )
    return ""


def _show_network(folder: Path, seed: int, seconds: float | None) -> None:
    """Run site, broker, sensors, fusion centre and dashboard, and leave an account."""
    from discreet.cli.made_up_home import SENSORS, moments_of
    from discreet.export.lasting import lasting
    from discreet.export.neutral import Policy, neutral_form
    from discreet.mapping.mapping import Mapping
    from discreet.network.demo import DemoPlan, run_network

    plain_print()
    moments = moments_of(seed)
    policy = Policy(budget=_BUDGET, repeat="never")
    plain_print(
        "Now the home is lived in. A round takes a second and stands for a minute; then what is "
        "promised is:"
    )
    span = lasting(neutral_form(Mapping.load(folder / "home.json"), policy), 60.0)
    print_lines(f"  {line}" for line in span.lines())
    account = run_network(
        DemoPlan(
            folder=folder / "network",
            mapping=folder / "home.json",
            audit=folder / "audit.json",
            frontier=folder / "frontier.json",
            sensors=SENSORS,
            policy=policy,
            draw=lambda: next(moments),
            seconds=seconds,
            say=plain_print,
        )
    )
    page = folder / "network.md"
    lines = _account(account)
    write_whole(page, "\n".join(["# The demo's network", "", *(f"- {line}" for line in lines), ""]))
    print_lines([*lines, f"Kept in {page}; site, devices and logs in {folder / 'network'}"])


def _account(account: Account) -> list[str]:
    """Return what came of the network, in lines."""
    complete = account.complete
    lines = [
        f"broker: {account.broker}",
        f"{account.messages} messages stored and acknowledged, {account.refused} refused",
        f"{len(account.decisions)} rounds decided, {len(complete)} of them with every sensor",
        f"spent: at most {up(account.spent / 1e6, 2):.2f} of the {_BUDGET:g} nats (C1) of each "
        "sensor",
    ]
    if complete:
        share = account.right / len(complete)
        lines.append(f"of those {account.right} are right ({share:.0%}); nobody sent a reading")
    return lines


# --- Files and figures ---------------------------------------------------------------------


def _write_table(file: Path, home: pd.DataFrame) -> None:
    """Write the made-up table, but over none that may be somebody's own."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_suffix(".json")
        taken = next((each for each in (file, beside) if each.exists()), None)
        # A mapping beside a table of the demo is the demo's too; one by itself is not.
        if taken is not None and not (taken == file and _is_made_up(file, home)):
            raise InputError(
                f"{taken} is there already and is not from the demo. Choose another folder: --out."
            )
        home.to_csv(file, index=False)
    except OSError as error:
        raise InputError(
            f"{file.parent}: the demo cannot write there ({error.strerror or error}). "
            "Choose another folder: --out."
        ) from None


def _is_made_up(file: Path, home: pd.DataFrame) -> bool:
    header = ",".join(home.columns).encode()
    with file.open("rb") as stream:
        return stream.readline(len(header) + 2).strip() == header


def _show_figures(mapping: Mapping) -> None:
    from discreet.cli.made_up_home import STAY, error_over, errors, exact_outputs, odds_factor

    raw, sent = errors(exact_outputs(None)), errors(exact_outputs(mapping))
    print_lines(
        [
            "The error of the best possible rule for one report of every sensor, exact for this",
            "home (0.5 is guessing):",
            f"{'':28}{'did somebody fall':>18}{'who is it':>12}",
            f"{'from the raw readings':28}{raw[0]:18.3f}{raw[1]:12.3f}",
            f"{'from the symbols sent':28}{sent[0]:18.3f}{sent[1]:12.3f}",
            "Whatever the symbols of one report, they change the odds of Ada against Ben by a "
            f"factor of at most {up(odds_factor(exact_outputs(mapping)), 2):.2f};",
            "raw readings can make it certain.",
            f"Whoever sees a day of {_DAY:,} reports errs about who is there in one of them with "
            f"{error_over(_DAY, mapping):.3f},",
            f"if the resident stays with probability {STAY:g} from report to report, and reports "
            "have nothing",
            "else in common: so it is in this home; `discreet budget` computes it for others.",
        ]
    )


def _show_sending(mapping: Mapping, held_out: pd.DataFrame) -> None:
    from discreet.cli.made_up_home import SENSORS

    sent = mapping.transform(held_out)
    answers = mapping.fuse(sent)
    plain_print()
    plain_print(f"Four of the {len(held_out)} held-out rows, as the sensors would send them:")
    for i in range(4):
        row = held_out.iloc[i]
        readings = " ".join(str(row[name]) for name in SENSORS)
        symbols = " ".join(map(str, sent[i]))
        answer, truth = ("fall" if each else "no fall" for each in (answers[i], row["fall"]))
        plain_print(f"  readings {readings}  ->  symbols {symbols}  ->  {answer} (truth: {truth})")
    right = float((answers == held_out["fall"].to_numpy()).mean())
    plain_print(f"Over all held-out rows {right:.1%} of the answers are right.")
