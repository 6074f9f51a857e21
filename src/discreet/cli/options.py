"""The options that several commands have, and what options may be.

What can be checked from the options alone is checked here and in the commands, before any file is
opened; each mistake is one message.

*A file of options: what `learn --write-config` writes and `learn --config` reads, in TOML.* Its
keys are the options' names, such as ``max-advantage``; ``table`` lists the tables. What is typed
counts more than what the file says. A key that is no option is refused.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from discreet.choices import KERNELS, LOSSES, MERGED_BINS, METHODS, ByColumn
from discreet.errors import (
    DiscreetError,
    DiscreetWarning,
    InputError,
    Parameter,
    as_argument,
    shown,
)
from discreet.files import write_whole

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}  # as powers of two
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST = 366 * 86_400
MOST_SYMBOLS = 256
MOST_COST = 1e9
MOST_BINS = 1_000
MOST_SEED = 2**32 - 1  # what NumPy's older generator takes, which scikit-learn seeds

# The names that the options take. They live with the code they name, too far for a quick
# `--help`; a test holds the two lists against each other.
REPEATS = ("code", "period", "never")
BINNINGS = ("merged", "quantile", "uniform", "categories", "codes")


# What the command line calls otherwise than Python does.
_RENAMED = {"privacy_ratio": "ratio", "n_symbols": "symbols", "n_bins": "bins"}


def option_name(parameter: str) -> str:
    """Return what the command line calls a parameter of the library."""
    return "--" + _RENAMED.get(parameter, parameter).replace("_", "-")


def in_option_terms(message: DiscreetError | DiscreetWarning) -> str:
    """Return a message with Python's parameters called what the command line calls them."""
    parts = (option_name(part) if isinstance(part, Parameter) else part for part in message.args)
    return "".join(map(str, parts))


def option(
    metavar: str, help: str, check: Callable[..., Any] | None = None, name: str = "", **more: Any
) -> Any:
    """Return an option with a value: what stands for it, what it is for, and what checks it.

    ``name``: what it is called, if not what its parameter is called.
    """
    names = [name] if name else []
    return typer.Option(*names, metavar=metavar, help=help, callback=check, **more)


def flag(name: str, help: str, short: str | None = None) -> Any:
    """Return an option without a value."""
    return typer.Option(*filter(None, (name, short)), help=help)


def argument(metavar: str, help: str) -> Any:
    """Return an argument: what stands for it and what it is for."""
    return typer.Argument(metavar=metavar, help=help)


# --- Groups in the help ----------------------------------------------------------------------

GROUPS = {
    "Limits": "ratio epsilon ldp_epsilon beyond_answer confidence releases independent_releases "
    "cap rounds stay",
    "Rows and columns": "sensors exclude group assume_independent time_column every holdout "
    "binning bins",
    "Method": "method methods ratios symbols kernel loss decide seed",
    "Running": "time_limit memory work_dir dask jobs config config_out quiet help",
}
"""Where options stand in the help of a command with many; what is nowhere is essential."""
_MANY = 12  # options, from which on they are in groups


class GroupedCommand(TyperCommand):
    """A command whose help has the essential options first and the others by what they are for."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        groups |= {name: [] for name in GROUPS}
        params = self.get_params(ctx)
        for each in params:
            record = each.get_help_record(ctx)
            if record is not None:
                groups[_group(each, len(params))].append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _group(param: Any, count: int) -> str:
    if param.param_type_name == "argument":
        return "Arguments"
    found = (name for name, listed in GROUPS.items() if param.name in listed.split())
    return "Options" if count < _MANY or param.required else next(found, "Options")


# --- Checks of single options --------------------------------------------------------------


def within(wanted: str, fits: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return a callback that refuses values that do not fit and says what is wanted."""

    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and not fits(value):
            raise InputError(f"{param.opts[0]} must be {wanted}, got {value}.")
        return value

    return check


def one_of(names: tuple[str, ...]) -> Callable[..., Any]:
    """Return a callback that refuses other names."""
    return within(f"one of {', '.join(names)}", lambda value: value in names)


def is_method(param: typer.CallbackParam, value: Any) -> Any:
    """Refuse other names of methods."""
    refuse_model(param.opts[0], value)
    return one_of(tuple(METHODS))(param, value)


