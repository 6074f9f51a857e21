"""``discreet import``: event logs of a home to a table to learn from."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import Json, Quiet, argument, flag, option, seconds_of
from discreet.cli.terminal import check_out, interruptible, json_result, plain_console, print_lines
from discreet.errors import InputError, as_argument

if TYPE_CHECKING:
    import pandas as pd

    from discreet.importing.rounds import Events, Rounds

_WRITTEN = (".csv", ".csv.gz", ".tsv", ".parquet")
_COUNTED = ("event.*", "button.*", "input_button.*")  # whose states are times of events
_LISTED = 12


def import_log(
    log: Annotated[
        str,
        argument(
            "LOG",
            "Home Assistant's database (SQLite file, postgresql:// or mysql:// URL), history or "
            "logbook CSV, openHAB's JDBC tables or CSV, JSON lines of MQTT, or any long CSV.",
        ),
    ],
    out: Annotated[Path, option("FILE", "Table to write: .csv, .csv.gz, .tsv or .parquet.")],
    every: Annotated[str, option("TIME", "Time between rows, such as 60s, 5m or 1h.")] = "60s",
    hold: Annotated[
        str, option("TIME", "How long a value holds if no other comes, such as 1h or 1d.")
    ] = "1d",
    items: Annotated[
        list[str] | None,
        option(
            "ITEM",
            "Item to take, or a pattern such as 'sensor.*'; may be given several times. "
            "[default: all]",
            name="--items",
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        option(
            "ITEM[=NAME]",
            "A fact: it holds until it changes, and rows without it are dropped; may be given "
            "several times, and renamed.",
            name="--label",
        ),
    ] = None,
    count: Annotated[
        list[str] | None,
        option("ITEM", "Count its events in each round. [default: event.*, button.*]"),
    ] = None,
    changes: Annotated[
        list[str] | None, option("ITEM", "Only whether it changed in each round: 1 or 0.")
    ] = None,
    timezone: Annotated[
        str, option("ZONE", "Zone of local times, read and written, such as Europe/Berlin.")
    ] = "UTC",
    begin: Annotated[
        str | None, option("TIME", "Leave out what is earlier.", name="--from")
    ] = None,
    end: Annotated[str | None, option("TIME", "Leave out what is later.", name="--to")] = None,
    statistics: Annotated[
        bool,
        flag("--statistics", "Home Assistant: hourly means from before the states begin, too."),
    ] = False,
    time_column: Annotated[str | None, option("COLUMN", "Time column of a long CSV.")] = None,
    item: Annotated[str | None, option("COLUMN", "Item column of a long CSV.")] = None,
    value: Annotated[str | None, option("COLUMN", "Value column of a long CSV.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Turn an event log into a table, a row for every minute. The log is only read.

    A row holds what was last seen at its end; `unavailable`, gaps of the log and what is older than
    --hold are missing.

    Example:

        discreet import ha.db --label person.ann=who --out home.csv

    From a server, with local times:

        discreet import mysql://ha@db/ha --timezone Europe/Rome --out t.csv

    A long CSV of any kind:

        discreet import l.csv --time-column at --item id --value v --out t.csv
    """
    seconds, held = seconds_of("--every", every), seconds_of("--hold", hold)
    assert seconds is not None and held is not None
    if not out.name.lower().endswith(_WRITTEN):
        raise InputError(f"--out must end in one of {', '.join(_WRITTEN)}, got {out.name!r}.")
    pairs = (each.partition("=") for each in labels or [])
    facts = {item: name or item for item, _, name in pairs}  # what its column is called
    check_out(out, Path(log) if "://" not in log else None)
    with interruptible("stopped. No table was written."):
        from discreet.cli.progress import ProgressReport
        from discreet.importing.rounds import Rounds, make_table
        from discreet.importing.sources import check_zone, read_log

        check_zone(timezone)
        with closing(ProgressReport(plain_console(), quiet=quiet)) as report:
            span = _moment("--from", begin, timezone), _moment("--to", end, timezone)
            events = read_log(
                log, timezone, lambda seen: report.show("read", 0.0, f"{seen} events"),
                statistics=statistics, time=time_column, item=item, value=value,
            ).within(*span)  # fmt: skip
            if items:
                events = events.only([*items, *facts, *(count or []), *(changes or [])])
            rounds = Rounds(
                every=seconds,
                hold=held,
                zone=timezone,
                forever=_named(facts, events, required=True),
                count=_named(count or _COUNTED, events, required=count is not None),
                changes=_named(changes or (), events, required=True),
            )
            report.show("write", 0.0)
            table = make_table(events, rounds)
            whole = table.dropna(subset=list(rounds.forever)).rename(columns=_names(facts, events))
            if not whole.columns.is_unique:
                raise InputError("two columns would have one name. Rename --label otherwise.")
            if not len(whole):
                raise InputError("no row has all labels. Name others with --label, or fewer.")
            _write(whole, out)
    with json_result(as_json) as result:
        result |= {"out": str(out), "rows": len(whole), "dropped": len(table) - len(whole)}
        result |= {"columns": list(whole.columns), "events": len(events.times)}
        result |= {"gaps": len(events.gaps), "unread": events.unread}
        if not quiet:
            print_lines(_summary(events, rounds, table, whole, out))


