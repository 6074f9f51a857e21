"""What a fit warns of at its end: answers of no use, and requests that are not met."""

from __future__ import annotations

import warnings
from collections.abc import Mapping as Dict

import numpy as np

from discreet.design.answers import Answers
from discreet.design.expected import Expected
from discreet.errors import UninformativeMappingWarning, UnmetRequestWarning
from discreet.mapping.parts import Fact
from discreet.quoting import percent, percents, with_error

_LEVEL = 6  # of ``fit``, above these


def warn_useless(
    fact: Fact,
    expected: Expected | None,
    taught: Answers,
    interval: tuple[float, float],
    advice: str,
) -> None:
    """Say that decisions are no better than guessing, on rows left out or those learned from."""
    where, accuracy = "Even on the rows it was learned from", taught.balanced_accuracy
    if expected is not None:
        where, accuracy = "On rows left out", expected.balanced_accuracy
        interval = expected.balanced_low, expected.balanced_high
    why = ""
    if expected is not None and expected.silent:
        why = "Not met: no level of strictness kept what was asked on held-out rows, with noise "
        why += "added or without, so that the symbols are pure noise. "
    elif taught.constant:
        always = fact.classes[int(np.argmax(taught.shares))]
        why = f"The fusion rule names {always!r} whatever the symbols are. "
    warnings.warn(
        f"{why}{where}, as far as they show, the mapping answers {fact.name!r} no better than "
        f"guessing: its balanced accuracy is {percent(accuracy)} "
        f"({percents(*interval)} at 95 % confidence), that of guessing "
        f"{percent(1.0 / len(fact.classes))}. "
        f"{advice}",
        UninformativeMappingWarning,
        stacklevel=_LEVEL,
    )


def warn_unmet(expected: Expected, asked: Dict[str, float | None], advice: str) -> None:
    """Say what rows left out show instead of what was asked."""
    found = [f"advantage {with_error(expected.advantage, expected.advantage_error)}"]
    if asked["epsilon"] is not None and expected.epsilon is not None:
        found.append(f"epsilon {expected.epsilon:.2f}")
    limits = [f"{name} {limit:g}" for name, limit in asked.items() if limit is not None]
    warnings.warn(
        f"Not met: at most {' and '.join(limits)} was asked for. Held-out rows show "
        f"{' and '.join(found)}, and at no level that was tried enough standard errors to spare. "
        f"{advice}",
        UnmetRequestWarning,
        stacklevel=_LEVEL,
    )
