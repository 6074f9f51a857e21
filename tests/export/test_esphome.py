"""The ESPHome configuration: it parses, ESPHome takes it, and the component compiles."""

import shutil
import subprocess

import pytest
from support.devices import NATIVE, make_sensor, needs, run_esphome

from discreet.data.encoders import CategoriesEncoder
from discreet.export.targets import esphome_files

pytestmark = pytest.mark.slow

DOOR = make_sensor(CategoriesEncoder(categories=["open"]), [[0.6, 0.4]] * 2, name="Haustür: 1")


@pytest.fixture
def export(tmp_path):
    files = esphome_files({"hall": make_sensor(budget=20.0), "haust_r_1": DOOR}, None)
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    for name in ("hall", "haust_r_1"):
        (tmp_path / name / "secrets.yaml").write_text(
            'wifi_ssid: "home"\nwifi_password: "a password"\n'
        )
    return tmp_path


def test_the_configuration_is_yaml_and_keeps_the_reading_inside(export):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!secret", lambda loader, node: node.value)
    for name, source in (("hall", "sensor"), ("haust_r_1", "text_sensor")):
        content = yaml.load((export / name / f"{name}.yaml").read_text(), Loader)
        (reading,) = (each for each in content[source] if each.get("id") == "reading")
        assert reading["internal"] is True
        (node,) = (each for each in content["sensor"] if each["platform"] == "discreet")
        assert node["bundle"] == name and node["new_ledger"] is False
        assert content["logger"]["level"] == "INFO"
    assert node["name"] == "Haustür: 1"


ODD = {
    "Flur 😀": "Flur 😀",
    "a ${1 + 1} <% b %>": "a __1 + 1_ __ b __",
    "None": "sensor s",
    "é" * 200: "é" * 60,
}


@pytest.mark.parametrize("label", ODD)
def test_a_name_is_a_name_to_esphome_and_never_a_program(label):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    text = esphome_files({"s": make_sensor(name=label)}, None)["s/s.yaml"].decode()
    assert yaml.safe_load(text[text.index("sensor:") :])["sensor"][-1]["name"] == ODD[label]


