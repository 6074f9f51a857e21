"""Attackers that learn from symbols alone, from counting outputs to scikit-learn's classifiers.

Each is a function that learns one ``Lesson`` and returns the scores of the rows it is asked about,
rows by classes; ``by_fold`` makes an attacker of it. The functions named refuse return why an
attacker would be too slow, or an empty text. The models differ in what they can find: single
sensors, pairs of them, one rare symbol, all sensors together. Their settings are fixed: poor
settings make a lower bound lower, but never wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.auditing.attackers.problem import (
    Guesses,
    Problem,
    count_rows,
    normalised,
    one_hot,
    tested_rows,
    thin,
)

# --- Lessons ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lesson:
    """What one fit learns from, and the distinct rows it is asked about."""

    rows: Ints  # distinct rows of symbols
    counts: Floats  # rows by classes
    ask: Ints
    sizes: tuple[int, ...]
    seed: int

    @property
    def weights(self) -> Floats:
        """Rows by classes, each class adding up to 1."""
        return np.asarray(self.counts / self.counts.sum(axis=0))

    def labelled(self) -> tuple[Ints, Ints, Floats]:
        """Return one row per distinct row and class, its class, and its weight.

        Classes weigh the same and weights add up to the number of rows, so that penalties
        keep their meaning.
        """
        place, label = np.nonzero(self.counts)
        scale = self.counts.sum() / self.counts.shape[1]
        return self.rows[place], label, self.weights[place, label] * scale

    def spelled_out(self) -> tuple[Ints, Ints, Floats]:
        """Return the same with equal rows apart, for those who count rows and not weights."""
        place, label = np.nonzero(self.counts)
        times = self.counts[place, label].astype(int)
        sizes = self.counts.sum(axis=0)
        y = np.repeat(label, times)
        return np.repeat(self.rows[place], times, axis=0), y, sizes.mean() / sizes[y]

    def leaf_rows(self, balanced: int) -> int:
        """Return how many rows a leaf must hold, more of them the rarer the rarest class.

        A single row of a rare class weighs as much as many of a common one, and small leaves
        would learn it by heart.
        """
        sizes = self.counts.sum(axis=0)
        return int(min(balanced * sizes.mean() / sizes.min(), sizes.sum() / 10)) or 1


def by_fold(
    fit: Callable[[Lesson], Floats], *, learn: float = 1.0, test: float = 1.0
) -> Callable[[Problem, np.random.Generator], Guesses]:
    """Make an attacker of a function that learns one lesson and scores what it is asked.

    It learns from at most ``learn`` times ``max_rows`` rows, as many of each class, and is
    tested on at most ``test`` times as many.
    """

    def run(problem: Problem, rng: np.random.Generator) -> Guesses:
        cap = learn * problem.max_rows
        tested = tested_rows(problem.fold, problem.fact, test * problem.max_rows, rng)
        scores, most = np.empty((len(tested), problem.n_classes)), 0
        for here, lesson, answers in _lessons(problem, tested, cap, rng):
            scores[here] = fit(lesson)[answers]
            most = max(most, int(lesson.counts.sum()))
        return Guesses(tested, scores, most)

    return run


def _lessons(
    problem: Problem, tested: Ints, cap: float, rng: np.random.Generator
) -> Iterator[tuple[Ints, Lesson, Ints]]:
    """Yield, for each tested fold: its rows among ``tested``, the lesson, and their answers."""
    fold = problem.fold[tested]
    for k in range(1, problem.n_folds):
        taught = thin(np.flatnonzero(problem.fold < k), problem.fact, cap, rng)
        here = np.flatnonzero(fold == k)
        ask, answers = np.unique(problem.place[tested[here]], return_inverse=True)
        rows, counts = count_rows(problem.place[taught], problem.fact[taught], problem.n_classes)
        lesson = Lesson(
            problem.symbols[rows],
            counts,
            problem.symbols[ask],
            problem.sizes,
            int(rng.integers(2**31)),
        )
        yield here, lesson, answers


# --- Models ----------------------------------------------------------------------------------

_MAX_CELLS = 2**20  # outputs beyond which nobody counts them one by one
_MAX_WIDTH = 4_000  # one-hot columns beyond which pairs of sensors are not tabulated
_PAIR_CELLS = 1_000  # one-hot columns spent on pairs of sensors
_TREES = 20
_TREE_COLUMNS = 12  # looked at for a split of a tree in the forest: enough to meet a joint leak
_KERNEL_NUMBERS = 2**21  # of a support vector machine, worked out at once
_NARROW = 128  # one-hot columns up to which a plain matrix product beats a sparse one
_MAX_CATEGORIES = 255  # the most that scikit-learn's boosting takes as categories


def fit_table(lesson: Lesson) -> Floats:
    """Count outputs; one never seen says nothing."""
    unique = distinct_rows(np.concatenate([lesson.rows, lesson.ask]))
    place, seen = unique.inverse, np.zeros((len(unique.rows), lesson.counts.shape[1]))
    seen[place[: len(lesson.rows)]] = lesson.weights
    return normalised(seen[place[len(lesson.rows) :]])


def refuse_table(problem: Problem) -> str:
    """Say that outputs are too many to count, or nothing."""
    many = prod(problem.sizes) > _MAX_CELLS
    return f"there are more than {_MAX_CELLS} outputs to count" if many else ""


def fit_naive_bayes(lesson: Lesson) -> Floats:
    """Multiply what each sensor says, as if they were independent within a class."""
    X, y, w = lesson.labelled()
    model = CategoricalNB(min_categories=list(lesson.sizes), fit_prior=False)
    return np.asarray(model.fit(X, y, w).predict_proba(lesson.ask))


def fit_logistic(lesson: Lesson) -> Floats:
    """Add up what each symbol says."""
    return _fit_linear(lesson, lambda values: one_hot(values, lesson.sizes))


def fit_logistic_pairs(lesson: Lesson) -> Floats:
    """Add the pairs of sensors that say most together beyond what each says alone."""
    pairs = _telling_pairs(lesson)
    sizes = [*lesson.sizes, *(lesson.sizes[t] * lesson.sizes[u] for t, u in pairs)]

    def widened(values: Ints) -> scipy.sparse.csr_array:
        joint = [values[:, t] * lesson.sizes[u] + values[:, u] for t, u in pairs]
        return one_hot(np.column_stack([values, *joint]), sizes)

    return _fit_linear(lesson, widened)


def _fit_linear(lesson: Lesson, columns: Callable[[Ints], scipy.sparse.csr_array]) -> Floats:
    X, y, w = lesson.labelled()
    model = LogisticRegression(max_iter=100, tol=1e-3)
    with warnings.catch_warnings():
        # Stopped early it is an attacker like any other; its score is measured all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(columns(X), y, sample_weight=w)
    return np.asarray(model.predict_proba(columns(lesson.ask)))


def _pair_shares(lesson: Lesson) -> tuple[Floats, Floats]:
    """Return, class by class, how often each two symbols meet, and each cell's chi-square."""
    hot = one_hot(lesson.rows, lesson.sizes)
    shares = np.stack([(hot.T @ (hot * w[:, None])).toarray() for w in lesson.weights.T])
    mean = shares.mean(axis=0)
    off = np.square(shares - mean).sum(axis=0)
    return shares, np.divide(off, mean, where=mean > 0, out=np.zeros_like(mean))


