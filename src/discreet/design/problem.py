"""One design, from coded rows and a target to tables.

Here the heads, the kernel, the loss and the limits come together, and the solver is
chosen. Everything above (the search for a ratio, the estimators) calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from discreet.arrays import Floats
from discreet.data.labels import Labels
from discreet.design.code_solver import CodeSolver
from discreet.design.deciding import BALANCED, Aim
from discreet.design.fast import SOFTNESS, Limits, PrivateClasses, design_fast
from discreet.design.feasible import uniform_tables
from discreet.design.folds import Sample
from discreet.design.heads import (
    Countable,
    Head,
    Rows,
    private_heads,
    public_heads,
)
from discreet.design.kernels import CountKernel, Kernel, cross_gram
from discreet.design.large import design_large
from discreet.design.large_tensor import TensorProblem, design_tensor
from discreet.design.losses import Loss
from discreet.design.npo import Setting, design_gauss_seidel, feasible_start, find_threshold
from discreet.design.packed_file import FileRows, PackedFile
from discreet.design.results import Designed
from discreet.design.risks import MAX_OUTPUTS, Risks, Tables, count_outputs, make_risks
from discreet.design.solvers import fit_primal
from discreet.design.sweep import RowSource, StoredRows, WeightedRows
from discreet.design.tensor_features import form_of, lifts_of
from discreet.design.weighted_rows import label_rows
from discreet.errors import InputError, Parameter
from discreet.progress import Report

# Beyond this, rows are packed and swept over; below, a design takes a few seconds anyway.
MANY_ROWS = 20_000
Place = Callable[[StoredRows], RowSource]
"""Puts packed rows where they are swept over: on a cluster, say."""
# Below this the sampling noise is larger than anything that further steps would gain.
_FEW_ROWS = 500


@dataclass(frozen=True)
class Settings:
    """How to design, whatever the data.

    ``relaxed``: the paper's relaxation of the risks; False takes rules on the symbols themselves.
    ``pairs``: which pairs of private classes get a head: "all" or "reference". ``normalised``:
    weights 1/(2 n_g) in the private risks; False gives the Bayes-error method. ``constrained``:
    false leaves the private facts unprotected (NDD). ``many_rows``: beyond so many, rows are packed
    and swept over. ``place``: where packed rows are swept over; None for here. ``aim``: what the
    decisions of the fusion rule are to be good for.
    """

    n_symbols: tuple[int, ...]
    kernel: Kernel
    loss: Loss
    reg: float
    private_reg: float
    relaxed: bool = True
    pairs: str = "all"
    normalised: bool = True
    constrained: bool = True
    solver: str = "fast"
    n_restarts: int = 4
    ldp_epsilon: float | None = None
    many_rows: int = MANY_ROWS
    place: Place | None = None
    aim: Aim = BALANCED

    @property
    def n_outputs(self) -> int:
        return count_outputs(self.n_symbols)

    @property
    def lists_outputs(self) -> bool:
        """Whether the outputs are few enough to be written out."""
        return self.n_outputs <= MAX_OUTPUTS


@dataclass(frozen=True)
class Target:
    """How private: the share of the reachable private risk, and a limit on log-ratios."""

    ratio: float | None
    epsilon: float | None = None


class Designer(Protocol):
    """A way from coded rows and a target to tables."""

    def __call__(
        self,
        settings: Settings,
        sample: Sample,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        report: Report | None = None,
    ) -> Designed: ...


def design_sample(
    settings: Settings,
    sample: Sample,
    target: Target,
    *,
    rng: np.random.Generator,
    starts: Sequence[Tables] = (),
    report: Report | None = None,
) -> Designed:
    """Design by keeping risks above floors: ``design_tables`` on the sample's rows.

    Many rows are packed and swept over instead, where the kernel and the loss allow it.
    """
    if is_large(settings, sample, target):
        return _design_packed(settings, sample, target, rng, starts, report)
    return design_tables(
        settings,
        sample.rows(),
        sample.public,
        sample.private,
        target,
        rng=rng,
        starts=starts,
        report=report,
    )


def design_tables(
    settings: Settings,
    rows: Rows,
    public: Labels,
    private: Sequence[Labels],
    target: Target,
    *,
    rng: np.random.Generator,
    starts: Sequence[Tables] = (),
    report: Report | None = None,
) -> Designed:
    """Design the tables for one target. Codes never seen keep a uniform row."""
    asked = public_heads(rows, public)
    guarded = _guarded_heads(settings, rows, private, target)
    softness = SOFTNESS
    if settings.solver != "fast":
        reference = _gauss_seidel(settings, rows, asked, guarded, target, rng, report)
        if settings.solver == "gauss-seidel" or reference.stopped:
            return reference
        # Thorough: carry the reference's answer on, compared by F alone.
        starts, softness = [*starts, reference.tables], 0.0
    regs = [settings.reg] * len(asked) + [settings.private_reg] * len(guarded)
    risks = make_risks(
        rows,
        asked + guarded,
        settings.n_symbols,
        settings.kernel,
        settings.loss,
        regs,
        relaxed=settings.relaxed,
    )
    limits = _limits(settings, rows, private, target, risks, len(asked))
    if settings.solver != "fast":
        limits = replace(limits, floors=reference.floors)
    return design_fast(
        risks,
        limits,
        settings.n_symbols,
        rng=rng,
        n_restarts=settings.n_restarts,
        starts=starts,
        n_carried=1 if rows.n_rows < _FEW_ROWS else 2,
        max_iter=60 if rows.n_rows < _FEW_ROWS else 120,
        softness=softness,
        report=report,
    )


def is_large(settings: Settings, sample: Sample, target: Target) -> bool:
    """Whether the rows are so many that they are packed and swept over.

    The limit on single log-ratios needs every row's outputs, so it stays with the others.
    """
    return (
        len(sample.codes) > settings.many_rows
        and settings.relaxed
        and settings.loss.smooth
        and settings.solver == "fast"
        and (target.epsilon is None or not settings.lists_outputs)
        and (isinstance(settings.kernel, CountKernel) or _is_tensor(settings))
    )


def _is_tensor(settings: Settings) -> bool:
    return lifts_of(settings.kernel, settings.n_symbols) is not None


def _design_packed(
    settings: Settings,
    sample: Sample,
    target: Target,
    rng: np.random.Generator,
    starts: Sequence[Tables],
    report: Report | None,
) -> Designed:
    rows = label_rows(sample.codes, sample.sizes, (sample.public, *sample.private))
    asked = public_heads(rows.by_kind, sample.public)
    guarded = _guarded_heads(settings, rows.by_kind, sample.private, target)
    weighted_rows = rows.weighted_rows(asked + guarded)
    work: dict[str, Any] = {"rng": rng, "starts": starts, "report": report}
    return design_weighted_rows(settings, weighted_rows, len(asked), guarded, target, work)


def design_file(
    settings: Settings,
    file: PackedFile,
    target: Target,
    *,
    rng: np.random.Generator,
    report: Report | None = None,
) -> Designed:
    """Design from packed rows that stay in their file.

    Raises InputError: if the loss, the kernel or the solver asks for all rows in memory.
    """
    check_packable(settings, target)
    public, *private = (file.labels(k) for k in range(len(file.header.facts)))
    asked = public_heads(file.by_kind, public)
    guarded = _guarded_heads(settings, file.by_kind, private, target)
    weighted_rows = file.weighted_rows(asked + guarded)
    work: dict[str, Any] = {"rng": rng, "starts": (), "report": report}
    return design_weighted_rows(settings, weighted_rows, len(asked), guarded, target, work)


def check_packable(settings: Settings, target: Target | None = None) -> None:
    """Refuse what only knows rows in memory."""
    wrong = None
    if target is not None and target.epsilon is not None and settings.lists_outputs:
        raise InputError(
            f"epsilon with {settings.n_outputs} outputs is kept output by output, which needs all "
            "rows in memory. Ask for ",
            Parameter("max_advantage"),
            ", or for ",
            Parameter("ldp_epsilon"),
            ".",
        )
    if not settings.relaxed:
        wrong = "relaxed=False"
    elif not settings.loss.smooth:
        wrong = f"the {settings.loss.name} loss"
    elif settings.solver != "fast":
        wrong = f"solver={settings.solver!r}"
    elif not (isinstance(settings.kernel, CountKernel) or _is_tensor(settings)):
        wrong = f"the {settings.kernel.name!r} kernel"
    if wrong is not None:
        raise InputError(
            f"{wrong} needs all rows in memory. Beyond memory the kernels 'count', 'product' and "
            "'anova' work, with a smooth loss, the fast solver and the relaxed risks."
        )


def design_weighted_rows(
    settings: Settings,
    weighted_rows: WeightedRows | FileRows,
    n_public: int,
    guarded: Sequence[Head],
    target: Target,
    work: dict[str, Any],
) -> Designed:
    """Design from weighted rows of public heads, then the guarded ones."""
    regs = np.array([settings.reg] * n_public + [settings.private_reg] * len(guarded))

    def limits(kernel: Kernel) -> Limits:
        reachable = silent_risks(guarded, kernel, settings)
        floors = (target.ratio or 0.0) * reachable
        return Limits(floors, reachable, ldp_epsilon=structural_limit(settings, target))

    work = {"n_restarts": settings.n_restarts, **work}
    if isinstance(settings.kernel, CountKernel):
        box = weighted_rows if settings.place is None else settings.place(weighted_rows)
        solver = CodeSolver(box, settings.loss, regs)
        return design_large(solver, limits(settings.kernel), settings.n_symbols, **work)
    lifts = lifts_of(settings.kernel, settings.n_symbols)
    assert lifts is not None  # asked before
    problem = TensorProblem(
        weighted_rows,
        settings.loss,
        regs,
        lifts,
        form_of(settings.kernel, lifts, settings.n_outputs),
        limits(settings.kernel),
        limits(CountKernel()),
        settings.n_symbols,
    )
    return design_tensor(problem, **work)


def silent_risks(heads: Sequence[Head], kernel: Kernel, settings: Settings) -> Floats:
    """Return each private head's risk under the mapping that says nothing.

    All rows then have the same features, and only their length matters: one is enough.
    """
    silent = uniform_tables((1,) * len(settings.n_symbols), settings.n_symbols)
    row = np.zeros((1, len(silent)), dtype=np.int64)
    length = float(np.sqrt(cross_gram(kernel, silent, row, silent, row)[0, 0]))
    values = []
    for head in heads:
        feature = np.full((len(head.pos), 1), length)
        fitted = fit_primal(feature, head.pos, head.neg, settings.loss, settings.private_reg)
        values.append(fitted.value)
    return np.array(values)


def structural_limit(settings: Settings, target: Target) -> float | None:
    """Return the limit on log Q(z|x)/Q(z|x') of every single sensor, if there is one."""
    if target.epsilon is None or settings.lists_outputs:
        return settings.ldp_epsilon
    # Too many outputs to bound one by one: the structural bound C1 adds up over sensors.
    share = target.epsilon / len(settings.n_symbols)
    return share if settings.ldp_epsilon is None else min(share, settings.ldp_epsilon)


def _guarded_heads(
    settings: Settings, rows: Countable, private: Sequence[Labels], target: Target
) -> list[Head]:
    if not settings.constrained or target.ratio is None:
        return []
    return [
        head
        for fact in private
        for head in private_heads(rows, fact, pairs=settings.pairs, normalised=settings.normalised)
    ]


def _limits(
    settings: Settings,
    rows: Rows,
    private: Sequence[Labels],
    target: Target,
    risks: Risks,
    n_public: int,
) -> Limits:
    nothing = uniform_tables(rows.sizes, settings.n_symbols)
    reachable = risks.evaluate(nothing).values[n_public:]
    floors = (target.ratio or 0.0) * reachable
    per_sensor = structural_limit(settings, target)
    if target.epsilon is None or not settings.lists_outputs:
        return Limits(floors, reachable, ldp_epsilon=per_sensor)
    classes = [
        PrivateClasses(rows.class_weights(fact), np.bincount(fact.index) / rows.n_rows)
        for fact in private
    ]
    return Limits(floors, reachable, target.epsilon, classes, per_sensor)


def _gauss_seidel(
    settings: Settings,
    rows: Rows,
    asked: list[Head],
    guarded: list[Head],
    target: Target,
    rng: np.random.Generator,
    report: Report | None,
) -> Designed:
    setting = Setting(
        rows, settings.n_symbols, settings.kernel, settings.loss, settings.reg, settings.private_reg
    )
    thresholds = [find_threshold(setting, head, rng=rng) for head in guarded]
    lowest = min(threshold.value for threshold in thresholds)
    assert target.ratio is not None  # there are private heads, so a ratio was asked for
    floors = np.full(len(guarded), target.ratio * lowest)
    start = feasible_start(setting, guarded, thresholds, floors)
    return design_gauss_seidel(setting, asked, guarded, floors, start, report=report)
