"""The figures on two uniform facts: errors over their correlation, and over the ratio p.

"Error rate of detecting H and G with different correlation coefficient" and "Error rate of
detecting H and G with varying privacy threshold ratio p".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.mappers.auto_mapper import Mapper
from discreet.mappers.risk_mappers import NPOMapper, PrivacyMapper
from research.optimum.search import find_optimum
from research.paper.experiment import Experiment, Measured, in_words
from research.paper.pictures import Panel, draw_curves
from research.paper.results import Column, Result
from research.paper.synthetic import Case, correlated

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

N_ROWS = 80
RESTARTS = 12
COLUMNS = (
    Column(key="public", title="error of H", better="low"),
    Column(key="private", title="error of G", better="high"),
    Column(key="regret", title="regret", better="low"),
)
METHODS = {
    "npo": "NPO",
    "optimum": "optimum at NPO's R",
    "auto": "Mapper",
    "raw": "raw, Z = X",
}
CHOICES = (
    "The paper shows this as a picture without numbers: there is nothing to compare with.",
    "Readings reach 9 although the paper declares 1 to 8: nine codes.",
    "Errors are those of the best possible rule, summed over all outputs under the true "
    "distribution; no test rows are drawn. Both facts are uniform, so that the Bayes error of G "
    "is R.",
    "NPO with this package's defaults (product kernel, logistic loss); the paper's kernel and "
    "regularisers are not printed.",
    "The optimum knows the distribution and keeps the R that NPO reached in the same draw: the "
    f"best of {RESTARTS} starts of linear programs. The paper's had the same theta.",
    "Regret is the error of H less that of the optimum at the R that the method itself reached.",
)


def measure_draw(
    case: Case, seed: int, npo: dict[str, Any], auto: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Learn by both methods from one draw, and find the optimum for each one's R."""
    found, best = {}, {}
    mappers: dict[str, PrivacyMapper] = {
        "npo": NPOMapper(**npo, random_state=seed),
        "auto": Mapper(**auto, random_state=seed),
    }
    readings, h, g = case.draw(N_ROWS, seed)
    for name, mapper in mappers.items():
        mapper.fit(readings, h, private=g)
        figures = case.figures(case.tables(mapper.mapping_))
        best[name] = optimal_error(case, figures.risk)
        found[name] = figures.errors() | {"regret": figures.public_error - best[name]}
    found["optimum"] = {"public": best["npo"], "private": found["npo"]["private"]}
    return found


def optimal_error(case: Case, risk: float) -> float:
    """Return the least public error of any tables that keep R where it is."""
    found = find_optimum(
        case.distribution, 2, risk=min(risk, 0.5), n_restarts=RESTARTS, bound=False, rng=0
    )
    return found.public_error


def _raw(correlation: float) -> Measured:
    return {"raw": correlated(correlation).raw_figures().errors()}


# --- Over the correlation ------------------------------------------------------------------

CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
NPO = {"privacy_ratio": 0.999}
AUTO = {"privacy_ratio": 0.96}


def measure_correlation(correlation: float, seed: int, _: Path | None) -> Measured:
    """Learn from one draw at one correlation."""
    return measure_draw(correlated(correlation), seed, NPO, AUTO)


def draw_correlations(result: Result) -> Picture:
    """Draw both errors over the correlation."""
    panel = Panel("", [f"correlation {c:g}" for c in CORRELATIONS])
    ticks = [f"{c:g}" for c in CORRELATIONS]
    return draw_curves(result, [panel], ticks, "correlation of H and G")


CORRELATION = Experiment(
    name="correlation",
    title=f"Correlation: error of H and G at p = 0.999, {N_ROWS} rows",
    origin="the figure on correlation (synthetic data)",
    columns=COLUMNS,
    methods=METHODS,
    settings={f"correlation {c:g}": c for c in CORRELATIONS},
    measure=measure_correlation,
    known=_raw,
    picture=draw_correlations,
    choices=(
        *CHOICES,
        f"Mapper is asked for {in_words(AUTO)} at every correlation.",
    ),
    parameters={"npo": NPO, "auto": AUTO, "rows": N_ROWS, "correlations": CORRELATIONS},
)


# --- Over the threshold ratio --------------------------------------------------------------

RATIO_CORRELATIONS = (0.2, 0.8)
RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)


def measure_ratio(setting: tuple[float, float], seed: int, _: Path | None) -> Measured:
    """Learn from one draw at one correlation and ratio."""
    correlation, ratio = setting
    asked = {"privacy_ratio": ratio}
    return measure_draw(correlated(correlation), seed, asked, asked)


def _raw_at(setting: tuple[float, float]) -> Measured:
    return _raw(setting[0])


def _label(correlation: float, ratio: float) -> str:
    return f"correlation {correlation:g}, p {ratio:g}"


def draw_ratios(result: Result) -> Picture:
    """Draw both errors over the ratio, one panel for each correlation."""
    panels = [
        Panel(f"correlation {c:g}", [_label(c, p) for p in RATIOS]) for c in RATIO_CORRELATIONS
    ]
    return draw_curves(result, panels, [f"{p:g}" for p in RATIOS], "privacy threshold ratio p")


THRESHOLD_RATIO = Experiment(
    name="threshold-ratio",
    title=f"Threshold ratio: error of H and G as p grows, {N_ROWS} rows",
    origin="the figure on the threshold ratio (synthetic data)",
    columns=COLUMNS,
    methods=METHODS,
    settings={_label(c, p): (c, p) for c in RATIO_CORRELATIONS for p in RATIOS},
    measure=measure_ratio,
    known=_raw_at,
    picture=draw_ratios,
    choices=(
        *CHOICES,
        "Mapper takes p as well: the share of one half, the largest R, to keep under its "
        "model. NPO's p is a share of the largest private risk. The two are not the same scale.",
        "The paper also shows testing errors of its classifier; the Bayes errors here are below "
        "those of any classifier.",
    ),
    parameters={"ratios": RATIOS, "correlations": RATIO_CORRELATIONS, "rows": N_ROWS},
)
