"""Open the report in a real browser, on a phone, on a desk, in the dark and on paper.

To look at it yourself, run with ``--basetemp=DIR``: the screenshots are below it.
"""

import base64
import io
import shutil

import numpy as np
import pytest
from PIL import Image
from report_cases import hostile, large, page, private

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="needs chromium and chromedriver, which were not found"
)

CASES = {"private": (private,), "hostile": (hostile,), "home": (large, 16)}
PHONE, DESK = (360, 740), (1200, 900)
SCHEMES = {"light": (255, 255, 255), "dark": (18, 23, 28)}
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:  # no sandbox, because containers run as root
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield found
    found.quit()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name, case in CASES.items():
        (folder / f"{name}.html").write_text(page(*case), encoding="utf-8")
    return folder


def show(browser, files, name, size=PHONE, scheme="light", media="screen"):
    """Open a report as a reader has it."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wanted = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [wanted]})
    browser.get((files / f"{name}.html").as_uri())


def look(browser, files, name):
    """Take a picture of what the reader sees first, and keep it."""
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    png = base64.b64decode(taken)
    (files / f"{name}.png").write_bytes(png)
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


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


PICTURES = """
return [...document.querySelectorAll('figure > svg')].map(svg => {
  const at = svg.getBoundingClientRect();
  const box = text => { const b = text.getBoundingClientRect();
    return [b.left - at.left, b.top - at.top, b.right - at.left, b.bottom - at.top]; };
  const painted = [...svg.querySelectorAll('path, use, image')].filter(each => {
    const b = each.getBoundingClientRect(); return b.width > 1 && b.height > 1; });
  return {title: svg.querySelector('title').textContent, size: [at.width, at.height],
    painted: painted.length, small: Math.min(...[...svg.querySelectorAll('text')].map(
      text => parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a)),
    texts: [...svg.querySelectorAll('text')].map(text => [text.textContent, ...box(text)])};
});
"""


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


def assert_apart(texts, width, height):
    """No text runs into another one or out of its picture."""
    for k, (word, left, top, right, bottom) in enumerate(texts):
        assert left > -4 and right < width + 4 and top > -4 and bottom < height + 4, word
        for other, *box in texts[k + 1 :]:
            across = min(right, box[2]) - max(left, box[0])
            down = min(bottom, box[3]) - max(top, box[1])
            assert across <= 1 or down <= 3, (word, other)


CONTRAST = """
const channel = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const parse = text => text.match(/[\\d.]+/g).map(Number);
const behind = node => {
  for (; node; node = node.parentElement) {
    const found = parse(getComputedStyle(node).backgroundColor);
    if (found.length < 4 || found[3] > 0.99) return found;
  }
  return [255, 255, 255];
};
const seen = [];
for (const node of document.querySelectorAll('body *')) {
  const own = [...node.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
  if (!own || node.closest('title') || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  const front = parse(node.closest('svg') ? style.fill : style.color);
  const [a, b] = [light(front), light(behind(node))];
  seen.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.tagName, node.className,
    node.textContent.slice(0, 40)]);
}
return seen.sort((a, b) => a[0] - b[0]).map(each => [each[0], String(each.slice(1))]);
"""


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
