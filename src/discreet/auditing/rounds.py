"""The audit of a window of many rounds, such as a day: bound, assumption, attackers.

The bound (``bounds.over_time``) rests on the hidden state being the fact. Where there is a series,
that is tested, and the bound is withheld where the test fails. If rounds are linked by the public
fact as well, or if that is what a limit is on, the bound is one beyond the answer: on what is
gained by an attacker who knows the public fact of every round. Without a series the chain of the
private fact is declared.

*Attackers who watch many rounds: what they reach against the length of what they see.* Two
attackers learn from some days (or other groups) of a series and guess the fact of every round of
the others. One knows the tables and the codes of the rounds it learns from, takes the fact for a
chain and weighs all rounds of a window around the one in question (forward and backward). The
other learns, with boosted trees, from how often each symbol was sent in windows of several lengths
and from which rounds were silent; it assumes nothing. What either reaches any attacker can reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.certificates import (
    HELD_OUT,
    SHIPPED,
    Certificate,
    NotCertifiable,
    percent,
    rows_within,
)
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.over_time import (
    WindowBound,
    bound_kept,
    bound_window,
    why_no_chain,
)
from discreet.data.columns import Labels
from discreet.data.series import HiddenState, Series, check_hidden_state, count_steps
from discreet.leakage.chains import Chain
from discreet.leakage.joint_outputs import average_outputs
from discreet.mapping.mapping import Mapping
from discreet.rounding import at_most

if TYPE_CHECKING:
    from discreet.auditing.data import AuditData, AuditOptions

# --- Attackers who watch many rounds --------------------------------------------------------

WINDOWS = (1, 4, 16, 60, 250, 1_000)
_MOST_TAUGHT = 20_000  # rounds that the trees learn from


@dataclass(frozen=True)
class Rounds:
    """The rounds of a series in order: what was sent, the fact, and where a stretch begins.

    ``symbols`` of shape (n_rounds, n_sensors), -1 where a sensor was silent. ``given`` of shape
    (n_rounds, n_classes): the likelihood of a round's symbols. ``stretch``: number of the unbroken
    stretch of a round; ``group``: the day, say, whose rounds are learned from or guessed together.
    """

    symbols: Ints
    given: Floats
    fact: Ints
    stretch: Ints
    group: Ints


@dataclass(frozen=True)
class WindowAttack:
    """How much better than guessing an attacker was, balanced, and the standard error by group."""

    name: str
    window: int
    advantage: float
    error: float


def attack_windows(
    rounds: Rounds, taught: Ints, moves: Floats, windows: Sequence[int] = WINDOWS, seed: int = 0
) -> list[WindowAttack]:
    """Attack the rounds of groups that are not ``taught``, in windows of each length."""
    learned_from = np.isin(rounds.group, taught)
    found = []
    for window in windows:
        weighed = watch(rounds, moves, window)
        found.append(_judged("forward-backward", window, weighed, rounds, ~learned_from))
        stood = window_statistics(rounds, window)
        scores = _boosted(stood, rounds.fact, learned_from, len(moves), seed)
        found.append(_judged("boosted trees", window, scores, rounds, ~learned_from))
    return found


def watch(rounds: Rounds, moves: Floats, window: int) -> Floats:
    """Return the likelihood of a window's symbols for every class of the round in its middle."""
    before, after = (window - 1) // 2, window // 2
    past = _carried(rounds.given, rounds.stretch, _reversed_chain(moves), before)
    future = _carried(rounds.given[::-1], rounds.stretch[::-1], moves, after)[::-1]
    return _scaled(rounds.given * past * future)


def _carried(given: Floats, stretch: Ints, step: Floats, length: int) -> Floats:
    """Return what ``length`` rounds before each one say of its class; 1 where there are none.

    ``step[g, h]``: P(the class one round earlier in this direction is h | this one's is g).
    """
    belief = np.ones_like(given)
    for back in range(length, 0, -1):  # the farthest round comes first
        earlier = np.arange(len(given)) - back
        there = earlier >= 0
        there[there] = stretch[earlier[there]] == stretch[there]
        seen = np.ones_like(given)
        seen[there] = given[earlier[there]]
        belief = _scaled((belief * seen) @ step.T)
    return belief


def _scaled(likelihoods: Floats) -> Floats:
    largest = likelihoods.max(axis=1, keepdims=True)
    return np.asarray(likelihoods / np.where(largest > 0, largest, 1.0))


def _reversed_chain(moves: Floats) -> Floats:
    values, vectors = np.linalg.eig(moves.T)
    law = np.abs(np.real(vectors[:, np.argmin(np.abs(values - 1.0))]))
    back = moves.T * law / np.maximum(law, 1e-300)[:, None]
    return np.asarray(back / back.sum(axis=1, keepdims=True))


