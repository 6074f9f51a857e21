import json

import numpy as np
import pandas as pd
import pytest
from support.commands import rooms
from support.helpers import refused

import discreet
from discreet import NPOMapper, frontier
from discreet.errors import BlindKernelWarning, DiscreetError, DiscreetWarning, TableWarning
from discreet.frontiers import frontier as tradeoff
from discreet.frontiers.frontier import Frontier
from discreet.frontiers.study import Spec, describe_study, plan, study_arrays, study_table
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities
from discreet.learning import learn, prepare
from discreet.task import Task
from research.paper.synthetic import draw_table, exact_figures, exact_joint, tables_by_reading

QUICK = {"n_restarts": 1, "methods": ("npo", "ndd"), "ratios": (0.9, 0.99)}


def home(n=80, seed=0):
    table = rooms(n, seed)
    return table[["hall", "door"]], table["fall"], table["who"]


@pytest.fixture
def fits(monkeypatch):
    """What was learned, in order."""
    seen = []
    learn = tradeoff._learn

    def counted(study, spec, *rest):
        seen.append(spec.key)
        return learn(study, spec, *rest)

    monkeypatch.setattr(tradeoff, "_learn", counted)
    return seen


# --- Figures -------------------------------------------------------------------------------


def exact_error(mapping, correlation):
    """The public error of the mapping's own fusion rule, exactly, in the paper's case."""
    by_public = exact_joint(tables_by_reading(mapping), correlation).sum(axis=1)
    outputs = np.stack(np.unravel_index(np.arange(16), (2,) * 4), axis=1)
    answers = mapping.fuse(outputs)
    return 1.0 - sum(by_public[h, answers == h].sum() for h in (0, 1))


@pytest.mark.parametrize("spec", [Spec("npo", 2, 0.95), Spec("ndd", 2, None)])
@pytest.mark.slow
def test_figures_are_near_the_exact_ones_of_the_papers_case(spec):
    X, h, g = draw_table(6000, 0.2, seed=3)
    study = study_arrays(X, h, g, None, 0.5, 0)
    mapper = tradeoff._learn(study, spec, {"n_restarts": 1, "n_bins": 9}, 0)
    point = tradeoff._measure(study, spec, mapper, 0.05, 0)
    exact = exact_figures(tables_by_reading(mapper.mapping_), 0.2)
    error = exact_error(mapper.mapping_, 0.2)
    assert point.exact and point.mapping == mapper.mapping_.id
    assert point.public_error.value == pytest.approx(error, abs=0.02)
    assert point.public_error.low <= error <= point.public_error.high
    assert point.advantage.value == pytest.approx(0.5 - exact.risk, abs=0.02)
    assert point.advantage.low <= 0.5 - exact.risk <= point.bound.value
    assert point.bound.value < point.advantage.value + 0.05


def test_the_figures_are_those_of_the_held_out_rows_alone():
    X, y, g = home()
    study, spec = study_arrays(X, y, g, None, 0.3, 0), Spec("ndd", 2, None)
    mapping = tradeoff._learn(study, spec, {"n_restarts": 1}, 0).mapping_
    point, _ = tradeoff.compute_point(study, spec, {"n_restarts": 1}, 0.05, 0)
    outputs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    held = study.held_out
    chances = output_probabilities(mapping.tables, mapping.encode(X.iloc[held]))
    wrong = mapping.fuse(outputs) != y.to_numpy()[held, None]
    assert point.public_error.value == pytest.approx((chances * wrong).sum(axis=1).mean())
    true = np.stack([chances[g.iloc[held] == who].mean(axis=0) for who in ("ann", "bob")])
    most = point.bound.value if point.bound.certifiable else 0.5
    assert point.advantage.value <= advantage(true) + 1e-12 <= most + 1e-9
    # What is gained in hindsight where nothing leaks is taken off; of so few rows that is much.
    assert point.advantage.value == pytest.approx(advantage(true), abs=0.1)


@pytest.mark.slow
def test_no_held_out_row_has_a_say_in_any_mapping():
    X, y, g = home()
    before = frontier(X, y, g, **QUICK)
    study = study_arrays(X, y, g, None, 0.3, 0)
    X.loc[study.held_out] = 1 - X.loc[study.held_out]
    after = study_arrays(X, y, g, None, 0.3, 0)
    np.testing.assert_array_equal(after.held_out, study.held_out)
    spec = Spec("npo", 2, 0.9)
    tables = [tradeoff._learn(s, spec, {"n_restarts": 1}, 0).mapping_ for s in (study, after)]
    assert tables[0].sensors == tables[1].sensors and tables[0].fusion == tables[1].fusion
    assert before.about.source != after.source


