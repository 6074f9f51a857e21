"""Distances between classes and their errors, against slow twins."""

import numpy as np
import pytest
from support.leaking_rows import moved_without_a_group

from discreet.design import class_distances
from discreet.design.attacker_views import View


def distance_of_pairs(shown, own, groups):
    """The slow twin: products of two rows of different groups, averaged over all such pairs."""
    total = 0.0
    for k, first in enumerate(own):
        for m, second in enumerate(own):
            apart = [(i, j) for i in first for j in second if groups[i] != groups[j]]
            product = np.mean([shown[i] @ shown[j] for i, j in apart])
            total += ((k == m) - 1 / len(own)) / len(own) * product
    return total


@pytest.mark.parametrize("sizes", [(2, 3, 5, 40), (1, 4), (8,) * 6], ids=str)
def test_distances_are_of_pairs_of_groups_and_spread_as_without_each_group(sizes):
    rng = np.random.default_rng(7)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), 3 * np.array(sizes)))
    shown = rng.random((len(groups), 5))
    index = np.arange(len(groups)) % 3
    own = [np.flatnonzero(index == k) for k in range(3)]
    means = np.stack([shown[rows].mean(axis=0) for rows in own])
    keep = (np.eye(3) - 1 / 3) / np.sqrt(3)
    weights, parts = class_distances._by_group(View(shown, None, np.zeros(5)), own, groups, np.copy)
    bias = class_distances._shared_by_groups(weights, parts, keep)
    assert np.sum((keep @ means) ** 2) - bias == pytest.approx(
        distance_of_pairs(shown, own, groups)
    )
    found = class_distances._moved_by_groups(weights, parts, keep)
    (moves,) = found.moves
    np.testing.assert_allclose(moves, -moved_without_a_group(shown, own, groups), atol=1e-12)


@pytest.mark.parametrize(("columns", "within"), [(6, 1e-9), (300, 0.03)])
def test_traces_of_noise_are_those_of_its_whole_covariance(columns, within):
    """With many columns, pairs of some of the rows stand for all: 500 tell it to a few percent."""
    rng = np.random.default_rng(12)
    keep = (np.eye(3) - 1 / 3) / np.sqrt(3)
    scales = rng.random((3, columns)) ** 2
    parts = [(keep[:, k], rng.normal(size=(900, columns)) * scales[k]) for k in range(3)]
    rows = np.concatenate([(share[:, None] * moves[:, None, :]) for share, moves in parts])
    rows = rows.reshape(len(rows), -1)
    noise, centres = class_distances._Noise(parts), rng.normal(size=(3, columns))
    assert noise.trace() == pytest.approx(np.sum(rows**2))
    assert noise.along(centres) == pytest.approx(np.sum((rows @ centres.ravel()) ** 2))
    assert noise.squared_trace() == pytest.approx(np.sum((rows @ rows.T) ** 2), rel=within)


@pytest.mark.parametrize("signs", [(1, 1, -1), (-1, 1, 1), (-1, -1, -1)], ids=str)
def test_how_libraries_choose_eigenvectors_is_no_matter(signs, monkeypatch):
    centres = np.random.default_rng(0).normal(size=(3, 8)) * 0.03
    gain, eigh = class_distances._gain_normal(centres), np.linalg.eigh

    def other_signs(matrix):
        value, vector = eigh(matrix)
        return value, vector * signs

    monkeypatch.setattr(np.linalg, "eigh", other_signs)
    assert class_distances._gain_normal(centres) == pytest.approx(gain, rel=1e-9)