def window_statistics(rounds: Rounds, window: int) -> Floats:
    """Return how often each symbol was sent around a round, in windows up to the one given.

    Of the symbols of a sensor that are not silence, the first follows from the others.
    """
    sent = [
        rounds.symbols[:, t] == z
        for t in range(rounds.symbols.shape[1])
        for z in np.unique(rounds.symbols[:, t])
        if z != 0
    ]
    here = np.array([*sent, np.ones(len(rounds.fact), dtype=bool)], dtype=np.float64).T
    lengths = sorted({1, *(each for each in (3, 9, 31, 101, 301) if each < window), window})
    return np.hstack([_window_sums(here, rounds.stretch, each) for each in lengths])


def _window_sums(values: Floats, stretch: Ints, window: int) -> Floats:
    sums = np.vstack([np.zeros(values.shape[1]), values.cumsum(axis=0)])
    place = np.arange(len(values))
    first = np.searchsorted(stretch, stretch)
    last = np.searchsorted(stretch, stretch, side="right")
    begin = np.maximum(place - (window - 1) // 2, first)
    end = np.minimum(place + window // 2 + 1, last)
    return np.asarray(sums[end] - sums[begin])


def _boosted(features: Floats, fact: Ints, taught: np.ndarray, n_classes: int, seed: int) -> Floats:
    rows = np.flatnonzero(taught)[:_MOST_TAUGHT]
    scores = np.ones((len(fact), n_classes))
    if len(np.unique(fact[rows])) < 2:
        return scores
    # One thread: trees this small spend most of the time waiting for one another on a busy machine.
    with threadpool_limits(limits=1):
        model = HistGradientBoostingClassifier(
            max_iter=60, max_depth=4, class_weight="balanced", random_state=seed
        ).fit(features[rows], fact[rows])
        scores[:, model.classes_] += model.predict_proba(features)
    return scores


def _judged(
    name: str, window: int, scores: Floats, rounds: Rounds, judged: np.ndarray
) -> WindowAttack:
    """Return balanced accuracy over guessing; ties are shared among the classes that tie."""
    fact, m = rounds.fact[judged], scores.shape[1]
    best = scores[judged] >= scores[judged].max(axis=1, keepdims=True) * (1 - 1e-12)
    right = best[np.arange(len(fact)), fact] / best.sum(axis=1)
    shares = np.bincount(fact, minlength=m)
    there = shares > 0
    weight = 1.0 / (shares[fact] * there.sum())
    gain = float(right @ weight) - 1.0 / int(there.sum())
    days = np.unique(rounds.group[judged], return_inverse=True)[1]
    parts = np.bincount(days, weights=(right - float(right @ weight)) * weight)
    return WindowAttack(name, window, gain, float(np.sqrt((parts**2).sum())))


# --- The audit ------------------------------------------------------------------------------

_MOST_OUTPUTS = 4_096  # for which an attacker knows the likelihood of every output
_FRESH = "every sensor draws a new symbol in every round"
_HIDDEN = "given {what} of a round, its readings depend on nothing of other rounds"
_ALONE, _BOTH = "the private fact", "the public and the private fact"
_CHAIN = "the private fact moves as a stationary chain"


@dataclass(frozen=True)
class SeriesData:
    """All rows of a table in time, those that were learned from too: facts, codes and order.

    ``held_out``: which of them may vouch for the mapping. ``group``: the day of a row, or another
    part of the table.
    """

    time: str
    series: Series
    codes: Ints
    public: Ints
    private: dict[str, Ints]
    held_out: NDArray[np.bool_]
    group: Ints


@dataclass(frozen=True)
class RoundsAudit:
    """What many rounds tell of a private fact.

    ``beyond_answer``: whether the certificate speaks of an attacker who knows the public facts.
    ``by_window``: the certified advantage for shorter windows, too. ``seconds``: length of a round,
    if estimated from a series. ``attacks``: what was reached, on drawn symbols: estimates.
    ``bound``: what the certificate rests on, unless a series contradicts it.
    """

    rounds: int
    certificate: Certificate
    beyond_answer: bool
    by_window: tuple[tuple[int, float], ...]
    seconds: float | None
    attacks: tuple[WindowAttack, ...]
    bound: WindowBound | None = None

    @property
    def condition(self) -> str:
        """What the certificate takes for granted besides, in one clause."""
        return next(each for each in self.certificate.assumptions if each.startswith("given "))

    def about(self, *, beyond_answer: bool) -> Certificate:
        """Return the bound that a limit on this kind of advantage may rest on."""
        if beyond_answer == self.beyond_answer or self.certificate.bound is None:
            return self.certificate
        reason = (
            f"given the private fact alone rounds are not independent; beyond the answer "
            f"the bound is {at_most(self.certificate.bound)}"
            if self.beyond_answer
            else "the bound found is one on all that is gained, not on what is gained beyond it"
        )
        return replace(self.certificate, value=NotCertifiable(reason))


def audit_rounds(
    data: AuditData, labelled: Labels, options: AuditOptions, alpha: float
) -> RoundsAudit | None:
    """Bound what many rounds tell of one fact, and attack them where there is a series."""
    rows, rounds, beyond = data.rows_with(labelled), options.rounds, options.beyond_answer
    if rounds is None:
        return None
    if (series := data.series) is None:
        assert options.stay is not None  # ``check_rounds`` has seen to it
        return _certify_declared(rows, data.public, options.stay, rounds, alpha, beyond)
    name, seed = labelled.name, options.seed
    attacks = _attacked(data.mapping, series, series.private[name], rows.n_classes, rounds, seed)
    found = certify_series(rows, data.public, name, series, rounds, alpha, seed, beyond=beyond)
    return replace(found, attacks=attacks)


def hidden_declared(*, beyond: bool) -> str:
    """Return what links rounds, where the user says so."""
    return f"{_HIDDEN.format(what=_BOTH if beyond else _ALONE)} (declared)"


def _certify_declared(
    rows: AuditRows, public: Labels, stay: Floats, rounds: int, alpha: float, beyond: bool
) -> RoundsAudit:
    rows = replace(rows, groups=None, cap=None)  # given the facts, rows are independent
    kept = declared_chain(stay, rows.shares).kept
    given = ", whatever the public facts," if beyond else ""
    chain = f"{_CHAIN}{given} with the stay probabilities stated (declared)"
    parts = rows_within(rows, public) if beyond else [rows]
    bounds = _widest([_bounds(each, kept, rounds, alpha / len(parts)) for each in parts])
    sense = " beyond the answer" if beyond else ""
    basis = (chain, hidden_declared(beyond=beyond))
    found = _certificate(bounds[-1], rows, alpha, basis, sense)
    return RoundsAudit(rounds, found, beyond, _curve(bounds), None, (), bounds[-1])


def declared_chain(stay: Floats, shares: Floats) -> Chain:
    """Return the chain of stay probabilities that were stated: one for all classes, or one each."""
    return Chain.of_stay(stay if stay.size > 1 else float(stay[0]), shares)


# --- The bound -----------------------------------------------------------------------------


def certify_series(
    rows: AuditRows,
    public: Labels,
    name: str,
    series: SeriesData,
    rounds: int,
    alpha: float,
    seed: int,
    *,
    beyond: bool = False,
) -> RoundsAudit:
    """Take the fact for the hidden state; where more links rounds, the public fact besides.

    ``beyond``: the latter in any case.
    """
    fact, follows = series.private[name], series.series.follows
    rows = replace(rows, groups=None, cap=None)  # given the facts, rows are independent
    state = check_hidden_state(series.codes, fact, series.series, seed)
    told = beyond or state.broken
    if told:
        both = fact * public.n_classes + series.public
        state, given = check_hidden_state(series.codes, both, series.series, seed), series.public
        parts = rows_within(rows, public)
        within = [np.where(given == h, follows, -1) for h in range(public.n_classes)]
    else:
        given, parts, within = np.zeros_like(fact), [rows], [follows]
    share = alpha / (2 * len(parts))
    kept = max(bound_kept(count_steps(fact, own, rows.n_classes), share) for own in within)
    bounds = _widest([_bounds(each, kept, rounds, share) for each in parts])
    basis = _checked(_BOTH if told else _ALONE, state, series)
    found = _certificate(bounds[-1], rows, alpha, basis, " beyond the answer" if told else "")
    held = _held_back(found, state, why_no_chain(fact, series.series, series.group, given))
    bound = bounds[-1] if held is found else None
    return RoundsAudit(rounds, held, told, _curve(bounds), series.series.step, (), bound)


def _bounds(rows: AuditRows, kept: float, rounds: int, alpha: float) -> list[WindowBound]:
    lengths = sorted({each for each in WINDOWS if each < rounds} | {rounds})
    return [bound_window(rows, kept, each, alpha) for each in lengths]


def _widest(per_class: list[list[WindowBound]]) -> list[WindowBound]:
    return max(per_class, key=lambda each: each[-1].advantage)


def _curve(bounds: list[WindowBound]) -> tuple[tuple[int, float], ...]:
    return tuple((each.rounds, each.advantage) for each in bounds)


def _checked(what: str, state: HiddenState, series: SeriesData) -> tuple[str, ...]:
    how = f"checked on {series.series.pairs} steps of {series.time!r}: {state.words}"
    chain = f"{_CHAIN} (its stay probabilities are bounded from {series.series.pairs} steps)"
    return f"{_HIDDEN.format(what=what)} ({how})", chain


def _certificate(
    bound: WindowBound, rows: AuditRows, alpha: float, assumed: tuple[str, ...], beyond: str
) -> Certificate:
    name = f"advantage{beyond} of {bound.rounds} rounds"
    value: float | NotCertifiable = bound.advantage
    who = "who knows every public fact " if beyond else ""
    words = (
        f"At confidence {percent(1 - alpha)} no attacker {who}who sees {bound.rounds} rounds beats "
        f"guessing the private fact of any one of them by more than {at_most(bound.advantage)}, "
        f"if {assumed[0]}."
    )
    if bound.trivial:
        value = NotCertifiable(f"{bound.rounds} rounds may tell all, as far as these rows show")
        words = value.words
    assumptions = (SHIPPED, _FRESH, HELD_OUT, *assumed)
    counted = f"{sum(rows.observations)} rows"
    return Certificate(name, value, 1 - alpha, rows.counts, assumptions, words, counted)


def _held_back(found: Certificate, state: HiddenState, moves: str) -> Certificate:
    """Withhold a bound whose assumptions the series contradicts, on readings or on the fact."""
    if not state.broken and state.checked and not moves:
        return found
    why = state.words if state.broken else moves
    nothing = NotCertifiable(f"a bound over rounds assumes what the series contradicts: {why}")
    if not state.checked:
        nothing = NotCertifiable(f"what a bound over rounds assumes was not checked: {state.words}")
    return replace(found, value=nothing, words=nothing.words)


# --- Attackers -----------------------------------------------------------------------------


def _attacked(
    mapping: Mapping, series: SeriesData, fact: Ints, n_classes: int, rounds: int, seed: int
) -> tuple[WindowAttack, ...]:
    """Let attackers learn from half of the groups and guess the fact in the others."""
    steps = count_steps(fact, series.series.follows, n_classes)
    groups = np.unique(series.group[series.held_out])
    parted = np.isin(groups, series.group[~series.held_out]).any()  # some held out in part
    if len(groups) < 4 or parted:
        groups = np.unique(series.group)
    order = series.series.order
    order = order[np.isin(series.group[order], groups)]
    symbols = mapping.sample(series.codes[order], np.random.default_rng(seed))
    taught = groups[::2]
    learned = np.isin(series.group[order], taught)
    if len(groups) < 2 or len(np.unique(fact[order][learned])) < n_classes:
        return ()
    kinds = np.array([learned & (fact[order] == k) for k in range(n_classes)])
    given = _likelihoods(mapping.tables, series.codes[order], symbols, kinds)
    breaks = np.append(0, np.cumsum(series.series.follows[order[:-1]] != order[1:]))
    watched = Rounds(symbols, given, fact[order], breaks, series.group[order])
    moves = (steps + 1.0) / (steps + 1.0).sum(axis=1, keepdims=True)
    return tuple(attack_windows(watched, taught, moves, _attacked_windows(rounds), seed))


def _attacked_windows(rounds: int) -> list[int]:
    """Return the usual lengths and the one that is asked for, unless it is longer than any."""
    return sorted({each for each in WINDOWS if each < rounds} | {min(rounds, max(WINDOWS))})


def _likelihoods(
    tables: Sequence[Floats], codes: Ints, symbols: Ints, kinds: NDArray[np.bool_]
) -> Floats:
    """Return p(symbols of a round | class), known tables averaged over the rounds learned from.

    ``kinds``: which rounds of each class are learned from.
    """
    sizes = [table.shape[1] for table in tables]
    if int(np.prod(sizes)) <= _MOST_OUTPUTS:
        place = np.ravel_multi_index(tuple(symbols.T), sizes)
        law = average_outputs(tables, codes, kinds / kinds.sum(axis=1, keepdims=True))
        return law[:, place].T
    found = np.ones((len(codes), len(kinds)))
    for t, table in enumerate(tables):  # too many to list: sensors as if independent
        for k, kind in enumerate(kinds):
            found[:, k] *= table[codes[kind, t]].mean(axis=0)[symbols[:, t]]
        found /= found.max(axis=1, keepdims=True)
    return found