def fit_telltale(lesson: Lesson) -> Floats:
    """Look for the one symbol, or two symbols together, that tells most, and at nothing else.

    Where only a rare symbol leaks, the others toss a coin on all other rows, and the leak
    drowns in that noise.
    """
    shares, cells = _pair_shares(lesson)
    a, b = np.unravel_index(cells.argmax(), cells.shape)
    hot = one_hot(lesson.ask, lesson.sizes)
    met = (hot[:, [a]] * hot[:, [b]]).toarray()
    share = np.clip(shares[:, a, b], 0.0, 1.0)
    return normalised(np.where(met > 0, share, 1.0 - share))


def _telling_pairs(lesson: Lesson) -> list[tuple[int, int]]:
    """Rank pairs by chi-square of the pair minus that of its two sensors, per degree of freedom."""
    _, cells = _pair_shares(lesson)
    edges = np.concatenate([[0], np.cumsum(lesson.sizes)])[:-1]
    totals = np.add.reduceat(np.add.reduceat(cells, edges, axis=0), edges, axis=1)
    alone = np.diag(totals)
    t, u = np.triu_indices(len(lesson.sizes), k=1)
    size = np.asarray(lesson.sizes)
    freedom = np.maximum((size[t] - 1) * (size[u] - 1), 1)
    order = np.argsort(-(totals[t, u] - alone[t] - alone[u]) / freedom, kind="stable")
    spent = np.cumsum((size[t] * size[u])[order])
    chosen = order[: max(1, int((spent <= _PAIR_CELLS).sum()))]
    return [(int(t[i]), int(u[i])) for i in chosen]


def refuse_wide(problem: Problem) -> str:
    """Say that symbols are too many to count in pairs, or nothing."""
    width = sum(problem.sizes)
    if width <= _MAX_WIDTH:
        return ""
    return f"{width} symbols in all; pairs of them are counted up to {_MAX_WIDTH}"


def refuse_pairs(problem: Problem) -> str:
    """Say why there are no pairs to count, or nothing."""
    return "there is only one sensor" if len(problem.sizes) < 2 else refuse_wide(problem)


