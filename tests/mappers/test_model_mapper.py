import numpy as np
import pandas as pd
import pytest

from discreet import Mapping, ModelMapper
from discreet.errors import InputError, UninformativeMappingWarning, UnmetRequestWarning
from research.paper.synthetic import draw_table, exact_figures, tables_by_reading

pytestmark = pytest.mark.slow


def figures_of(fitted, correlation):
    return exact_figures(tables_by_reading(fitted.mapping_), correlation)


def test_it_comes_close_to_the_optimum_and_delivers_what_was_asked():
    """Correlation 0.2, R of 0.44: the optimum is 0.056; NPO ends at twice that."""
    found = []
    for seed in range(2):
        X, h, g = draw_table(1000, 0.2, seed)
        fitted = ModelMapper(max_advantage=0.06, n_restarts=2, random_state=seed)
        found.append(figures_of(fitted.fit(X, h, private=g), 0.2))
        expected = fitted.expected_
        assert expected.met and expected.advantage + expected.advantage_error <= 0.06
    assert np.mean([each.risk for each in found]) > 0.44 - 0.015
    assert np.mean([each.public_error for each in found]) < 0.056 + 0.02


def test_perfect_privacy_costs_next_to_nothing_where_the_facts_are_independent():
    X, h, g = draw_table(1000, 0.0, 0)
    fitted = ModelMapper(privacy_ratio=0.99, n_restarts=2, random_state=0).fit(X, h, private=g)
    figures = figures_of(fitted, 0.0)
    assert figures.risk > 0.47 and figures.public_error < 0.03
    assert fitted.private_risk_ >= fitted.threshold_ - 1e-9 == pytest.approx(0.495 - 1e-9)


def test_copies_of_a_sensor_do_not_fool_it(rng):
    h, g = rng.integers(2, size=(2, 800))
    reading = 2 * g + h + rng.integers(3, size=800)
    X = pd.DataFrame({name: reading for name in "abcd"})
    fitted = ModelMapper(max_advantage=0.1, n_restarts=2, random_state=0).fit(X, h, private=g)
    assert fitted.model_.share > 0.5
    codes = fitted.mapping_.encode(X)
    outputs = np.ones((800, 1))
    for t, table in enumerate(fitted.mapping_.tables):
        outputs = (outputs[:, :, None] * table[codes[:, t]][:, None, :]).reshape(800, -1)
    given = np.stack([outputs[g == k].mean(axis=0) for k in (0, 1)])
    assert 0.25 * np.abs(given[0] - given[1]).sum() < 0.13


def test_epsilon_and_ldp_are_kept_by_the_integers_that_ship():
    X, h, g = draw_table(300, 0.2, 0)
    fitted = ModelMapper(ldp_epsilon=1.0, n_restarts=1, random_state=0).fit(X, h, private=g)
    assert fitted.structural_epsilon_ <= 4 * 1.0
    fitted = ModelMapper(epsilon=1.0, n_restarts=1, n_folds=2, random_state=0)
    with pytest.warns(UnmetRequestWarning, match="at most epsilon 1 was asked for"):
        fitted.fit(X, h, private=g)
    assert figures_of(fitted, 0.2).epsilon < 1.0 + 0.3
    # A hundred rows in a fold cannot show what is rare: the epsilon that they show is larger.
    assert fitted.expected_.met is False and not fitted.expected_.silent
    assert fitted.expected_.epsilon + fitted.expected_.epsilon_error > 1.0


def test_several_private_facts_and_three_classes(rng):
    n = 600
    h, g, k = rng.integers(2, size=n), rng.integers(3, size=n), rng.integers(2, size=n)
    X = pd.DataFrame({c: 6 * h + 2 * g + k + rng.integers(2, size=n) for c in "abc"})
    private = pd.DataFrame({"g": g, "k": k})
    fitted = ModelMapper(privacy_ratio=0.9, n_bins=13, n_restarts=1, random_state=0)
    fitted.fit(X, h, private=private)
    codes = fitted.mapping_.encode(X)
    sent = [t[codes[:, i]] for i, t in enumerate(fitted.mapping_.tables)]
    outputs = np.einsum("ni,nj,nk->nijk", *sent).reshape(n, -1)
    for fact, classes in ((g, 3), (k, 2)):
        given = [outputs[fact == c].mean(axis=0) for c in range(classes)]
        worst = min(
            0.5 * np.minimum(a, b).sum() for i, a in enumerate(given) for b in given[i + 1 :]
        )
        assert worst > 0.4
    assert fitted.score(X, h) > 0.8


def test_a_seed_gives_one_mapping_and_the_file_tells_the_method(tmp_path):
    X, h, g = draw_table(120, 0.2, 0)
    first, second = (
        ModelMapper(n_restarts=1, random_state=3).fit(X, h, private=g).mapping_ for _ in range(2)
    )
    assert first.id == second.id and first.design.method == "model"
    first.save(tmp_path / "m.json")
    assert Mapping.load(tmp_path / "m.json").id == first.id


def test_noise_is_not_called_useful(rng):
    X = pd.DataFrame(rng.integers(4, size=(100, 4)), columns=list("abcd"))
    h, g = rng.integers(2, size=(2, 100))
    with pytest.warns(UninformativeMappingWarning):
        assert not ModelMapper(n_restarts=1, random_state=0).fit(X, h, private=g).useful_


def test_more_outputs_than_can_be_listed_are_refused(rng):
    X = pd.DataFrame(rng.integers(2, size=(40, 22)))
    h, g = rng.integers(2, size=(2, 40))
    with pytest.raises(InputError, match="4194304 joint outputs"):
        ModelMapper(random_state=0).fit(X, h, private=g)
