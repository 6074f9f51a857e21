"""Use the dashboard in a real browser: every view, by keyboard, on a phone, in the dark, live.

To look at the pages yourself, run with ``--basetemp=DIR`` and without ``-n``: the screenshots are
below it.
"""

from contextlib import contextmanager

import numpy as np
import pytest
from support.browsers import CONTRAST, PHONE, Reader, needs_browser
from support.dashboards import PASSWORD, SITES, STATES, served
from support.ingress import PREFIX, home_assistant

from discreet.network.dashboard.serving import users_of

pytestmark = [pytest.mark.slow, needs_browser]

VIEWS = {"overview": "/", "sensors": "/sensors", "guarantee": "/guarantee", "system": "/system"}
DESK = (1280, 900)
PAGE_COLOURS = {"light": (243, 245, 247), "dark": (18, 23, 28)}

# Texts that are wider than their box, except where a box scrolls or cuts names on purpose.
CUT_OFF = """() => [...document.querySelectorAll('main *')].filter(each =>
  each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline'
  && !each.closest('.scroll, .unseen, svg, select, .uplot, .stack thead')
  && getComputedStyle(each).textOverflow !== 'ellipsis').map(each => each.outerHTML.slice(0, 200))
"""


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
        self.wait_for_plots()

    def wait_for_plots(self):
        for box in self.page.query_selector_all(".plot"):
            name = box.get_attribute("data-plot")
            self.page.wait_for_selector(f"[data-plot={name}] :is(canvas, .empty)")

    def look(self, size, scheme):
        """Take another screen and other colours for the same page."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=scheme)
        self.wait_for_plots()
        # Two frames, so that charts have followed the new width.
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )


def serious(page):
    """Return what axe calls moderate or worse."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] != "minor"]


@pytest.fixture
def visit(chromium, tmp_path):
    """Make a site, serve it, and hand out readers of it."""
    opened = []

    def begin(kind="healthy", stopped=False, **options):
        maker = (SITES | STATES)[kind](tmp_path / "site")
        users_of(maker.folder).add("ann", PASSWORD)
        serving = served(maker.folder, maker.now if stopped else None)
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