def refuse_model(option: str, value: str) -> None:
    """Say what took the place of a method that there was."""
    if value == "model":
        raise InputError(
            f"{option} model is gone; auto has taken its place and does no worse, for any number "
            f"of sensors. Use {option} auto, or leave it out. Mappings of method model still load."
        )


def from_to(least: int, most: int) -> Callable[..., Any]:
    """Return a callback that refuses numbers out of a range."""
    return within(f"from {least} to {most}", lambda value: least <= value <= most)


is_share = within("strictly between 0 and 1", lambda value: 0.0 < value < 1.0)
is_positive = within("a finite number above 0", lambda value: 0.0 < value < float("inf"))
is_part = within("at least 0 and below 1", lambda value: 0.0 <= value < 1.0)
is_confidence = within("at least 0.5 and below 1", lambda value: 0.5 <= value < 1.0)
is_probability = within("from 0 to 1", lambda value: 0.0 <= value <= 1.0)
is_count = within("at least 1", lambda value: value >= 1)
is_seed = from_to(0, MOST_SEED)


# --- What single options mean --------------------------------------------------------------


def name_list(option: str, text: str | None) -> list[str]:
    """Return what a list names; a name with a comma in it goes in double quotes."""
    try:
        found = next(csv.reader([text or ""], skipinitialspace=True), [])
    except csv.Error as error:
        raise InputError(f"{option} is not a list of names ({error}), got {text!r}.") from None
    return [name for name in found if name]


def _decision_rule(text: str) -> str | dict[str, float]:
    """Return what --decide names: a rule, or what it costs to miss some classes."""
    if text in ("balanced", "likely"):
        return text
    kind, equals, listed = text.partition("=")
    if kind != "cost" or not equals:
        raise InputError(
            "--decide must be balanced, likely or cost=CLASS:COST,..., such as cost=fall:10, "
            f"got {text!r}."
        )
    costs: dict[str, float] = {}
    for each in name_list("--decide", listed):
        name, cost = _class_and_cost(each, text)
        if name in costs:
            raise InputError(
                f"--decide gives the class {name!r} two costs, got {text!r}. Give one."
            )
        costs[name] = cost
    if not costs:
        raise InputError(f"--decide names no class, got {text!r}. Write cost=fall:10, say.")
    return costs


def _class_and_cost(each: str, text: str) -> tuple[str, float]:
    name, _, written = each.rpartition(":")  # a class may hold the sign, a cost cannot
    try:
        cost = float(written)
    except ValueError:
        cost = float("nan")
    if not name or not 0.0 < cost <= MOST_COST:
        raise InputError(
            f"--decide: {each!r} must be a class, a colon and a cost above 0 and at most "
            f"{MOST_COST:g}, got {text!r}. A class with a comma goes in double quotes."
        )
    return name, cost


def by_column(
    option: str, given: list[str] | None, default: Any, read: Callable[[str], Any]
) -> ByColumn:
    """Return what was chosen by "8" for all columns and by "hall=4" for one of them.

    ``given``: as typed: the option may be repeated, and one text may list several choices.
    ``read``: returns the value of a text; raises ValueError with what is wanted.
    """
    found: dict[str | None, Any] = {}
    for typed in given or ():
        for choice in name_list(option, typed):
            column, value = _column_and_value(option, choice, read, typed)
            if column in found:
                whose = "all columns" if column is None else f"column {column!r}"
                raise InputError(f"{option} was given twice for {whose}. Give it once.")
            found[column] = value
    common = found.pop(None, default)
    return ByColumn(common, {str(column): value for column, value in found.items()})


def _column_and_value(
    option: str, choice: str, read: Callable[[str], Any], typed: str
) -> tuple[str | None, Any]:
    column, equals, text = choice.rpartition("=")  # a name may hold the sign, a value cannot
    try:
        return (column if equals else None), read(text)
    except ValueError as error:
        whose = f" for {column!r}" if equals else ""
        hint = " A name with a comma goes in double quotes." if "," in typed else ""
        raise InputError(
            f"{option} must be {error}, got {text or repr(text)}{whose}.{hint}"
        ) from None


def mapper_options(
    kernel: str,
    loss: str | None,
    decide: str,
    seed: int,
    binning: list[str] | None,
    bins: list[str] | None,
) -> dict[str, Any]:
    """Return the mapper's parameters that `learn` and `frontier` both have."""
    given = {} if loss is None else {"loss": loss}
    return given | {
        "kernel": kernel,
        "decide": _decision_rule(decide),
        "random_state": seed,
        "binning": by_column("--binning", binning, "merged", name_among(BINNINGS, MERGED_BINS)),
        "n_bins": by_column("--bins", bins, 10, whole_number(2, MOST_BINS)),
    }


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers in a range."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return number

    return read


