"""Every route: closed without a login, right with one, and with the headers that pages need."""

import asyncio
import json
import re
import sqlite3
import time
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from support.dashboards import ANSWERS, PASSWORD, SITES, make_audit, make_mapping, settle

from discreet.auditing.audit_file import BEYOND
from discreet.network.dashboard import guards, snapshot
from discreet.network.dashboard.guards import HEADERS, PUBLIC, host_name
from discreet.network.dashboard.logins import LIFETIME, PER_USER
from discreet.network.dashboard.pages import MOST_STREAMS, VIEWS, Choices, status
from discreet.network.dashboard.serving import DashboardTask, make_dashboard, users_of
from discreet.network.observed import Stored

PAGES = [view.path for view in VIEWS.values()]
FILES = ("style.css", "icon.svg", "live.js", "charts.js", "uplot.js", "uplot.css")
DATA = ("/events", "/api/state", "/api/traffic")


def every_request(visitor):
    """Every method and path that the dashboard knows, static files by name."""
    found = []
    for method, path in visitor.dashboard.routes:
        names = FILES if "{name}" in path else [""]
        found += [(method, path.replace("{name}", name)) for name in names]
    return found


# --- The gate --------------------------------------------------------------------------------


def test_all_routes_are_known_to_these_tests(visitor):
    known = {"/login", "/logout", "/static/{name}", *PAGES, *DATA}
    assert {path for _, path in visitor.dashboard.routes} == known


def test_without_a_login_nothing_answers_but_the_login(visitor):
    for method, path in every_request(visitor):
        answer = visitor.client.request(method, path)
        if path in PUBLIC:
            assert answer.status_code in (200, 415), path
        elif path in PAGES:
            assert answer.status_code == 303
            assert answer.headers["location"] == f"/login?next={path}"
        else:
            assert answer.status_code == 401, path
        assert "hall" not in answer.text


@pytest.mark.parametrize("path", ["/nothing", "/api", "/static/../app.py", "/static/", "/.git"])
def test_what_does_not_exist_is_not_told_from_what_does(visitor, path):
    assert visitor.get(path).status_code == 401


@pytest.mark.parametrize("cookie", ["", "x", "a.b", "😀".encode().decode("latin-1"), "a" * 5000])
def test_a_made_up_cookie_opens_nothing(visitor, cookie):
    headers = {"cookie": f"{visitor.dashboard.cookie}={cookie}".encode("latin-1")}
    assert visitor.get("/api/state", headers=headers).status_code == 401


def test_web_sockets_are_refused(visitor):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), visitor.client.websocket_connect("/events"):
        pass


# --- Logging in and out ----------------------------------------------------------------------


def test_with_the_password_every_page_opens(visitor):
    answer = visitor.log_in(next="/sensors")
    assert answer.status_code == 303 and answer.headers["location"] == "/sensors"
    for path in PAGES:
        assert visitor.get(path).status_code == 200
    assert visitor.get("/login").headers["location"] == "/"


def flags_of(cookie):
    return {flag.strip().lower() for flag in cookie.split(";")[1:]}


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(visitor):
    cookie = visitor.log_in().headers["set-cookie"]
    assert {"httponly", "samesite=strict", "path=/"} <= flags_of(cookie)
    assert "max-age=43200" in flags_of(cookie)
    assert "secure" not in flags_of(cookie)  # there is no TLS on loopback


def test_a_wrong_password_and_an_unknown_name_look_the_same(visitor):
    answers = [visitor.log_in(password="wrong"), visitor.log_in(name="bob")]
    texts = {re.sub(r'value="(ann|bob)"', "", each.text) for each in answers}
    assert [each.status_code for each in answers] == [401, 401]
    assert len(texts) == 1 and "Name or password is wrong" in texts.pop()


@pytest.mark.slow
def test_guessing_has_to_wait(visitor):
    for _ in range(PER_USER):
        assert visitor.log_in(password="wrong").status_code == 401
    answer = visitor.log_in()
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 300


