"""The one way through ``fit`` that all mappers share: readings and labels in, a mapping out.

Checks, codes, the search for a level, the design, the fusion rule, the mapping and what may
be expected of it, in this order. ``mappers`` holds the estimators made of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

import discreet
from discreet.arrays import Floats, Ints
from discreet.choices import LOSSES
from discreet.data.column_scan import needs_all_rows
from discreet.data.encoders import Encoder, encode_table
from discreet.data.fit_encoders import begin_scans, fit_encoders
from discreet.design.answers import Answers, answer_drawn
from discreet.design.calibration import Expected, Request, calibrate, estimate
from discreet.design.coded import Coded, coded_file, coded_rows
from discreet.design.deciding import aim_for, check_decide
from discreet.design.feasible import mix_to_epsilon, structural_epsilon, uniform_tables
from discreet.design.folds import Sample
from discreet.design.fusion import Fusion, add_decision, learn_fusion
from discreet.design.heads import Rows
from discreet.design.inputs import (
    check_choice,
    check_count,
    check_kernel,
    check_number,
    check_readings,
    fill_unseen,
    group_index,
    private_facts,
    symbol_counts,
)
from discreet.design.kernels import Kernel
from discreet.design.packed_file import PackedFile
from discreet.design.problem import (
    Designer,
    Place,
    Settings,
    Target,
    check_packable,
    design_file,
    design_sample,
    structural_limit,
)
from discreet.design.results import Designed
from discreet.design.risks import Tables
from discreet.design.sweep import sample_index
from discreet.errors import (
    BlindKernelWarning,
    InputError,
    UninformativeMappingWarning,
    UnmetRequestWarning,
)
from discreet.mapping.mapping import Mapping, now
from discreet.mapping.parts import Design, Source
from discreet.progress import Report

DEFAULT_RATIO = 0.998
# Regularisers, times 1 / n_rows; measured in docs/decisions/0001-risks-and-defaults.md.
_PUBLIC_REG, _PRIVATE_REG = 0.3, 0.1
_JUDGED_ROWS = 100_000  # that the mapping is tried on at its end


class Made(NamedTuple):
    """What a method hands over; ``tables`` are those of the mapping, ``designed`` as designed."""

    target: Target
    designed: Designed
    tables: Tables
    fusion: Fusion
    expected: Expected | None


class PrivacyMapper(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Base of the mappers; use one of its subclasses."""

    _method: str
    _normalised = True
    _constrained = True
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
        Whether rows depend on one another is not checked here: what ``expected_`` says of
        dependent rows without groups is too good. ``audit`` and ``frontier`` do check it, and
        certify nothing from such rows.
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
        place: Place | None = None,
    ) -> Self:
        """Do what ``fit`` does, record ``source``, and tell ``report``, which may ask to stop.

        Packed rows of a large table go where ``place`` puts them.
        """
        self._check_parameters()
        table, public = check_readings(self, X, y)
        facts = [public, *private_facts(private, len(table))]
        names = [str(name) for name in table.columns]
        encoders = fit_encoders(table, strategy=self.binning, n_bins=self.n_bins, facts=facts)
        codes = encode_table(table, list(zip(names, encoders, strict=True)))
        numbers = group_index(groups, len(table))
        coded = coded_rows(names, encoders, codes, facts, numbers, source)
        self._learn(coded, report, place)
        self.classes_ = np.asarray(public.classes)
        return self

    def fit_packed(self, file: PackedFile | str | PathLike[str]) -> Self:
        """Learn from packed rows that stay in their file (docs/large.md).

        All rows are designed on. The search for a level, the fusion rule and the estimate of
        what to expect look at a sample of 100000 of them.

        Parameters
        ----------
        file : PackedFile or path
            What ``discreet.learning.pack_tables`` wrote; a path is checked to the last byte.

        Raises
        ------
        InputError
            If the file is damaged, or the method, the kernel, the loss or the solver needs
            all rows in memory.
        """
        if isinstance(file, PackedFile):
            return self.fit_coded(coded_file(file, None))
        with PackedFile.open(file) as opened:
            return self.fit_coded(coded_file(opened, None))

    def fit_coded(
        self, coded: Coded, *, report: Report | None = None, place: Place | None = None
    ) -> Self:
        """Learn from rows that are codes already, and tell ``report``, which may ask to stop.

        Packed rows of a large table go where ``place`` puts them.
        """
        self._check_parameters()
        if coded.file is not None:
            self._check_method_beyond_memory()
        self._learn(coded, report, place)
        self.feature_names_in_ = np.asarray(coded.names, dtype=object)
        self.n_features_in_ = len(coded.names)
        self.classes_ = np.asarray(coded.facts[0].classes)
        return self

    def check_beyond_memory(self, names: list[str]) -> None:
        """Refuse parameters that need all rows in memory, before any row is read.

        Raises
        ------
        InputError
        """
        self._check_parameters()
        self._check_method_beyond_memory()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlindKernelWarning)  # it is said when it counts
            settings = self._settings(names, (), 1)
        for scan in begin_scans(names, self.binning, self.n_bins):
            if scan.strategy == "supervised":
                raise needs_all_rows(scan.sensor)
        self._check_packable(settings)

    def _check_packable(self, settings: Settings) -> None:
        check_packable(settings, Target(None, self.epsilon))

    def _check_method_beyond_memory(self) -> None:
        if self._designer is not design_sample:
            raise InputError(
                f"the method {self._method!r} needs all rows in memory. Beyond memory 'npo', "
                "'bayes-error' and 'ndd' work."
            )

    def _learn(self, coded: Coded, report: Report | None, place: Place | None) -> None:
        # One thread: sums then come in one order, and a seed gives one mapping anywhere.
        with threadpool_limits(limits=1):
            self._learn_coded(coded, report, place)

    def _learn_coded(self, coded: Coded, report: Report | None, place: Place | None = None) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31))
        rng = np.random.default_rng(seed)
        sample, groups = coded.sample, coded.groups
        settings = replace(
            self._settings(coded.names, coded.sizes, coded.n_rows),
            place=place,
            aim=aim_for(self.decide, coded.facts[0]),
        )
        if coded.file is not None:
            self._check_packable(settings)
        target, designed, tables, fusion, expected = self._make(settings, coded, rng, report)
        self._keep(designed, target, expected)
        self.mapping_ = Mapping.create(
            names=coded.names,
            encoders=coded.encoders,
            tables=tables,
            public=coded.facts[0],
            private=coded.facts[1:],
            fusion=fusion,
            design=self._describe(settings, target, seed, coded),
        )
        self.structural_epsilon_ = float(
            sum(structural_epsilon(table) for table in self.mapping_.tables)
        )
        self._judge(sample, groups)

    def _make(
        self, settings: Settings, coded: Coded, rng: np.random.Generator, report: Report | None
    ) -> Made:
        """Choose a target, design for it, and learn how to decide."""
        sample, groups = coded.sample, coded.groups
        for_sample = coded.for_sample(settings)
        target, expected = self._find_target(for_sample, sample, groups, rng, report)
        rows = coded.rows(settings)
        designed = self._design_coded(settings, coded, target, expected, rng, report)
        if designed.kernel_error > 0:
            warnings.warn(_left_out(designed.kernel_error), BlindKernelWarning, stacklevel=6)
        tables = self._finish(designed.tables, settings, target, coded)
        fusion = self._learn_fusion(tables, rows, sample, for_sample, rng)
        (drawing,) = rng.spawn(1)
        fusion = add_decision(fusion, tables, rows, sample.public, settings.aim, drawing)
        if expected is None and not designed.stopped:
            expected = _try_estimate(for_sample, sample, target, groups, rng, self._designer)
        return Made(target, designed, tables, fusion, expected)

    def _finish(self, tables: Tables, settings: Settings, target: Target, coded: Coded) -> Tables:
        """Fill rows of codes never seen, and keep a limit that holds by construction."""
        tables = self._fill_unseen(tables, coded.counts, coded.encoders)
        limit = structural_limit(settings, target)
        return tables if limit is None else [mix_to_epsilon(table, limit) for table in tables]

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
            design=self._designer,
        )

    def _design_coded(
        self,
        settings: Settings,
        coded: Coded,
        target: Target,
        expected: Expected | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> Designed:
        silent = expected is not None and expected.silent
        if coded.file is None or silent:
            return self._design(settings, coded.sample, target, expected, rng, report)
        return design_file(settings, coded.file, target, rng=rng, report=report)

    def _design(
        self,
        settings: Settings,
        sample: Sample,
        target: Target,
        expected: Expected | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> Designed:
        if expected is not None and expected.silent:
            silent = uniform_tables(sample.sizes, settings.n_symbols)
            return Designed(silent, float("nan"), np.empty(0), np.empty(0))
        return self._designer(settings, sample, target, rng=rng, report=report)

    @property
    def _designer(self) -> Designer:
        """How tables come about: one thing for the final design and for the folds."""
        return design_sample

    @property
    def _asked_advantage(self) -> float | None:
        """What is asked for, said or not."""
        return self.max_advantage

    def _fill_unseen(
        self, tables: Tables, counts: Sequence[Floats], encoders: Sequence[Encoder]
    ) -> Tables:
        """Give codes that the rows never showed a row of their own."""
        return [
            fill_unseen(table, count, encoder)
            for table, count, encoder in zip(tables, counts, encoders, strict=True)
        ]

    def _learn_fusion(
        self,
        tables: Tables,
        rows: Rows,
        sample: Sample,
        settings: Settings,
        rng: np.random.Generator,
    ) -> Fusion:
        return learn_fusion(tables, rows, sample.public, settings.kernel, settings.reg, rng)

    def _keep(self, designed: Designed, target: Target, expected: Expected | None) -> None:
        self.privacy_ratio_ = target.ratio
        self.public_risk_ = designed.public_risk
        self.private_risk_, self.threshold_ = np.inf, -np.inf
        if len(designed.floors):  # the head nearest to its floor speaks for all
            k = int(np.argmin(designed.private_risks - designed.floors))
            self.private_risk_ = float(designed.private_risks[k])
            self.threshold_ = float(designed.floors[k])
        self.n_evaluations_ = designed.evaluations
        self.passes_ = designed.passes
        self.kernel_error_ = designed.kernel_error
        self.stopped_ = designed.stopped
        self.expected_ = expected

    def _judge(self, sample: Sample, groups: Ints | None) -> None:
        """Decide whether the answers are good for anything, and say so if they are not."""
        if len(sample.codes) > _JUDGED_ROWS:
            some = sample_index(len(sample.codes), _JUDGED_ROWS)
            sample, groups = sample.take(some), None if groups is None else groups[some]
        expected, taught = self.expected_, self._answer_taught(sample)
        # Too few rows to leave some out, or no time: those it learned from flatter it.
        useful = taught.useful(groups) if expected is None else expected.useful
        self.useful_ = useful and not taught.constant
        if not self.useful_:
            self._say_useless(taught, taught.interval(groups), self._advise(groups))
        if expected is not None and expected.met is False and not expected.silent:
            self._say_unmet(expected, self._advise(groups))

    def _advise(self, groups: Ints | None) -> str:
        """Say what to do: of rows in groups, more groups are what helps."""
        return self._advice if groups is None else self._advice.replace("more rows", "more groups")

    def _answer_taught(self, sample: Sample) -> Answers:
        """Return what the finished mapping answers about the rows that it learned from."""
        mapping, rng = self.mapping_, np.random.default_rng(0)
        return answer_drawn(mapping.fusion, mapping.tables, sample.codes, sample.public, rng)

    def _say_useless(self, taught: Answers, interval: tuple[float, float], advice: str) -> None:
        expected, fact = self.expected_, self.mapping_.public
        where, accuracy = "Even on the rows it was learned from", taught.balanced_accuracy
        if expected is not None:
            where, accuracy = "On rows left out", expected.balanced_accuracy
            interval = expected.balanced_low, expected.balanced_high
        why = ""
        if expected is not None and expected.silent:
            why = "Not met: no level of strictness kept what was asked on held-out rows, so that "
            why += "the symbols are pure noise. "
        elif taught.constant:
            always = fact.classes[int(np.argmax(taught.shares))]
            why = f"The fusion rule names {always!r} whatever the symbols are. "
        warnings.warn(
            f"{why}{where}, as far as they show, the mapping answers {fact.name!r} no better than "
            f"guessing: its balanced accuracy is {accuracy:.3f} ({interval[0]:.3f} to "
            f"{interval[1]:.3f} at 95 %), that of guessing {1.0 / len(fact.classes):.3f}. "
            f"{advice}",
            UninformativeMappingWarning,
            stacklevel=6,
        )

    def _say_unmet(self, expected: Expected, advice: str) -> None:
        found = [f"advantage {expected.advantage:.3f} ± {expected.advantage_error:.3f}"]
        if self.epsilon is not None and expected.epsilon is not None:
            found.append(f"epsilon {expected.epsilon:.2f} ± {expected.epsilon_error:.2f}")
        limits = (("advantage", self._asked_advantage), ("epsilon", self.epsilon))
        asked = [f"{name} {limit:g}" for name, limit in limits if limit is not None]
        warnings.warn(
            f"Not met: at most {' and '.join(asked)} was asked for. Held-out rows show "
            f"{' and '.join(found)}, and at no level that was tried estimate and standard error "
            f"within it. {advice}",
            UnmetRequestWarning,
            stacklevel=6,
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
        check_kernel(self.kernel)
        check_decide(self.decide)
        self._check_solver()
        if not isinstance(self.relaxed, bool | np.bool_):
            raise InputError(f"relaxed must be True or False, got {self.relaxed!r}.")

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

    def _settings(self, names: list[str], sizes: tuple[int, ...], n_rows: int) -> Settings:
        kernel = check_kernel(self.kernel)
        if self._constrained and kernel.reach(len(names)) < len(names):
            warnings.warn(_blind(kernel, len(names)), BlindKernelWarning, stacklevel=6)
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
        coded: Coded,
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


def _blind(kernel: Kernel, n_sensors: int) -> str:
    """Say what a kernel that does not look at all sensors together cannot see."""
    reach = kernel.reach(n_sensors)
    view = "each sensor by itself" if reach == 1 else f"at most {reach} sensors together"
    return (
        f"The {kernel.name!r} kernel looks at {view}, of {n_sensors}: a secret that shows only in "
        "a larger combination is invisible to it and may leak in full. The 'product' kernel looks "
        "at all of them."
    )


def _left_out(share: float) -> str:
    """Say what a kernel that was approximated cannot see."""
    return (
        "So many rows and outputs are too much for the whole 'product' kernel: sensors are looked "
        f"at alone and by two, which leaves out {share:.2g} of it. A secret that shows only in "
        "three sensors together is invisible and may leak in full."
    )


def _try_estimate(
    settings: Settings,
    sample: Sample,
    target: Target,
    groups: Ints | None,
    rng: np.random.Generator,
    design: Designer,
) -> Expected | None:
    try:
        return estimate(settings, sample, target, groups=groups, rng=rng, design=design)
    except InputError:  # a class has one row only, say: the mapping is still worth having
        return None