def name_among(names: Collection[str], remark: str = "") -> Callable[[str], str]:
    """Return a reader of one of several names; ``remark``: what else to say of any other."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"one of {', '.join(names)}" + (f" ({remark})" if remark else ""))
        return text

    return read


def bytes_of(option: str, text: str | None) -> int | None:
    """Return a size such as 500M or 8G in bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    count = 0 if found is None else int(found[1]) << _UNITS[found[2].upper()]
    if count == 0:
        raise InputError(f"{option} must be a size above 0 such as 500M or 8G, got {text!r}.")
    return count


def seconds_of(option: str, text: str | None) -> float | None:
    """Return a time such as 60s, 5m or 1h in seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", text.strip())
    seconds = 0.0 if found is None else float(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _LONGEST:
        raise InputError(
            f"{option} must be a time above 0 and at most {_LONGEST / 3600:g}h, such as 60s, 5m or "
            f"1h, got {text!r}."
        )
    return seconds


# --- Options of several commands -----------------------------------------------------------

Public = Annotated[str, option("COLUMN", "The public fact, to be inferred.")]
Private = Annotated[
    list[str], option("COLUMN", "A private fact, to be hidden; may be given several times.")
]
Sensors = Annotated[
    str | None, option("COLUMNS", "Sensors, separated by commas. [default: the rest]")
]
Exclude = Annotated[str | None, option("COLUMNS", "Columns to leave alone, separated by commas.")]
KernelName = Annotated[str, option("NAME", ", ".join(KERNELS) + ".", one_of(KERNELS))]
LossName = Annotated[
    str | None,
    option(
        "NAME",
        ", ".join(LOSSES) + "; not for --method auto. [default: logistic]",
        one_of(LOSSES),
    ),
]
Decide = Annotated[
    str,
    option(
        "RULE",
        "What decisions are good for: balanced (accuracy, averaged over the classes), likely "
        "(fewest errors), or cost=CLASS:10,... (what it costs to miss a class; others cost 1).",
    ),
]
Binning = Annotated[
    list[str] | None,
    option(
        "[COLUMN=]NAME",
        "How numbers become codes, in all columns or in one: "
        f"{', '.join(BINNINGS)}; may be given several times. [default: merged]",
    ),
]
Bins = Annotated[
    list[str] | None,
    option(
        "[COLUMN=]N",
        "Most bins of the numeric columns, or of one; may be given several times. [default: 10]",
    ),
]
Holdout = Annotated[float, option("P", "Share of the rows to keep for audits.", is_part)]
Group = Annotated[
    str | None,
    option(
        "GROUP",
        "Rows with the same value stay together, learned from or held out: a column; date:day, "
        ":hour or :week of a column of times; or rows:60, that many successive rows.",
    ),
]
Seed = Annotated[int, option("N", "Seed of the split and the learning.", is_seed)]
Dask = Annotated[
    str | None,
    option(
        "ADDRESS", "Work on a Dask cluster: its scheduler's address, or local:N for N workers here."
    ),
]
Quiet = Annotated[
    bool, flag("--quiet", "Print only warnings, errors and limits that are not met.", "-q")
]
AuditGroup = Annotated[
    str | None,
    option(
        "GROUP",
        "Rows with the same value count as one observation: a column, date:day (hour, week) "
        "or rows:60. [default: as learned]",
    ),
]
AssumeIndependent = Annotated[
    bool,
    flag(
        "--assume-independent",
        "Rows, or groups if named, are independent although they do not look like it.",
    ),
]
Json = Annotated[bool, flag("--json", "Print everything as JSON.")]
PointConfidence = Annotated[float, option("P", "Of each bound.", is_confidence)]
Budget = Annotated[
    float | None,
    option(
        "E", "What one device may release in all, by C1, in nats. [default: no limit]", is_positive
    ),
]
_PERIOD = "How long a symbol is remembered."
_is_period = within("from 1 to 4294967294 seconds", lambda value: 1 <= value < 2**32 - 1)
Period = Annotated[int, option("SECONDS", _PERIOD, _is_period)]
_REPEAT = (
    "Which readings of a period share a symbol: those with the same code, all (period), "
    "or none (never)."
)
Repeat = Annotated[
    str | None,
    option(
        "NAME",
        f"{_REPEAT} [default: with --stay never or code, whichever tells less in a day; else code]",
        one_of(REPEATS),
    ),
]
PrivateStay = Annotated[
    str | None,
    option(
        "P[,P...]",
        "Probability that the private fact is the same in the next round: one, or one for each "
        "class; 1 if it never changes. [default: nothing is assumed]",
    ),
]
PolicyRows = Annotated[
    list[Path] | None,
    option(
        "TABLE",
        "Labelled rows, to estimate what a day tells under each --repeat; with --stay. [default: "
        "the worst that the tables allow]",
    ),
]
_SITES = " [default: the site's]"
OwnPeriod = Annotated[int | None, option("SECONDS", _PERIOD + _SITES, _is_period)]
OwnRepeat = Annotated[str | None, option("NAME", _REPEAT + _SITES, one_of(REPEATS))]
Anyway = Annotated[bool, flag("--anyway", "Warn only if the budget lasts less than a day.")]
SiteFolder = Annotated[
    Path | None,
    option("FOLDER", "Folder that `discreet init` wrote. [default: this one, or site in it]"),
]


# --- A file of options ----------------------------------------------------------------------

_ARGUMENTS = {"tables": "table"}  # what the file calls them
_ABOUT_THE_FILE = ("config", "config_out", "help")
_MOST_BYTES = 1 << 20
_ADVICE = "Name a file that `discreet learn --write-config` wrote."


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Let a file say what was not typed: the callback of `--config`."""
    if path is not None:
        names = [each.name for each in context.command.params if each.name]
        known = {_key(name): name for name in names if name not in _ABOUT_THE_FILE}
        found = _load(path)
        for key, value in found.items():
            if key not in known:
                raise InputError(
                    f"--config {path}: {shown(key)} is no option of {context.command_path}, which "
                    f"has {', '.join(known)}."
                )
            if not isinstance(value, str | int | float | list):
                raise InputError(
                    f"--config {path}: {key} must be a text, a number, true, false or a list of "
                    f"texts, got {shown(value)}."
                )
        context.default_map = {known[key]: value for key, value in found.items()}
    return path


