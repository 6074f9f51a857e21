"""Inner solvers for one head: arrays in, one result out.

A head is a weighted risk on rows that may carry weight for both signs,

    risk(w) = sum_i pos_i phi(s_i) + neg_i phi(-s_i) + (reg / 2) |w|^2,   s = features @ w.

``fit_primal`` takes features and a smooth loss; ``solve_dual`` takes a Gram matrix and
any loss. Both return the same ``HeadSolution``, whose ``residual`` b = -d risk / d s is
all that the gradients in the mapping need (the envelope theorem), with
w = (1 / reg) sum_i b_i Phi(x_i). The paper prints that relation without the 1 / reg.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from discreet.arrays import Floats
from discreet.design.losses import Loss

_ARMIJO = 1e-4
_NEWTON_STEPS, _NEWTON_TOLERANCE = 100, 1e-12
_DUAL_STEPS, _DUAL_TOLERANCE = 300, 1e-11
_SIGNS = np.array([1.0, -1.0])[:, None, None]


@dataclass(frozen=True)
class HeadSolution:
    """The minimum of one head's risk.

    ``value``: the risk at the minimum. ``scores`` of shape (n_rows,): <w, Phi(x_i)> for every row.
    ``residual`` of shape (n_rows,): b_i, minus the slope of the risk in score i. ``variables``:
    where a warm start continues: w (primal) or the dual variables.
    """

    value: float
    scores: Floats
    residual: Floats
    variables: Floats


def head_value(scores: Floats, pos: Floats, neg: Floats, loss: Loss) -> float:
    """Return the weighted loss without its regulariser."""
    return float(pos @ loss.value(scores) + neg @ loss.value(-scores))


def head_residual(scores: Floats, pos: Floats, neg: Floats, loss: Loss) -> Floats:
    """Return b = -d loss / d score for every row (or for every head and row)."""
    return neg * loss.gradient(-scores) - pos * loss.gradient(scores)


def fit_primal(features: Floats, pos: Floats, neg: Floats, loss: Loss, reg: float) -> HeadSolution:
    """Minimise one smooth head by Newton steps with backtracking."""
    return fit_stack(features, pos[None], neg[None], loss, np.array([reg]))[0]


def fit_stack(
    features: Floats,
    pos: Floats,
    neg: Floats,
    loss: Loss,
    regs: Floats,
    start: Floats | None = None,
) -> list[HeadSolution]:
    """Minimise several smooth heads on the same features, all in the same Newton steps.

    ``pos`` and ``neg`` have one row per head. A Newton step squares the distance to the
    minimum, so the last step is taken from the root of the tolerance.
    """
    weights = np.stack([pos, neg])
    w = np.zeros((len(pos), features.shape[1])) if start is None else start
    scores, ridge = w @ features.T, regs[:, None, None] * np.eye(features.shape[1])
    values = _stack_values(scores, w, weights, loss, regs)
    for _ in range(_NEWTON_STEPS):
        margins = _SIGNS * scores
        residuals = -(_SIGNS * weights * loss.gradient(margins)).sum(axis=0)
        slope = regs[:, None] * w - residuals @ features
        curvature = (weights * loss.curvature(margins)).sum(axis=0)
        step = -np.linalg.solve(_hessians(features, curvature) + ridge, slope[:, :, None])[:, :, 0]
        decrement, change, length = -(slope * step).sum(axis=1), step @ features.T, 1.0
        old_w, old_scores, old_values = w, scores, values
        while True:
            w, scores = old_w + length * step, old_scores + length * change
            values = _stack_values(scores, w, weights, loss, regs)
            poor = values > old_values - _ARMIJO * length * decrement + 1e-15
            if length < 1e-10 or not poor.any():
                break
            length *= 0.5
        if np.all((decrement <= 1e-2 * _NEWTON_TOLERANCE**0.5) | (values >= old_values)):
            break
    residuals = head_residual(scores, pos, neg, loss)
    return [
        HeadSolution(float(value), *parts)
        for value, *parts in zip(values, scores, residuals, w, strict=True)
    ]


def _hessians(features: Floats, curvature: Floats) -> Floats:
    """Return features' diag(c) features for every head, in one matrix product."""
    n_rows, n_features = features.shape
    weighted = (curvature.T[:, :, None] * features[:, None, :]).reshape(n_rows, -1)
    return (features.T @ weighted).reshape(n_features, -1, n_features).transpose(1, 0, 2)


def _stack_values(scores: Floats, w: Floats, weights: Floats, loss: Loss, regs: Floats) -> Floats:
    """Return the risk of every head; ``weights`` holds those of both signs."""
    losses = np.einsum("shn,shn->h", weights, loss.value(_SIGNS * scores))
    total: Floats = losses + 0.5 * regs * (w * w).sum(axis=1)
    return total


