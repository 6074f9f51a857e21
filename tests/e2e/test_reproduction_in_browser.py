"""Open the page of `discreet reproduce --all` in a real browser, small, dark and on paper."""

import base64

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
from paper.test_page import make_page

pytestmark = needs_browser
NAME = "reproduction"
each_size = pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
each_scheme = pytest.mark.parametrize("scheme", SCHEMES)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / f"{NAME}.html").write_text(make_page()[1], encoding="utf-8")
    return folder


@each_size
def test_nothing_sticks_out_of_the_page(browser, files, size):
    show(browser, files, NAME, size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= size[0]


def test_the_page_opens_without_a_complaint_or_a_request(browser, files):
    browser.get_log("browser")
    show(browser, files, NAME)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return document.scripts.length + document.images.length") == 0
    assert browser.title == "The paper’s tables and figures beside ours"


@each_size
def test_every_picture_is_drawn_and_can_be_read(browser, files, size):
    show(browser, files, NAME, size)
    pictures = browser.execute_script(PICTURES)
    assert len(pictures) == 5
    for picture in pictures:
        width, height = picture["size"]
        assert width > 250 and height > 200, picture["title"]
        assert picture["painted"] > 2 and picture["small"] > 8.9, picture["title"]
        assert_apart(picture["texts"], width, height)


@each_scheme
def test_all_text_stands_out_from_what_is_behind_it(browser, files, scheme):
    show(browser, files, NAME, DESK, scheme)
    seen = browser.execute_script(CONTRAST)
    assert len(seen) > 200
    worst, where = seen[0]
    assert worst >= 4.5, where


@each_scheme
@each_size
def test_the_page_takes_the_colours_of_its_reader(browser, files, scheme, size):
    show(browser, files, NAME, size, scheme)
    seen = look(browser, files, f"{scheme}-{size[0]}")
    page_colour = np.array(SCHEMES[scheme])
    assert (seen[0, 0] == page_colour).all() and (seen[-1, 0] == page_colour).all()
    figure = browser.find_element("css selector", "figure")
    browser.execute_script("arguments[0].scrollIntoView()", figure)
    assert (look(browser, files, f"{scheme}-{size[0]}-figure")[-1, 0] == page_colour).all()


def test_on_paper_it_is_light_and_not_cut(browser, files):
    show(browser, files, NAME, (690, 1000), "dark", "print")
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].filter("
        "each => each.scrollWidth > each.clientWidth + 1).length"
    )
    assert cut == 0
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
