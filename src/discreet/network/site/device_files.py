"""What ``discreet enroll NAME --to TARGET`` writes: what that device needs, and nothing else.

To add a target, write a function from an enrolment to files, and list it in ``TARGETS`` with how to
install them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from discreet import __version__
from discreet.errors import InputError
from discreet.export.targets import package_files, runtime_files, runtime_folder, words_in_c
from discreet_sensor.enrolment import Enrolment
from discreet_sensor.wire import mapping_tag

Files = dict[str, bytes]


def c_files(enrolment: Enrolment) -> Files:
    """Headers of runtime and client as a package, the enrolment as file and words, examples."""
    found = runtime_files("c") | runtime_folder("c/client") | package_files()
    found["enrolment.h"] = _header(enrolment)
    found[f"{enrolment.client}.enrolment"] = packed(enrolment)
    return found


def _header(enrolment: Enrolment) -> bytes:
    lines = [
        f"/* The enrolment of {enrolment.client}: secret, for this device only. */",
        "#ifndef DISCREET_ENROLLED",
        "#define DISCREET_ENROLLED",
        "",
        "#include <stdint.h>",
        "",
        f"#define DISCREET_ENROLLED_SENSORS {len(enrolment.sensors)}",
        f"#define DISCREET_ENROLLED_SYMBOLS {enrolment.symbols}",
        "",
        *words_in_c("discreet_enrolled", packed(enrolment)),
        "",
        "#endif",
    ]
    return ("\n".join(lines) + "\n").encode()


def micropython_files(enrolment: Enrolment) -> Files:
    """Runtime, client, enrolment and a program to start from, as a package for ``mip``."""
    runtime = runtime_folder("micropython")
    own = f"{enrolment.client}.enrolment"
    programs = ("discreet_sensor.py", "discreet_client.py", "discreet_mqtt.py")
    content = {
        "urls": [[part, part] for part in (*programs, own)],
        "deps": [["umqtt.simple", "latest"]],
    }
    return {
        **{program: runtime[program] for program in programs},
        own: packed(enrolment),
        "main.py": runtime["site_main.py"].replace(b"NAME", enrolment.client.encode()),
        "package.json": (json.dumps({**content, "version": __version__}, indent=1) + "\n").encode(),
    }


def node_red_files(enrolment: Enrolment) -> Files:
    """Return the npm package of the node, and the enrolment that it reads."""
    package = {
        f"node-red-contrib-discreet/{path}": data
        for path, data in runtime_folder("node_red").items()
        if not path.endswith(".py")
    }
    return {**package, f"{enrolment.client}.enrol": enrolment.as_json()}


_SOURCES = {
    "sensor": "'return NAN;'",
    "text_sensor": "'return {\"unavailable\"};'",
}


def esphome_files(enrolment: Enrolment) -> Files:
    """Return a component, the enrolment and a configuration to start from."""
    component = runtime_folder("esphome/components/discreet")
    component |= runtime_files("c") | runtime_files("c/client")
    text = runtime_folder("esphome")["site.yaml"].decode()
    sensors, sources = [], []
    for place, (name, bundle) in enumerate(
        zip(enrolment.sensors, enrolment.bundle_bytes, strict=True)
    ):
        kind = "text_sensor" if bundle[4 * 10] == 1 else "sensor"  # the table's head, word 10
        quiet = "".join("_" if each in "$<>%#{}" else each for each in name)  # it would run them
        sensors.append(f"    - name: {json.dumps(quiet)}\n      {kind}: reading_{place}")
        sources.append(
            f"{kind}:\n  - platform: template # yours; a binary_sensor will do as well\n"
            f"    id: reading_{place}\n    internal: true # stays inside the node\n"
            f"    lambda: {_SOURCES[kind]}\n    update_interval: 10s\n"
        )
    for word, value in (
        ("NODE", enrolment.client),
        ("SENSORS", "\n".join(sensors)),
        ("SOURCES", _grouped(sources)),
    ):
        text = text.replace(word, value)
    own = {f"{enrolment.client}.yaml": text.encode()}
    own[f"{enrolment.client}.enrolment"] = packed(enrolment)
    return own | {f"components/discreet/{path}": data for path, data in component.items()}


def _grouped(sources: list[str]) -> str:
    """Return sources with one heading for all of a kind."""
    found: dict[str, str] = {}
    for source in sources:
        heading, _, entry = source.partition("\n")
        found[heading] = found.get(heading, f"\n{heading}\n") + entry
    return "".join(found.values()).rstrip()


@dataclass(frozen=True)
class DeviceTarget:
    """What a kind of device is given. ``files``: None: the one file ``NAME.enrol``.

    ``install``: lines that say how, with {out}, the path of what was written, {whole}, the same
    from the root on, and {name}.
    """

    files: Callable[[Enrolment], Files] | None
    install: tuple[str, ...]


TARGETS = {
    "python": DeviceTarget(
        None,
        (
            "on the device, with discreet-sensor or all of discreet installed:",
            "  discreet-sensor {out} --state DIR --read ...    (or: discreet sensor)",
        ),
    ),
    "c": DeviceTarget(
        c_files,
        (
            "build it into your firmware (examples/esp-idf), or on Linux with libmosquitto:",
            "  cd {out}/examples/linux && cc -O2 -I../.. main.c -lmosquitto -lm -o discreet-device",
            "  ./discreet-device ../../{name}.enrolment STATE READINGS",
        ),
    ),
    "micropython": DeviceTarget(
        micropython_files,
        (
            "put network and readings into {out}/main.py, make_new=True for the first start, then:",
            "  mpremote mip install {out}/package.json + cp {out}/main.py :main.py",
        ),
    ),
    "node-red": DeviceTarget(
        node_red_files,
        (
            "carry {out} to the machine with Node-RED, and there, with the path that it has then:",
            # npm takes a/b for a repository on GitHub, and without the option only links a folder.
            "  cd ~/.node-red && npm install --install-links {whole}/node-red-contrib-discreet",
            "  cp {whole}/{name}.enrol ~/.node-red    (then name it in a discreet node)",
        ),
    ),
    "esphome": DeviceTarget(
        esphome_files,
        (
            "put your sensors into {out}/{name}.yaml, new_ledger: true for the first time, then:",
            "  cd {out} && esphome run {name}.yaml",
        ),
    ),
}


# --- An enrolment as words, for devices that read no JSON ----------------------------------
# docs/protocol.md has the places. Tables are the bodies of the bundles, without the signature:
# whoever could change them on such a device could change its program as well.


MAGIC = 0x31455344  # "DSE1"
_HEAD = struct.Struct("<III Q III Q I 8s 32s 32s I 6I")
_SIGNATURE = 64
_TLS, _MQTT5, _PREVIOUS = 1, 2, 4


def packed(enrolment: Enrolment) -> bytes:
    """Return an enrolment as a device without JSON reads it.

    Raises InputError: if the interval is not a whole number of milliseconds.
    """
    milliseconds = round(enrolment.interval * 1000)
    if abs(enrolment.interval * 1000 - milliseconds) > 1e-6 or not milliseconds:
        raise InputError(
            f"the site's interval of {enrolment.interval} s is not a whole number of "
            "milliseconds, in which such a device counts. Make the site with another --interval."
        )
    broker, previous = enrolment.broker, enrolment.previous_key
    authority = enrolment.ca.partition("-----BEGIN X509 CRL-----")[0]  # few can check a list
    texts = [
        text.encode()
        for text in (
            enrolment.site,
            enrolment.client,
            broker.host,
            *((authority, enrolment.certificate, enrolment.key) if broker.tls else ("",) * 3),
        )
    ]
    tail = b"".join(_ended(text) for text in texts)
    tail += b"".join(bundle[:-_SIGNATURE] for bundle in enrolment.bundle_bytes)
    flags = broker.tls * _TLS | (broker.mqtt == "5") * _MQTT5 | (previous is not None) * _PREVIOUS
    head = _HEAD.pack(
        MAGIC,
        (_HEAD.size + len(tail) + 4) // 4,
        flags,
        enrolment.epoch,
        milliseconds,
        enrolment.batch,
        len(enrolment.sensors),
        enrolment.boot,
        enrolment.spent,
        mapping_tag(enrolment.mapping),
        bytes.fromhex(enrolment.mac_key),
        bytes.fromhex(previous or "00" * 32),
        broker.port,
        *map(len, texts),
    )
    return head + tail + zlib.crc32(head + tail).to_bytes(4, "little")


def _ended(text: bytes) -> bytes:
    """Return a text with at least one zero byte after it, in whole words."""
    return text + bytes(4 - len(text) % 4)
