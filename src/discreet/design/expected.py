"""What is asked for, and what rows left out show of it: figures, and how they are worded.

Beside the answers stand two others: naming the most frequent class, and a classifier that sees the
codes themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.design.answers import is_useful
from discreet.rounding import at_least

_LITTLE = 0.2  # of what raw readings gain over guessing
_WRITTEN = "the mapping written, on rows left out"
_WITHOUT_FOLDS = "designs without a fold, on rows left out"
NOT_MEASURED = "the mapping written may be better or worse than this; the audit measures it"
"""What to add where figures are of designs without a fold."""


@dataclass(frozen=True)
class Request:
    """The wish: no attacker beats guessing by more, no log-ratio exceeds."""

    max_advantage: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class Shortfall:
    """What every level that was tried lacked, as it was designed, before noise was added.

    ``advantage``: the least of all, the larger of what rows left out show, with ``to_spare``
    standard errors, and of what leaks under the model of the rows learned from, with as many or
    two fifths (``Expected.met``). ``epsilon``: the least that
    rows left out show, None if it was not looked at. ``kept``: the share of the symbols that the
    mapping taken sends as designed; the others are drawn evenly.
    """

    asked: Request
    advantage: float
    epsilon: float | None
    to_spare: float
    kept: float = 1.0

    @property
    def of_advantage(self) -> bool:
        """Whether no level kept the advantage."""
        limit = self.asked.max_advantage
        return limit is not None and self.advantage > limit

    @property
    def of_epsilon(self) -> bool:
        """Whether no level kept epsilon."""
        limit = self.asked.epsilon
        return None not in (limit, self.epsilon) and self.epsilon > limit  # type: ignore[operator]

    @property
    def words(self) -> str:
        """What was seen beside what was asked for."""
        found = [self._advantage_words()] if self.of_advantage else []
        found += [self._epsilon_words()] if self.of_epsilon else []
        said = " and ".join(found) or "either the advantage or epsilon is above what was asked for"
        said = f"at every level that was tried {said}"
        if self.kept in (0.0, 1.0):
            return said
        return (
            f"{said}; so {100 * (1.0 - self.kept):.0f} % of the symbols are drawn evenly, and the "
            "rows that this was chosen by do not show the outcome to be kept"
        )

    def _advantage_words(self) -> str:
        limit = self.asked.max_advantage or 0.0
        if not math.isfinite(self.advantage):
            return (
                "the error of the advantage is not known, as a class is in one group only or has "
                "too few rows, or time was up or it was stopped"
            )
        return (
            "the advantage, on rows left out or under the model of those learned from, is at least "
            f"{at_least(self.advantage, limit)} with {self.to_spare:g} standard errors to spare "
            f"(limit: {100 * limit:.4g})"
        )

    def _epsilon_words(self) -> str:
        asked, found = f"{self.asked.epsilon:g}", self.epsilon or 0.0
        if not math.isfinite(found):
            return f"epsilon is unbounded, as a row rules a class out (limit: {asked})"
        return f"epsilon is at least {found:.4g} on rows left out (limit: {asked})"


@dataclass(frozen=True)
class Expected:
    """What rows left out showed: of the mapping written, or of designs without a fold.

    From 8000 rows on (from 1500 in 100 groups or, of the default method, where dependence is
    hidden) it is of the very mapping, and ``folds`` is 1. Of fewer rows it is of designs without a
    fold, each tried on that fold. The mapping written is designed on all rows: it may be better or
    worse, in answers and in leak, and the interval is none of it. The audit measures it. ``of``
    says which.

    ``advantage``: the attacker's over guessing, balanced accuracy minus 1/m, for the private fact
    and the classes it does best on: of each fact every two classes (m = 2, 1/2 at most) and, of
    more than two, all m at once (1 - 1/m at most). It is estimated, and ``advantage_error``, one
    standard error of it, in ``design/leak_estimates.py``; infinite where each part left out has a
    class in one group only, where a class has too few rows to learn from, and where time was up
    before all attackers were asked. ``model_advantage``: what leaks under the models that were
    designed on, which is hardly ever more than is true. ``raw_advantage``: the same as
    ``advantage``, of boosted trees on the codes of
    the readings themselves, and of mixtures of states where dependence is hidden, for the first of
    the parts left out. ``asked``: what ``advantage`` was to stay within, if that was asked for.
    ``epsilon``: max |log p(g|z)/p(g)| with every output counted as seen; it errs upwards, is
    infinite where a certain row rules a class out, and None where the outputs are too many to list
    or nobody asked for it. ``public_error``: of the decisions of the fusion rule.
    ``balanced_accuracy``: the share of right decisions, averaged over the public classes.
    ``balanced_low``, ``balanced_high``: where it lies with a confidence of 95 %. ``decided``: how
    often each public class is decided. ``guessing_error``: the error of naming the most frequent
    public class always. The balanced accuracy of any guessing is ``guessing_balanced_accuracy``.
    ``raw_error``, ``raw_balanced_accuracy``: of a classifier that sees the codes of the readings
    themselves and decides likewise. ``folds``: how many parts were left out in turn; 1 if the rows
    left out tried the very mapping. ``met``: whether rows left out keep what was asked for with
    1.25 standard errors to spare, 1.6 where groups are left out in turn, 3 where dependence is
    hidden (``attacker_views``), and the model keeps it likewise, or with two fifths of these errors
    if it allows for those of its rows itself. None if there was no wish to search for. It takes
    rows, or the groups that were named, as independent, and is never true where ``doubted``: where
    rows were seen to depend on one another, or may, and no groups were named, or copies of rows lie
    in different ones. ``fit`` in Python does not look at that.
    ``silent``: whether the mapping is constant, since neither at a level that was tried nor with
    noise added the estimate kept what was asked for (``LevelSearch``). ``noise_cut``: whether time
    was up before noise could be tried.
    ``kept``: the share of the symbols that are sent as designed; the others are drawn evenly.
    ``shortfall``: what was lacking where ``met`` is false. ``hurried``: whether the figures of raw
    readings were learned from fewer rows than usual, as time was up.
    ``evidence``: what adds up over rounds, the squared distance between two private classes (as x
    in ``leakage/over_time.py``), with one standard error.
    """

    advantage: float
    advantage_error: float
    raw_advantage: float
    epsilon: float | None
    public_error: float
    balanced_accuracy: float
    balanced_low: float
    balanced_high: float
    decided: tuple[float, ...]
    guessing_error: float
    raw_error: float
    raw_balanced_accuracy: float
    folds: int
    met: bool | None
    asked: float | None = None
    silent: bool = False
    noise_cut: bool = False
    evidence: float = 0.0
    kept: float = 1.0
    shortfall: Shortfall | None = None
    hurried: bool = False
    doubted: bool = False
    model_advantage: float = 0.0

    @property
    def likely_advantage(self) -> float:
        """What leaks, on rows left out or under the model, whichever is more."""
        return max(self.advantage, self.model_advantage)

    @property
    def more_by_model(self) -> bool:
        """Whether more leaks under the model than rows left out show to attackers."""
        return self.model_advantage > self.advantage

    @property
    def by_folds(self) -> bool:
        """Whether the figures are of designs without a fold; pure noise is the same without."""
        return self.folds > 1 and not self.silent

    @property
    def of(self) -> str:
        """What the figures are of, in a few words."""
        return _WITHOUT_FOLDS if self.by_folds else _WRITTEN

    @property
    def guessing_balanced_accuracy(self) -> float:
        """One over the number of public classes, whatever the guess."""
        return 1.0 / len(self.decided)

    @property
    def public_advantage(self) -> float:
        """Balanced accuracy of the fusion rule over guessing."""
        return self.balanced_accuracy - self.guessing_balanced_accuracy

    @property
    def share_of_raw_gain(self) -> float | None:
        """What the answers gain over guessing, as a share of what raw readings gain, if they do."""
        raw = self.raw_balanced_accuracy - self.guessing_balanced_accuracy
        return self.public_advantage / raw if raw > 0.0 else None

    @property
    def keeps_little(self) -> bool:
        """Whether less than a fifth is kept of what raw readings gain over guessing."""
        share = self.share_of_raw_gain
        return share is not None and share < _LITTLE

    @property
    def useful(self) -> bool:
        """Whether the decisions are surely better than guessing, and not always the same."""
        return is_useful(self.balanced_low, self.decided)

    @property
    def of_use(self) -> bool:
        """Whether the decisions are useful and keep a fifth of what raw readings gain."""
        return self.useful and not self.keeps_little

    def of_doubted_rows(self) -> Expected:
        """Return the same of rows that cannot be taken to be independent: nothing is met."""
        return replace(self, met=None if self.met is None else False, doubted=True)

    def as_dict(self) -> dict[str, float | None]:
        """Return what the mapping file records; JSON has no infinity."""
        error = self.advantage_error
        endless = self.epsilon is not None and not np.isfinite(self.epsilon)
        return {
            "advantage": self.advantage,
            "advantage_standard_error": error if np.isfinite(error) else None,
            "model_advantage": self.model_advantage,
            "raw_advantage": self.raw_advantage,
            "epsilon": None if endless else self.epsilon,
            "public_error": self.public_error,
            "public_advantage": self.public_advantage,
            "balanced_accuracy": self.balanced_accuracy,
            "balanced_accuracy_low": self.balanced_low,
            "balanced_accuracy_high": self.balanced_high,
            "guessing_error": self.guessing_error,
            "guessing_balanced_accuracy": self.guessing_balanced_accuracy,
            "raw_error": self.raw_error,
            "raw_balanced_accuracy": self.raw_balanced_accuracy,
            "folds": float(self.folds),
            "met": None if self.met is None else float(self.met),
        }
