"""Ways to tell less over many rounds, and which answers best where decisions remember.

Sensors may speak less clearly: a symbol is kept with some probability and otherwise drawn evenly.
They may speak less often: in every k-th round, all of them, or one after the other in turn. At the
same leak over all rounds, neither always answers best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from discreet.arrays import Floats, Ints
from discreet.data.series import Series
from discreet.errors import InputError
from discreet.leakage.chains import Chain, figures_between, filter_rounds
from discreet.leakage.joint_outputs import weighted_outputs
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import MAX_FUSION_OUTPUTS, Fact, mix_evenly

EVERY = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
_SERIES, _ROUNDS, _BEFORE = 1000, 384, 192  # that are simulated; the first rounds do not count
_CLOSE = 2e-3  # of the probability that a symbol is kept
_LEAST_KEPT = 0.01
_LONGEST = 2_000  # rounds of a stretch that ways are tried on
_MOST_SEEN = 2**16  # of what an attacker may see in one turn


@dataclass(frozen=True)
class Way:
    """How sensors speak, and what all rounds tell then.

    ``every``: they speak in each so many rounds. ``in_turn``: one after the other, not all at once.
    ``kept``: probability that a symbol is sent as drawn. ``advantage``: about the private fact,
    from above, if the symbols of a round depend on the past only through that fact.
    """

    every: int
    in_turn: bool
    kept: float
    advantage: float


@dataclass(frozen=True)
class AnsweringWay(Way):
    """A way to speak, and the share of wrong decisions that remember, with its standard error."""

    error: float
    deviation: float


@dataclass(frozen=True)
class LivedRounds:
    """Symbols and public facts of a series that was recorded, for ways to be tried on.

    ``symbols`` of shape (n_rounds, n_stretches, n_sensors), as drawn. ``fact`` of shape (n_rounds,
    n_stretches), -1 where a stretch has ended.
    """

    symbols: Ints
    fact: Ints

    @classmethod
    def of_codes(
        cls, mapping: Mapping, codes: Ints, fact: Ints, series: Series, seed: int = 0
    ) -> LivedRounds:
        """Draw symbols for the codes of a series, in stretches of rows that follow one another."""
        order = series.order
        breaks = series.follows[order[:-1]] != order[1:]
        stretches = [
            part[k : k + _LONGEST]
            for part in np.split(order, np.flatnonzero(breaks) + 1)
            for k in range(0, len(part), _LONGEST)
        ]
        place = np.full((max(map(len, stretches)), len(stretches)), -1, dtype=np.int64)
        for k, part in enumerate(stretches):
            place[: len(part), k] = part
        symbols = mapping.sample(codes, np.random.default_rng(seed))
        return cls(symbols[place], np.where(place < 0, -1, fact[place]))


def answering_ways(
    joint: Floats,
    public: Chain,
    private: Chain,
    rounds: int,
    most: float,
    *,
    beyond: bool = True,
    lived: LivedRounds | None = None,
    seed: int = 0,
) -> list[AnsweringWay]:
    """Return ways to speak that tell at most so much, those that answer best first.

    ``joint``: p(public, private, symbols) of a round, with an axis for each sensor. ``beyond``:
    count what symbols add for an attacker who knows the public fact of every round. Otherwise they
    are taken to be independent given the private fact, which they are not where a public one lasts.
    ``lived``: try ways on these rounds; simulated ones depend on one another through the public
    fact alone, so that they flatter ways that speak often where more than that fact lasts.
    """
    ways = ways_to_speak(joint, private, rounds, most, beyond=beyond)
    answers = [answer(joint, way, public, private, lived=lived, seed=seed) for way in ways]
    return sorted(answers, key=lambda way: way.error)


def joint_of_rows(mapping: Mapping, rows: pd.DataFrame, fact: Fact) -> Floats:
    """Estimate p(public, private, symbols) of a round from labelled rows."""
    shape = len(mapping.public.classes), len(fact.classes)
    if math.prod(mapping.n_symbols) > MAX_FUSION_OUTPUTS or shape[1] > 2:
        raise InputError(
            f"ways to speak are compared for private facts of 2 classes and up to "
            f"{MAX_FUSION_OUTPUTS} joint outputs; {fact.name!r} has {shape[1]} classes and the "
            f"sensors {math.prod(mapping.n_symbols)} outputs."
        )
    index = shape[1] * mapping.public.places(rows[mapping.public.name])
    index += fact.places(rows[fact.name])
    if np.bincount(index, minlength=math.prod(shape)).min() == 0:
        raise InputError(
            f"no row has some combination of {mapping.public.name!r} and {fact.name!r}, so that "
            "nothing is known of it. Add rows."
        )
    seen, which = np.unique(mapping.encode(rows), axis=0, return_inverse=True)
    cells = np.zeros((math.prod(shape), len(seen)))
    np.add.at(cells, (index, which.ravel()), 1.0 / len(rows))
    return weighted_outputs(mapping.tables, seen, cells).reshape(*shape, *mapping.n_symbols)


def ways_to_speak(
    joint: Floats, private: Chain, rounds: int, most: float, *, beyond: bool = True
) -> list[Way]:
    """Return ways to speak that tell at most so much, each as clear as it may be.

    More rarely than in a way without any noise there is nothing to gain.
    """
    found = []
    sizes = [joint.shape[t] * (joint.shape[0] if beyond else 1) for t in range(2, joint.ndim)]
    turns = len(sizes) > 1 and math.prod(sizes) <= _MOST_SEEN
    for in_turn in (False, True) if turns else (False,):
        for every in EVERY:
            way = _clearest(joint, private, rounds, Way(every, in_turn, 1.0, 0.0), most, beyond)
            if way is not None:
                found.append(way)
            if way is not None and way.kept == 1.0:
                break
    return found


def best_for_all(ways: Sequence[Sequence[AnsweringWay]]) -> AnsweringWay | None:
    """Return the way that answers best of those that keep the limits of all private facts.

    ``ways``: those found for each fact. In turn does not count. Where two facts allow unlike noise
    in the same rounds, the larger noise keeps both limits.
    """
    at_once = [{way.every: way for way in own if not way.in_turn} for own in ways]
    both = set.intersection(*map(set, at_once)) if at_once else set()
    noisiest = [min((own[k] for own in at_once), key=lambda way: way.kept) for k in both]
    return min(noisiest, key=lambda way: (way.error, way.every), default=None)


def tell(joint: Floats, way: Way, private: Chain, rounds: int, *, beyond: bool = True) -> Way:
    """Return a way with what all rounds tell of the private fact, of two classes."""
    noisy, given = mix_evenly(joint, way.kept, first=2), np.ones((joint.shape[1], 1))
    turns = speakers(joint, way.in_turn)
    for axes in turns:
        # Rounds of one turn are taken together, as if the fact stayed for its length.
        law = _seen(heard(noisy, axes), beyond)
        given = (given[:, :, None] * law[:, None, :]).reshape(len(given), -1)
    span = way.every * len(turns)
    ((_, high),) = figures_between(given, private.every(span), [-(-rounds // span)])
    return replace(way, advantage=high.advantage)


def answer(
    joint: Floats,
    way: Way,
    public: Chain,
    private: Chain,
    *,
    lived: LivedRounds | None = None,
    seed: int = 0,
) -> AnsweringWay:
    """Return a way with how well decisions that remember answer, in simulated or lived rounds."""
    rng, noisy = np.random.default_rng(seed), mix_evenly(joint, way.kept, first=2)
    if lived is None:
        wrong, counted = _simulated(noisy, way, public, private, rng)
    else:
        wrong, counted = _tried(noisy, way, public, lived, rng)
    share = wrong.sum() / counted.sum()
    away = wrong - share * counted  # by series, which are independent
    deviation = float(np.sqrt((away**2).sum()) / counted.sum())
    return AnsweringWay(**asdict(way), error=float(share), deviation=deviation)


def _clearest(
    joint: Floats, private: Chain, rounds: int, way: Way, most: float, beyond: bool
) -> Way | None:
    """Return the way with as little noise as it may have; None if hardly anything is left."""

    def at(kept: float) -> Way:
        return tell(joint, replace(way, kept=kept), private, rounds, beyond=beyond)

    if (clear := at(1.0)).advantage <= most:
        return clear
    if at(_LEAST_KEPT).advantage > most:
        return None
    found = at(brentq(lambda kept: at(kept).advantage - most, _LEAST_KEPT, 1.0, xtol=_CLOSE))
    while found.advantage > most:  # a root is close to what it is the root of, on either side
        found = at(found.kept - _CLOSE)
    return found


def speakers(joint: Floats, in_turn: bool) -> list[tuple[int, ...]]:
    """Return the axes of the sensors that speak, in one round of speaking after the other."""
    sensors = tuple(range(2, joint.ndim))
    return [(t,) for t in sensors] if in_turn else [sensors]


def heard(joint: Floats, axes: Sequence[int]) -> Floats:
    """Return p(public, private, symbols of the speakers), with one axis for the symbols."""
    silent = tuple(t for t in range(2, joint.ndim) if t not in axes)
    return np.asarray(joint.sum(axis=silent)).reshape(*joint.shape[:2], -1)


def evidence(joint: Floats, axes: Sequence[int]) -> Floats:
    """Return log p(symbols of the speakers | public), symbols by classes."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(_given(heard(joint, axes).sum(axis=1))).T)


