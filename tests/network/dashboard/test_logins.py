"""Cookies: ours only, for a time, until the log-out."""

import json
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from discreet.errors import InputError
from discreet.network.dashboard.logins import (
    LIFETIME,
    PER_ADDRESS,
    PER_NAME,
    PER_USER,
    WINDOW,
    Attempts,
    Sessions,
    load_key,
    same_token,
)

KEY = bytes(range(32))


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_session_ends_by_time_and_by_log_out(clock, tmp_path):
    sessions = Sessions(tmp_path / "ended.json", clock)
    first, second = sessions.begin("ann", "print"), sessions.begin("ann", "print")
    assert first.token != second.token
    sessions.end(second)
    assert sessions.counts(first) and not sessions.counts(second)
    clock.now += LIFETIME
    assert not sessions.counts(first)


def test_a_log_out_is_kept_over_a_restart_and_no_longer_than_needed(clock, tmp_path):
    path = tmp_path / "ended.json"
    sessions = Sessions(path, clock)
    old = sessions.begin("ann", "print")
    sessions.end(old)
    assert not Sessions(path, clock).counts(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    clock.now += LIFETIME
    new = sessions.begin("ann", "print")
    sessions.end(new)
    assert list(json.loads(path.read_text())["ended"]) == [new.token]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"ended": 3}', '{"ended": {"x": "y"}}'])
def test_damaged_log_outs_are_one_message(tmp_path, content):
    path = tmp_path / "ended.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match=r"ended\.json.*Remove it and session\.key"):
        Sessions(path)


def signed(key, content, cookie=None):
    """What the middleware of the dashboard makes of a cookie, and the cookie it sends."""

    async def app(scope, receive, send):
        found.append(dict(scope["session"]))
        scope["session"].update(content)
        await PlainTextResponse("")(scope, receive, send)

    found = []
    middleware = SessionMiddleware(app, key.hex(), session_cookie="c", same_site="strict")
    client = TestClient(middleware)
    headers = {} if cookie is None else {"cookie": b"c=" + cookie.encode("latin-1", "replace")}
    return found, client.get("/", headers=headers).cookies.get("c")


@given(st.data())
def test_no_changed_cookie_is_believed(data):
    _, cookie = signed(KEY, {"user": "ann"})
    cookie = cookie.strip('"')
    assert signed(KEY, {}, cookie)[0] == [{"user": "ann"}]
    assert signed(bytes(32), {}, cookie)[0] == [{}]
    place = data.draw(st.integers(0, len(cookie) - 1))
    letter = data.draw(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=';,"'))
    changed = cookie[:place] + letter + cookie[place + 1 :]
    if changed != cookie:
        # Base64 has spare bits at its end; what it decodes to is still what was signed.
        assert signed(KEY, {}, changed)[0] in ([{}], [{"user": "ann"}])


@given(st.text(max_size=2000))
@pytest.mark.slow
def test_no_text_is_a_token(text):
    assert not same_token("nonce", text)


def test_the_key_is_made_once_for_its_owner_only(tmp_path):
    path = tmp_path / "dashboard" / "session.key"
    key = load_key(path)
    assert len(key) == 32 and load_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        load_key(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(InputError, match="32 bytes, this has 5"):
        load_key(path)


# --- How often a login may be tried ----------------------------------------------------------


def fail(attempts, times, address="10.0.0.1", name="ann"):
    for _ in range(times):
        attempts.begun(address, name)


def test_a_few_failures_are_free_then_one_has_to_wait(clock):
    attempts = Attempts(clock)
    fail(attempts, PER_USER - 1)
    assert attempts.wait("10.0.0.1", "ann") == 0
    fail(attempts, 1)
    assert attempts.wait("10.0.0.1", "ann") == WINDOW
    assert attempts.wait("10.0.0.2", "ann") == 0  # nobody is locked out from elsewhere
    assert attempts.wait("10.0.0.1", "bob") == 0
    clock.now += WINDOW + 1
    assert attempts.wait("10.0.0.1", "ann") == 0


def test_many_names_from_one_address_and_many_addresses_are_slowed_too(clock):
    attempts = Attempts(clock)
    for k in range(PER_ADDRESS):
        fail(attempts, 1, name=f"user{k}")
    assert attempts.wait("10.0.0.1", "another") > 0
    attempts.begun("192.0.2.9", "ann")
    attempts.succeeded("192.0.2.9", "ann")
    for k in range(PER_NAME):
        fail(attempts, 1, address=f"10.1.0.{k}")
    assert attempts.wait("192.0.2.1", "ann") > 0
    assert attempts.wait("192.0.2.1", "another") == 0  # nobody else is locked out,
    assert attempts.wait("192.0.2.9", "ann") == 0  # nor ann where she has been before


def test_addresses_of_one_network_count_as_one(clock):
    attempts = Attempts(clock)
    for k in range(PER_ADDRESS):
        fail(attempts, 1, address=f"2001:db8::{k:x}", name=f"user{k}")
    assert attempts.wait("2001:db8::ffff", "another") > 0
    assert attempts.wait("2001:db8:0:1::1", "another") == 0


def test_a_success_takes_its_try_back(clock):
    attempts = Attempts(clock)
    for _ in range(PER_NAME + 1):
        attempts.begun("10.0.0.1", "ann")
        attempts.succeeded("10.0.0.1", "ann")
    assert attempts.wait("10.0.0.1", "ann") == 0


def test_what_is_remembered_has_an_end(clock):
    attempts = Attempts(clock)
    for k in range(10_500):
        attempts.begun(f"address{k}", "ann")
    assert len(attempts._failures) <= 10_001
