import errno
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from support.frontiers import ABOUT, estimate, point, three
from support.helpers import refused

from discreet.frontiers.frontier import frontier_svg, save_plot
from discreet.frontiers.plot import draw
from discreet.frontiers.results import Frontier, Worth
from discreet.plots import INK

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_picture_for_a_page_takes_its_colours_from_the_page():
    svg = frontier_svg(three(), here=(0.1, 0.2))
    assert svg.startswith("<svg") and "currentColor" in svg
    assert "#0a0b0c" not in svg and "#ffffff" not in svg
    assert "<style" not in svg  # it would hold for the whole page
    words = texts(svg)
    assert "you are here" in words and "knee: npo 0.9" in words and "say nothing" in words
    assert "raw readings" in words and "limit" not in words
    assert "npo, 2 symbols" in words and "balanced error on 'fall' (points)" in words
    assert "how far an attacker beats guessing 'who' (points)" in words
    assert "you are here" not in texts(frontier_svg(three()))


def test_a_limit_is_a_line_and_raw_readings_and_silence_are_points():
    axes = draw(three(), limit=0.15).axes[0]
    assert "limit" in [each.get_text() for each in axes.texts]
    assert [15, 15] in [list(line.get_xdata()) for line in axes.lines]
    beside = [line for line in axes.lines if line.get_marker() in "sD" and line.get_color() == INK]
    places = {line.get_marker(): (line.get_xdata()[0], line.get_ydata()[0]) for line in beside}
    assert places["s"] == (0, 50) and places["D"] == (44, pytest.approx(6))


def test_a_frontier_that_does_not_know_the_raw_leak_shows_the_raw_error():
    about = ABOUT.model_copy(update={"raw": ABOUT.raw.model_copy(update={"leak": None})})
    assert "raw readings" not in texts(frontier_svg(Frontier.of(about, three().points)))
    levels = [
        list(line.get_ydata()) for line in draw(Frontier.of(about, three().points)).axes[0].lines
    ]
    assert any(level == pytest.approx([6, 6]) for level in levels if len(level) == 2)


def test_nothing_is_loaded_from_elsewhere():
    svg = frontier_svg(three())
    addresses = set(re.findall(r'(?:https?:|file:|//)[^"\s]+', svg))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', svg))
    assert "<!DOCTYPE" not in svg and "<metadata" not in svg


@pytest.mark.parametrize("count", [1, 15, 60, 150])
@pytest.mark.slow
def test_the_picture_stays_small(count):
    ratios = [0.2 + 0.7 * k / count for k in range(count)]
    points = [point(0.4 * (1 - r), 0.5 * r**2, r) for r in ratios]
    points += [point(0.4 * (1 - r) + 0.05, 0.5 * r**2, r, "bayes-error") for r in ratios[::4]]
    assert len(frontier_svg(Frontier.of(ABOUT, points), here=(0.1, 0.1))) < 40_000


def test_the_same_frontier_gives_the_same_picture():
    assert frontier_svg(three()) == frontier_svg(three())


def test_names_are_neither_markup_nor_mathematics():
    about = ABOUT.model_copy(update={"public": "a<b>&$x_2$"})
    svg = frontier_svg(Frontier.of(about, three().points))
    assert "balanced error on 'a<b>&$x_2$' (points)" in texts(svg)
    japanese = ABOUT.model_copy(update={"public": "転倒"})
    assert "balanced error on '転倒' (points)" in texts(
        frontier_svg(Frontier.of(japanese, three().points))
    )


@pytest.mark.parametrize(("rule", "cost"), [("likely", None), ("cost", 0.3)])
def test_the_error_shown_is_the_one_that_decisions_are_good_for(rule, cost):
    worth = Worth(error=0.1, balanced_accuracy=0.5, cost=cost, leak=0.4)
    about = ABOUT.model_copy(update={"rule": rule, "guessing": worth, "raw": worth})
    found = Frontier.of(about, [point(cost=cost and estimate(0.2)), point(0.2, 0.1, 0.95,
                        cost=cost and estimate(0.25))])  # fmt: skip
    axes = draw(found).axes[0]
    shown = {"likely": (20, 10), "cost": (20, 25)}[rule]
    markers = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert {y for line in markers for y in line.get_ydata()} >= set(shown)
    assert axes.get_ylabel() == {"likely": "error", "cost": "cost of misses"}[rule] + (
        " on 'fall' (points)"
    )
    levels = [line.get_ydata()[0] for line in axes.lines if line.get_marker() in "sD"
              and line.get_color() == INK]  # fmt: skip
    assert levels == [{"likely": 10, "cost": 30}[rule]] * 2
    assert [p.dominated for p in found.points] == [False, rule == "cost"]


def test_points_without_bounds_knee_or_known_method_are_drawn():
    points = [point(certifiable=False), point(0.2, 0.1, None, "randomized-response")]
    words = texts(frontier_svg(Frontier.of(ABOUT, points)))
    assert "randomized-response, 2 symbols" in words
    assert not any("knee" in word for word in words)


def test_files_are_what_their_names_say(tmp_path):
    save_plot(three(), tmp_path / "f.svg")
    save_plot(three(), tmp_path / "f.PNG")
    assert "<svg" in (tmp_path / "f.svg").read_text()
    assert "<text" in (tmp_path / "f.svg").read_text()
    assert (tmp_path / "f.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_full_disk_leaves_the_old_picture(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "f.svg").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    refused("No space left", save_plot, three(), tmp_path / "f.svg")
    assert [file.name for file in tmp_path.iterdir()] == ["f.svg"]
    assert (tmp_path / "f.svg").read_text() == "old"


def test_other_formats_and_places_are_refused(tmp_path):
    refused(r"a picture ends in .svg or .png, got 'f.pdf'", save_plot, three(), tmp_path / "f.pdf")
    refused("cannot be written", save_plot, three(), tmp_path / "none" / "f.svg")
    empty = Frontier.of(ABOUT, [], planned=2)
    refused("nothing to draw", save_plot, empty, tmp_path / "f.svg")
    assert not list(tmp_path.iterdir())


def test_matplotlib_waits_until_something_is_drawn():
    code = "import discreet.frontiers, sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
