"""Figure "Error rate of detecting H and G with different correlation coefficient"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discreet.paper.experiment import Experiment, Measured, in_words
from discreet.paper.pictures import Panel, draw_curves
from discreet.paper.results import Result
from discreet.paper.synthetic import correlated
from discreet.paper.uniform_prior import CHOICES, COLUMNS, METHODS, N_ROWS, measure_draw, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
NPO = {"privacy_ratio": 0.999}
MODEL = {"privacy_ratio": 0.96}


def measure(correlation: float, seed: int, _: Path | None) -> Measured:
    """Learn from one draw at one correlation."""
    return measure_draw(correlated(correlation), seed, NPO, MODEL)


def known(correlation: float) -> Measured:
    """Return what raw readings give."""
    return {"raw": shown(correlated(correlation).raw_figures())}


def picture(result: Result) -> Picture:
    """Draw both errors over the correlation."""
    panel = Panel("", [f"correlation {c:g}" for c in CORRELATIONS])
    ticks = [f"{c:g}" for c in CORRELATIONS]
    return draw_curves(result, [panel], ticks, "correlation of H and G")


EXPERIMENT = Experiment(
    name="correlation",
    title=f"Correlation: error of H and G at p = 0.999, {N_ROWS} rows",
    origin="the figure on correlation (synthetic data)",
    columns=COLUMNS,
    methods=METHODS,
    settings={f"correlation {c:g}": c for c in CORRELATIONS},
    measure=measure,
    known=known,
    picture=picture,
    choices=(
        *CHOICES,
        f"ModelMapper is asked for {in_words(MODEL)} at every correlation.",
    ),
    parameters={"npo": NPO, "model": MODEL, "rows": N_ROWS, "correlations": CORRELATIONS},
)