# What each view of a state has to show, and what it must not.
SHOWN = {
    "fresh": {
        "overview": (["First steps", "discreet enroll", "discreet serve"], ["Needs attention"]),
        "sensors": (["has not run yet", "No device is enrolled yet"], ["Needs attention"]),
        "guarantee": (["No certificate"], ["days left"]),
        "system": (["has not run yet"], ["Needs attention"]),
    },
    "well": {
        "overview": (["All is well", "fallen", "days left", "right in about"], []),
        "sensors": (["Guarantee: Certified", "days left", "heard in time"], ["nats", "silent 1"]),
        "guarantee": (["days left", "the re-check agrees"], ["withdrawn"]),
        "system": (["Guarantee: Certified", "Messages of the last hour"], ["withdrawn"]),
    },
    "unsure": {"overview": (["Unsure, rather: Somebody has fallen", "below 75 %"], [])},
    "broken re-check": {
        "overview": (["Certificate withdrawn", "Nothing is promised"], ["days left", "certified"]),
        "sensors": (["Guarantee: Certificate withdrawn"], ["Certified", "days left"]),
        "guarantee": (["Certificate withdrawn", "withdrawn before"], ["days left"]),
        "system": (["Guarantee: Certificate withdrawn"], ["Certified", "days left"]),
    },
    "re-check due": {
        "overview": (["a re-check is due"], ["days left"]),
        "sensors": (["Guarantee: Certified, a re-check is due"], ["days left"]),
    },
    "never re-checked": {
        "overview": (["Certified, never re-checked"], ["days left"]),
        "guarantee": (["Certified, never re-checked"], ["days left"]),
    },
    "no certificate": {
        "overview": (["No certificate", "Nothing is promised"], ["days left", "Certified"]),
        "sensors": (["Guarantee: No certificate"], ["days left", "Certified"]),
        "guarantee": (["No certificate"], ["days left"]),
    },
    "certificate expired": {
        "overview": (["Certificate expired", "Nothing is promised"], ["days left", "is due. It"]),
        "guarantee": (["Certificate expired", "3 days ago"], ["days left"]),
    },
    "sensor silent": {
        "overview": (["1 device silent"], ["All is well"]),
        "sensors": (["1 device silent", "silent"], []),
    },
    "no sensor heard": {
        "overview": (
            ["Not known", "0 of 6 sensors", "The last answer"],
            ["right in about", "52 %"],
        ),
    },
    "fusion centre silent": {
        "overview": (["Not known", "The fusion centre is silent"], ["right in about"]),
    },
    "device revoked": {
        "overview": (["1 revoked"], ["silent"]),
        "sensors": (["revoked", "not heard any more"], ["1 device silent"]),
    },
    "device suspended": {
        "overview": (["1 device suspended"], []),
        "sensors": (["suspended"], ["1 device silent"]),
    },
    "clock jumped": {
        "overview": (["The clock has jumped", "2 hours ahead"], []),
        "system": (["The clock has jumped"], []),
    },
    "budget spent": {
        "overview": (["2 budgets spent", "spent"], []),
        "sensors": (["its symbols say nothing", "day"], ["nats"]),
    },
    "database damaged": {
        "overview": (["The database does not answer"], ["First steps", "has not run"]),
        "sensors": (["The database does not answer"], []),
        "system": (["The database does not answer", "Not known"], ["noted nothing"]),
    },
    "5 sensors": {"overview": (["fallen"], []), "sensors": (["room-00-door"], [])},
    "55 sensors": {
        "overview": (["2 devices silent"], []),
        "sensors": (["room-27-door", "late, or some rounds missing"], []),
    },
    "100 sensors, 5 classes, 2 secrets": {
        "overview": (["Somebody is cooking", "how many people", "who"], []),
        "sensors": (["room-49-motion"], []),
        "guarantee": (["how many people"], []),
    },
    "hostile names": {
        "overview": (["<i>x</i>"], []),
        "sensors": ([], []),
        "guarantee": ([], []),
        "system": ([], []),
    },
}
LOOKS = [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")]
ONCE = LOOKS[::3]  # each size and each scheme once
EVERY_LOOK = ("well", "broken re-check", "55 sensors")  # the other states are made of their parts


def test_every_state_is_looked_at():
    assert set(SHOWN) == set(STATES)


@pytest.mark.parametrize("state", STATES)
def test_every_state_fits_reads_well_and_says_what_it_is(visit, state, pictures, request):
    kept = request.config.getoption("basetemp") and not hasattr(request.config, "workerinput")
    _, reader = visit(state, stopped=True)
    reader.log_in()
    for view, (present, absent) in SHOWN[state].items():
        reader.show(view)
        text = reader.page.inner_text("body")
        assert [each for each in present if each not in text] == [], (view, text)
        assert [each for each in absent if each in text] == [], (view, text)
        reader.page.evaluate(
            "document.querySelectorAll('details').forEach(each => each.open = true)"
        )
        for size, scheme in LOOKS if state in EVERY_LOOK else ONCE:
            reader.look(size, scheme)
            if kept:
                name = f"{state}-{view}-{size[0]}-{scheme}.png".replace(" ", "_")
                reader.page.screenshot(path=pictures / name, full_page=True)
            assert reader.width() <= size[0], (view, size)
            assert reader.page.evaluate(CUT_OFF) == [], (view, size)
            worst = reader.page.evaluate(CONTRAST)[0]
            assert worst[0] >= 4.5, (view, scheme, worst)
            if (size, scheme) in ONCE:
                assert serious(reader.page) == [], (view, size, scheme)
        assert tuple(reader.picture()[2, 2]) == PAGE_COLOURS["dark"]
    assert reader.complaints == []
    assert all(url.startswith(reader.address) for url in reader.requests)


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_login_fits(visit, pictures, size, scheme):
    _, reader = visit(size=size, scheme=scheme)
    reader.go("/login")
    reader.page.screenshot(path=pictures / f"login-{size[0]}-{scheme}.png")
    assert reader.width() <= size[0] and serious(reader.page) == []
    assert reader.page.evaluate(CONTRAST)[0][0] >= 4.5


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
            if page.evaluate("document.activeElement.pathname") == path and (
                page.evaluate("!!document.activeElement.closest('nav')")
            ):
                break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", view
        press("Enter")
        page.wait_for_selector(f"body[data-view={view}]")
        assert page.evaluate("document.querySelector('nav a[aria-current=page]').pathname") == path
    page.focus("button.quiet")
    press("Enter")
    page.wait_for_url("**/login")


def test_charts_are_drawn_and_stand_in_a_table_too(visit):
    _, reader = visit()
    reader.log_in()
    reader.show("system")
    for name, unit in (("rate", "."), ("lag", "ms")):
        canvas = reader.page.locator(f"[data-plot={name}] canvas")
        line = np.abs(reader.picture(canvas) - (11, 106, 153)).max(axis=2) < 40
        assert line.any(axis=0).mean() > 0.5, name  # it runs across
        assert reader.page.get_attribute(f"[data-plot={name}]", "aria-label")
        legend = reader.page.locator(f"[data-plot={name}] .u-legend").inner_text()
        assert unit in legend and "--" not in legend  # the last value, without a pointer
    reader.page.click("summary")
    assert reader.page.locator("details[open] tbody tr").count() >= 10


def test_bands_and_cells_have_their_colours_and_times_their_zone(visit):
    _, reader = visit("55 sensors", stopped=True, timezone_id="Asia/Kolkata", locale="en-GB")
    reader.log_in()
    reader.show("overview")
    page = reader.page
    blue, magenta = (11, 106, 153), (154, 47, 135)
    for lane, colour in (("c0", blue), ("c1", magenta)):
        row = reader.picture(page.locator(f".lane.{lane} svg"))[12]
        shares = (np.abs(row - colour).max(axis=1) < 12).mean(), (row.min(axis=1) > 120).mean()
        assert shares[0] > 0.2 and shares[1] > 0.2, (lane, shares)  # sure; pale or a gap
    for view in ("overview", "sensors", "system"):
        reader.show(view)
        page.wait_for_function("document.querySelector('[data-zone]').textContent === 'GMT+5:30'")
        for each in page.locator("time[data-clock]").all()[:5]:
            minutes = int(each.get_attribute("datetime")[14:16])
            assert int(each.text_content()[3:5]) == (minutes + 30) % 60
    reader.show("sensors")
    assert page.locator(".strips li").count() == 55
    heights = {
        state: page.locator(f".strips path.{state}").first.bounding_box()["height"]
        for state in ("heard", "partly", "silent", "suspended")
    }
    assert heights["heard"] > 10 > heights["partly"] > heights["silent"] > 1
    page.fill("#find", "room-01")
    page.select_option("#sort", "name")
    page.keyboard.press("Enter")
    page.click(".find button")
    page.wait_for_url("**find=room-01**")
    assert page.locator("#devices tbody tr").count() == page.locator(".strips li").count() == 2


def test_the_page_is_live(visit):
    maker, reader = visit()
    known = maker.store.last_decided() - 3  # the rounds after it are decided while one looks
    maker.store._base.change(f"DELETE FROM decisions WHERE round > {known}")
    reader.log_in()
    reader.show("overview")
    page = reader.page
    before = page.inner_text("#decision .soft")
    page.focus("nav a[aria-current=page]")
    maker.decide()
    last = maker.store.last_decided()
    page.wait_for_function(
        "text => document.querySelector('#decision').textContent.replace(/\\s/g, '')"
        ".includes(text)",
        arg=f"Round{last},closed",
    )
    assert page.inner_text("#decision .soft") != before
    assert page.evaluate("document.activeElement.pathname") == "/"  # focus is kept
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
        assert reader.page.locator("#banner .verdict.bad").count() == 1
    reader.go("/")
    assert reader.page.inner_text(".answer") == "Nobody has fallen"
    assert reader.page.inner_text("#time-title").endswith("times in UTC")
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


# --- Inside Home Assistant ---------------------------------------------------------------------


@contextmanager
def framed(chromium, folder, pictures, **task):
    """Open the panel of Home Assistant that has the dashboard in it."""
    with served(folder, **task) as address, home_assistant(address) as panel:
        reader = Reader(chromium, DESK)
        reader.page.goto(panel)
        yield reader, reader.page.frames[1]
        reader.page.screenshot(path=pictures / f"framed-{len(task)}.png")
        reader.context.close()


def test_home_assistant_shows_the_dashboard_in_its_frame(chromium, tmp_path, pictures):
    maker = SITES["healthy"](tmp_path / "healthy")
    users_of(maker.folder).add("ann", PASSWORD)
    with framed(chromium, maker.folder, pictures, ingress="127.0.0.1") as (reader, frame):
        frame.fill("#name", "ann")
        frame.fill("#password", PASSWORD)
        frame.press("#password", "Enter")
        for view, path in VIEWS.items():
            frame.click(f"nav[aria-label=Views] a[href='.{path}']")
            frame.wait_for_selector(f"body[data-view={view}] #link[data-state=live]")
            frame.wait_for_url(f"**{PREFIX}{path}")
        frame.wait_for_selector(".plot canvas")
        assert reader.complaints == []
        frame.click("text=Log out")
        frame.wait_for_selector("#password")
        cookies = reader.context.cookies()
        assert {each["path"] for each in cookies} == {f"{PREFIX}/"}
    maker.store.close()


def test_a_dashboard_for_browsers_is_not_framed(chromium, tmp_path, pictures):
    maker = SITES["healthy"](tmp_path / "healthy")
    with framed(chromium, maker.folder, pictures) as (reader, frame):
        show = "place => document.querySelector('iframe').src = place"
        with reader.page.expect_event("requestfailed", lambda each: "BLOCKED" in each.failure):
            reader.page.evaluate(show, f"{PREFIX}/login")
        frame.wait_for_url("chrome-error://**")
    maker.store.close()