@pytest.mark.slow
def test_the_point_is_the_mapping_that_learn_writes(tmp_path):
    rooms().to_csv(tmp_path / "home.csv", index=False)
    options = {"random_state": 0, "n_restarts": 1, "privacy_ratio": 0.9}
    task = Task(
        tmp_path / "home.csv", "fall", ["who"], exclude=["day"], method="npo", options=options
    )
    prepared = prepare(task)
    point, _ = tradeoff.compute_point(
        study_table(task, prepared), Spec("npo", 2, 0.9), {"n_restarts": 1}, 0.05, 0
    )
    assert point.mapping == learn(prepared).mapping.id


def test_a_table_and_the_same_columns_in_python_are_split_alike(tmp_path):
    table = rooms()
    table.to_csv(tmp_path / "home.csv", index=False)
    task = Task(tmp_path / "home.csv", "fall", ["who"], exclude=["day"])
    by_table = study_table(task, prepare(task))
    by_arrays = study_arrays(table[["hall", "door"]], table["fall"], table["who"], None, 0.3, 0)
    np.testing.assert_array_equal(by_table.held_out, by_arrays.held_out)


def test_arrays_several_facts_and_groups_are_welcome():
    X, y, g = home(200)
    facts = pd.DataFrame({"who": g, "night": np.arange(200) % 2})
    days = np.arange(200) // 10
    found = frontier(X.to_numpy(), y.to_numpy(), facts, groups=days, methods=["ndd"], n_restarts=1)
    assert found.about.private == ("who", "night") and found.about.sensors == ("x0", "x1")
    assert found.about.independent_rows == pytest.approx(found.about.held_out / 10)
    assert found.points[0].fact == "who"
    assert found.points[0].ratio is None


def test_guessing_and_raw_readings_are_measured_on_the_held_out_rows():
    X, _, g = home(300)
    y = pd.Series(np.where(X["hall"] & (np.arange(300) % 3 == 0), "fall", "none"), name="fall")
    study, cells = study_arrays(X, y, g, None, 0.3, 0), X.astype(str).agg("".join, axis=1)
    for rule, costs in (("balanced", None), ({"fall": 4.0}, {"fall": 4.0, "none": 1.0})):
        about = describe_study(study, NPOMapper(decide=rule), 0.95)
        held, taught = y.iloc[study.held_out], y.iloc[study.train]
        price = held.map(costs) if costs else None
        assert about.guessing.error == pytest.approx(np.mean(held != taught.mode()[0]))
        assert about.guessing.balanced_accuracy == 0.5 and about.guessing.leak == 0.0
        bob = (g.iloc[study.train] == g.iloc[0]).groupby(cells.iloc[study.train]).mean() > 0.5
        named = cells.iloc[study.held_out].map(bob) == (g.iloc[study.held_out] == g.iloc[0])
        reached = named.groupby(g.iloc[study.held_out]).mean().mean() - 0.5
        assert about.raw.leak == pytest.approx(reached, abs=0.05)
        # Two readings of two values each: the best answer to each cell, class by class.
        weight = taught.map(costs) if costs else 1.0 / taught.map(taught.value_counts())
        votes = weight.groupby([cells.iloc[study.train], taught]).sum().unstack(fill_value=0.0)
        answers = cells.iloc[study.held_out].map(votes.idxmax(axis=1))
        right = (answers == held).groupby(held).mean()
        assert about.raw.balanced_accuracy == pytest.approx(right.mean())
        assert about.raw.error == pytest.approx(np.mean(answers != held))
        if price is not None:
            assert about.raw.cost == pytest.approx(price[answers != held].sum() / price.sum())
            alone = [price[held != name].sum() / price.sum() for name in ("fall", "none")]
            assert about.guessing.cost in [pytest.approx(each) for each in alone]


def test_a_strict_point_says_so_and_does_not_warn():
    X, _, g = home()
    with pytest.warns(DiscreetWarning) as caught:
        found = frontier(
            X, g.rename("public"), g, **QUICK | {"methods": ["npo"], "ratios": [0.9999]}
        )
    assert [each.category for each in caught] == [TableWarning]  # of one fact by two names
    assert not found.points[0].useful


@pytest.mark.slow
def test_a_warning_that_all_points_share_comes_once():
    X, y, g = home()
    with pytest.warns(BlindKernelWarning) as caught:
        frontier(X, y, g, kernel="count", **QUICK | {"methods": ["npo"]})
    assert len(caught) == 1


