"""How tests look at a page in a real browser: open it, take pictures, measure what is drawn.

To look at a page yourself, run with ``--basetemp=DIR``: the screenshots are below it.
"""

import io
import shutil

import numpy as np
import pytest
from PIL import Image

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
needs_browser = pytest.mark.skipif(not BROWSER, reason="needs chromium, which was not found")

PHONE, DESK = (360, 740), (1200, 900)
SCHEMES = {"light": (255, 255, 255), "dark": (18, 23, 28)}
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


class Reader:
    """Somebody with a browser, of whose pages every complaint and request is kept."""

    def __init__(self, chromium, size=PHONE, scheme="light", **options):
        width, height = size
        viewport = {"width": width, "height": height}
        self.context = chromium.new_context(viewport=viewport, color_scheme=scheme, **options)
        self.context.set_default_timeout(120_000)  # milliseconds, on a machine that is busy
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def width(self):
        return self.page.evaluate("document.documentElement.scrollWidth")

    def picture(self, of=None, **options):
        """Take a picture of what the reader sees first, or of one part of the page."""
        png = _screenshot(of or self.page, options)
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def _screenshot(of, options):
    """Take a picture; a part of a live page may be replaced meanwhile, and is looked for again."""
    for _ in range(9):
        try:
            return of.screenshot(**options)
        except Exception as error:
            if "not attached to the DOM" not in str(error):
                raise
    return of.screenshot(**options)


PICTURES = """() => {
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
}); }
"""


def assert_apart(texts, width, height):
    """No text runs into another one or out of its picture."""
    for k, (word, left, top, right, bottom) in enumerate(texts):
        assert left > -4 and right < width + 4 and top > -4 and bottom < height + 4, word
        for other, *box in texts[k + 1 :]:
            across = min(right, box[2]) - max(left, box[0])
            down = min(bottom, box[3]) - max(top, box[1])
            assert across <= 1 or down <= 3, (word, other)


CONTRAST = """() => {
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
return seen.sort((a, b) => a[0] - b[0]).map(each => [each[0], String(each.slice(1))]); }
"""
