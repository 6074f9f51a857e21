import copy
import json
import os
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frontiers import ABOUT, point, three
from support.helpers import refused

from discreet.data.dependence import Dependence
from discreet.errors import InputError
from discreet.frontiers.results import MAX_BYTES, Frontier, Place, dominated, find_knee, lower_left

# --- Knee and dominated points -------------------------------------------------------------

coordinate = st.integers(0, 12).map(lambda k: k / 12)
some_places = st.lists(st.builds(Place, coordinate, coordinate), min_size=1, max_size=9)


def on_the_hull(places, own):
    """By trying: no point and no mixture of two is as good in one way and better in the other."""
    for other in places:
        if other != own and other.advantage <= own.advantage and other.error <= own.error:
            return False
    for a, b in combinations([p for p in places if p != own], 2):
        for share in np.linspace(0, 1, 2 * 12 * 12 * 12 + 1) if a != b else ():
            x = share * a.advantage + (1 - share) * b.advantage
            y = share * a.error + (1 - share) * b.error
            if x <= own.advantage + 1e-9 and y <= own.error + 1e-9:
                return False
    return True


@pytest.mark.parametrize("seed", range(12))
def test_the_hull_is_what_no_point_and_no_mixture_of_two_beats(seed):
    rng = np.random.default_rng(seed)
    places = [Place(*map(float, rng.integers(0, 8, 2) / 8)) for _ in range(7)]
    hull = {places[i] for i in lower_left(places)}
    assert hull == {place for place in places if on_the_hull(places, place)}


