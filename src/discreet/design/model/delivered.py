"""From a wish to a target that delivers it, where the design is made on a model.

The optimum presses the leak under the model right up to what is allowed, and the truth is
not the model: on new rows more leaks than was asked for. So designs are made on some rows
and looked at twice. Under the model of the rows left out, the leak is told precisely enough
to take the excess off the limit once, but not below half of it: the rest is the noise of that
model, and perfect privacy under one model is dear and no more private under another. On the
rows themselves, less what chance alone would show, it is told roughly but without a model's
blindness: the target is tightened until that keeps the wish, and if it surely never does,
nothing may be said.

Met is what the rows left out show without taking anything off: estimate and one standard error
within what was asked, as for all mappers. So the target is tightened further for that. Few rows
may not show it of any level; then the first target stays, and counts as not met.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.design.calibration import Expected, Request, Trial, mean_and_error
from discreet.design.held_out import Score
from discreet.design.model.distribution import Distribution
from discreet.design.model.limits import Leaks, leaks
from discreet.design.problem import Target

_STEPS = 5  # levels that are tried
_STRICTER = 5  # levels that are tried beyond them
_LEAST_STEP = 0.85  # of the room of one level that the next one beyond has at most
_LEAST_INSIDE = 0.5  # of what is allowed, for an excess that only a model shows
_MOST_AT_ONCE = 0.35  # of the room that is left after one step
_CLOSE = 0.05  # of what is allowed: the folds cannot tell more


def find_target(
    trial: Trial, request: Request, held: Sequence[Distribution]
) -> tuple[Target, Expected]:
    """Find a target under the model that delivers what was asked on rows left out.

    ``trial``: designs on folds. ``held``: the model of the rows left out, for each fold.
    """
    asked = target_of(request)
    trial.score(asked)
    level, settled = _take_off(asked, _under_models(trial, held)), False
    for _ in range(_STEPS):
        tighter = Target(
            _tighten_ratio(level, asked, _beyond_chance(trial, level)),
            _tighten_epsilon(level, asked, _under_models(trial, held)),
        )
        settled = tighter == level
        if settled:
            break
        level = tighter
    silent = not settled and _surely_leaks(trial, level, asked, held)
    shown = _shown_to_keep(trial, level, request)
    if shown is None and silent:
        return level, trial.silence()
    return shown or level, trial.summary(shown or level, request)


def target_of(request: Request) -> Target:
    """Return what is asked for as a target under the model."""
    ratio = None if request.max_advantage is None else 1.0 - 2.0 * request.max_advantage
    return Target(ratio, request.epsilon)


def _shown_to_keep(trial: Trial, level: Target, request: Request) -> Target | None:
    """Return the level, or the first stricter one, of which the rows left out show it."""
    for _ in range(1 + _STRICTER):
        scores = trial.score(level)
        if request.met_by(scores):
            return level
        level = _stricter(level, request, scores)
    return None


def _stricter(level: Target, request: Request, scores: Sequence[Score]) -> Target:
    """Return a level with less room, by as much as the estimates are beyond the request."""
    ratio, epsilon = level.ratio, level.epsilon
    if request.max_advantage is not None and ratio is not None:
        excess = mean_and_error([score.advantage for score in scores])
        room = 0.5 * (1.0 - ratio)
        kept = 1.0 - (sum(excess) - request.max_advantage) / room
        ratio = 1.0 - 2.0 * room * float(np.clip(kept, _MOST_AT_ONCE, _LEAST_STEP))
    if epsilon is not None:
        epsilon *= _LEAST_STEP
    return Target(ratio, epsilon)


def _surely_leaks(trial: Trial, level: Target, asked: Target, held: Sequence[Distribution]) -> bool:
    """Tell whether the strictest level still leaks more than was asked, beyond the noise."""
    _, error = mean_and_error([score.advantage for score in trial.score(level)])
    advantage = _beyond_chance(trial, level) - error
    return (
        Target(
            _tighten_ratio(level, asked, advantage),
            _tighten_epsilon(level, asked, _under_models(trial, held)),
        )
        != level
    )


def _under_models(trial: Trial, held: Sequence[Distribution]) -> Leaks:
    """Return what the last designs leak under the models of rows left out, on average."""
    found = [leaks(model, model.joint_outputs(trial.last[k])) for k, model in enumerate(held)]
    return Leaks(
        *(
            float(np.mean([getattr(each, name) for each in found]))
            for name in ("risk", "advantage", "epsilon")
        )
    )


def _beyond_chance(trial: Trial, level: Target) -> float:
    """Return the advantage on the rows left out that chance alone would not show.

    Differences between classes that are real and those that are noise add up as squares.
    """
    rough = float(np.mean([score.advantage for score in trial.score(level)]))
    return math.sqrt(max(rough**2 - trial.chance() ** 2, 0.0))


def _take_off(asked: Target, found: Leaks) -> Target:
    """Return the target less the excess that the models show."""
    if asked.ratio is None:
        return asked
    allowed = 0.5 * (1.0 - asked.ratio)
    excess = max(found.advantage - allowed, 0.0)
    room = max(_LEAST_INSIDE * allowed, allowed - excess)
    return Target(1.0 - 2.0 * room, asked.epsilon)


def _tighten_ratio(level: Target, asked: Target, advantage: float) -> float | None:
    if asked.ratio is None or level.ratio is None:
        return None
    allowed, room = 0.5 * (1.0 - asked.ratio), 0.5 * (1.0 - level.ratio)
    excess = advantage - allowed
    if excess <= _CLOSE * allowed:
        return level.ratio
    return 1.0 - 2.0 * max(_MOST_AT_ONCE * room, room - excess)


def _tighten_epsilon(level: Target, asked: Target, found: Leaks) -> float | None:
    if asked.epsilon is None or level.epsilon is None:
        return None
    share = asked.epsilon / max(found.epsilon, asked.epsilon)
    return level.epsilon * (1.0 if share >= 1.0 - _CLOSE else max(_MOST_AT_ONCE, share))
