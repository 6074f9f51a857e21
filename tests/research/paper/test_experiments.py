"""Every experiment: its printed figures, its smallest run, its picture."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from support.reproductions import (
    drill_file,
    drill_rows,
    everything_told,
    quick,
    result,
)

from discreet.mappers.randomized_response import RandomizedResponseMapper
from research.paper import adult, m_ary, measured_rows, opportunity, skewed_prior, uniform_prior
from research.paper.datasets import Labelled
from research.paper.experiment import ask, count_steps, run_experiment
from research.paper.measured_rows import Trial, measure_curators, measure_mapper, strongest_error
from research.paper.pictures import svg_of
from research.paper.synthetic import correlated
from research.reproduce import EXPERIMENTS

pytestmark = pytest.mark.slow

# --- What is printed -----------------------------------------------------------------------


def columns(printed, keys, setting=None):
    """Printed figures by method, in the order of the keys."""
    return {
        method: tuple(figures[key] for key in keys)
        for (where, method), figures in printed.items()
        if setting in (None, where)
    }


def test_the_skewed_prior_is_as_printed():
    assert columns(skewed_prior.PRINTED, ("public", "private", "risk", "epsilon")) == {
        "npo": (0.03, 0.05, 0.38, 1.08),
        "bayes-error": (0.02, 0.05, 0.24, 3.91),
    }


def test_the_m_ary_table_is_as_printed():
    for m, row in {
        3: {"npo": (0.0362, 0.65), "raw": (0.00377, 0.0121), "ndd": (0.0241, 0.13)},
        4: {"npo": (0.0272, 0.73), "raw": (0.0011, 0.00392), "ndd": (0.0185, 0.19)},
        5: {"npo": (0.0213, 0.79), "raw": (0.00302, 0.00422), "ndd": (0.0178, 0.23)},
    }.items():
        assert columns(m_ary.PRINTED, ("public", "private"), f"m = {m}, 80 rows") == row


@pytest.mark.parametrize(
    ("module", "rows"),
    [
        (
            adult,
            {
                "npo": "37.67 62.14 0.82",
                "mdr": "37.57 64.02 1.61",
                "dca": "38.38 56.33 1.61",
                "ruca-1": "41.24 65.25 1.61",
                "ruca-100": "41.10 64.14 1.61",
                "ruca-1000": "40.67 65.86 1.61",
                "raw": "34.05 30.48 1.61",
            },
        ),
        (
            opportunity,
            {
                "npo": "10.53 43.17 0.47",
                "mdr": "12.56 40.16 0.69",
                "dca": "10.88 42.62 0.69",
                "ruca-1": "10.23 45.73 0.69",
                "ruca-100": "10.10 43.01 0.69",
                "ruca-1000": "10.10 43.78 0.69",
                "raw": "10.05 5.57 0.69",
            },
        ),
    ],
    ids=["adult", "opportunity"],
)
def test_the_tables_on_real_data_are_as_printed(module, rows):
    found = columns(module.EXPERIMENT.printed, ("public", "svm", "epsilon"))
    assert {m: f"{100 * h:.2f} {100 * g:.2f} {e}" for m, (h, g, e) in found.items()} == rows
    for figures in module.EXPERIMENT.printed.values():
        assert figures["svm"] == figures["strongest"]


# --- Running -------------------------------------------------------------------------------


def test_the_number_of_processes_changes_nothing():
    experiment, seen = quick("m-ary"), []
    asked = ask(experiment, 2, 5, None)
    alone, together = (
        run_experiment(experiment, asked, jobs=n, report=seen.append) for n in (1, 2)
    )
    assert alone.rows == together.rows
    assert seen == [*range(1, 19)] * 2 and count_steps(experiment, asked) == 18


@pytest.fixture(scope="module")
def small():
    """The correlation figure at one correlation, from one draw."""
    one = replace(EXPERIMENTS["correlation"], settings={"correlation 0": 0.0})
    asked = ask(one, 1, 0, None)
    return asked, run_experiment(one, asked)


def test_exact_figures_of_one_correlation_are_what_they_have_to_be(small):
    _, found = small
    raw = found.figure("correlation 0", "raw", "public")
    assert raw.values == pytest.approx([1 / 324]) and raw.error is None
    for key in ("npo", "auto"):
        error = found.figure("correlation 0", key, "public")
        regret = found.figure("correlation 0", key, "regret")
        private = found.figure("correlation 0", key, "private")
        assert len(error.values) == 1 and 0.25 < private.mean <= 0.5
        assert min(regret.values) > -1e-4  # nothing beats the optimum
    best = found.figure("correlation 0", "optimum", "public")
    npo = found.figure("correlation 0", "npo", "public")
    assert np.array(npo.values) - best.values == pytest.approx(
        found.figure("correlation 0", "npo", "regret").values
    )


def test_a_result_tells_what_was_asked(small):
    asked, found = small
    assert found.asked == asked and asked.draws == 1 and asked.parameters["rows"] == "80"
    assert found.choices == tuple(EXPERIMENTS["correlation"].choices)
    assert "numpy" in found.versions and found.seconds > 0


def test_the_optimum_of_the_skewed_prior_is_the_known_one():
    found = skewed_prior.known(80)["optimum"]
    assert found["public"] == pytest.approx(0.0183, abs=5e-5)
    assert found["risk"] >= 0.42 - 1e-6 and found["epsilon"] <= 0.35 + 1e-6
    assert found["private"] == pytest.approx(0.05)


def test_the_m_ary_optimum_is_found_once_for_each_m(monkeypatch):
    monkeypatch.setattr(m_ary, "RESTARTS", 2)
    assert m_ary.known((3, 800)) == {}
    assert set(m_ary.known((3, 80))) == {"raw", "optimum"}


def test_the_optimum_is_no_worse_at_less_privacy(monkeypatch):
    monkeypatch.setattr(uniform_prior, "RESTARTS", 4)
    errors = [uniform_prior.optimal_error(correlated(0.2), risk) for risk in (0.3, 0.4, 0.44)]
    assert errors == sorted(errors) and errors[1] == pytest.approx(0.0049, abs=2e-4)


# --- Real data -----------------------------------------------------------------------------


def made_up(n, seed):
    """One sensor that tells the public fact, one the private one, one nothing."""
    rng = np.random.default_rng(seed)
    h, g = np.arange(n) % 2, np.arange(n) // 2 % 3
    table = pd.DataFrame(
        {
            "tells_h": np.where(rng.random(n) < 0.9, h, 1 - h),
            "tells_g": pd.Series(list("abc"))[np.where(rng.random(n) < 0.8, g, 0)].to_numpy(),
            "noise": rng.integers(4, size=n),
        }
    )
    table.loc[0, "tells_g"] = None
    return Labelled(table, pd.Series(h, name="h"), pd.Series(g, name="g"))


@pytest.fixture(scope="module")
def trial():
    return Trial(made_up(90, 0), made_up(900, 1), 0)


def test_raw_symbols_give_both_facts_away(trial):
    found = measure_mapper(everything_told(), trial)
    assert found["public"] == pytest.approx(0.1, abs=0.03)
    assert found["strongest"] == pytest.approx(2 / 15, abs=0.04)
    assert found["svm"] == pytest.approx(2 / 15, abs=0.06)
    assert found["epsilon"] > found["chance"] > 0


def test_randomised_response_hides_more(trial):
    mapper = RandomizedResponseMapper(ldp_epsilon=0.5, random_state=0)
    found = measure_mapper(mapper, trial)
    assert found["strongest"] > 0.4 and found["public"] > 0.25


def test_curators_are_measured_alike(trial):
    found = measure_curators(trial, {"categories": "codes"})
    assert list(found) == ["mdr", "dca", "ruca-1", "ruca-100", "ruca-1000", "raw"]
    assert found["raw"]["public"] == pytest.approx(0.1, abs=0.03)
    assert found["raw"]["strongest"] == pytest.approx(2 / 15, abs=0.04)
    # One number made of a few codes can be read backwards: it hides hardly more than they do.
    assert found["dca"]["strongest"] > found["raw"]["strongest"]
    for figures in found.values():
        assert set(figures) == {column.key for column in adult.EXPERIMENT.columns}


def test_the_strongest_attacker_on_numbers_finds_what_is_there(rng):
    fact = np.repeat(np.arange(3), 200)
    assert strongest_error(fact[:, None] + 0.01 * rng.normal(size=(600, 1)), fact, rng) < 0.01
    bowl = np.abs(fact - 1)[:, None] + 0.01 * rng.normal(size=(600, 1))
    assert strongest_error(bowl, fact, rng) == pytest.approx(1 / 3, abs=0.05)
    assert strongest_error(rng.normal(size=(600, 2)), fact, rng) > 0.55


@pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")
def test_adult_runs_on_a_file_of_its_form(tmp_path, monkeypatch):
    monkeypatch.setattr(measured_rows, "ATTACKERS", {"svm": measured_rows.ATTACKERS["svm"]})
    monkeypatch.setattr(adult, "N_TRAIN", 8)
    monkeypatch.setattr(adult, "N_TEST", 20)
    rng = np.random.default_rng(0)
    states = ("Married-civ-spouse", "Never-married", "Widowed")
    lines = [
        f"{rng.integers(17, 90)}, Private, 1, {rng.choice(['HS-grad', 'Masters'])}, 9, {state}, "
        f"{rng.choice(['Sales', '?'])}, {rng.choice(['Husband', 'Unmarried'])}, White, "
        f"{rng.choice(['Male', 'Female'])}, 0, 0, 40, United-States, {income}"
        for state in states
        for income in ("<=50K", ">50K")
        for _ in range(30)
    ]
    (tmp_path / "adult.data").write_text("\n".join(lines) + "\n")
    found = adult.measure("Adult", 0, tmp_path / "adult.data")
    assert set(found) == set(adult.METHODS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::discreet.errors.DiscreetWarning")
def test_opportunity_runs_on_a_file_of_its_form(tmp_path, monkeypatch):
    monkeypatch.setattr(measured_rows, "ATTACKERS", {"svm": measured_rows.ATTACKERS["svm"]})
    monkeypatch.setattr(opportunity, "N_SENSORS", 4)
    file = drill_file(tmp_path, drill_rows(1500))
    found = opportunity.measure("S2-Drill", 0, file)
    assert set(found) == set(opportunity.METHODS)
    assert all(0 <= figures["public"] <= 0.6 for figures in found.values())


# --- Pictures ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(EXPERIMENTS)[:-1])  # the last one has no figures
def test_every_picture_names_its_methods_and_loads_nothing(name):
    found = result(name)
    svg = svg_of(EXPERIMENTS[name].picture, found)
    root = ElementTree.fromstring(svg)
    words = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {row.label for row in found.rows} <= set(words)
    assert svg == svg_of(EXPERIMENTS[name].picture, found)
    addresses = set(re.findall(r'(?:https?:|file:)[^"\s]+', svg))
    assert all("w3.org" in address for address in addresses)
    assert len(svg) < 120_000
