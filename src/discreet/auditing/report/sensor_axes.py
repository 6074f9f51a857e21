"""Where the readings of a sensor lie on the axis of its picture.

Bins lie where they are, in the units of the readings, unless they are too uneven to be
seen; then they get equal room and their edges as labels. The outermost bins are open and
get the width of a middling one. Categories lie below one another, which leaves room for
their names. The code for missing readings stands apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from discreet.arrays import Floats
from discreet.data.encoders import BinsEncoder, CategoriesEncoder, Encoder

MAX_COLUMNS = 80
"""Most columns of a picture; neighbouring bins are averaged beyond."""
MAX_LISTED = 30
"""Most categories and codes that get a place of their own; the first are shown."""
_ROOM = 42  # characters that fit below a picture
_MANY_EDGES = 20  # with more, round numbers say more than the edges do
_THINNEST = 1 / 60  # of the axis, for a bin that can still be seen


@dataclass(frozen=True)
class Axis:
    """Places, ticks and what is drawn there.

    ``table`` is of shape (n_places, n_symbols). ``places``: left and right end of each. ``height``:
    of the picture, in inches. ``sideways``: whether readings go downwards and probabilities to the
    right. ``from_data``: whether the ticks are texts from the data. ``note``: what a reader has to
    know about the axis.
    """

    table: Floats
    places: tuple[tuple[float, float], ...]
    ticks: tuple[tuple[float, str], ...]
    height: float = 2.1
    sideways: bool = False
    from_data: bool = False
    note: str = ""


def sensor_axis(encoder: Encoder, table: Floats) -> Axis:
    """Lay out the codes of a sensor."""
    if isinstance(encoder, BinsEncoder):
        return _bins(encoder, table)
    if isinstance(encoder, CategoriesEncoder):
        return _categories(encoder, table)
    return _codes(encoder.size, encoder.missing, table)


# --- Bins ------------------------------------------------------------------------------------


def _bins(encoder: BinsEncoder, table: Floats) -> Axis:
    edges = np.array(encoder.edges)
    notes = []
    if not len(edges):
        bounds, labelled = np.array([0.0, 1.0]), [(0.5, "any number")]
    else:
        bounds = _with_ends(edges)
        at = edges
        if _too_uneven(bounds):
            bounds = np.arange(len(bounds), dtype=np.float64)
            at = bounds[1:-1]
            notes.append("The bins differ too much in width to be drawn to scale.")
        elif len(edges) > _MANY_EDGES:
            rounded = MaxNLocator(6).tick_values(edges[0], edges[-1])
            at = edges = rounded[(rounded >= bounds[0]) & (rounded <= bounds[-1])]
        labelled = list(zip(at.tolist(), written_briefly(edges), strict=True))
    plain = table[: len(bounds) - 1]
    if len(plain) > MAX_COLUMNS:
        bounds, plain, step = _averaged(bounds, plain)
        notes.append(f"Each column is the average of {step} neighbouring bins.")
    places = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    return _upright(places, plain, labelled, encoder.missing, table, " ".join(notes))


def written_briefly(numbers: Floats) -> list[str]:
    """Write numbers with as few digits as tell them apart and hardly change them."""
    for digits in (3, 4, 6, 9):
        texts = [f"{each:.{digits}g}" for each in numbers]
        if len(set(texts)) == len(texts) and np.allclose(list(map(float, texts)), numbers, 1e-3):
            return [text.replace("-", "−") for text in texts]
    return [repr(each) for each in numbers.tolist()]


def _with_ends(edges: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        width = float(np.median(np.diff(edges))) if len(edges) > 1 else max(1.0, abs(edges[0]) / 2)
        return np.concatenate([[edges[0] - width], edges, [edges[-1] + width]])


def _too_uneven(bounds: Floats) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        shares = np.diff(bounds) / (bounds[-1] - bounds[0])
    least = min(_THINNEST, 0.25 / len(shares))
    return not bool(np.all(np.isfinite(shares)) and shares.min() >= least)


def _averaged(bounds: Floats, rows: Floats) -> tuple[Floats, Floats, int]:
    step = -(-len(rows) // MAX_COLUMNS)
    starts = np.arange(0, len(rows), step)
    sizes = np.diff(np.append(starts, len(rows)))
    means = np.add.reduceat(rows, starts, axis=0) / sizes[:, None]
    return np.append(bounds[starts], bounds[-1]), means, step


# --- Categories and codes --------------------------------------------------------------------


def _categories(encoder: CategoriesEncoder, table: Floats) -> Axis:
    names, listed = encoder.labels(), len(encoder.categories)
    kept = [*range(min(listed, MAX_LISTED)), *range(listed, len(table))]
    rest = listed - MAX_LISTED
    note = f"The first {MAX_LISTED} of {listed} categories are shown." if rest > 0 else ""
    return Axis(
        table=table[kept],
        places=tuple((k + 0.06, k + 0.94) for k in range(len(kept))),
        ticks=tuple((k + 0.5, names[code]) for k, code in enumerate(kept)),
        height=0.75 + (0.26 if len(kept) <= 12 else 0.2) * len(kept),
        sideways=True,
        from_data=True,
        note=note,
    )


def _codes(size: int, missing: bool, table: Floats) -> Axis:
    shown = min(size, MAX_COLUMNS)
    places = [(k - 0.5, k + 0.5) for k in range(shown)]
    labelled = [(float(k), str(k)) for k in range(shown)]
    note = f"The first {shown} of {size} codes are shown." if shown < size else ""
    return _upright(places, table[:shown], labelled, missing, table, note)


# --- Upright pictures ------------------------------------------------------------------------


def _upright(
    places: list[tuple[float, float]],
    plain: Floats,
    labelled: list[tuple[float, str]],
    missing: bool,
    table: Floats,
    note: str,
) -> Axis:
    """Add the column for missing readings and choose the labels that fit."""
    begin, end = places[0][0], places[-1][1]
    ticks: list[tuple[float, str]] = []
    if missing:
        # As wide as its label, with a gap that shows that it is no number.
        width = 0.2 * (end - begin)
        places = [*places, (end + 0.25 * width, end + width)]
        ticks.append((end + 0.62 * width, "missing"))
        plain = np.vstack([plain, table[-1:]])
        end += width
    room = _ROOM / (end - begin)
    step = max(1, -(-len(labelled) // 12))
    for place, label in labelled[::step]:
        if all(
            abs(place - at) * room >= 0.5 * (len(label) + len(other)) + 1 for at, other in ticks
        ):
            ticks.append((place, label))
    return Axis(plain, tuple(places), tuple(sorted(ticks)), note=note)
