"""What ``discreet export`` says: the files, what each release costs, and the public key."""

from __future__ import annotations

from discreet.console import plain_print
from discreet.export.exporting import Exported, ExportTask, export
from discreet.export.neutral import MICRO, NONE, SensorTable


def run_export(task: ExportTask, *, quiet: bool = False) -> Exported:
    """Export as told and say what was written.

    Parameters
    ----------
    task : ExportTask
    quiet : bool, default=False
        Print nothing.

    Raises
    ------
    InputError
        With what to do; nothing was written then.
    """
    exported = export(task)
    for line in () if quiet else describe(task, exported):
        plain_print(line)
    return exported


def describe(task: ExportTask, exported: Exported) -> list[str]:
    """Return the closing lines: what was written and what it promises."""
    count = len(exported.tables)
    mapping_id = next(iter(exported.tables.values())).mapping_id
    lines = [f"wrote {task.out}, {count} sensor{'s'[: count > 1]} of {mapping_id[:19]}"]
    for name, table in exported.tables.items():
        called = "" if name == table.name else f" ({table.name})"
        lines.append(f"  {name}{called}: {_cost(table)}")
    if any(table.ratio is None for table in exported.tables.values()):
        lines.append("without a bound no budget can be kept: learn with --ldp-epsilon to have one")
    if exported.key is not None:
        lines.append(f"mapping id, to be pinned at the devices: {mapping_id}")
        if exported.key.made:
            lines.append(f"made the signing key {exported.key_path}: keep it secret, and keep it")
        lines.append(f"public key, to be pinned at the devices: {exported.key.public_hex}")
    return lines


def _cost(table: SensorTable) -> str:
    codes = f"{len(table.tops) - 1} codes, {table.symbols} symbols"
    if table.micro_epsilon == NONE:
        return f"{codes}, one release tells without bound (C1)"
    cost = f"{codes}, one release tells at most {table.micro_epsilon / MICRO:.6f} nats (C1)"
    budget = table.policy.micro_budget
    if budget == NONE or not table.micro_epsilon:
        return cost
    return f"{cost}, {budget // table.micro_epsilon} releases are affordable"
