"""Which policy of repeating devices get: the one that tells least in a day, as far as is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.cli.options import name_list
from discreet.errors import InputError
from discreet.rounding import up

if TYPE_CHECKING:
    import pandas as pd

    from discreet.auditing.data import AuditData
    from discreet.leakage.over_time import LeakOverTime
    from discreet.mapping.mapping import Mapping

_KEPT = "code"  # where nothing is known of the private fact
_SAME_USE = ("never", "code")  # which answer in every round


def choose_repeat(
    mapping: Mapping,
    stated: str | None,
    rows: Sequence[Path] | None,
    stay: str | None,
    period: int,
    interval: float,
) -> tuple[str, list[str]]:
    """Return the policy, as stated or the one that tells least, and what to say of a day.

    ``rows``, ``stay``: what is known of a round and of how long the private fact lasts.
    """
    if stay is None:
        if rows:
            raise InputError(
                "--rows needs to know how long the private fact lasts, to compute what a day of "
                "them tells. State how likely it is the same in the next round (--stay)."
            )
        note = f"--repeat {_KEPT}: give --stay and --rows to have the policy that tells least"
        return stated or _KEPT, [] if stated else [note]
    found = _leaks(mapping, rows, stay, period, interval)
    leaks = {
        leak.policy: max(each.leaks[k].advantage.high for each in found)
        for k, leak in enumerate(found[0].leaks)
    }
    least = min(_SAME_USE, key=lambda policy: (leaks[policy], policy == "code"))
    return stated or least, _lines(found, stated, least)


def _leaks(
    mapping: Mapping, rows: Sequence[Path] | None, stay: str, period: int, interval: float
) -> list[LeakOverTime]:
    from discreet.export.lasting import DAY
    from discreet.leakage.over_time import MOST_ROUNDS, over_time

    if not mapping.private:
        raise InputError("the mapping guards no private fact. Leave --stay out.")
    if not interval > 0:
        raise InputError(f"--interval must be above 0, got {interval:g}.")
    known = None if rows is None else rows_to_estimate(mapping, rows)[0]
    rounds = min(math.ceil(DAY / interval), MOST_ROUNDS)
    remembered = min(max(math.ceil(period / interval), 1), rounds)
    return [
        over_time(mapping, known, rounds=rounds, stay=read_stay(stay), fact=fact.name,
                  period_rounds=remembered)
        for fact in mapping.private
    ]  # fmt: skip


def _lines(found: Sequence[LeakOverTime], stated: str | None, least: str) -> list[str]:
    from discreet.leakage.over_time import NO_BOUND

    lines = []
    for each in found:
        compared = ", ".join(
            f"{leak.policy} {shown}"
            if (shown := leak.advantage.how) == NO_BOUND
            else f"{leak.policy} {up(leak.advantage.high, 4):.4f}"
            for leak in each.leaks
        )
        lines.append(
            f"a day of {each.rounds:,} rounds, advantage on {each.fact!r} (an estimate, if that "
            f"fact alone links rounds): {compared}"
        )
    if stated is None:
        lines.append(f"--repeat {least}: of never and code, which answer alike, it tells least")
    elif stated != least:
        lines.append(f"--repeat {stated}, as stated; {least} tells less and answers in every round")
    return lines


def read_stay(text: str) -> float | list[float]:
    """Return one probability, or one for each class."""
    try:
        found = [float(each) for each in name_list("--stay", text)]
    except ValueError:
        found = []
    if not found or not all(0.0 <= each <= 1.0 for each in found):
        raise InputError(f"--stay must be a probability, or one for each class, got {text!r}.")
    return found[0] if len(found) == 1 else found


def rows_to_estimate(
    mapping: Mapping, tables: Sequence[Path], time_column: str | None = None
) -> tuple[pd.DataFrame, AuditData]:
    """Return the rows that may vouch for the mapping, and note that they were looked at."""
    from discreet.auditing.data import AuditEntry, note_audit
    from discreet.auditing.table_rows import ALL_READINGS, audit_data_from_table
    from discreet.data.tables import find_files, read_tables

    # An estimate of one round needs no independent rows, and promises nothing.
    table = read_tables(find_files(tables))
    data = audit_data_from_table(
        mapping, table, assume_independent=True, time_column=time_column, sample=ALL_READINGS
    )
    if data.held_out and mapping.design.source is not None:
        note_audit(AuditEntry.of(mapping, mapping.design.source, 0))
    labels = {each.name: each.values for each in (data.public, *data.private)}
    return data.readings.assign(**labels), data
