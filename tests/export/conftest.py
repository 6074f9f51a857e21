"""What the tests of the export share: a signing key and compiled programs."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.devices import STRICT, build, needs

from discreet.export.signing import SigningKey


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder for programs that several tests run."""
    return str(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def driver(folder):
    needs("gcc")
    return build(folder, "driver.c", *STRICT, "-O2", "-DDISCREET_SOURCE_IS_DRBG")


@pytest.fixture(scope="session")
def key():
    return SigningKey(Ed25519PrivateKey.generate())
