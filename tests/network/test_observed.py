"""Serials are read as the register has them, and the fusion centre loads little for it."""

import subprocess
import sys

import pytest
from support.sites import make_site

from discreet.network.observed import serial_of
from discreet.network.site.authority import load_authority

LOADED = """
import sys
import discreet.network.fusion.hosting
print(*sorted({"cryptography", "jinja2"} & set(sys.modules)))
"""


def test_a_serial_is_that_of_the_register(tmp_path):
    authority = load_authority(make_site(tmp_path))
    for _ in range(20):
        made = authority.issue_client("hall")
        assert serial_of(made.certificate) == made.serial
        assert serial_of(made.certificate + b"something else") == made.serial


def test_what_is_no_certificate_is_refused(tmp_path):
    pem = load_authority(make_site(tmp_path)).issue_client("hall").certificate
    lines = pem.splitlines(keepends=True)
    for data in (b"", b"hall", pem[:200], lines[0] + b"MIIB\n" + lines[-1], b"\xff" + pem):
        with pytest.raises(ValueError):
            serial_of(data)


@pytest.mark.slow
def test_the_fusion_centre_loads_no_library_that_makes_sites():
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
