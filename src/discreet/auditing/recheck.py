"""The re-check of a running site: labelled rows withdraw a certificate, symbols alone show drift.

Labelled rows of the site are judged as they come (``recheck_bets``). If the certificate holds, it
is withdrawn at any time of its life with a probability of at most ``false_share``, for all claims
together and however often one looks. A withdrawal is final: only another mapping starts again.

*Label-free drift: whether the symbols of a day are like those of the days before.* It needs nobody
to label anything, and takes days, not rounds, for independent draws: people repeat themselves
within a day. The shares of each sensor's symbols make a day one point. The first days are the
reference: how far out a later day is, by their mean and covariance, is its score.

*Why the promise holds.* If days are exchangeable, the rank r of the n-th score among the n so far,
1 the farthest out, is at most j with a probability of at most j/n, whatever came before. A bet
that the drift began j days ago pays 1 - h + h (n/j) [r <= j], on average at most 1. ``watched``
adds up the products of such bets over all days on which a drift may have begun, so that it grows
by at most 1 a day on average: by optional stopping the mean time to a false alarm at ``threshold``
is at least that many days, and the probability of one within n days at most n / ``threshold``.

*What it cannot see*: a change that leaves the daily frequencies alone, such as who causes them.
That is most of what raises a leak, and only labelled rows show it (``recheck``). Nor a change that
is slow against the watch. Seasons and new habits are seen and need be no leak: an alarm asks for
labelled rows and withdraws nothing. Weekends that differ from weekdays make days less than
exchangeable; ``research/benchmarks/recheck.py`` measures what that does to false alarms.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.auditing.audit_file import AuditSummary
from discreet.auditing.recheck_bets import (
    RISE,
    Attackers,
    Contest,
    Count,
    LabelledRows,
    Part,
    RowsOfNumbers,
    admit,
    hold_sittings,
    new_contest,
)
from discreet.data.strict_model import MAX_TEXT
from discreet.errors import InputError, shown
from discreet.files import PRIVATE, write_whole
from discreet.mapping.file_format import load_result
from discreet.mapping.mapping import Mapping
from discreet.rounding import at_most, down, percent, points

# --- The certificate, on labelled rows ------------------------------------------------------

FALSE_SHARE = 0.05
DUE_DAYS = 30
NONE, VALID, DUE, BROKEN = "none", "valid", "due", "broken"

_ANSWER_WEIGHT = 0.1  # of the wealth; the private facts share the rest
_MOST_BYTES = 64 * 2**20
_MOST_TABLES = 1_000
_REMEDY = "Restore it from a good copy, or delete it to start the re-check over."

_Date = Annotated[date, Field(strict=False)]
_Text = Annotated[str, Field(max_length=MAX_TEXT)]


class Claim(Part):
    """No attacker gains more on a private fact than this."""

    fact: _Text
    limit: Annotated[float, Field(ge=0, lt=1)]


class Judged(Part):
    """The first rows of a table that were judged, so that they are not judged twice."""

    rows: Count
    digest: _Text


class Withdrawal(Part):
    """When a claim was found to fail, and which."""

    on: _Date
    rows: Count
    words: Annotated[str, Field(max_length=10_000)]


class Recheck(Part):
    """What is claimed, what was seen, and whether it still stands.

    ``certified``: the date of the certificate. ``answer``: the balanced accuracy that is claimed
    for the public answer. ``units``: independent draws so far, rows or groups. ``supported``: when
    rows that are enough, see ``RISE``, last agreed with the claims.
    """

    format: Literal["discreet-recheck"] = "discreet-recheck"
    version: Literal[2] = 2
    mapping_id: _Text
    certified: _Date
    false_share: Annotated[float, Field(gt=0, lt=1)]
    claims: Annotated[list[Claim], Field(max_length=1_000)]
    answer: Annotated[float, Field(gt=0, lt=1)] | None
    rows: Count = 0
    units: Count = 0
    supported: _Date | None = None
    judged: Annotated[list[Judged], Field(max_length=_MOST_TABLES)]
    withdrawn: Withdrawal | None = None
    contests: list[Contest]

    @property
    def evidence(self) -> float:
        """What bets against the claims have made of 1."""
        return sum(contest.wealth for contest in self.contests)

    @property
    def noticeable(self) -> float:
        """About how far beyond its limit any gain would have been noticed of late."""
        private = [contest for contest in self.contests if contest.fact is not None]
        return max(contest.noticeable(self.false_share) for contest in private)

    def save(self, path: Path) -> None:
        """Write the file, for its owner only: rows that wait are in it."""
        write_whole(path, self.model_dump_json() + "\n", PRIVATE)


def begin(
    mapping: Mapping,
    claims: Sequence[Claim],
    certified: date,
    *,
    answer: float | None = None,
    false_share: float = FALSE_SHARE,
) -> Recheck:
    """Return a re-check that has seen nothing."""
    if not claims:
        raise InputError("nothing is claimed, so that nothing can be re-checked. Audit first.")
    places = {fact.name: k for k, fact in enumerate(mapping.private)}
    unknown = next((claim.fact for claim in claims if claim.fact not in places), None)
    if unknown is not None:
        raise InputError(f"the mapping does not guard {shown(unknown)}. Audit this mapping.")
    tested: list[tuple[int, Sequence[int], float]] = []
    for claim in claims:  # an advantage is about the pairs of classes, and all of them
        place = places[claim.fact]
        every = range(len(mapping.private[place].classes))
        contested = [*combinations(every, 2), *([every] if len(every) > 2 else [])]
        tested += [(place, classes, claim.limit) for classes in contested]
    share = (1.0 if answer is None else 1.0 - _ANSWER_WEIGHT) / len(tested)
    contests = [new_contest(mapping, *each, share) for each in tested]
    if answer is not None:
        every = range(len(mapping.public.classes))
        contests.append(new_contest(mapping, None, every, answer, _ANSWER_WEIGHT))
    return Recheck(
        mapping_id=mapping.id,
        certified=certified,
        false_share=false_share,
        claims=list(claims),
        answer=answer,
        judged=[],
        contests=contests,
    )


def claims_of(audit: AuditSummary) -> tuple[list[Claim], float | None]:
    """Return what an audit certifies of single reports, and the balanced accuracy of the answer.

    Of a private fact, the stated limit if it is met, and else the certified bound.
    """
    bounds = {fact.name: fact.bound if audit.limit is None else audit.limit
              for fact in audit.private}  # fmt: skip
    claims = [
        Claim(fact=name, limit=bound)
        for name, bound in bounds.items()
        if bound is not None and bound < 1.0  # nobody gains more: it claims nothing
    ]
    balanced = audit.public.balanced
    return claims, balanced.low if balanced is not None and audit.public.useful else None


def not_judged(found: Recheck, rows: LabelledRows) -> LabelledRows:
    """Note a table, and return its rows after those that are known from when it was shorter.

    A group that has begun is not gone on with: it was a draw already.
    """
    every, total = np.column_stack([rows.codes, rows.public, *rows.private]), len(rows.codes)
    short = (each for each in found.judged if each.rows <= total)
    known = [each.rows for each in short if each.digest == _digest(every[: each.rows])]
    begun = max(known, default=0)
    found.judged = [*found.judged, Judged(rows=total, digest=_digest(every))][-_MOST_TABLES:]
    fresh = np.arange(total) >= begun
    if rows.groups is not None:
        fresh &= ~np.isin(rows.groups, rows.groups[:begun])
    return LabelledRows(
        rows.codes[fresh],
        rows.public[fresh],
        [each[fresh] for each in rows.private],
        None if rows.groups is None else rows.groups[fresh],
        rows.sent,
    )


def judge(found: Recheck, mapping: Mapping, rows: LabelledRows, today: date) -> None:
    """Bet against the claims with some rows, one after the other, until one is withdrawn."""
    attackers = Attackers(mapping)
    for unit in rows.units():
        if found.withdrawn is not None:
            return
        for contest in found.contests:
            admit(contest, found.units, rows, unit)
            hold_sittings(contest, attackers)
        found.rows, found.units = found.rows + len(unit), found.units + 1
        if found.evidence >= 1.0 / found.false_share:
            found.withdrawn = _withdraw(found, mapping, today)
        elif found.noticeable <= RISE:
            found.supported = today
            for contest in found.contests:
                contest.sittings = 0


def _withdraw(found: Recheck, mapping: Mapping, today: date) -> Withdrawal:
    worst = max(found.contests, key=lambda contest: contest.wealth)
    bettor = max(worst.bettors, key=lambda each: each.share * each.wealth)
    beyond = bettor.gains / bettor.sittings
    if worst.fact is None:
        words = (
            f"the answer {shown(mapping.public.name)} had a balanced accuracy of about "
            f"{percent(worst.limit - beyond)} of late, and at least {percent(down(worst.limit))}"
        )
    else:
        words = (
            f"an attacker gained about {points(worst.limit + beyond)} of late on "
            f"{shown(mapping.private[worst.fact].name)}, and at most {at_most(worst.limit)}"
        )
    return Withdrawal(on=today, rows=found.rows, words=f"{words} was claimed")


# --- Files -----------------------------------------------------------------------------------


def load_state(path: Path) -> Recheck:
    """Read the file of a re-check, whatever its mapping is.

    Raises InputError: if it is not sound.
    """
    return load_result(Recheck, path, command="discreet recheck", most=_MOST_BYTES, remedy=_REMEDY)


def load_recheck(path: Path, mapping: Mapping) -> Recheck:
    """Read the file of a re-check of this mapping, to go on with it.

    Raises InputError: if it is not sound, or of another mapping.
    """
    found = load_state(path)
    if found.mapping_id != mapping.id:
        raise InputError(f"{path}: is the re-check of another mapping. Name another file.")
    fresh = begin(mapping, found.claims, found.certified, answer=found.answer)
    waiting = [each for contest in found.contests for rows in contest.waiting for each in rows]
    same = list(map(_shape, found.contests)) == list(map(_shape, fresh.contests))
    if not same or not all(each.fits(mapping) for each in waiting):
        raise InputError(f"{path}: does not fit the mapping. {_REMEDY}")
    return found


def _shape(contest: Contest) -> tuple[Any, ...]:
    bettors = [(each.looks_at, each.share, each.sums.shape) for each in contest.bettors]
    sizes = (len(contest.arrivals), len(contest.waiting))
    return contest.fact, contest.classes, contest.limit, contest.weight, sizes, bettors


# --- The one state ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """What a certificate is worth today: ``state`` is none, valid, due or broken.

    ``until``: the last day on which it counts. ``over``: whether nothing is promised any more, as
    that day has passed, it is withdrawn, or its date is yet to come.
    """

    state: str
    words: str
    until: date | None = None
    over: bool = False


def counted(
    found: Recheck | None, mapping_id: str, certified: date | None, claims: Sequence[Claim]
) -> Recheck | None:
    """Return a re-check if it is one of this certificate, and has tested all that it claims.

    ``claims``: of the certificate. Whoever has tested a looser limit, or some of the facts, has not
    tested the certificate.
    """
    if found is None or found.mapping_id != mapping_id or found.certified != certified:
        return None
    tested = {claim.fact: claim.limit for claim in found.claims}
    covers = all(tested.get(each.fact, math.inf) <= each.limit for each in claims)
    return found if claims and covers and found.rows else None


def standing(
    found: Recheck | None,
    mapping_id: str,
    certified: date | None,
    expires: date | None,
    today: date,
    claims: Sequence[Claim],
) -> Standing:
    """Return the one state that every place shows.

    ``certified``: the date of the certificate in force, None if there is none. ``expires``: when it
    runs out, if it does. ``claims``: what the certificate claims; a re-check of less is none.
    """
    if certified is None:
        return Standing(NONE, "There is no certificate that labelled rows could be held against.")
    if found is not None and found.mapping_id != mapping_id:
        found = None
    if found is not None and found.withdrawn is not None:  # a later audit of it may use old rows
        gone = found.withdrawn
        words = f"Withdrawn on {gone.on} after {gone.rows} labelled rows: {gone.words}."
        return Standing(BROKEN, f"{words} Learn and audit again.", over=True)
    found = counted(found, mapping_id, certified, claims)
    supported = None if found is None else found.supported
    if future := next((day for day in (certified, supported) if day and day > today), None):
        what = "audit" if future == certified else "re-check"
        words = f"The {what} is dated {future}, which is yet to come: a clock is or was wrong."
        return Standing(DUE, f"{words} Set it right and audit again.", over=True)
    until = max(certified, supported or certified) + timedelta(days=DUE_DAYS)
    until = until if expires is None else min(until, expires)
    if expires is not None and today > expires:
        words = f"It ran out on {expires}. Audit again on fresh labelled rows."
        return Standing(DUE, words, until, over=True)
    state, words = _looked_at(found, certified, today)
    if today <= until:
        return Standing(state, words, until)
    return Standing(DUE, f"{words} It counted until {until}.", until, over=True)


def _looked_at(found: Recheck | None, certified: date, today: date) -> tuple[str, str]:
    """Return what labelled rows make of a certificate, whatever its age."""
    if found is None:
        words = f"It is of {certified} and was never re-checked: labelled rows of the site can tell"
        return NONE, f"{words}."
    if found.supported is None:
        some = "1 labelled row shows" if found.rows == 1 else f"{found.rows} labelled rows show"
        words = f"{some} no fault, but would show a rise of {RISE} hardly"
        return DUE, f"{words}. Add more, of every class."
    age = (today - found.supported).days
    if age > DUE_DAYS:
        return DUE, f"The last labelled rows that were enough are {age} days old."
    words = f"{found.rows} labelled rows agree with it, those until {found.supported} enough to "
    return VALID, f"{words}notice a rise of {RISE}."


def _digest(rows: Ints) -> str:
    """Return the digest of rows of integers, in any order."""
    found = distinct_rows(rows)
    digest = hashlib.sha256(b"discreet-codes-1\n")
    digest.update(f"{found.rows.shape[0]} {found.rows.shape[1]}\n".encode())
    digest.update(np.column_stack([found.rows, found.counts]).astype("<i8").tobytes())
    return "sha256:" + digest.hexdigest()


# --- Drift, without labels ------------------------------------------------------------------

FALSE_PER_MONTH = 0.01
REFERENCE_DAYS = 20
_MONTH = 30
_STAKED, _WIDER = 0.7, (1, 2, 4)  # h; a day of a drift may rank behind a few of the days before
_SHRUNK, _LEAST_SPREAD = 0.1, 1e-3  # of the covariance; standard deviation of a share


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


def begin_watch(mapping_id: str) -> DriftWatch:
    """Return a watch that has seen no day."""
    bets = np.empty((len(_WIDER), 0))
    return DriftWatch(mapping_id=mapping_id, reference=[], scores=[], bets=bets)


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
