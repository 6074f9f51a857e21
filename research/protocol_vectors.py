"""Test vectors of the protocol, for clients in any language: ``docs/vectors.json``.

``python -m research.protocol_vectors`` says whether the file is what this code generates;
``--write`` writes it. Everything in it follows from fixed numbers.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder
from discreet.export.neutral import Policy, SensorTable, bundle_body, sensor_table
from discreet.export.signing import SigningKey
from discreet.mapping.mapping import round_rows
from discreet.mapping.parts import Sensor
from discreet.network.site.device_files import packed
from discreet_sensor import wire
from discreet_sensor.enrolment import BrokerPlace, Enrolment
from discreet_sensor.runtime import REPEAT_NEVER, Table, keyed_words
from research.protocol_lives import ENROLMENTS, EPOCH, INTERVAL, LifeEnrolment, lives

FILE = Path(__file__).parents[1] / "docs" / "vectors.json"
SITE, CLIENT = "home", "hall"
MAPPING = "sha256:" + hashlib.sha256(b"mapping").hexdigest()
KEY, PREVIOUS = hashlib.sha256(b"key").digest(), hashlib.sha256(b"previous key").digest()
TOPIC, ACK = wire.message_topic(SITE, CLIENT), wire.ack_topic(SITE, CLIENT)
_PEM = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"


def vectors() -> dict[str, Any]:
    """Return all of it, by section of docs/protocol.md."""
    return {
        "format": "discreet-vectors",
        "version": 1,
        "site": SITE,
        "client": CLIENT,
        "key": KEY.hex(),
        "topic": TOPIC,
        "ack_topic": ACK,
        "enrolment": {"json": _dumped(enrolment()), "binary": packed(enrolment()).hex()},
        "bad_binary_enrolments": list(_bad_enrolments()),
        "messages": list(_messages()),
        "rounds": list(_rounds()),
        "tables": [_table(table) for table in tables()],
        "acknowledgements": list(_acknowledgements()),
        "bad_acknowledgements": list(_bad_acknowledgements()),
        "life_enrolments": {each.name: _life_enrolment(each) for each in ENROLMENTS},
        "outbox": lives("outbox"),
        "clocks": lives("clocks"),
    }


# --- Enrolment -----------------------------------------------------------------------------


def tables() -> list[SensorTable]:
    """Return a sensor of each kind and policy."""
    bins = _sensor("hall", BinsEncoder(edges=(-1.5, 0.0, 20.25)), 3)
    texts = CategoriesEncoder(categories=("open", "shut", "Küche", 7), missing=True)
    codes = _sensor("door", CodesEncoder(size=5), 2)
    return [
        sensor_table(MAPPING, bins, Policy(period=3600, repeat="code")),
        sensor_table(MAPPING, _sensor("stove", texts, 4), Policy(budget=20, repeat="period")),
        sensor_table(MAPPING, codes, Policy(budget=1.5, repeat="never")),
    ]


def _sensor(name: str, encoder: Any, symbols: int) -> Sensor:
    weights = [
        [1 + (3 * row + 5 * symbol) % 7 for symbol in range(symbols)]
        for row in range(encoder.n_codes)
    ]
    rows = round_rows([[each / sum(row) for each in row] for row in weights])
    return Sensor(name=name, encoder=encoder, symbols=symbols, weights=rows.tolist())


def enrolment() -> Enrolment:
    """Return the enrolment of a device with these sensors; its certificates are none."""
    return Enrolment(
        site=SITE,
        client=CLIENT,
        sensors=tuple(table.name for table in tables()),
        batch=2,
        epoch=1_700_000_000,
        interval=2.5,
        broker=BrokerPlace(host="gateway.local", port=8883),
        boot=1_700_000_100,
        spent=250_000,
        mapping=MAPPING,
        certificate=_PEM,
        key=_PEM,
        ca=_PEM,
        mac_key=KEY.hex(),
        previous_key=PREVIOUS.hex(),
        public_key=_signing().public_hex,
        bundles=tuple(_bundle(table) for table in tables()),
    )


def _signing() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"site").digest()))


def _bundle(table: SensorTable) -> str:
    return base64.b64encode(_signing().sign(bundle_body(table))).decode()


def _dumped(content: Enrolment) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(content.as_json())
    return found


def _bad_enrolments() -> Iterator[dict[str, str]]:
    good = packed(enrolment())
    yield {"why": "empty", "bytes": ""}
    yield {"why": "cut short", "bytes": good[:-4].hex()}
    yield {"why": "longer than it says", "bytes": (good + bytes(4)).hex()}
    yield {"why": "no whole words", "bytes": good[:-1].hex()}
    yield {"why": "another magic", "bytes": _sealed(b"DSE2" + good[4:]).hex()}
    yield {"why": "damaged", "bytes": (good[:200] + bytes([good[200] ^ 1]) + good[201:]).hex()}
    for why, word, value in (
        ("no interval", 5, 0),
        ("no batch", 6, 0),
        ("too many symbols", 6, 65535),
        ("a sensor too many", 7, 4),
        ("a sensor too few", 7, 2),
        ("no sensor", 7, 0),
        ("a boot beyond all", 9, 2**31),
        ("another mapping", 11, 0),
        ("no port", 29, 0),
        ("a port beyond all", 29, 65536),
        ("a text that ends outside", 33, 2**32 - 4),
        ("a text that is longer", 30, 5),
        ("a flag that nobody knows", 2, 15),
    ):
        changed = good[: 4 * word] + value.to_bytes(4, "little") + good[4 * word + 4 :]
        yield {"why": why, "bytes": _sealed(changed).hex()}
    for why, at, text in (("a site that is no name", 144, b"ho/e"), ("no client", 152, b"-all")):
        yield {"why": why, "bytes": _sealed(good[:at] + text + good[at + 4 :]).hex()}


def _sealed(data: bytes) -> bytes:
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")


# --- Messages and their rounds -------------------------------------------------------------


def _messages() -> Iterator[dict[str, Any]]:
    tag = wire.mapping_tag(MAPPING)
    for boot, seq, number, spent, symbols in (
        (0, 0, 0, 0, b"\0"),
        (1_700_000_101, 0, 12, 250_000, bytes([0, 1, 2, 3, 1, 0])),
        (1_700_000_101, 1, 14, 250_000, bytes([2, 0, 1, 1, 3, 1])),
        (wire.MAX_BOOT, 2**32 - 1, 2**32 - 1, 2**32 - 1, bytes(range(256)) * 2),
    ):
        message = wire.Message(boot, seq, number, spent, symbols, tag)
        yield {
            **message._asdict(),
            "symbols": symbols.hex(),
            "mapping": tag.hex(),
            "bytes": wire.encode(message, KEY, TOPIC).hex(),
        }


def _rounds() -> Iterator[dict[str, int]]:
    """Yield the round of a moment, and when the message of its batch is drawn and published."""
    for epoch, interval, batch in ((1_700_000_000, 2500, 2), (0, 100, 1), (10, 86_400_000, 3)):
        for at in (0, 1, interval - 1, interval, 7 * interval + 1, 1000 * interval):
            number = at // interval
            first = number - number % batch
            drawn = 1000 * epoch + (first + batch) * interval
            yield {
                "epoch": epoch,
                "interval_ms": interval,
                "batch": batch,
                "at_ms": 1000 * epoch + at,
                "round": number,
                "first": first,
                "drawn_ms": drawn,
                "published_ms": drawn + min(interval // 4, 200),
            }


# --- Tables --------------------------------------------------------------------------------


_READINGS: Sequence[Any] = (
    None, -1e300, -1.5, -1.4, -0.0, 0.0, 20.25, 20.5, 1e300, 0, 1, 4, 5, 7, 7.0, -1,
    "open", "shut", "Küche", "", "7", "20.5", "ajar",
)  # fmt: skip


def _table(form: SensorTable) -> dict[str, Any]:
    body, key = bundle_body(form), hashlib.sha256(form.name.encode()).digest()
    table = Table(body)
    words = [int.from_bytes(hashlib.sha256(bytes([i])).digest()[:4], "big") for i in range(12)]
    edges = [each for row in table.thresholds for each in (row[0], max(0, row[0] - 1))]
    return {
        "name": table.name,
        "body": body.hex(),
        "rows": table.rows,
        "readings": [[reading, table.row(reading)] for reading in _READINGS],
        "draws": [
            [row, word, table.pick(row, word)]
            for row in range(table.rows)
            for word in (0, 2**32 - 1, *words, *edges)
        ],
        "period_key": None if table.repeat == REPEAT_NEVER else key.hex(),
        "symbols_of_the_period": None
        if table.repeat == REPEAT_NEVER
        else [table.pick(row, keyed_words(key, 0)[row]) for row in range(table.rows)],
    }


# --- What the site answers -----------------------------------------------------------------


def _acknowledgements() -> Iterator[dict[str, Any]]:
    lists: tuple[list[wire.Entry], ...] = (
        [],
        [wire.Entry(1_700_000_101, 0, 1, wire.STORED)],
        [
            wire.Entry(1_700_000_101, 0, 2, wire.STORED),
            wire.Entry(1_700_000_101, 5, 1, wire.REFUSED),
            wire.Entry(1_700_000_102, 0, 2**32 - 1, wire.STOPPED),
            wire.Entry(wire.MAX_BOOT, 2**32 - 1, 2**32 - 1, wire.STORED),
        ],
        [wire.Entry(seq, seq, 1, wire.STORED) for seq in range(40)],
    )
    for entries in lists:
        packed_entries = b"".join(wire.ENTRY.pack(*entry) for entry in entries)
        yield {
            "entries": [list(entry) for entry in entries],
            "bytes": _acknowledgement(packed_entries).hex(),
        }


def _acknowledgement(entries: bytes, key: bytes = KEY, topic: str = ACK) -> bytes:
    body = b"\x83\x01\x59" + len(entries).to_bytes(2, "big") + entries + b"\x48"
    return body + wire.mac(key, topic.encode(), body)


def _bad_acknowledgements() -> Iterator[dict[str, str]]:
    entry = wire.ENTRY.pack(1_700_000_101, 0, 1, wire.STORED)
    good = _acknowledgement(entry)
    yield {"why": "empty", "bytes": ""}
    yield {"why": "cut short", "bytes": good[:-1].hex()}
    yield {"why": "one byte more", "bytes": (good + b"\0").hex()}
    yield {"why": "another key", "bytes": _acknowledgement(entry, PREVIOUS).hex()}
    yield {"why": "for another client", "bytes": _acknowledgement(entry, topic=TOPIC).hex()}
    yield {"why": "half an entry", "bytes": _acknowledgement(entry[:8]).hex()}
    for at, value in ((0, 0x82), (1, 2), (2, 0x58), (4, 34), (22, 0x58), (10, good[10] ^ 1)):
        changed = good[:at] + bytes([value]) + good[at + 1 :]
        yield {"why": f"byte {at} is {value}", "bytes": changed.hex()}


# --- Outbox and clocks ---------------------------------------------------------------------


def _life_enrolment(of: LifeEnrolment) -> dict[str, Any]:
    """Return an enrolment of one sensor, whose bundle is signed, as a device gets it."""
    keys = [hashlib.sha256(key.encode()).hexdigest() for key in of.keys]
    table = tables()[0]
    content = replace(
        enrolment(),
        sensors=(table.name,),
        batch=of.batch,
        epoch=EPOCH,
        interval=INTERVAL / 1000,
        broker=BrokerPlace(host="localhost", port=1883, tls=False),
        boot=of.boot,
        spent=of.spent,
        mac_key=keys[0],
        previous_key=keys[1] if keys[1:] else None,
        bundles=(_bundle(table),),
    )
    return {"json": _dumped(content), "binary": packed(content).hex()}


def text() -> str:
    """Return the file; each step of a life is a line of its own."""
    content, steps = vectors(), []
    for life in (*content["outbox"], *content["clocks"]):
        for i, step in enumerate(life["steps"]):
            steps.append(json.dumps(step))
            life["steps"][i] = f"step {len(steps) - 1}"
    found = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    return re.sub('"step ([0-9]+)"', lambda number: steps[int(number[1])], found)


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/vectors.json")
    if parser.parse_args().write:
        FILE.write_text(text(), encoding="utf-8")
    fits = FILE.exists() and FILE.read_text(encoding="utf-8") == text()
    print(f"{FILE.name}: {'up to date' if fits else 'differs; run with --write'}")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
