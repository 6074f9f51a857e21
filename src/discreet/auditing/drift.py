"""Label-free drift: whether the symbols of a day are like those of the days before.

It needs nobody to label anything, and takes days, not rounds, for independent draws: people repeat
themselves within a day. The shares of each sensor's symbols make a day one point. The first days
are the reference: how far out a later day is, by their mean and covariance, is its score.

*Why the promise holds.* If days are exchangeable, the rank r of the n-th score among the n so far,
1 the farthest out, is at most j with a probability of at most j/n, whatever came before. A bet that
the drift began j days ago pays 1 - h + h (n/j) [r <= j], on average at most 1. ``watched`` adds up
the products of such bets over all days on which a drift may have begun, so that it grows by at most
1 a day on average: by optional stopping the mean time to a false alarm at ``threshold`` is at least
that many days, and the probability of one within n days at most n / ``threshold``.

*What it cannot see*: a change that leaves the daily frequencies alone, such as who causes them.
That is most of what raises a leak, and only labelled rows show it (``recheck``). Nor a change that
is slow against the watch. Seasons and new habits are seen and need be no leak: an alarm asks for
labelled rows and withdraws nothing. Weekends that differ from weekdays make days less than
exchangeable; ``research/benchmarks/recheck.py`` measures what that does to false alarms.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from discreet.arrays import Floats
from discreet.auditing.recheck_bets import Part, RowsOfNumbers
from discreet.data.strict_model import MAX_TEXT
from discreet.errors import InputError
from discreet.mapping.file_format import load_result

FALSE_PER_MONTH = 0.01
REFERENCE_DAYS = 20
_MONTH = 30
_MOST_BYTES = 64 * 2**20
_STAKED, _WIDER = 0.7, (1, 2, 4)  # h; a day of a drift may rank behind a few of the days before
_SHRUNK, _LEAST_SPREAD = 0.1, 1e-3  # of the covariance; standard deviation of a share

_Date = Annotated[date, Field(strict=False)]


class DriftWatch(Part):
    """The file of a watch.

    ``reference``: the shares of symbols of the first days. ``scores``: of the days after them.
    ``bets``: what came of bets on each day as the first of a drift, one row for each width.
    """

    format: Literal["discreet-drift"] = "discreet-drift"
    version: Literal[1] = 1
    mapping_id: Annotated[str, Field(max_length=MAX_TEXT)]
    false_per_month: Annotated[float, Field(gt=0, lt=1)] = FALSE_PER_MONTH
    last: _Date | None = None
    reference: RowsOfNumbers
    scores: list[float]
    bets: RowsOfNumbers
    alarmed: _Date | None = None

    @property
    def threshold(self) -> float:
        """What the watch has to reach for an alarm."""
        return _MONTH / self.false_per_month

    @property
    def watched(self) -> float:
        return float(self.bets.sum()) / len(_WIDER)

    def add(self, on: date, counts: Sequence[Sequence[int]]) -> None:
        """Watch one more day: how often each sensor sent each symbol."""
        if self.last is not None and on <= self.last:
            raise InputError(f"{on} is not after {self.last}, the last day that was watched.")
        day = np.concatenate([np.array(each) / max(1, sum(each)) for each in counts])
        watched = self.reference.shape[1] or len(day)
        if len(day) != watched:
            raise InputError(f"{on} has {len(day)} symbols; {watched} are watched.")
        self.last = on
        if len(self.reference) < REFERENCE_DAYS:
            self.reference = np.vstack([self.reference.reshape(-1, watched), day])
        else:
            self._bet(how_far(day, self.reference))
        if self.alarmed is None and self.watched >= self.threshold:
            self.alarmed = on

    def _bet(self, score: float) -> None:
        self.scores = [*self.scores, score]
        n, rank = len(self.scores), sum(each >= score for each in self.scores)
        since = np.outer(_WIDER, np.arange(n, 0, -1))
        pays = 1.0 - _STAKED + _STAKED * np.where(rank <= since, n / since, 0.0)
        begun = np.hstack([self.bets, np.ones((len(_WIDER), 1))])
        self.bets = np.minimum(begun * np.where(since < n, pays, 1.0), 1e200)


def begin_watch(mapping_id: str, false_per_month: float = FALSE_PER_MONTH) -> DriftWatch:
    """Return a watch that has seen no day."""
    return DriftWatch.model_validate(
        {
            "mapping_id": mapping_id,
            "false_per_month": false_per_month,
            "reference": [],
            "scores": [],
            "bets": np.empty((len(_WIDER), 0)),
        }
    )


def load_watch(path: Path) -> DriftWatch:
    """Read the file of a watch.

    Raises InputError: if it is not sound.
    """
    return load_result(
        DriftWatch, path, command="discreet serve", most=_MOST_BYTES, remedy="Delete it."
    )


def how_far(day: Floats, reference: Floats) -> float:
    """Return the squared distance from the mean of the reference, in units of its spread."""
    spread = np.cov(reference.T)
    shrunk = (1 - _SHRUNK) * spread + _SHRUNK * np.diag(np.diag(spread))
    away = day - reference.mean(axis=0)
    return float(away @ np.linalg.solve(shrunk + _LEAST_SPREAD**2 * np.eye(len(away)), away))
