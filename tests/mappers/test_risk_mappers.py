import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from support.helpers import refused

from discreet import BayesErrorMapper, Mapping, NDDMapper, NPOMapper
from discreet.design.kernels import AnovaKernel, ProductKernel
from discreet.design.left_out import Parts
from discreet.errors import (
    BlindKernelWarning,
    InputError,
    MissingPrivateError,
    TableWarning,
    UninformativeMappingWarning,
)
from discreet.leakage.exact import information_epsilon, pair_risk
from discreet.mappers import auto_mapper, base
from research.paper.synthetic import (
    SENSORS,
    draw_table,
    exact_figures,
    exact_joint,
    tables_by_reading,
)

MAPPERS = (NPOMapper, NDDMapper, BayesErrorMapper)
each_mapper = pytest.mark.parametrize("mapper", MAPPERS)
NAMES = list(SENSORS)
HALF = np.array([0.5, 0.5])


@pytest.fixture
def no_estimate(monkeypatch):
    """Leave out what is expected of new rows: it takes longest, comes last and changes no table."""
    for module in (base, auto_mapper):
        monkeypatch.setattr(module, "leave_out", lambda *_, **__: Parts())


tables_only = pytest.mark.usefixtures("no_estimate")


def home(n=200, correlation=0.0, seed=0):
    X, h, g = draw_table(n, correlation, seed)
    public = pd.Series(np.where(h == 1, "fall", "quiet"), name="state")
    return X, public, pd.Series(np.where(g == 1, "Ben", "Ada"), name="who")


def figures_of(fitted):
    return exact_figures(tables_by_reading(fitted.mapping_), 0.0)


@each_mapper
def test_a_missing_private_fact_is_an_error(mapper):
    X, y, _ = home()
    with pytest.raises(MissingPrivateError, match="private="):
        mapper().fit(X, y)


@each_mapper
@pytest.mark.slow
@tables_only
def test_symbols_decisions_and_probabilities_have_the_right_form(mapper):
    X, y, g = home()
    fitted = mapper(random_state=0).fit(X, y, private=g)
    Z = fitted.transform(X)
    assert Z.shape == X.shape
    assert set(np.unique(Z)) <= {0, 1}
    assert set(fitted.predict(X)) <= {"fall", "quiet"}
    assert list(fitted.classes_) == ["fall", "quiet"]
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.fuse(Z), fitted.predict(X))
    decided = fitted.mapping_.fusion.choose(np.log(proba))
    np.testing.assert_array_equal(fitted.classes_[decided], fitted.predict(X))
    assert fitted.score(X, y) > 0.8


@pytest.mark.slow
@tables_only
def test_the_mapping_names_facts_and_sensors():
    X, y, g = home()
    mapping = NPOMapper(random_state=0).fit(X, y, private=g).mapping_
    assert mapping.names == NAMES
    assert mapping.public.name == "state"
    assert mapping.public.classes == ("fall", "quiet")
    assert [fact.name for fact in mapping.private] == ["who"]
    assert mapping.design.method == "npo"
    assert mapping.design.rows == 200


