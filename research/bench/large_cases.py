"""Large tables: one pass over the rows, a classifier, and a whole design.

Each begins where the readings are coded: others with the one-hot table (CSR), ours with the
packed codes. Making either table is not counted, but for the design, which packs itself.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from discreet.choices import LOSSES
from discreet.data.labels import Labels
from discreet.design.code_models import Features
from discreet.design.code_solver import CodeSolver
from discreet.design.folds import Sample
from discreet.design.kernels import CountKernel
from discreet.design.packing import pack
from discreet.design.problem import Place, Settings, Target, design_sample
from discreet.design.results import Designed
from discreet.design.sweep import WeightedRows, compiled_sweep, has_numba, plain_sweep
from research.bench.measure import Promise, Setup
from research.bench.tables import CODES, Size, draw_large, one_hot

Ints = NDArray[np.int64]


# --- One pass ----------------------------------------------------------------------------

_ONE, _TWO, _TWIN = "ours, 1 thread", "ours, 2 threads", "ours, NumPy"
_CSR, _STUMP = "SciPy CSR float32", "LightGBM stump"


def prepare_pass(size: Size) -> Setup:
    """Draw a table for one pass, loss and gradient of one head, beside other ways to do it.

    The peers: the same loss and gradient from a one-hot matrix (SciPy CSR, float32), one boosting
    iteration of a stump (LightGBM with quantised gradients, one thread), and our twin in NumPy.
    """
    codes, labels, _ = draw_large(size.rows, size.sensors)
    contestants, missing = _ours(codes, labels)
    contestants[_CSR] = _sparse_pass(codes, labels)
    if find_spec("lightgbm") is None:
        missing.append(_STUMP)
    else:
        contestants[_STUMP] = _stump(codes, labels)
    per_code = 1e9 / (size.rows * size.sensors)
    return Setup(
        name="one-pass",
        title="One pass over the rows: loss and gradient of one head",
        size=size.text(),
        contestants=contestants,
        rounds=size.rounds_of(11),
        ours=_ONE if _ONE in contestants else _TWIN,
        yardstick=_CSR,
        unit="ns per code",
        factor=per_code,
        missing=missing,
        promised=() if size.quick else _promises(per_code),
        warm=True,
    )


def _ours(codes: Any, labels: Any) -> tuple[dict[str, Callable[[int], object]], list[str]]:
    n, s = codes.shape
    loss = LOSSES["logistic"]
    signed_weights = np.array([[-1.0, 1.0]]) / n
    weighted_rows = WeightedRows(
        pack(codes, [CODES] * s), labels.astype(np.uint8), np.empty(0), signed_weights
    )
    tables = _tables(s)
    twin: dict[str, Callable[[int], object]] = {
        _TWIN: lambda _: plain_sweep(weighted_rows, tables, loss),
    }
    if not has_numba():
        return twin, [_ONE, _TWO]
    compiled: dict[str, Callable[[int], object]] = {
        _ONE: lambda _: compiled_sweep(weighted_rows, tables, loss, 1),
        _TWO: lambda _: compiled_sweep(weighted_rows, tables, loss, 2),
    }
    return compiled | twin, []


def _tables(n_sensors: int) -> Any:
    return 0.1 * np.random.default_rng(1).normal(size=(1, n_sensors * CODES))


def _sparse_pass(codes: Any, labels: Any) -> Callable[[int], object]:
    matrix = one_hot(codes, CODES, np.float32)
    transposed = matrix.T  # CSC: what X.T @ r uses
    signs = (2.0 * labels - 1.0).astype(np.float32)
    w = _tables(codes.shape[1])[0].astype(np.float32)

    def work(_: int) -> object:
        margins = signs * (matrix @ w)
        value = np.logaddexp(0.0, -margins).mean()
        return value, transposed @ (-signs * expit(-margins) / len(signs))

    return work


def _stump(codes: Any, labels: Any) -> Callable[[int], object]:
    import lightgbm

    options = {
        "objective": "binary",
        "num_leaves": 2,
        "max_bin": CODES,
        "use_quantized_grad": True,
        "num_threads": 1,
        "force_row_wise": True,
        "min_data_in_bin": 1,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(codes.astype(np.float32), labels, params=options)
    booster = lightgbm.Booster(options, data)
    return lambda _: booster.update()


def _promises(per_code: float) -> list[Promise]:
    return [
        Promise("ns per code, 1 thread", lambda t: per_code * t[_ONE].median, 0.5, True),
        Promise("times faster than SciPy CSR", lambda t: t[_CSR].over(t[_ONE]), 4.0, False),
        Promise("times faster than LightGBM", lambda t: t[_STUMP].over(t[_ONE]), 2.0, False),
        Promise("times faster by a second thread", lambda t: t[_ONE].over(t[_TWO]), 1.6, False),
    ]


# --- A classifier ------------------------------------------------------------------------

_FIT, _PEER = "ours", "scikit-learn LogisticRegression"


def prepare_fit(size: Size) -> Setup:
    """Draw a table for logistic regression, to the objective that scikit-learn ends at.

    scikit-learn's LogisticRegression gets the one-hot table (float64) and its own defaults,
    without an intercept, which a one-hot table makes superfluous. Ours goes on until its estimate
    of what is left falls below 1e-6. Both minimise the mean logistic loss plus |w|^2 / (2 n).
    """
    codes, labels, _ = draw_large(size.rows, size.sensors)
    signed_weights = np.array([[-1.0, 1.0]]) / size.rows
    packed = pack(codes, [CODES] * size.sensors)
    weighted_rows = WeightedRows(packed, labels.astype(np.uint8), np.empty(0), signed_weights)
    matrix = one_hot(codes, CODES, np.float64)
    ended: dict[str, Any] = {}

    def ours(_: int) -> None:
        regs = np.array([1.0 / size.rows])
        solver = CodeSolver(weighted_rows, LOSSES["logistic"], regs, tolerance=1e-6, threads=1)
        itself = Features([np.eye(CODES)] * size.sensors)
        ended[_FIT] = solver.solve(itself).w[0]
        ended["passes"] = solver.passes

    def theirs(_: int) -> None:
        ended[_PEER] = fit_classifier(matrix, labels)

    def notes() -> list[str]:
        ours, theirs = (objective(matrix, labels, ended[name]) for name in (_FIT, _PEER))
        return [f"objective {ours:.8f}, scikit-learn's {theirs:.8f}; {ended['passes']:.1f} passes"]

    return Setup(
        name="logistic",
        title="Logistic regression to the same objective, one thread",
        size=size.text(),
        contestants={_FIT: ours, _PEER: theirs},
        rounds=size.rounds_of(5),
        ours=_FIT,
        yardstick=_PEER,
        promised=() if size.quick else [_FASTER],
        notes=notes,
    )


_FASTER = Promise("times faster than scikit-learn", lambda t: t[_PEER].over(t[_FIT]), 5.0, False)


def fit_classifier(matrix: Any, labels: Ints) -> NDArray[np.float64]:
    """Fit scikit-learn's classifier and return its weights."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(fit_intercept=False).fit(matrix, labels)
    weights: NDArray[np.float64] = fitted.coef_[0]
    return weights