def _split_hot(values: Ints, sizes: Sequence[int]) -> NDArray[np.float32]:
    """Return one-hot columns for trees, to which two symbols are one column, and one is none."""
    columns = [
        values[:, t] == symbol for t, size in enumerate(sizes) for symbol in range(size == 2, size)
    ]
    return np.stack(columns).astype(np.float32).T  # trees read column by column


def fit_forest(lesson: Lesson) -> Floats:
    """Let trees vote that each look at a few symbols, in leaves that hold several rows.

    Every tree sees its own draw of the rows, with replacement. For trees this small
    scikit-learn's forest spends more on setting up than on growing them, and its classifiers on
    looking at the classes: squared errors of one column per class make the splits of Gini's
    index, and leaves that hold the shares of the classes.
    """
    X, y, w = lesson.spelled_out()
    columns, ask = (_split_hot(values, lesson.sizes) for values in (X, lesson.ask))
    rng = np.random.default_rng(lesson.seed)
    of_class = np.eye(lesson.counts.shape[1])[y, 1:]  # the shares add up to one
    votes = np.zeros((len(ask), of_class.shape[1]))
    for _ in range(_TREES):
        drawn = np.bincount(rng.integers(len(y), size=len(y)), minlength=len(y))
        tree = DecisionTreeRegressor(
            min_samples_leaf=lesson.leaf_rows(5),
            max_features=min(columns.shape[1] // 2 + 1, _TREE_COLUMNS),
            random_state=int(rng.integers(2**31)),
        )
        tree.fit(columns, of_class, w * drawn, check_input=False)
        votes += tree.predict(ask, check_input=False).reshape(votes.shape)
    votes /= _TREES
    return np.column_stack([1.0 - votes.sum(axis=1), votes])


def fit_boosting(lesson: Lesson) -> Floats:
    """Add up small trees, each making up for what those before it missed.

    Larger trees learn noise by heart where little leaks, and take twice as long.
    """
    X, y, w = lesson.spelled_out()
    model = HistGradientBoostingClassifier(
        max_iter=30,
        learning_rate=0.25,
        max_leaf_nodes=12,
        min_samples_leaf=lesson.leaf_rows(20),
        early_stopping=False,
        categorical_features=[2 < size <= _MAX_CATEGORIES for size in lesson.sizes],
        random_state=lesson.seed,
    )
    return np.asarray(model.fit(X, y, w).predict_proba(lesson.ask))


def fit_neighbours(lesson: Lesson) -> Floats:
    """Ask the rows with the most equal symbols."""
    X, y, _ = lesson.spelled_out()
    model = KNeighborsClassifier(min(25, len(X)), algorithm="brute", n_jobs=1)
    model.fit(_dense(X, lesson.sizes), y)
    votes = model.predict_proba(_dense(lesson.ask, lesson.sizes))
    return normalised(votes / lesson.counts.sum(axis=0))  # weighed here, as the fit cannot


def fit_svm(lesson: Lesson) -> Floats:
    """Separate classes by how alike rows are to some of the rows learned from."""
    X, y, w = lesson.labelled()
    model = SVC(kernel="precomputed", cache_size=100).fit(_alike(X, X, lesson.sizes), y, w)
    step = max(1, _KERNEL_NUMBERS // len(X))
    blocks = [lesson.ask[start : start + step] for start in range(0, len(lesson.ask), step)]
    margin = np.concatenate(
        [model.decision_function(_alike(block, X, lesson.sizes)) for block in blocks]
    )
    if margin.ndim == 1:
        margin = np.stack([-margin, margin], axis=1)
    return np.asarray(softmax(margin, axis=1))


def _alike(rows: Ints, others: Ints, sizes: Sequence[int]) -> Floats:
    """Return the Gaussian kernel of one-hot rows, with scikit-learn's usual width.

    The squared distance of two rows is twice the number of sensors that differ, so the kernel
    has few values, and those are looked up.
    """
    sensors, width = len(sizes), sum(sizes)
    # One over width times variance; a share of sensors/width of the one-hot numbers are ones.
    gamma = width / (sensors * (width - sensors)) if width > sensors else 1.0
    if width <= _NARROW:
        # Small whole numbers are exact in single precision.
        hot, other = (_dense(each, sizes).astype(np.float32) for each in (rows, others))
        equal = (hot @ other.T).astype(np.intp)
    else:
        equal = (one_hot(rows, sizes) @ _dense(others, sizes).T).astype(np.intp)
    values: Floats = np.exp(-2.0 * gamma * (sensors - np.arange(sensors + 1)))
    return values[equal]


def _dense(values: Ints, sizes: Sequence[int]) -> Floats:
    return np.asarray(one_hot(values, sizes).toarray())
