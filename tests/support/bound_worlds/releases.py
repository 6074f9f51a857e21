"""Worlds in which one report tells nothing about the private fact and many tell a lot.

Each makes a mapping and a table of single reports, independent of one another, as an audit
would be given them, and knows exactly what somebody gains who sees all reports of a day.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import binom

from support.bound_worlds.rows import keeps
from support.worlds import frame, mapping_of


@dataclass(frozen=True)
class Flips:
    """Whether a device switches every minute: each reading is a fair coin, in either case.

    The private fact lasts; what is read at odd minutes equals what is read at even ones, or
    is the opposite.
    """

    keep: float = 0.95  # probability with which the reading is sent as it is

    def table(self, rows, rng):
        """Return mapping, readings, public fact and private fact of single reports."""
        reading, private = rng.integers(2, size=(2, rows))
        return mapping_of([keeps(self.keep)]), frame([reading]), reading, private

    def reports(self, private, releases, rng):
        """Draw the reports of a day for every one of these private facts."""
        first = rng.integers(2, size=(len(private), 1))
        reading = first ^ (private[:, None] & (np.arange(releases) % 2))
        return reading ^ (rng.random(reading.shape) >= self.keep)

    def guess(self, reports):
        """Name the private fact of each day by counting switches."""
        switches = np.diff(reports, axis=1) != 0
        return (switches.mean(axis=1) > 0.5).astype(int)

    def advantage(self, releases):
        """The exact advantage of the best attacker over a day.

        Ones at even and at odd minutes are all there is to know: both numbers are binomial,
        with the same chance if the device stays and with opposite ones if it switches.
        """
        even, odd = (releases + 1) // 2, releases // 2
        given = np.zeros((2, even + 1, odd + 1))
        for private, first in product((0, 1), (0, 1)):
            second = first ^ private
            given[private] += 0.5 * np.multiply.outer(
                binom.pmf(np.arange(even + 1), even, self._ones(first)),
                binom.pmf(np.arange(odd + 1), odd, self._ones(second)),
            )
        return 0.25 * float(np.abs(given[1] - given[0]).sum())

    def _ones(self, reading):
        return self.keep if reading else 1 - self.keep


@dataclass(frozen=True)
class HiddenBit:
    """A reading is G xor U; G changes from report to report, the fair bit U once a day.

    One reading says nothing about G. Where G = 1 is rare, the frequency of ones over a day
    names U, and with it every G.
    """

    rare: float = 0.2  # P(G = 1)
    keep: float = 0.75

    def table(self, rows, rng):
        """Return mapping, readings, public fact and private fact of single reports."""
        private = (rng.random(rows) < self.rare).astype(int)
        reading = private ^ rng.integers(2, size=rows)
        return mapping_of([keeps(self.keep)]), frame([reading]), reading, private

    def reports(self, private, releases, rng):
        """Draw the reports of a day; the private facts are those of the first report."""
        facts = (rng.random((len(private), releases)) < self.rare).astype(int)
        facts[:, 0] = private
        reading = facts ^ rng.integers(2, size=(len(private), 1))
        return reading ^ (rng.random(reading.shape) >= self.keep)

    def guess(self, reports):
        """Name the fact at the first report: the report is not what the others mostly are."""
        usual = reports[:, 1:].mean(axis=1) > 0.5
        return (reports[:, 0] != usual).astype(int)

    def advantage(self, releases):
        """The exact advantage about G at one report of the best attacker over a day.

        What there is to know is the report itself and the ones among all others.
        """
        others = np.arange(releases)
        given = np.zeros((2, 2, releases))
        for private, hidden, report in product((0, 1), repeat=3):
            sent = self.keep if report == private ^ hidden else 1 - self.keep
            one = self.rare * self._ones(1 ^ hidden) + (1 - self.rare) * self._ones(hidden)
            given[private, report] += 0.5 * sent * binom.pmf(others, releases - 1, one)
        return 0.25 * float(np.abs(given[1] - given[0]).sum())

    def _ones(self, reading):
        return self.keep if reading else 1 - self.keep