def test_a_form_needs_its_token_and_the_cookie_that_goes_with_it(visitor):
    token = visitor.token()
    fields = {"name": "ann", "password": PASSWORD}
    assert visitor.post("/login", **fields).status_code == 403
    assert visitor.post("/login", token="0" * 64, **fields).status_code == 403
    visitor.client.cookies.clear()
    assert visitor.post("/login", token=token, **fields).status_code == 403
    assert visitor.get("/api/state").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "http://["},
    ],
)
def test_a_form_of_another_page_is_refused(visitor, headers):
    fields = {"token": visitor.token(), "name": "ann", "password": PASSWORD}
    assert visitor.client.post("/login", data=fields, headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"{}", "application/json", 415),
        (b"a=" + b"x" * 9000, "application/x-www-form-urlencoded", 413),
        (b"\xff=1", "application/x-www-form-urlencoded", 400),
        (b"a=1&" * 50, "application/x-www-form-urlencoded", 400),
        (b"", "multipart/form-data; boundary=x", 415),
    ],
)
def test_a_broken_form_is_refused(visitor, body, kind, code):
    answer = visitor.client.post("/login", content=body, headers={"content-type": kind})
    assert answer.status_code == code


def test_a_form_that_does_not_come_is_not_waited_for(visitor, monkeypatch):
    monkeypatch.setattr(guards, "FORM_SECONDS", 0.2)

    async def never():
        await asyncio.sleep(60)

    scope = {
        "type": "http",
        "method": "POST",
        "headers": [(b"content-type", guards._FORM.encode())],
    }
    with pytest.raises(HTTPException) as found:
        asyncio.run(guards.read_form(Request(scope, never)))
    assert found.value.status_code == 408


def test_a_damaged_list_of_users_lets_nobody_in_and_is_no_error(visitor):
    token = visitor.token()
    users_of(visitor.maker.folder).path.write_text("damaged")
    answer = visitor.post("/login", token=token, name="ann", password=PASSWORD)
    assert answer.status_code == 401 and "cannot be read" in answer.text


@pytest.mark.parametrize(
    "wanted", ["http://evil.example", "//evil.example", "/\\evil", "javascript:x", "/nothing", ""]
)
def test_after_the_login_one_stays_here(visitor, wanted):
    assert visitor.log_in(next=wanted).headers["location"] == "/"


def test_a_log_out_ends_the_session_also_for_a_copy_of_the_cookie(inside):
    kept = dict(inside.client.cookies)
    assert inside.post("/logout", token="wrong").status_code == 403
    assert inside.get("/api/state").status_code == 200
    assert inside.log_out().headers["location"] == "/login"
    inside.client.cookies.update(kept)
    assert inside.get("/api/state").status_code == 401


def restarted(visitor):
    """The same site in a new process, as far as a dashboard can tell."""
    dashboard, logins, _ = make_dashboard(DashboardTask(visitor.maker.folder))
    again = type(visitor)(dashboard, logins)
    again.maker = visitor.maker
    return again


def test_a_restart_keeps_sessions_and_log_outs(inside):
    first = dict(inside.client.cookies)
    inside.client.cookies.clear()
    inside.log_in()
    second = dict(inside.client.cookies)
    inside.log_out()
    again = restarted(restarted(inside))
    for cookies, code in ((first, 200), (second, 401)):
        again.client.cookies.clear()
        again.client.cookies.update(cookies)
        assert again.get("/api/state").status_code == code


def test_a_log_out_that_cannot_be_kept_says_so_and_counts(inside):
    kept = dict(inside.client.cookies)
    (inside.maker.folder / "dashboard" / "ended.json").mkdir()
    answer = inside.log_out()
    assert answer.status_code == 500 and "until the dashboard is restarted" in answer.text
    inside.client.cookies.update(kept)
    assert inside.get("/api/state").status_code == 401


