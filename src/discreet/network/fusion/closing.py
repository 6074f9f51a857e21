"""Rounds, closed when they are due: gather what came, fuse it, store and announce the decision.

*Fuse the symbols that came, with the sensors that are silent summed out.* A silent sensor is not a
sensor that sends 0. What the others send is worth p(class | symbols heard), the sum over all that
the silent ones might have sent.

A fusion table holds the joint probabilities, so that the sum is a sum over its axes. An additive
rule holds scores only. It is the exact posterior of one simple family of distributions: sensors
that are independent given the public class, with

    p(z_t = z | k) = q_t(z) exp(w_kt(z) - a_kt),    a_kt = log sum_z q_t(z) exp(w_kt(z)),

and there a silent sensor adds a_kt to the score of class k and nothing else. The free part q_t is
what makes the symbols as frequent as they are: sum_k p(k) p(z_t = z | k) = m_t(z). The
frequencies m_t are counted from what arrives; before anything has, codes are taken to be equally
frequent. How this compares with other ways to bear silence: docs/network.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from discreet.arrays import Floats
from discreet.data.columns import written
from discreet.leakage.chains import filter_rounds, moves_over
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveClassesFusion, AdditiveFusion, TableFusion
from discreet.network.fusion.intake import SKEW, Drawn, Registry
from discreet.network.fusion.link import Link
from discreet.network.fusion.state import FusionSettings, State
from discreet.network.store.rows import Decision, mapping_number
from discreet.network.store.writing import Store
from discreet_sensor.wire import RoundClock, decision_topic, mapping_tag

# --- Symbols that came, and those that are missing ------------------------------------------

MISSING = -1
"""Stands for the symbol of a silent sensor."""
_STRENGTH = 50.0  # the frequencies at the start count like so many symbols
_GROWTH = 1.2  # refit when so many times the symbols have been counted

_AT_ONCE = 500_000  # symbols whose weights are looked up together
_MOST_SUMS = 256  # kept for the next round with the same silence

Symbols = NDArray[np.int64]


class Rule(Protocol):
    """Scores of the public classes, from symbols some of which are ``MISSING``."""

    def scores(self, Z: Symbols) -> Floats:
        """Return logarithms of what is proportional to the posterior, rows by classes."""

    def observe(self, Z: Symbols) -> None:
        """Count symbols that arrived."""


def rule_of(mapping: Mapping) -> Rule:
    """Return how to fuse the symbols of a mapping when some are missing."""
    fusion, symbols = mapping.fusion, mapping.n_symbols
    if isinstance(fusion, TableFusion):
        return TableRule(np.array(fusion.joint), symbols)
    start = [table.mean(axis=0) for table in mapping.tables]
    if isinstance(fusion, AdditiveFusion):
        weights = [np.array([np.zeros(len(row)), row]) for row in fusion.weights]
        return AdditiveRule(weights, np.array([0.0, fusion.bias]), start)
    assert isinstance(fusion, AdditiveClassesFusion)
    by_sensor = [np.array(rows) for rows in zip(*fusion.weights, strict=True)]
    return AdditiveRule(by_sensor, np.array(fusion.bias), start)


def posterior(scores: Floats) -> Floats:
    """Return probabilities from scores, rows by classes."""
    return np.asarray(softmax(scores, axis=1))


def decide(mapping: Mapping, scores: Floats, Z: Symbols) -> NDArray[np.int64]:
    """Return the number of the class decided for each row, by the rule that the mapping states.

    Where no sensor reported, only the frequencies of the classes are known.
    """
    found, rule = mapping.fusion.choose(scores), mapping.fusion.decide
    if rule is not None:
        unheard = (Z == MISSING).all(axis=1)
        found[unheard] = rule.choose(np.log([rule.shares]))
    return found


class TableRule:
    """A table of joint probabilities, summed over the axes of the silent.

    ``symbols``: how many each sensor has.
    """

    def __init__(self, joint: Floats, symbols: Sequence[int]) -> None:
        self._joint = joint.reshape(len(joint), *symbols)
        self._classes = joint.sum(axis=1)
        self._sums: dict[tuple[int, ...], Floats] = {}

    def scores(self, Z: Symbols) -> Floats:
        found = np.empty((len(Z), len(self._joint)))
        patterns, which = np.unique(Z == MISSING, axis=0, return_inverse=True)
        for i, silent in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == i)
            heard = Z[np.ix_(rows, np.flatnonzero(~silent))]
            found[rows] = self._summed(tuple(np.flatnonzero(silent) + 1))[:, *heard.T].T
        return found

    def _summed(self, axes: tuple[int, ...]) -> Floats:
        found = self._sums.get(axes)
        if found is None:
            joint = self._joint.sum(axis=axes)
            classes = self._classes.reshape(-1, *[1] * (joint.ndim - 1))
            # What never happened in the design is no evidence: the classes are as frequent as ever.
            joint = np.where(joint.sum(axis=0) == 0, classes, joint)
            with np.errstate(divide="ignore"):
                found = np.log(joint)
            if len(self._sums) < _MOST_SUMS:
                self._sums[axes] = found
        return found

    def observe(self, Z: Symbols) -> None:
        """Do nothing: the table knows how frequent the symbols are."""


class AdditiveRule:
    """Scores that add up; a silent sensor adds what it would on the average of its model.

    ``weights``: one per sensor. ``bias``: one per class. ``start``: how frequent each sensor's
    symbols are before any was counted.
    """

    def __init__(self, weights: Sequence[Floats], bias: Floats, start: Sequence[Floats]) -> None:
        room = max(each.shape[1] for each in weights)
        # Sensors by classes by symbols; the last place is for silence.
        self._weights = np.array(
            [np.pad(each, ((0, 0), (0, room + 1 - each.shape[1]))) for each in weights]
        )
        self._plain, self._bias = list(weights), bias
        self._sensors = np.arange(len(weights))
        self._counts = _STRENGTH * np.array([np.pad(each, (0, room - len(each))) for each in start])
        self._fitted_at = 0.0
        self._refit()

    def _refit(self) -> None:
        self._fitted_at = self._counts.sum()
        frequencies = self._counts / self._counts.sum(axis=1, keepdims=True)
        short = [
            often[: rows.shape[1]] for often, rows in zip(frequencies, self._plain, strict=True)
        ]
        self.absent = absent_scores(self._plain, self._bias, short)
        self._weights[:, :, MISSING] = self.absent.T

    def scores(self, Z: Symbols) -> Floats:
        found = np.tile(self._bias, (len(Z), 1))
        some = max(1, _AT_ONCE // self._weights.shape[0])
        for first in range(0, len(Z), some):
            part = Z[first : first + some]
            found[first : first + some] += self._weights[self._sensors, :, part].sum(axis=1)
        return found

    def observe(self, Z: Symbols) -> None:
        """Count symbols that arrived, and fit again when they are many more than before."""
        room = self._counts.shape[1]
        heard = (self._sensors * room + Z)[Z != MISSING]
        self._counts += np.bincount(heard, minlength=self._counts.size).reshape(-1, room)
        if self._counts.sum() > _GROWTH * self._fitted_at:
            self._refit()


def absent_scores(
    weights: Sequence[Floats], bias: Floats, frequencies: Sequence[Floats], *, steps: int = 2000
) -> Floats:
    """Return what a silent sensor adds to the score of each class, classes by sensors.

    ``frequencies``: how frequent the symbols of each sensor are, each summing to 1. ``steps``: most
    steps of the fixed-point iteration, which ends when nothing moves any more.
    """
    # All sensors at once, with room for the most symbols; those that one lacks never occur.
    room = max(each.shape[1] for each in weights)
    padded = np.array([np.pad(each, ((0, 0), (0, room - each.shape[1]))) for each in weights])
    with np.errstate(divide="ignore"):
        often = np.log([np.pad(each, (0, room - len(each))) for each in frequencies])
    absent = np.zeros((len(weights), len(bias)))
    for _ in range(steps):
        prior = log_softmax(bias + absent.sum(axis=0))
        moved = _absent_now(padded, absent, prior, often)
        change = np.abs(moved - absent).max()
        absent = (absent + moved) / 2  # halfway, so that it cannot swing
        if change < 1e-10:
            break
    return absent.T


def _absent_now(weights: Floats, absent: Floats, prior: Floats, often: Floats) -> Floats:
    """Sensors by classes, from weights of sensors by classes by symbols."""
    given = prior[:, None] + weights - absent[:, :, None]
    base = often - np.logaddexp.reduce(given, axis=1)
    base -= np.logaddexp.reduce(base, axis=1, keepdims=True)
    return np.asarray(np.logaddexp.reduce(weights + base[:, None, :], axis=2))


# --- Rounds ---------------------------------------------------------------------------------

_CHUNK = 5000  # rounds closed at once
_WARM_UP = 2000  # rounds before the start whose symbols are counted
_BACK = 10.0  # seconds that the time may go back without a round being closed again


class Closer:
    """Decides rounds in order, each once.

    What came for a round while the fusion centre itself was away still counts: after a start, or
    when ``wait`` was called, it waits one deadline before it closes what is overdue.

    ``started``: when this mapping began to run, for messages from before version 4 of the tables,
    which do not say by which one they were drawn. ``earlier``: mappings that some devices may still
    send by; what they say counts as well. ``closed``: the last round that has been decided; -1 if
    none.

    With a chain in the mapping, a round is decided on all rounds so far: the probabilities of the
    last decision are what is carried over, so that a restart or another worker changes nothing.
    """

    def __init__(
        self,
        store: Store,
        mapping: Mapping,
        registry: Registry,
        clock: RoundClock,
        started: float = 0.0,
        earlier: Sequence[Mapping] = (),
    ) -> None:
        self._store, self._mapping, self._registry, self._clock = store, mapping, registry, clock
        self._mappings = (mapping, *earlier)
        self._tags = [mapping_tag(each.id) for each in self._mappings]
        self._place = {mapping_number(each.id): i for i, each in enumerate(self._mappings)} | {0: 0}
        self._rules = [rule_of(each) for each in self._mappings]
        self._names = [written(each) for each in mapping.public.classes]
        self._next: int | None = None
        self._wait_until, self._waited_at = 0.0, -1
        self._started, self._since = started, 0.0
        self._warm = False
        chain = mapping.chain
        self._moves = None if chain is None else moves_over(chain, clock.interval)
        self._belief: Sequence[float] | None = None
        self.closed = -1

    def follow(self, now: float) -> None:
        """Learn how far another worker has closed; decisions on rounds to come do not count."""
        self._next = None
        last = self._store.last_decided(self._clock.last_due(now))
        self.closed = -1 if last is None else last

    def pause(self) -> None:
        """Close nothing until ``lead`` is called again."""
        self._next = None

    def lead(self, now: float) -> None:
        """Take over the closing, unless done before; start over if the time went back."""
        if self._next is not None and self._clock.end(self._next - 1) <= now + _BACK:
            return
        self.follow(now)
        self._since = self._store.mapping_since(self._mapping.id, self._started)
        self._belief = self._store.last_probabilities(self._since, max(0, self.closed))
        first = self.closed + 1
        if self.closed < 0:
            earliest = self._store.first_round()
            current = max(0, self._clock.number(now))
            first = current if earliest is None else min(current, earliest)
        if not self._warm:
            self._observe(self._gather(max(0, first - _WARM_UP), first - 1))
            self._warm = True
        self._next, self._wait_until = first, now + self._clock.deadline

    @property
    def leads(self) -> bool:
        return self._next is not None

    def symbols(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the symbols of some rounds, rounds by sensors, with what is missing marked.

        Only those that were drawn by the present mapping.
        """
        return self._gather(first, last)[0]

    def wait(self, now: float) -> None:
        """Give what is overdue one more deadline, because no message could be accepted.

        Only if a round was closed since the last time: this must end even on a slow machine.
        """
        if self.closed != self._waited_at:
            self._waited_at, self._wait_until = self.closed, now + self._clock.deadline

    def due(self, now: float) -> bool:
        return (
            self._next is not None
            and now >= self._wait_until
            and self._clock.last_due(now) >= self._next
        )

    def close(self, now: float, unsure: bool = False) -> list[Decision]:
        """Close some of the rounds that are due, oldest first, and return the decisions.

        Rounds without messages are left out when there are many to catch up with. ``unsure``:
        whether the time is doubted; then those after the last message may be still to come.
        """
        if self._next is None or not self.due(now):
            return []
        first, last = self._next, min(self._clock.last_due(now), self._next + _CHUNK - 1)
        heard = self._gather(first, last)
        if unsure:
            last = first + _last_heard(self._heard(heard))
            heard = [Z[: last - first + 1] for Z in heard]
            if last < first:
                return []
        decisions = self._decide(first, heard, now)
        if last - first > 10:
            decisions = [each for each in decisions if each.reported or each.round == last]
        self._store.decide(decisions, self._clock.end)
        self._belief = decisions[-1].probabilities
        self._observe(heard)
        self._next, self.closed = last + 1, last
        return decisions

    def _observe(self, heard: Sequence[Symbols]) -> None:
        for rule, Z in zip(self._rules, heard, strict=True):
            rule.observe(Z)

    def _gather(self, first: int, last: int) -> list[Symbols]:
        """Return the symbols of some rounds, rounds by sensors, for each mapping."""
        rounds = max(0, last - first + 1)
        found = [np.full((rounds, len(m.sensors)), MISSING, np.int64) for m in self._mappings]
        if not rounds:
            return found
        alike: dict[tuple[int, int, int], list[tuple[Drawn, int, bytes]]] = {}
        longest = self._registry.longest_batch
        earliest = self._clock.epoch - SKEW, self._clock.interval
        rows = self._store.messages(first - longest + 1, last, self._since, earliest)
        for client, _, _, number, symbols, mapping in rows:
            known, place = self._registry.by_name.get(client), self._place.get(mapping)
            drawn = None if known is None or place is None else known.drawn.get(self._tags[place])
            if known is None or place is None or drawn is None:
                continue
            if len(symbols) != known.batch * len(drawn.columns):
                continue  # enrolled again with other sensors since
            shape = place, known.batch, len(drawn.columns)
            alike.setdefault(shape, []).append((drawn, number - first, symbols))
        for (place, batch, width), messages in alike.items():
            _put(found[place], batch, width, messages)
        for mapping_, Z in zip(self._mappings, found, strict=True):
            Z[np.array(mapping_.n_symbols) <= Z] = MISSING  # of before version 4
        self._count_once(found)
        return found

    def _count_once(self, found: Sequence[Symbols]) -> None:
        """Leave out what a sensor has sent by an earlier mapping, if it has by the present one."""
        if len(found) == 1:  # nearly always, and a large matrix would be walked through
            return
        heard = dict(zip(self._mapping.names, (found[0] != MISSING).T, strict=True))
        for mapping, Z in zip(self._mappings[1:], found[1:], strict=True):
            for t, name in enumerate(mapping.names):
                now, before = Z[:, t] != MISSING, heard.get(name, False)
                Z[now & before, t] = MISSING
                heard[name] = now | before

    def _heard(self, found: Sequence[Symbols]) -> Symbols:
        """Return what is not missing where any mapping heard a sensor, the present one's first."""
        if len(found) == 1:
            return found[0]
        heard = dict(zip(self._mapping.names, (found[0] != MISSING).T, strict=True))
        for mapping, Z in zip(self._mappings[1:], found[1:], strict=True):
            for name, column in zip(mapping.names, (Z != MISSING).T, strict=True):
                heard[name] = heard.get(name, False) | column
        return np.where(np.array(list(heard.values())).T, 0, MISSING)

    def _scores(self, found: Sequence[Symbols]) -> Floats:
        """Return the scores of each round, by what came under all mappings.

        Sensors that have changed and those that have not are taken to be independent given the
        public fact: no mapping knows how both go together.
        """
        scores = self._rules[0].scores(found[0])
        for rule, Z in zip(self._rules[1:], found[1:], strict=True):
            if (Z != MISSING).any():
                scores = scores + _likelihoods(rule.scores(Z), rule, Z.shape[1])
        return scores

    def _decide(self, first: int, found: Sequence[Symbols], now: float) -> list[Decision]:
        scores, heard = self._scores(found), self._heard(found)
        if self._moves is None:
            beliefs, best = posterior(scores), decide(self._mapping, scores, heard).tolist()
        else:
            beliefs = self._remember(scores, self._moves)
            with np.errstate(divide="ignore"):
                best = self._mapping.fusion.choose(np.log(beliefs)).tolist()
        # Six digits: more would be noise, and a tenth of what the store holds.
        likely = np.round(beliefs, 6).tolist()
        expected = len(self._mapping.sensors)
        reported = (heard[:, :expected] != MISSING).sum(axis=1).tolist()
        return [
            Decision(first + i, now, count, expected, tuple(row), self._names[k])
            for i, (count, row, k) in enumerate(zip(reported, likely, best, strict=True))
        ]

    def _remember(self, scores: Floats, moves: Floats) -> Floats:
        """Return the probabilities after each round, from the scores of the rounds alone."""
        width = len(self._mapping.sensors)
        prior = self._rules[0].scores(np.full((1, width), MISSING))
        fits = self._belief is not None and len(self._belief) == prior.size
        belief = np.array(self._belief) if fits else posterior(prior)[0]
        return filter_rounds(belief, moves, _likelihoods(scores, self._rules[0], width))


