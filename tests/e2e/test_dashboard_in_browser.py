"""Use the dashboard in a real browser: every view, by keyboard, on a phone, in the dark, live.

To look at the pages yourself, run with ``--basetemp=DIR``: the screenshots are below it.
"""

import numpy as np
import pytest
from support.browsers import CONTRAST, DESK, PHONE, Reader, needs_browser
from support.dashboards import PASSWORD, SITES, served

from discreet.network.dashboard.serving import users_of

pytestmark = [pytest.mark.slow, needs_browser]

VIEWS = {"overview": "/", "sensors": "/sensors", "guarantee": "/guarantee", "system": "/system"}
PAGE_COLOURS = {"light": (243, 245, 247), "dark": (18, 23, 28)}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return tmp_path_factory.mktemp("dashboard")


class Visitor(Reader):
    """Somebody at the dashboard."""

    def __init__(self, chromium, address, size=DESK, scheme="light", **options):
        super().__init__(chromium, size, scheme, **options)
        self.address = address

    def go(self, path):
        self.page.goto(self.address + path)

    def log_in(self):
        self.go("/login")
        self.page.fill("#name", "ann")
        self.page.fill("#password", PASSWORD)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#decision")
        return self

    def show(self, view):
        """Open a view and wait until it is live and its charts are drawn."""
        self.go(VIEWS[view])
        self.page.wait_for_selector("#link[data-state=live]")
        for box in self.page.query_selector_all(".plot"):
            name = box.get_attribute("data-plot")
            self.page.wait_for_selector(f"[data-plot={name}] :is(canvas, .empty)")


