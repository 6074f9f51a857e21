"""``discreet diff``: what changed between two mappings, and on which rows it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from discreet.cli.options import AssumeIndependent, AuditGroup, Json, argument
from discreet.cli.terminal import interruptible, line_width, print_json, print_lines
from discreet.errors import shown
from discreet.layout import Column, table, table_rows
from discreet.rounding import gain, percent, up

if TYPE_CHECKING:
    from discreet.auditing.mapping_diff import (
        Change,
        EncoderDiff,
        FactDiff,
        FusionDiff,
        MappingDiff,
        RowsDiff,
        SensorDiff,
    )
    from discreet.mapping.mapping import Mapping

DIFFERENT = 1
_LISTED = 40
_ESTIMATES = "  estimates, which promise nothing; `discreet audit` certifies"
_USED = (
    "  noted as an audit of both: whoever chooses one of them by held-out rows has used these rows"
)
_NAMES_ONLY = (
    "same up to names of symbols: devices and fusion centre must all have the one or all the other"
)


def diff(
    before: Annotated[Path, argument("BEFORE", "Mapping file.")],
    after: Annotated[Path, argument("AFTER", "Mapping file to compare it with.")],
    tables: Annotated[
        list[Path] | None,
        argument(
            "[TABLE]...",
            "Labelled rows, to compare error and leak on those that neither learned from.",
        ),
    ] = None,
    group: AuditGroup = None,
    assume_independent: AssumeIndependent = False,
    as_json: Json = False,
) -> int:
    """Show what changed between two mappings: tables, facts, fusion rule, design.

    Tables are compared by total variation (TV), for codes that mean the same and whatever
    the symbols are called. With a table of labelled rows, error and leak on them are
    compared, too: estimates, which promise nothing.

    Exit code 0 if sensors, tables, facts and fusion rule are the same, 1 if something
    differs, 2 on wrong input. Settings of the design and the id do not count.

    Example:

        discreet diff old.json new.json

    With error and leak, on the rows that neither mapping learned from:

        discreet diff old.json new.json home.csv
    """
    with interruptible("stopped."):
        from discreet.auditing.mapping_diff import compare_mappings
        from discreet.auditing.table_rows import open_rows
        from discreet.mapping.mapping import Mapping

        mappings = Mapping.load(before), Mapping.load(after)
        found = compare_mappings(
            *mappings,
            open_rows(tables) if tables else None,
            group=group,
            assume_independent=assume_independent,
        )
        if found.measured is not None:
            _note(mappings, found.measured)
        if as_json:
            print_json(found.to_dict())
        else:
            print_lines(describe(found, (str(before), str(after))))
        return 0 if found.same else DIFFERENT


def _note(mappings: tuple[Mapping, Mapping], measured: RowsDiff) -> None:
    """Note that held-out rows were looked at for both, whichever of them they were held out of."""
    from discreet.auditing.data import AuditEntry, note_audit

    for mapping, held_out in zip(mappings, measured.held_out, strict=True):
        if mapping.design.source is not None and held_out:
            for each in dict.fromkeys(mappings):
                note_audit(AuditEntry.of(each, mapping.design.source, 0))


# --- In words --------------------------------------------------------------------------------


def describe(found: MappingDiff, names: tuple[str, str]) -> list[str]:
    """Return the account, line by line: the verdict first, then what differs, part by part."""
    lines = [_verdict(found)]
    if len(set(found.ids)) == 2:
        lines += [f"  {name}: {own[:19]}" for name, own in zip(names, found.ids, strict=True)]
    parts = [
        _sensor_lines(found),
        [_fact_line(each) for each in found.facts],
        list(_fusion_lines(found.fusion)),
        _change_lines("chain of the public fact", found.chain),
        _change_lines("design", found.design),
        _change_lines("expected by the methods on new rows, no certificate", found.expected),
        [] if found.measured is None else list(_measured_lines(found.measured, names)),
    ]
    for part in parts:
        lines += ["", *part] if part else []
    return lines


def _verdict(found: MappingDiff) -> str:
    if len(set(found.ids)) == 1:
        return f"the same mapping, {found.ids[0][:19]}"
    if found.same:
        return "same in all that devices and fusion centre use: sensors, tables, facts, fusion rule"
    if found.same_up_to_names:
        return _NAMES_ONLY
    return f"different: {', '.join(found.differs_in)}"


def _sensor_lines(found: MappingDiff) -> list[str]:
    lines = [f"sensor removed: {shown(name)}" for name in found.removed]
    lines += [f"sensor added: {shown(name)}" for name in found.added]
    lines += ["the sensors come in another order"] * found.reordered
    changed = [each for each in found.sensors if not each.same]
    if changed:
        lines += _table_of_sensors(changed[:_LISTED])
    if len(changed) > _LISTED:
        lines.append(f"  and {len(changed) - _LISTED} sensors more; --json has all of them")
    if found.epsilon[0] != found.epsilon[1]:
        lines.append(f"structural epsilon of all sensors: {_pair(found.epsilon, _epsilon)}")
    return lines


def _table_of_sensors(sensors: Sequence[SensorDiff]) -> list[str]:
    figures = ("codes", "symbols", "largest TV", "mean TV")
    columns = (
        Column("sensor", gap=0),
        *(Column(title, right=True, least=10) for title in figures),
        Column("structural epsilon"),
    )
    rows = [
        (
            shown(each.name),
            _pair(each.encoder.codes),
            _pair(each.symbols),
            _distance(each.largest),
            _distance(each.mean),
            _pair(each.epsilon, _epsilon),
        )
        for each in sensors
    ]
    lines = list(table_rows(columns, rows, line_width()))
    for each, own in zip(sensors, lines[1:], strict=True):
        own += [f"  {note}" for note in _notes(each)]
    return [line for own in lines for line in own]


def _notes(sensor: SensorDiff) -> Iterator[str]:
    if sensor.name != sensor.new_name:
        yield f"renamed to {shown(sensor.new_name)}"
    if not sensor.encoder.same:
        yield from _encoder_notes(sensor.encoder)
    if sensor.largest is None:
        yield "codes or symbols are not comparable, so tables are not compared"
    elif not sensor.encoder.same:
        yield f"tables are compared for {sensor.compared} kinds of readings that both take"
    if sensor.crosswise and sensor.matched is not None:
        pairs = ", ".join(f"{z} is {w}" for z, w in enumerate(sensor.matched[:_LISTED]))
        yield f"symbols are matched crosswise: {pairs}"


def _encoder_notes(encoder: EncoderDiff) -> Iterator[str]:
    if encoder.kind[0] != encoder.kind[1]:
        yield f"encoder: {_pair(encoder.kind)}"
        return
    what = {"bins": "cut points", "categories": "categories", "codes": "codes"}[encoder.kind[0]]
    for verb, parts in (("removed", encoder.removed), ("added", encoder.added)):
        if parts:
            more = f" and {len(parts) - 10} more" if len(parts) > 10 else ""
            listed = (f"{p:.6g}" if isinstance(p, float) else shown(p) for p in parts[:10])
            yield f"{what} {verb}: {', '.join(listed)}{more}"
    if encoder.missing[0] != encoder.missing[1]:
        answers = {True: "yes", False: "no"}
        yield f"code for missing readings: {_pair(encoder.missing, answers.get)}"
    elif not (encoder.removed or encoder.added):
        yield f"{what} in another order"


def _fact_line(fact: FactDiff) -> str:
    before, after = (None if c is None else shown(list(c)) for c in (fact.before, fact.after))
    who = f"{fact.role} fact {shown(fact.name)}"
    if before is None or after is None:
        return f"{who} {'added' if before is None else 'removed'}: classes {before or after}"
    return f"{who}: classes {before} -> {after}"


def _fusion_lines(fusion: FusionDiff) -> Iterator[str]:
    if fusion.same:
        return
    yield f"fusion rule: {_pair(fusion.kind)}, decides {_pair(fusion.rule)}"
    if not fusion.comparable:
        yield "  for other sensors or symbols, so that decisions are not compared"
    elif fusion.decided_differently is None:
        yield "  outputs are too many to list, so that decisions are not compared"
    else:
        share = f"{100 * fusion.decided_differently:.3g} %"
        yield f"  decides {share} of {fusion.outputs} outputs differently"


def _change_lines(title: str, changes: Sequence[Change]) -> list[str]:
    lines = [f"  {each.name.removeprefix('parameters.')}: {_settings(each)}" for each in changes]
    more = [f"  and {len(lines) - _LISTED} more; --json has all of them"]
    return [f"{title}:", *lines[:_LISTED], *more * (len(lines) > _LISTED)] if lines else []


def _measured_lines(found: RowsDiff, names: tuple[str, str]) -> Iterator[str]:
    rows = list(_figures(found))
    columns = (
        Column(f"on {found.rows} rows", gap=0),
        Column("before", right=True, least=8),
        Column("after", right=True, least=8),
    )
    yield from table(columns, [(f"  {name}", *both) for name, *both in rows], line_width())
    yield _ESTIMATES
    if any(None in (each.before, each.after) for each in found.advantages):
        yield "  not listed: the outputs are too many to compute what the best attacker gains"
    for name, origin, groups in zip(names, found.origins, found.learned_groups, strict=True):
        yield f"  {name}: {origin}"
        if groups:
            yield f"  warning: {groups}"
    if any(found.held_out):
        yield _USED


def _figures(found: RowsDiff) -> Iterator[tuple[str, ...]]:
    fact = "public fact " + " -> ".join(dict.fromkeys(shown(each.public) for each in found.answers))
    yield f"{fact}, error", *(percent(each.error) for each in found.answers)
    yield f"{fact}, balanced accuracy", *(percent(each.balanced_accuracy) for each in found.answers)
    for each in found.advantages:
        both = ("not listed" if v is None else gain(v) for v in (each.before, each.after))
        yield f"private fact {shown(each.name)}, points of the best attacker", *both


def _pair(values: tuple[Any, Any], form: Any = str) -> str:
    """Return what was and what is, or one of them if they are the same."""
    return " -> ".join(dict.fromkeys(form(each) for each in values))


def _distance(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _epsilon(value: float | None) -> str:
    return "no bound" if value is None else f"{up(value):.3f}"


def _settings(change: Change) -> str:
    """Return what was and what is, floats with as few digits as tell the two apart."""
    values = change.before, change.after
    for digits in range(4, 18):
        short = [
            f"{value:.{digits}g}" if isinstance(value, float) else shown(value, 40)
            for value in values
        ]
        if short[0] != short[1]:
            return " -> ".join(short)
    return " -> ".join(map(shown, values))
