import numpy as np
import pytest
from support.helpers import refused
from support.optimum_cases import SIZES, independent, random_rows, random_tables

from discreet.leakage.joint_outputs import output_probabilities
from research.optimum.distribution import Distribution


def as_rows(distribution):
    """The same distribution as a weighted table of all codes, cell by cell."""
    codes = np.array(list(np.ndindex(*SIZES)))
    joint = distribution.joint_outputs([np.eye(size) for size in SIZES])
    n_cells = len(joint)
    return Distribution.from_rows(
        np.tile(codes, (n_cells, 1)),
        np.repeat(distribution.public, len(codes)),
        [np.repeat(fact, len(codes)) for fact in distribution.private],
        SIZES,
        joint.ravel(),
    )


def test_rows_are_averaged_cell_by_cell(rng):
    codes, public, private = random_rows(rng)
    distribution, tables = Distribution.from_rows(codes, public, private, SIZES), random_tables(rng)
    found, sent = distribution.joint_outputs(tables), output_probabilities(tables, codes)
    for cell, (h, a, b) in enumerate(zip(distribution.public, *distribution.private, strict=True)):
        rows = (public == h) & (private[0] == a) & (private[1] == b)
        np.testing.assert_allclose(found[cell], sent[rows].sum(axis=0) / len(codes), atol=1e-15)


def test_rows_with_the_same_codes_share_a_profile(rng):
    codes, public, private = random_rows(rng, 200)
    distribution = Distribution.from_rows(codes, public, private, SIZES)
    assert len(distribution.weights) == len(np.unique(codes, axis=0))


def test_independent_sensors_are_the_same_as_all_their_rows(rng):
    distribution, tables = independent(rng), random_tables(rng)
    np.testing.assert_allclose(
        distribution.joint_outputs(tables), as_rows(distribution).joint_outputs(tables), atol=1e-15
    )


def test_a_mixture_is_the_same_as_its_rows(rng):
    first, tables = independent(rng), random_tables(rng)
    codes, public, private = random_rows(rng)
    second = Distribution.from_rows(codes, public, private[1:], SIZES)
    mixed = first.mixed_with(second, 0.3)
    found = {
        (h, g): p
        for h, g, p in zip(mixed.public, mixed.private[0], mixed.joint_outputs(tables), strict=True)
    }
    for part, share in ((as_rows(first), 0.7), (second, 0.3)):
        cells = zip(part.public, part.private[0], part.joint_outputs(tables), strict=True)
        for h, g, p in cells:
            found[h, g] = found[h, g] - share * p
    np.testing.assert_allclose(list(found.values()), 0, atol=1e-15)


def test_cells_that_only_one_side_knows_stay_in_the_mixture():
    one = Distribution.from_rows(np.array([[0]]), np.array([0]), [np.array([0])], [2])
    other = Distribution.from_rows(np.array([[1]]), np.array([1]), [np.array([2])], [2])
    mixed = one.mixed_with(other, 0.25)
    assert mixed.weights.sum(axis=0).tolist() == [0.75, 0.25]
    assert mixed.private[0].tolist() == [0, 2]


def test_given_rows_condition_on_the_class(rng):
    distribution, tables = independent(rng), random_tables(rng)
    given = distribution.given_rows(distribution.private[0]) @ distribution.joint_outputs(tables)
    np.testing.assert_allclose(given.sum(axis=1), 1)


def test_cells_that_never_occur_are_left_out():
    given = [np.eye(3)]
    distribution = Distribution.independent(
        given, np.array([0.5, 0.0, 0.5]), np.array([0, 1, 1]), [np.array([0, 1, 2])]
    )
    assert distribution.private[0].tolist() == [0, 2]


def test_what_does_not_fit_is_refused(rng):
    whole = independent(rng)
    half = 0.5 * whole.weights
    refused("weights must add up to 1", Distribution, half, whole.profiles, whole.public, ())
    short = (whole.profiles[0][:2],)
    refused("profiles where there are", Distribution, whole.weights, short, whole.public, ())
    refused("one class for each", Distribution, whole.weights, whole.profiles, whole.public[:2], ())
    other = Distribution.from_rows(np.array([[0]]), np.array([0]), [np.array([0])], [2])
    refused("the same codes on both sides", whole.mixed_with, other, 0.5)
    with pytest.raises(ValueError, match="sensor 0 must add up"):
        Distribution(whole.weights, (2 * whole.profiles[0],), whole.public, ())