def a_curve(seed):
    """Points on and above a curve that falls steeply first, so that there are many corners."""
    rng = np.random.default_rng(seed)
    x = rng.random(25)
    y = (1 - x**0.5) ** rng.uniform(1, 3) + 0.1 * rng.random(25) * (rng.random(25) < 0.5)
    return [Place(float(a), float(b)) for a, b in zip(0.3 * x, y, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_the_knee_of_a_curve_is_the_point_farthest_below_the_chord(seed):
    assert len(lower_left(a_curve(seed))) > 4
    _check_knee(a_curve(seed))


@given(some_places)
def test_the_knee_is_the_point_farthest_below_the_chord(places):
    _check_knee(places)


def _check_knee(places):
    found = find_knee(places)
    hull = lower_left(places)
    if len(hull) < 3:
        assert found is None
        return
    first = min(places)
    last = min(places, key=lambda p: (p.error, p.advantage))
    scale = np.array([last.advantage - first.advantage, first.error - last.error])
    scaled = (np.array(places) - [first.advantage, last.error]) / scale
    chord = np.array([1.0, -1.0]) / np.sqrt(2)  # from (0, 1) to (1, 0)
    off = scaled - [0.0, 1.0]
    below = -(chord[0] * off[:, 1] - chord[1] * off[:, 0])
    assert below[found] == pytest.approx(below.max())
    assert below[found] > 0


@given(some_places, st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_knee_does_not_depend_on_units(places, wide, high):
    found = find_knee(places)
    again = find_knee([Place(wide * p.advantage, high * p.error) for p in places])
    if found is not None and again is not None:
        assert places[found] == places[again] or _as_deep(places, found, again)


def _as_deep(places, one, other):
    hull = [places[i] for i in lower_left(places)]
    wide, high = hull[-1].advantage - hull[0].advantage, hull[0].error - hull[-1].error
    depths = [places[i].advantage / wide + places[i].error / high for i in (one, other)]
    return depths[0] == pytest.approx(depths[1])


@given(some_places)
def test_a_dominated_point_has_one_that_beats_it_and_is_no_corner(places):
    beaten = dominated(places)
    for own, marked in zip(places, beaten, strict=True):
        better = [
            p
            for p in places
            if (p.advantage < own.advantage and p.error <= own.error)
            or (p.advantage <= own.advantage and p.error < own.error)
        ]
        assert marked == bool(better)
    assert not any(beaten[i] for i in lower_left(places))


def test_without_three_corners_there_is_no_knee_and_it_is_said():
    line = [point(0.1 * k, 0.5 - 0.1 * k, 0.9 - 0.1 * k) for k in (1, 2, 3)]
    found = Frontier.of(ABOUT, line)
    assert found.knee is None
    assert "No knee: fewer than three points" in found.table()
    assert Frontier.of(ABOUT, line[:1]).knee is None


# --- The frontier --------------------------------------------------------------------------


def test_points_are_ordered_and_marked():
    found = three()
    assert [p.ratio for p in found.points] == [0.5, 0.6, 0.9, 0.99]
    assert [p.knee for p in found.points] == [False, False, True, False]
    assert [p.dominated for p in found.points] == [False, True, False, False]
    assert found.knee.ratio == 0.9


def test_the_corrected_bound_is_for_at_least_as_many_points_as_there_are():
    for count in (1, 2, 3, 4, 5, 9):
        found = Frontier.of(ABOUT, [point(ratio=0.9 - 0.01 * k) for k in range(count)])
        among = found.points[0].bound_if_chosen.among
        assert count <= among < 2 * count
        assert found.points[0].bound_if_chosen.value >= found.points[0].bound.value


def test_the_table_fits_a_terminal_and_says_what_holds_at_once():
    points = [*three().points, point(method="bayes-error", certifiable=False)]
    text = Frontier.of(ABOUT, points).table()
    assert max(map(len, text.splitlines())) <= 80
    assert "* npo" in text and "- npo" in text
    assert "none: no bound, since too few rows." in text
    assert "hold at 95 % each, for one point by itself" in text
    assert "holds for all 5 at once, or audit the chosen mapping on fresh rows" in text


def test_guessing_and_raw_readings_stand_below_the_points():
    lines = three().table().splitlines()
    assert re.split(r"  +", lines[0].strip())[2:4] == ["error", "balanced accuracy"]
    assert lines[3].split()[3:6] == ["0.120", "0.880", "(0.830-0.930)"]
    assert lines[5].split() == ["guessing", "0.400", "0.500"]
    assert lines[6].split() == ["raw", "readings", "0.050", "0.940", "0.440"]
    assert "Points are compared by their balanced accuracy." in lines


def test_what_was_declared_or_could_not_be_checked_is_said():
    alike = Dependence(found=True, kind="next", lag=1, strength=0.9, chance=0.1, rows=100)
    few = Dependence(found=False, rows=5)
    for order, assumed, words in (
        (None, True, "what was declared: rows are independent draws."),
        (alike, True, "what was declared: rows are independent draws, although rows that follow"),
        (few, False, "what could not be checked: 5 rows are too few to check"),
        (None, False, None),
    ):
        about = ABOUT.model_copy(update={"order": order, "assumed_independent": assumed})
        text = Frontier.of(about, [point()]).table()
        assert words is None or f"This rests on {words}" in text
        assert ("This rests on" in text) == (words is not None)


def test_groups_are_counted_as_what_they_are_worth():
    about = ABOUT.model_copy(update={"independent_rows": 5.0})
    text = Frontier.of(about, [point()]).table()
    assert "30 held-out rows, which count for 5 independent ones" in text


def test_what_cannot_be_certified_is_no_number_in_json():
    found = Frontier.of(ABOUT, [point(certifiable=False)]).to_dict()["points"][0]
    nothing = {"certifiable": False, "reason": "too few rows"}
    assert found["bounds"][0] == {"among": 1, **nothing}
    assert found["bound_if_chosen"] == {"among": 1, **nothing}


# --- Files ---------------------------------------------------------------------------------


def test_a_frontier_survives_its_file(tmp_path):
    for found in (three(), Frontier.of(ABOUT, [point(certifiable=False)], planned=3)):
        found.save(tmp_path / "f.json")
        assert Frontier.load(tmp_path / "f.json") == found
        assert Frontier.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert not found.complete


def changed(path, value):
    content = json.loads(json.dumps(three().to_dict()))
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["version"], 3, "version must be 2; it is 3"),
        (["version"], 1, "version is 1, from before frontiers recorded balanced accuracy. Name"),
        (["about", "rule"], "cost", "about.rule goes with a cost of every answer if, and only if"),
        (["points"], "many", "points must be a list"),
        (["points", 0, "knee"], True, r"points\[0\] is out of order, or its marks"),
        (["points", 1, "dominated"], False, r"points\[1\] is out of order, or its marks"),
        (["points", 0, "ratio"], 0.95, "out of order"),
        (["points", 0, "ratio"], 0.6, "two points of the same method"),
        (["points", 0, "ratio"], 1.5, r"points\[0\].ratio"),
        (["points", 0, "n_symbols"], 10**30, r"points\[0\].n_symbols"),
        (["points", 0, "public_error", "value"], 0.9, r"public_error.value is 0.9, outside"),
        (["points", 0, "public_error", "low"], -1.0, r"public_error.low"),
        (["points", 0, "advantage", "low"], 0.9, "above the estimate"),
        (["points", 0, "advantage", "value"], 0.9, "below the estimate"),
        (["points", 0, "bounds", 0, "value"], None, "goes with a value if true"),
        (["points", 0, "bounds", 0, "among"], 3, "must be for choices among 1, 2, 4"),
        (["points", 0, "bounds", 3, "value"], 1.0, "must not fall"),
        (["points", 0, "bounds"], [], r"points\[0\].bounds has 0 items"),
        (["points", 0, "bound_if_chosen", "value"], 0.0, "its marks"),
        (["points", 0, "mapping"], "x", r"points\[0\].mapping"),
        (["points", 0, "extra"], 1, "extra is not a known key"),
        (["planned"], 1, "planned is 1; there are 4 points"),
        (["about", "confidence"], float("nan"), "about.confidence"),
        (["about", "private"], [], "about.private"),
    ],
)
def test_a_hostile_value_is_refused_in_one_line_that_names_its_place(path, value, words):
    refused(words, Frontier.from_dict, changed(path, value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a file that `discreet frontier` wrote"),
        ('{"format": "discreet-mapping"}', "is not a file that `discreet frontier` wrote"),
        ('{"format": "discreet-frontier", ', "is not JSON"),
        ('{"format": "discreet-frontier"}' + "[" * 100_000, "is not JSON"),
        ('{"format": "discreet-frontier", "x": ' + "[" * 100_000, "is not JSON"),
        ('{"format": "discreet-frontier", "planned": ' + "9" * 10_000 + "}", "planned|is not JSON"),
        ('["discreet-frontier"]', "must be an object"),
        ('{"format": "discreet-frontier", "\\ud800": 1}', "is not JSON|missing"),
        ("x" * (MAX_BYTES + 1), "at most"),
    ],
)
def test_a_damaged_file_is_one_message(tmp_path, text, words):
    file = tmp_path / "f.json"
    file.write_text(text)
    message = refused(words, Frontier.load, file)
    assert str(file) in message and len(message) < 500


