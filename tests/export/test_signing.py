"""Ed25519: the standard's vectors, ``cryptography`` and our own arithmetic agree."""

import os
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from support.helpers import refused

from discreet.export.signing import SIGNED_AS, load_or_make_key
from discreet_sensor import runtime as device

# RFC 8032, section 7.1: public key, message, signature of tests 1 to 3
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
ORDER = 2**252 + 27742317777372353535851937790883648493


@pytest.mark.parametrize("vector", VECTORS)
def test_the_standards_vectors_verify_and_their_neighbours_do_not(vector):
    public, message, signature = map(bytes.fromhex, vector)
    for verify in (device.verify, device.verify_slowly):
        assert verify(public, signature, message)
        assert not verify(public, signature, message + b"\0")
        assert not verify(public, signature[:-1], message)
        assert not verify(public[:-1], signature, message)


def test_both_verifications_agree_on_sound_and_on_damaged_signatures(rng):
    for _ in range(25):
        private = Ed25519PrivateKey.generate()
        public, message = private.public_key().public_bytes_raw(), rng.bytes(50)
        signature = private.sign(message)
        assert device.verify_slowly(public, signature, message)
        for part in (public, signature):
            changed = bytearray(part)
            changed[rng.integers(len(part))] ^= 1 << int(rng.integers(8))
            pair = (bytes(changed), signature) if part is public else (public, bytes(changed))
            assert not device.verify(*pair, message)
            assert not device.verify_slowly(*pair, message)


def test_a_signature_cannot_be_written_in_a_second_way():
    public, message, signature = map(bytes.fromhex, VECTORS[1])
    response = int.from_bytes(signature[32:], "little") + ORDER
    twin = signature[:32] + response.to_bytes(32, "little")
    assert not device.verify(public, twin, message)
    assert not device.verify_slowly(public, twin, message)


def test_a_point_off_the_curve_or_too_large_is_no_key():
    _, message, signature = map(bytes.fromhex, VECTORS[1])
    for number in (2, 2**255 - 19, 2**255 - 1, 1 + 2**255):
        assert not device.verify_slowly(number.to_bytes(32, "little"), signature, message)


@pytest.mark.parametrize("number", [0, 1, 2**255 - 20, 2**255])
def test_a_key_that_everybody_can_sign_for_is_no_key(tmp_path, number):
    weak = number.to_bytes(32, "little")
    forged = (1).to_bytes(32, "little") + bytes(32)  # right for such a key, every fourth time
    for i in range(40):
        assert not device.verify(weak, forged, bytes([i]))
        assert not device.verify_slowly(weak, forged, bytes([i]))
        (tmp_path / "bundle").write_bytes(bytes([i]) + forged)
        with pytest.raises(device.BundleError, match="is not signed"):
            device.read_bundle(tmp_path / "bundle", weak)


def test_without_cryptography_the_arithmetic_is_used(monkeypatch, key):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.exceptions", None)
    body = b"body"
    signed = key.sign(body)
    public = bytes.fromhex(key.public_hex)
    assert device.verify(public, signed[-64:], SIGNED_AS + body)
    assert not device.verify(public, signed[-64:], SIGNED_AS + b"b0dy")


def test_both_sides_sign_the_same_words():
    assert SIGNED_AS == device.SIGNED_AS


# --- Key files -----------------------------------------------------------------------------


def test_a_key_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "home.key"
    made = load_or_make_key(path)
    again = load_or_make_key(path)
    assert made.made and not again.made
    assert made.public_hex == again.public_hex
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.public_hex not in path.read_text()
    assert "PRIVATE" not in repr(made) and made.public_hex[:8] in repr(made)


def test_a_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "home.key"
    load_or_make_key(path)
    path.chmod(0o640)
    refused("can be read by others. Run: chmod 600", load_or_make_key, path)


def test_what_is_no_such_key_is_refused_without_being_shown(tmp_path):
    path = tmp_path / "home.key"
    key, other = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    stranger = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (b"", b"secret words", locked, stranger):
        path.write_bytes(content)
        path.chmod(0o600)
        message = refused("no Ed25519 private key", load_or_make_key, path)
        assert "secret" not in message


def test_a_key_has_to_have_somewhere_to_be(tmp_path):
    refused("cannot be used", load_or_make_key, tmp_path / "none" / "home.key")
    refused("is not a regular file", load_or_make_key, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_pipe_is_no_key_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused("is not a regular file", load_or_make_key, tmp_path / "pipe")
