"""Table "Bayes Error with m-ary Private Hypothesis"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.mappers.auto_mapper import Mapper
from discreet.mappers.risk_mappers import NDDMapper, NPOMapper, PrivacyMapper
from research.optimum.search import find_optimum
from research.paper.experiment import Experiment, Measured, compare, in_words
from research.paper.pictures import Filling, Panel, draw_places
from research.paper.results import Column, Result
from research.paper.synthetic import m_ary

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

CLASSES = (3, 4, 5)
ROWS = (80, 800)
CODES: dict[str, Any] = {"n_bins": 32}  # more than there are readings: each keeps its code
NPO: dict[str, Any] = {"privacy_ratio": 0.998, "pairs": "reference", **CODES}
AUTO: dict[int, dict[str, Any]] = {
    80: {"privacy_ratio": 0.84, "n_restarts": 2, **CODES},
    800: {"privacy_ratio": 0.84, "n_restarts": 2, **CODES},
}
"""How Mapper is asked, by the number of rows."""
RESTARTS = 8
METHODS = {
    "npo": "NPO",
    "ndd": "NDD",
    "raw": "raw, Z = X",
    "auto": "Mapper",
    "optimum": "optimum, R 0.5",
}


def _label(m: int, rows: int) -> str:
    return f"m = {m}, {rows} rows"


PRINTED = {
    (_label(3, 80), "npo"): {"public": 3.62e-2, "private": 0.65},
    (_label(4, 80), "npo"): {"public": 2.72e-2, "private": 0.73},
    (_label(5, 80), "npo"): {"public": 2.13e-2, "private": 0.79},
    (_label(3, 80), "raw"): {"public": 3.77e-3, "private": 1.21e-2},
    (_label(4, 80), "raw"): {"public": 1.10e-3, "private": 3.92e-3},
    (_label(5, 80), "raw"): {"public": 3.02e-3, "private": 4.22e-3},
    (_label(3, 80), "ndd"): {"public": 2.41e-2, "private": 0.13},
    (_label(4, 80), "ndd"): {"public": 1.85e-2, "private": 0.19},
    (_label(5, 80), "ndd"): {"public": 1.78e-2, "private": 0.23},
}


def measure(setting: tuple[int, int], seed: int, _: Path | None) -> Measured:
    """Learn by every method from one draw."""
    m, rows = setting
    case = m_ary(m)
    readings, h, g = case.draw(rows, seed)
    mappers: dict[str, PrivacyMapper] = {"auto": Mapper(**AUTO[rows], random_state=seed)}
    if rows == ROWS[0]:  # as the paper has it; with more rows and classes they take minutes
        mappers["npo"] = NPOMapper(**NPO, random_state=seed)
        mappers["ndd"] = NDDMapper(random_state=seed, **CODES)
    return {
        name: case.figures(case.tables(mapper.fit(readings, h, private=g).mapping_)).errors()
        for name, mapper in mappers.items()
    }


def known(setting: tuple[int, int]) -> Measured:
    """Return what raw readings give and what is best if nothing may leak."""
    m, rows = setting
    if rows != ROWS[0]:  # the same for any number of rows
        return {}
    case = m_ary(m)
    best = find_optimum(case.distribution, 2, risk=0.5, n_restarts=RESTARTS, bound=False, rng=0)
    return {
        "raw": case.raw_figures().errors(),
        "optimum": case.figures(best.tables).errors(),
    }


def picture(result: Result) -> Picture:
    """Draw the public against the private error, one panel for each m."""
    panels = [Panel(f"m = {m}", [_label(m, rows) for rows in ROWS]) for m in CLASSES]
    fillings = [Filling(f"{rows} rows", f", {rows} rows") for rows in reversed(ROWS)]
    return draw_places(result, panels, fillings, "private", "public")


def findings(result: Result) -> list[str]:
    """Compare with the printed NPO rows."""
    return [
        compare(result, _label(m, rows), "auto", (_label(m, ROWS[0]), "npo"))
        for m in CLASSES
        for rows in ROWS
    ]


EXPERIMENT = Experiment(
    name="m-ary",
    title="Several private classes: m = 3, 4, 5",
    origin="the table on an m-ary private hypothesis (synthetic data)",
    columns=(
        Column(key="public", title="Bayes error H", better="low"),
        Column(key="private", title="Bayes error G", better="high"),
    ),
    methods=METHODS,
    settings={_label(m, rows): (m, rows) for rows in ROWS for m in CLASSES},
    measure=measure,
    known=known,
    picture=picture,
    printed=PRINTED,
    findings=findings,
    choices=(
        "The paper learns from 80 rows; Mapper from 800 stands beside.",
        "Every reading keeps a code of its own, as in the paper.",
        f"It prints no p for its tables: NPO keeps {NPO['privacy_ratio']}, this package's default, "
        "and guards class 0 against each other one as the paper does.",
        f"Mapper is asked for {in_words(AUTO[800])}. Where sensors that each hardly look at "
        "G cost next to no public error, it takes them and leaks less than it may.",
        f"The optimum knows the distribution and lets nothing leak (best of {RESTARTS} starts); "
        "1/162 is known to be reachable for every m.",
        "All figures are sums over all outputs, or over all readings that can occur, under the "
        "true distribution. The printed ones for Z = X go up and down with m, which the exact ones "
        "do not: they seem to come from drawn rows.",
    ),
    parameters={"npo": NPO, "auto": AUTO, "rows": ROWS, "classes": CLASSES},
)