def test_a_login_gets_a_token_of_its_own_and_no_lease_of_life(inside, monkeypatch):
    """What a page knew before the login is worth nothing after it; visits prolong nothing."""
    token = inside.token("/")
    inside.log_out()
    assert inside.token() != token
    inside.log_in()
    later = time.time() + LIFETIME - 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert inside.get("/api/state").status_code == 200
    monkeypatch.setattr(time, "time", lambda: later + 61)
    assert inside.get("/api/state").status_code == 401


def test_a_form_of_a_login_that_is_over_is_out_of_date(inside):
    token = inside.token("/")
    users_of(inside.maker.folder).add("ann", PASSWORD + "!")
    inside.get("/login")
    fields = {"token": token, "name": "ann", "password": PASSWORD + "!"}
    assert inside.post("/login", **fields).status_code == 403


def test_a_new_password_ends_the_sessions(inside):
    users = users_of(inside.maker.folder)
    users.add("ann", PASSWORD + "!")
    assert inside.get("/api/state").status_code == 401


def test_a_damaged_list_of_users_lets_nobody_in_and_breaks_nothing(inside):
    (inside.maker.folder / "dashboard" / "users.json").write_text("{")
    assert inside.get("/api/state").status_code == 401


def test_the_link_for_a_site_without_users_opens_once(open_site):
    visitor = open_site("new", user=False)
    link = visitor.logins.link
    page = visitor.get("/login", params={"link": link})
    assert link in page.text and visitor.get("/api/state").status_code == 401
    fields = {"token": visitor.token(), "link": link}
    assert visitor.post("/login", token=fields["token"], link="wrong").status_code == 401
    assert visitor.post("/login", **fields).status_code == 303
    assert visitor.get("/").status_code == 200
    visitor.client.cookies.clear()
    assert visitor.post("/login", token=visitor.token(), link=link).status_code == 401


def test_the_link_ends_with_the_first_user(open_site):
    visitor = open_site("new", user=False)
    users_of(visitor.maker.folder).add("ann", PASSWORD)
    assert (
        visitor.post("/login", token=visitor.token(), link=visitor.logins.link).status_code == 401
    )


def test_a_request_with_two_lengths_is_refused(visitor):
    both = {"content-length": "3", "transfer-encoding": "chunked"}
    answer = visitor.client.request("POST", "/login", content=b"abc", headers=both)
    assert answer.status_code == 400 and "one length" in answer.text


def test_with_a_user_there_is_no_link(visitor):
    assert visitor.logins.link is None
    assert visitor.post("/login", token=visitor.token(), link="x").status_code == 401


# --- Headers ---------------------------------------------------------------------------------


def test_every_answer_carries_the_headers(visitor):
    for logged_in in (False, True):
        if logged_in:
            visitor.log_in()
        for method, path in every_request(visitor):
            if path == "/events" and logged_in:
                continue  # does not end; see below
            answer = visitor.client.request(method, path)
            for name, value in HEADERS.items():
                assert answer.headers[name] == value, (method, path, name)
            assert "server" not in answer.headers


def test_pages_hold_no_inline_script_or_style(inside):
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    for path in PAGES:
        text = inside.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
        assert not re.search(r'(src|href|action)="(https?:)?//', text)


def test_over_tls_cookies_are_tied_to_it(open_site, tmp_path):
    # The files are only read when the server starts.
    visitor = open_site(certificate=tmp_path / "c", key=tmp_path / "k")
    answer = visitor.get("/login")
    cookie = answer.headers["set-cookie"]
    assert {"secure", "path=/"} <= flags_of(cookie) and cookie.startswith("__Host-")
    assert not any(flag.startswith("domain") for flag in flags_of(cookie))
    assert "max-age=" in answer.headers["strict-transport-security"]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "[::2]", "10.0.0.1"]
)
def test_a_foreign_host_name_is_refused(inside, host):
    answer = inside.get("/", headers={"host": host})
    assert answer.status_code == 421 and "hall" not in answer.text
    assert answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:81", "127.0.0.1:8080", "[::1]:8080", "box.lan"]
)
def test_our_own_names_are_answered(open_site, host):
    visitor = open_site("new", names=["box.lan"])
    assert visitor.get("/login", headers={"host": host}).status_code == 200