def _load(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()[: _MOST_BYTES + 1]
        if len(data) > _MOST_BYTES:
            raise InputError(f"--config {path} is larger than 1 MiB. Name a file of options.")
        return tomllib.loads(data.decode())
    except OSError as error:
        raise InputError(f"--config {path}: cannot be read ({error.strerror}). {_ADVICE}") from None
    except ValueError as error:  # of TOML or of UTF-8
        raise InputError(f"--config {path} is no TOML file: {error}. {_ADVICE}") from None


def write_config(context: typer.Context, path: Path) -> None:
    """Write the options that were given, typed or by another file."""
    lines = [f"{_key(each.name)} = {_in_toml(value)}\n" for each, value in _given(context)]
    write_whole(path, "".join(lines))


def same_command(context: typer.Context, without: Collection[str] = ()) -> list[str]:
    """Return the command with the options that were given, those of a file written out.

    ``without``: names of parameters to leave out.
    """
    found = context.command_path.split()
    for each, value in _given(context):
        if each.name not in without:
            found += _typed(each, value)
    return found


def _given(context: typer.Context) -> list[tuple[Any, Any]]:
    """Return what was typed or stands in a file of options, but for the names of such files."""
    found = []
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        known = source is not None and source.name in ("COMMANDLINE", "DEFAULT_MAP")
        if known and each.name not in _ABOUT_THE_FILE:
            found.append((each, context.params[each.name or ""]))
    return found


def _typed(param: Any, value: Any) -> list[str]:
    """Return what to type for a parameter to have a value."""
    values = value if isinstance(value, list | tuple) else [value]
    if param.param_type_name == "argument":
        return [as_argument(each) for each in values]
    if getattr(param, "is_flag", False):
        return [param.opts[0]] if value else []
    texts = [f"{each:.12g}" if isinstance(each, float) else str(each) for each in values]
    return [word for text in texts for word in (param.opts[0], text)]


def _key(name: str | None) -> str:
    return _ARGUMENTS.get(name or "", (name or "").removeprefix("as_").replace("_", "-"))


def _in_toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_in_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    # A JSON string is one of TOML, but for the one control character that JSON leaves as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