@each_mapper
@pytest.mark.slow
@tables_only
def test_what_is_saved_is_what_was_learned(mapper, tmp_path):
    X, y, g = home()
    mapping = mapper(random_state=0).fit(X, y, private=g).mapping_
    mapping.save(tmp_path / "home.json")
    loaded = Mapping.load(tmp_path / "home.json")
    assert loaded.id == mapping.id
    for a, b in zip(loaded.tables, mapping.tables, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@tables_only
def test_protection_costs_the_attacker_more_than_the_fusion_centre():
    X, y, g = home(600)
    protected = figures_of(NPOMapper(random_state=0).fit(X, y, private=g))
    exposed = figures_of(NDDMapper(random_state=0).fit(X, y, private=g))
    assert protected.risk > 0.45 > 0.36 > exposed.risk
    assert protected.public_error < 0.1


@pytest.mark.slow
@tables_only
def test_the_private_fact_does_not_influence_ndd():
    X, y, g = home()
    shuffled = g.sample(frac=1, random_state=1).reset_index(drop=True)
    first, second = (
        NDDMapper(random_state=0).fit(X, y, private=fact).mapping_.tables for fact in (g, shuffled)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@tables_only
def test_the_normalised_risk_guards_a_rare_class_that_the_bayes_error_gives_away():
    """The paper's skewed prior: one class in twenty, tied to the public fact."""
    rng = np.random.default_rng(0)
    n = 1000
    g = (rng.random(n) < 0.95).astype(int)
    h = np.where(g == 0, 0, rng.random(n) < 0.5 / 0.95).astype(int)
    X = pd.DataFrame({k: 2 + 4 * h + 2 * g + rng.integers(-1, 2, n) for k in "abcd"})

    def risk(mapper):
        fitted = mapper(random_state=0, privacy_ratio=0.95).fit(X, h, private=g)
        codes = fitted.mapping_.encode(X)
        sent = [t[codes[:, k]] for k, t in enumerate(fitted.mapping_.tables)]
        outputs = np.einsum("na,nb,nc,nd->nabcd", *sent).reshape(n, -1)
        return pair_risk(np.stack([outputs[g == k].mean(axis=0) for k in (0, 1)]))

    assert risk(NPOMapper) > 0.35
    assert risk(BayesErrorMapper) < risk(NPOMapper) - 0.02


def xor_home(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    h, g = rng.integers(2, size=(2, n))
    first = np.where(rng.random(n) < 0.7, h, 1 - h)  # some of the public fact
    X = pd.DataFrame({"a": first, "b": first ^ g, "c": np.where(rng.random(n) < 0.9, h, 1 - h)})
    return X, h, g


def xor_risk(mapper):
    """Return the true R: p(z|g) summed over all readings, not over the sample."""
    given = np.zeros((2, 8))
    for g in (0, 1):
        for h in (0, 1):
            for a in (0, 1):
                for c in (0, 1):
                    p = 0.5 * (0.7 if a == h else 0.3) * (0.9 if c == h else 0.1)
                    row = pd.DataFrame({"a": [a], "b": [a ^ g], "c": [c]})
                    codes = mapper.mapping_.encode(row)[0]
                    rows = [t[codes[k]] for k, t in enumerate(mapper.mapping_.tables)]
                    given[g] += p * np.einsum("i,j,k->ijk", *rows).ravel()
    return pair_risk(given)


@pytest.mark.slow
@tables_only
def test_the_product_kernel_sees_an_exclusive_or_that_the_count_kernel_does_not():
    X, h, g = xor_home(seed=4)
    product = NPOMapper(random_state=0).fit(X, h, private=g)
    with pytest.warns(BlindKernelWarning):
        count = NPOMapper(kernel="count", random_state=0).fit(X, h, private=g)
    assert xor_risk(product) >= 0.45
    assert xor_risk(count) < 0.45
    assert count.private_risk_ > 0.998 * np.log(2)  # and it reports next to perfect privacy
    assert product.score(X, h) > 0.8


@pytest.mark.slow
@pytest.mark.exhaustive  # twenty fits, to see two means
@tables_only
def test_the_papers_case_at_default_settings():
    """1000 rows, correlation 0, exact figures: R 0.48 at public error 0.05, or better.

    Asserted of the means over twenty draws: neither misses its target by more than its own
    standard error. To meet both outright is not asserted: which optimum a draw ends in depends on
    the rounding of the processor's linear algebra, and from one kind of processor to another the
    means move by about that much (docs/decisions/0001).
    """
    found = []
    for seed in range(20):
        X, y, g = home(1000, seed=seed)
        found.append(figures_of(NPOMapper(random_state=seed).fit(X, y, private=g)))
    risks = np.array([figures.risk for figures in found])
    errors = np.array([figures.public_error for figures in found])
    assert risks.mean() + _standard_error(risks) >= 0.48
    assert errors.mean() - _standard_error(errors) <= 0.05


def _standard_error(values):
    return values.std(ddof=1) / np.sqrt(len(values))


# -- what can be asked ---------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")  # few rows
@pytest.mark.parametrize("solver", ["gauss-seidel", "thorough"])
@pytest.mark.slow
@tables_only
def test_the_papers_solver_keeps_its_floor(solver):
    X, y, g = home(40)
    fitted = NPOMapper(solver=solver, kernel="count", privacy_ratio=0.98, random_state=0)
    with pytest.warns(BlindKernelWarning):
        fitted.fit(X[["x1", "x2"]], y, private=g)
    assert fitted.private_risk_ > fitted.threshold_ > 0


@pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")  # few rows
@pytest.mark.slow
@tables_only
def test_the_thorough_solver_never_ends_worse_than_the_papers():
    """Here through the mapper; ``test_npo`` tries every kernel and loss."""
    X, y, g = home(20, 0.3)
    parameters = {"privacy_ratio": 0.97, "reg": 0.02, "private_reg": 0.02, "n_bins": 3}
    papers, thorough = (
        NPOMapper(solver=solver, n_restarts=1, random_state=0, **parameters)
        .fit(X[["x1", "x2"]], y, private=g)
        .public_risk_
        for solver in ("gauss-seidel", "thorough")
    )
    assert thorough <= papers + 1e-9


@pytest.mark.slow
def test_max_advantage_is_met_on_new_rows_and_told():
    X, y, g = home(1000)
    fitted = NPOMapper(max_advantage=0.12, n_folds=3, random_state=0).fit(X, y, private=g)
    advantage = 0.5 - figures_of(fitted).risk
    expected = fitted.expected_
    assert expected.met
    assert fitted.useful_
    assert expected.advantage + expected.advantage_error <= 0.12
    # The estimate is of other mappings on other rows: 0.04 is four of its standard errors.
    assert advantage == pytest.approx(expected.advantage, abs=0.04)
    assert advantage <= 0.12
    assert fitted.mapping_.design.expected["advantage"] == expected.advantage


@pytest.mark.slow
def test_epsilon_limits_what_single_outputs_tell():
    X, y, g = home(1000)
    fitted = NPOMapper(epsilon=0.6, n_folds=3, random_state=0).fit(X, y, private=g)
    given = 2 * exact_joint(tables_by_reading(fitted.mapping_), 0.0).sum(axis=0)
    assert information_epsilon(given, HALF) <= 0.6
    assert fitted.expected_.met


@pytest.mark.slow
@tables_only
def test_ldp_epsilon_makes_the_structural_bound_finite_in_the_integers_that_ship():
    X, y, g = home(300)
    fitted = NPOMapper(ldp_epsilon=0.7, random_state=0).fit(X, y, private=g)
    for weights in fitted.mapping_.weights:
        assert weights.min() > 0
        assert np.log(weights.max(axis=0) / weights.min(axis=0)).max() <= 0.7
    assert fitted.structural_epsilon_ <= 4 * 0.7


@pytest.mark.slow
def test_asking_what_so_few_rows_cannot_show_is_told_and_ships_noise():
    X, y, g = home(60, correlation=0.9)
    with pytest.warns(UninformativeMappingWarning, match="with noise added or without"):
        fitted = NPOMapper(max_advantage=1e-6, random_state=0).fit(X, y, private=g)
    assert not fitted.expected_.met and fitted.expected_.silent
    for table in fitted.mapping_.tables:
        assert np.all(table == table[0])


@pytest.mark.slow
def test_asking_the_impossible_is_told_and_ships_a_constant_mapping(rng):
    """The sensors read the private fact alone, and every level tells something of it."""
    g = rng.integers(2, size=3000)
    X = pd.DataFrame({"a": g, "b": g})
    with (
        pytest.warns(UninformativeMappingWarning, match="no level of strictness kept"),
        pytest.warns(TableWarning, match="under another name"),
    ):
        fitted = NPOMapper(max_advantage=1e-6, n_folds=2, random_state=0).fit(X, g, private=g)
    assert not fitted.useful_ and not fitted.expected_.met
    for table in fitted.mapping_.tables:
        assert np.all(table == table[0])


def test_a_floor_that_leaves_nothing_to_say_is_told():
    rng = np.random.default_rng(0)
    y = pd.Series(rng.integers(2, size=300), name="state")
    X = pd.DataFrame({"a": y, "b": y})  # the public fact is the private one
    with (
        pytest.warns(UninformativeMappingWarning),
        pytest.warns(TableWarning, match="'state' is the public fact 'state' under another name"),
    ):
        fitted = NPOMapper(random_state=0, privacy_ratio=0.9999).fit(X, y, private=y)
    assert not fitted.useful_


@pytest.mark.slow
def test_noise_is_never_called_useful():
    """Eight sensors of pure noise: the rows that taught the tables would call them useful."""
    mappers = NPOMapper(n_restarts=1, random_state=0), NDDMapper(random_state=0)
    for seed, mapper in enumerate(mappers):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.integers(6, size=(100, 8)), columns=list("abcdefgh"))
        h, g = rng.integers(2, size=(2, 100))
        with pytest.warns(UninformativeMappingWarning, match="On rows left out"):
            mapper.fit(X, h, private=g)
        assert not mapper.useful_


def census_like(n=600, seed=0):
    """A public fact that 24 % of the rows have and three sensors say a little about."""
    rng = np.random.default_rng(seed)
    rich = rng.random(n) < 0.24
    X = pd.DataFrame({c: rng.binomial(3, 0.3 + 0.17 * rich) for c in "abc"})
    public = pd.Series(np.where(rich, ">50K", "<=50K"), name="income")
    return X, public, pd.Series(rng.integers(2, size=n), name="sex")


def shares_decided(fitted, X):
    decided = fitted.mapping_.fuse(fitted.mapping_.transform(X, np.random.default_rng(0)))
    return float(np.mean(decided == ">50K"))


@pytest.mark.slow
def test_where_a_class_is_rare_the_most_probable_one_answers_nothing_and_is_not_called_useful():
    X, y, g = census_like()
    noisy = {"ldp_epsilon": 0.6, "random_state": 0}  # so that no output makes riches likelier
    with pytest.warns(UninformativeMappingWarning, match="names '<=50K' whatever the symbols are"):
        likely = NPOMapper(decide="likely", **noisy).fit(X, y, private=g)
    assert not likely.useful_ and shares_decided(likely, X) == 0.0
    assert likely.expected_.public_error == pytest.approx(likely.expected_.guessing_error)
    balanced = NPOMapper(**noisy).fit(X, y, private=g)
    assert balanced.useful_ and 0.2 < shares_decided(balanced, X) < 0.8
    expected = balanced.expected_
    assert expected.balanced_low > 0.5 == expected.guessing_balanced_accuracy
    assert expected.public_error > expected.guessing_error == pytest.approx(0.24, abs=0.04)
    assert expected.raw_balanced_accuracy > expected.balanced_accuracy
    with pytest.warns(UninformativeMappingWarning):  # so dear to miss that it is named too often
        dear = NPOMapper(decide={">50K": 12}, **noisy).fit(X, y, private=g)
    assert dear.mapping_.fusion.decide.weights == (1.0, 12.0)
    assert shares_decided(dear, X) > shares_decided(balanced, X)
    # The rule is all that differs, and it survives the file.
    for other in (likely, dear):
        assert other.mapping_.sensors == balanced.mapping_.sensors
        again = Mapping.loads(other.mapping_.dumps())
        Z = balanced.mapping_.transform(X, np.random.default_rng(1))
        np.testing.assert_array_equal(again.decide(Z), other.mapping_.decide(Z))


def test_three_unequal_classes_are_all_decided():
    rng = np.random.default_rng(0)
    h = rng.choice(3, p=[0.75, 0.15, 0.1], size=900)
    X = pd.DataFrame(
        {c: np.where(rng.random(900) < 0.3, h, rng.integers(3, size=900)) for c in "ab"}
    )
    g = rng.integers(2, size=900)
    fitted = NDDMapper(n_symbols=3, random_state=0, n_restarts=1).fit(X, h, private=g)
    assert fitted.useful_ and min(fitted.expected_.decided) > 0.05
    assert fitted.expected_.guessing_balanced_accuracy == pytest.approx(1 / 3)
    likely = NDDMapper(n_symbols=3, random_state=0, n_restarts=1, decide="likely")
    likely.fit(X, h, private=g)
    assert likely.expected_.balanced_accuracy < fitted.expected_.balanced_accuracy
    assert likely.expected_.public_error < fitted.expected_.public_error


@pytest.mark.parametrize("decide", ["fair", {"poor": 2}, {">50K": 0}])
def test_a_rule_that_there_is_not_is_refused_before_the_work(decide):
    X, y, g = census_like(40)
    with pytest.raises(InputError, match="decide"):
        NPOMapper(decide=decide).fit(X, y, private=g)


@pytest.mark.slow
def test_every_fit_tells_what_to_expect_on_new_rows():
    X, y, g = home(600)
    fitted = NPOMapper(random_state=0).fit(X, y, private=g)
    figures = figures_of(fitted)
    assert fitted.expected_.met is None
    # Two folds of 300 rows: their standard errors are about 0.02.
    assert fitted.expected_.advantage == pytest.approx(0.5 - figures.risk, abs=0.05)
    assert fitted.expected_.public_error == pytest.approx(figures.public_error, abs=0.05)
    assert fitted.mapping_.design.expected["advantage"] == fitted.expected_.advantage


def test_rows_that_cannot_be_halved_leave_the_expectation_open():
    X, y, _ = home(30)
    alone = np.arange(30) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeMappingWarning)
        fitted = NDDMapper(random_state=0).fit(X, y, private=alone)
    assert fitted.expected_ is None
    assert fitted.mapping_.design.expected is None


@pytest.mark.parametrize(
    ("kernel", "said"),
    [("count", "each sensor by itself"), ("anova", "at most 2 sensors together, of 4")],
)
@pytest.mark.slow
@tables_only
def test_a_kernel_that_does_not_see_all_combinations_says_so(kernel, said):
    X, y, g = home(200)
    with pytest.warns(BlindKernelWarning, match=said):
        NPOMapper(kernel=kernel, random_state=0).fit(X, y, private=g)
    NPOMapper(kernel=AnovaKernel(degree=4), random_state=0).fit(X, y, private=g)  # sees all


@pytest.mark.parametrize("solver", ["gauss-seidel", "thorough"])
@pytest.mark.parametrize(
    ("mapper", "parameters", "named"),
    [
        (NPOMapper, {"epsilon": 1.0}, "epsilon"),
        (NPOMapper, {"ldp_epsilon": 1.0}, "ldp_epsilon"),
        (NPOMapper, {"max_advantage": 0.1}, "max_advantage"),
        (NPOMapper, {"relaxed": False}, "relaxed=False"),
        (NDDMapper, {}, "a design without a floor"),
    ],
)
def test_the_papers_solvers_refuse_what_they_do_not_know(solver, mapper, parameters, named):
    X, y, g = home(40)
    with pytest.raises(InputError, match=f"do not know {named}"):
        mapper(solver=solver, **parameters).fit(X, y, private=g)


@pytest.mark.slow
@tables_only
def test_several_private_facts_are_all_guarded():
    X, y, g = home(600)
    rng = np.random.default_rng(1)
    # A second fact that the public one gives away, four times in five.
    other = pd.Series(np.where(rng.random(600) < 0.8, y == "fall", y != "fall"), name="alone")
    both = pd.DataFrame({"who": g, "alone": other})
    one, two = (
        NPOMapper(privacy_ratio=0.95, random_state=0).fit(X, y, private=fact) for fact in (g, both)
    )
    assert [fact.name for fact in two.mapping_.private] == ["who", "alone"]

    def risk(fitted, fact):
        codes = fitted.mapping_.encode(X)
        sent = [t[codes[:, k]] for k, t in enumerate(fitted.mapping_.tables)]
        outputs = np.einsum("na,nb,nc,nd->nabcd", *sent).reshape(600, -1)
        return pair_risk(np.stack([outputs[fact == k].mean(axis=0) for k in fact.unique()]))

    assert risk(one, other) < 0.3
    assert risk(two, other) > 0.35
    assert risk(two, g) > 0.35


@pytest.mark.parametrize("pairs", ["all", "reference"])
@pytest.mark.slow
@tables_only
def test_a_private_fact_of_three_classes_is_guarded(pairs):
    rng = np.random.default_rng(0)
    n = 900
    h, g = rng.integers(2, size=n), rng.integers(3, size=n)
    X = pd.DataFrame({k: 4 * h + g + rng.integers(2, size=n) for k in "abc"})
    fitted = NPOMapper(pairs=pairs, privacy_ratio=0.99, random_state=0).fit(X, h, private=g)
    codes = fitted.mapping_.encode(X)
    sent = [t[codes[:, k]] for k, t in enumerate(fitted.mapping_.tables)]
    outputs = np.einsum("ni,nj,nk->nijk", *sent).reshape(n, -1)
    risk = pair_risk(np.stack([outputs[g == k].mean(axis=0) for k in range(3)]))
    assert risk > 0.42
    assert fitted.score(X, h) > 0.75


@pytest.mark.slow
@tables_only
def test_a_public_fact_of_three_classes_is_answered():
    rng = np.random.default_rng(0)
    n = 900
    h, g = rng.integers(3, size=n), rng.integers(2, size=n)
    X = pd.DataFrame({k: 2 * h + g + rng.integers(2, size=n) for k in "abcd"})
    fitted = NPOMapper(n_symbols=3, privacy_ratio=0.99, random_state=0).fit(X, h, private=g)
    assert list(fitted.classes_) == [0, 1, 2]
    assert fitted.score(X, h) > 0.6  # guessing gives 1/3


@pytest.mark.slow
@tables_only
def test_alphabets_and_symbol_counts_differ_by_sensor():
    rng = np.random.default_rng(0)
    n = 400
    h, g = rng.integers(2, size=(2, n))
    X = pd.DataFrame(
        {
            "level": h + rng.normal(size=n),
            "room": np.where(g == 1, "hall", rng.choice(["bath", "bed"], n)),
            "open": (h == 1) & (rng.random(n) < 0.8),
        }
    )
    X.loc[::7, "level"] = np.nan
    fitted = NPOMapper(n_symbols={"level": 3}, random_state=0).fit(X, h, private=g)
    assert fitted.mapping_.n_symbols == [3, 2, 2]
    assert [len(t) for t in fitted.mapping_.tables] == [11, 5, 4]
    strange = pd.DataFrame({"level": [np.nan], "room": ["cellar"], "open": [None]})
    assert fitted.transform(strange).shape == (1, 3)


@pytest.mark.slow
@tables_only
def test_more_outputs_than_can_be_listed_still_learn_and_decide():
    rng = np.random.default_rng(0)
    n = 150
    h, g = rng.integers(2, size=(2, n))
    X = pd.DataFrame({f"s{k}": 2 * h + g + rng.integers(2, size=n) for k in range(11)})
    fitted = NPOMapper(random_state=0, privacy_ratio=0.98, n_restarts=1).fit(X, h, private=g)
    assert fitted.mapping_.fusion.kind == "additive"
    assert fitted.score(X, h) > 0.8
    with pytest.raises(InputError, match="2048 outputs"):
        NPOMapper(relaxed=False).fit(X, h, private=g)


@pytest.mark.parametrize(
    ("kernel", "loss"),
    [
        ("anova", "logistic"),
        ("inverse-multiquadric", "exponential"),
        (AnovaKernel(3), "square"),
        (ProductKernel(0.4), "hinge"),
    ],
)
@pytest.mark.slow
@tables_only
def test_every_kernel_and_every_loss_learns(kernel, loss):
    """Their risks are compared with twins in all combinations, in ``test_risks``."""
    X, y, g = home(80)
    fitted = NPOMapper(kernel=kernel, loss=loss, privacy_ratio=0.95, n_restarts=1, random_state=0)
    fitted.fit(X[["x1", "x2"]], y, private=g)
    assert fitted.private_risk_ > fitted.threshold_
    assert fitted.score(X[["x1", "x2"]], y) > 0.7


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"privacy_ratio": 1.0}, "strictly between 0 and 1"),
        ({"privacy_ratio": "0.9"}, "must be a number"),
        ({"privacy_ratio": 0.9, "max_advantage": 0.1}, "one or the other"),
        ({"privacy_ratio": 0.9, "epsilon": 0.1}, "one or the other"),
        ({"max_advantage": 0}, "max_advantage"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"ldp_epsilon": 0.0}, "ldp_epsilon"),
        ({"reg": 0.0}, "reg"),
        ({"kernel": "gaussian"}, "kernel must be one of"),
        ({"loss": "log"}, "loss must be one of"),
        ({"solver": "newton"}, "solver must be one of"),
        ({"pairs": "some"}, "pairs must be one of"),
        ({"n_symbols": 1}, "at least 2"),
        ({"n_symbols": [2, 2]}, "4 sensors"),
        ({"n_symbols": {"attic": 2}}, "attic"),
        ({"n_restarts": 0}, "n_restarts"),
        ({"n_folds": 1}, "n_folds"),
        ({"relaxed": "no"}, "relaxed"),
        ({"binning": "magic"}, "magic"),
        ({"solver": "gauss-seidel", "ldp_epsilon": 1.0}, "solver='fast'"),
        ({"solver": "gauss-seidel", "relaxed": False}, "solver='fast'"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value(parameters, message):
    X, y, g = home(40)
    with pytest.raises(InputError, match=message):
        NPOMapper(**parameters).fit(X, y, private=g)


def test_ndd_refuses_promises_that_it_cannot_keep():
    X, y, g = home(40)
    with pytest.raises(InputError, match="protects nothing"):
        NDDMapper(max_advantage=0.1).fit(X, y, private=g)


@pytest.mark.parametrize(
    ("private", "message"),
    [
        (np.zeros(40), "one class only"),
        (np.arange(39) % 2, "39 rows"),
        (np.zeros((40, 2, 2)), "1 or 2 dimensions"),
        (pd.DataFrame(index=range(40)), "no columns"),
        (pd.Series([None] + ["a", "b"] * 19 + ["a"]), "missing"),
    ],
)
def test_an_unusable_private_fact_is_named(private, message):
    X, y, _ = home(40)
    with pytest.raises(InputError, match=message):
        NPOMapper().fit(X, y, private=private)


# -- reproducibility, pipelines, routing ------------------------------------------------


@each_mapper
@pytest.mark.slow
@tables_only
def test_one_seed_gives_one_id_and_another_seed_another(mapper):
    X, y, g = home()
    ids = [mapper(random_state=s).fit(X, y, private=g).mapping_.id for s in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.slow
@tables_only
def test_a_seed_repeats_the_symbols_and_none_draws_afresh():
    X, y, g = home()
    seeded = NPOMapper(random_state=0).fit(X, y, private=g)
    np.testing.assert_array_equal(seeded.transform(X), seeded.transform(X))
    fresh = clone(seeded).set_params(random_state=None).fit(X, y, private=g)
    assert not np.array_equal(fresh.transform(X), fresh.transform(X))


@pytest.mark.slow
@tables_only
def test_the_order_of_the_rows_does_not_matter():
    X, y, g = home()
    order = np.random.default_rng(0).permutation(len(X))
    first = NPOMapper(random_state=0).fit(X, y, private=g)
    second = NPOMapper(random_state=0).fit(X.iloc[order], y.iloc[order], private=g.iloc[order])
    for a, b in zip(first.mapping_.tables, second.mapping_.tables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


_LEARN = """
import json
from discreet import NPOMapper
from research.paper.synthetic import draw_table
X, h, g = draw_table(100, 0.2, 0)
fitted = NPOMapper(random_state=0, relaxed=False).fit(X, h, private=g)
print(json.dumps(fitted.mapping_.id))
"""


@pytest.mark.slow
def test_one_thread_and_two_give_the_same_id_of_the_risk_that_is_not_relaxed():
    found = []
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        env = os.environ | dict.fromkeys(names, threads)
        run = subprocess.run(
            [sys.executable, "-c", _LEARN], env=env, capture_output=True, text=True, check=True
        )
        found.append(json.loads(run.stdout))
    assert found[0] == found[1]


@pytest.mark.slow
@tables_only
def test_it_works_in_a_pipeline_with_routing():
    X, y, g = home()
    with sklearn.config_context(enable_metadata_routing=True):
        mapper = NPOMapper(random_state=0).set_fit_request(private=True)
        pipeline = make_pipeline(FunctionTransformer(lambda frame: frame * 2), mapper)
        pipeline.fit(X, y, private=g)
        assert pipeline.score(X, y) > 0.8
        assert pipeline.transform(X).shape == X.shape


@pytest.mark.slow
@tables_only
def test_it_works_in_cross_validate_with_routing_and_repeats():
    X, y, g = home()
    with sklearn.config_context(enable_metadata_routing=True):
        mapper = NPOMapper(random_state=0, n_restarts=1).set_fit_request(private=True)
        first, second = (
            cross_validate(mapper, X, y, cv=2, params={"private": g})["test_score"]
            for _ in range(2)
        )
    np.testing.assert_array_equal(first, second)
    assert first.mean() > 0.8


@pytest.mark.slow
@tables_only
def test_a_grid_search_can_tune_it():
    X, y, g = home()
    with sklearn.config_context(enable_metadata_routing=True):
        mapper = NPOMapper(random_state=0, n_restarts=1).set_fit_request(private=True)
        search = GridSearchCV(mapper, {"privacy_ratio": [0.9, 0.999]}, cv=2)
        search.fit(X, y, private=g)
    assert search.best_params_["privacy_ratio"] in (0.9, 0.999)


@pytest.mark.slow
@tables_only
def test_pandas_output_carries_the_sensor_names():
    X, y, g = home()
    fitted = NPOMapper(random_state=0).set_output(transform="pandas").fit(X, y, private=g)
    assert list(fitted.transform(X).columns) == NAMES


@pytest.mark.slow
def test_a_report_hears_of_progress_and_can_stop_the_work():
    X, y, g = home()
    heard = []

    def report(progress):
        heard.append(progress)
        return len(heard) >= 200

    fitted = NPOMapper(random_state=0).fit_reporting(X, y, g, report=report)
    assert fitted.stopped_
    assert len(heard) <= 201, "after the stop the closing estimates report once"
    assert fitted.private_risk_ > fitted.threshold_
    assert fitted.mapping_.design.parameters["stopped"] is True


def test_classes_that_a_file_cannot_hold_are_refused():
    X, y, _ = home(40)
    with pytest.raises(InputError, match="cannot hold"):
        NPOMapper().fit(X, y, private=np.where(np.arange(40) % 2, "a" * 5000, "b"))


@pytest.mark.parametrize("mapper", [NPOMapper(), BayesErrorMapper(), NDDMapper()])
def test_more_rows_than_the_method_is_for_are_refused(mapper):
    n = base.MOST_ROWS + 1
    X, h, g = np.zeros((n, 2), dtype=int), np.arange(n) % 2, np.arange(n) // 2 % 2
    refused("is for at most 20000 rows", mapper.fit, X, h, private=g)


class SearchBeganError(Exception):
    """Raised where a search would begin."""


@pytest.mark.parametrize("follow", [True, False], ids=["a state", "nothing"])
@pytest.mark.parametrize(("n_sensors", "looked_at"), [(12, False), (6, True)])
def test_dependence_is_hidden_where_outputs_are_too_many(
    follow, n_sensors, looked_at, rng, monkeypatch
):
    h, g, state = rng.integers(2, size=(3, 600))
    readings = state[:, None] * follow + rng.integers(3, size=(600, n_sensors))
    asked = []

    def search(*given, hidden, **more):
        asked.append(hidden)
        raise SearchBeganError

    monkeypatch.setattr(base, "LevelSearch", search)
    with pytest.raises(SearchBeganError):
        NPOMapper(max_advantage=0.05).fit(readings, h, private=pd.Series(g, name="g"))
    assert asked == [follow and not looked_at]