def _last_heard(Z: Symbols) -> int:
    """Return the last row in which something came; -1 if nothing did."""
    return int(np.flatnonzero((Z != MISSING).any(axis=1)).max(initial=-1))


def _likelihoods(scores: Floats, rule: Rule, width: int) -> Floats:
    """Return scores without what is known before any symbol came."""
    prior = rule.scores(np.full((1, width), MISSING))
    # A class that the rule takes to be impossible has no likelihood, and stays so.
    return np.asarray(scores - np.where(np.isfinite(prior), prior, 0.0))


def _put(Z: Symbols, batch: int, width: int, messages: Sequence[tuple[Drawn, int, bytes]]) -> None:
    """Put the symbols of messages of one shape where they belong."""
    # Backwards: of what is written to one place the last stays, and the first message for a round
    # is to count; one round has one symbol per sensor.
    drawn, numbers, symbols = zip(*reversed(messages), strict=True)
    columns = np.concatenate([each.columns for each in drawn]).reshape(-1, 1, width)
    rounds = (np.array(numbers)[:, None] + np.arange(batch))[:, :, None]
    values = np.frombuffer(b"".join(symbols), np.uint8).reshape(-1, batch, width)
    places = np.broadcast_to(rounds * Z.shape[1] + columns, values.shape)
    inside = np.broadcast_to((rounds >= 0) & (rounds < len(Z)), values.shape)
    Z.ravel()[places[inside]] = values[inside]


