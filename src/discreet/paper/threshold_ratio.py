"""Figure "Error rate of detecting H and G with varying privacy threshold ratio p"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discreet.paper.experiment import Experiment, Measured
from discreet.paper.pictures import Panel, draw_curves
from discreet.paper.results import Result
from discreet.paper.synthetic import correlated
from discreet.paper.uniform_prior import CHOICES, COLUMNS, METHODS, N_ROWS, measure_draw, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

CORRELATIONS = (0.2, 0.8)
RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)


def measure(setting: tuple[float, float], seed: int, _: Path | None) -> Measured:
    """Learn from one draw at one correlation and ratio."""
    correlation, ratio = setting
    asked = {"privacy_ratio": ratio}
    return measure_draw(correlated(correlation), seed, asked, asked)


def known(setting: tuple[float, float]) -> Measured:
    """Return what raw readings give."""
    return {"raw": shown(correlated(setting[0]).raw_figures())}


def _label(correlation: float, ratio: float) -> str:
    return f"correlation {correlation:g}, p {ratio:g}"


def picture(result: Result) -> Picture:
    """Draw both errors over the ratio, one panel for each correlation."""
    panels = [Panel(f"correlation {c:g}", [_label(c, p) for p in RATIOS]) for c in CORRELATIONS]
    return draw_curves(result, panels, [f"{p:g}" for p in RATIOS], "privacy threshold ratio p")


EXPERIMENT = Experiment(
    name="threshold-ratio",
    title=f"Threshold ratio: error of H and G as p grows, {N_ROWS} rows",
    origin="the figure on the threshold ratio (synthetic data)",
    columns=COLUMNS,
    methods=METHODS,
    settings={_label(c, p): (c, p) for c in CORRELATIONS for p in RATIOS},
    measure=measure,
    known=known,
    picture=picture,
    choices=(
        *CHOICES,
        "ModelMapper takes p as well: the share of one half, the largest R, to keep under its "
        "model. NPO's p is a share of the largest private risk. The two are not the same scale.",
        "The paper also shows testing errors of its classifier; the Bayes errors here are below "
        "those of any classifier.",
    ),
    parameters={"ratios": RATIOS, "correlations": CORRELATIONS, "rows": N_ROWS},
)
