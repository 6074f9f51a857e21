"""Open the page of `make reproduce ARGS=--all` in a real browser, small, dark and on paper."""

import numpy as np
import pytest
from support.browsers import (
    CONTRAST,
    DESK,
    PHONE,
    PICTURES,
    SCHEMES,
    assert_apart,
    needs_browser,
)
from support.reproductions import make_page

pytestmark = [pytest.mark.slow, needs_browser]
NAME = "reproduction"
each_size = pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
each_scheme = pytest.mark.parametrize("scheme", SCHEMES)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / f"{NAME}.html").write_text(make_page()[1], encoding="utf-8")
    return folder


@each_size
def test_the_page_fits_and_every_picture_can_be_read(show, size):
    reader = show(NAME, size)
    assert reader.width() <= size[0]
    assert reader.complaints == [] and len(reader.requests) == 1
    assert reader.page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert reader.page.evaluate("document.scripts.length + document.images.length") == 0
    assert reader.page.title() == "The paper’s tables and figures beside ours"
    pictures = reader.page.evaluate(PICTURES)
    assert len(pictures) == 5
    for picture in pictures:
        width, height = picture["size"]
        assert width > 250 and height > 200, picture["title"]
        assert picture["painted"] > 2 and picture["small"] > 8.9, picture["title"]
        assert_apart(picture["texts"], width, height)


@each_scheme
def test_all_text_stands_out_from_what_is_behind_it(show, scheme):
    reader = show(NAME, DESK, scheme)
    seen = reader.page.evaluate(CONTRAST)
    assert len(seen) > 200
    worst, where = seen[0]
    assert worst >= 4.5, where


@each_scheme
@each_size
def test_the_page_takes_the_colours_of_its_reader(show, files, scheme, size):
    reader = show(NAME, size, scheme)
    seen = reader.picture(path=files / f"{scheme}-{size[0]}.png")
    page_colour = np.array(SCHEMES[scheme])
    assert (seen[0, 0] == page_colour).all() and (seen[-1, 0] == page_colour).all()
    reader.page.locator("figure").first.evaluate("each => each.scrollIntoView()")
    assert (
        reader.picture(path=files / f"{scheme}-{size[0]}-figure.png")[-1, 0] == page_colour
    ).all()


def test_on_paper_it_is_light_and_not_cut(show):
    reader = show(NAME, (690, 1000), "dark", "print")
    colour = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    cut = reader.page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter("
        "each => each.scrollWidth > each.clientWidth + 1).length"
    )
    assert cut == 0
    pdf = reader.page.pdf()
    assert pdf.startswith(b"%PDF")
