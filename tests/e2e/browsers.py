"""How tests look at a page in a real browser: open it, take pictures, measure what is drawn.

To look at a page yourself, run with ``--basetemp=DIR``: the screenshots are below it.
"""

import base64
import io
import shutil

import numpy as np
import pytest
from PIL import Image

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="needs chromium and chromedriver, which were not found"
)

PHONE, DESK = (360, 740), (1200, 900)
SCHEMES = {"light": (255, 255, 255), "dark": (18, 23, 28)}
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
)  # fmt: skip


def start():
    """Start a browser that shows nothing on the screen."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:  # no sandbox, because containers run as root
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


def show(browser, files, name, size=PHONE, scheme="light", media="screen"):
    """Open a page as a reader has it."""
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
