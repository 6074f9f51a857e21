"""An enrolment as words, for devices that read no JSON: docs/protocol.md has the places.

Tables are the bodies of the bundles, without the signature: whoever could change them on such a
device could change its program as well.
"""

from __future__ import annotations

import struct
import zlib

from discreet.errors import InputError
from discreet_sensor.enrolment import Enrolment
from discreet_sensor.wire import mapping_tag

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
