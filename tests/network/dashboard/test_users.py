"""Names and passwords: kept as hashes, checked in even time, refused with one message."""

import json
import stat
import time

import pytest

from discreet.errors import InputError
from discreet.network.dashboard.users import LEAST_PASSWORD, MOST_PASSWORD, Hashed, Users

PASSWORD = "correct horse battery"


@pytest.fixture
def users(tmp_path):
    return Users(tmp_path / "dashboard" / "users.json")


def test_a_user_gets_in_with_the_password_only(users):
    assert users.names() == []
    assert users.add("ann", PASSWORD) is True
    assert users.names() == ["ann"]
    assert users.check("ann", PASSWORD)
    for wrong in ("", PASSWORD + " ", PASSWORD.upper(), "x" * 1000):
        assert not users.check("ann", wrong)
    assert not users.check("bob", PASSWORD)


def test_the_file_holds_no_password_and_is_for_its_owner_only(users):
    users.add("ann", PASSWORD)
    users.add("bob", PASSWORD)
    text = users.path.read_text()
    assert PASSWORD not in text
    content = json.loads(text)["users"]
    assert content["ann"]["key"] != content["bob"]["key"]  # each has a salt of its own
    assert stat.S_IMODE(users.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(users.path.parent.stat().st_mode) == 0o700


def test_a_new_password_replaces_the_old_one_and_its_fingerprint(users):
    users.add("ann", PASSWORD)
    before = users.fingerprint("ann")
    assert users.add("ann", PASSWORD + "!") is False
    assert users.fingerprint("ann") not in (before, None)
    assert not users.check("ann", PASSWORD)
    assert users.fingerprint("bob") is None


def test_a_removed_user_is_out(users):
    users.add("ann", PASSWORD)
    users.remove("ann")
    assert users.names() == [] and not users.check("ann", PASSWORD)
    with pytest.raises(InputError, match="no user 'ann'"):
        users.remove("ann")


@pytest.mark.parametrize("name", ["", " ann", "a b", "a\nb", "x" * 65, "<b>", "../x"])
def test_odd_names_are_refused(users, name):
    with pytest.raises(InputError, match="user's name"):
        users.add(name, PASSWORD)
    assert not users.path.exists()


@pytest.mark.parametrize("length", [0, LEAST_PASSWORD - 1, MOST_PASSWORD + 1])
def test_short_and_endless_passwords_are_refused_without_repeating_them(users, length):
    with pytest.raises(InputError, match=f"got {length}") as error:
        users.add("ann", "q" * length)
    assert "qqq" not in str(error.value)


def test_a_password_may_be_any_text(users):
    odd = "pässwörd \ud800 😀 שלום"
    users.add("ann", odd)
    assert users.check("ann", odd)


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"users": {"ann": 1}}', '{"users": 3}', "\xff"]
)
def test_a_damaged_file_is_one_message(users, content):
    users.add("ann", PASSWORD)
    users.path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"users\.json"):
        users.names()


def test_a_file_that_others_may_read_is_refused(users):
    users.add("ann", PASSWORD)
    users.path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        users.check("ann", PASSWORD)


def test_an_unknown_name_takes_as_long_as_a_known_one(users):
    users.add("ann", PASSWORD)

    def fastest(name):
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            users.check(name, "something wrong")
            times.append(time.perf_counter() - begun)
        return min(times)

    known, unknown = fastest("ann"), fastest("nobody")
    assert 0.3 < known / unknown < 3  # without the hash it would be a factor of a hundred


def test_hashes_of_absurd_cost_are_refused(users):
    users.add("ann", PASSWORD)
    content = json.loads(users.path.read_text())
    content["users"]["ann"]["n"] = 2**40
    users.path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="users"):
        users.check("ann", PASSWORD)


def test_a_damaged_file_is_not_quoted(users):
    users.add("ann", PASSWORD)
    kept = json.loads(users.path.read_text())["users"]["ann"]["key"]
    for damaged in (f'["{kept}"]', users.path.read_text()[:-5]):
        users.path.write_text(damaged)
        with pytest.raises(InputError, match="users") as found:
            users.names()
        assert kept[:10] not in str(found.value)


def test_a_hash_knows_its_password():
    hashed = Hashed.of(PASSWORD)
    assert hashed.fits(PASSWORD) and not hashed.fits(PASSWORD[:-1])