def _seen(law: Floats, beyond: bool) -> Floats:
    """Return p(what an attacker sees | private) of a round.

    Told the public fact: p(public) p(symbols | public, private), for what symbols tell beyond it.
    """
    if not beyond:
        return _given(law.sum(axis=0))
    shares = law.sum(axis=(1, 2)) / law.sum()
    return np.concatenate([p * _given(part) for p, part in zip(shares, law, strict=True)], axis=1)


def _given(law: Floats) -> Floats:
    """Return p(symbols | class) from p(class, symbols)."""
    return np.asarray(law / law.sum(axis=-1, keepdims=True))


# --- How well decisions answer -------------------------------------------------------------


def _simulated(
    noisy: Floats, way: Way, public: Chain, private: Chain, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return how many decisions were wrong in each of some simulated series, and of how many."""
    facts = [_series(chain, rng) for chain in (public, private)]

    def sent(number: int, axes: Sequence[int]) -> Ints:
        return _draw(_given(heard(noisy, axes))[facts[0][number], facts[1][number]], rng)

    wrong = _decisions(noisy, way, public, facts[0].shape, sent) != facts[0]
    return wrong[_BEFORE:].sum(axis=0).astype(np.float64), np.full(
        _SERIES, float(_ROUNDS - _BEFORE)
    )


def _tried(
    noisy: Floats, way: Way, public: Chain, lived: LivedRounds, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the same of lived rounds, by stretch."""
    symbols, sizes = lived.symbols, np.array(noisy.shape[2:])
    noise = rng.integers(sizes, size=symbols.shape)
    symbols = np.where(rng.random(symbols.shape) < way.kept, symbols, noise)

    def sent(number: int, axes: Sequence[int]) -> Ints:
        own = [t - 2 for t in axes]
        return np.asarray(np.ravel_multi_index(tuple(symbols[number][:, own].T), sizes[own]))

    there = lived.fact >= 0
    wrong = there & (_decisions(noisy, way, public, lived.fact.shape, sent) != lived.fact)
    return wrong.sum(axis=0).astype(np.float64), there.sum(axis=0).astype(np.float64)


def _decisions(
    noisy: Floats,
    way: Way,
    public: Chain,
    shape: tuple[int, ...],
    sent: Callable[[int, Sequence[int]], Ints],
) -> Ints:
    """Return what is decided in each round of each series.

    ``sent``: the joint symbol of those who speak in a round, series by series.
    """
    known, turns = np.zeros((*shape, len(noisy))), speakers(noisy, way.in_turn)
    for i, number in enumerate(range(0, shape[0], way.every)):
        axes = turns[i % len(turns)]
        known[number] = evidence(noisy, axes)[sent(number, axes)]
    return np.asarray(filter_rounds(public.prior, public.moves, known).argmax(axis=2))


def _series(chain: Chain, rng: np.random.Generator) -> Ints:
    """Draw a fact over the rounds, rounds by series."""
    now = rng.choice(len(chain.prior), _SERIES, p=chain.prior)
    found = np.empty((_ROUNDS, _SERIES), dtype=np.int64)
    for i in range(_ROUNDS):
        found[i] = now
        now = _draw(chain.moves[now], rng)
    return found


def _draw(chances: Floats, rng: np.random.Generator) -> Ints:
    """Draw from the distribution in each row."""
    passed = (chances.cumsum(axis=1) < rng.random((len(chances), 1))).sum(axis=1)
    return np.asarray(np.minimum(passed, chances.shape[1] - 1))
