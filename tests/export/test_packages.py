"""The export for C, and a device's folder, are packages wherever packages for C come from."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.devices import make_sensor, needs
from support.helpers import make_mapping
from support.sites import make_site

from discreet import __version__
from discreet.export.targets import c_files
from discreet.network.site.joining import EnrolmentRequest, enroll

pytestmark = pytest.mark.slow

CATEGORIES = {  # those that Arduino's specification of libraries lists
    "Display", "Communication", "Signal Input/Output", "Sensors", "Device Control", "Timing",
    "Data Storage", "Data Processing", "Other",
}  # fmt: skip


@pytest.fixture
def exported(tmp_path):
    for path, data in c_files({"hall": make_sensor()}, None).items():
        (tmp_path / "fw" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fw" / path).write_bytes(data)
    return tmp_path / "fw"


@pytest.fixture
def enrolled(tmp_path):
    """What ``discreet enroll hall --to c`` writes."""
    (tmp_path / "home").mkdir()
    site = make_site(tmp_path / "home", make_mapping())
    enroll(site, EnrolmentRequest("hall", to="c"), tmp_path / "fw")
    return tmp_path / "fw"


@pytest.fixture(params=["exported", "enrolled"])
def folder(request):
    return request.getfixturevalue(request.param)


def test_no_placeholder_is_left(folder):
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".enrolment":
            text = path.read_text()
            assert "@VERSION@" not in text and not re.search(r"\bSENSOR(?!_|S)", text), path


def test_arduino_finds_a_library(folder):
    lines = (folder / "library.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    wanted = "name version author maintainer sentence paragraph category url architectures"
    assert set(wanted.split()) <= set(found) and all(found.values())
    assert found["version"] == __version__ and found["category"] in CATEGORIES
    # Without a folder `src` all headers of the root are found, and each example is a sketch.
    assert not (folder / "src").exists() and (folder / found["includes"]).is_file()


def test_arduino_finds_a_sketch(exported):
    assert (exported / "examples" / "discreet_example" / "discreet_example.ino").is_file()


QUIET = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no"}


def platformio():
    for place in (shutil.which("pio"), "/opt/esphome/bin/pio"):
        if place and os.path.exists(place):
            return place
    pytest.skip("platformio is not installed; it comes with esphome, which .ci/run installs")


def test_platformio_packs_it(folder, tmp_path):
    manifest = json.loads((folder / "library.json").read_text())
    assert manifest["version"] == __version__
    assert manifest.pop("license") == "Apache-2.0"  # which it would look up on the web
    (folder / "library.json").write_text(json.dumps(manifest))
    done = subprocess.run(
        [platformio(), "pkg", "pack", str(folder), "--output", str(tmp_path / "packed.tar.gz")],
        capture_output=True, text=True, timeout=300, cwd=tmp_path,
        env={**os.environ, "PLATFORMIO_CORE_DIR": str(tmp_path / "core"), **QUIET},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "packed.tar.gz").stat().st_size > 0


# --- CMake ---------------------------------------------------------------------------------


def run_cmake(*arguments, **environment):
    done = subprocess.run(
        [needs("cmake"), *map(str, arguments)],
        capture_output=True, text=True, timeout=300, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


EXPORTED = """
#include "hall.h"
int main(void) { discreet_table t; return discreet_open(&t, hall_bundle, sizeof hall_bundle); }
"""
ENROLLED = """
#include "discreet_client.h"
#include "enrolment.h"
int main(void)
{
    discreet_enrolment e;
    return discreet_enrolment_open(&e, discreet_enrolled, sizeof discreet_enrolled);
}
"""


def test_a_project_with_cmake_builds_with_it(folder, tmp_path):
    needs("gcc")
    user = EXPORTED if (folder / "hall.h").is_file() else ENROLLED
    (tmp_path / "main.c").write_text(user)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nadd_subdirectory(fw)\n"
        "add_executable(user main.c)\ntarget_link_libraries(user discreet)\n"
    )
    run_cmake("-S", tmp_path, "-B", tmp_path / "build")
    run_cmake("--build", tmp_path / "build")
    assert subprocess.run([tmp_path / "build" / "user"], check=False).returncode == 0


IDF = """
function(idf_component_register)
  cmake_parse_arguments(given "" "" "SRCS;INCLUDE_DIRS;REQUIRES" ${ARGN})
  message(STATUS "${NAME}: ${given_SRCS} | ${given_INCLUDE_DIRS} | ${given_REQUIRES}")