def solve_dual(
    gram: Floats,
    pos: Floats,
    neg: Floats,
    loss: Loss,
    reg: float,
    start: Floats | None = None,
) -> HeadSolution:
    """Maximise the dual risk for a fixed mapping by projected Newton steps.

    Every row that carries weight for a sign has one dual variable x in the loss's
    ``dual_interval``; beta = weight * x is the paper's. ``pos`` and ``neg`` alone tell
    the risks apart: 1/n gives the public risk F, 1/(2 n_g) the normalised private one.
    """
    rows, signs, weights = signed_rows(pos, neg)
    coupling = (signs * weights)[:, None] * gram[np.ix_(rows, rows)] * (signs * weights) / reg
    if loss.smooth:
        x = _projected_newton(coupling, weights, loss, start)
    else:
        x = _interior_point(coupling, weights, loss)
    residual = np.zeros(len(pos))
    np.add.at(residual, rows, signs * weights * x)
    value = float(-(weights @ loss.conjugate(x)) - 0.5 * x @ coupling @ x)
    return HeadSolution(value, gram @ residual / reg, residual, x)


def dual_value(
    gram: Floats, pos: Floats, neg: Floats, x: Floats, residual: Floats, loss: Loss, reg: float
) -> float:
    """Return the dual risk of given dual variables under another Gram matrix."""
    _, _, weights = signed_rows(pos, neg)
    return float(-(weights @ loss.conjugate(x)) - 0.5 * residual @ gram @ residual / reg)


def signed_rows(pos: Floats, neg: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return (row, sign, weight) of every dual variable, positive signs first."""
    plus, minus = np.flatnonzero(pos > 0), np.flatnonzero(neg > 0)
    signs = np.concatenate([np.ones(len(plus)), -np.ones(len(minus))])
    return np.concatenate([plus, minus]), signs, np.concatenate([pos[plus], neg[minus]])


def _projected_newton(
    coupling: Floats, weights: Floats, loss: Loss, start: Floats | None
) -> Floats:
    """Minimise weights @ conjugate(x) + x @ coupling @ x / 2 for a smooth loss."""
    low, high = loss.dual_interval
    x = np.clip(np.full(len(weights), 0.5) if start is None else start, low, high)

    def objective(point: Floats) -> float:
        return float(weights @ loss.conjugate(point) + 0.5 * point @ coupling @ point)

    value = objective(x)
    for _ in range(_DUAL_STEPS):
        slope = weights * loss.conjugate_gradient(x) + coupling @ x
        held = ((x <= low) & (slope > 0)) | ((x >= high) & (slope < 0))
        free = np.flatnonzero(~held)
        step = np.zeros_like(x)
        own = weights[free] * loss.conjugate_curvature(x[free])
        step[free] = -_solve_scaled(coupling[np.ix_(free, free)], own, slope[free])
        if float(np.abs(np.clip(x + step, low, high) - x) @ np.abs(slope)) <= _DUAL_TOLERANCE:
            break
        length, improved = 1.0, False
        while length > 1e-12 and not improved:
            candidate = np.clip(x + length * step, low, high)
            new_value = objective(candidate)
            improved = new_value <= value + _ARMIJO * float(slope @ (candidate - x))
            length *= 0.5
        if not improved or new_value >= value:  # no further digits to gain
            break
        x, value = candidate, new_value
    return x


def _interior_point(coupling: Floats, weights: Floats, loss: Loss) -> Floats:
    """Minimise the same for a loss whose conjugate is linear on a bounded interval.

    A primal-dual method, because the hinge has no curvature of its own and duplicate
    rows make the Gram matrix singular: Newton steps alone do not converge there.
    """
    low, high = loss.dual_interval
    x = np.full(len(weights), 0.5 * (low + high))
    linear = weights * loss.conjugate_gradient(x)
    push_low = push_high = weights.copy()
    for _ in range(_DUAL_STEPS):
        from_low, to_high = x - low, high - x
        gap = float(push_low @ from_low + push_high @ to_high)
        slope = coupling @ x + linear
        off = float(np.max(np.abs(slope - push_low + push_high)))
        if max(gap, off) <= _DUAL_TOLERANCE:
            break
        centre = 0.1 * gap / (2 * len(x))
        own = push_low / from_low + push_high / to_high
        step = -_solve_scaled(coupling, own, slope - centre / from_low + centre / to_high)
        low_step = centre / from_low - push_low - push_low / from_low * step
        high_step = centre / to_high - push_high + push_high / to_high * step
        length = min(
            _room(from_low, step),
            _room(to_high, -step),
            _room(push_low, low_step),
            _room(push_high, high_step),
        )
        x = x + length * step
        push_low = push_low + length * low_step
        push_high = push_high + length * high_step
    return np.asarray(np.clip(x, low, high))


def _room(distance: Floats, step: Floats) -> float:
    """Return the largest step length in (0, 1] that stays strictly inside."""
    shrinking = step < 0
    if not shrinking.any():
        return 1.0
    return min(1.0, 0.995 * float(np.min(distance[shrinking] / -step[shrinking])))


def _solve_scaled(coupling: Floats, own: Floats, right: Floats) -> Floats:
    """Solve (coupling + diag(own)) y = right, scaled by the diagonal first.

    The curvatures of the conjugates span many orders of magnitude.
    """
    diagonal = np.diag(coupling) + own
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))
    matrix = scale[:, None] * coupling * scale
    matrix.flat[:: len(own) + 1] = 1.0 + 1e-13
    y: Floats = scale * cho_solve(
        cho_factor(matrix, overwrite_a=True, check_finite=False), scale * right, check_finite=False
    )
    return y
