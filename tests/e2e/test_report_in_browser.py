"""Open the report in a real browser, on a phone, on a desk, in the dark and on paper."""

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
from support.report_cases import HEADLINES, hostile, large, page, private, state, three_secrets

pytestmark = [pytest.mark.slow, needs_browser]

CASES = {
    "private": (private,), "hostile": (hostile,), "home": (large, 16), "three": (three_secrets,),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name, case in (CASES | {each: (state, each) for each in HEADLINES}).items():
        (folder / f"{name}.html").write_text(page(*case), encoding="utf-8")
    return folder


OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
each_name = pytest.mark.parametrize("name", CASES)
each_size = pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
each_scheme = pytest.mark.parametrize("scheme", SCHEMES)


@each_name
@each_size
def test_the_page_fits_and_every_picture_can_be_read(show, name, size):
    reader = show(name, size)
    assert reader.width() <= size[0]
    for part in (".verdict >> nth=0", ".verdict >> nth=1", ".scale >> nth=0"):
        box = reader.page.locator(part).bounding_box()  # on the first screen
        assert box["y"] > 0 and box["y"] + box["height"] < size[1], part
    reader.page.evaluate(OPEN_ALL)
    pictures = reader.page.evaluate(PICTURES)
    assert len(pictures) >= 7
    for picture in pictures:
        width, height = picture["size"]
        assert width > 250 and height > 60, picture["title"]
        assert picture["painted"] > 2, picture["title"]
        assert picture["small"] > 9, picture["title"]
        assert_apart(picture["texts"], width, height)


@each_name
def test_a_phone_scrolls_nothing_sideways_and_asks_for_nothing(show, name):
    reader = show(name)
    assert reader.complaints == [] and len(reader.requests) == 1
    assert reader.page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert reader.page.evaluate("document.scripts.length + document.images.length") == 0
    public = ("h", "fall <script>", "fall", "activity")[list(CASES).index(name)]
    assert reader.page.title().endswith(f": privacy audit of {public}")
    reader.page.evaluate(OPEN_ALL)
    assert reader.width() <= PHONE[0]
    wide = reader.page.evaluate(
        "[...document.querySelectorAll('main *')].filter(each => !each.closest('svg') && "
        "each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML)"
    )
    assert wide == []


@each_name
@each_scheme
def test_axe_finds_nothing_and_all_text_stands_out(show, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    reader = show(name, DESK, scheme)
    seen = reader.page.evaluate(CONTRAST)
    assert len(seen) > 200
    worst, where = seen[0]
    assert worst >= 4.5, where
    reader.page.evaluate(OPEN_ALL)
    found = axe.Axe().run(reader.page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


@each_scheme
@each_size
def test_the_page_looks_as_it_should(show, files, scheme, size):
    reader = show("private", size, scheme)
    seen = reader.picture(path=files / f"{scheme}-{size[0]}.png")
    page_colour = np.array(SCHEMES[scheme])
    assert seen.shape == (size[1], size[0], 3)
    assert (seen[0, 0] == page_colour).all() and (seen[-1, 0] == page_colour).all()
    assert 0.1 < (np.abs(seen - page_colour).max(axis=2) > 8).mean() < 0.9
    red, green, blue = seen[: size[1] // 2].reshape(-1, 3).T
    assert ((green > red + 8) & (green > blue + 8)).sum() > 10_000  # the banner is green


@pytest.mark.parametrize("name", HEADLINES)
@each_size
def test_every_other_state_is_seen_on_the_first_screen_and_is_not_green(show, files, name, size):
    reader = show(name, size)
    seen = reader.picture(path=files / f"{name}-{size[0]}.png")
    said = reader.page.locator(".verdict").all_inner_texts()
    assert any(HEADLINES[name] in each for each in said)
    red, green, blue = seen[: size[1] // 2].reshape(-1, 3).T
    warm = (red > blue + 8) & (red >= green)  # amber or red, as the worse of both is
    assert warm.sum() > 5_000
    for part in (".verdict >> nth=0", ".verdict >> nth=1", ".scale >> nth=0"):
        box = reader.page.locator(part).bounding_box()
        assert box["y"] > 0 and box["y"] + box["height"] < size[1], part
    assert reader.width() <= size[0]


def test_the_picture_of_a_sensor_shows_its_table(show):
    """At each reading the boundary between the symbols is as high as the probability."""
    reader = show("private", DESK)
    svg = reader.page.locator("section[aria-labelledby=sensor-0] svg").first
    seen = reader.picture(svg)
    pale, dark = (np.abs(seen - c).max(axis=2) < 6 for c in ((216, 231, 239), (12, 69, 100)))
    rows = np.flatnonzero(dark.sum(axis=1) > 100)  # below the legend
    columns = np.flatnonzero((pale | dark)[rows[0] : rows[-1] + 1].sum(axis=0) > 20)
    left, right = columns[0], columns[-1] + 1
    edges = np.linspace(left, right, 10)
    middles = ((edges[:-1] + edges[1:]) / 2).astype(int)
    found = dark[:, middles].sum(axis=0) / (pale | dark)[:, middles].sum(axis=0)
    np.testing.assert_allclose(found, [1] * 5 + [0] * 2 + [0.5] * 2, atol=0.05)


@each_name
def test_on_paper_it_is_light_whole_and_not_cut(show, name):
    reader = show(name, (690, 1000), "dark", "print")
    colour = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    assert reader.width() <= 690
    closed = reader.page.evaluate(
        "[...document.querySelectorAll('.pair details table, .researcher p')].filter("
        "each => !each.checkVisibility({contentVisibilityAuto: true})).length"
    )
    assert closed == 0
    broken = reader.page.evaluate(
        "[...document.querySelectorAll('.facts dt')].filter("
        "each => each.scrollWidth > each.clientWidth).length"
    )
    assert broken == 0
    pdf = reader.page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF") and 1 <= pdf.count(b"/Type /Page\n") <= 4
