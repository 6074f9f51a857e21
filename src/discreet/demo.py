"""``discreet demo``: the main job end to end on made-up data, no hardware needed.

A small home has four sensors. The care service should learn whether somebody has
fallen; it should not learn which of the two residents it is. Rows are drawn from a
known distribution, so the figures printed for the mapping are exact for this home.
Then the home is lived in for a while: its sensors send over a real broker to a fusion
centre, and a dashboard shows what is decided.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.audit_console import AuditTask, audit_files
from discreet.auditing.audit import AuditOptions
from discreet.console import plain_print, run_learn
from discreet.errors import InputError
from discreet.exact import bayes_error
from discreet.frontier_console import Job, run_frontier
from discreet.learning import Learned, Task, make_split
from discreet.mapping import Mapping
from discreet.mapping_file import write_file
from discreet.outputs import output_probabilities
from discreet.tradeoff.results import Frontier
from discreet.tradeoff.study import plan
from discreet.values import written

if TYPE_CHECKING:
    from discreet.network.demo.running import Account

Floats = NDArray[np.float64]

SENSORS = ("floor_vibration", "hall_motion", "bed_pressure", "door_light")
RESIDENTS = ("Ada", "Ben")
_ROWS = 1500
_LIMIT = 0.15  # of the attacker's advantage; what 450 held-out rows can certify
_RATIOS = [0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999]
# Level of each sensor for (fall, resident); a reading is the level -1, 0 or +1.
_LEVELS = {(False, "Ada"): 2, (False, "Ben"): 4, (True, "Ada"): 6, (True, "Ben"): 8}


def make_home(n_rows: int, seed: int) -> pd.DataFrame:
    """Draw rows of the made-up home."""
    rng = np.random.default_rng(seed)
    fall = rng.random(n_rows) < 0.5
    who = np.array(RESIDENTS)[rng.integers(2, size=n_rows)]
    level = np.array([_LEVELS[bool(f), str(w)] for f, w in zip(fall, who, strict=True)])
    table = {name: level + rng.integers(-1, 2, n_rows) for name in SENSORS}
    return pd.DataFrame(table | {"fall": fall, "who": who})


def exact_outputs(mapping: Mapping | None) -> dict[tuple[bool, str], Floats]:
    """Return p(output | fall, resident), exactly; of the raw readings for no mapping."""
    found = {}
    for key, level in _LEVELS.items():
        readings = np.array(np.meshgrid(*[[level - 1, level, level + 1]] * len(SENSORS)))
        rows = readings.reshape(len(SENSORS), -1).T
        if mapping is None:
            cells = np.ravel_multi_index(tuple(rows.T), (10,) * len(SENSORS))
            found[key] = np.bincount(cells, minlength=10 ** len(SENSORS)) / len(rows)
        else:
            codes = mapping.encode(pd.DataFrame(rows, columns=list(SENSORS)))
            found[key] = output_probabilities(mapping.tables, codes).mean(axis=0)
    return found


def run_demo(folder: Path, seed: int, seconds: float | None = 0.0) -> Learned:
    """Make the table, learn from it, show what symbols and readings tell, and run the network.

    Parameters
    ----------
    folder : Path
        Where ``home.csv`` and ``home.json`` go; made if it is not there.
    seed : int
        Seed of the made-up rows and of the learning.
    seconds : float, optional
        How long the network runs once it is up; 0 leaves it out, None is until it is stopped.

    Raises
    ------
    InputError
        If the folder cannot be used, or holds a ``home.csv`` or ``home.json`` of somebody else.
    """
    table, out = folder / "home.csv", folder / "home.json"
    missing = _check_network(folder) if seconds != 0.0 else ""
    _write_table(table, make_home(_ROWS, seed))
    plain_print(f"A made-up home, {_ROWS} rows. To be inferred: did somebody fall. Not: who.")
    command = ["discreet", "learn", str(table), "--public", "fall", "--private", "who"]
    command += ["--seed", str(seed)] * (seed != 0) + ["--out", str(out)]
    plain_print(f"$ {shlex.join(command)}")
    split = make_split(0.3, seed, None)
    task = Task(table, "fall", ["who"], split=split, options={"random_state": seed})
    learned = run_learn(task, out)
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
    plain_print()
    page = folder / "report.html"
    task = AuditTask(
        folder / "home.json",
        folder / "home.csv",
        options=AuditOptions(max_advantage=_LIMIT, seed=seed),
        html=page,
        frontier=folder / "frontier.json",
    )
    command = ["discreet", "audit", str(task.mapping), str(task.table)]
    command += ["--max-advantage", str(_LIMIT), "--frontier", str(task.frontier)]
    command += ["--seed", str(seed)] * (seed != 0) + ["--html", str(page)]
    plain_print(f"$ {shlex.join(command)}")
    found = audit_files(task)
    write_file(folder / "audit.json", json.dumps(found.to_dict(), indent=1) + "\n")
    plain_print(found.verdict)
    plain_print(f"The whole account, to read in a browser: {page}")


# --- The network ---------------------------------------------------------------------------


def _check_network(folder: Path) -> str:
    """Return what the network lacks; refuse, before the work, a folder that it cannot use."""
    from discreet.network.demo.parts import missing_parts

    missing = missing_parts()
    if not missing:
        from discreet.network.demo.running import check_room

        check_room(folder / "network")
    return missing


def _show_network(folder: Path, seed: int, seconds: float | None) -> None:
    """Run site, broker, sensors, fusion centre and dashboard, and leave an account."""
    from discreet.network.demo.running import DemoPlan, run_network

    plain_print()
    moments = _moments(seed)
    plain_print("Now the home is lived in, a round every second:")
    account = run_network(
        DemoPlan(
            folder=folder / "network",
            mapping=folder / "home.json",
            audit=folder / "audit.json",
            frontier=folder / "frontier.json",
            sensors=SENSORS,
            draw=lambda: next(moments),
            seconds=seconds,
            say=lambda line: plain_print(line),
        )
    )
    page = folder / "network.md"
    lines = _account(account)
    write_file(page, "\n".join(["# The demo's network", "", *(f"- {line}" for line in lines), ""]))
    for line in lines:
        plain_print(line)
    plain_print(f"Kept in {page}; site, devices and logs in {folder / 'network'}")


def _moments(seed: int) -> Iterator[tuple[dict[str, int], str]]:
    """Yield the readings of one moment of the home after the other, and whether somebody fell."""
    for number in count(1):
        home = make_home(1000, (seed + number) % 2**32)
        for row in home.to_dict("records"):
            yield {name: int(row[name]) for name in SENSORS}, written(bool(row["fall"]))


def _account(account: Account) -> list[str]:
    """Return what came of the network, in lines."""
    complete = account.complete
    lines = [
        f"broker: {account.broker}",
        f"{account.messages} messages stored and acknowledged, {account.refused} refused",
        f"{len(account.decisions)} rounds decided, {len(complete)} of them with every sensor",
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
    plain_print("The error of the best possible rule, exact for this home (0.5 is guessing):")
    plain_print(f"{'':28}{'did somebody fall':>18}{'who is it':>12}")
    raw, sent = _errors(exact_outputs(None)), _errors(exact_outputs(mapping))
    plain_print(f"{'from the raw readings':28}{raw[0]:18.3f}{raw[1]:12.3f}")
    plain_print(f"{'from the symbols sent':28}{sent[0]:18.3f}{sent[1]:12.3f}")
    plain_print(
        f"Whatever the symbols, they change the odds of Ada against Ben by a factor of at most "
        f"{_odds_factor(exact_outputs(mapping)):.2f};"
    )
    plain_print("raw readings can make it certain.")


def _by_resident(outputs: dict[tuple[bool, str], Floats]) -> Floats:
    return np.array([(outputs[False, who] + outputs[True, who]) / 2 for who in RESIDENTS])


def _errors(outputs: dict[tuple[bool, str], Floats]) -> tuple[float, float]:
    """Return the least error about the fall and about the resident."""
    by_fall = np.array([sum(outputs[fall, who] for who in RESIDENTS) / 2 for fall in (False, True)])
    half = np.array([0.5, 0.5])
    return bayes_error(by_fall, half), bayes_error(_by_resident(outputs), half)


def _odds_factor(outputs: dict[tuple[bool, str], Floats]) -> float:
    ada, ben = _by_resident(outputs)
    return float(np.exp(np.abs(np.log(ada) - np.log(ben)).max()))


def _show_sending(mapping: Mapping, held_out: pd.DataFrame) -> None:
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
