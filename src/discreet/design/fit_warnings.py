"""What a fit warns of: decisions that are no better than guessing, and limits that are not met."""

from __future__ import annotations

import warnings
from collections.abc import Mapping as Dict

import numpy as np

from discreet.design.answers import Answers
from discreet.design.expected import NOT_MEASURED, Expected
from discreet.errors import UninformativeMappingWarning, UnmetRequestWarning
from discreet.mapping.parts import Fact
from discreet.rounding import percent, percents, with_error

_LEVEL = 6  # of ``fit``, above these
_WITH_NOISE = "with noise added or without"


def warn_useless(
    fact: Fact,
    expected: Expected | None,
    taught: Answers,
    interval: tuple[float, float],
    advice: str,
) -> None:
    """Say that decisions are no better than guessing, on rows left out or those learned from."""
    what, where = "the mapping", "Even on the rows it was learned from"
    accuracy = taught.balanced_accuracy
    by_folds = expected is not None and expected.by_folds
    # That the mapping written names one class always, designs without a fold do not tell.
    if expected is not None and not (by_folds and taught.constant):
        where, accuracy = "On rows left out", expected.balanced_accuracy
        interval = expected.balanced_low, expected.balanced_high
        if by_folds:
            what, advice = "a design without a fold", f"{_sentence(NOT_MEASURED)} {advice}"
    why = ""
    if expected is not None and expected.silent:
        why = "Not met: no level of strictness kept what was asked on held-out rows, "
        why += (
            "and it was stopped, or time was up, before noise was tried"
            if expected.noise_cut
            else _WITH_NOISE
        )
        why += ", so that the symbols are pure noise. "
    elif taught.constant:
        always = fact.classes[int(np.argmax(taught.shares))]
        why = f"The fusion rule names {always!r} whatever the symbols are. "
    warnings.warn(
        f"{why}{where}, as far as they show, {what} answers {fact.name!r} no better than "
        f"guessing: its balanced accuracy is "
        f"{percent(accuracy)} ({percents(*interval)} at 95 % confidence), that of guessing "
        f"{percent(1.0 / len(fact.classes))}. "
        f"{advice}",
        UninformativeMappingWarning,
        stacklevel=_LEVEL,
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def warn_unmet(
    expected: Expected, asked: Dict[str, float | None], advice: str, *, stated: bool = True
) -> None:
    """Say what rows left out show instead of what was asked; ``stated``: not by default."""
    found = [f"advantage {with_error(expected.advantage, expected.advantage_error)}"]
    if asked["epsilon"] is not None and expected.epsilon is not None:
        found.append(f"epsilon {expected.epsilon:.2f}")
    lacking = "at no level that was tried enough standard errors to spare"
    if expected.shortfall is not None:
        lacking = expected.shortfall.words
        if expected.shortfall.of_epsilon:
            advice = f"Of few rows this epsilon errs upwards: ask for a larger one. {advice}"
    limits = [f"{name} {limit:g}" for name, limit in asked.items() if limit is not None]
    warnings.warn(
        f"Not met: at most {' and '.join(limits)} {'was asked for' if stated else 'is the default'}"
        f". Rows left out show{', of designs without a fold,' if expected.by_folds else ''} "
        f"{' and '.join(found)}; {lacking}. {advice}",
        UnmetRequestWarning,
        stacklevel=_LEVEL,
    )