# --- The plan ------------------------------------------------------------------------------


def test_every_combination_comes_once_and_what_protects_nothing_has_no_ratio():
    specs = plan(["npo", "ndd", "npo"], [0.9, 0.99], [2, 3])
    assert len(specs) == len({spec.key for spec in specs}) == 6
    assert {spec.ratio for spec in specs if spec.method == "ndd"} == {None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": "npo"}, "methods must be a sequence, got 'npo'"),
        ({"methods": ["best"]}, "methods must be one of .*, got 'best'"),
        ({"methods": []}, "methods is empty"),
        ({"ratios": 0.9}, "ratios must be a sequence, got 0.9"),
        ({"ratios": [1.0]}, "ratios must be strictly between 0 and 1, got 1.0"),
        ({"ratios": [None]}, "ratios must be numbers"),
        ({"ratios": np.linspace(0.1, 0.9, 2000)}, "2001 points were asked for; at most 1024"),
        ({"n_symbols": [1]}, "n_symbols must be an integer of at least 2"),
        ({"n_symbols": 2}, "n_symbols must be a sequence"),
        ({"holdout": 0.0}, "holdout must be strictly between 0 and 1"),
        ({"holdout": 0.95}, "holdout leaves .* rows to learn from|on the learning side"),
        ({"confidence": 1.0}, "confidence must be strictly between 0 and 1"),
        ({"random_state": None}, "random_state must be an integer"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"n_jobs": 1.5}, "n_jobs must be None or an integer"),
        ({"max_advantage": 0.1}, "max_advantage was given, which searches for one ratio"),
        ({"privacy_ratio": 0.1}, "'privacy_ratio' is no parameter of a mapper"),
        ({"kernal": "count"}, "'kernal' is no parameter .*Did you mean 'kernel'"),
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"methods": ["auto"], "loss": "hinge"}, "loss was given, but none of the methods has it"),
        ({"ldp_epsilon": 1.0}, "ldp_epsilon was given, but NDDMapper protects nothing"),
        ({"groups": [1, 2]}, "groups has 2 rows; X has 80"),
        ({"resume": "none/f.json"}, "resume='none/f.json': there is no such directory"),
        ({"resume": "."}, "is not a regular file"),
    ],
)
def test_what_cannot_be_computed_is_refused_before_anything_is_learned(
    fits, tmp_path, changes, words
):
    X, y, g = home()
    options = {"methods": ["npo", "ndd"], "ratios": [0.9], "resume": tmp_path / "f.json"}
    refused(words, frontier, X, y, g, **options | changes)
    assert not fits and not (tmp_path / "f.json").exists()


def test_labels_that_do_not_fit_are_refused():
    X, y, g = home()
    refused("y has 79 rows; X has 80", frontier, X, y[:-1], g)
    refused("private fact 'who' has 79 rows; X has 80", frontier, X, y, g[:-1])
    refused("'fall' is public and private at once", frontier, X, y, y)
    long = X.set_axis(["x" * 300, "door"], axis=1)
    refused("cannot hold this: sensors", frontier, long, y, g)
    refused("X must have rows and columns", frontier, X["hall"], y, g)


# --- Resuming ------------------------------------------------------------------------------


@pytest.mark.slow
def test_only_what_is_missing_is_computed(fits, tmp_path):
    X, y, g = home()
    file = tmp_path / "f.json"
    told = []
    options = QUICK | {"resume": file}
    first = frontier(X, y, g, **options)
    assert len(fits) == 3
    more = frontier(X, y, g, **options | {"ratios": [0.9, 0.95]}, report=told.append)
    assert fits[3:] == [("npo", 2, 0.95)]
    # What the file had besides stays: it was looked at, and the bounds must allow for it.
    assert {p.key for p in first.points} < {p.key for p in more.points}
    assert Frontier.load(file) == more and more.complete
    assert [(t.finished, t.planned, t.found) for t in told] == [(3, 4, 3), (4, 4, 3)]
    assert frontier(X, y, g, **options | {"ratios": [0.95]}) == more
    assert len(fits) == 4


@pytest.mark.slow
def test_points_that_were_resumed_are_those_of_one_run(tmp_path):
    X, y, g = home()
    file = tmp_path / "f.json"
    for ratio in QUICK["ratios"]:
        found = frontier(X, y, g, **QUICK | {"ratios": [ratio], "resume": file})
    assert found == frontier(X, y, g, **QUICK)


@pytest.mark.parametrize(
    "changes",
    [
        {"random_state": 1},
        {"holdout": 0.4},
        {"confidence": 0.9},
        {"kernel": "inverse-multiquadric"},
        {"n_bins": {"hall": 5}},
        {"groups": np.arange(80) // 4},
    ],
)
@pytest.mark.slow
def test_other_options_reuse_no_points(fits, tmp_path, changes):
    X, y, g = home()
    options = {"methods": ["ndd"], "n_restarts": 1, "resume": tmp_path / "f.json"}
    frontier(X, y, g, **options)
    told = []
    found = frontier(X, y, g, **options | changes, report=told.append)
    assert len(fits) == 2 and told[0].restarted and told[0].found == 0
    assert Frontier.load(tmp_path / "f.json") == found
    frontier(X, y, g, **options | changes)
    assert len(fits) == 2


def test_a_changed_table_reuses_no_points(fits, tmp_path):
    X, y, g = home()
    options = {"methods": ["ndd"], "n_restarts": 1, "resume": tmp_path / "f.json"}
    frontier(X, y, g, **options)
    X.loc[3, "hall"] = 1 - X.loc[3, "hall"]
    frontier(X, y, g, **options)
    assert len(fits) == 2


def test_a_file_does_not_grow_without_end(fits, monkeypatch, tmp_path):
    X, y, g = home()
    frontier(X, y, g, **QUICK, resume=tmp_path / "f.json")
    monkeypatch.setattr(tradeoff, "MAX_POINTS", 3)
    wider = QUICK | {"ratios": [0.5], "resume": tmp_path / "f.json"}
    refused("4 points would be in .*; at most 3 are", frontier, X, y, g, **wider)
    assert len(fits) == 3


@pytest.mark.parametrize("text", ["{", '{"format": "discreet-mapping"}', "old words"])
def test_a_damaged_file_is_refused_and_left_alone(fits, tmp_path, text):
    X, y, g = home()
    file = tmp_path / "f.json"
    file.write_text(text)
    refused("Name another file, or remove this one", frontier, X, y, g, resume=file)
    assert file.read_text() == text and not fits


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_points_and_goes_on(fits, monkeypatch, tmp_path):
    X, y, g = home()
    file = tmp_path / "f.json"
    options = QUICK | {"ratios": [0.9, 0.95, 0.99], "resume": file}

    def stop(standing):
        if standing.finished == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"2 of 4 points are in .*f.json; the same command"):
        frontier(X, y, g, **options, report=stop)
    kept = Frontier.load(file)
    assert len(kept.points) == 2 and not kept.complete and kept.planned == 4
    found = frontier(X, y, g, **options)
    assert len(fits) == 4 and found.complete
    assert found == frontier(X, y, g, **options | {"resume": None})


def test_an_interrupt_without_a_file_says_that_nothing_is_kept(monkeypatch):
    X, y, g = home()

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tradeoff, "_learn", stop)
    with pytest.raises(KeyboardInterrupt, match="No points were kept"):
        frontier(X, y, g, **QUICK)


def test_no_write_leaves_half_a_file(fits, monkeypatch, tmp_path):
    """An interrupt in the middle of a write keeps the file as it was before."""
    X, y, g = home()
    file = tmp_path / "f.json"
    replace = type(file).replace
    writes = []

    def interrupted(self, target):
        writes.append(target)
        if len(writes) == 2:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(type(file), "replace", interrupted)
    with pytest.raises(KeyboardInterrupt, match="1 of 3 points are in"):
        frontier(X, y, g, **QUICK, resume=file)
    assert len(Frontier.load(file).points) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["f.json"]


# --- Processes -----------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_do_not_change_the_answer(tmp_path):
    X, y, g = home()
    alone = frontier(X, y, g, **QUICK, n_jobs=1)
    together = frontier(X, y, g, **QUICK, n_jobs=2, resume=tmp_path / "f.json")
    assert alone == together == Frontier.load(tmp_path / "f.json")
    assert json.dumps(alone.to_dict()) == json.dumps(together.to_dict())


@pytest.mark.slow
def test_a_mistake_in_a_process_is_the_same_mistake_here():
    X, y, g = home()
    X = X.assign(hall=[["list"]] * len(X))
    with pytest.raises(DiscreetError):
        frontier(X, y, g, **QUICK, n_jobs=2)


def test_the_name_is_that_of_the_package():
    assert discreet.frontier is frontier
    assert "frontier" in dir(discreet)
    assert NPOMapper().get_params().keys() >= {"kernel", "n_bins"}
