"""The steps of a sweep over packed rows, compiled. Import it only where it pays (``sweep``).

A block of rows goes through four of them for every head: look the scores up, fill in the
signed weights, apply the loss, add the residuals up by cell. They stay four functions: joined in
one, the cached machine code was a quarter slower than the code compiled on the spot.

The exponential and the logarithm are written out as polynomials: unlike calls to the
system's library, they are turned into vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # ln 2 in two parts
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, in the last bits
_LARGEST_EXPONENT = 500.0  # as in ``losses``

# Where rows are added up the order is theirs. Within the loss of a block it is free, but
# always the same.
_plain: Any = njit(nogil=True, cache=True, error_model="numpy")
_vector: Any = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
_inline: Any = njit(inline="always", error_model="numpy")


@_inline
def _exp(x):  # type: ignore[no-untyped-def]
    """Return e**x for |x| < 700 to 1e-15, as 2**k * e**f with |f| <= ln(2) / 2."""
    shifted = x * _LOG2E + _ROUND
    k = shifted - _ROUND
    f = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 479001600.0
    p = p * f + 1.0 / 39916800.0
    p = p * f + 1.0 / 3628800.0
    p = p * f + 1.0 / 362880.0
    p = p * f + 1.0 / 40320.0
    p = p * f + 1.0 / 5040.0
    p = p * f + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f + 1.0
    p = p * f + 1.0
    power = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52))
    return p * np.int64(power).view(np.float64)


@_inline
def _log1p(s):  # type: ignore[no-untyped-def]
    """Return log(1 + e) for 0 <= e <= 1 from s = e / (2 + e), as the series of 2 artanh(s)."""
    q = s * s
    p = 1.0 / 27.0
    p = p * q + 1.0 / 25.0
    p = p * q + 1.0 / 23.0
    p = p * q + 1.0 / 21.0
    p = p * q + 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    p = p * q + 1.0
    return 2.0 * s * p


@_vector
def logistic(scores, signed_weights, residuals):  # type: ignore[no-untyped-def]
    """Fill in b = -d loss / d score and return the loss; a vote is a signed weight."""
    total = 0.0
    for i in range(scores.size):
        vote = signed_weights[i]
        u = scores[i] if vote >= 0.0 else -scores[i]
        a = abs(u)
        a = a if a < 700.0 else 700.0
        e = _exp(-a)
        both = 1.0 / ((1.0 + e) * (2.0 + e))  # one division for two: it is the slowest step
        share = (2.0 + e) * both
        residuals[i] = vote * (share * e if u >= 0.0 else share)
        total += abs(vote) * (_log1p(e * (1.0 + e) * both) + 0.5 * (abs(u) - u))
    return total


@_vector
def exponential(scores, signed_weights, residuals):  # type: ignore[no-untyped-def]
    """Do the same for phi(u) = exp(-u)."""
    total = 0.0
    for i in range(scores.size):
        vote = signed_weights[i]
        x = -scores[i] if vote >= 0.0 else scores[i]
        x = x if x < _LARGEST_EXPONENT else _LARGEST_EXPONENT
        x = x if x > -700.0 else -700.0
        e = _exp(x)
        residuals[i] = vote * e
        total += abs(vote) * e
    return total


@_vector
def square(scores, signed_weights, residuals):  # type: ignore[no-untyped-def]
    """Do the same for phi(u) = (1 - u)**2."""
    total = 0.0
    for i in range(scores.size):
        vote = signed_weights[i]
        gap = 1.0 - (scores[i] if vote >= 0.0 else -scores[i])
        residuals[i] = 2.0 * vote * gap
        total += abs(vote) * gap * gap
    return total


def _word_steps(width: int) -> tuple[Any, Any]:
    """Return how rows of one word are looked up and added up, for words of ``width`` bytes."""
    last = np.uint64(255)

    @_plain
    def look_up_word(words, tables, scores):  # type: ignore[no-untyped-def]
        whole = words.size // 2 * 2
        for i in range(0, whole, 2):  # two rows side by side: no sum waits for another
            x, y = np.uint64(words[i]), np.uint64(words[i + 1])
            a, b = scores[i], scores[i + 1]
            for j in range(width):
                shift = np.uint64(8 * j)
                a += tables[j, (x >> shift) & last]
                b += tables[j, (y >> shift) & last]
            scores[i], scores[i + 1] = a, b
        for i in range(whole, words.size):
            for j in range(width):
                scores[i] += tables[j, (np.uint64(words[i]) >> np.uint64(8 * j)) & last]

    @_plain
    def add_word(words, residuals, sums):  # type: ignore[no-untyped-def]
        for i in range(words.size):
            x, residual = np.uint64(words[i]), residuals[i]
            for j in range(width):
                sums[j, (x >> np.uint64(8 * j)) & last] += residual

    return look_up_word, add_word


_STEPS = {width: _word_steps(width) for width in (8, 4, 2, 1)}
LOOK_UP_WORD: dict[int, Any] = {width: steps[0] for width, steps in _STEPS.items()}
"""By bytes of a word: add to every row's score what the tables have for its bytes."""
ADD_WORD: dict[int, Any] = {width: steps[1] for width, steps in _STEPS.items()}
"""By bytes of a word: add every row's residual to the sums of its bytes."""


@_plain
def look_up(cells, tables, scores):  # type: ignore[no-untyped-def]
    """Add to every row's score what the tables have for its wide cells."""
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            scores[i] += tables[j, cells[i, j]]


@_plain
def add_up(cells, residuals, sums):  # type: ignore[no-untyped-def]
    """Add every row's residual to the sums of its wide cells."""
    for i in range(cells.shape[0]):
        residual = residuals[i]
        for j in range(cells.shape[1]):
            sums[j, cells[i, j]] += residual


@_plain
def vote(kinds, counts, weights, signed_weights):  # type: ignore[no-untyped-def]
    """Fill in the signed weight of every row: that of its kind, times its count."""
    for i in range(kinds.size):
        signed_weights[i] = weights[kinds[i]]
    for i in range(counts.size):  # no counts at all: every row counts once
        signed_weights[i] *= counts[i]


LOSSES: dict[str, Any] = {"logistic": logistic, "exponential": exponential, "square": square}


@_plain
def add_pairs(index, weights, sums):  # type: ignore[no-untyped-def]
    """Add every row's weight to all pairs of its codes, later code first."""
    for i in range(index.shape[0]):
        weight = weights[i]
        for t in range(index.shape[1]):
            row = sums[index[i, t]]
            for u in range(t + 1):
                row[index[i, u]] += weight
