"""The dashboard inside Home Assistant: for its Supervisor only, below a path, in its frame."""

import re

import pytest
from starlette.testclient import TestClient
from support.dashboards import PASSWORD
from support.helpers import refused

from discreet.network.dashboard.serving import DashboardTask, announce, make_dashboard

SUPERVISOR = "172.30.32.2"
PREFIX = "/api/hassio_ingress/Zk3-tok_en"
BELOW = {"X-Ingress-Path": PREFIX}


@pytest.fixture
def framed(open_site):
    """A visitor who comes by the Supervisor, under whatever name Home Assistant has."""
    visitor = open_site(ingress=SUPERVISOR)

    def come(address=SUPERVISOR, headers=BELOW):
        return TestClient(
            visitor.dashboard.app, "http://home.example:8123", headers=dict(headers),
            client=(address, 40_000), follow_redirects=False,
        )  # fmt: skip

    return come


def log_in(client):
    """Log in; the cookie is kept by hand, as the client does not know of the path before."""
    form = client.get("/login")
    token = re.search(r'name="token" value="([^"]+)"', form.text)[1]
    fields = {"token": token, "name": "ann", "password": PASSWORD}
    answer = client.post("/login", data=fields, headers=kept(form.headers["set-cookie"]))
    return answer, answer.headers.get("set-cookie", "")


def kept(cookie):
    return {"Cookie": cookie.split(";")[0]}


def test_a_login_goes_on_below_the_path(framed):
    client = framed()
    assert client.get("/").headers["location"] == f"{PREFIX}/login?next=/"
    answer, cookie = log_in(client)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}/")
    assert f"; path={PREFIX}/;" in cookie and "samesite=strict" in cookie
    page = client.get("/sensors", headers=kept(cookie))
    assert page.status_code == 200
    links = re.findall(r'(?:href|src|action|data-events|data-source)="([^"]*)"', page.text)
    assert len(links) > 10 and not [each for each in links if each.startswith("/")]
    token = re.search(r'name="token" value="([^"]+)"', page.text)[1]
    out = client.post("/logout", data={"token": token}, headers=kept(cookie))
    assert out.headers["location"] == f"{PREFIX}/login"
    assert f"path={PREFIX}/;" in out.headers["set-cookie"]


def test_home_assistant_may_frame_it_and_nobody_else(framed, open_site):
    inside, outside = framed().get("/login"), open_site("new").get("/login")
    for answer, ancestors, frames in (
        (inside, "'self'", "SAMEORIGIN"),
        (outside, "'none'", "DENY"),
    ):
        assert f"frame-ancestors {ancestors}" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == frames
    assert "strict-transport-security" not in inside.headers


@pytest.mark.parametrize("path", ["/", "/login", "/api/state", "/static/style.css", "/none"])
def test_only_the_supervisor_is_answered(framed, path):
    for client in (framed("172.30.33.7"), framed("127.0.0.1"), framed(headers={})):
        answer = client.get(path)
        assert answer.status_code == 403 and "Home Assistant" in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "prefix", ["", "/", "api", "//evil.example", "/a/../b", "/a;b", "/a b", "/" + 200 * "a", "/é"]
)
def test_a_path_that_is_none_is_refused(framed, prefix):
    given = [(b"X-Ingress-Path", prefix.encode("latin-1"))]
    assert framed(headers={}).get("/login", headers=given).status_code == 403


def test_a_form_of_another_page_is_refused(framed):
    answer = framed().post("/login", headers={"Origin": "http://evil.example"}, data={})
    assert answer.status_code == 403


def test_an_error_far_down_finds_the_way_up(inside):
    for path, root in (("/none", "./"), ("/a/b/none", "../../")):
        text = inside.get(path).text
        assert f'<a href="{root}">' in text
        assert f'href="{root.removeprefix("./")}static/style.css"' in text


def test_where_it_may_listen(open_site):
    folder = open_site().maker.folder
    task = DashboardTask(folder, host="0.0.0.0", port=0, remote=True, ingress=SUPERVISOR)
    _, logins, (host, port) = make_dashboard(task)
    assert announce(task, logins, host, port)[0].startswith("dashboard: inside Home Assistant")
    for given, words in (
        ({"ingress": "supervisor"}, "--ingress takes an address, such as 172.30.32.2, got 'super"),
        ({"ingress": SUPERVISOR, "proxy": "127.0.0.1"}, "leaves TLS to Home Assistant"),
        ({"ingress": SUPERVISOR, "host": "0.0.0.0"}, "can be reached from other machines"),
    ):
        refused(words, make_dashboard, DashboardTask(folder, **given))