def test_names_are_found_in_any_host_header():
    assert host_name("[::1]:80") == "::1" and host_name("A.b:1") == "a.b" and host_name("x") == "x"


# --- What is shown ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SITES)
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.slow
def test_every_page_of_every_site_is_whole(open_site, kind, path):
    visitor = open_site(kind)
    visitor.log_in()
    answer = visitor.get(path)
    assert answer.status_code == 200
    assert answer.text.rstrip().endswith("</html>") and "Undefined" not in answer.text
    for landmark in ("<header>", "<nav", '<main id="main"', "<footer>", "<h1"):
        assert landmark in answer.text


def test_hostile_names_stay_text(open_site):
    visitor = open_site("hostile")
    visitor.log_in()
    for path in PAGES:
        text = visitor.get(path).text
        assert "<script>alert" not in text and "</td></tr><h1>" not in text and "<b>" not in text
    assert "&lt;script&gt;alert" in visitor.get("/sensors").text


def test_the_overview_tells_the_decision(inside):
    latest = inside.maker.store._base.query(
        "SELECT round, decision, reported FROM decisions ORDER BY round DESC LIMIT 1"
    )[0]
    text = inside.get("/").text
    assert f'<p class="answer">{ANSWERS[latest[1]]}</p>' in text
    found = "The audit, with every sensor heard, found 91.8 %, every class counting the same."
    assert found in text  # as the report has it, not the share of right rows
    assert f"{latest[2]} of 6 sensors</strong> heard" in text and "right in about 9" in text
    assert "All is well" in text


def test_trouble_is_told(open_site):
    visitor = open_site("troubled")
    visitor.log_in()
    text = visitor.get("/").text
    for words in (
        "1 device silent",
        "1 device never seen",
        "2 budgets spent",  # one of them has less left than a release costs
        "Certificate withdrawn",
        "The guarantee no longer holds",
        "Messages are refused",
    ):
        assert words in text
    listed = visitor.get("/sensors", params={"state": "silent"}).text
    assert "kitchen" in listed and ">gateway<" not in listed
    assert "its symbols say nothing, from the next period at the latest" in listed
    gone = visitor.get("/sensors", params={"state": "revoked"}).text
    assert ">revoked<" in gone and "not heard any more" in gone
    system = visitor.get("/system").text
    assert "the seal does not fit" in system and ">40<" in system


def test_a_suspended_device_and_missing_clients_are_told(inside):
    inside.maker.store.note({"suspended": {"hall": "mac, for 60 s"}}, time.time())
    found = {each["short"]: each for each in _later(inside)["findings"]}
    assert "hall" in found["1 device suspended"]["words"]
    (inside.maker.folder / "devices.json").unlink()
    (inside.maker.folder / "fusion/clients.json").unlink()
    assert any("cannot be read" in each["short"] for each in _later(inside)["findings"])


def _later(inside):
    """The state after what was kept has grown old."""
    inside.dashboard._snapshots._last = None
    return inside.get("/api/state").json()


@pytest.mark.slow
def test_late_and_repeated_messages_are_not_called_refused(inside):
    """Both are what a line that was down for a while leaves behind, and nothing is lost."""
    inside.maker.refuse(hall__late=3, hall__replay=2)
    state = _later(inside)
    assert "All is well" in inside.get("/").text
    assert [each["refused"] for each in state["devices"]] == [0] * len(state["devices"])
    assert "stored, not decided on" in inside.get("/system").text


