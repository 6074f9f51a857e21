"""The options of the commands: their types, their help, and what each may be.

What can be told from the options alone is checked here, before any file is opened; each
mistake is one message. The types are used by the commands in ``cli``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.errors import InputError

MOST_SYMBOLS = 256
MOST_COST = 1e9
MOST_BINS = 1_000
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}  # as powers of two
MOST_SEED = 2**32 - 1  # what NumPy's older generator takes, which scikit-learn seeds

# The names that the options take. They live with the code they name, too far for a quick
# `--help`; a test holds the two lists against each other.
METHODS = ("npo", "model", "bayes-error", "ndd", "randomized-response")
KERNELS = ("product", "anova", "inverse-multiquadric", "count")
LOSSES = ("logistic", "exponential", "hinge", "square")
EXPERIMENTS = ("correlation", "threshold-ratio", "skewed-prior", "m-ary", "adult", "opportunity")
BENCHMARKS = ("one-pass", "logistic", "design", "small")
TARGETS = ("python", "micropython", "c", "esphome")
REPEATS = ("code", "period", "never")
BINNINGS = ("quantile", "uniform", "supervised", "categories", "codes")
# Python parameters as the command line calls them, for errors that come from further down.
OPTION_NAMES = {
    "privacy_ratio": "--ratio",
    "max_advantage": "--max-advantage",
    "ldp_epsilon": "--ldp-epsilon",
    "n_symbols": "--symbols",
    "binning": "--binning",
    "n_bins": "--bins",
    "random_state": "--seed",
    "decide": "--decide",
    "beyond_answer": "--beyond-answer",
    "assume_independent": "--assume-independent",
}


# --- Checks of single options --------------------------------------------------------------


def _within(wanted: str, fits: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return a callback that refuses values that do not fit and says what is wanted."""

    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and not fits(value):
            raise InputError(f"{param.opts[0]} must be {wanted}, got {value}.")
        return value

    return check


def _one_of(names: tuple[str, ...]) -> Callable[..., Any]:
    return _within(f"one of {', '.join(names)}", lambda value: value in names)