endfunction()
set(ESP_PLATFORM 1)
"""


PARTS = {  # which component of ESP-IDF has a header
    "mqtt_client.h": "mqtt", "nvs.h": "nvs_flash", "nvs_flash.h": "nvs_flash",
    "esp_wifi.h": "esp_wifi", "esp_netif_sntp.h": "esp_netif", "esp_event.h": "esp_event",
    "esp_timer.h": "esp_timer", "esp_random.h": "esp_hw_support",
    "esp_rtc_time.h": "esp_hw_support", "bootloader_random.h": "bootloader_support",
}  # fmt: skip
ANYWHERE = ("freertos/", "discreet", "hall.h", "enrolment.h")


def needed_by(program):
    """The components whose headers a program includes."""
    found = re.findall('#include "(.+)"', program.read_text())
    return {PARTS[name] for name in found if not name.startswith(ANYWHERE)}


def test_esp_idf_finds_a_component_and_an_example(folder, tmp_path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    for path in (folder, folder / "examples" / "esp-idf" / "main"):
        script = tmp_path / "script.cmake"
        script.write_text(IDF + f'include("{path / "CMakeLists.txt"}")\n')
        said = run_cmake("-P", script)
        assert (" | . | " in said) if path == folder else ("main.c" in said and "nvs_flash" in said)
        if path != folder:
            assert needed_by(path / "main.c") <= set(
                re.split("[ ;]", said.rpartition("|")[2].strip())
            )
    project = (folder / "examples" / "esp-idf" / "CMakeLists.txt").read_text()
    assert "tools/cmake/project.cmake" in project and "\nproject(" in project
    found = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert found["version"] == __version__ and found["dependencies"]["idf"]
    main = folder / "examples" / "esp-idf" / "main"
    needed = yaml.safe_load((main / "idf_component.yml").read_text())["dependencies"]
    assert (main / needed["discreet"]["path"]).resolve() == folder.resolve()


ZEPHYR = """
function(zephyr_include_directories)
  message(STATUS "included: ${ARGN}")
endfunction()
function(target_sources)
  message(STATUS "sources: ${ARGN}")
endfunction()
function(find_package)
  message(STATUS "modules: ${ZEPHYR_EXTRA_MODULES}")
endfunction()
function(project)
endfunction()
set(CMAKE_CURRENT_SOURCE_DIR "@FOLDER@")
set(CONFIG_DISCREET @CHOSEN@)
include("@FOLDER@/CMakeLists.txt")
"""


@pytest.mark.parametrize("chosen", ["y", ""])
def test_zephyr_finds_a_module_and_an_example(exported, tmp_path, chosen):
    folder = exported
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    found = yaml.safe_load((folder / "zephyr" / "module.yml").read_text())
    assert found["name"] == "discreet"
    assert (folder / found["build"]["cmake"] / "CMakeLists.txt").is_file()
    kconfig = (folder / found["build"]["kconfig"]).read_text()
    example = folder / "examples" / "zephyr"
    assert "config DISCREET\n" in kconfig
    assert "CONFIG_DISCREET=y" in (example / "prj.conf").read_text()
    said = ""
    for place in (folder / "zephyr", example):
        script = tmp_path / "script.cmake"
        text = ZEPHYR.replace("@FOLDER@", str(place)).replace("@CHOSEN@", f'"{chosen}"')
        script.write_text(text)
        said += run_cmake("-P", script)
    assert ("included: .." in said) == bool(chosen)
    modules = next(line for line in said.splitlines() if "modules: " in line).split()[-1]
    assert Path(modules).resolve() == folder.resolve() and "sources: app;PRIVATE;src/main.c" in said
