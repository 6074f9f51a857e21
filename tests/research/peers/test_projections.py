import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from support.helpers import refused

from discreet.errors import MissingPrivateError
from research.paper.synthetic import draw_table
from research.peers.features import CodeFeatures
from research.peers.projections import DCA, MDR, RIDGE, RUCA
from research.peers.svm import rbf_svm, svm_error

PROJECTIONS = (DCA(), MDR(), RUCA(1.0), RUCA(100.0), RUCA(1000.0))
each_projection = pytest.mark.parametrize("projection", PROJECTIONS, ids=repr)


def mixed(n=200, classes=2, seed=0):
    """Two numeric sensors and one of categories, with a public and a private fact."""
    rng = np.random.default_rng(seed)
    h, g = rng.integers(classes, size=n), rng.integers(3, size=n)
    room = np.array(["bath", "bed", "hall"])[np.where(rng.random(n) < 0.7, g, h % 3)]
    X = pd.DataFrame(
        {"level": h + rng.normal(size=n), "sound": 2 * g + rng.normal(size=n), "room": room}
    )
    return X, pd.Series(h, name="h"), pd.Series(g, name="g")


# -- the eigenproblem, by brute force ------------------------------------------------


def loop_scatters(features, labels):
    """Return the total scatter and that between classes, row by row and class by class."""
    mean = sum(features) / len(features)
    total = sum(np.outer(row - mean, row - mean) for row in features)
    between = np.zeros_like(total)
    for k in set(labels):
        own = features[np.asarray(labels) == k]
        gap = own.mean(axis=0) - mean
        between += len(own) * np.outer(gap, gap)
    return total, between


def matrices(projection, X, h, g):
    """Return A and B of a method as MATH.md writes them."""
    features = CodeFeatures().fit(X, h).transform(X)
    total, public = loop_scatters(features, h)
    _, private = loop_scatters(features, g)
    ridge = RIDGE * np.linalg.eigvalsh(total - public).max() * np.eye(len(total))
    if isinstance(projection, RUCA):
        return public, total + ridge + projection.private_weight * private
    return public, (total if isinstance(projection, DCA) else private) + ridge


@each_projection
@pytest.mark.parametrize("classes", [2, 3])
def test_the_directions_solve_the_generalised_eigenproblem(projection, classes):
    X, h, g = mixed(classes=classes)
    fitted = projection.fit(X, h, private=g)
    a, b = matrices(projection, X, h, g)
    values = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)[::-1]
    np.testing.assert_allclose(fitted.eigenvalues_, values[: classes - 1], rtol=1e-9)
    for value, w in zip(fitted.eigenvalues_, fitted.directions_.T, strict=True):
        np.testing.assert_allclose(a @ w, value * (b @ w), atol=1e-8 * np.abs(a @ w).max())


@each_projection
def test_no_direction_has_a_larger_ratio(projection, rng):
    X, h, g = mixed()
    fitted = projection.fit(X, h, private=g)
    a, b = matrices(projection, X, h, g)
    tried = rng.normal(size=(5000, len(a)))
    tried[:2500] = fitted.directions_[:, 0] * (1 + 0.1 * tried[:2500])  # and the neighbours
    ratios = np.einsum("ni,ij,nj->n", tried, a, tried) / np.einsum("ni,ij,nj->n", tried, b, tried)
    assert ratios.max() <= fitted.eigenvalues_[0] * (1 + 1e-9)


def test_a_higher_price_never_brings_more_private_scatter():
    X, h, g = mixed()
    features = CodeFeatures().fit(X, h).transform(X)
    _, private = loop_scatters(features, g)
    _, public = loop_scatters(features, h)
    shares = []
    for weight in (1e-9, 1.0, 100.0, 1000.0):
        w = RUCA(weight).fit(X, h, private=g).directions_[:, 0]
        shares.append((w @ private @ w) / (w @ public @ w))
    assert np.all(np.diff(shares) <= 1e-12)
    assert shares[-1] < 0.1 * shares[0]


def test_ruca_without_a_price_is_dca():
    X, h, g = mixed()
    np.testing.assert_allclose(
        RUCA(1e-12).fit(X, h, private=g).transform(X), DCA().fit(X, h).transform(X), atol=1e-9
    )


@each_projection
def test_neither_the_order_of_rows_nor_that_of_sensors_matters(projection, rng):
    X, h, g = mixed()
    first = projection.fit(X, h, private=g).transform(X)
    order = rng.permutation(len(X))
    shuffled = projection.fit(X.iloc[order], h.iloc[order], private=g.iloc[order]).transform(X)
    np.testing.assert_allclose(shuffled, first, rtol=1e-7, atol=1e-9)
    turned = X[["room", "level", "sound"]]
    again = projection.fit(turned, h, private=g).transform(turned)
    np.testing.assert_allclose(again, first, rtol=1e-7, atol=1e-9)


