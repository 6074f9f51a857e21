"""What a design climbs is what its cost is told by, and how many models it may draw."""

from functools import partial

import numpy as np
import pytest
from support.count_worlds import draw_sample, random_model, random_tables

from discreet.choices import LOSSES
from discreet.data.columns import Labels
from discreet.design.counts import design, estimate, objective
from discreet.design.counts.ascent import settle
from discreet.design.counts.counting import count_codes, counted_rows
from discreet.design.counts.design import (
    CountDesign,
    Planned,
    design_on_counts,
    plan_climbs,
    pose,
)
from discreet.design.counts.estimate import estimate_counts, find_structure
from discreet.design.inputs import Settings, Target
from discreet.design.kernels import CountKernel
from discreet.design.training_rows import Sample

SIZES, SYMBOLS = (3, 2, 4), (2, 3, 2)
SETTINGS = Settings(SYMBOLS, CountKernel(), LOSSES["logistic"], 1e-3, 1e-3)
MODEL, TARGET = random_model(SIZES), Target(0.9)
NEAR = [random_tables(SIZES, SYMBOLS)]


def over(_progress):
    return True


@pytest.fixture
def climbed(monkeypatch):
    """The climbs of a design, none of which takes a step: of how many draws, how many, steps."""
    found = []

    def climb(problem, starts, rng, steps, *_more, **_options):
        if starts:
            found.append((problem.n_draws, len(starts), steps))
        return [list(start) for start in starts]

    monkeypatch.setattr(design, "climb", climb)
    return found


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("kind", ["listed", "draws", "drawn", "rounds"])
def test_what_is_planned_is_climbed(kind, near, climbed, monkeypatch):
    if kind == "drawn":
        monkeypatch.setattr(objective, "MAX_LISTED", 1)
    if kind == "listed":
        monkeypatch.setattr(design, "_HOPS", 0)
    evidence = kind == "rounds"
    draws = [random_model(SIZES, seed=k) for k in (1, 2)] if kind == "draws" else []
    rng, start = np.random.default_rng(0), NEAR if near else []
    design_on_counts(
        SETTINGS, MODEL, TARGET, False, rng, start, draws=draws, evidence=evidence
    )  # fmt: skip
    rough = pose(SETTINGS, MODEL, TARGET, False, evidence)
    problem = pose(SETTINGS, MODEL, TARGET, False, evidence, draws) if draws else rough
    planned = plan_climbs(rough, problem, SETTINGS, evidence=evidence, near=near)
    assert [(each.n_draws, count, steps) for each, count, steps in planned] == climbed


def take_seconds(monkeypatch, seconds):
    monkeypatch.setattr(design, "_time_step", lambda _problem, starts: seconds(len(starts)))


def test_climbs_together_take_no_turns_and_many_are_not_timed_to_tell_of_few(monkeypatch):
    timed = []
    take_seconds(monkeypatch, lambda count: timed.append(count) or 1.0 + 0.1 * (count - 1))
    problem = pose(SETTINGS, MODEL, TARGET, False, False)
    assert problem.climbs_at_once > 100
    pace = design._Pace(problem, NEAR[0])
    assert max(timed) == design._HOPS_EACH
    assert pace.seconds(1, 10) == pytest.approx(10.0)
    assert pace.seconds(12, 10) == pytest.approx(10 * (1.0 + 0.1 * 11))


def test_climbs_that_take_their_steps_alone_take_turns(monkeypatch):
    take_seconds(monkeypatch, lambda count: 1.0)
    monkeypatch.setattr(objective, "MAX_LISTED", 1)
    pace = design._Pace(pose(SETTINGS, MODEL, TARGET, False, False), NEAR[0])
    assert pace.seconds(12, 10) == pytest.approx(120.0)


