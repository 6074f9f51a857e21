"""What a sensor checks before it writes anything."""

import base64
import threading
from dataclasses import replace

import pytest
from support.network_samples import additive_mapping
from support.network_sites import PlainSite

from discreet_sensor.errors import InputError
from discreet_sensor.running import SensorTask, run_sensor
from discreet_sensor.sources import Sources


def forged(bundle):
    data = bytearray(base64.b64decode(bundle))
    data[80] ^= 1
    return base64.b64encode(data).decode()


@pytest.fixture
def enrolments(tmp_path):
    site = PlainSite(tmp_path, additive_mapping(names=["hall", "door"]), 1)
    return site.enrol("hall", ["hall"]), site.enrol("door", ["door"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda own, _: {"bundles": (forged(own.bundles[0]),)}, "is not signed"),
        (lambda own, _: {"bundles": (base64.b64encode(bytes(64)).decode(),)}, "is not signed"),
        (lambda own, _: {"public_key": "11" * 32}, "is not signed"),
        (lambda _, other: {"bundles": other.bundles}, "of another sensor or mapping"),
        (lambda *_: {"mapping": "sha256:" + "0" * 64}, "of another sensor or mapping"),
    ],
)
def test_nothing_is_written_for_a_bundle_that_is_refused(tmp_path, enrolments, change, words):
    own, other = enrolments
    folder, task = tmp_path / "state", replace(own, **change(own, other))
    with pytest.raises(InputError, match=words):
        run_sensor(SensorTask(task, folder), Sources([]), threading.Event())
    assert not folder.exists()
