"""What an experiment consists of, so that running, printing and drawing are written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.paper.results import Column, Figure, Result, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Measured = Mapping[str, Mapping[str, float]]
"""Figures by method and column."""
Measure = Callable[[Any, int, Path | None], Measured]
"""Learns from one draw and measures: the setting, the seed, the data file."""


_ROUNDING = 1e-9


def _nothing(_: Any) -> Measured:
    return {}


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes
    ----------
    name : str
        As the command line calls it.
    title, origin : str
        What it shows, and where in the paper it stands.
    columns : sequence of Column
    methods : mapping of str to str
        Names of the methods and how they are shown, in the order of the table.
    settings : mapping of str to any
        By how they are shown; each is measured by itself.
    measure : callable
        What depends on the draw.
    picture : callable
        Draws a result with Matplotlib.
    choices : sequence of str
        What the paper leaves open, and what is done here.
    known : callable
        What depends on the setting only, once and not for every draw.
    printed : mapping of (setting, method) to figures by column
    findings : callable
        Says in words what a result shows.
    parameters : mapping
        Choices that a result depends on; with others it is computed anew.
    draws : int
        How many unless asked otherwise.
    data_file : str or None
        The data set's file, if it needs one.
    """

    name: str
    title: str
    origin: str
    columns: Sequence[Column]
    methods: Mapping[str, str]
    settings: Mapping[str, Any]
    measure: Measure
    picture: Callable[[Result], Picture]
    choices: Sequence[str]
    known: Callable[[Any], Measured] = _nothing
    printed: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    findings: Callable[[Result], list[str]] = lambda _: []
    parameters: Mapping[str, Any] = field(default_factory=dict)
    draws: int = 10
    data_file: str | None = None

    def rows(self, found: Mapping[str, Sequence[Measured]]) -> list[Row]:
        """Return the rows of the table.

        Parameters
        ----------
        found : mapping of str to sequence of Measured
            By setting: what each draw gave, in their order.
        """
        rows = []
        for setting in self.settings:
            for method, label in self.methods.items():
                ours = [each[method] for each in found.get(setting, ()) if method in each]
                printed = self.printed.get((setting, method), {})
                if ours or printed:
                    figures = {
                        column.key: Figure(
                            values=tuple(each[column.key] for each in ours if column.key in each),
                            printed=printed.get(column.key),
                        )
                        for column in self.columns
                    }
                    rows.append(Row(setting=setting, method=method, label=label, figures=figures))
        return rows


def in_words(parameters: Mapping[str, Any]) -> str:
    """Return a mapper's parameters for a sentence, such as "max_advantage 0.05"."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def compare(result: Result, setting: str, ours: str, printed: tuple[str, str]) -> str:
    """Say where a method of ours is no worse than a printed row, setting and method.

    Returns
    -------
    str
        One sentence with every figure that both have.
    """
    parts, good = [], True
    label = next(row.label for row in result.rows if row.method == ours)
    other = next(row.label for row in result.rows if row.method == printed[1])
    for column in result.columns:
        mean = result.figure(setting, ours, column.key).mean
        theirs = result.figure(*printed, column.key).printed
        if mean is not None and theirs is not None:
            gain = theirs - mean if column.better == "low" else mean - theirs
            good &= gain >= -_ROUNDING
            against = f"{column.show(mean)} against {column.show_printed(theirs)}"
            parts.append(f"{column.title} {against}")
    verdict = "no worse in any column" if good else "not better in every column"
    return f"{setting}, {label} beside the printed {other}: {verdict} ({'; '.join(parts)})."
