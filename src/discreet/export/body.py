"""The body of a bundle: the neutral form in 32-bit words, the same for every runtime.

``runtimes/c/discreet.h`` names the words. Numbers are written as 64-bit keys whose order as
integers is their order as numbers: a device compares them without floating-point arithmetic,
and one with single precision gets the same codes as one with double.
"""

from __future__ import annotations

import math
import struct
import zlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from discreet.data.columns import written
from discreet.data.encoders import BinsEncoder, CategoriesEncoder
from discreet.errors import InputError
from discreet.export.neutral import REPEATS, SensorTable

_RUNTIMES = files("discreet.export") / "runtimes"


def runtime(path: str) -> bytes:
    """Return a file under ``runtimes/``."""
    return _RUNTIMES.joinpath(path).read_bytes()


def runtime_folder(path: str) -> dict[str, bytes]:
    """Return every file below a folder under ``runtimes/``, by its path there."""
    return dict(_walk(_RUNTIMES.joinpath(path), ""))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir() and each.name != "__pycache__":
            found += _walk(each, f"{prefix}{each.name}/")
        elif each.is_file() and not each.name.endswith(".pyc"):
            found.append((prefix + each.name, each.read_bytes()))
    return found


MAGIC = 0x31435344
MAX_BYTES = 16 * 2**20
NO_NUMBER = 2**64 - 1
_HEAD = struct.Struct("<II32sIIIIIII")


def bundle_body(table: SensorTable) -> bytes:
    """Return the bytes that a device reads: head, table, encoder, name, CRC-32.

    Raises InputError: if they are more than a device takes.
    """
    encoder = table.encoder
    flags = encoder.missing | REPEATS.index(table.policy.repeat) << 1
    plain, keys, text = _encoder_parts(table)
    name = table.name.encode()
    parts = _pad(bytes(table.tops)) + struct.pack(f"<{len(keys)}Q", *keys) + _pad(text) + _pad(name)
    cells = [threshold for row in table.thresholds for threshold in row]
    size = _HEAD.size + 4 * len(cells) + len(parts) + 4
    if size > MAX_BYTES:
        raise InputError(
            f"sensor {table.name!r} takes {size} bytes; a bundle may have {MAX_BYTES}. Learn with "
            "fewer codes or symbols."
        )
    head = _HEAD.pack(
        MAGIC,
        size // 4,
        bytes.fromhex(table.mapping_id.removeprefix("sha256:")),
        table.kind | flags << 8 | table.symbols << 16,
        plain,
        table.micro_epsilon,
        table.policy.micro_budget,
        table.policy.period,
        len(text),
        len(name),
    )
    body = head + struct.pack(f"<{len(cells)}I", *cells) + parts
    return body + zlib.crc32(body).to_bytes(4, "little")


def _encoder_parts(table: SensorTable) -> tuple[int, list[int], bytes]:
    """Return how many plain codes there are, the numbers' keys and the categories' text."""
    encoder = table.encoder
    if isinstance(encoder, BinsEncoder):
        return len(encoder.edges), [number_key(edge) for edge in encoder.edges], b""
    if isinstance(encoder, CategoriesEncoder):
        texts = [written(each) for each in encoder.categories]
        return (
            len(texts),
            [_category_key(text) for text in texts],
            b"".join(text.encode() + b"\0" for text in texts),
        )
    return encoder.size, [], b""


def number_key(number: float) -> int:
    """Return 64 bits that compare as integers like the numbers do."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", number + 0.0))  # no minus zero
    return int(bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63)


def _category_key(text: str) -> int:
    """Return the key of the number that is written like this, if there is one."""
    try:
        number = float(text)
    except ValueError:
        return NO_NUMBER
    fits = not math.isnan(number) and written(number) == text
    return number_key(number) if fits else NO_NUMBER


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
