"""The MicroPython runtime: it compiles, it refuses, and mip can install it."""

import json
import subprocess
import sys

import pytest
from devices import (
    RUNTIMES,
    compiled_runtime,
    make_sensor,
    run_micropython,
)

from discreet import __version__
from discreet.export.body import bundle_body
from discreet.export.targets import micropython


def test_mpy_cross_compiles_it_to_a_few_kilobytes(tmp_path):
    assert compiled_runtime(str(tmp_path)).stat().st_size < 6_000


def test_without_a_sound_source_nothing_starts(folder):
    # This build of MicroPython has no os.urandom at all, as some small boards have none.
    found = run_micropython(
        folder, "jobs_micropython.py", {"probe.table": bundle_body(make_sensor())}
    )
    assert found["refusals.out"] == b"refused,refused,refused"
    assert "probe.ledger" not in found


def test_mip_finds_a_table_and_the_runtime_and_nothing_else():
    files = micropython.files({"hall": make_sensor(), "door": make_sensor(name="door")}, None)
    for name in ("hall", "door"):
        package = json.loads(files[f"{name}/package.json"])
        assert package["version"] == __version__
        for target, url in package["urls"]:
            assert target == url and f"{name}/{url}" in files
        others = [path for path in files if path.startswith(f"{name}/")]
        assert len(others) == 1 + len(package["urls"])
        assert files[f"{name}/{name}.table"].find(name.encode()) > 0


@pytest.mark.parametrize("damage", ["cut", "flip", "version", "head"])
def test_a_damaged_table_is_refused(damage, tmp_path):
    body = bytearray(bundle_body(make_sensor()))
    if damage == "cut":
        del body[-4:]
    if damage == "flip":
        body[80] ^= 1
    if damage == "version":
        body[3] = ord("2")
    if damage == "head":
        body[42] = 0
    script = f"""
import sys
sys.path.insert(0, {str(RUNTIMES / "micropython")!r})
import discreet_sensor
try:
    discreet_sensor.Table({bytes(body)!r})
except discreet_sensor.BundleError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr
