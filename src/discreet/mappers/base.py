"""The one way through ``fit`` that all mappers share: readings and labels in, a mapping out.

Checks, codes, the search for a level, the design, the fusion rule, the mapping and what may
be expected of it, in this order. ``mappers`` holds the estimators made of it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

import discreet
from discreet.arrays import Ints
from discreet.choices import LOSSES
from discreet.data.fit_encoders import fit_sensors
from discreet.data.table_warnings import same_facts
from discreet.design.answers import answer_drawn
from discreet.design.attacker_views import lists_all
from discreet.design.counts.blocks import sensors_depend
from discreet.design.counts.counting import (
    SAMPLED_ROWS,
    Part,
    Plan,
    Run,
    add_up,
    in_turn,
    sample_index,
)
from discreet.design.expected import Request
from discreet.design.feasible import mix_to_epsilon, structural_epsilon
from discreet.design.fit_warnings import warn_unmet, warn_useless
from discreet.design.fusion import aim_for, check_decide
from discreet.design.inputs import (
    Coded,
    Settings,
    Target,
    check_choice,
    check_count,
    check_kernel,
    check_number,
    check_readings,
    code_sample,
    epsilon_each,
    fill_unseen,
    group_index,
    private_facts,
    structural_limit,
    symbol_counts,
)
from discreet.design.kernels import Kernel
from discreet.design.left_out import leave_out
from discreet.design.levels import Found, LevelSearch
from discreet.design.problem import (
    Designer,
    RiskDesign,
    design_sample,
    risk_levels,
)
from discreet.design.risks import MAX_OUTPUTS
from discreet.design.training_rows import Sample
from discreet.errors import (
    BlindKernelWarning,
    InputError,
    Parameter,
    SharedEpsilonWarning,
    TableWarning,
)
from discreet.mapping.mapping import Mapping, now
from discreet.mapping.parts import Design, Fact, Source
from discreet.progress import Report

# --- A fitted mapper ------------------------------------------------------------------------


class UsesMapping(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Draws symbols, decides on them, and describes itself."""

    mapping_: Mapping
    classes_: NDArray[Any]
    _names_in: list[str]
    random_state: int | np.random.RandomState | None

    def transform(self, X: pd.DataFrame | ArrayLike) -> Ints:
        """Draw the symbols that the sensors would send, n_rows by n_sensors.

        Without ``random_state`` they come from the system's cryptographic source and
        differ from call to call. With one they are repeatable, for experiments only.
        """
        check_is_fitted(self, "mapping_")
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
            # By name: the mapping may have left some of them out.
            X = pd.DataFrame(np.asarray(X), columns=self._names_in)
        return self.mapping_.transform(X, self._symbol_source())

    def fuse(self, Z: ArrayLike) -> NDArray[Any]:
        """Return the public class that each row of symbols speaks for."""
        check_is_fitted(self, "mapping_")
        places = {cls: i for i, cls in enumerate(self.mapping_.public.classes)}
        index = [places[cls] for cls in self.mapping_.fuse(Z).tolist()]
        return np.asarray(self.classes_[np.array(index, dtype=np.int64)])

    def predict(self, X: pd.DataFrame | ArrayLike) -> NDArray[Any]:
        """Return ``fuse(transform(X))``: what the fusion centre would answer."""
        return self.fuse(self.transform(X))

    def predict_proba(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each public class given symbols drawn for X."""
        symbols = self.transform(X)
        return self.mapping_.posterior(symbols)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the sensors."""
        check_is_fitted(self, "mapping_")
        return np.asarray(self.mapping_.names, dtype=object)

    def _symbol_source(self) -> np.random.Generator | None:
        if self.random_state is None:
            return None
        state = check_random_state(self.random_state)
        state.randint(2**31)  # what the learning took, and the mapping file tells
        return np.random.default_rng(state.randint(2**31))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # sending the same symbol twice would defeat the purpose
        tags.transformer_tags.preserves_dtype = []  # symbols are integers, whatever came in
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


# --- The fit --------------------------------------------------------------------------------

DEFAULT_RATIO = 0.998
# Regularisers, times 1 / n_rows; measured in docs/decisions/0001-risks-and-defaults.md.
_PUBLIC_REG, _PRIVATE_REG = 0.3, 0.1
_MOST_FOLDS = 100  # each has a design of its own at every level
_TAUGHT_ROWS = 20_000  # of those learned from, that answers are tried on
MOST_ROWS = 20_000
"""Most rows that risks are computed on; a design from counts takes any number."""


class PrivacyMapper(UsesMapping):
    """Base of the mappers; use one of its subclasses."""

    _method: str
    _normalised = True
    _constrained = True
    most_rows: int | None = MOST_ROWS
    _advice = (
        "Allow more leak, give more rows, or add sensors that depend less on the private fact."
    )

    def __init__(
        self,
        n_symbols: int | Sequence[int] | Dict[str, int] = 2,
        *,
        kernel: str | Kernel = "product",
        loss: str = "logistic",
        privacy_ratio: float | None = None,
        max_advantage: float | None = None,
        epsilon: float | None = None,
        ldp_epsilon: float | None = None,
        reg: float | None = None,
        private_reg: float | None = None,
        relaxed: bool = True,
        pairs: str = "all",
        solver: str = "fast",
        n_restarts: int = 4,
        binning: str | Dict[str, str] = "merged",
        n_bins: int | Dict[str, int] = 10,
        n_folds: int = 5,
        decide: str | Dict[Any, float] = "balanced",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_symbols = n_symbols
        self.kernel = kernel
        self.loss = loss
        self.privacy_ratio = privacy_ratio
        self.max_advantage = max_advantage
        self.epsilon = epsilon
        self.ldp_epsilon = ldp_epsilon
        self.reg = reg
        self.private_reg = private_reg
        self.relaxed = relaxed
        self.pairs = pairs
        self.solver = solver
        self.n_restarts = n_restarts
        self.binning = binning
        self.n_bins = n_bins
        self.n_folds = n_folds
        self.decide = decide
        self.random_state = random_state

    # -- learning -----------------------------------------------------------------

    def fit(
        self,
        X: pd.DataFrame | ArrayLike,
        y: ArrayLike,
        *,
        private: pd.Series[Any] | pd.DataFrame | ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn one table for each sensor.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_sensors)
            Readings, one column per sensor; strings and missing values are welcome.
        y : array of shape (n_rows,)
            The public fact.
        private : Series, DataFrame or array, required
            The private fact, or one column for each of several.
        groups : array of shape (n_rows,), optional
            Rows of one group (a day, a household) stay in one fold of the search for
            a privacy level. Give it for time series.

        Notes
        -----
        Whether rows depend on one another is not checked here: ``expected_``, and its ``met``,
        take rows as independent, or groups where they are given, and are too good where they are
        not. ``discreet learn`` does check it and calls no limit met then; ``audit`` and
        ``frontier`` certify nothing from such rows.
        """
        return self.fit_reporting(X, y, private, groups=groups)

    def fit_reporting(
        self,
        X: pd.DataFrame | ArrayLike,
        y: ArrayLike,
        private: pd.Series[Any] | pd.DataFrame | ArrayLike | None,
        *,
        groups: ArrayLike | None = None,
        source: Source | None = None,
        report: Report | None = None,
        run: Run = in_turn,
    ) -> Self:
        """Do what ``fit`` does, record ``source``, and tell ``report``, which may ask to stop.

        ``run`` goes over the rows, here or on a cluster.
        """
        self._check_parameters()
        table, public = check_readings(self, X, y)
        self.check_row_count(len(table))
        facts = [public, *private_facts(private, len(table))]
        for each in same_facts(public, facts[1:]):
            warnings.warn(each, TableWarning, stacklevel=3)
        n_rows = len(table)
        numbers = sample_index(n_rows, SAMPLED_ROWS)
        rows = table if len(numbers) == n_rows else table.iloc[numbers].reset_index(drop=True)
        known = [fact.take(numbers) for fact in facts]
        sensors = fit_sensors(rows, strategy=self.binning, n_bins=self.n_bins, facts=known)
        plan = Plan(tuple(sensors), tuple(fact.n_classes for fact in facts))
        whole = Part(table, 0, np.ones(n_rows, dtype=bool), 0, tuple(fact.index for fact in facts))
        passed = add_up(plan, run(plan, [whole]))
        training = passed.training.unordered
        if source is None:  # an audit on these very rows must be able to tell
            source = Source(digest=training, rows=n_rows)
        source = source.model_copy(update={"training": training})
        index = group_index(groups, n_rows)
        index = None if index is None else index[numbers]
        coded = code_sample(sensors, rows, known, numbers, index, passed.counts, source)
        self.fit_coded(coded, report=report, names=[str(name) for name in table.columns])
        self.classes_ = np.asarray(public.classes)
        return self

    def fit_coded(
        self, coded: Coded, *, report: Report | None = None, names: list[str] | None = None
    ) -> Self:
        """Learn from rows that are codes already, and tell ``report``, which may ask to stop.

        ``names``: all columns of readings, where scikit-learn has been told of them.
        """
        if names is None:
            self._check_parameters()
            names = coded.names
            self.feature_names_in_ = np.asarray(names, dtype=object)
            self.n_features_in_ = len(names)
        self._names_in = names
        # One thread: sums then come in one order, and a seed gives one mapping anywhere.
        with threadpool_limits(limits=1):
            seed = int(check_random_state(self.random_state).randint(2**31))
            self.check_row_count(coded.n_rows)
            settings = self._settings(coded)
            check_reachable(self.max_advantage, coded.facts[1:])
            search = self._search(settings, coded, np.random.default_rng(seed), report)
            levels, request = self._levels(search, settings)
            found = search.find(levels, request) if request else search.take(levels[0])
            if coded.doubted and found.expected is not None:
                found = replace(found, expected=found.expected.of_doubted_rows())
            self._keep(found, search)
            self.mapping_ = self._bind(found, settings, seed, coded)
            self.structural_epsilon_ = float(sum(map(structural_epsilon, self.mapping_.tables)))
            self._judge(coded.sample, coded.groups)
        self.classes_ = np.asarray(coded.facts[0].classes)
        return self

    def _search(
        self, settings: Settings, coded: Coded, rng: np.random.Generator, report: Report | None
    ) -> LevelSearch:
        """Return what designs at any level, and tries designs on rows left out."""
        n_folds = 2 if (self.max_advantage, self.epsilon) == (None, None) else self.n_folds
        parts = leave_out(coded.sample, coded.groups, rng, n_folds=n_folds)
        design = RiskDesign(settings, coded, self._designer)
        hidden = not looks_at_all(settings, coded.sample) and sensors_depend(coded.sample)
        return LevelSearch(
            settings, coded.sample, coded.groups, parts, design, rng, hidden=hidden, report=report
        )

    def _levels(
        self, search: LevelSearch, settings: Settings
    ) -> tuple[list[Target], Request | None]:
        """Return levels that rise in strictness, and what to search among them for, if anything."""
        if not self._constrained:
            return [Target(None)], None
        if (self.max_advantage, self.epsilon) == (None, None):
            return [Target(self.privacy_ratio or DEFAULT_RATIO)], None
        levels = risk_levels(settings, self.max_advantage is not None, self.epsilon)
        if len(levels) == 1:
            return levels, None  # structural, holds by construction
        return levels, Request(self.max_advantage, self.epsilon)

    @property
    def _designer(self) -> Designer:
        """How tables come about: one thing for the final design and for the folds."""
        return design_sample

    @property
    def _asked_advantage(self) -> float | None:
        """What is asked for, said or not."""
        return self.max_advantage

    def _keep(self, found: Found, search: LevelSearch) -> None:
        designed = found.designed
        self.privacy_ratio_ = found.target.ratio
        self.public_risk_ = designed.public_risk
        self.private_risk_, self.threshold_ = np.inf, -np.inf
        if len(designed.floors):  # the head nearest to its floor speaks for all
            k = int(np.argmin(designed.private_risks - designed.floors))
            self.private_risk_ = float(designed.private_risks[k])
            self.threshold_ = float(designed.floors[k])
        self.n_evaluations_ = designed.evaluations
        self.stopped_ = designed.stopped
        self.expected_ = found.expected

    def _bind(self, found: Found, settings: Settings, seed: int, coded: Coded) -> Mapping:
        """Fill rows of codes never seen, keep a limit that holds by construction, and bind."""
        designed, limit = found.designed, structural_limit(settings, found.target)
        tables = list(map(fill_unseen, designed.tables, coded.counted.totals, coded.encoders))
        if limit is not None:
            tables = [mix_to_epsilon(table, limit) for table in tables]
        assert designed.fusion is not None
        return Mapping.create(
            names=coded.names,
            encoders=coded.encoders,
            tables=tables,
            public=coded.facts[0],
            private=coded.facts[1:],
            fusion=designed.fusion,
            design=self._describe(settings, found.target, seed, coded),
        )

    def _judge(self, sample: Sample, groups: Ints | None) -> None:
        """Decide whether the answers are good for anything, and say so if they are not."""
        expected, mapping = self.expected_, self.mapping_
        # Of rows in groups, more groups are what helps.
        advice = (
            self._advice if groups is None else self._advice.replace("more rows", "more groups")
        )
        # With one part left out, its rows tried the very mapping.
        self.useful_ = expected is not None and expected.useful and expected.folds == 1
        if not self.useful_:
            some = sample_index(len(sample.codes), _TAUGHT_ROWS)
            own, rows = None if groups is None else groups[some], sample.take(some)
            rng = np.random.default_rng(0)
            taught = answer_drawn(mapping.fusion, mapping.tables, rows.codes, rows.public, rng)
            # Too few rows to leave some out, or no time: those it learned from flatter it.
            useful = taught.useful(own) if expected is None else expected.useful
            self.useful_ = useful and not taught.constant
        if not self.useful_:
            warn_useless(mapping.public, expected, taught, taught.interval(own), advice)
        if expected is not None and expected.shortfall is not None and not expected.silent:
            asked = {"advantage": self._asked_advantage, "epsilon": self.epsilon}
            stated = (self.max_advantage, self.epsilon) != (None, None)
            warn_unmet(expected, asked, advice, stated=stated)

    # -- checks and descriptions --------------------------------------------------

    def _check_parameters(self) -> None:
        asked = [self.privacy_ratio is not None, self.max_advantage is not None]
        if all(asked) or (self.privacy_ratio is not None and self.epsilon is not None):
            raise InputError(
                "privacy_ratio was given together with max_advantage or epsilon, which search for "
                "the ratio themselves. Give one or the other."
            )
        check_number("privacy_ratio", self.privacy_ratio, 0.0, 1.0, "strictly between 0 and 1")
        check_number("max_advantage", self.max_advantage, 0.0, 1.0, "strictly between 0 and 1")
        check_number("epsilon", self.epsilon, 0.0, np.inf, "greater than 0")
        check_number("ldp_epsilon", self.ldp_epsilon, 0.0, np.inf, "greater than 0")
        check_number("reg", self.reg, 0.0, np.inf, "greater than 0")
        check_number("private_reg", self.private_reg, 0.0, np.inf, "greater than 0")
        check_count("n_restarts", self.n_restarts, 1)
        check_count("n_folds", self.n_folds, 2, _MOST_FOLDS)
        check_choice("loss", self.loss, LOSSES)
        check_choice("solver", self.solver, ("fast", "gauss-seidel", "thorough"))
        check_choice("pairs", self.pairs, ("all", "reference"))
        check_kernel(self.kernel)
        check_decide(self.decide)
        try:
            check_random_state(self.random_state)
        except ValueError:
            raise InputError(
                "random_state must be None, a whole number or a numpy.random.RandomState, got "
                f"{self.random_state!r}."
            ) from None
        self._check_solver()
        if not isinstance(self.relaxed, bool | np.bool_):
            raise InputError(f"relaxed must be True or False, got {self.relaxed!r}.")

    @classmethod
    def check_row_count(cls, n_rows: int) -> None:
        """Refuse more rows to learn from than the method is for."""
        if cls.most_rows is not None and n_rows > cls.most_rows:
            raise InputError(
                f"the method {cls._method!r} is for at most {cls.most_rows} rows to learn from; "
                f"there are {n_rows}. Use Mapper (--method auto), which takes any number, or give "
                "fewer rows."
            )

    def _check_solver(self) -> None:
        """Refuse what the paper's algorithms do not know, before any work is done."""
        if self.solver == "fast":
            return
        unknown = [
            name
            for name in ("max_advantage", "epsilon", "ldp_epsilon")
            if getattr(self, name) is not None
        ]
        if not self.relaxed:
            unknown.append("relaxed=False")
        if not self._constrained:
            unknown.append("a design without a floor")
        if unknown:
            raise InputError(
                f"solver={self.solver!r} runs the paper's algorithms, which keep the relaxed "
                f"private risk above a floor and do not know {unknown[0]}. Use solver='fast'."
            )

    def _settings(self, coded: Coded) -> Settings:
        kernel, names, n_rows = check_kernel(self.kernel), coded.names, len(coded.sample.codes)
        if self._constrained and kernel.reach(len(names)) < len(names):
            warnings.warn(_blind(kernel, len(names)), BlindKernelWarning, stacklevel=6)
        given = symbol_counts(self.n_symbols, self._names_in)
        counts = dict(zip(self._names_in, given, strict=True))  # of some, no sensor is left
        n_symbols = tuple(counts[name] for name in names)
        share = epsilon_each(n_symbols, self.epsilon)
        if share is not None and (self.ldp_epsilon is None or share < self.ldp_epsilon):
            said = _shared(self.epsilon, share, len(names))
            warnings.warn(SharedEpsilonWarning(*said), stacklevel=6)
        return Settings(
            n_symbols=n_symbols,
            kernel=kernel,
            loss=LOSSES[self.loss],
            reg=_PUBLIC_REG / n_rows if self.reg is None else self.reg,
            private_reg=_PRIVATE_REG / n_rows if self.private_reg is None else self.private_reg,
            relaxed=bool(self.relaxed),
            pairs=self.pairs,
            normalised=self._normalised,
            constrained=self._constrained,
            solver=self.solver,
            n_restarts=self.n_restarts,
            ldp_epsilon=self.ldp_epsilon,
            aim=aim_for(self.decide, coded.facts[0]),
        )

    def _describe(self, settings: Settings, target: Target, seed: int, coded: Coded) -> Design:
        parameters: dict[str, Any] = {
            "kernel": repr(settings.kernel),
            "loss": self.loss,
            "reg": float(settings.reg),
            "private_reg": float(settings.private_reg),
            "relaxed": settings.relaxed,
            "solver": self.solver,
            "n_restarts": self.n_restarts,
            "seed": seed,
            "stopped": self.stopped_,
        }
        if len(coded.sample.codes) < coded.n_rows:
            parameters["sampled_rows"] = len(coded.sample.codes)
        if self._constrained:
            parameters |= {
                "pairs": self.pairs,
                "privacy_ratio": target.ratio,
                "max_advantage": self._asked_advantage,
                "epsilon": self.epsilon,
                "design_epsilon": target.epsilon,
                "threshold": float(self.threshold_) if np.isfinite(self.threshold_) else None,
                "ldp_epsilon": self.ldp_epsilon,
            }
        return Design(
            method=self._method,
            parameters=parameters,
            rows=coded.n_rows,
            created=now(),
            discreet=discreet.__version__,
            source=coded.source,
            expected=None if self.expected_ is None else self.expected_.as_dict(),
        )


def looks_at_all(settings: Settings, sample: Sample) -> bool:
    """Tell whether outputs are so few that all are looked at: then no dependence is hidden."""
    return lists_all(math.prod(map(float, settings.n_symbols)), len(sample.codes))


def _shared(epsilon: float | None, share: float, n_sensors: int) -> list[str]:
    """Say that every sensor gets a part of epsilon only, and what would help."""
    asked = Parameter("epsilon")
    return [
        asked, f" {epsilon:g} is shared out among the {n_sensors} sensors, {share:.3g} each: "
        f"together they have more outputs than the {MAX_OUTPUTS} that can be bounded one by one. "
        "It then holds by construction, for any fact, and leaves far less of the answer. What "
        "helps: fewer ", Parameter("sensors"), ", ", Parameter("max_advantage"),
        " instead, or a larger ", asked, ".",
    ]  # fmt: skip


def _blind(kernel: Kernel, n_sensors: int) -> str:
    """Say what a kernel that does not look at all sensors together cannot see."""
    reach = kernel.reach(n_sensors)
    view = "each sensor by itself" if reach == 1 else f"at most {reach} sensors together"
    return (
        f"The {kernel.name!r} kernel looks at {view}, of {n_sensors}: a secret that shows only in "
        "a larger combination is invisible to it and may leak in full. The 'product' kernel looks "
        "at all of them."
    )


def check_reachable(limit: float | None, private: Sequence[Fact]) -> None:
    """Refuse a limit that no attacker can exceed."""
    fact = max(private, key=lambda each: len(each.classes))
    most = 1.0 - 1.0 / len(fact.classes)
    if limit is not None and limit >= most:
        raise InputError(
            Parameter("max_advantage"),
            f" {limit:g} limits nothing: guessing {fact.name!r}, of "
            f"{len(fact.classes)} classes, can be beaten by {most:.3g} at most. Ask for less, "
            "such as 0.05.",
        )