@each_projection
def test_names_of_classes_and_categories_do_not_matter(projection):
    X, h, g = mixed()
    first = projection.fit(X, h, private=g).transform(X)
    other = X.assign(room=X["room"].map({"bath": "z", "bed": "a", "hall": "m"}))
    again = projection.fit(other, h.map({0: "no", 1: "yes"}), private=5 - g).transform(other)
    np.testing.assert_allclose(np.abs(again), np.abs(first), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("method", [MDR, RUCA])
def test_several_private_facts_add_up(method):
    X, h, g = mixed()
    twice = pd.DataFrame({"g": g, "again": g})
    other = pd.DataFrame({"g": g, "parity": np.arange(len(X)) % 2})
    one, two, both = (
        method().fit(X, h, private=fact).directions_[:, 0] for fact in (g, other, twice)
    )
    assert not np.allclose(one, two, rtol=1e-3)
    assert not np.allclose(one, both, rtol=1e-3)


def test_classes_that_do_not_scatter_and_constant_readings_still_project():
    h = np.arange(40) % 2
    for readings in (h, np.ones(40)):
        X = pd.DataFrame({"a": readings, "b": readings})
        for projection in (DCA(), MDR()):
            projected = projection.fit(X, h, private=np.arange(40) // 20).transform(X)
            assert np.all(np.isfinite(projected))


# -- inputs --------------------------------------------------------------------------


@pytest.mark.parametrize("method", [MDR, RUCA])
def test_the_private_fact_is_required_where_it_matters(method):
    X, h, _ = mixed()
    with pytest.raises(MissingPrivateError, match="private="):
        method().fit(X, h)


def test_dca_does_not_look_at_the_private_fact():
    X, h, g = mixed()
    np.testing.assert_array_equal(
        DCA().fit(X, h, private=g).directions_, DCA().fit(X, h).directions_
    )


@pytest.mark.parametrize(
    ("projection", "message"),
    [
        (DCA(categories="ordinal"), "categories must be one of"),
        (RUCA(0.0), "private_weight must be greater than 0"),
        (RUCA("much"), "private_weight must be a number"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(projection, message):
    X, h, g = mixed()
    refused(message, projection.fit, X, h, private=g)


def test_ordered_codes_are_one_number_and_categories_indicators():
    X = pd.DataFrame(
        {"level": [1.0, 2.0, 3.0, np.nan] * 5, "room": ["bed", "hall", None, "bed"] * 5}
    )
    y = [0, 1] * 10
    numbers = CodeFeatures().fit(X, y).transform(X.iloc[:4])
    np.testing.assert_array_equal(numbers, [[0, 1, 0], [1, 0, 1], [2, 0, 0], [1, 1, 0]])
    coded = CodeFeatures(categories="codes").fit(X, y)
    np.testing.assert_allclose(
        coded.transform(X.iloc[:4]), [[0, 0], [1, 1], [2, 1 / 3], [1, 0]], atol=1e-12
    )
    new = pd.DataFrame({"level": [2.0], "room": ["cellar"]})  # never seen: no category
    np.testing.assert_array_equal(CodeFeatures().fit(X, y).transform(new), [[1, 0, 0]])


def test_sensors_without_a_single_reading_are_refused():
    X = pd.DataFrame({"room": pd.Series([None] * 20, dtype=object)})
    refused("nothing to hand on", DCA().fit, X, [0, 1] * 10)


def test_pandas_output_has_names():
    X, h, _ = mixed()
    fitted = DCA().set_output(transform="pandas").fit(X, h)
    assert list(fitted.transform(X).columns) == ["dca0"]


# -- with an SVM on top --------------------------------------------------------------


def test_an_svm_answers_in_one_pipeline():
    X, h, g = mixed(400)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(MDR().set_fit_request(private=True), rbf_svm())
        pipeline.fit(X[:200], h[:200], private=g[:200])
    assert pipeline.score(X[200:], h[200:]) > 0.6


def test_projections_hide_from_the_attacker_what_raw_readings_tell():
    X, h, g = draw_table(1000, 0.0, 0)
    old, new = slice(0, 300), slice(300, None)
    errors = {}
    for method in (CodeFeatures(), DCA(), MDR(), RUCA()):
        fitted = method.fit(X[old], h[old], private=g[old])
        errors[type(method).__name__] = [
            svm_error(fitted, X[old], fact[old], X[new], fact[new]) for fact in (h, g)
        ]
    assert errors["CodeFeatures"][0] < 0.02
    assert errors["CodeFeatures"][1] < 0.03
    for name in ("MDR", "RUCA"):
        assert errors[name][1] > 0.1
    assert errors["DCA"][0] < 0.05
