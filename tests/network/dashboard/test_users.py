"""Names and passwords: kept as hashes, checked in even time, refused with one message."""

import json
import re
import stat

import pytest
from argon2 import PasswordHasher

from discreet.errors import InputError
from discreet.network.dashboard import logins as module
from discreet.network.dashboard.logins import LEAST_PASSWORD, MOST_PASSWORD, Users
from discreet.network.site.settings import locked

PASSWORD = "correct horse battery"


@pytest.fixture
def users(tmp_path):
    return Users(tmp_path / "dashboard" / "users.json")


@pytest.mark.slow
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
    assert content["ann"] != content["bob"]  # each has a salt of its own
    assert all(each.startswith("$argon2id$") for each in content.values())
    assert stat.S_IMODE(users.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(users.path.parent.stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_new_password_replaces_the_old_one_and_its_fingerprint(users):
    users.add("ann", PASSWORD)
    before = users.fingerprint("ann")
    assert users.add("ann", PASSWORD + "!") is False
    assert users.fingerprint("ann") not in (before, None)
    assert not users.check("ann", PASSWORD)
    assert users.fingerprint("bob") is None


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_password_may_be_any_text(users):
    odd = "pässwörd \ud800 😀 שלום"
    users.add("ann", odd)
    assert users.check("ann", odd)


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"users": {"ann": 1}}', '{"users": 3}', "\xff"]
)
@pytest.mark.slow
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


def test_an_unknown_name_costs_as_much_as_a_known_one(users, monkeypatch):
    """One hash of the same cost, which is all that takes time."""
    users.add("ann", PASSWORD)
    fits, costs = module._fits, []

    def note(known, password):
        costs.append(known.rsplit("$", 2)[0])  # without salt and key
        return fits(known, password)

    monkeypatch.setattr(module, "_fits", note)
    for name in ("ann", "nobody"):
        assert not users.check(name, "something wrong")
    known, unknown = costs
    assert known == unknown


def test_hashes_of_absurd_cost_are_refused(users):
    users.add("ann", PASSWORD)
    content = json.loads(users.path.read_text())
    dear = re.sub(r"m=\d+", "m=4294967295", content["users"]["ann"])
    for each in (dear, OLD | {"n": 2**40}):
        content["users"]["ann"] = each
        users.path.write_text(json.dumps(content))
        with pytest.raises(InputError, match="users"):
            users.check("ann", PASSWORD)


def test_a_damaged_file_is_not_quoted(users):
    users.add("ann", PASSWORD)
    kept = json.loads(users.path.read_text())["users"]["ann"]
    for damaged in (f'["{kept}"]', users.path.read_text()[:-5]):
        users.path.write_text(damaged)
        with pytest.raises(InputError, match="users") as found:
            users.names()
        assert kept[-10:] not in str(found.value)


# --- Files of earlier versions ---------------------------------------------------------------

OLD = {
    "n": 2**15,
    "r": 8,
    "p": 1,
    "salt": "AAECAwQFBgcICQoLDA0ODw==",
    "key": "xy6UCICz8Vv/P6JqOkkUD4DOmhxN0tXSe6sQAUBxupQ=",
}
"""The hash of the password, as earlier versions kept it."""


def write_old(users, **hashes):
    users.path.parent.mkdir(mode=0o700)
    content = {"format": "discreet-users", "version": 1, "users": hashes}
    users.path.write_text(json.dumps(content))
    users.path.chmod(0o600)


@pytest.mark.slow
def test_an_old_hash_opens_and_is_renewed(users):
    write_old(users, ann=OLD, bob=OLD)
    assert users.check("ann", PASSWORD + "!") is None
    assert json.loads(users.path.read_text())["users"]["ann"] == OLD
    found = users.check("ann", PASSWORD)
    assert found is not None and found == users.fingerprint("ann")
    content = json.loads(users.path.read_text())
    assert content["version"] == 2
    assert content["users"]["ann"].startswith("$argon2id$") and content["users"]["bob"] == OLD
    assert users.check("ann", PASSWORD) == found  # renewed once
    assert users.check("ann", PASSWORD + "!") is None


def test_an_old_hash_that_cannot_be_renewed_still_opens(users):
    write_old(users, ann=OLD)
    with locked(users.path.parent):
        found = users.check("ann", PASSWORD)
        assert found is not None and found == users.fingerprint("ann")
    assert json.loads(users.path.read_text())["users"]["ann"] == OLD


def test_a_weaker_argon2_is_renewed_too(users):
    users.add("ann", PASSWORD)
    content = json.loads(users.path.read_text())
    content["users"]["ann"] = PasswordHasher(1, 8192, 1).hash(PASSWORD)
    users.path.write_text(json.dumps(content))
    before = users.fingerprint("ann")
    assert users.check("ann", PASSWORD) not in (before, None)


@pytest.mark.slow
def test_while_there_are_old_hashes_nobody_is_told_apart(users, monkeypatch):
    write_old(users, ann=OLD)
    users.add("bob", PASSWORD)
    tried = []
    fits = module._fits
    monkeypatch.setattr(module, "_fits", lambda *each: tried.append(type(each[0])) or fits(*each))
    for name in ("ann", "bob", "nobody"):
        users.check(name, "something wrong")
        assert sorted(kind.__name__ for kind in tried) == ["Scrypt", "str"]
        tried.clear()
