"""k-ary randomised response: the answer to "why not plain local differential privacy?".

Every sensor reports the truth with probability e^eps / (e^eps + k - 1) and each of its
other k - 1 symbols with probability 1 / (e^eps + k - 1), whatever the private fact is.
With fewer symbols than codes the truth is the group that the code belongs to.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import xlogy

from discreet.arrays import Floats, Ints
from discreet.design.feasible import Designed
from discreet.design.inputs import Coded, Settings, Target
from discreet.design.problem import Designer
from discreet.design.risks import Tables
from discreet.design.training_rows import Sample
from discreet.errors import InputError
from discreet.mappers.base import PrivacyMapper
from discreet.mapping.parts import TOTAL, Design

DEFAULT_EPSILON = 1.0
_USED_BY_THE_FUSION_RULE = ("kernel", "reg", "seed", "stopped")
_LARGEST_EXPONENT = 700.0  # beyond it exp overflows, and a table of 32-bit weights long before


class RandomizedResponseMapper(PrivacyMapper):
    """Answer by k-ary randomised response in every sensor.

    The tables keep log Q(z|x)/Q(z|x') of every sensor at most ``ldp_epsilon``, in the
    integers that ship. The private fact is required so that an audit knows what to look
    for; it does not influence the tables.

    A sensor with more codes than symbols reports a group of codes. The groups keep as much
    as they can of what the codes say about the public fact: codes are put in order of how
    often each public class goes with them, and cut where least mutual information is lost.
    For two public classes no other grouping loses less on the training rows. Symbols beyond
    the number of codes that the training rows show are never sent. A code that they do not
    show answers with a mixture of the other codes' rows.

    The remaining parameters are those that all mappers take. They have no influence here,
    but for ``privacy_ratio``, ``max_advantage`` and ``epsilon``: these speak of the private
    fact and are refused.

    Parameters
    ----------
    n_symbols : int, sequence or dict, default=2
        Symbols a sensor may send; one number for all, or one for each.
    ldp_epsilon : float, optional
        The budget of every single sensor; 1.0 if not given. The joint symbols of s
        sensors have s times as much.
    kernel, reg, binning, n_bins, decide, random_state
        As in ``NPOMapper``. The first two shape the fusion rule only.

    Attributes
    ----------
    ldp_epsilon_ : float
        The budget in force.
    mapping_, classes_, useful_, structural_epsilon_, expected_
        As in ``NPOMapper``.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import RandomizedResponseMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall = [0, 0, 1, 1] * 10
    >>> who = ["a", "b"] * 20
    >>> mapper = RandomizedResponseMapper(ldp_epsilon=2.0).fit(readings, fall, private=who)
    >>> mapper.structural_epsilon_ <= 2 * 2.0
    True
    """

    _method = "randomized-response"
    most_rows = None
    _constrained = False
    _advice = "Allow a larger ldp_epsilon, or give more rows or other sensors."

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("privacy_ratio", "max_advantage", "epsilon"):
            if getattr(self, name) is not None:
                raise InputError(
                    f"{name} was given, but randomised response does not look at the private fact. "
                    "Give ldp_epsilon, the budget of every sensor, or use NPOMapper."
                )

    def _settings(self, coded: Coded) -> Settings:
        self.ldp_epsilon_ = DEFAULT_EPSILON if self.ldp_epsilon is None else float(self.ldp_epsilon)
        return replace(super()._settings(coded), ldp_epsilon=self.ldp_epsilon_)

    @property
    def _designer(self) -> Designer:
        def follow(settings: Settings, sample: Sample, target: Target, **_: Any) -> Designed:
            return Designed(_tables(settings, sample), float("nan"), np.empty(0), np.empty(0))

        return follow

    def _describe(self, settings: Settings, target: Target, seed: int, coded: Coded) -> Design:
        design = super()._describe(settings, target, seed, coded)
        used = {name: design.parameters[name] for name in _USED_BY_THE_FUSION_RULE}
        parameters = used | {"ldp_epsilon": settings.ldp_epsilon}
        return design.model_copy(update={"parameters": parameters})


def _tables(settings: Settings, sample: Sample) -> Tables:
    assert settings.ldp_epsilon is not None
    tables = []
    for t, (size, n_symbols) in enumerate(zip(sample.sizes, settings.n_symbols, strict=True)):
        groups = group_codes(_count_classes(sample, t, size), n_symbols)
        tables.append(response_table(groups, n_symbols, settings.ldp_epsilon))
    return tables


def response_table(groups: Ints, n_symbols: int, epsilon: float) -> Floats:
    """Return the table of k-ary randomised response, k the number of groups.

    ``groups``: the group of every code, from 0 to k - 1; -1 for a code without one, which answers
    with each of the k symbols alike. ``n_symbols``: columns of the table. Those from k on are never
    sent. ``epsilon``: no ratio within a column exceeds e^epsilon. Entries are whole multiples of
    2**-32, a lie rounded up and the truth down, so that the rounding of the mapping changes
    nothing.
    """
    k = int(groups.max()) + 1
    lie = math.ceil(TOTAL / (math.exp(min(epsilon, _LARGEST_EXPONENT)) + k - 1))
    truth = max(TOTAL - (k - 1) * lie, lie)  # for a tiny epsilon the rounding would swap the two
    table = np.zeros((len(groups), n_symbols))
    table[:, :k] = lie
    known = groups >= 0
    table[known, groups[known]] = truth
    table[~known, :k] = 1.0
    share: Floats = table / table.sum(axis=1, keepdims=True)
    return share


def group_codes(counts: Floats, n_groups: int) -> Ints:
    """Put codes into groups that keep what they say about the public fact.

    ``counts`` of shape (n_codes, n_classes): training rows of every code and public class.
    ``n_groups``: most groups. If the codes that occur are no more, each is a group of its own.
    Returns the group of every code, -1 for codes that do not occur.
    """
    groups = np.full(len(counts), -1, dtype=np.int64)
    seen = np.flatnonzero(counts.sum(axis=1) > 0)
    if len(seen) <= n_groups:
        groups[seen] = np.arange(len(seen))
        return groups
    order = seen[np.argsort(_positions(counts[seen]), kind="stable")]
    for group, (begin, end) in enumerate(_best_cuts(counts[order], n_groups)):
        groups[order[begin:end]] = group
    return groups


def _positions(counts: Floats) -> Floats:
    """Return each code's place on the line along which its class shares vary most.

    With two classes that is the share of the second one.
    """
    totals = counts.sum(axis=1)
    shares = counts / totals[:, None]
    centred = shares - counts.sum(axis=0) / totals.sum()
    direction = np.linalg.eigh((centred * totals[:, None]).T @ centred)[1][:, -1]
    if counts.shape[1] == 2:  # exactly, so that equal shares stay equal
        return np.asarray(shares[:, 1])
    return np.asarray(shares @ (direction * np.sign(direction[np.argmax(np.abs(direction))])))


def _best_cuts(counts: Floats, n_groups: int) -> list[tuple[int, int]]:
    """Cut a line of codes into intervals with the largest mutual information, exactly.

    Dynamic programming: ``best[k, j]`` is the most that k intervals keep of the first j codes.
    """
    n_codes = len(counts)
    sums = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    best = np.full((n_groups + 1, n_codes + 1), -np.inf)
    begin = np.zeros((n_groups + 1, n_codes + 1), dtype=np.int64)
    best[0, 0] = 0.0
    for j in range(1, n_codes + 1):
        kept = best[:-1, :j] + _information(sums[j] - sums[:j])
        begin[1:, j] = kept.argmax(axis=1)
        best[1:, j] = kept.max(axis=1)
    cuts, end = [], n_codes
    for k in range(n_groups, 0, -1):
        cuts.append((int(begin[k, end]), end))
        end = cuts[-1][0]
    return cuts[::-1]


def _information(counts: Floats) -> Floats:
    """Return minus the class entropy of each group, times its rows."""
    within: Floats = xlogy(counts, counts).sum(axis=1)
    totals = counts.sum(axis=1)
    return np.asarray(within - xlogy(totals, totals))


def _count_classes(sample: Sample, t: int, size: int) -> Floats:
    cells = sample.codes[:, t] * sample.public.n_classes + sample.public.index
    counts = np.bincount(cells, minlength=size * sample.public.n_classes)
    return counts.reshape(size, -1).astype(np.float64)
