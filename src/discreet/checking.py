"""The job behind ``discreet check``: everything that can be known of a table before learning.

What ``learn`` refuses or warns of is found by the very steps that it begins with, so that the two
never differ. Beside that: what the columns are, which group cures rows that depend on one another,
what raw readings are worth, how many rows a limit needs, and how long learning takes.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from discreet.auditing.bounds.rows_needed import Plan, Planned, planned, sketch_tables
from discreet.data.columns import Labels, plain, written
from discreet.data.roles import MOST_ROWS, Role, guess_facts
from discreet.data.table_warnings import propose_group
from discreet.data.tables import Table, find_files, first_rows, read_stretches
from discreet.data.text_files import TextForm, text_form
from discreet.design.counts.blocks import sensors_depend
from discreet.design.fusion import Aim
from discreet.design.raw_answers import answer_unseen_codes, raw_advantage
from discreet.design.training_rows import split_folds
from discreet.errors import (
    DiscreetWarning,
    EventLogError,
    InputError,
    ProblemsError,
    UnfitSensorError,
    as_argument,
)
from discreet.learning import Prepared, learn, open_table, prepare
from discreet.progress import Progress, Report
from discreet.task import Task, check_no_log, look_at_roles

CONFIDENCE = 0.95
_NOISE = 0.1  # of the sensors that rows are planned for
_MOST_PLANNED = 12  # sensors whose outputs are imagined
_FOLDS = 3


@dataclass(frozen=True)
class Raw:
    """What raw readings are worth, by boosted trees on rows that they did not learn from.

    ``public``: balanced accuracy of answers about the public fact, where guessing has ``guessing``.
    ``private``: the advantage over guessing about the private fact that they tell most of.
    """

    public: float
    guessing: float
    private: float


@dataclass(frozen=True)
class Checked:
    """What was found.

    ``public``, ``private``: as named, or guessed if ``guessed``. ``problems``: what ``learn``
    refuses. ``classes``: rows of each class, by fact. ``order``: whether rows depend on one
    another, in words; ``group``: what cures it. ``no_raw``: why ``raw`` is not known. ``needed``:
    rows, or groups, that an audit needs for the limit; ``held_out``: those that it has.
    ``command``: what to run next. ``cured``: whether it leaves out all that ``learn`` refuses.
    """

    table: str
    rows: int
    form: TextForm | None
    roles: Sequence[Role]
    public: str | None
    private: Sequence[str]
    guessed: bool
    problems: Sequence[str]
    warnings: Sequence[str]
    command: str
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    order: str | None = None
    group: str | None = None
    raw: Raw | None = None
    no_raw: str | None = None
    needed: Planned | None = None
    held_out: int | None = None
    seconds: float | None = None
    cured: bool = False


def check_table(task: Task, limit: float, *, guess: bool, report: Report | None = None) -> Checked:
    """Look at a table as ``learn`` would, and further.

    ``task``: facts may be missing if ``guess`` is set. ``limit``: on an attacker's advantage.
    Raises InputError: if the table cannot be read at all.
    """
    table = open_table(task, None)
    roles = look_at_roles(task, table)
    public, private = task.public, list(task.private)
    log = _refused_log(task, table, roles)
    if guess and log is None:
        found = guess_facts(first_rows(table, MOST_ROWS), roles)
        public = public or found[0] or ""
        private = private or [name for name in (found[1],) if name and name != public]
        task = replace(task, public=public, private=private)
        roles = look_at_roles(task, table)
    first = Checked(
        table=str(task.table),
        rows=table.rows,
        form=_form(task),
        roles=roles,
        public=public or None,
        private=private,
        guessed=guess,
        problems=[] if log is None else [str(log)],
        warnings=[],
        command=(
            _command(replace(task, exclude=_excluded(task, roles)), None)
            if log is None
            else log.command
        ),
    )
    if log is not None or not (public and private):
        return first
    return _look_further(first, task, table, limit, report)


def _refused_log(task: Task, table: Table, roles: Sequence[Role]) -> EventLogError | None:
    try:
        check_no_log(task, table, roles)
    except EventLogError as error:
        return error
    return None


def _form(task: Task) -> TextForm | None:
    file = find_files([task.table])[0]
    return None if file.suffix.lower() in (".parquet", ".xlsx") else text_form(file)


def _look_further(
    first: Checked, task: Task, table: Table, limit: float, report: Report | None
) -> Checked:
    said, prepared, problems = _prepare(task, table, report)
    if prepared is None:
        unfit = [each.sensor for each in problems if isinstance(each, UnfitSensorError)]
        return replace(
            first,
            problems=list(map(str, problems)),
            warnings=said,
            command=_command(_without(replace(task, exclude=_excluded(task, first.roles)), unfit)),
            cured=len(unfit) == len(problems),
        )
    exclude = _excluded(task, first.roles)
    if task.sensors is None and len(exclude) > len(task.exclude):
        # What follows is judged by the sensors of the command that is printed.
        fewer = replace(task, exclude=exclude)
        _, again, _ = _prepare(fewer, table, report)
        task, prepared = (task, prepared) if again is None else (fewer, again)
    group, order = _cure(prepared), prepared.source.dependence
    if prepared.warning is not None:
        said = [*said, prepared.warning]
    if group is not None and task.split.group is None:
        grouped = replace(task, split=task.split.model_copy(update={"group": group}))
        _, again, _ = _prepare(grouped, table, report)
        prepared = again or prepared
    raw, why = _raw(prepared)
    return replace(
        first,
        warnings=said,
        classes={fact.name: _shares(fact) for fact in prepared.facts},
        order=None if order is None else order.words,
        group=group or task.split.group,
        raw=raw,
        no_raw=why,
        needed=_needed(prepared, limit),
        held_out=_observations(prepared),
        seconds=_seconds(prepared),
        command=_command(task, group),
    )


def _without(task: Task, sensors: Sequence[str]) -> Task:
    """Return the task without some sensors."""
    named = None if task.sensors is None else [each for each in task.sensors if each not in sensors]
    more = [name for name in sensors if name not in task.exclude]
    return replace(task, sensors=named, exclude=[*task.exclude, *more])


def _prepare(
    task: Task, table: Table, report: Report | None
) -> tuple[list[str], Prepared | None, list[InputError]]:
    """Return what ``learn`` warns of, what it would learn from, and what it refuses."""
    prepared: Prepared | None = None
    problems: list[InputError] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            prepared = prepare(task, table, report=report)
        except ProblemsError as error:
            problems = error.problems
        except InputError as error:
            problems = [error]
    ours = [str(each.message) for each in caught if issubclass(each.category, DiscreetWarning)]
    return list(dict.fromkeys(ours)), prepared, problems


def _cure(prepared: Prepared) -> str | None:
    """Return the group that cures rows that depend on one another."""
    order, task = prepared.source.dependence, prepared.task
    if order is None or not order.found:
        return None
    rows = read_stretches(prepared.table)
    return propose_group(order, rows, prepared.sensors, task.public, task.private)


def _shares(fact: Labels) -> dict[str, int]:
    names = [written(value) if (value := plain(each)) is not None else str(each)
             for each in fact.classes]  # fmt: skip
    return dict(zip(names, fact.counts, strict=True))


def _raw(prepared: Prepared) -> tuple[Raw | None, str | None]:
    """Return what raw readings are worth, or why that is not known."""
    sample, groups = prepared.coded.sample, prepared.coded.groups
    try:
        known, unseen = split_folds(sample, _FOLDS, groups, np.random.default_rng(0))[0]
    except InputError:
        unit = "rows" if groups is None else f"groups by {prepared.task.split.group!r}"
        return None, (
            f"no two parts of the {unit} to learn from hold every class of every fact. Add {unit} "
            "of the rarest class."
        )
    with threadpool_limits(1):  # of so few rows, threads wait for each other longer than they work
        answers = answer_unseen_codes(sample, known, unseen, Aim("balanced"), 0)
        told = raw_advantage(sample.take(known), sample.take(unseen), hidden=sensors_depend(sample))
    return Raw(answers.balanced_accuracy, 1.0 / sample.public.n_classes, told), None


def _needed(prepared: Prepared, limit: float) -> Planned | None:
    """Return about how many rows, or groups, of the audit certify a limit, if nothing leaks."""
    rarest = max(prepared.facts[1:], key=lambda fact: fact.n_classes / max(min(fact.counts), 1))
    if limit >= 1.0 - 1.0 / rarest.n_classes:
        return None
    groups = prepared.groups
    made = Plan(
        tables=sketch_tables(min(len(prepared.sensors), _MOST_PLANNED), 2, _NOISE),
        shares=tuple(count / sum(rarest.counts) for count in rarest.counts),
        alpha=(1.0 - CONFIDENCE) / (len(prepared.facts) - 1),
        group_size=0 if groups is None else max(1, prepared.table.rows // groups.n_classes),
    )
    return planned(made, limit)


def _observations(prepared: Prepared) -> int:
    """Return how many rows, or groups, are held out for the audit."""
    if prepared.groups is None:
        return int(prepared.held_out.sum())
    return len(np.unique(prepared.groups.index[prepared.held_out]))


class _KnownError(Exception):
    """How long it takes is known, and nothing else is wanted."""


def _seconds(prepared: Prepared) -> float | None:
    """Return about how long ``learn`` searches, by its own account and at most."""
    found: list[float] = []

    def listen(progress: Progress) -> bool:
        if progress.seconds is not None:
            most = progress.seconds if progress.left is None else progress.left
            found.append(min(progress.seconds, most))
            raise _KnownError
        return False

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learn(prepared, report=listen)
    except (_KnownError, InputError):
        pass
    return found[0] if found else None


def _command(task: Task, group: str | None = None) -> str:
    """Return the command to run next; what has to be filled in is in capitals."""
    stem = Path(str(task.table)).name.split(".")[0].replace("*", "") or "mapping"
    words: list[Any] = ["discreet", "learn", *map(as_argument, (task.table, *task.further))]
    words += ["--public", task.public or "PUBLIC"]
    words += [word for name in (task.private or ["PRIVATE"]) for word in ("--private", name)]
    if task.sensors is not None:
        words += ["--sensors", ",".join(_quoted(task.sensors))]
    elif task.exclude:
        words += ["--exclude", ",".join(_quoted(task.exclude))]
    if group or task.split.group:
        words += ["--group", group or task.split.group]
    out = "mapping.json" if stem == "-" else f"{stem}.json"
    return shlex.join([*words, "--out", out])


def _excluded(task: Task, roles: Sequence[Role]) -> list[str]:
    """Return what the command leaves out: what was named, and what tells nothing or too much."""
    found = [each.column for each in roles if each.role in ("copy", "answer", "empty", "constant")]
    return [*task.exclude, *(name for name in found if name not in task.exclude)]


def _quoted(names: Sequence[str]) -> list[str]:
    """Return names for a list in an option; one with a comma goes in double quotes."""
    return [f'"{name}"' if "," in name else name for name in names]