def test_a_database_that_is_away_is_a_state_and_not_an_error(inside):
    assert inside.get("/api/state").json()["store"]["finding"]["level"] == "good"
    inside.maker.store.close()
    for file in (inside.maker.folder / "fusion").glob("fusion.db*"):
        file.unlink()
    (inside.maker.folder / "fusion" / "fusion.db").write_bytes(b"not a database " * 100)
    snapshots = inside.dashboard._snapshots
    snapshots.reader.close()
    snapshots._last = None
    found = inside.get("/api/state").json()
    assert found["level"] == "bad" and found["store"]["finding"]["short"].startswith("The database")
    assert found["decision"] is not None  # what was seen last
    assert inside.get("/").status_code == 200
    assert inside.get("/api/traffic").json()["problem"]


def test_a_worker_that_is_silent_is_told_while_others_work(open_site):
    visitor = open_site()
    settings = visitor.maker.site.model_copy(update={"workers": 3})
    (visitor.maker.folder / "site.json").write_text(settings.model_dump_json())
    now = time.time()
    for worker, ago in (("fusion", 1.0), ("fusion-2", 90.0)):
        visitor.maker.store.note({f"worker {worker}": {"queue": 0}}, now - ago)
    dashboard, _, _ = make_dashboard(DashboardTask(visitor.maker.folder))
    found = {each.short: each for each in dashboard._snapshots.now().findings}
    assert found["2 of 3 workers silent"].words.startswith("fusion-2, fusion-3.")


def test_the_load_of_several_workers_is_shown_together(inside):
    store, now = inside.maker.store, time.time()
    here, away = ({"broker": {"state": state}} for state in ("here", "away"))
    for worker, own in {
        "fusion": {"queue": 2, "lag_seconds": 0.5, "shed": 40, "parts": here},
        "fusion-2": {"queue": 5, "lag_seconds": 0.1, "shed": 7, "parts": here},
        "fusion-3": {"queue": 900, "lag_seconds": 9.0, "shed": 90, "parts": away},
    }.items():
        ago = 90.0 if worker == "fusion-3" else 1.0  # too long ago to count
        store.note(own | {f"worker {worker}": own}, now - ago)
    stored = inside.dashboard._snapshots.now().stored
    assert (stored.queue, stored.lag, stored.shed, stored.broker) == (7, 0.5, 40, "here")
    store.note({"worker fusion-3": {"queue": 900, "parts": away}}, now)
    inside.dashboard._snapshots._last = None
    stored = inside.dashboard._snapshots.now().stored
    assert (stored.queue, stored.lag, stored.broker) == (907, 0.5, "away")


@pytest.mark.parametrize("enrolled", [0, 1])
def test_a_site_whose_fusion_centre_has_never_run(open_site, enrolled):
    """Its database is not made yet, which is the first step that is left and no failure."""
    visitor = open_site("new")
    for _ in range(enrolled):
        visitor.maker.enroll("hall")
    visitor.log_in()
    for path in PAGES:
        text = visitor.get(path).text
        assert "does not answer" not in text and "fusion.db" not in text and "✗" not in text
    steps = visitor.get("/").text
    assert f"{enrolled} of 6 so far" in steps and "discreet serve" in steps
    assert "<strong>Not made yet.</strong> <code>discreet serve</code> makes it." in (
        visitor.get("/system").text
    )


def test_first_steps_end_with_what_the_fusion_centre_notes(open_site):
    visitor = open_site("new")
    visitor.log_in()
    visitor.maker.store.prepare()
    visitor.maker.note()
    visitor.dashboard._snapshots._last = None
    text = visitor.get("/").text
    assert "First steps" not in text and "No decision yet" in text


@pytest.mark.parametrize("restarted", [False, True])
def test_a_database_that_was_lost_is_no_first_step(open_site, restarted):
    visitor = open_site("healthy")
    visitor.log_in()
    assert "All is well" in visitor.get("/").text
    visitor.maker.store.close()
    for file in (visitor.maker.folder / "fusion").glob("fusion.db*"):
        file.unlink()
    if restarted:  # what it has written beside the database tells that it ran
        visitor.dashboard._snapshots._stored = Stored()
        visitor.dashboard._snapshots.view.files.drift.write_text("{}")
    visitor.dashboard._snapshots._last = None
    text = visitor.get("/").text
    assert "First steps" not in text and "The database does not answer" in text
    assert "There is no such file." in text and "fusion.db" not in text


