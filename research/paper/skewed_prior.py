"""Table "Comparison of NPO with" the Bayes-error constraint, at a skewed prior."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.mappers.auto_mapper import Mapper
from discreet.mappers.risk_mappers import BayesErrorMapper, NPOMapper, PrivacyMapper
from research.optimum.search import find_optimum
from research.paper.experiment import Experiment, Measured, compare, in_words
from research.paper.pictures import Filling, Panel, draw_places
from research.paper.results import Column, Result
from research.paper.synthetic import CaseFigures, four_sensors

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PRIOR = (0.05, 0.45, 0.0, 0.5)
"""p(h, g) for (h, g) = 00, 01, 10, 11."""
ROWS = {"80 rows": 80, "1000 rows": 1000}
NPO: dict[str, Any] = {"privacy_ratio": 0.998}
BAYES_ERROR: dict[str, Any] = {"privacy_ratio": 0.998}
AUTO: dict[int, dict[str, Any]] = {
    80: {"privacy_ratio": 0.84},
    1000: {"max_advantage": 0.09, "epsilon": 0.5},
}
"""How Mapper is asked, by the number of rows."""
OPTIMUM: dict[str, Any] = {"risk": 0.42, "epsilon": 0.35}
RESTARTS = 24
METHODS = {
    "npo": "NPO",
    "bayes-error": "Bayes-error constraint",
    "auto": "Mapper",
    "optimum": "optimum, R 0.42, ε 0.35",
}
PRINTED = {
    ("80 rows", "npo"): {"public": 0.03, "private": 0.05, "risk": 0.38, "epsilon": 1.08},
    ("80 rows", "bayes-error"): {"public": 0.02, "private": 0.05, "risk": 0.24, "epsilon": 3.91},
}


def measure(rows: int, seed: int, _: Path | None) -> Measured:
    """Learn by every method from one draw."""
    case = four_sensors(PRIOR)
    readings, h, g = case.draw(rows, seed)
    mappers: dict[str, PrivacyMapper] = {
        "npo": NPOMapper(**NPO, random_state=seed),
        "bayes-error": BayesErrorMapper(**BAYES_ERROR, random_state=seed),
        "auto": Mapper(**AUTO[rows], random_state=seed),
    }
    return {
        name: _shown(case.figures(case.tables(mapper.fit(readings, h, private=g).mapping_)))
        for name, mapper in mappers.items()
    }


def known(_: int) -> Measured:
    """Return the optimum, which is the same for any number of rows."""
    case = four_sensors(PRIOR)
    best = find_optimum(case.distribution, 2, **OPTIMUM, n_restarts=RESTARTS, bound=False, rng=0)
    return {"optimum": _shown(case.figures(best.tables))}


def _shown(figures: CaseFigures) -> dict[str, float]:
    return figures.errors() | {"risk": figures.risk, "epsilon": figures.epsilon}


def picture(result: Result) -> Picture:
    """Draw the public error against R."""
    fillings = [Filling("1000 rows", "1000 rows"), Filling("80 rows", "80 rows")]
    return draw_places(result, [Panel("", list(ROWS))], fillings, "risk", "public")


def findings(result: Result) -> list[str]:
    """Compare with the printed NPO row."""
    return [compare(result, rows, "auto", ("80 rows", "npo")) for rows in ROWS]


EXPERIMENT = Experiment(
    name="skewed-prior",
    title="Skewed prior: P(G = 1) = 0.95, correlation 0.23",
    origin="the table comparing NPO with the Bayes-error constraint (synthetic data)",
    columns=(
        Column(key="public", title="Bayes error H", better="low"),
        Column(key="private", title="Bayes error G", better="high"),
        Column(key="risk", title="R", better="high", digits=3),
        Column(key="epsilon", title="ε", better="low", digits=2),
    ),
    methods=METHODS,
    settings=ROWS,
    measure=measure,
    known=known,
    picture=picture,
    printed=PRINTED,
    findings=findings,
    choices=(
        "H uniform, P(G = 1) = 0.95 and correlation 0.23 leave one joint distribution: "
        "P(H = 1, G = -1) = 0, P(-1, -1) = 0.05, P(-1, 1) = 0.45, P(1, 1) = 0.5.",
        "Readings reach 9 although the paper declares 1 to 8: nine codes.",
        "The paper does not say how many rows it learned from here; 80, as in the rest of its "
        "synthetic part, is taken, and 1000 beside.",
        f"It prints no p for its tables: NPO and the Bayes-error constraint keep "
        f"{NPO['privacy_ratio']}, this package's default.",
        f"Mapper is asked for {in_words(AUTO[80])} at 80 rows and for "
        f"{in_words(AUTO[1000])} at 1000.",
        f"The optimum knows the distribution and keeps R at 0.42 and ε at 0.35 (best of "
        f"{RESTARTS} starts).",
        "All figures are sums over all outputs under the true distribution. An infinite ε means "
        "that in some draw an output rules out a private class.",
    ),
    parameters={
        "prior": PRIOR,
        "npo": NPO,
        "bayes_error": BAYES_ERROR,
        "auto": AUTO,
        "optimum": OPTIMUM,
    },
)
