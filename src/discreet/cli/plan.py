"""``discreet plan``: about how many rows or groups a limit needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.options import (
    MOST_SYMBOLS,
    Json,
    PointConfidence,
    from_to,
    is_count,
    is_part,
    is_share,
    option,
)
from discreet.cli.terminal import interruptible, plain_print
from discreet.errors import InputError

if TYPE_CHECKING:
    from discreet.auditing.bounds.planning import Plan, Planned

_TIMES = (2.0, 1.0, 0.5)  # limits in the table, in units of the one asked for
IN_GROUPS = ", and rows of a group that have half of their variance in common"
IMAGINED = "sensors that are independent of one another and codes that are equally frequent"


def plan(
    max_advantage: Annotated[
        float, option("A", "Limit on how far any attacker may beat guessing.", is_share)
    ],
    mapping: Annotated[
        Path | None, typer.Argument(metavar="MAPPING", help="Mapping file whose tables are meant.")
    ] = None,
    sensors: Annotated[
        int | None, option("N", "Sensors, without a mapping.", from_to(1, 1000))
    ] = None,
    symbols: Annotated[
        int | None, option("N", "Symbols of each. [default: 2]", from_to(2, MOST_SYMBOLS))
    ] = None,
    noise: Annotated[
        float | None,
        option("P", "Chance that a symbol is not that of the reading. [default: 0.1]", is_part),
    ] = None,
    classes: Annotated[
        int | None, option("N", "Classes of the private fact. [default: 2]", from_to(2, 1000))
    ] = None,
    facts: Annotated[
        int | None, option("N", "Private facts that share the error. [default: 1]", is_count)
    ] = None,
    share: Annotated[
        float | None,
        option("P", "Share of the rarest private class. [default: all alike]", is_share),
    ] = None,
    leak: Annotated[float, option("A", "True advantage of the best attacker.", is_part)] = 0.0,
    group_size: Annotated[
        int | None, option("N", "Rows of a group: days or homes are counted, not rows.", is_count)
    ] = None,
    confidence: PointConfidence = 0.95,
    as_json: Json = False,
) -> None:
    """Say about how many rows an audit needs to certify a limit, before they are collected.

    Sensors are imagined independent, with readings that are equally frequent. After an
    audit, what it says of its own rows is better.

    Example:

        discreet plan home.json --max-advantage 0.05

    Before there is a mapping, for five sensors that send the wrong bit once in ten times:

        discreet plan --sensors 5 --noise 0.1 --max-advantage 0.05

    In days of 1,440 rows, one row in ten of the rarer class:

        discreet plan m.json --max-advantage 0.1 --group-size 1440 --share 0.1
    """
    task = PlanTask(
        max_advantage, mapping, sensors, symbols, noise, classes, facts, share, leak,
        group_size or 0, confidence,
    )  # fmt: skip
    with interruptible("stopped."):
        from discreet.auditing.bounds.planning import planned

        made = _make_plan(task)
        found = [planned(made, limit) for limit in _limits(task, made)]
        if as_json:
            plain_print(json.dumps(as_dict(task, made, found), indent=2))
        else:
            for line in describe(task, found):
                plain_print(line)


@dataclass(frozen=True)
class PlanTask:
    """What is to be certified, of which sensors.

    ``limit``: on the advantage of any attacker. ``mapping``: whose tables are meant; without one
    the sensors are sketched. ``sensors``, ``symbols``, ``noise``: the sketch: alike sensors, and
    how often a symbol is not that of the code. ``classes``, ``facts``: of the private fact, and how
    many facts are guarded; a mapping knows them. ``share``: of the rarest private class. [default:
    all alike].
    """

    limit: float
    mapping: Path | None
    sensors: int | None
    symbols: int | None
    noise: float | None
    classes: int | None
    facts: int | None
    share: float | None
    leak: float
    group_size: int
    confidence: float


def _make_plan(task: PlanTask) -> Plan:
    """Return what to imagine, from a mapping or a sketch."""
    from discreet.auditing.bounds.planning import Plan

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
    from discreet.mapping.mapping import Mapping

    for name in ("sensors", "symbols", "noise", "classes", "facts"):
        if getattr(task, name) is not None:
            raise InputError(
                f"--{name} was given together with {task.mapping}, which knows it. Give one "
                "or the other."
            )
    assert task.mapping is not None
    mapping = Mapping.load(task.mapping)
    if not mapping.private:
        raise InputError(f"{task.mapping} guards no private fact, so that nothing is certified.")
    classes = max(len(fact.classes) for fact in mapping.private)
    return tuple(mapping.tables), classes, len(mapping.private)


def _sketch(task: PlanTask) -> tuple[tuple[Any, ...], int, int]:
    from discreet.auditing.bounds.planning import sketch_tables

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


def _limits(task: PlanTask, made: Plan) -> list[float]:
    most = 1.0 - 1.0 / len(made.shares)
    return [task.limit * times for times in _TIMES if task.limit * times < most]


# --- Words -----------------------------------------------------------------------------------


def describe(task: PlanTask, found: list[Planned]) -> list[str]:
    """Return the table and one sentence."""
    from discreet.auditing.bounds.needed import rounded

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
    from discreet.auditing.bounds.certificates import percent
    from discreet.auditing.bounds.needed import rounded

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


def as_dict(task: PlanTask, made: Plan, found: list[Planned]) -> dict[str, Any]:
    """Return the plan for JSON; ``count`` is null where no number does."""
    return {
        "unit": "group" if task.group_size else "row",
        "confidence": task.confidence,
        "alpha": made.alpha,
        "leak": task.leak,
        "shares": list(made.shares),
        "group_size": task.group_size or None,
        "outputs_listed": made.listable,
        "imagined": IMAGINED + (IN_GROUPS if task.group_size else ""),
        "plans": [
            {"limit": each.limit, "count": each.count, "rarest": each.rarest} for each in found
        ],
    }