# --- What is published ---------------------------------------------------------------------


def decision_message(site: str, fact: str, decision: Decision) -> tuple[str, bytes]:
    """Return topic and content of a decision."""
    content = {
        "site": site,
        "fact": fact,
        "decision": decision.decision,
        "probability": max(decision.probabilities),
        "round": decision.round,
        "closed": round(decision.closed, 3),
        "reported": decision.reported,
        "expected": decision.expected,
    }
    return decision_topic(site), json.dumps(content).encode()


def discovery_message(
    site: str, key: str, mapping: Mapping, clock: RoundClock
) -> tuple[str, bytes]:
    """Return topic and content by which Home Assistant finds the decision, and nothing else.

    A fact with two classes becomes a binary sensor that is on for the second one. ``key``: tells
    the site from others of its name.
    """
    classes = [written(each) for each in mapping.public.classes]
    binary = len(classes) == 2
    content: dict[str, object] = {
        "name": mapping.public.name,
        "unique_id": f"discreet_{key}_decision",
        "state_topic": decision_topic(site),
        "value_template": "{{ value_json.decision }}",
        "json_attributes_topic": decision_topic(site),
        "json_attributes_template": (
            "{{ {'probability': value_json.probability, 'reported': value_json.reported,"
            " 'expected': value_json.expected} | tojson }}"
        ),
        # Silence of the fusion centre must not look like an old decision that still holds.
        "expire_after": int(3 * clock.interval + clock.deadline) + 1,
        "device": {"identifiers": [f"discreet_{key}"], "name": f"discreet {site}"},
    }
    if binary:
        content |= {"payload_off": classes[0], "payload_on": classes[1]}
    else:
        content |= {"device_class": "enum", "options": classes}
    kind = "binary_sensor" if binary else "sensor"
    topic = f"homeassistant/{kind}/discreet_{key}/decision/config"
    return topic, json.dumps(content).encode()


