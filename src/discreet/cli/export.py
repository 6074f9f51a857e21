"""``discreet export``: the files, what each release costs, and the public key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.choices import TARGETS
from discreet.cli.options import (
    Anyway,
    Budget,
    Json,
    Period,
    PolicyRows,
    PrivateStay,
    Quiet,
    Repeat,
    argument,
    is_positive,
    one_of,
    option,
)
from discreet.cli.policies import choose_repeat
from discreet.cli.terminal import interruptible, print_json, print_lines, warn

if TYPE_CHECKING:
    from discreet.export.neutral import SensorTable
    from discreet.export.targets import Exported, ExportTask


def export(
    mapping: Annotated[Path, argument("MAPPING", "Mapping file to take the tables from.")],
    to: Annotated[
        str, option("NAME", f"What the devices run: {', '.join(TARGETS)}.", one_of(TARGETS))
    ],
    out: Annotated[Path, option("FOLDER", "New folder to write.")],
    key: Annotated[
        Path | None,
        option(
            "FILE",
            "Ed25519 key that signs bundles for Python; made if it is not there. [default: "
            "the mapping's name with .key]",
        ),
    ] = None,
    budget: Budget = None,
    period: Period = 86_400,
    repeat: Repeat = None,
    stay: PrivateStay = None,
    rows: PolicyRows = None,
    interval: Annotated[
        float,
        option("SECONDS", "How often a sensor releases, for the figure of a day.", is_positive),
    ] = 60.0,
    anyway: Anyway = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one bundle per sensor, with its own table only, for the device that reads it.

    Bundles for Python are signed; the public key is printed, and must reach each device
    separately from the bundle.

    Example:

        discreet export home.json --to python --out bundles

    For a microcontroller that sends one symbol a day, and 20 nats in its life:

        discreet export home.json --to c --out fw --repeat period --budget 20
    """
    with interruptible("stopped. Nothing was written."):
        from discreet.export.neutral import Policy
        from discreet.export.targets import ExportTask
        from discreet.export.targets import export as write_bundles
        from discreet.mapping.mapping import Mapping

        known = Mapping.load(mapping)
        chosen, policy_lines = choose_repeat(known, repeat, rows, stay, period, interval)
        policy = Policy(budget=budget, period=period, repeat=chosen)
        task = ExportTask(mapping, to, out, key, policy, interval, anyway)
        exported = write_bundles(task)
        if exported.lasting.shortage:
            warn(exported.lasting.shortage)
        if as_json:
            print_json(
                {
                    "out": str(out),
                    "mapping_id": known.id,
                    "sensors": {name: table.name for name, table in exported.tables.items()},
                    "repeat": chosen,
                    "public_key": None if exported.key is None else exported.key.public_hex,
                }
            )
        elif not quiet:
            print_lines(describe(task, exported, policy_lines))


def describe(task: ExportTask, exported: Exported, policy_lines: Sequence[str]) -> list[str]:
    """Return the closing lines: what was written and what it promises."""
    count = len(exported.tables)
    mapping_id = next(iter(exported.tables.values())).mapping_id
    lines = [f"wrote {task.out}, {count} sensor{'s'[: count > 1]} of {mapping_id[:19]}"]
    for name, table in exported.tables.items():
        called = "" if name == table.name else f" ({table.name})"
        lines.append(f"  {name}{called}: {_cost(table)}")
    lines += [*policy_lines, *exported.lasting.lines()]
    if any(table.ratio is None for table in exported.tables.values()):
        lines.append("without a bound no budget can be kept: learn with --ldp-epsilon to have one")
    if exported.key is not None:
        lines.append(f"mapping id, to be pinned at the devices: {mapping_id}")
        if exported.key.made:
            lines.append(f"made the signing key {exported.key_path}: keep it secret, and keep it")
        lines.append(f"public key, to be pinned at the devices: {exported.key.public_hex}")
    return lines


def _cost(table: SensorTable) -> str:
    from discreet.export.neutral import MICRO, NONE

    codes = f"{len(table.tops) - 1} codes, {table.symbols} symbols"
    if table.micro_epsilon == NONE:
        return f"{codes}, one release tells without bound (C1)"
    return f"{codes}, one release tells at most {table.micro_epsilon / MICRO:.6f} nats (C1)"