def test_where_the_database_lies_is_on_no_page(open_site, monkeypatch):
    visitor = open_site("healthy")
    monkeypatch.chdir(visitor.maker.folder.parent)
    (visitor.maker.folder / "fusion" / "fusion.db").write_bytes(b"not a database " * 100)
    dashboard, logins, _ = make_dashboard(DashboardTask(Path("healthy")))
    relative = type(visitor)(dashboard, logins)
    relative.log_in()
    text = relative.get("/").text
    assert "The database cannot be used" in text and "fusion.db" not in text.lower()


@pytest.mark.parametrize(("free", "words"), [(10**7, "Little disk left"), (0, "The disk is full")])
def test_a_disk_without_room_is_told(inside, monkeypatch, free, words):
    monkeypatch.setattr(
        "shutil.disk_usage", lambda _: type("U", (), {"total": 10**12, "free": free})
    )
    inside.dashboard._snapshots._last = None
    assert words in inside.get("/").text


def test_a_file_that_changes_is_read_again(inside):
    (inside.maker.folder / "audit.json").write_text("{")
    (inside.maker.folder / "recheck.json").unlink()
    inside.dashboard._snapshots._last = None
    text = inside.get("/").text
    assert "audit.json cannot be read" in text and "Certificate cannot be checked" in text
    assert "days left" not in text and "certified;" not in text
    assert str(inside.maker.folder) not in text


def test_bands_hold_the_window_and_say_how_much_of_it(inside):
    short, long = (inside.get("/", params={"window": w}).text for w in (900, 86_400))
    assert re.search(r"(29|30) rounds", short) and re.search(r"36\d rounds", long)
    for text in (short, long):
        assert text.count('class="lane c') == 2 and text.count("data-clock") == 5
        assert re.search(r'aria-label="Nobody has fallen: \d+ % of the rounds"', text)
    assert "the last 15 min <small>times in <span data-zone>UTC" in short


def test_devices_are_found_and_sorted(inside):
    def listed(**query):
        return re.findall(r'id="d-([a-z-]+)"', inside.get("/sensors", params=query).text)

    assert sorted(listed()) == listed(sort="name") == sorted(inside.maker.clients)
    assert listed(sort="budget")[0] == "stairs"  # which has spent most
    assert sorted(listed(find="BED")) == ["bedroom"] and listed(find="front door") == ["front-door"]
    assert listed(find="nobody") == [] and len(listed(find="x" * 9999)) == 0
    text = inside.get("/sensors", params={"find": '"><b>', "sort": "name", "state": "silent"}).text
    assert "<b>" not in text and 'value="&#34;&gt;&lt;b&gt;"' in text
    assert "sort=name" in text and 'name="state" value="silent"' in text


def test_messages_and_lag_over_time(inside):
    traffic = inside.get("/api/traffic").json()
    assert len(traffic["at"]) == len(traffic["rate"]) >= 14
    assert 0.1 < max(traffic["rate"]) < 2 and len(traffic["lag"]) == len(traffic["lag_at"]) >= 14


def test_the_state_tells_no_secret(inside):
    text = inside.get("/api/state").text
    for client in inside.maker.clients.values():
        assert client.key not in text
    assert json.loads(text)["guarantee"]["days_left"] in (79, 80)


@pytest.mark.parametrize("query", ["window=7", "window=x", "window=٣", "window=1e9", "state=<b>"])
def test_odd_choices_count_as_none(query):
    assert Choices.of("overview", dict([query.split("=")])) == Choices()


# --- Live ------------------------------------------------------------------------------------


