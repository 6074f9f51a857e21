"""``discreet plan``: about how many rows or groups a limit needs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from discreet.cli.options import (
    MOST_SYMBOLS,
    Json,
    PointConfidence,
    argument,
    from_to,
    is_count,
    is_part,
    is_share,
    option,
)
from discreet.cli.terminal import interruptible, print_json, print_lines
from discreet.errors import InputError

if TYPE_CHECKING:
    from discreet.auditing.bounds.rows_needed import Plan, Planned

_TIMES = (2.0, 1.0, 0.5)  # limits in the table, in units of the one asked for
IN_GROUPS = ", and rows of a group that have half of their variance in common"
IMAGINED = "sensors that are independent of one another and codes that are equally frequent"


def plan(
    max_advantage: Annotated[
        float, option("A", "Limit on how far any attacker may beat guessing.", is_share)
    ],
    mapping: Annotated[
        Path | None, argument("MAPPING", "Mapping file whose tables are meant.")
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
        option("P", "Share of the rarest private class. [default: all equal]", is_share),
    ] = None,
    leak: Annotated[float, option("A", "True advantage of the best attacker.", is_part)] = 0.0,
    group_size: Annotated[
        int | None, option("N", "Rows of a group: days or homes are counted, not rows.", is_count)
    ] = None,
    confidence: PointConfidence = 0.95,
    as_json: Json = False,
) -> None:
    """Estimate how many rows an audit needs to certify a limit, before they are collected.

    Sensors are assumed independent, with equally frequent readings. After an audit, its
    own figure is better.

    Example:

        discreet plan home.json --max-advantage 0.05

    Before there is a mapping, for five sensors that send the wrong bit once in ten times:

        discreet plan --sensors 5 --noise 0.1 --max-advantage 0.05

    In days of 1,440 rows, one row in ten of the rarer class:

        discreet plan m.json --max-advantage 0.1 --group-size 1440 --share 0.1
    """
    sketch = {
        "sensors": sensors, "symbols": symbols, "noise": noise, "classes": classes, "facts": facts
    }  # fmt: skip
    with interruptible("stopped."):
        from discreet.auditing.bounds.rows_needed import Plan, planned

        tables, n_classes, n_facts = (
            _sketch(sketch) if mapping is None else _of_mapping(mapping, sketch)
        )
        shares, most = _shares(share, n_classes), 1.0 - 1.0 / n_classes
        if max_advantage >= most:
            raise InputError(
                f"--max-advantage {max_advantage:g} always holds: with {n_classes} classes no "
                f"attacker beats guessing by more than {most:g}."
            )
        made = Plan(
            tables=tables,
            shares=shares,
            alpha=(1.0 - confidence) / n_facts,
            leak=leak,
            group_size=group_size or 0,
        )
        limits = [max_advantage * times for times in _TIMES if max_advantage * times < most]
        found = [planned(made, limit) for limit in limits]
        if as_json:
            print_json(as_dict(made, found, confidence))
        else:
            asked = next(each for each in found if each.limit == max_advantage)
            print_lines([*describe(made, found), sentence(made, asked, confidence)])


def _shares(share: float | None, classes: int) -> tuple[float, ...]:
    """Return how frequent the classes are, the rarest first and the others alike."""
    share = 1.0 / classes if share is None else share
    if share > 1.0 / classes:
        raise InputError(
            f"--share must be at most 1/{classes}, the rarest of {classes} classes, got {share:g}."
        )
    return share, *((1.0 - share) / (classes - 1),) * (classes - 1)


def _of_mapping(file: Path, sketch: dict[str, Any]) -> tuple[tuple[Any, ...], int, int]:
    """Return a mapping's tables, classes of the private fact, and how many facts there are."""
    from discreet.mapping.mapping import Mapping

    for name, value in sketch.items():
        if value is not None:
            raise InputError(
                f"--{name} was given together with {file}, which knows it. Give one or the other."
            )
    mapping = Mapping.load(file)
    if not mapping.private:
        raise InputError(f"{file} guards no private fact, so that nothing is certified.")
    classes = max(len(fact.classes) for fact in mapping.private)
    return tuple(mapping.tables), classes, len(mapping.private)


def _sketch(sketch: dict[str, Any]) -> tuple[tuple[Any, ...], int, int]:
    """Return the same for sensors that are alike and send a wrong symbol now and then."""
    from discreet.auditing.bounds.rows_needed import sketch_tables

    if sketch["sensors"] is None:
        raise InputError("name a mapping file, or sketch the sensors by --sensors N.")
    symbols = 2 if sketch["symbols"] is None else sketch["symbols"]
    noise = 0.1 if sketch["noise"] is None else sketch["noise"]
    if noise > 1.0 - 1.0 / symbols:
        raise InputError(
            f"--noise must be at most {1.0 - 1.0 / symbols:.3g}, where {symbols} symbols tell "
            f"nothing any more, got {noise:g}."
        )
    tables = sketch_tables(sketch["sensors"], symbols, noise)
    return tables, sketch["classes"] or 2, sketch["facts"] or 1


# --- Words -----------------------------------------------------------------------------------


def describe(made: Plan, found: list[Planned]) -> list[str]:
    """Return the table, line by line."""
    from discreet.auditing.bounds.rows_needed import rounded

    unit = "groups" if made.group_size else "rows"
    lines = [f"{'limit':>7}{unit:>16}  with the rarest class"]
    for each in found:
        if each.count is None or each.rarest is None:
            lines.append(f"{each.limit:7.3g}{'no number':>16}")
        else:
            lines.append(f"{each.limit:7.3g}{rounded(each.count):>16}  {rounded(each.rarest)}")
    return lines


def sentence(made: Plan, asked: Planned, confidence: float) -> str:
    """Return what the plan says of the limit that was asked for."""
    from discreet.auditing.bounds.certificates import percent
    from discreet.auditing.bounds.rows_needed import rounded

    unit = f"groups of {made.group_size} rows" if made.group_size else "rows"
    imagined = IMAGINED + (IN_GROUPS if made.group_size else "")
    leak = f"if {made.leak:g} leaks" if made.leak else "if nothing leaks"
    limit = f"that no attacker beats guessing by more than {100 * asked.limit:.3g} points"
    if asked.count is None:
        return (
            f"No number of {unit} that an audit can use certifies {limit} {leak}; imagined are "
            f"{imagined}."
        )
    return (
        f"About {rounded(asked.count)} {unit} certify {limit}, at confidence "
        f"{percent(confidence)}, {leak}; imagined are {imagined}."
    )


def as_dict(made: Plan, found: list[Planned], confidence: float) -> dict[str, Any]:
    """Return the plan for JSON; ``count`` is null where no number does."""
    return {
        "unit": "group" if made.group_size else "row",
        "confidence": confidence,
        "alpha": made.alpha,
        "leak": made.leak,
        "shares": list(made.shares),
        "group_size": made.group_size or None,
        "outputs_listed": made.listable,
        "imagined": IMAGINED + (IN_GROUPS if made.group_size else ""),
        "plans": [asdict(each) for each in found],
    }
