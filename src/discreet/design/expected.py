"""What is asked for, and what rows left out show of it; the words that all methods share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.design.answers import is_useful


@dataclass(frozen=True)
class Request:
    """The wish: no attacker beats guessing by more, no log-ratio exceeds."""

    max_advantage: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class Expected:
    """What rows left out showed.

    ``advantage``: the attacker's, over guessing, for the fact and the classes it does best on,
    estimated without bias, and ``advantage_error``, one standard error of it (``design/leaks.py``);
    infinite where each part left out has a class in one group only.
    ``raw_advantage``: that of boosted trees on the codes of the readings themselves, for the first
    of the parts left out. ``asked``: what ``advantage`` was to stay within, if that was asked for.
    ``epsilon``: max |log p(g|z)/p(g)| with every output counted as seen; it errs upwards, is
    infinite where a certain row rules a class out, and None where the outputs are too many to list
    or nobody asked for it. ``public_error``: of the decisions of the fusion rule.
    ``balanced_accuracy``: the share of right decisions, averaged over the public classes.
    ``balanced_low``, ``balanced_high``: where it lies with a confidence of 95 %. ``decided``: how
    often each public class is decided. ``guessing_error``: the error of naming the most frequent
    public class always. The balanced accuracy of any guessing is ``guessing_balanced_accuracy``.
    ``raw_error``, ``raw_balanced_accuracy``: of a classifier that sees the codes of the readings
    themselves and decides likewise. ``folds``: how many parts were left out in turn; 1 if the rows
    left out tried the very mapping. ``met``: whether what was asked for is kept with 1.25 standard
    errors to spare, 1.6 where groups are left out in turn. None if there was no wish to search for.
    ``silent``: whether the mapping is constant, since neither at a level that was tried nor with
    noise added the estimate kept what was asked for with half a standard error to spare.
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
    evidence: float = 0.0

    @property
    def guessing_balanced_accuracy(self) -> float:
        """One over the number of public classes, whatever the guess."""
        return 1.0 / len(self.decided)

    @property
    def advantage_with_error(self) -> float:
        """The attacker's advantage with one standard error."""
        return self.advantage + self.advantage_error

    @property
    def public_advantage(self) -> float:
        """Balanced accuracy of the fusion rule over guessing."""
        return self.balanced_accuracy - self.guessing_balanced_accuracy

    @property
    def useful(self) -> bool:
        """Whether the decisions are surely better than guessing, and not always the same."""
        return is_useful(self.balanced_low, self.decided)

    def as_dict(self) -> dict[str, float | None]:
        """Return what the mapping file records; JSON has no infinity."""
        error = self.advantage_error
        endless = self.epsilon is not None and not np.isfinite(self.epsilon)
        return {
            "advantage": self.advantage,
            "advantage_standard_error": error if np.isfinite(error) else None,
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
