"""``discreet enroll NAME --to TARGET`` writes what that device needs, and nothing about others."""

import re
import stat
import struct
import subprocess
from pathlib import Path

import pytest
from support.devices import NATIVE, STRICT, needs
from support.helpers import make_mapping
from support.sites import make_site

from discreet.cli.enroll import DEVICES
from discreet.errors import InputError
from discreet.network.site.device_files import TARGETS
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.settings import load_clients


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path, make_mapping())


def enrolled(site, to, name="hall"):
    out = site.parent / f"out-{to}"
    enroll(site, EnrolmentRequest(name, to=to), out)
    return out


def test_the_command_knows_all_targets():
    assert tuple(TARGETS) == DEVICES


def test_a_folder_holds_programs_and_one_enrolment(site):
    enroll(site, EnrolmentRequest("door"), site.parent / "door.enrol")
    other = bytes.fromhex(load_clients(site).clients["door"].key)
    for to, programs in (
        ("c", {"discreet.h", "discreet_client.h", "enrolment.h", "idf_component.yml"}),
        ("micropython", {"discreet_sensor.py", "discreet_client.py", "discreet_mqtt.py"}),
        ("esphome", {"hall.yaml", "components"}),
    ):
        out = site.parent / f"out-{to}"
        enroll(site, EnrolmentRequest("hall", to=to, renew=to != "c"), out)
        names = {file.name for file in out.iterdir()}
        assert programs | {"hall.enrolment"} <= names
        own = bytes.fromhex(load_clients(site).clients["hall"].key)
        data = (out / "hall.enrolment").read_bytes()
        assert own in data and other not in data and b"door" not in data
        modes = {stat.S_IMODE(file.stat().st_mode) for file in out.rglob("*") if file.is_file()}
        assert modes == {0o600}


def test_node_red_gets_a_package_and_its_enrolment(site):
    enroll(site, EnrolmentRequest("door"), site.parent / "door.enrol")
    out = enrolled(site, "node-red")
    package = out / "node-red-contrib-discreet"
    assert {"package.json", "discreet.js", "discreet.html", "lib"} <= {
        each.name for each in package.iterdir()
    }
    assert not list(package.rglob("*.py"))
    data = (out / "hall.enrol").read_text()
    assert load_clients(site).clients["hall"].key in data and "door" not in data


def test_the_words_of_the_header_are_the_file(site):
    out = enrolled(site, "c")
    text = (out / "enrolment.h").read_text()
    words = [int(word, 16) for word in re.findall(r"0x([0-9A-F]{8})u", text)]
    assert struct.pack(f"<{len(words)}I", *words) == (out / "hall.enrolment").read_bytes()


@pytest.mark.slow
def test_the_examples_compile_as_they_stand(site):
    needs("gcc")
    out = enrolled(site, "c")
    stubs = [f"-I{NATIVE / 'mqtt_stubs'}", f"-I{NATIVE / 'stubs'}"]
    examples = [("esp-idf/main", stubs)]
    if Path("/usr/include/mosquitto.h").exists():
        examples.append(("linux", []))
    for name, more in examples:
        command = ["gcc", *STRICT, "-O2", "-c", f"-I{out}", *more, "-o", str(out / "a.o")]
        source = str(out / "examples" / name / "main.c")
        done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("hurry", [0, 40])
def test_the_example_with_esp_mqtt_never_waits_in_a_handler_and_delivers_everything(
    tmp_path, hurry
):
    needs("gcc")
    out = enrolled(make_site(tmp_path, make_mapping(), interval=1.0), "c")
    example = out / "examples" / "esp-idf" / "main" / "main.c"
    text = example.read_text()
    assert text.count("sizeof buffer, 0}") == 1
    example.write_text(text.replace("sizeof buffer, 0}", "sizeof buffer, 1}"))  # its first day
    flags = [f"-I{out}", f"-I{NATIVE / 'mqtt_stubs'}", f"-I{NATIVE / 'stubs'}", "-D_DEFAULT_SOURCE"]
    flags += [f'-DEXAMPLE="{example}"', f"-DHURRY={hurry}"]
    command = ["gcc", *STRICT, *flags, str(NATIVE / "esp_mqtt.c"), "-o", str(out / "run")]
    subprocess.run(command, check=True)
    done = subprocess.run([str(out / "run")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    published, different, waiting, given_up, transport = map(int, done.stdout.split())
    assert different > 110 and published > different  # all rounds, and some were sent again
    assert waiting <= 1 and given_up == 0  # the last may be under way
    assert transport == 2  # TLS, as the site has it


def test_an_interval_that_a_device_cannot_count_is_refused_and_nothing_is_left(tmp_path):
    site = make_site(tmp_path, make_mapping(), interval=1 / 3)
    with pytest.raises(InputError, match="not a whole number of milliseconds"):
        enrolled(site, "c")
    assert not (tmp_path / "out-c").exists() and not load_clients(site).clients


def test_an_enrolment_that_fails_late_leaves_no_folder(site, monkeypatch):
    def broken(*_):
        raise OSError("no more")

    monkeypatch.setattr("discreet.network.site.joining.save_register", broken)
    with pytest.raises(OSError, match="no more"):
        enrolled(site, "micropython")
    assert not (site.parent / "out-micropython").exists()
