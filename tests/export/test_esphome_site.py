"""An ESPHome node that is a device of a site: ESPHome takes it, and its sources compile."""

import re
import subprocess

import pytest
from support.devices import NATIVE, RUNTIMES, make_sensor, needs, run_esphome
from support.network_samples import additive_mapping
from support.sites import make_site

from discreet.data.encoders import CategoriesEncoder, CodesEncoder
from discreet.export.targets import sensor_header
from discreet.network.site.joining import EnrolmentRequest, enroll

pytestmark = pytest.mark.slow

COMPONENT = RUNTIMES / "esphome" / "components" / "discreet"
NAMES = ["hall", "Haustür ${1}"]


@pytest.fixture
def node(tmp_path):
    site = make_site(tmp_path, additive_mapping(names=NAMES))
    enroll(site, EnrolmentRequest("gang", NAMES, to="esphome"), tmp_path / "gang")
    secrets = 'wifi_ssid: "home"\nwifi_password: "a password"\n'
    (tmp_path / "gang" / "secrets.yaml").write_text(secrets)
    return tmp_path / "gang"


def asked(node, change=lambda text: text):
    file = node / "gang.yaml"
    file.write_text(change(file.read_text()))
    done = subprocess.run(
        [needs("esphome"), "config", file.name], cwd=node, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def test_esphome_takes_what_enroll_wrote(node):
    assert "Configuration is valid" in asked(node)


BINARY = """
binary_sensor:
  - platform: gpio
    pin: GPIO4
    id: motion
    internal: true
"""
ETHERNET = """ethernet:
  type: LAN8720
  mdc_pin: GPIO23
  mdio_pin: GPIO18
  clk:
    pin: GPIO0
    mode: CLK_EXT_IN
"""


def with_binary(text):
    return text.replace("sensor: reading_0", "binary_sensor: motion") + BINARY


def with_cable(text):
    begin, end = text.index("wifi:"), text.index("time:")
    return text[:begin] + ETHERNET + "\n" + text[end:]


@pytest.mark.parametrize("change", [with_binary, with_cable])
def test_binary_sensors_and_boards_with_ethernet_are_taken(node, change):
    assert "Configuration is valid" in asked(node, change)


ADC = "\n  - platform: adc\n    id: volts\n    pin: GPIO34\n    internal: true\n"
ESP32 = "esp32:\n  board: esp32dev\n  framework:\n    type: esp-idf\n"
OPEN = "    id: reading_0\n    name: hall\n    internal: false"
REFUSED = {
    "would publish its readings. Set `internal: true`": lambda text: text.replace(
        "    id: reading_0\n    internal: true", OPEN
    ),
    "the log shows readings": lambda text: text.replace("level: INFO", "level: VERBOSE"),
    "a sleeping radio has no noise": lambda text: text.replace("power_save_mode: none", ""),
    "`adc` platform would take it away": lambda text: with_cable(text).rstrip() + ADC,
    "the enrolment is for the sensors 'hall', 'Haustür __1_'": lambda text: text.replace(
        'name: "hall"', 'name: "cellar"'
    ),
    "at level DEBUG the log shows readings": lambda text: text.replace(
        "level: INFO", "level: DEBUG"
    ),
    "This feature is only available on": lambda text: text.replace(
        ESP32, "esp8266:\n  board: d1_mini\n"
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_lets_readings_out_is_refused(node, says):
    before = (node / "gang.yaml").read_text()
    assert says in " ".join(asked(node, REFUSED[says]).split())
    assert (node / "gang.yaml").read_text() != before


DAMAGES = [
    lambda data: data[:-8],
    lambda data: b"\0" + data[1:],
    lambda data: data[:99] + bytes([data[99] ^ 1]) + data[100:],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_enrolment_is_refused(node, damage):
    file = node / "gang.enrolment"
    file.write_bytes(damage(file.read_bytes()))
    said = asked(node)
    assert "no enrolment" in said or "is damaged" in said


HOST = """
esphome: {name: gang}
host:
external_components:
  - source: {type: local, path: components}
    components: [discreet]
logger: {level: INFO}
time: [{platform: host}]
discreet:
  enrolment: gang.enrolment
  new_ledger: true
  budget_left: {name: left}
  sensors:
    - {name: hall, binary_sensor: motion}
    - {name: "Haustür __1_", sensor: reading}
sensor: [{platform: template, id: reading, internal: true, lambda: 'return 1.25;'}]
binary_sensor: [{platform: template, id: motion, internal: true, lambda: 'return true;'}]
"""
ROWS = """
#include <cstdio>
#include "esphome/components/discreet/discreet_site.h"
#include "words.h"
using namespace esphome::discreet;
int main() {
  discreet_table t;
  if (discreet_open(&t, bundle_bundle, sizeof bundle_bundle))
    return 1;
  printf("%u %u %u %u\\n", row_of_binary(&t, true, false), row_of_binary(&t, true, true),
         row_of_binary(&t, false, true), row_of_number(&t, 1.0));
  return 0;
}
"""


def test_it_compiles_with_esphomes_own_sources_and_encodes_yes_and_no(node, tmp_path):
    needs("g++")
    (node / "host.yaml").write_text(HOST)
    run_esphome("compile", "--only-generate", "host.yaml", folder=node)
    source = next(node.rglob("src/main.cpp")).parent
    stubs = [f"-I{NATIVE / 'mqtt_stubs'}", f"-I{NATIVE / 'stubs'}"]
    build = ["g++", "-std=gnu++20", "-DUSE_HOST", "-I.", *stubs]
    run_quietly([*build, "-fsyntax-only", "main.cpp"], source)
    (source / "rows.cpp").write_text(ROWS)
    part = "esphome/components/discreet/discreet_site.cpp"
    loose = ["-Wl,--unresolved-symbols=ignore-all", "-no-pie", "-ffunction-sections"]
    for words, wanted in WANTED.items():
        write_words(source, words)
        run_quietly([*build, "rows.cpp", part, *loose, "-o", "rows"], source)
        assert run_quietly([source / "rows"], source).split() == wanted.split()


def test_a_source_from_git_finds_the_headers_in_its_own_repository(node):
    needs("g++")
    path = f"path: {RUNTIMES / 'esphome' / 'components'}"  # as a checkout would lie there
    (node / "host.yaml").write_text(HOST.replace("path: components", path))
    run_esphome("compile", "--only-generate", "host.yaml", folder=node)
    source = next(node.rglob("src/main.cpp")).parent
    assert not (source / "esphome" / "components" / "discreet" / "discreet.h").exists()
    flags = re.findall(r"-I\S+", next(node.rglob("platformio.ini")).read_text())
    assert {f"-I{RUNTIMES / 'c'}", f"-I{RUNTIMES / 'c' / 'client'}"} <= set(flags)
    stubs = [f"-I{NATIVE / 'mqtt_stubs'}", f"-I{NATIVE / 'stubs'}"]
    build = ["g++", "-std=gnu++20", "-DUSE_HOST", "-I.", *stubs, *flags, "-fsyntax-only"]
    run_quietly([*build, "esphome/components/discreet/discreet_site.cpp"], source)


def run_quietly(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


WANTED = {
    ("codes",): "0 1 3 1",
    ("off", "on"): "0 1 3 2",
    ("True", "False"): "1 0 3 2",
    (0, 1): "0 1 3 1",
}


def write_words(folder, words):
    encoder = CategoriesEncoder(categories=list(words), missing=True)
    if words == ("codes",):
        encoder = CodesEncoder(size=3, missing=True)
    table = make_sensor(encoder, [[0.5, 0.5]] * 4)
    (folder / "words.h").write_text(
        sensor_header("bundle", table).replace(
            '#include "discreet.h"', '#include "esphome/components/discreet/discreet.h"'
        )
    )


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
def test_an_esp32_draws_from_the_noise_that_it_has(tmp_path, chip, source):
    program = tmp_path / "noise"
    (tmp_path / "noise.cpp").write_text(NOISE)
    core = tmp_path / "esphome" / "core"
    core.mkdir(parents=True)
    (core / "defines.h").write_text('#include "nvs.h"\n')
    (core / "helpers.h").write_text(
        "#include <cstdint>\nnamespace esphome { bool random_bytes(uint8_t *, size_t); }\n"
    )
    include = [f"-I{COMPONENT}", f"-I{NATIVE / 'stubs'}", f"-I{tmp_path}"]
    build = [needs("g++"), "-Wall", "-Wextra", "-Werror", *chip, *include, "-Wno-unused-variable"]
    subprocess.run([*build, str(tmp_path / "noise.cpp"), "-o", str(program)], check=True)
    assert subprocess.run([str(program)], check=False).returncode == source
