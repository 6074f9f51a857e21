"""The known distributions against slow twins that follow the paper's text word for word."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from support.reproductions import everything_told

from discreet.mapping.mapping import Mapping
from research.paper.synthetic import (
    correlated,
    exact_figures,
    four_sensors,
    m_ary,
    tables_by_reading,
)

NOISE = (-1, 0, 1)


def paper_readings(m, h, g, noise):
    """X^t for h in {-1, 1}, as the paper writes it; sensors are counted from 1."""
    readings = [m * (h + 1) + 2 * (g + 1) + noise[t - 1] for t in (1, 2, 3, 4)]
    for t in range(5, 5 + m):
        heard = (g - h / 2 - 0.5) % m == t - 5
        readings.append(h + noise[t - 1] if heard else 0)
    return readings


def every_row(m):
    """All (h, g, readings), equally likely."""
    for h, g in product((-1, 1), range(m)):
        for noise in product(NOISE, repeat=4 + m):
            yield (h + 1) // 2, g, paper_readings(m, h, g, noise)


def slow_errors(chances, n_classes):
    """Bayes errors from p(h, g, output), given as a dictionary."""
    found = []
    for place, size in ((0, 2), (1, n_classes)):
        best = Counter()
        for k in range(size):
            sums = Counter()
            for key, chance in chances.items():
                if key[place] == k:
                    sums[key[2]] += chance
            for output, chance in sums.items():
                best[output] = max(best[output], chance)
        found.append(1 - sum(best.values()))
    return found


def test_tables_on_the_m_ary_case_have_the_errors_of_all_rows_listed(rng):
    m, case = 2, m_ary(2)
    tables = [rng.dirichlet(np.ones(2), size=len(each)) for each in case.readings]
    rows = list(every_row(m))
    chances = Counter()
    for h, g, readings in rows:
        codes = [
            int(np.flatnonzero(v == x)[0]) for v, x in zip(case.readings, readings, strict=True)
        ]
        sent = np.ones(1)
        for table, code in zip(tables, codes, strict=True):
            sent = np.multiply.outer(sent, table[code]).ravel()
        for z, chance in enumerate(sent):
            chances[h, g, z] += chance / len(rows)
    figures = case.figures(tables)
    assert slow_errors(chances, m) == pytest.approx([figures.public_error, figures.private_error])


@pytest.mark.parametrize("m", [2, 3])
def test_raw_readings_of_the_m_ary_case_have_the_errors_of_all_rows_listed(m):
    rows = list(every_row(m))
    chances = Counter()
    for h, g, readings in rows:
        chances[h, g, tuple(readings)] += 1 / len(rows)
    figures = m_ary(m).raw_figures()
    assert slow_errors(chances, m) == pytest.approx([figures.public_error, figures.private_error])
    assert figures.epsilon == np.inf


@pytest.mark.parametrize(
    "case", [m_ary(3), four_sensors([0.05, 0.45, 0.0, 0.5])], ids=["m", "four"]
)
def test_draws_follow_the_distribution(case):
    readings, h, g = case.draw(60_000, 0)
    known = case.distribution
    for cell, (public, private) in enumerate(zip(known.public, known.private[0], strict=True)):
        rows = ((h == public) & (g == private)).to_numpy()
        assert rows.mean() == pytest.approx(known.weights[cell, cell], abs=0.01)
        for name, values, given in zip(case.sensors, case.readings, known.profiles, strict=True):
            drawn = readings[name].to_numpy()[rows]
            shares = [(drawn == value).mean() for value in values]
            np.testing.assert_allclose(shares, given[cell], atol=0.03)


def test_sensors_draw_independently_given_the_facts():
    readings, h, g = correlated(0.0).draw(40_000, 1)
    inside = readings[(h == 0) & (g == 0)]
    assert abs(inside.corr().to_numpy()[np.triu_indices(4, 1)]).max() < 0.03


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.8])
def test_both_ways_to_the_exact_figures_agree(correlation, rng):
    tables = [rng.dirichlet(np.ones(2), size=9) for _ in range(4)]
    found, known = correlated(correlation).figures(tables), exact_figures(tables, correlation)
    assert found.public_error == pytest.approx(known.public_error)
    assert found.risk == pytest.approx(known.risk) == found.private_error
    assert found.epsilon == pytest.approx(known.epsilon)


def test_raw_readings_at_correlation_0_have_the_known_errors():
    figures = correlated(0.0).raw_figures()
    assert figures.public_error == pytest.approx(0.0031, abs=5e-5)
    assert figures.private_error == pytest.approx(0.0093, abs=5e-5)
    by_listing = correlated(0.0).figures([np.eye(9)] * 4)
    assert by_listing.public_error == pytest.approx(figures.public_error)
    assert by_listing.private_error == pytest.approx(figures.private_error)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_perfect_privacy_at_one_in_162_exists_for_every_m(m):
    """A loud sensor says 1 for certain if H is low and with a third, whatever G, if it is high."""
    first = np.zeros(4 * m + 1)  # P(z = 1) for readings 1 to 4m + 1
    first[: 2 * m + 1] = 1.0
    first[2 * m + 3 : 2 * m + 5] = 0.5
    first[2 * m + 6 :: 2] = 0.5
    loud, silent = np.stack([first, 1 - first], axis=1), np.full((5, 2), 0.5)
    figures = m_ary(m).figures([loud] * 4 + [silent] * m)
    assert figures.public_error == pytest.approx(1 / 162)
    assert figures.risk == pytest.approx(0.5)
    assert figures.private_error == pytest.approx(1 - 1 / m)
    assert figures.epsilon == pytest.approx(0.0, abs=1e-12)


def test_tables_of_a_mapping_follow_its_own_codes():
    case = four_sensors([0.25] * 4)
    readings, h, g = case.draw(200, 0)
    mapping = everything_told().fit(readings, h, private=g).mapping_
    assert isinstance(mapping, Mapping)
    for ours, theirs in zip(case.tables(mapping), tables_by_reading(mapping), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    figures, raw = case.figures(case.tables(mapping)), case.raw_figures()
    assert figures.public_error == pytest.approx(raw.public_error)


def test_the_skewed_prior_has_the_printed_correlation():
    known = four_sensors([0.05, 0.45, 0.0, 0.5]).distribution
    prior, h, g = known.weights.sum(axis=0), known.public, known.private[0]
    mean_h, mean_g = prior @ h, prior @ g
    spread = np.sqrt((prior @ h**2 - mean_h**2) * (prior @ g**2 - mean_g**2))
    assert (mean_h, mean_g) == pytest.approx((0.5, 0.95))
    assert (prior @ (h * g) - mean_h * mean_g) / spread == pytest.approx(0.23, abs=0.005)
    silent = [np.full((9, 2), 0.5)] * 4
    assert four_sensors([0.05, 0.45, 0.0, 0.5]).figures(silent).private_error == pytest.approx(0.05)
