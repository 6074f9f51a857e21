"""The command line: parse, call, print.

The numerical libraries are imported by the commands that need them, not here, so that
``discreet --help`` answers at once. Every mistake is one message on stderr and exit code 2.
What can be told from the options alone is checked here, before any file is opened.
"""

from __future__ import annotations

import csv
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from discreet import __version__
from discreet.errors import DiscreetError, InputError, StoppedError

BAD_INPUT = 2
INTERRUPTED = 130
MOST_SYMBOLS = 256
MOST_BINS = 1_000
MOST_SEED = 2**32 - 1  # what NumPy's older generator takes, which scikit-learn seeds

# The names that the options take. They live with the code they name, too far for a quick
# `--help`; a test holds the two lists against each other.
METHODS = ("npo", "bayes-error", "ndd")
KERNELS = ("product", "anova", "inverse-multiquadric", "count")
LOSSES = ("logistic", "exponential", "hinge", "square")
BINNINGS = ("quantile", "uniform", "supervised", "categories", "codes")

# Python parameters as the command line calls them, for errors that come from further down.
_OPTION_NAMES = {
    "privacy_ratio": "--ratio",
    "max_advantage": "--max-advantage",
    "ldp_epsilon": "--ldp-epsilon",
    "n_symbols": "--symbols",
    "n_bins": "--bins",
    "random_state": "--seed",
}

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# --- Running -------------------------------------------------------------------------------


def main() -> None:
    """Run the command line; every foreseen mistake ends in one message."""
    if not sys.warnoptions:  # libraries speak to programmers; what users need is said in words
        warnings.simplefilter("ignore")
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal cannot write is no reason
        sys.stdout.reconfigure(errors="backslashreplace")  # to lose the result
    try:
        code = app(prog_name="discreet", standalone_mode=False)
    except StoppedError as error:
        _fail(str(error), INTERRUPTED)
    except DiscreetError as error:
        _fail(in_option_terms(str(error)), BAD_INPUT)
    except Exception as error:
        # Typer's own errors derive from Click's or, in newer versions, from a copy of them.
        if not hasattr(error, "format_message"):
            raise
        _fail(_usage_message(error, sys.argv[1:]), BAD_INPUT)
    sys.exit(code if isinstance(code, int) else 0)


def in_option_terms(message: str) -> str:
    """Return a message with Python's parameters called what the command line calls them.

    Quoted words are left alone: they are names from the table.
    """
    names = "|".join(_OPTION_NAMES)
    return re.sub(
        rf"(?<!['\"\w])({names})(?!['\"\w])", lambda found: _OPTION_NAMES[found[1]], message
    )


def _usage_message(error: Any, arguments: Sequence[str]) -> str:
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "discreet"
    text = " ".join(error.format_message().split())
    seen = _value_of(getattr(error, "param", None), arguments)
    if seen is not None and repr(seen) not in text:
        text = f"{text.rstrip('.')}, got {seen!r}"
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} See: {command} --help"


def _value_of(param: Any, arguments: Sequence[str]) -> str | None:
    """Return what was typed for an option, which Typer does not always repeat."""
    for option in getattr(param, "opts", ()):
        for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
            if argument == option:
                return following
            if argument.startswith(f"{option}="):
                return argument.removeprefix(f"{option}=")
    return None