_share = _within("strictly between 0 and 1", lambda value: 0.0 < value < 1.0)
_positive = _within("a finite number above 0", lambda value: 0.0 < value < float("inf"))
_holdout = _within("at least 0 and below 1", lambda value: 0.0 <= value < 1.0)
_confidence = _within("at least 0.5 and below 1", lambda value: 0.5 <= value < 1.0)
_releases = _within("at least 1", lambda value: value >= 1)
_period = _within("from 1 to 4294967294 seconds", lambda value: 1 <= value < 2**32 - 1)
_jobs = _within("from 1 to 1024", lambda value: 1 <= value <= 1024)
_rounds = _within("from 1 to 1000", lambda value: 1 <= value <= 1_000)
_rows = _within("from 1000 to 100000000", lambda value: 1_000 <= value <= 100_000_000)
_sensors = _within("from 1 to 1000", lambda value: 1 <= value <= 1_000)
_symbols = _within(f"from 2 to {MOST_SYMBOLS}", lambda value: 2 <= value <= MOST_SYMBOLS)
_classes = _within("from 2 to 1000", lambda value: 2 <= value <= 1_000)
_draws = _within("from 1 to 10000", lambda value: 1 <= value <= 10_000)
_seed = _within(f"from 0 to {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED)


def check_wishes(method: str, wishes: dict[str, float | None]) -> None:
    """Refuse wishes for privacy that contradict each other or the method."""
    given = [OPTION_NAMES.get(name, f"--{name}") for name in wishes if wishes[name] is not None]
    if method == "ndd" and given:
        raise InputError(
            f"{given[0]} was given, but --method ndd protects nothing. Leave {given[0]} out, or "
            "use --method npo."
        )
    deaf = [name for name in given if name != "--ldp-epsilon"]
    if method == "randomized-response" and deaf:
        raise InputError(
            f"{deaf[0]} was given, but --method randomized-response does not look at the private "
            "fact. Give --ldp-epsilon, the budget of every sensor, or use --method npo."
        )
    searched = [name for name in given if name in ("--max-advantage", "--epsilon")]
    if "--ratio" in given and searched:
        raise InputError(
            f"--ratio was given together with {searched[0]}, which searches for the ratio itself. "
            "Give one or the other."
        )


def check_either(jobs: int | None, dask: str | None) -> None:
    """Refuse processes of this machine together with a cluster."""
    if jobs is not None and dask is not None:
        raise InputError(
            f"--jobs {jobs} was given together with --dask {dask}, which has workers of its own. "
            "Give one or the other."
        )


def name_list(option: str, text: str | None) -> list[str]:
    """Return what a list names; a name with a comma in it goes in double quotes."""
    try:
        found = next(csv.reader([text or ""], skipinitialspace=True), [])
    except csv.Error as error:
        raise InputError(f"{option} is not a list of names ({error}), got {text!r}.") from None
    return [name for name in found if name]


def byte_count(text: str | None) -> int | None:
    """Return a size such as 500M or 8G in bytes.

    Raises
    ------
    InputError
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    count = 0 if found is None else int(found[1]) << _UNITS[found[2].upper()]
    if count == 0:
        raise InputError(f"--memory must be a size above 0 such as 500M or 8G, got {text!r}.")
    return count


def decision_rule(text: str) -> str | dict[str, float]:
    """Return what --decide names: a rule, or what it costs to miss some classes.

    Raises
    ------
    InputError
    """
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


# --- Options by column ---------------------------------------------------------------------


Choice = tuple[Any, dict[str, Any]]
"""What is chosen for all columns, and for single ones by name."""


def choices_by_column(
    symbols: list[str] | None, binning: list[str] | None, bins: list[str] | None
) -> dict[str, Choice]:
    """Return the mapper's parameters that may differ from column to column."""
    n_symbols, n_bins = whole_number(2, MOST_SYMBOLS), whole_number(2, MOST_BINS)
    return {
        "n_symbols": _by_column("--symbols", symbols, 2, n_symbols),
        "binning": _by_column("--binning", binning, "quantile", name_among(BINNINGS)),
        "n_bins": _by_column("--bins", bins, 10, n_bins),
    }


def _by_column(
    option: str, given: list[str] | None, default: Any, read: Callable[[str], Any]
) -> Choice:
    """Return what was chosen by "8" for all columns and by "hall=4" for one of them.

    Parameters
    ----------
    given : list of str or None
        As typed: the option may be repeated, and one text may list several choices.
    read : callable
        Returns the value of a text; raises ValueError with what is wanted.
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
    return common, {str(column): value for column, value in found.items()}


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


def name_among(names: tuple[str, ...]) -> Callable[[str], str]:
    """Return a reader of one of several names."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return text

    return read


# --- Lists ---------------------------------------------------------------------------------


def list_of(option: str, text: str, read: Callable[[str], Any]) -> list[Any]:
    """Return the values that a list holds, separated by commas."""
    found = []
    for each in name_list(option, text):
        try:
            found.append(read(each))
        except ValueError as error:
            raise InputError(f"{option}: each must be {error}, got {each}.") from None
    if not found:
        raise InputError(f"{option} is empty. Give at least one, or leave it out.")
    return found


def share_of_risk(text: str) -> float:
    """Read a ratio."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0.0 < number < 1.0:
        raise ValueError("a number strictly between 0 and 1")
    return number


# --- The options of `learn` ----------------------------------------------------------------

Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file, a row per moment.")
]
Tables = Annotated[
    list[Path],
    typer.Argument(
        metavar="TABLE...",
        help="CSV, TSV or Parquet file, a row per moment; several files, or a pattern, are one "
        "table.",
    ),
]
Public = Annotated[str, typer.Option(metavar="COLUMN", help="The public fact, to be inferred.")]
Private = Annotated[
    list[str],
    typer.Option(
        metavar="COLUMN", help="A private fact, to be hidden; may be given several times."
    ),
]
Out = Annotated[Path, typer.Option(metavar="FILE", help="Mapping file to write.")]
Method = Annotated[
    str, typer.Option(metavar="NAME", callback=_one_of(METHODS), help=", ".join(METHODS) + ".")
]
Sensors = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="Sensors, separated by commas. [default: the rest]"),
]
Exclude = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="Columns to leave alone, separated by commas."),
]
Symbols = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]N",
        help="Symbols that each sensor may send, or that of one column; may be given several "
        "times. [default: 2]",
    ),
]
KernelName = Annotated[
    str, typer.Option(metavar="NAME", callback=_one_of(KERNELS), help=", ".join(KERNELS) + ".")
]
LossName = Annotated[
    str, typer.Option(metavar="NAME", callback=_one_of(LOSSES), help=", ".join(LOSSES) + ".")
]
Ratio = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        callback=_share,
        help="Share of the largest private risk to keep. [default: 0.998]",
    ),
]
MaxAdvantage = Annotated[
    float | None,
    typer.Option(
        metavar="A",
        callback=_share,
        help="Ask instead that no attacker beat guessing by more than this.",
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        metavar="E",
        callback=_positive,
        help="Ask that no symbols shift the log-probability of a private class by more.",
    ),
]
LdpEpsilon = Annotated[
    float | None,
    typer.Option(
        metavar="E", callback=_positive, help="Local differential privacy of every sensor."
    ),
]
Decide = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        help="What decisions are good for: balanced (accuracy, averaged over the classes), likely "
        "(fewest errors), or cost=CLASS:10,... (what it costs to miss a class; others cost 1).",
    ),
]
Binning = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]NAME",
        help="How numbers become codes, in all columns or in one: "
        f"{', '.join(BINNINGS)}; may be given several times. [default: quantile]",
    ),
]
Bins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]N",
        help="Most bins of the numeric columns, or of one; may be given several times. "
        "[default: 10]",
    ),
]
Holdout = Annotated[
    float,
    typer.Option(metavar="P", callback=_holdout, help="Share of the rows to keep for audits."),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="GROUP",
        help="Rows that agree here stay together, learned from or held out: a column; of a column "
        "of times date:day, :hour or :week; or rows:60, that many successive rows.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", callback=_seed, help="Seed of the split and the learning.")
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Most memory to learn in, such as 500M or 8G; a Parquet table that takes more is "
        "streamed. [default: 4G, more where streaming is not possible]",
    ),
]
WorkDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Where a streamed table is packed. [default: beside the mapping]"
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Work on a Dask cluster: its scheduler's address, or local:N for N workers here.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")]


# --- The options of `audit` ----------------------------------------------------------------

MappingFile = Annotated[Path, typer.Argument(metavar="MAPPING", help="Mapping file to audit.")]
AuditTables = Annotated[
    list[Path],
    typer.Argument(
        metavar="TABLE...",
        help="Rows to audit with. Of the table that was learned from, the held-out part is used.",
    ),
]
PublicColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The public fact. [default: as the mapping calls it]"),
]
PrivateColumns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A private fact, in the mapping's order. [default: as the mapping calls them]",
    ),
]
AuditGroup = Annotated[
    str | None,
    typer.Option(
        metavar="GROUP",
        help="Rows that agree here count as one observation: a column, date:day (hour, week) or "
        "rows:60. [default: as learned]",
    ),
]
AssumeIndependent = Annotated[
    bool,
    typer.Option(
        "--assume-independent",
        help="Rows, or groups if named, are independent although they do not look like it.",
    ),
]
AdvantageLimit = Annotated[
    float | None,
    typer.Option(
        metavar="A", callback=_share, help="Limit on how far any attacker may beat guessing."
    ),
]
BeyondAnswer = Annotated[
    bool,
    typer.Option(
        "--beyond-answer",
        help="--max-advantage limits what an attacker gains who is told the public fact.",
    ),
]
Cap = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=_releases,
        help="Certify a row drawn at random, a group counting with at most N rows of a class.",
    ),
]
IndependentReleases = Annotated[
    bool,
    typer.Option(
        "--independent-releases",
        help="Declare that readings of different reports are independent given the private fact.",
    ),
]
EpsilonLimit = Annotated[
    float | None,
    typer.Option(
        metavar="E", callback=_positive, help="Limit on the shift of any log-probability."
    ),
]
Confidence = Annotated[
    float,
    typer.Option(metavar="P", callback=_confidence, help="Of each bound, and of all limits."),
]
Releases = Annotated[
    int, typer.Option(metavar="N", callback=_releases, help="How many reports to add up.")
]
Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a report to read, sign and print.")
]
FrontierFile = Annotated[
    Path | None,
    typer.Option(
        "--frontier", metavar="FILE", help="What `discreet frontier` wrote, for the report."
    ),
]
AuditSeed = Annotated[
    int,
    typer.Option(metavar="N", callback=_seed, help="Seed of the symbols drawn and of splits."),
]


# --- The options of `plan` -----------------------------------------------------------------

PlannedMapping = Annotated[
    Path | None,
    typer.Argument(metavar="MAPPING", help="Mapping file whose tables are meant."),
]
PlannedLimit = Annotated[
    float,
    typer.Option(
        "--max-advantage",
        metavar="A",
        callback=_share,
        help="Limit on how far any attacker may beat guessing.",
    ),
]
PlannedSensors = Annotated[
    int | None,
    typer.Option("--sensors", metavar="N", callback=_sensors, help="Sensors, without a mapping."),
]
PlannedSymbols = Annotated[
    int | None,
    typer.Option("--symbols", metavar="N", callback=_symbols, help="Symbols of each. [default: 2]"),
]
Noise = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        callback=_holdout,
        help="Chance that a symbol is not that of the reading. [default: 0.1]",
    ),
]
ClassShare = Annotated[
    float | None,
    typer.Option(
        "--share",
        metavar="P",
        callback=_share,
        help="Share of the rarest private class. [default: all alike]",
    ),
]
Classes = Annotated[
    int | None,
    typer.Option(metavar="N", callback=_classes, help="Classes of the private fact. [default: 2]"),
]
Facts = Annotated[
    int | None,
    typer.Option(
        metavar="N", callback=_releases, help="Private facts that share the error. [default: 1]"
    ),
]
GroupSize = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=_releases,
        help="Rows of a group: days or homes are counted, not rows.",
    ),
]
Leak = Annotated[
    float,
    typer.Option(metavar="A", callback=_holdout, help="True advantage of the best attacker."),
]


# --- The options of `frontier` -------------------------------------------------------------

FrontierOut = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="JSON file for the points; what it has is not computed again."
    ),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Picture to draw, an .svg or .png file.")
]
Methods = Annotated[
    str, typer.Option(metavar="NAMES", help=f"Of {', '.join(METHODS)}; separated by commas.")
]
Ratios = Annotated[
    str,
    typer.Option(
        metavar="P,P", help="Shares of the largest private risk to keep, separated by commas."
    ),
]
SymbolCounts = Annotated[
    str, typer.Option("--symbols", metavar="N,N", help="Symbols of each sensor, likewise.")
]
PointConfidence = Annotated[
    float,
    typer.Option("--confidence", metavar="P", callback=_confidence, help="Of each bound."),
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", callback=_jobs, help="Processes. [default: one for each core]"),
]


# --- The options of `reproduce` ------------------------------------------------------------

Experiments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help=f"Of {', '.join(EXPERIMENTS)}."),
]
AllExperiments = Annotated[
    bool, typer.Option("--all", help="All of them, and one page with everything.")
]
Draws = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=_draws,
        help="Draws of rows to learn from. [default: 10, for adult 20]",
    ),
]
ResultsFolder = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FOLDER", help="Where JSON, pictures and the page go; made if need be."
    ),
]
DataPath = Annotated[
    Path | None,
    typer.Option("--data", metavar="PATH", help="File of the data set, or a folder that has it."),
]
DrawSeed = Annotated[int, typer.Option(metavar="N", callback=_seed, help="Seed of the first draw.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute again what the folder has already.")]


# --- The options of `export` ---------------------------------------------------------------

ExportedMapping = Annotated[
    Path, typer.Argument(metavar="MAPPING", help="Mapping file to take the tables from.")
]
Target = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="NAME",
        callback=_one_of(TARGETS),
        help=f"What the devices run: {', '.join(TARGETS)}.",
    ),
]
ExportOut = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="New folder to write.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Ed25519 key that signs bundles for Python; made if it is not there. [default: the "
        "mapping's name with .key]",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="E",
        callback=_positive,
        help="What one device may release in all, by C1, in nats. [default: no limit]",
    ),
]
Period = Annotated[
    int,
    typer.Option(metavar="SECONDS", callback=_period, help="How long a symbol is remembered."),
]
Repeat = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=_one_of(REPEATS),
        help="Which readings of a period share a symbol: those with the same code, all (period), "
        "or none (never).",
    ),
]


# --- The options of `bench` ----------------------------------------------------------------

Benchmarks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help=f"Of {', '.join(BENCHMARKS)}. [default: all]"),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Small tables and few rounds, to see that it works.")
]
Rounds = Annotated[
    int | None,
    typer.Option(metavar="N", callback=_rounds, help="Rounds. [default: 3 to 11]"),
]
BenchRows = Annotated[
    int | None,
    typer.Option(
        "--rows", metavar="N", callback=_rows, help="Of the large table. [default: 1000000]"
    ),
]
BenchSensors = Annotated[
    int | None,
    typer.Option("--sensors", metavar="N", callback=_sensors, help="Likewise. [default: 32]"),
]
BenchOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="JSON file for the times, to compare later."),
]
Compared = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        "--compare", metavar="OLD NEW", help="Measure nothing; compare two files of earlier runs."
    ),
]


# --- The options of `demo` -----------------------------------------------------------------

DemoSeed = Annotated[int, typer.Option(metavar="N", callback=_seed, help="Seed of the rows.")]
DEMO_SECONDS = 8.0
DemoSeconds = Annotated[
    float | None,
    typer.Option(
        "--for",
        metavar="SECONDS",
        min=0,
        max=86_400,
        help="How long the network runs once it is up; 0 leaves it out. [default: 8]",
    ),
]
DemoKeep = Annotated[
    bool, typer.Option("--keep", help="Leave the network up until Ctrl-C, to look around.")
]