def serious(page):
    """Return what axe calls moderate or worse."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] != "minor"]


@pytest.fixture
def visit(chromium, tmp_path):
    """Make a site, serve it, and hand out readers of it."""
    opened = []

    def begin(kind="healthy", **options):
        maker = SITES[kind](tmp_path / kind)
        users_of(maker.folder).add("ann", PASSWORD)
        serving = served(maker.folder)
        opened.append((maker, serving))
        address = serving.__enter__()
        reader = Visitor(chromium, address, **options)
        opened.append((reader.context, None))
        return maker, reader

    yield begin
    for each, serving in reversed(opened):
        if serving is None:
            each.close()
        else:
            serving.__exit__(None, None, None)
            each.store.close()


@pytest.mark.parametrize("kind", sorted(set(SITES) - {"healthy"}))  # which the others visit
def test_every_view_of_every_site_fits_and_is_quiet(visit, chromium, kind, pictures):
    _, first = visit(kind)
    looks = [(PHONE, "dark"), (DESK, "light")]
    looks += [(PHONE, "light"), (DESK, "dark")] if kind == "troubled" else []
    for size, scheme in looks:
        reader = Visitor(chromium, first.address, size, scheme)
        reader.go("/login")
        assert reader.width() <= size[0]
        reader.page.screenshot(path=pictures / f"{kind}-login-{scheme}-{size[0]}.png")
        reader.log_in()
        for view in VIEWS:
            reader.show(view)
            for each in reader.page.query_selector_all("summary"):
                each.click()
            assert reader.width() <= size[0], (view, size)
            name = f"{kind}-{view}-{scheme}-{size[0]}.png"
            reader.page.screenshot(path=pictures / name, full_page=True)
            worst = reader.page.evaluate(CONTRAST)[0]
            assert worst[0] >= 4.5, (view, scheme, worst)
            assert tuple(reader.picture()[2, 2]) == PAGE_COLOURS[scheme]
            assert serious(reader.page) == [], (view, scheme)
        assert reader.complaints == []
        assert all(url.startswith(reader.address) for url in reader.requests)
        reader.context.close()


def test_a_login_and_every_view_by_keyboard_alone(visit):
    _, reader = visit()
    page, press = reader.page, reader.page.keyboard.press
    reader.go("/guarantee")  # sends to the login
    page.wait_for_selector("#name:focus")  # a browser gives it a moment after the page is there
    page.keyboard.type("ann")
    press("Tab")
    page.keyboard.type("something wrong")
    press("Enter")
    page.wait_for_selector("[role=alert]")
    assert "wrong" in page.inner_text("[role=alert]")
    page.wait_for_selector("#password:focus")  # the name is kept
    page.keyboard.type(PASSWORD)
    press("Enter")
    page.wait_for_url("**/guarantee")
    press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    press("Enter")
    page.wait_for_selector("#main:focus")
    for view, path in VIEWS.items():
        reader.go(VIEWS["sensors"])
        for _ in range(30):
            press("Tab")
            if page.evaluate("document.activeElement.getAttribute('href')") == path and (
                page.evaluate("!!document.activeElement.closest('nav')")
            ):
                break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", view
        press("Enter")
        page.wait_for_selector(f"body[data-view={view}]")
        assert page.get_attribute("nav a[aria-current=page]", "href") == path
    page.focus("button.quiet")
    press("Enter")
    page.wait_for_url("**/login")


def test_charts_are_drawn_and_stand_in_a_table_too(visit):
    _, reader = visit()
    reader.log_in()
    for view, names in {"overview": ("probability", "reported"), "system": ("rate", "lag")}.items():
        reader.show(view)
        for name in names:
            canvas = reader.page.locator(f"[data-plot={name}] canvas")
            line = np.abs(reader.picture(canvas) - (11, 106, 153)).max(axis=2) < 40
            assert line.any(axis=0).mean() > 0.5, name  # it runs across
            assert reader.page.get_attribute(f"[data-plot={name}]", "aria-label")
        reader.page.click("summary")
        assert reader.page.locator("details[open] tbody tr").count() >= 10
    reader.show("overview")
    reader.page.hover("[data-plot=probability] .u-over")
    reader.page.wait_for_function(
        "document.querySelector('[data-plot=probability] .u-legend').textContent.includes('%')"
    )


def test_the_page_is_live(visit):
    maker, reader = visit()
    reader.log_in()
    reader.show("overview")
    page = reader.page
    before = page.inner_text("#decision .soft")
    page.focus("nav a[aria-current=page]")
    maker.decide(hours=0, until=-3 * maker.site.interval)
    last = maker.store.last_decided()
    page.wait_for_function(
        "text => document.querySelector('#decision').textContent.replace(/\\s/g, '')"
        ".includes(text)",
        arg=f"Round{last},closed",
    )
    assert page.inner_text("#decision .soft") != before
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/"  # focus is kept
    assert page.inner_text("#spoken").startswith("fall: ")


def test_a_silent_device_shows_by_itself(visit):
    maker, reader = visit()
    reader.log_in()
    reader.show("sensors")
    assert reader.page.locator("#devices .badge.bad").count() == 0
    base = maker.store._base
    base.change("UPDATE clients SET last_seen = last_seen - 600 WHERE client = 'hall'")
    reader.page.wait_for_selector("#devices .badge.bad")
    assert "hall" in reader.page.inner_text("#devices tbody tr:first-child")
    assert "1 device silent" in reader.page.inner_text("#banner")


def test_a_lost_connection_is_told_and_found_again(chromium, tmp_path):
    maker = SITES["healthy"](tmp_path / "site")
    users_of(maker.folder).add("ann", PASSWORD)
    with served(maker.folder) as address:
        reader = Visitor(chromium, address).log_in()
        reader.show("overview")
    reader.page.wait_for_selector("#link[data-state=lost]")
    assert "connection lost" in reader.page.inner_text("#link")
    reader.context.close()
    maker.store.close()


def test_a_log_out_elsewhere_closes_the_page(visit):
    _, reader = visit()
    reader.log_in()
    reader.show("overview")
    other = reader.context.new_page()
    other.goto(reader.address + "/system")
    other.click("button.quiet")
    other.wait_for_url("**/login")
    reader.page.wait_for_url("**/login**")


def test_it_can_be_read_without_scripts(visit):
    _, reader = visit("troubled", java_script_enabled=False)
    reader.log_in()
    for path in VIEWS.values():
        reader.go(path)
        assert reader.page.locator("#banner .bad").count() == 1
    reader.go("/")
    assert reader.page.inner_text(".answer").split()[-1] in ("True", "False")
    reader.page.click("summary")
    assert reader.page.locator("#decisions tbody tr").count() == 20
    reader.go("/sensors?state=silent")
    assert reader.page.locator("#devices tbody tr").count() == 1


def test_an_expired_certificate_is_red(visit):
    maker, reader = visit("troubled")
    (maker.folder / "recheck.json").unlink()  # which withdraws it before
    reader.log_in()
    reader.show("guarantee")
    assert "expired" in reader.page.locator("#certificate .notice.bad").inner_text()


def test_a_withdrawn_certificate_is_red(visit):
    _, reader = visit("troubled")
    reader.log_in()
    reader.show("guarantee")
    notice = reader.page.locator("#certificate .notice.bad")
    assert "withdrawn" in notice.inner_text()
    red, green, blue = reader.picture(notice)[5, -20]
    assert red > green + 10 and red > blue + 10


def test_the_frontier_shows_where_the_mapping_is(visit):
    _, reader = visit()
    reader.log_in()
    reader.show("guarantee")
    page = reader.page
    assert page.locator(".frontier circle:is(.point, .knee, .beaten)").count() == 7
    box = page.locator(".here circle").first.bounding_box()
    whole = page.locator(".frontier").bounding_box()
    assert box["x"] > whole["x"] and box["y"] + box["height"] < whole["y"] + whole["height"]
    page.locator("summary", has_text="The points as a table").click()
    assert page.locator("details[open] tbody tr").count() == 8
