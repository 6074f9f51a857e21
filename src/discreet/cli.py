"""The command line: parse, call, print.

The numerical libraries are imported by the commands that need them, not here, so that
``discreet --help`` answers at once. Errors are one message on stderr and exit code 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet import __version__
from discreet.errors import DiscreetError, StoppedError

app = typer.Typer(
    help="Sensors that answer one question and keep quiet about the rest.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

BAD_INPUT = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line; every foreseen mistake ends in one message."""
    try:
        app(standalone_mode=True)
    except StoppedError as error:
        _fail(str(error), INTERRUPTED)
    except KeyboardInterrupt:
        _fail("Stopped. Nothing was written.", INTERRUPTED)
    except DiscreetError as error:
        _fail(str(error), BAD_INPUT)


def _fail(message: str, code: int) -> None:
    print(f"discreet: {message}", file=sys.stderr)
    sys.exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Sensors that answer one question and keep quiet about the rest."""


@app.command()
def learn(
    table: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file, one row per moment.")],
    public: Annotated[str, typer.Option(help="Column with the public fact.")],
    private: Annotated[
        list[str], typer.Option(help="Column with a private fact; may be given several times.")
    ],
    out: Annotated[Path, typer.Option(help="Mapping file to write.")],
    method: Annotated[str, typer.Option(help="npo, bayes-error or ndd.")] = "npo",
    sensors: Annotated[
        str | None, typer.Option(help="Sensor columns, separated by commas. [default: the rest]")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option(help="Columns to leave alone, separated by commas.")
    ] = None,
    symbols: Annotated[int, typer.Option(help="Symbols that each sensor may send.")] = 2,
    kernel: Annotated[
        str, typer.Option(help="product, anova, inverse-multiquadric or count.")
    ] = "product",
    loss: Annotated[str, typer.Option(help="logistic, exponential, hinge or square.")] = "logistic",
    ratio: Annotated[
        float | None,
        typer.Option(help="Share of the largest private risk to keep. [default: 0.999]"),
    ] = None,
    max_advantage: Annotated[
        float | None, typer.Option(help="No attacker may beat guessing by more than this.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="No symbol may shift a private log-probability by more.")
    ] = None,
    ldp_epsilon: Annotated[
        float | None, typer.Option(help="Local differential privacy of every sensor.")
    ] = None,
    binning: Annotated[
        str, typer.Option(help="quantile, uniform or supervised, for numeric columns.")
    ] = "quantile",
    bins: Annotated[int, typer.Option(help="Most bins of a numeric column.")] = 10,
    holdout: Annotated[
        float, typer.Option(help="Share of the rows to set aside for the audit.")
    ] = 0.3,
    group: Annotated[
        str | None, typer.Option(help="Column whose rows stay together, such as the day.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the learning.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Learn a private mapping from a table and write it to a file.

    Part of the table is set aside and not looked at, so that an audit can use it.
    Ctrl-C stops early and keeps the best mapping so far; twice, and nothing is kept.

    Example:

        discreet learn home.csv --public fall --private who --out home.json
    """
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
    from discreet.console import run_learn

    run_learn(
        table=table,
        public=public,
        private=private,
        out=out,
        method=method,
        sensors=_names(sensors),
        exclude=_names(exclude) or [],
        holdout=holdout,
        group=group,
        seed=seed,
        options=options,
        quiet=quiet,
    )


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option("--out", help="Folder for the made-up table and the mapping.")
    ] = Path("discreet-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the made-up data.")] = 0,
) -> None:
    """Make up a home, learn its mapping and show who can infer what from the symbols.

    Example:

        discreet demo
    """
    from discreet.demo import run_demo

    run_demo(folder, seed)


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]