def objective(matrix: Any, labels: Ints, w: NDArray[np.float64]) -> float:
    """Return what both minimise."""
    margins = (2 * labels - 1) * (matrix @ w)
    return float(np.logaddexp(0.0, -margins).mean() + 0.5 / len(labels) * w @ w)


# --- A whole design ----------------------------------------------------------------------

_DESIGN = "ours, a whole design"
_RATIO = 0.998


def prepare_design(size: Size) -> Setup:
    """Draw a table for an NPO design with the count kernel, beside one fit of a classifier."""
    codes, public, private = draw_large(size.rows, size.sensors)
    matrix = one_hot(codes, CODES, np.float64)
    found: list[Designed] = []

    def notes() -> list[str]:
        slack = float(np.min(found[-1].private_risks - found[-1].floors))
        passes = found[-1].passes or 0.0
        return [f"{passes:.0f} passes, F = {found[-1].public_risk:.5f}, least slack {slack:.1e}"]

    return Setup(
        name="design",
        title="A whole design, count kernel, beside one fit of a classifier, one thread",
        size=size.text(),
        contestants={
            _DESIGN: lambda _: found.append(design(codes, public, private)),
            _PEER: lambda _: fit_classifier(matrix, public),
        },
        rounds=size.rounds_of(3),
        ours=_DESIGN,
        yardstick=_PEER,
        promised=() if size.quick else [_NOT_TWICE],
        notes=notes,
    )


_NOT_TWICE = Promise(
    "times as long as scikit-learn", lambda t: t[_DESIGN].over(t[_PEER]), 2.0, True
)


def design(codes: Ints, public: Ints, private: Ints, place: Place | None = None) -> Designed:
    """Design the tables of a made-up table's sensors."""
    n, s = codes.shape
    sample = Sample(
        codes, (CODES,) * s, Labels("h", public, range(2)), (Labels("g", private, range(2)),)
    )
    settings = Settings((2,) * s, CountKernel(), LOSSES["logistic"], 0.3 / n, 0.1 / n, place=place)
    return design_sample(settings, sample, Target(_RATIO), rng=np.random.default_rng(0))
