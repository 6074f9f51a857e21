"""A result as text: ours with its standard error, and below it what is printed."""

from __future__ import annotations

from discreet.paper.results import Column, Figure, Result, Row


def text_table(result: Result) -> list[str]:
    """Return the lines of a result, the choices after the table."""
    lines = [result.title, ""]
    cells = [("", "", *(column.title for column in result.columns))]
    setting = ""
    for row in result.rows:
        shown = row.setting if row.setting != setting else ""
        cells += _row_lines(result, row, shown)
        setting = row.setting
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines += [_line(line, widths) for line in cells]
    lines += ["", how_made(result), *result.findings]
    lines += ["", "Choices:", *(f"- {choice}" for choice in result.choices)]
    return lines


def ours(figure: Figure, column: Column) -> str:
    """Return the mean and its standard error."""
    if figure.mean is None:
        return "-"
    text = column.show(figure.mean)
    if figure.error is None:
        return text
    return f"{text.removesuffix(' %')} ± {column.show(figure.error)}"


def printed(figure: Figure, column: Column) -> str:
    """Return the printed figure, or nothing."""
    return "" if figure.printed is None else column.show_printed(figure.printed)


def difference(figure: Figure, column: Column) -> str:
    """Return ours less the printed figure, or nothing."""
    return "" if figure.difference is None else column.show(figure.difference, sign=True)


def _row_lines(result: Result, row: Row, setting: str) -> list[tuple[str, ...]]:
    pairs = [(row.figures.get(column.key, Figure()), column) for column in result.columns]
    lines = [(setting, row.label, *(ours(*pair) for pair in pairs))]
    if any(figure.printed is not None for figure, _ in pairs):
        lines.append(("", "  printed", *(printed(*pair) for pair in pairs)))
    if any(figure.difference is not None for figure, _ in pairs):
        lines.append(("", "  difference", *(difference(*pair) for pair in pairs)))
    return lines


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def how_made(result: Result) -> str:
    """Return how it was made, in one line."""
    if result.not_run is not None:
        return f"Not run here: {result.not_run}"
    draws, seed = result.asked.draws, result.asked.seed
    last = seed + draws - 1
    seeds = f"seed {seed}" if draws == 1 else f"seeds {seed} to {last}"
    error = "± is one standard error of the mean; a figure without it does not depend on the draw."
    if draws == 1:
        error = "one draw has no standard error."
    return f"{draws} draw{'s'[: draws > 1]}, {seeds}, {result.seconds:.0f} s of computing; {error}"
