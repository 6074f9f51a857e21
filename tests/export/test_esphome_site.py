"""An ESPHome node that is a device of a site: ESPHome takes it, and its sources compile."""

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

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
#include <cmath>
#include <cstdio>
#include <limits>
#include "esphome/components/discreet/discreet_site.h"
#include "words.h"
using namespace esphome::discreet;
int main() {
  discreet_table t;
  if (discreet_open(&t, bundle_bundle, sizeof bundle_bundle))
    return 1;
  printf("%u %u %u %u\\n", row_of_binary(&t, true, false), row_of_binary(&t, true, true),
         row_of_binary(&t, false, true), row_of_number(&t, 1.0));
  const double infinite = std::numeric_limits<double>::infinity();
  for (double number : {0.0, -0.0, 2.0, 3.0, 0.5, -1.0, 4294967296.0, 1e300, infinite})
    printf("%u ", row_of_number(&t, number));
  printf("%u\\n", row_of_number(&t, std::nan("")));
  return 0;
}
"""
BUDGET = """
#define protected public
#include "esphome/components/discreet/discreet_site.h"
#undef protected
#include <cstdio>
using namespace esphome;
void sensor::Sensor::publish_state(float state) { printf("%.1f ", state); }
int main() {
  discreet::DiscreetSite site;
  alignas(16) static char left[sizeof(sensor::Sensor)];  // nothing else of it is called
  uint32_t words[64] = {}, small[32] = {}, large[32] = {};
  words[DISCREET_E_SENSORS] = 2;
  small[DISCREET_H_BUDGET] = 100;
  large[DISCREET_H_BUDGET] = 1000;
  site.set_enrolment(words, sizeof words);
  site.set_budget_left(reinterpret_cast<sensor::Sensor *>(left));
  site.client_.enrolment.words = words;
  site.parts_.reset(new discreet_part[2]());
  site.client_.memory.parts = site.parts_.get();
  site.parts_[0].sensor.table.words = large;
  site.parts_[1].sensor.table.words = small;
  const uint32_t spent[][2] = {{0, 0}, {500, 0}, {500, 0}, {500, 70}, {500, 100}, {600, 120}};
  for (auto &each : spent) {
    for (int i = 0; i < 2; i++)
      site.parts_[i].sensor.record[DISCREET_R_SPENT] = each[i];
    site.show_budget_();
  }
  // A ledger lies where the sensor's name says, and nowhere else.
  site.client_.enrolment.client = "gang";
  site.set_name(0, "hall");
  site.set_name(1, "door");
  const uint32_t hall = site.place_of_(1), door = site.place_of_(2);
  site.set_name(0, "door");
  site.set_name(1, "hall");
  printf("%d %d", site.place_of_(1) == door && site.place_of_(2) == hall, hall != door);
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
    loose = ["-Wl,--unresolved-symbols=ignore-all", "-no-pie", "-ffunction-sections"]
    part = "discreet_site.o"
    whole = "esphome/components/discreet/discreet_site.cpp"
    run_quietly([*build, "-c", whole, *loose[1:], "-o", part], source)
    for words, wanted in WANTED.items():
        write_words(source, words)
        run_quietly([*build, "rows.cpp", part, *loose, "-o", "rows"], source)
        said = run_quietly([source / "rows"], source)
        assert said.splitlines()[0] == wanted
        if words == ("codes",):  # 3 of them: the row after is for none, the last for what fits none
            assert said.splitlines()[1] == "0 0 2 4 4 4 4 4 4 3"
    (source / "budget.cpp").write_text(BUDGET)
    helpers = list(source.rglob("helpers.cpp"))
    run_quietly([*build, "budget.cpp", part, *helpers, *loose, "-o", "budget"], source)
    # Of budgets of 1000 and 100; nothing new is said where nothing has changed.
    assert run_quietly([source / "budget"], source) == "100.0 50.0 30.0 0.0 1 1"


def test_the_budget_is_shown_among_the_diagnostics(node):
    said = asked(node)
    assert "Configuration is valid" in said
    shown = said.partition("budget_left:")[2].partition("sensors:")[0]
    assert "entity_category: diagnostic" in shown and "unit_of_measurement: '%'" in shown


def test_the_component_comes_from_git_with_the_headers_of_its_own_repository(node, tmp_path):
    """ESPHome clones, as the manual says, a repository that has the runtimes where this one has."""
    needs("g++")
    said = Path(__file__).parents[2].joinpath("docs/devices.md").read_text()
    place = Path(re.search(r"type: git, url: \.\.\., path:\s+(\S+)}", said)[1])
    shutil.copytree(RUNTIMES, tmp_path / "origin" / place.parents[1])
    git = partial(subprocess.run, cwd=tmp_path / "origin", check=True, capture_output=True)
    git(["git", "init", "-q"])
    git(["git", "add", "-A"])
    git(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "All"])
    shutil.rmtree(node / "components")
    origin = f"{{type: git, url: 'file://{tmp_path}/origin', path: {place}}}"
    (node / "host.yaml").write_text(HOST.replace("{type: local, path: components}", origin))
    run_esphome("compile", "--only-generate", "host.yaml", folder=node)
    source = next(node.rglob("src/main.cpp")).parent
    assert not (source / "esphome" / "components" / "discreet" / "discreet.h").exists()
    flags = re.findall(r"-I\S+", next(node.rglob("platformio.ini")).read_text())
    cloned = next(node.rglob("components/discreet/__init__.py")).parents[3] / "c"
    assert {f"-I{cloned}", f"-I{cloned / 'client'}"} <= set(flags)
    assert (cloned / "discreet.h").read_bytes() == (RUNTIMES / "c" / "discreet.h").read_bytes()
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