def _fail(message: str, code: int) -> NoReturn:
    print(f"discreet: {message}".replace("\n", " "), file=sys.stderr)
    sys.exit(code)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make Ctrl-C an error of ours before Typer makes a bare exit code of it."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise StoppedError(str(stop) or "stopped. No mapping was written.") from None


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
_seed = _within(f"from 0 to {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED)
_symbols = _within(f"from 2 to {MOST_SYMBOLS}", lambda value: 2 <= value <= MOST_SYMBOLS)
_bins = _within(f"from 2 to {MOST_BINS}", lambda value: 2 <= value <= MOST_BINS)


def _check_wishes(method: str, wishes: dict[str, float | None]) -> None:
    """Refuse wishes for privacy that contradict each other or the method."""
    given = [name for name, value in wishes.items() if value is not None]
    if method == "ndd" and given:
        raise InputError(
            f"{given[0]} was given, but --method ndd protects nothing. Leave {given[0]} out, or "
            "use --method npo."
        )
    searched = [name for name in given if name in ("--max-advantage", "--epsilon")]
    if "--ratio" in given and searched:
        raise InputError(
            f"--ratio was given together with {searched[0]}, which searches for the ratio itself. "
            "Give one or the other."
        )


def _names(text: str | None) -> list[str] | None:
    """Return the column names in a list; a name with a comma in it goes in double quotes."""
    if text is None:
        return None
    return [name for name in next(csv.reader([text], skipinitialspace=True), []) if name]


# --- Commands ------------------------------------------------------------------------------


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"discreet {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Sensors that answer one question and keep quiet about the rest.

    Example:

        discreet demo
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def learn(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file, a row per moment.")
    ],
    public: Annotated[str, typer.Option(metavar="COLUMN", help="The public fact, to be inferred.")],
    private: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN", help="A private fact, to be hidden; may be given several times."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Mapping file to write.")],
    method: Annotated[
        str, typer.Option(metavar="NAME", callback=_one_of(METHODS), help=", ".join(METHODS) + ".")
    ] = "npo",
    sensors: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Sensors, separated by commas. [default: the rest]"),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Columns to leave alone, separated by commas."),
    ] = None,
    symbols: Annotated[
        int,
        typer.Option(metavar="N", callback=_symbols, help="Symbols that each sensor may send."),
    ] = 2,
    kernel: Annotated[
        str, typer.Option(metavar="NAME", callback=_one_of(KERNELS), help=", ".join(KERNELS) + ".")
    ] = "product",
    loss: Annotated[
        str, typer.Option(metavar="NAME", callback=_one_of(LOSSES), help=", ".join(LOSSES) + ".")
    ] = "logistic",
    ratio: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            callback=_share,
            help="Share of the largest private risk to keep. [default: 0.998]",
        ),
    ] = None,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            metavar="A",
            callback=_share,
            help="Ask instead that no attacker beat guessing by more than this.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            callback=_positive,
            help="Ask that no symbols shift the log-probability of a private class by more.",
        ),
    ] = None,
    ldp_epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="E", callback=_positive, help="Local differential privacy of every sensor."
        ),
    ] = None,
    binning: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            callback=_one_of(BINNINGS),
            help=f"How numbers become codes: {', '.join(BINNINGS)}.",
        ),
    ] = "quantile",
    bins: Annotated[
        int, typer.Option(metavar="N", callback=_bins, help="Most bins of a numeric column.")
    ] = 10,
    holdout: Annotated[
        float,
        typer.Option(metavar="P", callback=_holdout, help="Share of the rows to keep for audits."),
    ] = 0.3,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows that agree here stay together, learned from or held out: the day of a "
            "time series.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", callback=_seed, help="Seed of the split and the learning.")
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
) -> None:
    """Learn a private mapping from a table and write it to a file.

    Part of the table is set aside and not looked at, so that an audit can use it.
    Ctrl-C stops early and keeps the best mapping so far; twice, and nothing is kept.

    Example:

        discreet learn home.csv --public fall --private who --out home.json

    A time series, no day of which is both learned from and held out:

        discreet learn t.csv --public use --private who --group day --out m.json
    """
    wishes = {
        "--ratio": ratio,
        "--max-advantage": max_advantage,
        "--epsilon": epsilon,
        "--ldp-epsilon": ldp_epsilon,
    }
    _check_wishes(method, wishes)
    options: dict[str, Any] = {
        "n_symbols": symbols,
        "kernel": kernel,
        "loss": loss,
        "privacy_ratio": ratio,
        "max_advantage": max_advantage,
        "epsilon": epsilon,
        "ldp_epsilon": ldp_epsilon,
        "binning": binning,
        "n_bins": bins,
        "random_state": seed,
    }
    with _interruptible():
        from discreet.console import run_learn
        from discreet.learning import Task, make_split

        task = Task(
            table=table,
            public=public,
            private=private,
            sensors=_names(sensors),
            exclude=_names(exclude) or [],
            method=method,
            split=make_split(holdout, seed, group),
            options=options,
        )
        run_learn(task, out, quiet=quiet)


@app.command()
def demo(
    folder: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Where the made-up table and mapping go."),
    ] = Path("discreet-demo"),
    seed: Annotated[
        int, typer.Option(metavar="N", callback=_seed, help="Seed of the made-up data.")
    ] = 0,
) -> None:
    """Learn from a made-up home and show who can infer what.

    No hardware and no data are needed; it takes some seconds.

    Example:

        discreet demo --out my-home
    """
    with _interruptible():
        from discreet.demo import run_demo

        run_demo(folder, seed)


if __name__ == "__main__":
    main()
