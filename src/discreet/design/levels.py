"""The search for a level: which limit on the rows of a design delivers what was asked for.

One search for all methods. Levels rise in strictness; rows left out tell what each delivers.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.design.added_noise import add_noise, add_noise_in_groups
from discreet.design.expected import Expected, Request, Shortfall
from discreet.design.feasible import Designed, uniform_tables
from discreet.design.inputs import Target
from discreet.design.leak_estimates import Leaks
from discreet.design.level_trials import LevelTrials, Tried, first_kept, telling

# Standard errors to spare where nothing is shown: docs/decisions/0024-one-search.md
_LIKELY = 1.0
_ALTERNATIVES = 3  # so many limits at most that would leave something of use
_FIRST = 2  # of the levels: where the search begins


@dataclass(frozen=True)
class Found:
    """The level to take, what to expect of it, and the tables and the fusion rule to keep."""

    target: Target
    expected: Expected | None
    designed: Designed


class LevelSearch(LevelTrials):
    """Looks for the level to take, and for limits that would leave something of use."""

    def take(self, target: Target) -> Found:
        """Return the design for one level, without a search."""
        if self.left_out.for_good:
            return self._found(self.try_level(target), met=None)
        designed = self.design_all(target)
        if not self.parts or designed.stopped:
            return Found(target, None, designed)
        return Found(target, self._expect(self.try_level(target), met=None), designed)

    def find(self, levels: Sequence[Target], request: Request) -> Found:
        """Return the least strict of levels, which rise in strictness, that keeps a request."""
        if self.left_out.too_few is not None:
            raise self.left_out.too_few
        self.planned = 1 + int(np.ceil(np.log2(len(levels))))
        kept = self._least_strict(levels, request, first=True)
        if kept is None:
            found = self._found_none(request)
            return replace(found, expected=self._explained(found.expected, request))
        return self._found(kept, met=True, asked=request.max_advantage)

    def _least_strict(
        self, levels: Sequence[Target], request: Request, *, first: bool = False
    ) -> Tried | None:
        """Return the least strict of levels that keeps a request; ``first``: that of the user."""
        low, high, kept = 0, len(levels), None
        middle = min(_FIRST, high - 1)
        while low < high:
            tried = self.try_level(levels[middle])
            if tried.keeps(request, self.to_spare):
                kept, high = tried, middle
                self.best = tried if first else self.best
            else:
                low = middle + 1
            if tried.stopped or (low < high and self._ends()):
                break
            middle = _next_level(
                levels, low, high, tried.target, tried.most(self.to_spare), request
            )
        return kept

    def look_for_use(self, limits: Dict[float, Sequence[Target]]) -> list[Expected]:
        """Return what to expect under the first limits that leave something of use, three at most.

        Of use is what is surely better than guessing and keeps a fifth of what raw readings gain.
        ``limits``: on the advantage, each with its levels, which rise in strictness: of these the
        one is taken that ``find`` would take. A search that was stopped tells nothing of its limit,
        and none begins once time is over. What was tried before is forgotten.
        """
        found: list[Expected] = []
        for limit, levels in limits.items():
            if self._ends():
                break
            expected = self._of_use(limit, levels)
            if self._stopped:
                break
            if expected is not None:
                found.append(expected)
            if len(found) == _ALTERNATIVES:
                break
        return found

    def _of_use(self, limit: float, levels: Sequence[Target]) -> Expected | None:
        """Return what to expect under a limit, if that is of use."""
        loosest = self.try_level(levels[0])
        if loosest.stopped or not self._expect(loosest, met=None).of_use:
            return None
        self.last.clear()  # a search for this limit begins without the tables of others
        self.tried.clear()
        kept = self._least_strict(levels, Request(limit))
        expected = None if kept is None else self._expect(kept, met=True, asked=limit)
        return expected if expected is not None and expected.of_use else None

    def _found_none(self, request: Request) -> Found:
        """Take the least strict level tried that keeps a request with one error to spare.

        Without one, add noise, and if little is left say nothing. But take the last level where an
        epsilon alone was asked for, whose estimate errs upwards, or where the search was stopped,
        unless it surely leaks more.
        """
        asked, last = request.max_advantage, list(self.tried.values())[-1]
        tried = sorted(self.tried.values(), key=lambda each: -each.under_model)
        if taken := first_kept(tried, request, _LIKELY):
            return self._found(taken, met=False, asked=asked)
        if asked is None or (self._stopped and last.leaks.low <= asked):
            return self._found(last, met=False, asked=asked)
        return self._found_with_noise(tried, request) or self._silent(last.target, asked)

    def _found_with_noise(self, tried: Sequence[Tried], request: Request) -> Found | None:
        """Return a level with noise that likely keeps a request, if there is one."""
        noisy: Tried | None
        written: Designed | None = None
        if self.few_groups is not None:
            noisy, written = add_noise_in_groups(self, tried[-1], request, self.few_groups)
        else:
            noisy = add_noise(self, tried, request)
        if noisy is None:
            return None
        return self._found(noisy, met=False, asked=request.max_advantage, written=written)

    def _explained(self, expected: Expected | None, request: Request) -> Expected | None:
        """Return what is expected, with what the levels that were tried lacked."""
        if expected is None:
            return None
        tried = self.tried.values()
        seen = [each.epsilon for each in tried if each.epsilon is not None]
        shortfall = Shortfall(
            request,
            min(each.most(self.to_spare) for each in tried),
            min(seen, default=None),
            self.to_spare,
            expected.kept,
        )
        return replace(expected, shortfall=shortfall)

    def _found(
        self,
        tried: Tried,
        met: bool | None,
        asked: float | None = None,
        written: Designed | None = None,
    ) -> Found:
        """Return a level with its tables, designed on all rows unless they are given.

        Once time is over they are those of the first design, which rows left out have tried.
        """
        expected = self._expect(tried, met, asked)
        designed, over = written or tried.designs[0], False
        if not self.left_out.for_good and written is None:
            over = self._is_over()
            if over and len(telling(tried.designs)) == 1:
                expected = replace(expected, folds=1)  # of the very mapping
            if not over:
                begin = self.tried[tried.target].designs[0].tables
                designed = self.design_all(tried.target, [begin], tried.kept)
        stopped = over or designed.stopped or self._stopped
        return Found(tried.target, expected, replace(designed, stopped=stopped))

    def _silent(self, target: Target, asked: float) -> Found:
        tables = uniform_tables(self.sample.sizes, self.settings.n_symbols)
        designs = [Designed(tables, float("nan"), np.empty(0), np.empty(0))] * len(self.parts)
        leaks = Leaks(np.zeros(1), np.zeros(1), np.zeros(1))
        expected = self._expect(Tried(target, designs, leaks, None), met=False, asked=asked)
        designed = self.finish(designs[0])
        designed = replace(designed, stopped=self._stopped)
        expected = replace(expected, silent=True, kept=0.0, noise_cut=self.noise_cut)
        return Found(target, expected, designed)

    def _ends(self) -> bool:
        """Tell whether time is over for another level, and remember it."""
        self.ended = self.ended or self._is_over()
        return self.ended

    @property
    def _stopped(self) -> bool:
        """Whether time was over before all was tried, designed and looked at."""
        return self.ended or any(each.stopped for each in self.tried.values())


def _next_level(
    levels: Sequence[Target], low: int, high: int, tried: Target, most: float, request: Request
) -> int:
    """Return which of some levels to try next, after one that leaks so much.

    The first that would keep what was asked for if leaks were in proportion to what levels allow,
    or the middle one if that is not known.
    """
    asked = request.max_advantage
    if asked is None or tried.ratio is None or not 0.0 < most < np.inf:
        return (low + high) // 2
    allowed = (1.0 - tried.ratio) * asked / most
    for k in range(low, high):
        if (ratio := levels[k].ratio) is not None and 1.0 - ratio <= allowed:
            return k
    return max(low, high - 1)
