"""The best heads of a mapping, from sweeps over all rows.

Few codes: Newton's method with the curvature of a sample of the rows (``code_models``). The
slope is exact, so the minimum is; the curvature only says how fast it is reached. Where it
says wrong, it is taken afresh. Many codes: L-BFGS, which needs no matrix of codes.

``SweptRisks`` goes over all rows until every head is solved. ``ModelledRisks`` asks the quadratic
models that the sweeps left behind: it touches no row, is exact in value and slope for the mapping
last swept over, and leads the search from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from discreet.arrays import Floats, Ints
from discreet.design.code_models import CodeModels, Curvatures, Features
from discreet.design.losses import Loss
from discreet.design.risks import RiskValues, Tables
from discreet.design.sweep import RowSource, Swept


class Solves(Protocol):
    """A first guess at the inverse curvatures."""

    def solve(self, right: Floats) -> Floats:
        """Return the guess's step, one row per head."""
        ...


class Metric:
    """The inverse curvature of every head."""

    def __init__(self, first: Solves) -> None:
        self.first = first
        self._pairs: list[tuple[Floats, Floats, Floats]] = []

    def learn(self, moved: Floats, bent: Floats) -> None:
        """Note how the slopes changed when the heads moved."""
        product = (moved * bent).sum(axis=1)
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=product > 1e-300)
        self._pairs.append((moved, bent, inverse))

    def solve(self, slopes: Floats) -> Floats:
        """Return the step that the metric makes of the slopes."""
        shares = []
        rest = slopes.copy()
        for moved, bent, inverse in reversed(self._pairs):
            share = inverse * (moved * rest).sum(axis=1)
            rest -= share[:, None] * bent
            shares.append(share)
        step = self.first.solve(rest)
        for (moved, bent, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            step += (share - inverse * (bent * step).sum(axis=1))[:, None] * moved
        return step


TOLERANCE = 1e-10
"""What may be left to gain in a head's risk."""
FEW_BYTES = 1 << 29
"""Most memory for the curvatures of all heads; beyond it codes count as many."""
_SAMPLED_ROWS = 1 << 15  # behind the curvature; its error is about the root of features per row
_FIRST_ROWS = 1 << 14  # behind the first guess, from which the sweeps over all rows begin
_FIRST_TOLERANCE = 1e-3
_MOST_STEPS = 60
_SLOW = 0.5  # a step that leaves more than this share to gain asks for a new curvature


@dataclass(frozen=True)
class Solved:
    """The minimum of every head's risk for one mapping."""

    values: Floats
    w: Floats
    scores: Floats
    sums: Floats


class CodeSolver:
    """Solves all heads for one mapping after the other, each from where the last one ended.

    ``passes``: sweeps over all rows so far; one over a part of them counts as that part.
    """

    def __init__(
        self,
        box: RowSource,
        loss: Loss,
        regs: Floats,
        *,
        tolerance: float = TOLERANCE,
        threads: int | None = None,
    ) -> None:
        self.box, self.loss, self.regs = box, loss, np.asarray(regs, dtype=np.float64)
        self.tolerance, self.threads = tolerance, threads
        self.passes = 0.0
        n_codes = box.layout.n_codes
        self.has_models = 8 * len(self.regs) * n_codes**2 <= FEW_BYTES
        self._last: Floats | None = None  # where to begin, if there are no models
        if self.has_models:
            self._curvatures = Curvatures(box, loss, _SAMPLED_ROWS)
            self._begun = False
            self._centre: tuple[Floats, Swept]
            self.models = CodeModels(np.zeros((n_codes, len(self.regs), n_codes)), self.regs)

    def solve(self, features: Features) -> Solved:
        """Minimise every head for the mapping whose B is ``features``."""
        if not self.has_models:
            return self._descend(features)
        if not self._begun:
            self._guess(features)
        return self._newton(self.box, self._curvatures, features, self.tolerance)

    def begin_at(self, scores: Floats) -> Swept:
        """Sweep once where the codes have these numbers, and take the models from there."""
        self._begun = True
        self._centre = scores, self._sweep(self.box, scores)
        self.refresh()
        return self._centre[1]

    def refresh(self) -> None:
        """Take the curvature of the models afresh, where the last mapping was solved."""
        if self.has_models:
            scores, swept = self._centre
            self.models.curvatures = self._curvatures.at(scores)
            self.models.recentre(scores, swept)

    def _guess(self, features: Features) -> None:
        """Solve for few rows, so that the models start near the answer for all."""
        few = self.box.sample(_FIRST_ROWS)
        own = Curvatures(few, self.loss, len(few))
        nothing = np.zeros((len(self.regs), features.shape[0]))
        self.models.curvatures = own.at(nothing)
        self.models.recentre(nothing, self._sweep(few, nothing))
        found = self._newton(few, own, features, _FIRST_TOLERANCE)
        self.begin_at(features.scores(found.w))

    def _sweep(self, box: RowSource, scores: Floats) -> Swept:
        self.passes += len(box) / len(self.box)
        return box.sweep(scores, self.loss, self.threads)

    def _newton(
        self, box: RowSource, sample: Curvatures, features: Features, tolerance: float
    ) -> Solved:
        systems = self.models.systems(features)
        metric = Metric(systems)
        w, length = self.models.fit(features, systems).w, np.ones(len(self.regs))
        before, last = np.inf, None
        for _ in range(_MOST_STEPS):
            scores = features.scores(w)
            swept = self._sweep(box, scores)
            values = swept.values + 0.5 * self.regs * (w * w).sum(axis=1)
            if last is not None:
                worse = values > last.values + 1e-12 * np.abs(values)
                if worse.any():  # overshot: back, and half the way
                    length = np.where(worse, 0.5 * length, length)
                    w = last.w - length[:, None] * last.step
                    continue
            slopes = self.regs[:, None] * w - features.pull(swept.sums)
            if last is not None:
                metric.learn(w - last.w, slopes - last.slopes)
            step = metric.solve(slopes)
            left = 0.5 * (slopes * step).sum(axis=1)
            if np.all(left <= tolerance):
                break
            if left.max() > _SLOW * before:
                self.models.curvatures = sample.at(scores)
                metric = Metric(self.models.systems(features))
                step = metric.solve(slopes)
            before, last = float(left.max()), _Step(w, values, slopes, step)
            w, length = w - step, np.ones(len(self.regs))
        self._centre = scores, swept
        self.models.recentre(scores, swept)
        return Solved(values, w, scores, swept.sums)

    def _descend(self, features: Features) -> Solved:
        shape = (len(self.regs), features.shape[1])
        found: dict[bytes, tuple[Floats, Swept]] = {}

        def risk(point: Floats) -> tuple[float, Floats]:
            w = point.reshape(shape)
            swept = self._sweep(self.box, features.scores(w))
            values = swept.values + 0.5 * self.regs * (w * w).sum(axis=1)
            found[point.tobytes()] = values, swept
            return float(values.sum()), (self.regs[:, None] * w - features.pull(swept.sums)).ravel()

        start = np.zeros(shape) if self._last is None else self._last
        ended = minimize(
            risk,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 1000, "maxcor": 20, "ftol": self.tolerance, "gtol": 1e-9},
        )
        self._last = ended.x.reshape(shape)
        values, swept = found[ended.x.tobytes()]
        return Solved(values, self._last, features.scores(self._last), swept.sums)