def test_the_cost_of_designs_is_that_of_their_steps(monkeypatch, climbed):
    """A step takes a second, however many climbs take it together."""
    take_seconds(monkeypatch, lambda _count: 1.0)
    sample, numbers, unseen = draw_sample(400), np.arange(400), np.arange(100)
    counts = count_codes(sample.codes, sample.sizes, sample.facts, numbers)
    counted = counted_rows(counts, sample, numbers, None)
    made = CountDesign(SETTINGS, counted, None, np.random.default_rng(0))
    tell = partial(made.seconds, unseen, TARGET)
    for planned, starts in ((Planned(1, True, False), []), (Planned(1, True, True), NEAR)):
        climbed.clear()
        made(unseen, TARGET, rng=np.random.default_rng(0), starts=starts)
        steps = sum(steps for _, _, steps in climbed)
        assert tell([planned]) == pytest.approx(steps, rel=0.01)
        assert tell([planned] * 3) == pytest.approx(3 * steps, rel=0.01)


def test_once_time_is_over_tables_that_are_given_are_kept_and_nothing_is_climbed(climbed):
    found = design_on_counts(
        SETTINGS, MODEL, TARGET, False, np.random.default_rng(0), NEAR, over
    )  # fmt: skip
    assert found.stopped and not climbed
    problem = pose(SETTINGS, MODEL, TARGET, False, False)
    kept = settle(problem, NEAR[0], design._HALVINGS_IN_HASTE)
    for one, other in zip(found.tables, kept.tables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.leak <= 0.05


def test_once_time_is_over_a_start_for_many_rounds_has_no_zeros_either(climbed):
    found = design_on_counts(
        SETTINGS, MODEL, TARGET, False, np.random.default_rng(0), report=over, evidence=True
    )  # fmt: skip
    assert found.stopped and not climbed
    assert min(table.min() for table in found.tables) >= design._FLOOR


@pytest.mark.parametrize("draws", [0, 2])
def test_once_time_is_over_one_start_is_kept_where_none_is_given(climbed, draws, monkeypatch):
    solved, find = [], design.find_starts
    monkeypatch.setattr(
        design, "find_starts", lambda *given: solved.append(len(given[2])) or find(*given)
    )
    found = design_on_counts(
        SETTINGS, MODEL, TARGET, False, np.random.default_rng(0), report=over,
        draws=[random_model(SIZES, seed=k) for k in range(draws)],
    )  # fmt: skip
    assert found.stopped and not climbed and solved == [1]
    assert found.leak <= 0.05


def test_in_haste_noise_is_found_with_fewer_looks_and_keeps_the_limit(monkeypatch):
    problem, looks = pose(SETTINGS, MODEL, TARGET, False, False), []
    judge = problem.judge
    monkeypatch.setattr(problem, "judge", lambda *given: looks.append(1) or judge(*given))
    loud = [np.eye(z)[np.arange(k) % z] for k, z in zip(SIZES, SYMBOLS, strict=True)]
    assert settle(problem, loud).advantage <= 0.05
    assert len(looks) >= 15
    looks.clear()
    assert settle(problem, loud, design._HALVINGS_IN_HASTE).advantage <= 0.05
    assert len(looks) <= 7


@pytest.mark.parametrize(
    ("n_public", "n_private", "drawn"), [(2, 3, 24), (2, 6, 24), (2, 20, 0), (5, 50, 0)]
)
def test_models_are_drawn_unless_attackers_compare_very_much(n_public, n_private, drawn):
    """They compare every two classes in every cell under every draw, which grows with the cube."""
    rng = np.random.default_rng(0)
    h, g = rng.integers(n_public, size=2000), rng.integers(n_private, size=2000)
    facts = Labels("h", h, range(n_public)), Labels("g", g, range(n_private))
    sample = Sample(rng.integers(3, size=(2000, 2)), (3, 3), facts[0], facts[1:], (3, 3))
    counted = counted_rows(
        count_codes(sample.codes, sample.sizes, facts), sample, np.arange(2000), None
    )
    settings = Settings((2, 2), CountKernel(), LOSSES["logistic"], 1e-3, 1e-3)
    design = CountDesign(settings, counted, None, rng)
    assert len(design._draws(None, Target(0.9))) == drawn


# --- Blocks ----------------------------------------------------------------------------------


def copied(n_rows=5000):
    """Return counted rows of three sensors and a copy of each, that of the first the closest."""
    rng, three = np.random.default_rng(0), draw_sample(n_rows)
    codes = rng.integers(8, size=(n_rows, 6))
    for t, share in enumerate((0.9, 0.5, 0.7)):
        codes[:, t + 3] = np.where(rng.random(n_rows) < share, codes[:, t], codes[:, t + 3])
    sample = Sample(codes, (8,) * 6, three.public, three.private, (8,) * 6)
    counts = count_codes(codes, sample.sizes, sample.facts)
    return counted_rows(counts, sample, np.arange(n_rows), None)


def test_of_blocks_that_take_too_much_the_closest_are_kept(monkeypatch):
    counted = copied()
    given = counted.sample, counted.counts, (2,) * 6
    found = find_structure(*given)
    assert found.blocks == [(0, 3), (1, 4), (2, 5)] and not found.left_over
    assert found.joint_rows == estimate.BLOCK_ROWS
    monkeypatch.setattr(estimate, "_MOST_JOINT", 6 * 64 * 2)
    found = find_structure(*given)
    assert found.blocks == [(0, 3), (2, 5)] and found.left_over
    monkeypatch.setattr(estimate, "_MOST_JOINT", 0)
    found = find_structure(*given)
    assert found.blocks == [] and found.left_over


def test_blocks_hold_as_many_joint_codes_as_are_allowed(monkeypatch):
    counted = copied()
    monkeypatch.setattr(estimate, "_MOST_JOINT", 6 * 60)
    monkeypatch.setattr(estimate, "_LEAST_JOINT", 20)
    structure = find_structure(counted.sample, counted.counts, (2,) * 6)
    assert len(structure.blocks) == 3 and structure.joint_rows == 20
    made = CountDesign(
        Settings((2,) * 6, CountKernel(), LOSSES["logistic"], 1e-3, 1e-3),
        counted, None, np.random.default_rng(0),
    )  # fmt: skip
    model = made._model(None, np.random.default_rng(0))
    assert sum(block.given.size for block in model.blocks) <= 6 * 60
    for block in model.blocks:
        np.testing.assert_allclose(block.given.sum(axis=1), 1.0)


def test_joint_codes_are_shared_out_as_a_loop_does():
    counted = copied(300)
    structure = find_structure(counted.sample, counted.counts, (2,) * 6)
    model = estimate_counts(counted.sample, counted.counts, structure)
    facts = [fact.index for fact in counted.sample.facts]
    assert model.blocks
    for block in model.blocks:
        for c, (h, g) in enumerate(model.facts):
            own = counted.sample.codes[(facts[0] == h) & (facts[1] == g)][:, block.sensors]
            seen = [(own == codes).all(axis=1).sum() for codes in block.codes]
            one, other = (model.given[t][c] for t in block.sensors)
            alone = np.array([one[a] * other[b] for a, b in block.codes])
            slow = np.array(seen) + 2 * alone / alone.sum()
            np.testing.assert_allclose(block.given[c], slow / slow.sum())


def test_time_ends_the_look_at_pairs_and_what_was_not_looked_at_is_left_over():
    counted, told = copied(), []

    def tell(progress, stop):
        told.append((progress.phase, progress.done))
        return stop

    for stop in (False, True):
        told.clear()
        made = CountDesign(
            Settings((2,) * 6, CountKernel(), LOSSES["logistic"], 1e-3, 1e-3),
            counted, None, np.random.default_rng(0), report=partial(tell, stop=stop),
        )  # fmt: skip
        assert {phase for phase, _ in told} == {"pairs"} and told[0][1] == 0.0
        assert made.structure.left_over is stop
        assert len(made.structure.blocks) == 3 * (not stop)
    assert len(told) == 1
