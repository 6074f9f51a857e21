"""What the rows show beside the bounds: how often answers are right, and the paper's epsilon.

epsilon^ = max |log p^(g,z) / (p^(g) p^(z))| over the outputs seen is a plug-in and no
bound: an output seen once has ratio 1/p^(g) whatever the mapping does. So it is never
shown without its null floor, the range it would have on the same rows if the outputs had
nothing to do with the fact: the labels are shuffled among the rows and it is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.auditing.bounds.deviations import mean_lower, mean_upper
from discreet.auditing.bounds.intervals import Interval, kl_lower, kl_upper
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.mapping.mapping import Mapping

# --- Answers ---------------------------------------------------------------------------------


_DRAWN = 200_000  # decisions about drawn symbols, where the rows are few
_FEWEST_DRAWS = 20
_LISTED_AT_ONCE = 2**16


def score_answers(
    mapping: Mapping, rows: AuditRows, seed: int, listed: bool
) -> tuple[float, Floats, bool]:
    """Return the share of wrong answers, that of right ones by class, and if all are the same.

    ``rows``: with the public class as their class. ``listed``: average over Q, for which all
    outputs are listed, and not over drawn symbols.
    """
    if listed:
        classes, decided = range(rows.n_classes), _decisions(mapping)
        hits = [rows.joint[h, decided == h].sum() for h in classes]
        by_class = [rows.average[h, decided == h].sum() for h in classes]
        constant = len(np.unique(decided[rows.average.sum(axis=0) > 0])) == 1
        return float(np.clip(1.0 - sum(hits), 0, 1)), np.clip(by_class, 0, 1), constant
    rng = np.random.default_rng([seed, 5])
    draws = max(_FEWEST_DRAWS, -(-_DRAWN // len(rows.codes)))
    right, named = np.zeros(len(rows.codes)), np.zeros(rows.n_classes)
    for _ in range(draws):
        decided = mapping.decide(mapping.sample(rows.codes, rng))
        right += decided == rows.index
        named += np.bincount(decided, minlength=rows.n_classes)
    return *score_rows(rows, right / draws), bool(np.count_nonzero(named) == 1)


def score_rows(rows: AuditRows, right: Floats) -> tuple[float, Floats]:
    """Return the share of wrong answers, and that of right ones by class.

    ``right`` of shape (n_rows,): how often the answer about each row is right.
    """
    by_class = np.bincount(rows.index, rows.row_weights * right, minlength=rows.n_classes)
    group_rows = np.bincount(rows.group)[rows.group]
    error = 1.0 - float(np.sum(right / group_rows) / rows.n_groups)
    return float(np.clip(error, 0, 1)), np.clip(by_class, 0, 1)


def _decisions(mapping: Mapping) -> Ints:
    """Return the class that the fusion rule names for every output."""
    return np.concatenate([mapping.decide(part) for part in list_outputs(mapping.n_symbols)])


def list_outputs(sizes: Sequence[int]) -> Iterator[Ints]:
    """Yield all outputs, the first sensor slowest, as some rows of symbols at a time."""
    total = math.prod(sizes)
    for begin in range(0, total, _LISTED_AT_ONCE):
        numbers = np.arange(begin, min(begin + _LISTED_AT_ONCE, total))
        yield np.stack(np.unravel_index(numbers, tuple(sizes)), axis=1)


def error_interval(rows: AuditRows, error: float, alpha: float) -> Interval:
    """Return the share of wrong answers with Chernoff's interval, half of alpha on each side."""
    level = np.log(2.0 / alpha) / rows.n_groups
    return Interval(error, float(kl_lower(error, level)), float(kl_upper(error, level)))


def balanced_interval(rows: AuditRows, right: Floats, alpha: float) -> Interval:
    """Return the mean over classes of how often each is named rightly, with its interval."""
    return weighted_interval(rows, right, np.full(len(right), 1.0 / len(right)), alpha)


def weighted_interval(rows: AuditRows, right: Floats, worth: Floats, alpha: float) -> Interval:
    """Return the same where classes have other weights, which sum to 1."""
    share = alpha / (2 * rows.n_classes)
    low, high = (
        float(worth @ [bound(rows, k, each, share) for k, each in enumerate(right)])
        for bound in (mean_lower, mean_upper)
    )
    return Interval(float(worth @ right), low, high)


# --- Plug-in epsilon -------------------------------------------------------------------------


_SHUFFLES = 200
_FEWER_SHUFFLES = 50  # for long tables, where the range is narrow anyway
_LONG = 20_000


@dataclass(frozen=True)
class PlugInEpsilon:
    """The estimate, and the 5th to 95th percentile of it under shuffled labels."""

    value: float
    null_low: float
    null_high: float
    outputs_seen: int

    @property
    def beyond_chance(self) -> bool:
        return self.value > self.null_high

    def words(self) -> str:
        """Return what may be said of the estimate."""
        seen = "more than chance" if self.beyond_chance else "no more than chance"
        return (
            f"plug-in estimate {self.value:.2f}; a mapping that leaks nothing would show "
            f"{self.null_low:.2f} to {self.null_high:.2f} on these rows, so it shows {seen}. "
            "It is no bound"
        )


def plug_in_epsilon(
    symbols: Ints,
    index: Ints,
    n_classes: int,
    rng: np.random.Generator,
    groups: Ints | None = None,
) -> PlugInEpsilon:
    """Estimate epsilon from drawn symbols, with its null floor.

    Rows of one group resemble each other, so groups are shuffled and not rows: each keeps its
    own run of labels.
    """
    outputs = distinct_rows(symbols).inverse
    n_outputs = int(outputs.max()) + 1
    shuffles = _SHUFFLES if len(index) <= _LONG else _FEWER_SHUFFLES
    null = [
        _largest_ratio(outputs, n_outputs, _shuffled(index, groups, rng), n_classes)
        for _ in range(shuffles)
    ]
    low, high = np.quantile(null, [0.05, 0.95])
    value = _largest_ratio(outputs, n_outputs, index, n_classes)
    return PlugInEpsilon(value, float(low), float(high), n_outputs)


def _shuffled(index: Ints, groups: Ints | None, rng: np.random.Generator) -> Ints:
    if groups is None:
        return rng.permutation(index)
    rows = np.argsort(groups, kind="stable")
    turn = rng.permutation(int(groups.max()) + 1)[groups]
    shuffled = np.empty_like(index)
    shuffled[rows] = index[np.argsort(turn, kind="stable")]
    return shuffled


def _largest_ratio(outputs: Ints, n_outputs: int, index: Ints, n_classes: int) -> float:
    counts = np.bincount(index * n_outputs + outputs, minlength=n_classes * n_outputs)
    joint = counts.reshape(n_classes, n_outputs) / len(index)
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    # A class never seen with an output has log-ratio minus infinity; the paper leaves it out.
    seen = joint > 0
    ratios = joint[seen] / independent[seen]
    return float(max(np.log(ratios.max()), -np.log(ratios.min())))
