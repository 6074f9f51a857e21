"""What to learn from which columns of which files, checked before any row is looked at."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from discreet.choices import METHODS, ByColumn
from discreet.data.columns import check_column, choose_sensors
from discreet.data.fit_encoders import by_column
from discreet.data.groups import can_group, group_columns
from discreet.data.roles import (
    MOST_ROWS,
    NO_SENSORS,
    Role,
    describe_event_log,
    find_event_log,
    guess_roles,
    import_command,
    roles_named,
)
from discreet.data.split import Split
from discreet.data.strict_model import explain
from discreet.data.tables import Table, find_files, first_rows, stored_index
from discreet.errors import EventLogError, InputError, Problems, TableWarning, TimesLeftOutWarning


@dataclass(frozen=True)
class Task:
    """What to learn from which columns.

    Attributes
    ----------
    table : Path
        The file with the rows, or a pattern that several are called like.
    further : sequence of Path
        Files that go on where the first ends.
    sensors : sequence of str, optional
        Columns with readings; by default all that are not named otherwise.
    options : dict
        Parameters of the mapper. Those that it takes by column may be a ``ByColumn``.
    time_column : str, optional
        When each row was written; from it the mapping learns how long the public fact lasts.
    every : float, optional
        Seconds from one round to the next; by default what is usual between rows.
    """

    table: Path
    public: str
    private: Sequence[str]
    sensors: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    method: str = "auto"
    split: Split = field(default_factory=Split)
    options: dict[str, Any] = field(default_factory=dict)
    further: Sequence[Path] = ()
    time_column: str | None = None
    every: float | None = None

    @property
    def facts(self) -> list[str]:
        """The public fact, then the private ones."""
        return [self.public, *self.private]

    def files(self) -> list[Path]:
        """Return all files with rows, patterns resolved."""
        return find_files([self.table, *self.further])


def make_split(holdout: float, seed: int, group: str | None) -> Split:
    """Return the split; raise InputError for one that a mapping file could not record."""
    try:
        return Split(holdout=holdout, seed=seed, group=group)
    except ValidationError as error:
        raise InputError(f"the split cannot be used: {explain(error)}.") from None


def check_method(method: str) -> None:
    """Refuse a method that there is not."""
    if method not in METHODS:
        raise InputError(f"--method must be one of {', '.join(METHODS)}, got {method!r}.")


def check_roles(columns: Sequence[str], task: Task) -> list[str]:
    """Return the sensors; refuse columns that are not there, or named in two roles.

    A column of times is no sensor. All mistakes are reported at once.
    """
    facts, groups, problems = task.facts, [], Problems()
    with problems.gathered():
        groups = group_columns(task.split.group, columns)
    for name in dict.fromkeys(facts):
        with problems.gathered():
            check_column(columns, name, role_of(task, name))
            if facts.count(name) > 1:
                raise InputError(f"{name!r} is named as a fact twice. Name each fact once.")
            if name in task.exclude:
                raise InputError(
                    f"{name!r} is the {role_of(task, name)}, which is no sensor anyway, and "
                    "cannot be left out as well. Take it out of --exclude, or name another fact."
                )
            if name in groups:
                raise InputError(
                    f"{name!r} is the {role_of(task, name)} and cannot be --group as well, which "
                    "would put each of its classes on one side. Group by another column."
                )
    times = [] if task.time_column is None else [task.time_column]
    for name in times:
        with problems.gathered():
            check_column(columns, name, "times")
    sensors: list[str] = []
    with problems.gathered():
        used = [name for name in (*facts, *groups, *times) if name in columns]
        sensors = choose_sensors(columns, task.sensors, [*used, *task.exclude])
    problems.refuse()
    return sensors


def role_of(task: Task, name: str) -> str:
    """Return what a fact is to the task, in words."""
    return "public fact" if name == task.public else "private fact"


def fill_in(options: dict[str, Any], numbers: dict[str, bool]) -> dict[str, Any]:
    """Return the mapper's parameters, with choices by column in the form that it takes.

    ``numbers``: the sensors, and whether each holds numbers. Raises InputError: if a choice is for
    a column that is no sensor.
    """
    return options | {
        name: _choice_by_sensor(name, choice, numbers)
        for name, choice in options.items()
        if isinstance(choice, ByColumn)
    }


def _choice_by_sensor(option: str, choice: ByColumn, numbers: dict[str, bool]) -> Any:
    own = by_column(option, choice.own, list(numbers))
    if not own:
        return choice.common
    # Bins for all are bins for numbers; asked for by name they would be refused for text.
    rest = [name for name, is_number in numbers.items() if option != "binning" or is_number]
    return dict.fromkeys(rest, choice.common) | own


def look_at_roles(task: Task, table: Table) -> list[Role]:
    """Return what the columns are, as named or as they seem."""
    group, columns = task.split.group, table.columns
    known = group is not None and can_group(group, columns)
    groups = group_columns(group, columns) if known else []
    times = [] if task.time_column is None else [task.time_column]
    named = roles_named(task.public, task.private, groups, times, task.exclude, task.sensors)
    return guess_roles(first_rows(table, MOST_ROWS), named, stored_index(task.files()))


def check_no_log(task: Task, table: Table, roles: Sequence[Role]) -> None:
    """Refuse an event log, which only looks like a table.

    Raises EventLogError: with the command that makes a table of it.
    """
    log = find_event_log(first_rows(table, MOST_ROWS), roles)
    if log is not None:
        command = import_command(str(task.table), log, table.columns, task.facts)
        raise EventLogError(describe_event_log(str(task.table), log, command), command)


def without_others(task: Task, roles: Sequence[Role]) -> Task:
    """Return the task without columns that nobody named and that are no sensors; warn of them."""
    if task.sensors is not None:
        return task
    named = {*task.facts, *task.exclude, task.split.group, task.time_column}
    left_out = [each for each in roles if each.role in NO_SENSORS and each.column not in named]
    for each in left_out:
        warnings.warn(*say_left_out(each), stacklevel=3)
    return replace(task, exclude=[*task.exclude, *(each.column for each in left_out)])


def say_left_out(role: Role) -> tuple[str, type[Warning]]:
    """Return why a column is no sensor, and of which kind that warning is."""
    name = role.column
    if role.role == "clock" and role.why.startswith("holds times like"):
        return (
            f"column {name!r} holds times and is no sensor. For the hour of the day or the weekday "
            f"name the sensors, as in --sensors A,B,{name}:hour,{name}:weekday."
        ), TimesLeftOutWarning
    return (
        f"column {name!r} {role.why}; it is left out. If it is a sensor, name all with --sensors."
    ), TableWarning
