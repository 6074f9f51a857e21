"""Open the report in a real browser, on a phone, on a desk, in the dark and on paper."""

import base64
import io

import numpy as np
import pytest
from e2e.browsers import (
    CONTRAST,
    DESK,
    PHONE,
    PICTURES,
    SCHEMES,
    assert_apart,
    look,
    needs_browser,
    show,
)
from PIL import Image
from report_cases import hostile, large, page, private

pytestmark = needs_browser

CASES = {"private": (private,), "hostile": (hostile,), "home": (large, 16)}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name, case in CASES.items():
        (folder / f"{name}.html").write_text(page(*case), encoding="utf-8")
    return folder


each_name = pytest.mark.parametrize("name", CASES)
each_size = pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
each_scheme = pytest.mark.parametrize("scheme", SCHEMES)


@each_name
@each_size
def test_nothing_sticks_out_of_the_page(browser, files, name, size):
    show(browser, files, name, size)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= size[0]


@each_name
@each_size
def test_the_verdict_is_on_the_first_screen(browser, files, name, size):
    show(browser, files, name, size)
    box = browser.execute_script(
        "return document.getElementById('verdict').getBoundingClientRect().toJSON()"
    )
    assert box["top"] > 0 and box["bottom"] < size[1]


@each_name
def test_the_page_opens_without_a_complaint_or_a_request(browser, files, name):
    browser.get_log("browser")
    show(browser, files, name)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return document.scripts.length + document.images.length") == 0
    assert browser.title.endswith(": privacy audit of " + ("h", "fall <script>", "fall")[
        list(CASES).index(name)
    ])  # fmt: skip


@each_name
@each_size
def test_every_picture_is_drawn_and_can_be_read(browser, files, name, size):
    show(browser, files, name, size)
    pictures = browser.execute_script(PICTURES)
    assert len(pictures) >= 8
    for picture in pictures:
        width, height = picture["size"]
        assert width > 250 and height > 60, picture["title"]
        assert picture["painted"] > 2, picture["title"]
        assert picture["small"] > 9, picture["title"]
        assert_apart(picture["texts"], width, height)


@each_name
@each_scheme
def test_all_text_stands_out_from_what_is_behind_it(browser, files, name, scheme):
    show(browser, files, name, DESK, scheme)
    seen = browser.execute_script(CONTRAST)
    assert len(seen) > 200
    worst, where = seen[0]
    assert worst >= 4.5, where


@each_scheme
@each_size
def test_the_page_looks_as_it_should(browser, files, scheme, size):
    show(browser, files, "private", size, scheme)
    seen = look(browser, files, f"{scheme}-{size[0]}")
    page_colour = np.array(SCHEMES[scheme])
    assert seen.shape == (size[1], size[0], 3)
    assert (seen[0, 0] == page_colour).all() and (seen[-1, 0] == page_colour).all()
    assert 0.1 < (np.abs(seen - page_colour).max(axis=2) > 8).mean() < 0.9
    red, green, blue = seen[: size[1] // 2].reshape(-1, 3).T
    assert ((green > red + 8) & (green > blue + 8)).sum() > 10_000  # the banner is green


def test_the_picture_of_a_sensor_shows_its_table(browser, files):
    """At each reading the boundary between the symbols is as high as the probability."""
    show(browser, files, "private", DESK)
    svg = browser.find_element("css selector", "section[aria-labelledby=sensor-0] svg")
    browser.execute_script("arguments[0].scrollIntoView()", svg)
    seen = np.asarray(Image.open(io.BytesIO(svg.screenshot_as_png)).convert("RGB")).astype(int)
    pale, dark = (np.abs(seen - c).max(axis=2) < 6 for c in ((216, 231, 239), (12, 69, 100)))
    rows = np.flatnonzero(dark.sum(axis=1) > 100)  # below the legend
    columns = np.flatnonzero((pale | dark)[rows[0] : rows[-1] + 1].sum(axis=0) > 20)
    left, right = columns[0], columns[-1] + 1
    edges = np.linspace(left, right, 10)
    middles = ((edges[:-1] + edges[1:]) / 2).astype(int)
    found = dark[:, middles].sum(axis=0) / (pale | dark)[:, middles].sum(axis=0)
    np.testing.assert_allclose(found, [1] * 5 + [0] * 2 + [0.5] * 2, atol=0.05)


@each_name
def test_on_paper_it_is_light_whole_and_not_cut(browser, files, name):
    show(browser, files, name, (690, 1000), "dark", "print")
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 690
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].filter("
        "each => each.scrollWidth > each.clientWidth + 1).length"
    )
    assert cut == 0
    closed = browser.execute_script(
        "return [...document.querySelectorAll('.pair details table')].filter("
        "each => !each.checkVisibility({contentVisibilityAuto: true})).length"
    )
    assert closed == 0
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") < 20
