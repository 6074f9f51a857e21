import numpy as np
import pandas as pd
import pytest
from helpers import refused

from discreet import scanning
from discreet.fit_codes import fit_encoder
from discreet.scanning import ColumnScan
from discreet.values import is_numeric


def scan(column, strategy="quantile", n_bins=10, batch=333):
    found = ColumnScan("hall", strategy, n_bins, numeric=is_numeric(column))
    for begin in range(0, len(column), batch):
        found.add(column[begin : begin + batch])
    return found.encoder()


COLUMNS = {
    "few": lambda rng: rng.integers(6, size=2000).astype(float),
    "rounded": lambda rng: rng.normal(size=2000).round(1),
    "ties": lambda rng: np.where(rng.random(2000) < 0.6, 0.0, rng.normal(size=2000).round(2)),
    "gaps": lambda rng: np.where(rng.random(2000) < 0.1, np.nan, rng.integers(30, size=2000)),
    "infinite": lambda rng: np.where(rng.random(2000) < 0.1, np.inf, rng.integers(30, size=2000)),
    "signed zero": lambda rng: rng.choice([-0.0, 0.0, 1.0], size=2000),
    "text": lambda rng: rng.choice(["a", "b", "ü"], size=2000),
    "booleans": lambda rng: rng.random(2000) < 0.3,
    "mixed": lambda rng: np.array([True, None, "x", 3, 2.5] * 400, dtype=object),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("strategy", ["quantile", "uniform", "categories"])
def test_few_distinct_values_give_the_encoder_of_all_rows_at_once(name, strategy, rng):
    column = pd.Series(COLUMNS[name](rng))
    assert scan(column, strategy) == fit_encoder(column, sensor="hall", strategy=strategy)


def test_codes_are_taken_as_they_are(rng):
    column = pd.Series(rng.integers(7, size=1000))
    assert scan(column, "codes") == fit_encoder(column, sensor="hall", strategy="codes")
    for wrong in (column - 1, column + 0.5, column * 20_000):
        refused("Binning 'codes' needs whole numbers", scan, wrong, "codes")
    refused("does not hold numbers", scan, column.astype(str), "codes")


@pytest.mark.parametrize("draw", ["normal", "lognormal", "uniform"])
def test_sketched_edges_are_near_the_true_quantiles(draw, rng):
    column = pd.Series(getattr(rng, draw)(size=200_000))
    edges = np.array(scan(column, n_bins=16, batch=65_536).edges)
    ranks = np.searchsorted(np.sort(column), edges) / len(column)
    np.testing.assert_allclose(ranks, np.arange(1, 16) / 16, atol=0.005)


def test_many_equal_readings_share_a_bin_though_they_are_sketched(rng):
    column = pd.Series(np.where(rng.random(100_000) < 0.6, 0.0, rng.normal(size=100_000)))
    encoder = scan(column, batch=65_536)
    codes = encoder.encode(column, "hall")
    assert len(set(codes[column == 0.0])) == 1
    assert np.bincount(codes).max() < 0.75 * len(column)


def test_the_same_batches_give_the_same_edges(rng):
    column = pd.Series(rng.normal(size=100_000))
    assert scan(column, batch=9999) == scan(column, batch=9999)


def test_uniform_edges_of_many_values_are_exact(rng):
    column = pd.Series(rng.normal(size=20_000))
    exact = fit_encoder(column, sensor="hall", strategy="uniform")
    np.testing.assert_allclose(scan(column, "uniform").edges, exact.edges, rtol=1e-12)


def test_values_counted_so_far_go_into_the_sketch(rng, monkeypatch):
    monkeypatch.setattr(scanning, "EXACT_VALUES", 50)
    column = pd.Series(np.r_[np.repeat(np.arange(40.0), 500), rng.uniform(0, 40, size=20_000)])
    ranks = np.array([(column <= edge).mean() for edge in scan(column, batch=5000).edges])
    np.testing.assert_allclose(ranks, np.arange(1, 10) / 10, atol=0.03)


def test_columns_that_say_nothing_or_too_much_are_refused():
    refused("missing in all 50 rows", scan, pd.Series(np.full(50, np.nan)))
    refused("reads the same in all 50 rows", scan, pd.Series(np.ones(50)))
    refused("reads the same", scan, pd.Series(["a"] * 50))
    scan(pd.Series([1.0, np.nan] * 20))  # its gaps say something
    refused("more than 1000 different values", scan, pd.Series(map(str, range(2000))))
    refused("holds dates", scan, pd.Series(pd.date_range("2020", periods=50)))
    refused("needs all rows in memory", scan, pd.Series(range(50)), "supervised")


def test_without_the_sketch_library_many_values_are_refused(rng, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasketches", None)
    refused('pip install "discreet.large."', scan, pd.Series(rng.normal(size=20_000)))
