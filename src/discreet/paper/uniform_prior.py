"""One draw of the case with two uniform facts, as both of the paper's figures use it."""

from __future__ import annotations

from typing import Any

from discreet.design.mappers import NPOMapper, PrivacyMapper
from discreet.modelling.mapper import ModelMapper
from discreet.optimum.search import find_optimum
from discreet.paper.cases import Case, CaseFigures
from discreet.paper.results import Column

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
    "model": "ModelMapper",
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
    case: Case, seed: int, npo: dict[str, Any], model: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Learn by both methods from one draw, and find the optimum for each one's R."""
    found, best = {}, {}
    mappers: dict[str, PrivacyMapper] = {
        "npo": NPOMapper(**npo, random_state=seed),
        "model": ModelMapper(**model, random_state=seed),
    }
    readings, h, g = case.draw(N_ROWS, seed)
    for name, mapper in mappers.items():
        mapper.fit(readings, h, private=g)
        figures = case.figures(case.tables(mapper.mapping_))
        best[name] = optimal_error(case, figures.risk)
        found[name] = shown(figures) | {"regret": figures.public_error - best[name]}
    found["optimum"] = {"public": best["npo"], "private": found["npo"]["private"]}
    return found


def optimal_error(case: Case, risk: float) -> float:
    """Return the least public error of any tables that keep R where it is."""
    found = find_optimum(
        case.distribution, 2, risk=min(risk, 0.5), n_restarts=RESTARTS, bound=False, rng=0
    )
    return found.public_error


def shown(figures: CaseFigures) -> dict[str, float]:
    """Return the figures that the pictures show."""
    return {"public": figures.public_error, "private": figures.private_error}
