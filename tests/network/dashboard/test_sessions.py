"""Cookies: ours only, for a time, until the log-out."""

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InputError
from discreet.network.dashboard.attempts import FOR_ALL, PER_ADDRESS, PER_USER, WINDOW, Attempts
from discreet.network.dashboard.sessions import LIFETIME, Sessions, load_key

KEY = bytes(range(32))


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_session_comes_back_from_its_cookie(clock):
    sessions = Sessions(KEY, clock)
    session, cookie = sessions.begin("ann", "print")
    assert sessions.read(cookie) == session
    assert Sessions(KEY, clock).read(cookie) == session  # also after a restart
    assert Sessions(bytes(32), clock).read(cookie) is None


def test_a_session_ends_by_time_and_by_log_out(clock):
    sessions = Sessions(KEY, clock)
    _, first = sessions.begin("ann", "print")
    session, second = sessions.begin("ann", "print")
    sessions.end(session)
    assert sessions.read(second) is None
    assert sessions.read(first) is not None
    clock.now += LIFETIME
    assert sessions.read(first) is None


@given(st.data())
def test_no_changed_cookie_is_believed(data):
    sessions = Sessions(KEY, Clock())
    _, cookie = sessions.begin("ann", "print")
    place = data.draw(st.integers(0, len(cookie) - 1))
    letter = data.draw(st.characters())
    changed = cookie[:place] + letter + cookie[place + 1 :]
    if changed != cookie:
        found = sessions.read(changed)
        # Base64 has spare bits at its end; what it decodes to is still what was signed.
        assert found is None or found.user == "ann"


@given(st.text(max_size=2000))
def test_no_text_is_a_session_or_an_error(text):
    assert Sessions(KEY, Clock()).read(text) is None
    assert not Sessions(KEY, Clock()).fits("nonce", text)


def test_form_tokens_belong_to_one_nonce_and_are_no_sessions():
    sessions = Sessions(KEY)
    token = sessions.form_token("one")
    assert sessions.fits("one", token)
    assert not sessions.fits("two", token)
    assert sessions.read(f"b25l.{token}") is None


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
    for k in range(FOR_ALL):
        fail(attempts, 1, address=f"10.1.0.{k}")
    assert attempts.wait("192.0.2.1", "another") > 0


def test_a_success_takes_its_try_back(clock):
    attempts = Attempts(clock)
    for _ in range(FOR_ALL + 1):
        attempts.begun("10.0.0.1", "ann")
        attempts.succeeded("10.0.0.1", "ann")
    assert attempts.wait("10.0.0.1", "ann") == 0


def test_what_is_remembered_has_an_end(clock):
    attempts = Attempts(clock)
    for k in range(10_500):
        attempts.begun(f"address{k}", "ann")
    assert len(attempts._failures) <= 10_001
