"""Lines and tables that fit a width: words are wrapped, figures and commands stay whole."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

HANG = 2  # how much further in the rest of a wrapped line begins
_GLUE = "\xa0"  # a space that no line is broken at
# A figure with its unit or error, and what stands in backquotes, to be typed as it is.
_WHOLE = re.compile(r"(?<=\d) (?=[%±])|(?<=±) (?=\d)|(?<=`)[^`]+(?=`)")
# What is to be copied: a line break in the middle of it would end the command there.
_COMMAND = re.compile(r"(?:^|: |\$ |-> |, then )(discreet [a-z-]+(?: .*)?)$")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    ``title``: above it. ``right``: figures, aligned right and never wrapped. ``least``: its width
    where there is room. ``most``: where a longer cell may push the rest of its row to the right.
    ``gap``: spaces before it.
    """

    title: str = ""
    right: bool = False
    least: int = 0
    most: int | None = None
    gap: int = 2

    def aligned(self, text: str, size: int) -> str:
        """Return a cell of the given width, with the gap before it."""
        return " " * self.gap + (text.rjust(size) if self.right else text.ljust(size))


def wrapped(line: str, width: int | None, hang: int = HANG) -> list[str]:
    """Return a line as lines of at most ``width``; None keeps it as it is.

    A command at its end stays in one piece, however long: terminals break it so that it can be
    copied whole.
    """
    if width is None or len(line) <= width:
        return [line]
    if (found := _COMMAND.search(line)) is not None and found.start(1):
        *whole, last = wrapped(line[: found.start(1)].rstrip(), width, hang)
        return [*whole, f"{last} {found[1]}"]
    if found is not None:
        return [line]
    indent = len(line) - len(line.lstrip())
    return _wrap(line.lstrip(), width, " " * indent, " " * (indent + hang))


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    glued = _WHOLE.sub(lambda found: found[0].replace(" ", _GLUE), text)
    lines = textwrap.wrap(
        glued, max(width, len(rest) + 1), initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_GLUE, " ") for line in lines] or [""]


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    width: int | None = None,
    indent: int = 0,
) -> list[str]:
    """Return a table as lines, titles first."""
    return [line for lines in table_rows(columns, rows, width, indent) for line in lines]


def table_rows(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    width: int | None = None,
    indent: int = 0,
) -> Iterator[list[str]]:
    """Yield the lines of the titles, if there are any, and of each row.

    Where the table is too wide, cells of words are wrapped. Where that is not enough, a row is its
    first cell and below it the others, each with its title; in place of the titles is the first.
    """
    listed = [[column.title for column in columns], *map(list, rows)]
    natural = _natural(columns, listed)
    fits = width is None or _taken(columns, natural) + indent <= width
    sizes = natural if fits or width is None else _squeezed(columns, listed, width - indent)
    titled = any(column.title for column in columns)
    for cells in listed if titled else listed[1:]:
        if sizes is not None:
            yield _side_by_side(columns, cells, sizes, indent, width)
        elif cells is listed[0]:
            yield [" " * indent + cells[0]]
        else:
            yield _stacked(columns, cells, width, indent)


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    sizes = []
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        size = max(column.least, *map(len, cells))
        sizes.append(size if column.most is None else min(size, column.most))
    return sizes


def _taken(columns: Sequence[Column], sizes: Sequence[int]) -> int:
    return sum(sizes) + sum(column.gap for column in columns)


def _squeezed(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> list[int] | None:
    """Return widths that fit, the widest columns of words cut first; None if there are none."""
    cells = list(zip(*rows, strict=True))
    least = [
        max(
            [_longest_word(column[0])]
            + [len(cell) if own.right else _longest_word(cell) for cell in column[1:]]
        )
        for own, column in zip(columns, cells, strict=True)
    ]
    if _taken(columns, least) > width:
        return None
    sizes = [max(map(len, column)) for column in cells]
    while (over := _taken(columns, sizes) - width) > 0:
        spare = [size - low for size, low in zip(sizes, least, strict=True)]
        widest = max((k for k, room in enumerate(spare) if room), key=lambda k: sizes[k])
        sizes[widest] -= min(over, spare[widest], max(1, sizes[widest] // 8))
    return sizes


def _longest_word(text: str) -> int:
    return max(map(len, _wrap(text, 1)))


def _side_by_side(
    columns: Sequence[Column], cells: Sequence[str], sizes: Sequence[int], indent: int,
    width: int | None,
) -> list[str]:  # fmt: skip
    parts = [
        [cell] if width is None else wrapped(cell, size, hang=0)
        for cell, size in zip(cells, sizes, strict=True)
    ]
    height = max(map(len, parts))
    lines = []
    for k in range(height):
        own = (part[k] if k < len(part) else "" for part in parts)
        line = "".join(c.aligned(t, s) for c, t, s in zip(columns, own, sizes, strict=True))
        lines.append((" " * indent + line).rstrip())
    return lines


def _stacked(
    columns: Sequence[Column], cells: Sequence[str], width: int | None, indent: int
) -> list[str]:
    inner = indent + 2 * HANG
    both = zip(columns[1:], cells[1:], strict=True)
    rest = [f"{column.title} {cell.strip()}".strip() for column, cell in both if cell.strip()]
    room = len(max(rest, key=len, default="")) if width is None else width - inner - 1
    whole = [each.replace(" ", _GLUE) if len(each) <= room else each for each in rest]
    body = wrapped(" " * inner + "; ".join(whole), width, hang=0) if whole else []
    return [*wrapped(" " * indent + cells[0], width), *(x.replace(_GLUE, " ") for x in body)]