@dataclass(frozen=True)
class _Step:
    """Where a Newton step began, and where it points."""

    w: Floats
    values: Floats
    slopes: Floats
    step: Floats


@dataclass(frozen=True)
class CodeValues(RiskValues):
    """Risks, with the heads and the sums of residuals behind them."""

    w: Floats = field(default_factory=lambda: np.empty(0))
    sums: Floats = field(default_factory=lambda: np.empty(0))


class PackedRows:
    """What the design asks of rows that are packed."""

    def __init__(self, box: RowSource) -> None:
        self._box = box
        self.totals = box.totals()

    @property
    def codes(self) -> Ints:
        return self._box.sample(len(self._box)).packed.unpack()

    def seen(self) -> list[NDArray[np.bool_]]:
        """Return, for every sensor, which codes occur at all."""
        parts = np.split(self.totals, self._box.layout.offsets[1:])
        return [part > 0 for part in parts]


class SweptRisks:
    """Relaxed risks of the count kernel, every head solved on all rows."""

    def __init__(self, solver: CodeSolver, rows: PackedRows) -> None:
        self.solver, self.rows = solver, rows
        self.n_heads = len(solver.regs)

    def evaluate(self, tables: Tables) -> RiskValues:
        found = self.solver.solve(Features(tables))
        return CodeValues(found.values, w=found.w, sums=found.sums)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        return _gradient(tables, found, weights)


class ModelledRisks:
    """The same by the solver's models, without a sweep."""

    def __init__(self, solver: CodeSolver, rows: PackedRows) -> None:
        self.models, self.rows = solver.models, rows
        self.n_heads = len(solver.regs)

    def evaluate(self, tables: Tables) -> RiskValues:
        found = self.models.fit(Features(tables))
        return CodeValues(found.values, w=found.w, sums=found.sums)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        return _gradient(tables, found, weights)


def _gradient(tables: Tables, found: RiskValues, weights: Floats) -> Tables:
    """Return -sum_h weight_h sums_h[x] w_h[z] for every sensor: the envelope theorem."""
    assert isinstance(found, CodeValues)
    sums = -weights[:, None] * found.sums
    features = Features(tables)
    return [
        sums[:, codes].T @ found.w[:, symbols]
        for codes, symbols in zip(features.codes, features.symbols, strict=True)
    ]
