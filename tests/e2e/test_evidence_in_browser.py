"""Open the evidence of a site in a real browser: on a phone, on a desk, in the dark, on paper."""

import pytest
from support.browsers import CONTRAST, DESK, PHONE, SCHEMES, needs_browser
from support.evidence import audited_site, days_ago, site_of_five_classes, site_with

from discreet.export.signing import load_or_make_key
from discreet.network.evidence_pack.packing import gather, write_pack

pytestmark = [pytest.mark.slow, needs_browser]

CASES = {
    "certified": audited_site,
    "five": site_of_five_classes,
    "expired": lambda folder: site_with(folder, day=days_ago(40)),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a page for each case, beside the files that it links to."""
    folder = tmp_path_factory.mktemp("packs")
    for name, make in CASES.items():
        (folder / f"site-{name}").mkdir()
        site = make(folder / f"site-{name}")
        key = load_or_make_key(site / "keys" / "bundle.key")
        write_pack(gather(site), key, folder / name)
        (folder / f"{name}.html").write_bytes((folder / name / "index.html").read_bytes())
    return folder


each_name = pytest.mark.parametrize("name", CASES)


@each_name
def test_nothing_scrolls_sideways_on_a_phone(show, name):
    assert show(name, PHONE).width() <= PHONE[0]


@each_name
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_state_is_on_the_first_screen(show, name, size):
    box = show(name, size).page.locator(".verdict >> nth=0").bounding_box()
    assert box["y"] > 0 and box["y"] + box["height"] < size[1]


@each_name
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_and_text_stands_out(show, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    reader = show(name, DESK, scheme)
    found = axe.Axe().run(reader.page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
    worst, where = reader.page.evaluate(CONTRAST)[0]
    assert worst >= 4.5, where


@each_name
def test_it_loads_and_runs_nothing(show, name):
    reader = show(name)
    assert reader.complaints == [] and len(reader.requests) == 1
    assert reader.page.evaluate("document.scripts.length + document.images.length") == 0


def test_an_expired_one_is_red(show, files):
    reader = show("expired", DESK)
    assert reader.page.locator(".verdict >> nth=0").get_attribute("class") == "verdict bad"
    seen = reader.picture(path=files / "expired.png")
    red, green, _ = seen[:300].reshape(-1, 3).T
    assert (red > green + 10).sum() > 10_000


def test_what_is_typed_into_a_line_is_printed(show):
    reader = show("certified", DESK)
    field = reader.page.locator("#fill-gdpr-a-purpose")
    field.fill("Help after a fall.")
    reader.page.emulate_media(media="print")
    assert field.is_visible() and field.input_value() == "Help after a fall."


@each_name
def test_on_paper_it_is_four_pages_at_most(show, name):
    reader = show(name, (690, 1000), "dark", "print")
    assert reader.width() <= 690
    pdf = reader.page.pdf(prefer_css_page_size=True)
    assert 1 <= pdf.count(b"/Type /Page\n") <= 4
