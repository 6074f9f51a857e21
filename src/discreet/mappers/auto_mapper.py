"""``Mapper``, the default: a design from counts, for any number of sensors and rows.

Rows are counted once. Which of several limits under the model delivers what was asked for is
measured on rows left out; the time is limited, and at its end the best so far is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from discreet.design.counts.design import CountDesign, Planned
from discreet.design.expected import Request
from discreet.design.inputs import Coded, Settings, Target, check_count, check_number
from discreet.design.kernels import Kernel
from discreet.design.left_out import Parts, has_many, leave_out
from discreet.design.levels import Found, LevelSearch
from discreet.errors import InputError
from discreet.mappers.base import PrivacyMapper, looks_at_all
from discreet.mapping.parts import Design
from discreet.progress import Progress, Report, in_time, printed

DEFAULT_ADVANTAGE = 0.05
_OF_RISKS = ("loss", "private_reg", "relaxed", "pairs", "solver")  # which this method has none of
_MOST_ASKED = 0.4999  # of many rounds
# Levels to try: shares of what was asked for, as the limit under the model.
_SHARES = (
    0.95, 0.875, 0.8, 0.725, 0.65, 0.575, 0.5, 0.425, 0.35, 0.285, 0.22, 0.17, 0.12, 0.09, 0.06,
)  # fmt: skip
_LEVELS_TRIED = 4  # of these, more or less: 2 or 3 where one is met soon, 10 where none is
# Limits to try, of those above what was asked for, if that leaves nothing useful.
_LOOSER = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4)


class Mapper(PrivacyMapper):
    """Maximise what decisions are worth, under a distribution estimated from counts.

    Sensors are taken to be independent given the public and private classes, but for blocks of
    sensors that counts of pairs show to depend. Few outputs are listed, of many some are drawn:
    the cost grows with the sensors, and rows are counted once.

    From 8000 rows on some are left out for good, and ``expected_`` is what they show of the very
    mapping: from 1500 where rows come in groups, 100 of them or more, or sensors surely depend in
    ways that no block holds. Of fewer rows each fold is left out in turn: ``expected_`` and its
    interval are of designs without a fold, on rows left out. The mapping, designed on all rows, may
    be better or worse; ``audit`` measures it.

    Parameters
    ----------
    max_advantage : float, optional
        Ask that no attacker beat guessing by more on new rows, telling apart any two classes of a
        private fact, or all of them at once; 0.05 if nothing else is asked for.
        The limit under the model is tightened until rows left out show it to be kept, with 1.25
        standard errors to spare, 1.6 where groups are left out in turn, 3 where sensors depend in
        ways that no block holds and outputs are too many to look at; what is designed on few rows
        and outputs allows for sampling errors under the model, too (``expected_.met``). If rows
        are too few for that, ``fit`` warns (``UnmetRequestWarning``) and takes the least strict one
        that keeps it with one standard error to spare; without one, it draws a share of the symbols
        evenly, so that half a standard error is to spare. Where groups are left out in turn, the
        share is such that the tables keep it in other groups, as far as those at hand differ. If
        four fifths of the symbols are not enough, all of them are noise.
    privacy_ratio : float, optional
        Ask instead for a share of the largest R, one half, under the model. Nothing is held out
        for it, and on new rows R is somewhat smaller.
    epsilon : float, optional
        Ask that ``|log p(g|z)/p(g)|`` stay below it, likewise. Where the outputs are too many to
        list, more than 1024, as of 11 sensors with two symbols each, it is shared out among the
        sensors and holds by construction: of T sensors each gets epsilon/T, which leaves far less
        of the answer (``SharedEpsilonWarning``).
    beyond_answer : bool, default=False
        Ask both of attackers who know the public fact.
    rounds : float, default=1
        Ask ``max_advantage`` of so many rounds together, in which the private fact stays the same.
        Tables are then blind to it within each public class, as far as so many rows can show,
        their sampling error allowed for under the model. No limit is searched: rows left out
        cannot show as little as one of many rounds may tell, and ``expected_`` is about one round.
        Unless ``beyond_answer``, the answers themselves are limited, too.
    n_symbols, ldp_epsilon, kernel, reg, n_restarts, binning, n_bins, n_folds, decide, random_state
        As in ``NPOMapper``; kernel and reg shape the fusion rule only, where the outputs are too
        many to list.
    time_budget : float, optional
        Seconds on the clock after which the best mapping so far is taken; None for no limit. To
        look at it and to finish it takes up to a few seconds more.
    n_jobs : int, optional
        Folds that are designed on at the same time, in threads; None for one. The mapping is the
        same, unless time is up first.
    verbose : bool, default=False
        Print how it goes.

    Attributes
    ----------
    structure_ : Structure
        How counts were smoothed, and which sensors form blocks.
    alternatives_ : list of Expected
        If the mapping is of no use, or keeps less than a fifth of what raw readings gain over
        guessing: what more leak would buy, under up to three limits (``asked``), each of which is
        met. They limit the advantage alone, also where ``epsilon`` was asked for.
    mapping_, classes_, useful_, structural_epsilon_, expected_, privacy_ratio_
        As in ``NPOMapper``. ``public_risk_`` is what is minimised, under the model,
        ``private_risk_`` its R and ``threshold_`` the least R asked for.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import Mapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall = [0, 0, 1, 1] * 10
    >>> who = ["a", "b"] * 20
    >>> mapper = Mapper(max_advantage=0.1, random_state=0).fit(readings, fall, private=who)
    >>> symbols = mapper.transform(readings)
    >>> symbols.shape, mapper.fuse(symbols).shape
    ((40, 2), (40,))
    >>> mapper.predict(readings).shape, mapper.predict_proba(readings).shape  # both at once
    ((40,), (40, 2))
    >>> mapper.get_feature_names_out().tolist()
    ['hall', 'door']
    """

    _method = "auto"
    most_rows = None

    def __init__(
        self,
        n_symbols: int | Sequence[int] | Dict[str, int] = 2,
        *,
        kernel: str | Kernel = "product",
        privacy_ratio: float | None = None,
        max_advantage: float | None = None,
        epsilon: float | None = None,
        ldp_epsilon: float | None = None,
        beyond_answer: bool = False,
        rounds: float = 1,
        reg: float | None = None,
        n_restarts: int = 4,
        binning: str | Dict[str, str] = "merged",
        n_bins: int | Dict[str, int] = 10,
        n_folds: int = 5,
        decide: str | Dict[Any, float] = "balanced",
        random_state: int | np.random.RandomState | None = None,
        time_budget: float | None = 60.0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            n_symbols,
            kernel=kernel,
            privacy_ratio=privacy_ratio,
            max_advantage=max_advantage,
            epsilon=epsilon,
            ldp_epsilon=ldp_epsilon,
            reg=reg,
            n_restarts=n_restarts,
            binning=binning,
            n_bins=n_bins,
            n_folds=n_folds,
            decide=decide,
            random_state=random_state,
        )
        self.beyond_answer = beyond_answer
        self.rounds = rounds
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.beyond_answer, bool | np.bool_):
            raise InputError(f"beyond_answer must be True or False, got {self.beyond_answer!r}.")
        if not 1 <= self.rounds < np.inf:
            raise InputError(f"rounds must be a number of at least 1, got {self.rounds!r}.")
        if self.rounds > 1 and self.max_advantage is None:
            raise InputError(f"rounds={self.rounds:g} needs max_advantage, what they may tell.")
        check_number("time_budget", self.time_budget, 0.0, np.inf, "greater than 0")
        if not isinstance(self.verbose, bool | np.bool_):
            raise InputError(f"verbose must be True or False, got {self.verbose!r}.")
        if self.n_jobs is not None:
            check_count("n_jobs", self.n_jobs, 1)

    def _search(
        self, settings: Settings, coded: Coded, rng: np.random.Generator, report: Report | None
    ) -> LevelSearch:
        if report is None and self.verbose:
            report = printed()
        limited = in_time(report, self.time_budget)
        sample = coded.sample
        parts, design = self._leave_out(settings, coded, rng, limited)
        hidden = design.structure.left_over and not looks_at_all(settings, sample)
        many = self.rounds == 1 and has_many(sample, coded.groups, hidden=True)
        if hidden and many and not parts.for_good:
            parts, design = self._leave_out(settings, coded, rng, limited, hidden=True)
        self.structure_ = design.structure
        search = LevelSearch(
            settings, sample, coded.groups, parts, design, rng,
            beyond=bool(self.beyond_answer), blocks=design.structure.blocks, hidden=hidden,
            report=limited,
            n_jobs=self.n_jobs or 1,
        )  # fmt: skip
        # What is left of time that is over, nobody needs to know.
        if report is not None and limited is not None and not limited(Progress("pairs", 1.0)):
            seconds = self._estimate_seconds(settings, design, search)
            limited(Progress("search", 0.0, seconds=seconds))
        return search

    def _leave_out(
        self,
        settings: Settings,
        coded: Coded,
        rng: np.random.Generator,
        report: Report | None,
        *,
        hidden: bool = False,
    ) -> tuple[Parts, CountDesign]:
        """Choose which rows to leave out, and count the others."""
        evidence, groups = self.rounds > 1, coded.groups
        # Of what one of many rounds may tell, rows left out show nothing: all are designed on.
        parts = leave_out(
            coded.sample, groups, rng,
            n_folds=self.n_folds, listed=settings.lists_outputs, for_good=not evidence,
            hidden=hidden, sampled=groups is None and coded.n_rows > len(coded.sample.codes),
        )  # fmt: skip
        if parts.too_few is not None and self._looks_for_level(settings):
            raise parts.too_few  # before anything is counted, and before it is said how long
        return parts, CountDesign(
            settings, coded.counted, parts.left_out, rng,
            beyond=bool(self.beyond_answer), evidence=evidence, grouped=groups is not None,
            report=report,
        )  # fmt: skip

    def _keep(self, found: Found, search: LevelSearch) -> None:
        super()._keep(found, search)
        self.alternatives_ = []
        expected, asked = found.expected, self._asked_advantage
        poor = expected is not None and not expected.doubted and not expected.of_use
        if poor and self.privacy_ratio is None and self.rounds == 1:
            limits = [limit for limit in _LOOSER if asked is None or limit > asked]
            if asked is not None and self.epsilon is not None:
                limits = [asked, *limits]  # may be of use already without the epsilon
            shares = _shares(search)
            self.alternatives_ = search.look_for_use(
                {each: [Target(1.0 - 2.0 * share * each) for share in shares] for each in limits}
            )

    def _estimate_seconds(
        self, settings: Settings, design: CountDesign, search: LevelSearch
    ) -> float:
        folds = search.left_out.folds
        searches = self._looks_for_level(settings)
        levels = _LEVELS_TRIED if searches else 1
        planned = [Planned(len(folds), True, False), Planned(len(folds) * (levels - 1), True, True)]
        if not search.left_out.for_good:
            planned.append(Planned(1, False, searches))
        (target, *_), _ = self._levels(search, settings)
        seconds = design.seconds(folds[0][1] if folds else None, target, planned)
        return seconds + levels * search.seconds_to_look()

    def _levels(
        self, search: LevelSearch, settings: Settings
    ) -> tuple[list[Target], Request | None]:
        if self.privacy_ratio is not None:
            return [Target(self.privacy_ratio)], None
        if self.rounds > 1:
            one = one_of_rounds(self.max_advantage, self.rounds)
            return [Target(1.0 - 2.0 * one, self.epsilon)], None
        asked = self._asked_advantage
        levels = [self._level(share, settings) for share in _shares(search)]
        if not self._looks_for_level(settings):
            return levels[:1], None  # structural, holds by construction
        return levels, Request(asked, self.epsilon)

    def _looks_for_level(self, settings: Settings) -> bool:
        if self.privacy_ratio is not None or self.rounds > 1:
            return False
        return self._asked_advantage is not None or settings.lists_outputs

    @property
    def _asked_advantage(self) -> float | None:
        if self.privacy_ratio is None and self.epsilon is None and self.max_advantage is None:
            return DEFAULT_ADVANTAGE
        return self.max_advantage

    def _describe(self, settings: Settings, target: Target, seed: int, coded: Coded) -> Design:
        design = super()._describe(settings, target, seed, coded)
        own = {name: design.parameters[name] for name in design.parameters if name not in _OF_RISKS}
        return design.model_copy(update={"parameters": own})

    def _level(self, share: float, settings: Settings) -> Target:
        asked = self._asked_advantage
        ratio = None if asked is None else 1.0 - 2.0 * share * asked
        if self.epsilon is None:
            return Target(ratio)
        return Target(ratio, share * self.epsilon if settings.lists_outputs else self.epsilon)


def _shares(search: LevelSearch) -> tuple[float, ...]:
    """Return the levels to try: every second one where groups are few, which hardly tell more."""
    return _SHARES if search.few_groups is None else _SHARES[::2]


def one_of_rounds(asked: float | None, rounds: float) -> float:
    """Return the limit on half the root of the x of a round that keeps what all may tell together.

    The log-likelihood ratio of many small pieces of evidence is about normal: the advantage of n
    rounds is Phi(sqrt(n x)) - 1/2. It is concave in x, so that the mean of x may stand for x.
    """
    deviation = float(norm.ppf(0.5 + min(asked or 0.0, _MOST_ASKED)))
    return min(0.5 * deviation / math.sqrt(rounds), 0.5)