def take(visitor, count, view="overview", is_in=lambda: True):
    """Return the first events of a stream."""

    async def collect():
        stream = visitor.dashboard.streams.events(VIEWS[view], Choices(view), is_in)
        found = []
        async for event in stream:
            found.append(event)
            if len(found) == count:
                await stream.aclose()
        return found

    return asyncio.run(collect())


def content(event):
    return json.loads(event.split("data: ", 1)[1])


@pytest.mark.parametrize("view", VIEWS)
def test_a_stream_begins_with_every_part_of_the_page(visitor, view):
    retry, first = take(visitor, 2, view)
    assert retry == "retry: 3000\n\n" and first.startswith("event: state\n")
    news = content(first)
    assert set(news["parts"]) == set(VIEWS[view].live)
    assert news["status"].startswith("fall: Nobody has fallen.")


def test_a_stream_goes_on_with_what_has_changed(visitor):
    visitor.dashboard.streams._pause = 0.01
    snapshots, maker = visitor.dashboard._snapshots, visitor.maker

    async def collect():
        stream = visitor.dashboard.streams.events(VIEWS["overview"], Choices(), lambda: True)
        await anext(stream)
        first = content(await anext(stream))
        last = maker.store.last_decided()
        maker.decide(hours=0, until=-maker.site.interval)
        assert maker.store.last_decided() > last
        snapshots._last = None
        second = content(await anext(stream))
        await stream.aclose()
        return first, second

    first, second = asyncio.run(collect())
    assert {"decision", "decisions"} <= set(second["parts"]) < set(first["parts"])


def test_a_stream_ends_with_the_login_and_with_the_server(visitor):
    assert take(visitor, 5, is_in=lambda: False)[1] == "event: logout\ndata: {}\n\n"
    visitor.dashboard.streams.stop()
    assert take(visitor, 5) == ["retry: 3000\n\n"]
    assert not visitor.dashboard.streams._open


def test_the_route_streams_events(inside):
    inside.dashboard.streams.stop()  # so that it ends
    answer = inside.get("/events", params={"view": "nonsense"})
    assert answer.status_code == 200 and answer.text == "retry: 3000\n\n"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"


def test_there_is_an_end_to_streams(inside):
    inside.dashboard.streams._open = MOST_STREAMS
    assert inside.get("/events").status_code == 429


def test_what_is_spoken_has_no_running_numbers(inside):
    now = inside.dashboard._snapshots.now()
    assert not re.search(r"\d", status(now).replace(now.public, ""))


def test_the_dashboard_cannot_write(inside):
    inside.get("/")
    base = inside.dashboard._snapshots.reader._base
    with pytest.raises(Exception, match="readonly"):
        base.change("DELETE FROM decisions")
    path = inside.maker.folder / "fusion" / "fusion.db"
    with sqlite3.connect(path) as base:
        assert base.execute("SELECT count(*) FROM decisions").fetchone()[0] > 100
    base.close()


def test_an_unforeseen_error_tells_nothing(inside, monkeypatch):
    monkeypatch.setattr(inside.dashboard._snapshots, "now", lambda: 1 / 0)
    answer = inside.get("/")
    assert answer.status_code == 500 and "division" not in answer.text
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_a_decision_that_is_hardly_more_probable_than_another_is_called_unsure(inside, monkeypatch):
    assert '<p class="answer">Nobody has fallen' in inside.get("/").text
    monkeypatch.setattr(snapshot, "UNSURE", 1.1)
    assert '<p class="answer unsure">Unsure, rather: Nobody has fallen' in inside.get("/").text
    assert inside.get("/api/state").json()["decision"]["unsure"]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("unheard", "<strong>0 of 6 sensors</strong> heard in round"),
        ("quiet", "The fusion centre is silent: it last noted something"),
    ],
)
def test_without_a_report_there_is_no_answer_and_no_prior_instead(open_site, kind, why):
    visitor = open_site(kind)
    visitor.log_in()
    text = visitor.get("/").text
    half = text[text.index('id="decision"') : text.index('id="unknown"')]
    assert '<p class="answer unsure">Not known</p>' in half and why in half
    assert re.search("The last answer, “(Nobody|Somebody) has fallen”, is of round", half)
    assert "52 %" not in half and "right in" not in half and "<dl" not in half
    now = visitor.dashboard._snapshots.now()
    assert status(now).startswith("fall: not known.")
    assert visitor.get("/api/state").json()["decision"]["present"] is False


