import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from discreet import NPOMapper
from discreet.choices import LOSSES
from discreet.data.labels import Labels
from discreet.design.code_solver import CodeSolver, ModelledRisks, PackedRows, SweptRisks
from discreet.design.feasible import uniform_tables
from discreet.design.folds import Sample
from discreet.design.heads import collapse, private_heads, public_heads
from discreet.design.kernels import AnovaKernel, CountKernel, ProductKernel
from discreet.design.problem import Settings, Target, design_sample, silent_risks
from discreet.design.risks import CountRisks, OutputRisks
from discreet.design.weighted_rows import label_rows
from discreet.errors import BlindKernelWarning

pytestmark = pytest.mark.slow

COUNT = CountKernel()


def random_sample(rng, n=600, n_sensors=5, size=6, private_classes=2):
    h, g = rng.integers(2, size=n), rng.integers(private_classes, size=n)
    shares = rng.normal(size=(3, n_sensors))
    causes = np.column_stack([h - 0.5, g - 0.5, rng.normal(size=n)])
    readings = causes @ shares + rng.normal(size=(n, n_sensors))
    codes = np.clip(np.floor(size / 2 + readings * size / 6), 0, size - 1).astype(np.int64)
    return Sample(
        codes,
        (size,) * n_sensors,
        Labels("h", h, range(2)),
        (Labels("g", g, range(private_classes)),),
    )


def settings_for(sample, loss="logistic", n_symbols=2, kernel=COUNT, **more):
    n = len(sample.codes)
    symbols = (n_symbols,) * len(sample.sizes)
    more = {"many_rows": 0, **more}
    return Settings(symbols, kernel, LOSSES[loss], 0.3 / n, 0.1 / n, **more)


def risks_of_both_kinds(sample, settings):
    rows = collapse(sample.codes, sample.sizes)
    heads = public_heads(rows, sample.public) + private_heads(rows, sample.private[0])
    regs = [settings.reg] + [settings.private_reg] * (len(heads) - 1)
    labelled = label_rows(sample.codes, sample.sizes, (sample.public, *sample.private))
    packed = public_heads(labelled.by_kind, sample.public)
    packed += private_heads(labelled.by_kind, sample.private[0])
    weighted_rows = labelled.weighted_rows(packed)
    solver = CodeSolver(weighted_rows, settings.loss, regs, tolerance=1e-13)
    return CountRisks(rows, heads, settings.loss, regs), SweptRisks(
        solver, PackedRows(weighted_rows)
    )


