"""One pass over the rows, loss and gradient of one head, beside other ways to do it.

The peers: the same loss and gradient from a one-hot matrix (SciPy CSR, float32), one boosting
iteration of a stump (LightGBM with quantised gradients, one thread), and our twin in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import expit

from discreet.bench.measure import Promise, Setup
from discreet.bench.size import CODES, Size
from discreet.bench.tables import draw_large, one_hot
from discreet.design.losses import LOSSES
from discreet.design.packing import pack
from discreet.design.sweep import Ballots, compiled_sweep, has_numba, plain_sweep

_OURS, _TWO, _TWIN = "ours, 1 thread", "ours, 2 threads", "ours, NumPy"
_CSR, _STUMP = "SciPy CSR float32", "LightGBM stump"


def prepare(size: Size) -> Setup:
    """Draw a table and get everybody ready."""
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
        ours=_OURS if _OURS in contestants else _TWIN,
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
    votes = np.array([[-1.0, 1.0]]) / n
    ballots = Ballots(pack(codes, [CODES] * s), labels.astype(np.uint8), np.empty(0), votes)
    tables = _tables(s)
    twin: dict[str, Callable[[int], object]] = {
        _TWIN: lambda _: plain_sweep(ballots, tables, loss),
    }
    if not has_numba():
        return twin, [_OURS, _TWO]
    compiled: dict[str, Callable[[int], object]] = {
        _OURS: lambda _: compiled_sweep(ballots, tables, loss, 1),
        _TWO: lambda _: compiled_sweep(ballots, tables, loss, 2),
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
        Promise("ns per code, 1 thread", lambda t: per_code * t[_OURS].median, 0.5, True),
        Promise("times faster than SciPy CSR", lambda t: t[_CSR].over(t[_OURS]), 4.0, False),
        Promise("times faster than LightGBM", lambda t: t[_STUMP].over(t[_OURS]), 2.0, False),
        Promise("times faster by a second thread", lambda t: t[_OURS].over(t[_TWO]), 1.6, False),
    ]