def test_rounds_without_a_sensor_have_no_lane_and_no_certainty(open_site):
    visitor = open_site("unheard")
    visitor.log_in()
    text = visitor.get("/").text
    assert text.count("<td>not known</td>") == 9 and "nothing is known" in text
    bands = visitor.get("/?window=900").text
    heard = [each for each in visitor.dashboard._snapshots.now().decisions if each.reported]
    recent = [each for each in heard if each.closed > time.time() - 900]
    assert int(re.search(r">(\d+) rounds\. Full", bands)[1]) == pytest.approx(len(recent), abs=2)


def test_the_overview_names_what_the_site_does_not_know(inside):
    text = inside.get("/").text
    half = text[text.index('id="unknown"') : text.index('id="figures"')]
    assert "Certified</strong>, " in half and "days left" in half and "<strong>who</strong>" in half
    assert "at most 6.0 points, certified; ◇" in half and "50 = always right" in half
    assert "The dashed line is the limit, 10 points." in half
    assert 'width="12.0%"' in half and 'x1="20.0%"' in half
    assert "◇ best attacker on raw readings: about 46.0" in half and '<svg x="92.0%"' in half
    assert "From one report of every sensor" in half and "The re-check agrees" in half


def test_the_overview_names_an_attacker_who_knows_the_answer(open_site):
    visitor = open_site()
    file = visitor.maker.folder / "audit.json"
    audit = json.loads(file.read_text())
    audit["limits"][0] |= {"name": BEYOND, "limit": 0.15}
    fact = audit["private"][0]
    fact["beyond_answer"] = {"total": fact["certificates"][0] | {"name": BEYOND, "value": 0.139}}
    file.write_text(json.dumps(settle(audit)))
    visitor.log_in()
    text = visitor.get("/").text
    assert "how far an attacker who knows the answer beats guessing" in text
    assert "at most 13.9 points, certified" in text


def test_long_names_of_facts_are_cut_as_in_the_report(open_site):
    visitor = open_site()
    made = make_mapping(private=("x" * 150,))
    made.save(visitor.maker.folder / "mapping.json")
    audit = make_audit(made, visitor.maker.today, facts=("x" * 150,))
    (visitor.maker.folder / "audit.json").write_text(json.dumps(audit))
    visitor.log_in()
    for path in ("/", "/guarantee"):
        text = visitor.get(path).text
        assert "at most 6.0" in text or "6.0</td>" in text
        assert "x" * 39 + "…" in text and "x" * 61 not in text  # the verdict has 60 of them


@pytest.mark.parametrize("kind", ["troubled", "new"])
def test_a_guarantee_that_is_broken_or_missing_overrides_bound_and_days(open_site, kind):
    visitor = open_site(kind)
    visitor.log_in()
    text = visitor.get("/").text
    half = text[text.index('id="unknown"') : text.index('id="figures"')]
    assert "Nothing is promised about <strong>who</strong>" in half
    assert "days left" not in text and "certified;" not in half and 'class="sent"' not in half
    assert text.count("an attacker gained about") <= 2  # in the banner, and in the half


def test_a_new_site_shows_first_steps_with_commands_and_folds_what_is_missing(open_site):
    visitor = open_site("new")
    visitor.log_in()
    text = visitor.get("/").text
    for command in ("TABLE --json &gt; audit.json", "discreet enroll NAME", "discreet serve"):
        assert command in text
    for path in PAGES:
        text = visitor.get(path).text
        assert "First steps" in text and 'class="verdict' not in text and "✗" not in text
