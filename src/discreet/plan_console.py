"""What ``discreet plan`` says: about how many rows or groups a limit needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.auditing.certificates import percent
from discreet.auditing.needed import rounded
from discreet.auditing.planning import Plan, Planned, planned, sketch_tables
from discreet.console import plain_print
from discreet.errors import InputError
from discreet.mapping import Mapping

_TIMES = (2.0, 1.0, 0.5)  # limits in the table, in units of the one asked for
IN_GROUPS = ", and rows of a group that have half of their variance in common"
IMAGINED = "sensors that are independent of one another and codes that are equally frequent"


@dataclass(frozen=True)
class PlanTask:
    """What is to be certified, of which sensors.

    Attributes
    ----------
    limit : float
        On the advantage of any attacker.
    mapping : Path or None
        Whose tables are meant; without one the sensors are sketched.
    sensors, symbols, noise
        The sketch: alike sensors, and how often a symbol is not that of the code.
    classes, facts : int or None
        Of the private fact, and how many facts are guarded; a mapping knows them.
    share : float or None
        Of the rarest private class. [default: all alike]
    """

    limit: float
    mapping: Path | None = None
    sensors: int | None = None
    symbols: int | None = None
    noise: float | None = None
    classes: int | None = None
    facts: int | None = None
    share: float | None = None
    leak: float = 0.0
    group_size: int = 0
    confidence: float = 0.95
    as_json: bool = False


def run_plan(task: PlanTask) -> list[Planned]:
    """Plan for the limit, twice and half of it, and print that.

    Raises
    ------
    InputError
        With what to do.
    """
    plan = make_plan(task)
    found = [planned(plan, limit) for limit in _limits(task, plan)]
    if task.as_json:
        plain_print(json.dumps(as_dict(task, plan, found), indent=2))
    else:
        for line in describe(task, plan, found):
            plain_print(line)
    return found


def make_plan(task: PlanTask) -> Plan:
    """Return what to imagine, from a mapping or a sketch."""
    tables, classes, facts = _sketch(task) if task.mapping is None else _of_mapping(task)
    share = 1.0 / classes if task.share is None else task.share
    if share > 1.0 / classes:
        raise InputError(
            f"--share must be at most 1/{classes}, the rarest of {classes} classes, got {share:g}."
        )
    if task.limit >= 1.0 - 1.0 / classes:
        raise InputError(
            f"--max-advantage {task.limit:g} always holds: with {classes} classes no attacker "
            f"beats guessing by more than {1.0 - 1.0 / classes:g}."
        )
    rest = (1.0 - share) / (classes - 1)
    return Plan(
        tables=tables,
        shares=(share, *(rest,) * (classes - 1)),
        alpha=(1.0 - task.confidence) / facts,
        leak=task.leak,
        group_size=task.group_size,
    )


def _of_mapping(task: PlanTask) -> tuple[tuple[Any, ...], int, int]:
    for option in ("sensors", "symbols", "noise", "classes", "facts"):
        if getattr(task, option) is not None:
            raise InputError(
                f"--{option} was given together with {task.mapping}, which knows it. Give one "
                "or the other."
            )
    assert task.mapping is not None
    mapping = Mapping.load(task.mapping)
    if not mapping.private:
        raise InputError(f"{task.mapping} guards no private fact, so that nothing is certified.")
    classes = max(len(fact.classes) for fact in mapping.private)
    return tuple(mapping.tables), classes, len(mapping.private)


def _sketch(task: PlanTask) -> tuple[tuple[Any, ...], int, int]:
    if task.sensors is None:
        raise InputError("name a mapping file, or sketch the sensors by --sensors N.")
    symbols = 2 if task.symbols is None else task.symbols
    noise = 0.1 if task.noise is None else task.noise
    if noise > 1.0 - 1.0 / symbols:
        raise InputError(
            f"--noise must be at most {1.0 - 1.0 / symbols:.3g}, where {symbols} symbols tell "
            f"nothing any more, got {noise:g}."
        )
    return sketch_tables(task.sensors, symbols, noise), task.classes or 2, task.facts or 1


def _limits(task: PlanTask, plan: Plan) -> list[float]:
    most = 1.0 - 1.0 / len(plan.shares)
    return [task.limit * times for times in _TIMES if task.limit * times < most]


# --- Words -----------------------------------------------------------------------------------


def describe(task: PlanTask, plan: Plan, found: list[Planned]) -> list[str]:
    """Return the table and one sentence."""
    unit = "groups" if task.group_size else "rows"
    lines = [f"{'limit':>7}{unit:>16}  with the rarest class"]
    for each in found:
        if each.count is None or each.rarest is None:
            lines.append(f"{each.limit:7.3g}{'no number':>16}")
        else:
            lines.append(f"{each.limit:7.3g}{rounded(each.count):>16}  {rounded(each.rarest)}")
    return [*lines, sentence(task, next(e for e in found if e.limit == task.limit))]


def sentence(task: PlanTask, asked: Planned) -> str:
    """Return what the plan says of the limit that was asked for."""
    unit = f"groups of {task.group_size} rows" if task.group_size else "rows"
    imagined = IMAGINED + (IN_GROUPS if task.group_size else "")
    leak = f"if {task.leak:g} leaks" if task.leak else "if nothing leaks"
    limit = f"that no attacker beats guessing by more than {100 * task.limit:.3g} points"
    if asked.count is None:
        return (
            f"No number of {unit} that an audit can use certifies {limit} {leak}; imagined are "
            f"{imagined}."
        )
    return (
        f"About {rounded(asked.count)} {unit} certify {limit}, at confidence "
        f"{percent(task.confidence)}, {leak}; imagined are {imagined}."
    )


def as_dict(task: PlanTask, plan: Plan, found: list[Planned]) -> dict[str, Any]:
    """Return the plan for JSON; ``count`` is null where no number does."""
    return {
        "unit": "group" if task.group_size else "row",
        "confidence": task.confidence,
        "alpha": plan.alpha,
        "leak": task.leak,
        "shares": list(plan.shares),
        "group_size": task.group_size or None,
        "outputs_listed": plan.listable,
        "imagined": IMAGINED + (IN_GROUPS if task.group_size else ""),
        "plans": [
            {"limit": each.limit, "count": each.count, "rarest": each.rarest} for each in found
        ],
    }
