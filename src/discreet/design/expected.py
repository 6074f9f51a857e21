"""What is asked for, and what rows left out show of it; the words that all methods share.

*What a fusion rule answers on rows that taught it nothing, beside what raw codes would answer.*
Rows that the mapping learned from flatter it. So each row is answered by a rule that was learned
without it, and two others stand beside: naming the most frequent class, and a classifier that sees
the codes themselves.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.data.columns import Labels
from discreet.design.fusion import (
    Aim,
    Fusion,
    add_decision,
    class_shares,
    draw_symbols,
    fusion_rows,
    learn_fusion,
)
from discreet.design.inputs import Settings
from discreet.design.learned_attackers import learn_states
from discreet.design.risks import MAX_OUTPUTS, Tables
from discreet.design.training_rows import Fold, Rows, Sample
from discreet.errors import UninformativeMappingWarning, UnmetRequestWarning
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.parts import Fact
from discreet.rounding import at_least, percent, percents, with_error

# --- Answers on rows left out ---------------------------------------------------------------

# Symbols drawn per row where the outputs are too many to list, and in all.
_DRAWS, _MOST_DRAWN = 20, 40_000
_DRAWN_IN_HASTE = 2  # symbols for each row that a fusion rule is learned from, once time is over
_ROWS_AT_ONCE = 20_000
# Rows that the classifier on codes is learned from, and tried on: fewer where each has many codes.
_TREE_ROWS, _LEAST_TREE_ROWS, _TREE_CODES = 8_000, 3_000, 96_000
_TREES = 120  # of all classes together, and 30 of each at most
_LEAST_OF_CLASS = 100  # of its rows, however many there are of others
_LEAST_ROWS = 0.5  # of a class that does not occur
_LITTLE = 0.2  # of what raw readings gain over guessing
_TWO_SIDED = 1.96  # standard errors of an interval that holds for 95 %


@dataclass(frozen=True)
class Answers:
    """Decisions about rows whose truth is known.

    ``truth``: the class of every row. ``right``: the probability, over the noise of the symbols,
    that it is decided. ``shares``: how often each class is decided.
    """

    truth: Ints
    right: Floats
    shares: Floats

    @property
    def error(self) -> float:
        """The share of wrong decisions."""
        return 1.0 - float(self.right.mean())

    @property
    def balanced_accuracy(self) -> float:
        """The share of right decisions, averaged over the classes."""
        return float(self._by_class().mean())

    @property
    def constant(self) -> bool:
        """Whether one class is decided whatever the symbols are."""
        return is_constant(self.shares)

    def interval(self, groups: Ints | None = None) -> tuple[float, float]:
        """Return where the balanced accuracy lies with a confidence of 95 %.

        Rows of a group may depend on one another. For the spread, each class gets one group more
        that is answered right and one that is answered wrong: a handful of answers that agree
        are no certainty.
        """
        accuracy = self._by_class()
        share = 1.0 / (len(accuracy) * self._counts())
        parts = share[self.truth] * (self.right - accuracy[self.truth])
        sums = parts if groups is None else np.bincount(groups, parts)
        added = (share * self._largest(groups)) ** 2 * (accuracy**2 + (1.0 - accuracy) ** 2)
        half = _TWO_SIDED * float(np.sqrt(np.sum(sums**2) + added.sum()))
        middle = float(accuracy.mean())
        return max(middle - half, 0.0), min(middle + half, 1.0)

    def _largest(self, groups: Ints | None) -> Floats:
        """Return for each class the most rows that one group has of it."""
        found = np.ones(len(self.shares))
        if groups is not None:
            cells, counts = np.unique(groups * len(found) + self.truth, return_counts=True)
            np.maximum.at(found, cells % len(found), counts)
        return found

    def useful(self, groups: Ints | None = None) -> bool:
        """Whether the decisions are surely better than guessing."""
        return is_useful(self.interval(groups)[0], self.shares)

    def _by_class(self) -> Floats:
        counts = self._counts()
        found: Floats = np.bincount(self.truth, self.right, minlength=len(counts)) / counts
        return found

    def _counts(self) -> Ints:
        """Return the rows of each class; one for a class without any, which counts as wrong."""
        return np.maximum(np.bincount(self.truth, minlength=len(self.shares)), 1)


def is_constant(shares: Sequence[float] | Floats) -> bool:
    """Tell whether one class has all decisions, but for rounding."""
    return bool(np.max(shares) >= 1.0 - 1e-9)


def is_useful(low: float, shares: Sequence[float] | Floats) -> bool:
    """Tell whether decisions are good for anything.

    They are if the interval of their balanced accuracy, which begins at ``low``, lies above
    guessing, and they are not always the same.
    """
    return low > 1.0 / len(shares) and not is_constant(shares)


def join(parts: Sequence[Answers]) -> Answers:
    """Return the answers about all rows, part after part."""
    sizes = np.array([len(part.truth) for part in parts])
    return Answers(
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.asarray(sizes @ np.stack([part.shares for part in parts]) / sizes.sum()),
    )


# --- From symbols --------------------------------------------------------------------------


def finish_fusion(
    settings: Settings,
    tables: Tables,
    fusion: Fusion | None,
    known: Sample,
    rng: np.random.Generator,
    most: int | None = None,
) -> Fusion:
    """Return the rule with its decisions, learned from these rows if it is not given.

    ``most``: rows that a score for each symbol is learned from, where outputs are too many to list.
    If they are fewer than usual, so are the symbols drawn for them.
    """
    reg, drawn = settings.reg, None
    if not settings.lists_outputs:  # a score for each symbol takes no more rows than this
        usual = fusion_rows(settings.n_symbols)
        most = most or usual
        drawn = usual if most >= usual else _DRAWN_IN_HASTE * most
        some = known.take(_some(np.arange(len(known.codes)), known.public, rng, most))
        reg, known = reg * len(known.codes) / len(some.codes), some
        # All rows, equal or not, where looking for equal ones would not pay.
        rows = Rows(known.codes, np.arange(len(known.codes)), known.sizes)
    else:
        rows = known.rows()
    if fusion is None:
        fusion = learn_fusion(tables, rows, known.public, settings.kernel, reg, rng, drawn)
    return add_decision(fusion, tables, rows, known.public, settings.aim, rng, drawn)


def answer_unseen(
    fusion: Fusion, tables: Tables, unseen: Sample, rng: np.random.Generator
) -> Answers:
    """Answer rows by a finished rule: exactly where the outputs can be listed."""
    if math.prod([table.shape[1] for table in tables]) <= MAX_OUTPUTS:
        return _answer_listed(fusion, tables, unseen.codes, unseen.public)
    return answer_drawn(fusion, tables, unseen.codes, unseen.public, rng)


def _answer_listed(fusion: Fusion, tables: Tables, codes: Ints, public: Labels) -> Answers:
    """Average Q over all outputs."""
    sizes = [table.shape[1] for table in tables]
    outputs = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    decided = np.eye(public.n_classes)[fusion.choose(fusion.scores(outputs, sizes))]
    right, total = np.empty(len(codes)), np.zeros(public.n_classes)
    for begin in range(0, len(codes), _ROWS_AT_ONCE):
        part = slice(begin, begin + _ROWS_AT_ONCE)
        chosen = output_probabilities(tables, codes[part]) @ decided
        right[part] = chosen[np.arange(len(chosen)), public.index[part]]
        total += chosen.sum(axis=0)
    return Answers(public.index, right, total / len(codes))


def answer_drawn(
    fusion: Fusion, tables: Tables, codes: Ints, public: Labels, rng: np.random.Generator
) -> Answers:
    """Draw symbols for each row, several times where the rows are few."""
    copies = max(1, min(_DRAWS, _MOST_DRAWN // len(codes)))
    sizes = [table.shape[1] for table in tables]
    right, total = np.zeros(len(codes)), np.zeros(public.n_classes)
    for _ in range(copies):
        decided = fusion.choose(fusion.scores(draw_symbols(tables, codes, rng), sizes))
        right += decided == public.index
        total += np.bincount(decided, minlength=public.n_classes)
    return Answers(public.index, right / copies, total / total.sum())


# --- From raw codes ------------------------------------------------------------------------


def tree_rows(n_sensors: int) -> int:
    """Return the most rows that a classifier on codes is learned from, and tried on."""
    return max(_LEAST_TREE_ROWS, min(_TREE_ROWS, _TREE_CODES // n_sensors))


def answer_from_codes(
    sample: Sample, folds: Sequence[Fold], aim: Aim, seed: int, most: int | None = None
) -> Answers:
    """Answer each fold by boosted trees that learned from the codes of at most so many others."""
    rng, most = np.random.default_rng(seed), most or tree_rows(len(sample.sizes))
    parts = []
    for rest, held in folds:
        known, unseen = (
            sample.take(_some(rows, sample.public, rng, most)) for rows in (rest, held)
        )
        parts.append(_answer_codes(known, unseen, aim))
    return join(parts)


def answer_unseen_codes(sample: Sample, known: Ints, unseen: Ints, aim: Aim, seed: int) -> Answers:
    """Answer all of some rows by boosted trees that learned from the codes of others."""
    most = tree_rows(len(sample.sizes))
    some = _some(known, sample.public, np.random.default_rng(seed), most)
    return _answer_codes(sample.take(some), sample.take(unseen), aim)


def _some(index: Ints, public: Labels, rng: np.random.Generator, most: int) -> Ints:
    """Return at most so many of the rows at random, and some of every class."""
    if len(index) <= most:
        return index
    order = rng.permutation(index)
    first = order[:most]
    counts = np.bincount(public.index[first], minlength=public.n_classes)
    for k in np.flatnonzero(counts < _LEAST_OF_CLASS):
        first = np.union1d(first, order[public.index[order] == k][:_LEAST_OF_CLASS])
    return np.sort(first)


def _answer_codes(known: Sample, unseen: Sample, aim: Aim) -> Answers:
    n_classes = known.public.n_classes
    scores = _tree_scores(known.codes, known.public, unseen.codes)
    decided = aim.deciding(class_shares(known.public)).choose(scores)
    shares = np.bincount(decided, minlength=n_classes) / len(decided)
    return Answers(unseen.public.index, (decided == unseen.public.index).astype(float), shares)


def raw_advantage(
    known: Sample,
    unseen: Sample,
    *,
    beyond: bool = False,
    hidden: bool = False,
    most: int | None = None,
) -> float:
    """Return the advantage of boosted trees on the codes, for the fact and classes they do best on.

    ``beyond``: they know the public fact. ``hidden``: mixtures of states learn as well, where
    sensors depend. ``most``: rows that they learn from, and are tried on.
    """
    rng, found = np.random.default_rng(0), 0.0
    most = most or tree_rows(len(known.sizes))
    before, after = (
        np.column_stack([part.codes, part.public.index]) if beyond else part.codes
        for part in (known, unseen)
    )
    sizes = np.array([*known.sizes, known.public.n_classes][: before.shape[1]])
    for fact, held in zip(known.private, unseen.private, strict=True):
        some, tried = (_some(np.arange(len(of.index)), of, rng, most) for of in (fact, held))
        taught = before[some], fact.take(some)
        learned = [_tree_scores(*taught, after[tried])]
        learned += [_state_scores(*taught, after[tried], sizes)] if hidden else []
        for h in range(known.public.n_classes) if beyond else [None]:
            inside = np.flatnonzero((known.public.index == h) | (h is None))
            rows = np.flatnonzero((unseen.public.index[tried] == h) | (h is None))
            shares = np.bincount(fact.index[inside], minlength=fact.n_classes)
            even = np.log(np.maximum(shares, _LEAST_ROWS) / max(len(inside), 1))
            for scores in learned:
                seen = scores[rows] - even
                found = max(found, _score_advantage(seen, held.index[tried[rows]]))
    return found


def _tree_scores(codes: Ints, fact: Labels, unseen: Ints) -> Floats:
    """Return log p(class|codes) of rows, rows by classes, by trees that learned from others."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(
        # Few and quick steps: on census rows as good as the customary hundred, to 0.003.
        max_iter=int(np.clip(_TREES // fact.n_classes, 3, 30)),
        learning_rate=0.3,
        max_leaf_nodes=8,
        min_samples_leaf=int(np.clip(len(codes) // 50, 2, 20)),
        early_stopping=False,
        random_state=0,
    ).fit(codes, fact.index)
    scores = np.full((len(unseen), fact.n_classes), -np.inf)
    with np.errstate(divide="ignore"):
        scores[:, trees.classes_] = np.log(trees.predict_proba(unseen))
    return scores


def _state_scores(codes: Ints, fact: Labels, unseen: Ints, sizes: Ints) -> Floats:
    """Return log p(class|codes) and a constant of each row likewise, by mixtures of states."""
    shares = np.bincount(fact.index, minlength=fact.n_classes) / len(fact.index)
    scores = np.full((len(unseen), fact.n_classes), -np.inf)
    there = np.flatnonzero(shares)
    scores[:, there] = learn_states(codes, fact.index, sizes)(unseen) + np.log(shares[there])
    return scores


def _score_advantage(scores: Floats, index: Ints) -> float:
    """Return by how much the class with the largest score beats guessing: all, and each two."""
    there = np.unique(index)
    found = 0.0
    if not len(there):  # a public class without a row here
        return found
    for classes in [there, *(np.array(pair) for pair in combinations(there, 2))]:
        rows = np.isin(index, classes)
        right = classes[np.argmax(scores[rows][:, classes], axis=1)] == index[rows]
        share = np.mean([right[index[rows] == k].mean() for k in classes])
        found = max(found, float(share) - 1.0 / len(classes))
    return found


# --- What is asked for, and what is expected ------------------------------------------------


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
    hidden (``leak_estimates``), and the model keeps it likewise, or with two fifths of these errors
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


# --- What a fit warns of --------------------------------------------------------------------

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