# --- What is announced ----------------------------------------------------------------------


class Herald:
    """``on_decision``: called with each decision."""

    def __init__(
        self,
        settings: FusionSettings,
        mapping: Mapping,
        link: Link,
        state: State,
        on_decision: Callable[[Decision], None] | None,
    ) -> None:
        self._settings, self._link, self._state = settings, link, state
        self._fact, self._on_decision = mapping.public.name, on_decision
        self._discovery = discovery_message(
            settings.site, settings.key or settings.site, mapping, settings.clock
        )
        self._last: Decision | None = None

    def greet(self, now: float) -> None:
        """Say what a broker that was restarted has forgotten."""
        published, last = [(*self._discovery, True)], self._last
        if last is not None and last.round == self._settings.clock.last_due(now):
            published.append(self._publication(last))
        self._link.send([], published)

    def announce(self, decisions: list[Decision]) -> None:
        if not decisions:
            return
        last = self._last = decisions[-1]
        self._link.send([], [self._publication(last)])
        self._state.add(decisions=len(decisions))
        self._state.put(last_round=last.round, reported=last.reported)
        if self._on_decision is not None:
            for decision in decisions:
                self._on_decision(decision)

    def _publication(self, decision: Decision) -> tuple[str, bytes, bool]:
        return *decision_message(self._settings.site, self._fact, decision), True
