"""ESPHome's program for a computer, with the component of this repository in it.

All sources are ESPHome's own, but for two things that a computer has not: ESP-IDF's MQTT client
(``mqtt_mosquitto.cpp``), and flash that a kill cannot leave half-written. Rounds of a tenth of a
second need a longer outbox than real ones.
"""

import subprocess
from concurrent.futures import ThreadPoolExecutor

from support.devices import NATIVE, needs, run_esphome

FLAGS = ["-w", "-std=gnu++20", "-fno-exceptions", "-DUSE_HOST"]
FLAGS += ["-DESPHOME_LOG_LEVEL=ESPHOME_LOG_LEVEL_INFO", "-I."]
FLAGS += [f"-I{NATIVE / 'mqtt_stubs'}", f"-I{NATIVE / 'stubs'}"]
HEADER = "esphome/core/application.h"  # in most of them
HOST = """
esphome: {{name: {name}}}
host:
external_components:
  - source: {{type: local, path: components}}
    components: [discreet]
logger: {{level: INFO}}
time: [{{platform: host}}]
discreet:
  enrolment: {name}.enrolment
  new_ledger: true
  sensors: [{{name: {name}, binary_sensor: motion}}]
binary_sensor: [{{platform: template, id: motion, internal: true, lambda: 'return true;'}}]
"""


def build_node(folder, name):
    """Compile what ``enroll --to esphome`` wrote for a device of one sensor; return the program."""
    (folder / "host.yaml").write_text(HOST.format(name=name))
    run_esphome("compile", "--only-generate", "host.yaml", folder=folder)
    source = next(folder.rglob("src/main.cpp")).parent
    _keep_whole(source / "esphome/components/host/preferences.cpp")
    _change(source / "esphome/components/discreet/discreet_site.h", "SLOTS = 32", "SLOTS = 600")
    _compile(source, "-x", "c++-header", HEADER, "-o", f"{HEADER}.gch")
    files = [*source.rglob("*.cpp"), NATIVE / "mqtt_mosquitto.cpp"]
    objects = [str(folder / f"part-{number}.o") for number in range(len(files))]
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda *pair: _compile_one(source, *pair), files, objects):
            pass
    program = folder / "node"
    _compile(source, *objects, "-lmosquitto", "-lpthread", "-o", program)
    return program


def _keep_whole(file):
    name, new = "this->filename_.c_str()", '(this->filename_ + ".new").c_str()'
    _change(file, f'fopen({name}, "wb")', f'fopen({new}, "wb")')
    _change(file, "fclose(fp);\n  return", f"fclose(fp);\n  rename({new}, {name});\n  return")


def _change(file, old, new):
    text = file.read_text()
    assert text.count(old) == 1, file
    file.write_text(text.replace(old, new))


def _compile_one(source, file, out):
    _compile(source, "-include", HEADER, "-c", file, "-o", out)


def _compile(source, *arguments):
    command = [needs("g++"), *FLAGS, *map(str, arguments)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
