"""The neutral form: what one sensor's device needs, and nothing else.

No other sensor, no label, no fusion rule and nothing of the data is in it. The thresholds are
the running sums of the integer weights that were audited, so that a device draws from the very
same distribution. Its bytes, the body of a bundle, are 32-bit words, the same for every runtime;
``runtimes/c/discreet.h`` names them. Numbers are written as 64-bit keys whose order as integers is
their order as numbers: a device compares them without floating-point arithmetic, and one with
single precision gets the same codes as one with double.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

from discreet.data.columns import written
from discreet.data.encoders import BinsEncoder, CategoriesEncoder, Encoder
from discreet.errors import InputError
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import TOTAL, Sensor

REPEATS = ("code", "period", "never")
NONE = 2**32 - 1
"""Stands for: no budget, or no finite epsilon."""
MICRO = 10**6
"""Parts of a nat that a ledger counts in."""


@dataclass(frozen=True)
class Policy:
    """What a device may release, and which readings share a symbol.

    ``budget``: what all releases of one device may tell by C1, in nats. No limit by default.
    ``period``: seconds for which a key, and with it the symbol of a code, stays. ``repeat``:
    "code": within a period the same code gets the same symbol. "period": one symbol is held for the
    whole period. "never": every reading is drawn afresh.
    """

    budget: float | None = None
    period: int = 86_400
    repeat: str = "code"

    def __post_init__(self) -> None:
        if self.repeat not in REPEATS:
            raise InputError(f"repeat must be one of {', '.join(REPEATS)}, got {self.repeat!r}.")
        if not 1 <= self.period < NONE:
            raise InputError(f"period must be from 1 to {NONE - 1} seconds, got {self.period}.")
        if self.budget is not None and not 0 < self.budget <= (NONE - 1) / MICRO:
            raise InputError(
                f"budget must be above 0 and at most {(NONE - 1) // MICRO} nats, got {self.budget}."
            )

    @property
    def micro_budget(self) -> int:
        """The budget as it is written, in millionths, rounded down; ``NONE`` without a limit."""
        return NONE if self.budget is None else int(Fraction(str(float(self.budget))) * MICRO)


@dataclass(frozen=True)
class SensorTable:
    """One sensor in the neutral form.

    ``thresholds``: a row for each code and, last, the idle row. A 32-bit word w picks the symbol
    that is the number of thresholds <= w, but no more than the row's top. ``tops``: the last symbol
    of each row that can occur. It tells a threshold of 2^32, written as 2^32 - 1, from a true 2^32
    - 1. ``ratio``: e^epsilon of one release by C1, exactly; None if some symbol is sent only for
    some codes.
    """

    name: str
    mapping_id: str
    encoder: Encoder
    symbols: int
    thresholds: tuple[tuple[int, ...], ...]
    tops: tuple[int, ...]
    ratio: Fraction | None
    policy: Policy

    @property
    def micro_epsilon(self) -> int:
        """Epsilon of one release in millionths of a nat, rounded up; ``NONE`` if infinite."""
        return NONE if self.ratio is None else micro_log(self.ratio)

    @property
    def kind(self) -> int:
        """0 for bins, 1 for categories, 2 for codes."""
        if isinstance(self.encoder, BinsEncoder):
            return 0
        return 1 if isinstance(self.encoder, CategoriesEncoder) else 2


def neutral_form(mapping: Mapping, policy: Policy) -> list[SensorTable]:
    """Return the neutral form of every sensor.

    Raises InputError: if a budget is asked for and a sensor's table has no finite epsilon to count.
    """
    tables = [sensor_table(mapping.id, sensor, policy) for sensor in mapping.sensors]
    for table in tables:
        if policy.budget is not None and table.ratio is None:
            raise InputError(
                f"sensor {table.name!r} sends some symbol only for some codes, so that no budget "
                "can be kept. Learn with --ldp-epsilon, or leave --budget out."
            )
    return tables


def sensor_table(mapping_id: str, sensor: Sensor, policy: Policy) -> SensorTable:
    """Return the neutral form of one sensor."""
    if isinstance(sensor.encoder, CategoriesEncoder) and any(
        "\0" in written(each) for each in sensor.encoder.categories
    ):
        raise InputError(
            f"sensor {sensor.name!r} has a category with a zero byte in it, which ends a text on "
            "devices. Rename the category and learn again."
        )
    rows = [*sensor.weights, idle_row(sensor.weights)]
    return SensorTable(
        name=sensor.name,
        mapping_id=mapping_id,
        encoder=sensor.encoder,
        symbols=sensor.symbols,
        thresholds=tuple(_thresholds(row) for row in rows),
        tops=tuple(max(z for z, weight in enumerate(row) if weight) for row in rows),
        ratio=exact_ratio(rows),
        policy=policy,
    )


def _thresholds(row: tuple[int, ...]) -> tuple[int, ...]:
    sums, total = [], 0
    for weight in row[:-1]:
        total += weight
        sums.append(min(total, TOTAL - 1))
    return tuple(sums)


def idle_row(weights: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the average of the rows, in integers that sum to 2^32.

    It is sent when the budget is spent and for readings that no code fits. Each entry lies
    between the least and the largest of its column, so that C1 stays what it was.
    """
    sums = [sum(column) for column in zip(*weights, strict=True)]
    floors = [total // len(weights) for total in sums]
    by_remainder = sorted(range(len(sums)), key=lambda z: -(sums[z] % len(weights)))
    for z in by_remainder[: TOTAL - sum(floors)]:
        floors[z] += 1
    return tuple(floors)


def exact_ratio(rows: list[tuple[int, ...]]) -> Fraction | None:
    """Return the largest ratio of two weights in one column, or None if it is infinite."""
    sent = [column for column in zip(*rows, strict=True) if max(column)]
    if any(min(column) == 0 for column in sent):
        return None
    return max(Fraction(max(column), min(column)) for column in sent)


def micro_log(ratio: Fraction) -> int:
    """Return the logarithm in millionths, never too small."""
    with localcontext() as context:
        context.prec = 50
        log = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln() * MICRO
        # The quotient and the logarithm are right to the 50th digit; an exact 0 stays 0.
        slack = Decimal("1e-30") if ratio > 1 else Decimal(0)
        return int((log + slack).to_integral_value(rounding=ROUND_CEILING))


# --- The body of a bundle ------------------------------------------------------------------


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
