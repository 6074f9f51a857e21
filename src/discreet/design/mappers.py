"""The estimators: readings and labels in, a mapping out, by scikit-learn's conventions.

``NPOMapper`` keeps the normalised private risk above a floor, ``BayesErrorMapper`` the
older Bayes-error risk, ``NDDMapper`` nothing at all: it is what privacy is paid against.
All three share one way through ``fit``; they differ in a few settings.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from threadpoolctl import threadpool_limits

import discreet
from discreet.codes import encode_table
from discreet.design.calibration import Expected, Request, Sample, calibrate
from discreet.design.feasible import structural_epsilon, uniform_tables
from discreet.design.fusion import learn_fusion
from discreet.design.heads import Labels, Rows
from discreet.design.inputs import (
    LabelColumn,
    array_names,
    check_choice,
    check_count,
    check_number,
    group_index,
    label_column,
    private_facts,
    symbol_counts,
)
from discreet.design.kernels import KERNELS, Kernel
from discreet.design.losses import LOSSES
from discreet.design.problem import Settings, Target, design_tables
from discreet.design.results import Designed, Report
from discreet.design.risks import MAX_OUTPUTS, count_outputs
from discreet.design.unseen import fill_unseen
from discreet.errors import (
    CountKernelWarning,
    InputError,
    UninformativeMappingWarning,
)
from discreet.exact import balanced_accuracy
from discreet.fit_codes import fit_encoders
from discreet.mapping import Mapping, now
from discreet.mapping_parts import Design, Source
from discreet.outputs import output_probabilities

Ints = NDArray[np.int64]

DEFAULT_RATIO = 0.998
# Regularisers, times 1 / n_rows; measured in docs/decisions/0001-risks-and-defaults.md.
_PUBLIC_REG, _PRIVATE_REG = 0.3, 0.1
USEFUL_ADVANTAGE = 0.05
"""Balanced accuracy above guessing below which a mapping counts as saying nothing."""


class PrivacyMapper(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Base of the mappers; use one of its subclasses."""

    _method: str
    _normalised = True
    _constrained = True

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
        binning: str | Dict[str, str] = "quantile",
        n_bins: int | Dict[str, int] = 10,
        n_folds: int = 5,
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
    ) -> Self:
        """Do what ``fit`` does, record ``source``, and tell ``report``, which may ask to stop."""
        self._check_parameters()
        table, public = self._check_readings(X, y)
        facts = private_facts(private, len(table))
        # One thread: sums then come in one order, and a seed gives one mapping anywhere.
        with threadpool_limits(limits=1):
            self._learn(table, public, facts, group_index(groups, len(table)), source, report)
        self.classes_ = public.classes
        return self

    def _learn(
        self,
        table: pd.DataFrame,
        public: LabelColumn,
        facts: list[LabelColumn],
        groups: Ints | None,
        source: Source | None,
        report: Report | None,
    ) -> None:
        described = [fact.describe() for fact in (public, *facts)]  # refuses before the work
        seed = int(check_random_state(self.random_state).randint(2**31))
        rng = np.random.default_rng(seed)
        names = [str(name) for name in table.columns]
        encoders = fit_encoders(
            table, strategy=self.binning, n_bins=self.n_bins, public=public.index
        )
        codes = encode_table(table, list(zip(names, encoders, strict=True)))
        sizes = tuple(encoder.n_codes for encoder in encoders)
        private = tuple(fact.labels() for fact in facts)
        sample = Sample(codes, sizes, public.labels(), private)
        settings = self._settings(names, len(table))
        target, expected = self._find_target(settings, sample, groups, rng, report)
        rows = sample.rows()
        designed = self._design(settings, sample, rows, target, expected, rng, report)
        counts = [
            np.bincount(codes[:, t], minlength=size).astype(float) for t, size in enumerate(sizes)
        ]
        tables = [
            fill_unseen(q, count, encoder)
            for q, count, encoder in zip(designed.tables, counts, encoders, strict=True)
        ]
        fusion = learn_fusion(tables, rows, sample.public, settings.kernel, settings.reg, rng)
        self._keep(designed, target, expected)
        self.mapping_ = Mapping.create(
            names=names,
            encoders=encoders,
            tables=tables,
            public=described[0],
            private=described[1:],
            fusion=fusion,
            design=self._describe(settings, target, seed, len(table), source),
        )
        self.structural_epsilon_ = float(
            sum(structural_epsilon(table) for table in self.mapping_.tables)
        )
        self._judge(rows, sample.public)

    def _find_target(
        self,
        settings: Settings,
        sample: Sample,
        groups: Ints | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> tuple[Target, Expected | None]:
        if not self._constrained:
            return Target(None), None
        if self.max_advantage is None and self.epsilon is None:
            ratio = DEFAULT_RATIO if self.privacy_ratio is None else self.privacy_ratio
            return Target(ratio), None
        request = Request(self.max_advantage, self.epsilon)
        return calibrate(
            settings,
            sample,
            request,
            n_folds=self.n_folds,
            groups=groups,
            rng=rng,
            report=report,
        )

    def _design(
        self,
        settings: Settings,
        sample: Sample,
        rows: Rows,
        target: Target,
        expected: Expected | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> Designed:
        if expected is not None and not expected.met:  # nothing may be said
            silent = uniform_tables(sample.sizes, settings.n_symbols)
            return Designed(silent, float("nan"), np.empty(0), np.empty(0))
        return design_tables(
            settings, rows, sample.public, sample.private, target, rng=rng, report=report
        )

    def _keep(self, designed: Designed, target: Target, expected: Expected | None) -> None:
        self.privacy_ratio_ = target.ratio
        self.public_risk_ = designed.public_risk
        self.private_risk_, self.threshold_ = np.inf, -np.inf
        if len(designed.floors):  # the head nearest to its floor speaks for all
            k = int(np.argmin(designed.private_risks - designed.floors))
            self.private_risk_ = float(designed.private_risks[k])
            self.threshold_ = float(designed.floors[k])
        self.n_evaluations_ = designed.evaluations
        self.stopped_ = designed.stopped
        self.expected_ = expected

    def _judge(self, rows: Rows, public: Labels) -> None:
        """Decide whether the symbols say anything about the public fact, and say so."""
        if self.expected_ is not None:
            gain = self.expected_.public_advantage
        else:
            gain = _public_advantage(self.mapping_, rows, public)
        self.useful_ = bool(gain >= USEFUL_ADVANTAGE)
        if self.useful_:
            return
        reason = "At the privacy asked for"
        if self.expected_ is not None and not self.expected_.met:
            reason = "No level of strictness kept what was asked on held-out rows, so"
        warnings.warn(
            f"{reason} the symbols say next to nothing about {self.mapping_.public.name!r}: the "
            f"best rule's balanced accuracy is {max(gain, 0.0):.3f} above guessing. Allow more "
            "leak, give more rows, or add sensors that depend less on the private fact.",
            UninformativeMappingWarning,
            stacklevel=4,
        )

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
        check_count("n_folds", self.n_folds, 2)
        check_choice("loss", self.loss, LOSSES)
        check_choice("solver", self.solver, ("fast", "gauss-seidel", "thorough"))
        check_choice("pairs", self.pairs, ("all", "reference"))
        if isinstance(self.kernel, str):
            check_choice("kernel", self.kernel, KERNELS)
        if not isinstance(self.relaxed, bool | np.bool_):
            raise InputError(f"relaxed must be True or False, got {self.relaxed!r}.")

    def _check_readings(self, X: Any, y: Any) -> tuple[pd.DataFrame, LabelColumn]:
        name = "public" if getattr(y, "name", None) is None else str(y.name)
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, skip_check_array=True)
            table = X.reset_index(drop=True)
            if y is None:
                raise InputError("y, the public fact, is required and was None.")
            y = column_or_1d(y, warn=True)
            if len(table) != len(y):
                raise InputError(f"X has {len(table)} rows and y has {len(y)}.")
            if len(table) < 2:
                raise InputError(f"n_samples={len(table)}: a mapping needs at least 2 rows.")
        else:
            X, y = validate_data(
                self, X, y, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=2
            )
            table = pd.DataFrame(X, columns=array_names(X.shape[1])).infer_objects()
        check_classification_targets(y)
        return table, label_column(name, y)

    def _settings(self, names: list[str], n_rows: int) -> Settings:
        kernel = KERNELS[self.kernel]() if isinstance(self.kernel, str) else self.kernel
        if kernel.name == "count" and self._constrained and len(names) > 1:
            warnings.warn(
                "kernel='count' looks at each sensor by itself and cannot see a secret that shows "
                "only when sensors are combined. Use 'product' or 'anova' unless the sensors are "
                "too many.",
                CountKernelWarning,
                stacklevel=5,
            )
        return Settings(
            n_symbols=symbol_counts(self.n_symbols, names),
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
        )

    def _describe(
        self,
        settings: Settings,
        target: Target,
        seed: int,
        n_rows: int,
        source: Source | None,
    ) -> Design:
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
        if self._constrained:
            parameters |= {
                "pairs": self.pairs,
                "privacy_ratio": target.ratio,
                "max_advantage": self.max_advantage,
                "epsilon": self.epsilon,
                "design_epsilon": target.epsilon,
                "ldp_epsilon": self.ldp_epsilon,
            }
        return Design(
            method=self._method,
            parameters=parameters,
            rows=n_rows,
            created=now(),
            discreet=discreet.__version__,
            source=source,
            expected=None if self.expected_ is None else self.expected_.as_dict(),
        )

    # -- using the mapping --------------------------------------------------------

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


class NPOMapper(PrivacyMapper):
    """Keep the normalised private risk above a floor (the paper's NPO).

    Parameters
    ----------
    n_symbols : int, sequence or dict, default=2
        Symbols that a sensor may send; one number for all, or one for each.
    kernel : {"product", "count", "anova", "inverse-multiquadric"} or Kernel
        What the fusion centre's rules can see. "count" sees each sensor alone and
        "anova" combinations of up to ``degree`` sensors; a secret that shows only in
        larger ones escapes them. The other two see all combinations.
    loss : {"logistic", "exponential", "hinge", "square"}, default="logistic"
    privacy_ratio : float, optional
        Share of the largest reachable private risk to keep, in (0, 1); 0.998 if
        nothing else is asked.
    max_advantage : float, optional
        Ask instead that no attacker beat guessing by more: balanced accuracy minus
        1/m, the worst pair of classes counting. The ratio is searched on folds.
    epsilon : float, optional
        Ask that |log p(g|z)/p(g)| stay below it for every output z. Searched likewise;
        where the outputs are too many to list it holds by construction.
    ldp_epsilon : float, optional
        Keep log Q(z|x)/Q(z|x') of every sensor below this, which makes the structural
        bound finite by construction.
    reg : float, optional
        Weight lambda of the regulariser in the public risk; 0.3 / n_rows by default.
    private_reg : float, optional
        The same in the private risks; 0.1 / n_rows by default: the attacker gets
        more freedom than the fusion rule.
    relaxed : bool, default=True
        The paper's relaxation of the risks. False takes rules on the symbols
        themselves, possible while the outputs can be listed: it costs less public
        error and keeps less privacy on new rows (docs/decisions).
    pairs : {"all", "reference"}, default="all"
        Guard every pair of private classes, or the first against each other (paper).
    solver : {"fast", "gauss-seidel", "thorough"}, default="fast"
        The second is the paper's pair of algorithms, kept as the reference. The third
        goes on from its answer and never ends worse; for small tables.
    n_restarts : int, default=4
        Random starts of the fast solver.
    binning : {"quantile", "uniform", "supervised", "codes", "categories"} or dict
        How numeric columns become codes, for all or by column. "supervised" looks at
        the public fact only.
    n_bins : int or dict, default=10
        Most bins of a numeric column.
    n_folds : int, default=5
        Folds of the search for a privacy level.
    random_state : int or RandomState, optional
        Seeds the learning. It also seeds the symbols that ``transform`` draws, for
        repeatable experiments only: whoever knows or guesses the seed can undo the
        randomness, and such symbols protect nothing. Leave it out and they come from
        the system's cryptographic source.

    Attributes
    ----------
    mapping_ : Mapping
        The learned tables, ready to save, audit or export.
    classes_ : ndarray
        The public classes.
    useful_ : bool
        Whether the symbols say anything about the public fact. If not, ``fit`` has
        also warned (``UninformativeMappingWarning``).
    structural_epsilon_ : float
        Bound C1 on what the symbols of one release can say about anything, for any
        distribution and any private fact; infinite if some row is certain.
    expected_ : Expected or None
        What held-out folds showed, if a level was searched for: an estimate, no
        certificate.
    privacy_ratio_ : float or None
        The ratio in force.
    threshold_, private_risk_, public_risk_ : float
        The private floor theta, the private risk nearest to it (-inf and inf where
        nothing is guarded), and F, on the training rows.
    stopped_ : bool
        Whether the work was stopped early.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import NPOMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall = [0, 0, 1, 1] * 10
    >>> who = ["a", "b"] * 20
    >>> mapper = NPOMapper(random_state=0).fit(readings, fall, private=who)
    >>> mapper.transform(readings).shape
    (40, 2)
    """

    _method = "npo"


class BayesErrorMapper(PrivacyMapper):
    """Keep the private Bayes-error risk, weights 1/n, above a floor.

    A rare private class hardly counts in this risk: a large Bayes error does not keep
    single outputs from giving it away. Here for comparison. Parameters and attributes
    are those of ``NPOMapper``.
    """

    _method = "bayes-error"
    _normalised = False


class NDDMapper(PrivacyMapper):
    """Minimise the public risk and protect nothing (nonparametric detection).

    What privacy is paid against. The private fact is required all the same, so that an
    audit knows what to look for; it does not influence the tables. Parameters and
    attributes are those of ``NPOMapper``; limits on privacy are refused.
    """

    _method = "ndd"
    _constrained = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("privacy_ratio", "max_advantage", "epsilon", "ldp_epsilon"):
            if getattr(self, name) is not None:
                raise InputError(
                    f"{name} was given, but NDDMapper protects nothing. Use NPOMapper."
                )


def _public_advantage(mapping: Mapping, rows: Rows, public: Labels) -> float:
    """Return the best rule's balanced accuracy over guessing, on the training rows."""
    if count_outputs(mapping.n_symbols) <= MAX_OUTPUTS:
        given = rows.class_weights(public) @ output_probabilities(mapping.tables, rows.codes)
        return balanced_accuracy(given) - 1.0 / public.n_classes
    codes = rows.codes[rows.inverse]
    guessed = mapping.posterior(mapping.sample(codes, np.random.default_rng(0))).argmax(axis=1)
    right = [float((guessed[public.index == k] == k).mean()) for k in range(public.n_classes)]
    return float(np.mean(right)) - 1.0 / public.n_classes