@pytest.mark.parametrize("name", ["on", "no", "null"])
def test_a_name_that_yaml_reads_as_something_else_stays_a_name(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    text = esphome_files({name: make_sensor(name=name)}, None)[f"{name}/{name}.yaml"].decode()
    content = yaml.safe_load(text.replace("!secret ", ""))
    assert content["esphome"]["name"] == content["sensor"][-1]["bundle"] == name


def test_the_node_starts_after_the_radio(export):
    header = (export / "hall/components/discreet/discreet_node.h").read_text()
    assert "return setup_priority::AFTER_WIFI;" in header


NOISE = """
#include "discreet_noise.h"
static int enabled, used;
#ifdef USE_ESP32
extern "C" void bootloader_random_enable() { enabled++; }
extern "C" void bootloader_random_disable() { enabled--; }
extern "C" void esp_fill_random(void *, size_t) { used = 1 + enabled; }
extern "C" uint64_t esp_rtc_get_time_us() { return 5000000; }
extern "C" esp_err_t esp_wifi_get_max_tx_power(int8_t *) { return ANSWER; }
#else
bool esphome::random_bytes(uint8_t *, size_t) { used = 3; return true; }
#endif
int main() {
  char out[8];
  return discreet_noise(out, 8) == 8 && !enabled ? used : 0;
}
"""


@pytest.mark.parametrize(
    ("chip", "source"),
    [
        (["-DUSE_ESP32", "-DUSE_WIFI", "-DANSWER=0"], 1),
        (["-DUSE_ESP32", "-DUSE_WIFI", "-DANSWER=0x3002"], 0),  # the driver is not started
        (["-DUSE_ESP32", "-DANSWER=0"], 2),  # a cable instead: the noise of the converter
        (["-DUSE_HOST", "-DANSWER=0"], 3),
    ],
)
def test_an_esp32_draws_from_the_noise_that_it_has(export, tmp_path, chip, source):
    program = tmp_path / "noise"
    (tmp_path / "noise.cpp").write_text(NOISE)
    core = tmp_path / "esphome" / "core"
    core.mkdir(parents=True)
    (core / "defines.h").write_text('#include "nvs.h"\n')
    (core / "helpers.h").write_text(
        "#include <cstdint>\nnamespace esphome { bool random_bytes(uint8_t *, size_t); }\n"
    )
    include = [f"-I{export / 'hall/components/discreet'}", f"-I{NATIVE / 'stubs'}", f"-I{tmp_path}"]
    build = [needs("g++"), "-Wall", "-Wextra", "-Werror", *chip, *include, "-Wno-unused-variable"]
    subprocess.run([*build, str(tmp_path / "noise.cpp"), "-o", str(program)], check=True)
    assert subprocess.run([str(program)], check=False).returncode == source


REFUSED = {
    "would publish its readings. Set `internal: true`": ("internal: true", "internal: false"),
    "at level DEBUG the log shows readings": ("level: INFO", "level: DEBUG"),
    "a sleeping radio has no noise": ("  power_save_mode: none", "  power_save_mode: light"),
}


@pytest.mark.parametrize("says", REFUSED)
def test_esphome_refuses_what_lets_readings_out_or_has_no_noise(export, says):
    file = export / "haust_r_1" / "haust_r_1.yaml"
    assert REFUSED[says][0] in file.read_text()
    text = file.read_text().replace(*REFUSED[says])
    file.write_text(text.replace("    id: reading\n", "    id: reading\n    name: reading\n"))
    asked = [needs("esphome"), "config", file.name]
    done = subprocess.run(asked, cwd=file.parent, capture_output=True, text=True)
    assert says in done.stdout + done.stderr


def test_chips_without_a_cryptographic_source_are_refused(export):
    file = export / "haust_r_1" / "haust_r_1.yaml"  # its reading needs no pin
    esp32 = "esp32:\n  board: esp32dev\n  framework:\n    type: esp-idf\n"
    assert esp32 in file.read_text()
    file.write_text(file.read_text().replace(esp32, "esp8266:\n  board: d1_mini\n"))
    asked = [needs("esphome"), "config", file.name]
    done = subprocess.run(asked, cwd=file.parent, capture_output=True, text=True)
    assert "This feature is only available on" in done.stdout + done.stderr


def test_each_folder_holds_its_own_sensor_only(export):
    for name, other in (("hall", "haust_r_1"), ("haust_r_1", "hall")):
        files = [path for path in (export / name).rglob("*") if path.is_file()]
        assert not any(other in path.name for path in files)
        assert not any(f"{other}_bundle[".encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("name", ["hall", "haust_r_1"])
def test_esphome_takes_the_configuration(export, name):
    assert "Configuration is valid" in run_esphome("config", f"{name}.yaml", folder=export / name)


def test_esphome_names_a_bundle_that_is_not_there(export):
    file = export / "hall" / "hall.yaml"
    file.write_text(file.read_text().replace('bundle: "hall"', "bundle: attic"))
    needs("esphome")
    done = subprocess.run(["esphome", "config", "hall.yaml"], cwd=file.parent, capture_output=True)
    assert b"no bundle 'attic' in the component. There are: hall." in done.stdout + done.stderr


HOST = """
esphome: {name: hall}
host:
external_components:
  - source: {type: local, path: components}
    components: [discreet]
logger: {level: INFO}
sensor:
  - {platform: template, id: reading, internal: true, lambda: 'return 1.25;'}
  - {platform: discreet, name: hall, bundle: hall, source_id: reading, new_ledger: true}
"""


def test_the_component_compiles_with_esphomes_own_sources(export):
    needs("g++")
    folder = export / "hall"
    (folder / "host.yaml").write_text(HOST)
    run_esphome("compile", "--only-generate", "host.yaml", folder=folder)
    source = next(folder.rglob("src/main.cpp")).parent
    for name in ("main.cpp", "esphome/components/discreet/discreet_node.cpp"):
        done = subprocess.run(
            ["g++", "-std=gnu++20", "-fsyntax-only", "-DUSE_HOST", "-I.", name],
            cwd=source,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    shutil.rmtree(folder / ".esphome", ignore_errors=True)