def _names(facts: dict[str, str], events: Events) -> dict[str, str]:
    """Return what the columns of labels are called; a pattern may have been renamed too."""
    renamed = {pattern: name for pattern, name in facts.items() if name != pattern}
    return {item: name for pattern, name in renamed.items()
            for item in _named([pattern], events, required=True)}  # fmt: skip


def _named(patterns: Iterable[str], events: Events, *, required: bool) -> list[str]:
    from discreet.importing.rounds import matching

    found: list[str] = []
    for pattern in patterns:
        try:
            found += matching(pattern, events.items)
        except InputError:
            if required:
                raise
    return found


def _moment(option: str, text: str | None, zone: str) -> float | None:
    if text is None:
        return None
    import pandas as pd

    from discreet.importing.rounds import utc_seconds

    found = float(utc_seconds(pd.Series([text]), zone)[0])
    if found != found:
        raise InputError(f"{option} must be a time such as 2026-01-31T14:05, got {text!r}.")
    return found


def _write(table: pd.DataFrame, out: Path) -> None:
    """Write the table whole or not at all."""
    from discreet_sensor.files import replacing

    name = out.name.lower()
    with replacing(out) as file:
        if name.endswith(".parquet"):
            table.to_parquet(file, index=False)
        else:
            sep = "\t" if name.endswith(".tsv") else ","
            packed = {"method": "gzip" if name.endswith(".gz") else None}
            table.to_csv(file, index=False, sep=sep, compression=packed)


def _summary(
    events: Events, rounds: Rounds, table: pd.DataFrame, whole: pd.DataFrame, out: Path
) -> list[str]:
    names = ", ".join(events.items[:_LISTED]) + (", ..." if len(events.items) > _LISTED else "")
    lines = [
        f"{len(events.times)} events of {len(events.items)} items ({names})",
        f"wrote {out}: {len(whole)} rows, one for every {rounds.every:g} s, from "
        f"{whole['time'].iloc[0]} to {whole['time'].iloc[-1]}",
    ]
    if len(whole) < len(table):
        lines.append(f"{len(table) - len(whole)} rows without a label were dropped")
    if events.unread:
        lines.append(f"{events.unread} lines without an item or a time were left out")
    if events.gaps:
        lines.append(f"{len(events.gaps)} times the recorder did not run: missing there")
    empty = whole.drop(columns="time").isna().mean()
    often = [f"{name} {share:.0%}" for name, share in empty[empty > 0.5].items()]
    if often:
        more = ", ..." if len(often) > _LISTED else ""
        lines.append(
            f"missing in most rows: {', '.join(often[:_LISTED])}{more}: unavailable then, or older "
            "than --hold"
        )
    check = shlex.join(["discreet", "check", as_argument(out)])
    return [*lines, f"next: {check} --public PUBLIC --private PRIVATE"]