@pytest.mark.slow
def test_a_file_of_nothing_but_mistakes_is_one_message(tmp_path):
    file = tmp_path / "f.json"
    keys = ",".join(f'"k{i}":0' for i in range(100_000))
    file.write_text('{"format": "discreet-frontier",' + keys + "}")
    assert len(refused("more problem", Frontier.load, file)) < 500


def test_what_is_no_file_is_refused(tmp_path):
    refused("no such file", Frontier.load, tmp_path / "none.json")
    refused("not a regular file", Frontier.load, tmp_path)
    (tmp_path / "bytes.json").write_bytes(b'"discreet-frontier" \xff\xfe')
    refused("is not JSON", Frontier.load, tmp_path / "bytes.json")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refused("not a regular file", Frontier.load, tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot be written"):
        three().save(tmp_path / "none" / "f.json")


def test_a_frontier_cannot_be_changed():
    found = three()
    with pytest.raises(ValueError, match="frozen"):
        found.points = ()
    assert copy.deepcopy(found) == found


def test_a_frontier_is_short_in_a_console_and_a_table_and_a_picture_elsewhere():
    found = three()
    assert repr(found) == "<Frontier: 4 points, 'fall' against 'who'>"
    frame = found.to_frame()
    assert list(frame["advantage"]) == [p.advantage.value for p in found.points]
    assert list(frame["knee"]) == [p.knee for p in found.points]
    assert "0.120" in found._repr_html_() and "&#x27;fall&#x27;" in found._repr_html_()
    assert "limit" in [each.get_text() for each in found.plot(limit=0.1).axes[0].texts]