@pytest.mark.parametrize("loss", ["logistic", "exponential", "square"])
def test_swept_risks_are_those_of_rows_written_out(loss, rng):
    sample = random_sample(rng, n=300, private_classes=3)
    small, swept = risks_of_both_kinds(sample, settings_for(sample, loss))
    np.testing.assert_array_equal(swept.rows.seen(), small.rows.seen())
    weights = rng.normal(size=4)
    for _ in range(2):
        tables = [rng.dirichlet(np.ones(3), size=6) for _ in range(5)]
        expected, found = small.evaluate(tables), swept.evaluate(tables)
        np.testing.assert_allclose(found.values, expected.values, atol=1e-10)
        slopes = [
            risks.gradient(tables, v, weights) for risks, v in ((small, expected), (swept, found))
        ]
        for ours, theirs in zip(*slopes, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_modelled_risks_agree_with_the_sweep_in_value_and_slope_where_it_went(rng):
    sample = random_sample(rng)
    _, swept = risks_of_both_kinds(sample, settings_for(sample))
    tables = [rng.dirichlet(np.ones(2), size=6) for _ in range(5)]
    found = swept.evaluate(tables)
    modelled = ModelledRisks(swept.solver, swept.rows)
    guess = modelled.evaluate(tables)
    np.testing.assert_allclose(guess.values, found.values, atol=1e-9)
    weights = np.array([1.0, -0.5])
    for ours, theirs in zip(
        modelled.gradient(tables, guess, weights),
        swept.gradient(tables, found, weights),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_the_silent_risk_is_that_of_uniform_tables(rng):
    sample = random_sample(rng, n=200)
    settings = settings_for(sample)
    small, _ = risks_of_both_kinds(sample, settings)
    head = small.heads[1]
    (found,) = silent_risks([head], settings.kernel, settings)
    expected = small.evaluate(uniform_tables(sample.sizes, settings.n_symbols)).values[1]
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("ratio", "n_symbols"), [(0.998, 2), (0.9, 3), (None, 2)])
def test_the_large_design_keeps_the_floors_and_is_not_worse(ratio, n_symbols, rng):
    sample = random_sample(rng, private_classes=3 if n_symbols == 3 else 2)
    settings = settings_for(sample, n_symbols=n_symbols)
    target = Target(ratio)
    large = design_sample(settings, sample, target, rng=np.random.default_rng(0))
    few = replace(settings, many_rows=10**9)
    small = design_sample(few, sample, target, rng=np.random.default_rng(0))
    assert large.passes is not None
    assert small.passes is None
    assert np.all(large.private_risks > large.floors)
    np.testing.assert_allclose(large.floors, small.floors, atol=1e-10)
    assert large.public_risk <= small.public_risk + 0.01
    # What it claims is what the rows say.
    exact, _ = risks_of_both_kinds(sample, settings)
    values = exact.evaluate(large.tables).values
    assert values[0] == pytest.approx(large.public_risk, abs=1e-8)
    if ratio is not None:
        np.testing.assert_allclose(values[1:], large.private_risks, atol=1e-8)


def test_a_limit_for_every_sensor_is_kept(rng):
    sample = random_sample(rng)
    settings = settings_for(sample, ldp_epsilon=0.5)
    found = design_sample(settings, sample, Target(0.9), rng=np.random.default_rng(0))
    for table in found.tables:
        logs = np.log(table)
        assert np.max(logs.max(axis=0) - logs.min(axis=0)) <= 0.5 + 1e-9


def test_a_stop_keeps_a_mapping_within_the_floors(rng):
    sample, told = random_sample(rng), []

    def report(progress):
        told.append(progress.done)
        return len(told) == 5

    found = design_sample(
        settings_for(sample), sample, Target(0.99), rng=np.random.default_rng(0), report=report
    )
    assert found.stopped
    assert len(told) == 5
    assert np.all(found.private_risks > found.floors)
    assert told == sorted(told)


def test_many_codes_are_designed_without_models(rng, monkeypatch):
    monkeypatch.setattr("discreet.design.code_solver.FEW_BYTES", 0)
    sample = random_sample(rng, n=200, n_sensors=3, size=4)
    settings = settings_for(sample, n_restarts=1)
    found = design_sample(settings, sample, Target(0.99), rng=np.random.default_rng(0))
    assert np.all(found.private_risks > found.floors)


@pytest.mark.parametrize(("kernel", "ratio"), [(ProductKernel(), 0.998), (AnovaKernel(2), 0.9)])
def test_kernels_that_look_at_several_sensors_keep_the_floors_too(kernel, ratio, rng):
    sample = random_sample(rng, n=400, n_sensors=4)
    settings = settings_for(sample, kernel=kernel)
    found = design_sample(settings, sample, Target(ratio), rng=np.random.default_rng(0))
    rows = collapse(sample.codes, sample.sizes)
    heads = public_heads(rows, sample.public) + private_heads(rows, sample.private[0])
    regs = [settings.reg, settings.private_reg]
    exact = OutputRisks(rows, heads, (2,) * 4, kernel, settings.loss, regs, relaxed=True)
    values = exact.evaluate(found.tables).values
    silent = exact.evaluate(uniform_tables(sample.sizes, settings.n_symbols)).values
    np.testing.assert_allclose(found.floors, ratio * silent[1:], atol=1e-10)
    assert np.all(found.private_risks > found.floors)
    np.testing.assert_allclose(values, [found.public_risk, *found.private_risks], atol=1e-6)
    assert found.public_risk < silent[0]
    assert found.passes > 1
    assert found.kernel_error == 0.0


def test_the_share_of_the_kernel_that_was_left_out_is_told(rng, monkeypatch):
    monkeypatch.setattr("discreet.design.tensor_features.MOST_EXACT", 4)
    sample = random_sample(rng, n=300, n_sensors=4)
    settings = settings_for(sample, kernel=ProductKernel())
    found = design_sample(settings, sample, Target(0.9), rng=np.random.default_rng(0))
    assert 0.0 < found.kernel_error < 0.5


def test_a_stop_of_the_slower_kernels_keeps_the_floors(rng):
    sample, told = random_sample(rng, n=300, n_sensors=4), []

    def report(progress):
        told.append(progress.done)
        return progress.done > 0.15

    settings = settings_for(sample, kernel=ProductKernel())
    found = design_sample(
        settings, sample, Target(0.9), rng=np.random.default_rng(0), report=report
    )
    assert found.stopped
    assert np.all(found.private_risks > found.floors)
    assert told == sorted(told)


def test_the_mapper_reports_its_passes(rng):
    sample = random_sample(rng, n=21_000)
    X = pd.DataFrame(sample.codes, columns=[f"s{t}" for t in range(5)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindKernelWarning)
        mapper = NPOMapper(kernel="count", random_state=0, privacy_ratio=0.9)
        mapper.fit(X, sample.public.index, private=sample.private[0].index)
    assert mapper.passes_ > 1
    assert mapper.kernel_error_ == 0.0
    assert mapper.private_risk_ > mapper.threshold_
    assert mapper.expected_.public_advantage > 0


@pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")
def test_a_kernel_that_was_cut_short_says_so(rng, monkeypatch):
    monkeypatch.setattr("discreet.design.tensor_features.MOST_EXACT", 4)
    monkeypatch.setattr("discreet.mappers.base.Settings", partial(Settings, many_rows=0))
    sample = random_sample(rng, n=200, n_sensors=3)
    X = pd.DataFrame(sample.codes, columns=[f"s{t}" for t in range(3)])
    mapper = NPOMapper(random_state=0, privacy_ratio=0.9)
    with pytest.warns(BlindKernelWarning, match="alone and by two"):
        mapper.fit(X, sample.public.index, private=sample.private[0].index)
    assert mapper.kernel_error_ > 0
