"""Packed rows in a file, for tables larger than memory.

The file, all numbers little-endian:

| part | bytes |
|---|---|
| ``discreet-packed`` and a line feed | 16 |
| version, length of the header | 4 + 4 |
| header: JSON (``Header``), filled up with blanks | a multiple of 64, with the above |
| for each word of a row (``packing``): that word of every row | rows × 8, 4, 2 or 1 |
| the codes of sensors with more than 256 | rows × sensors × 2 or 4 |
| the kind of every row: its combination of labels, by number | rows × 1, 2 or 4 |
| how many rows have each code | codes × 8 |
| SHA-256 of the rows (``RowsDigest``) | 32 |
| SHA-256 of the header and of all that follows it | 32 |

Every part begins at a multiple of 64. Nothing of a file is believed before it was checked:
its length when it is opened, its checksum and every value by ``PackedFile.verify``.

Blocks are read into memory of their own and not mapped. A mapped page counts as resident until
it is released, and a file that is cut short under its map ends the process; a read that comes
up short is an error with words.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from discreet.arrays import Floats, Ints
from discreet.data.encoders import Encoder
from discreet.data.labels import Labels
from discreet.data.strict_model import Items, Model, explain
from discreet.design.heads import Head
from discreet.design.losses import Loss
from discreet.design.packing import Layout, Packed, concatenate, pack
from discreet.design.sweep import Swept, WeightedRows, sample_index, sweep
from discreet.design.weighted_rows import KindRows
from discreet.errors import InputError
from discreet.files import replacing
from discreet.mapping.parts import MAX_SENSORS, Fact, Name, Source

MAGIC, VERSION = b"discreet-packed\n", 1
MAX_KINDS = 1 << 16
"""Most combinations of labels that a packed file tells apart."""
_MAX_HEADER = 1 << 26
_ALIGN, _DIGEST_BYTES = 64, 32
_BLOCK = 1 << 15  # rows read at a time where nobody says how many
_FIX = "Pack the table again."


# --- What the file says of itself ----------------------------------------------------------


class PackedSensor(Model):
    """A sensor's name and how its readings became codes."""

    name: Name
    encoder: Encoder


class Header(Model):
    """All that a packed file tells of its rows.

    ``facts``: the public fact, then the private ones. ``kinds``: for each combination of labels
    that occurs: the class of each fact. ``kind_rows``: how many rows have each. ``source``: the
    table that the rows come from.
    """

    sensors: Items[PackedSensor] = Field(min_length=1, max_length=MAX_SENSORS)
    facts: Items[Fact] = Field(min_length=2, max_length=100)
    kinds: Items[Items[Annotated[int, Field(ge=0, lt=256)]]] = Field(
        min_length=1, max_length=MAX_KINDS
    )
    kind_rows: Items[Annotated[int, Field(ge=1, lt=1 << 40)]] = Field(
        min_length=1, max_length=MAX_KINDS
    )
    source: Source | None = None

    @model_validator(mode="after")
    def _check_kinds(self) -> Self:
        classes = [len(fact.classes) for fact in self.facts]
        if len(self.kinds) != len(self.kind_rows) or len(set(self.kinds)) != len(self.kinds):
            raise ValueError("must have one number of rows for each kind, and each kind once")
        for kind in self.kinds:
            if len(kind) != len(classes) or any(
                label >= count for label, count in zip(kind, classes, strict=True)
            ):
                raise ValueError("must give one class that there is of every fact for each kind")
        return self

    @property
    def rows(self) -> int:
        return sum(self.kind_rows)

    @property
    def names(self) -> list[str]:
        return [sensor.name for sensor in self.sensors]

    @property
    def encoders(self) -> list[Encoder]:
        return [sensor.encoder for sensor in self.sensors]


@dataclass(frozen=True)
class _Places:
    """Where each part of the file begins, and how long the file is."""

    layout: Layout
    wide_kind: np.dtype[Any]
    kind_kind: np.dtype[Any]
    words: tuple[int, ...]
    wide: int
    kinds: int
    totals: int
    digest: int

    @classmethod
    def of(cls, header: Header, begin: int) -> _Places:
        layout = Layout.of([encoder.n_codes for encoder in header.encoders])
        wide_kind = np.dtype("<u2" if layout.wide_size <= 1 << 16 else "<u4")
        kind_kind = np.min_scalar_type(max(len(header.kinds) - 1, 0)).newbyteorder("<")
        rows, places = header.rows, [begin]
        lengths = [rows * width for _, width in layout.words]
        lengths += [rows * len(layout.wide) * wide_kind.itemsize, rows * kind_kind.itemsize]
        for length in (*lengths, 8 * layout.n_codes):
            places.append(places[-1] + _aligned(length))
        count = len(layout.words)
        return cls(layout, wide_kind, kind_kind, tuple(places[:count]), *places[count:])

    @property
    def checksum(self) -> int:
        return self.digest + _DIGEST_BYTES

    @property
    def size(self) -> int:
        return self.checksum + _DIGEST_BYTES


def _aligned(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN


# --- Digests -------------------------------------------------------------------------------


class RowsDigest:
    """One SHA-256 over packed rows and their labels, in order, whatever the batches."""

    def __init__(self, layout: Layout, n_facts: int) -> None:
        self._parts = [hashlib.sha256() for _ in range(len(layout.words) + 1 + n_facts)]

    def update(self, packed: Packed, labels: NDArray[np.uint8]) -> None:
        """Add rows; ``labels`` has one column for each fact."""
        columns = [*packed.narrow, packed.wide, *labels.T]
        for part, column in zip(self._parts, columns, strict=True):
            part.update(np.ascontiguousarray(column).data)

    def bytes(self) -> bytes:
        whole = hashlib.sha256(b"discreet-rows-1\n")
        for part in self._parts:
            whole.update(part.digest())
        return whole.digest()


def rows_digest(codes: Ints, sizes: Sequence[int], labels: Sequence[Ints]) -> str:
    """Return the digest that packing these rows, in this order, records."""
    packed = pack(codes, sizes)
    digest = RowsDigest(packed.layout, len(labels))
    digest.update(packed, np.column_stack(labels).astype(np.uint8))
    return "sha256:" + digest.bytes().hex()


# --- Writing -------------------------------------------------------------------------------


class PackedWriter:
    """Writes coded rows to a file, batch by batch.

    Room for the whole file is asked for at once, so that a disk that is too full says so
    before the work and not at the end of it.

    Raises InputError: if the file cannot be written; what was written so far is of no use.
    """

    def __init__(self, stream: IO[bytes], header: Header, where: str) -> None:
        self._stream, self._where, self.header = stream, where, header
        self._front = _front(header)
        self._places = _Places.of(header, len(self._front))
        self.layout = self._places.layout
        self._kind_labels = np.array(header.kinds, dtype=np.uint8)
        self._digest = RowsDigest(self.layout, len(header.facts))
        self._totals = np.zeros(self.layout.n_codes)
        self._kind_rows = np.zeros(len(header.kinds), dtype=np.int64)
        self.rows = 0
        with self._explained():
            stream.seek(0)
            stream.truncate()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(stream.fileno(), 0, self._places.size)
            stream.write(self._front)

    def add(self, codes: Ints, kinds: Ints) -> None:
        """Append rows, given the number of each one's kind."""
        if self.rows + len(codes) > self.header.rows:
            raise InputError(
                f"{self._where}: more than the {self.header.rows} rows that were announced. "
                "The table changed while it was read; leave it alone and start again."
            )
        packed = pack(codes, self.layout.sizes)
        places, first = self._places, self.rows
        wide = packed.wide.astype(places.wide_kind)
        with self._explained():
            for place, word in zip(places.words, packed.narrow, strict=True):
                self._put(place + first * word.itemsize, word)
            self._put(places.wide + first * wide.shape[1] * wide.itemsize, wide)
            kind_size = places.kind_kind.itemsize
            self._put(places.kinds + first * kind_size, kinds.astype(places.kind_kind))
        self._digest.update(Packed(self.layout, packed.narrow, wide), self._kind_labels[kinds])
        self._totals += packed.totals()
        self._kind_rows += np.bincount(kinds, minlength=len(self._kind_rows))
        self.rows += len(codes)

    def finish(self) -> PackedFile:
        """Write what can only be known at the end, and return the file to read from."""
        if self._kind_rows.tolist() != list(self.header.kind_rows):
            raise InputError(
                f"{self._where}: {self.rows} rows came where {self.header.rows} were announced, "
                "or other labels. The table changed while it was read; leave it alone and start "
                "again."
            )
        totals = self._totals.astype("<u8").tobytes()
        with self._explained():
            self._put(self._places.totals, totals)
            rows = self._digest.bytes()
            self._put(self._places.digest, rows)
            self._put(self._places.checksum, hashlib.sha256(self._front + rows + totals).digest())
            self._stream.flush()
        return PackedFile(self._stream, self.header, len(self._front), self._where)

    def _put(self, place: int, data: NDArray[Any] | bytes) -> None:
        self._stream.seek(place)
        self._stream.write(data if isinstance(data, bytes) else np.ascontiguousarray(data).data)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self._where}: the packed rows take {self._places.size} bytes and cannot be "
                f"written there ({error.strerror or error}). Make room, or name another place."
            ) from None


def _front(header: Header) -> bytes:
    text = json.dumps(header.model_dump(mode="json"), separators=(",", ":")).encode()
    length = _aligned(len(MAGIC) + 8 + len(text)) - len(MAGIC) - 8
    if length > _MAX_HEADER:
        raise InputError(
            f"the names, encoders and labels take {length} bytes; a packed file has room for "
            f"{_MAX_HEADER}. Use fewer sensors or categories."
        )
    numbers = VERSION.to_bytes(4, "little") + length.to_bytes(4, "little")
    return MAGIC + numbers + text.ljust(length)


@contextmanager
def packing_to(path: str | os.PathLike[str], header: Header) -> Iterator[PackedWriter]:
    """Write a packed file whole or not at all: under another name, renamed at the end."""
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(replacing(Path(path)))
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None
        writer = PackedWriter(stream, header, str(path))
        yield writer
        writer.finish()


# --- Reading -------------------------------------------------------------------------------


class PackedFile:
    """Packed rows that stay in their file and are read block by block.

    Takes the place of ``Packed`` for whoever asks for its layout, its totals and some rows.
    Use as a context, or ``close`` it.

    ``by_kind``: the kinds in the place of rows, which is what heads are made from.
    """

    def __init__(self, stream: IO[bytes], header: Header, begin: int, where: str) -> None:
        self._stream, self._where, self.header = stream, where, header
        self._places = _Places.of(header, begin)
        self._begin = begin
        self._lock = threading.Lock()
        self.layout = self._places.layout
        self.by_kind = KindRows(np.array(header.kind_rows, dtype=np.float64))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify: bool = True) -> PackedFile:
        """Open a packed file and, unless told otherwise, check every byte of it.

        Raises InputError: if it is not a whole and sound packed file of this version.
        """
        try:
            stream = Path(path).open("rb")  # noqa: SIM115  it stays open in the object
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{path}: cannot be read ({reason}). Check the path.") from None
        try:
            file = cls._opened(stream, str(path))
            if verify:
                file.verify()
        except BaseException:
            stream.close()
            raise
        return file

    @classmethod
    def _opened(cls, stream: IO[bytes], where: str) -> PackedFile:
        front = stream.read(len(MAGIC) + 8)
        if not front.startswith(MAGIC):
            raise InputError(f"{where}: is not a packed table of discreet. Name another file.")
        version = int.from_bytes(front[-8:-4], "little")
        length = int.from_bytes(front[-4:], "little")
        if len(front) == len(MAGIC) + 8 and version != VERSION:
            raise InputError(
                f"{where}: is of version {version}; this discreet reads version {VERSION}. {_FIX}"
            )
        text = stream.read(length) if length <= _MAX_HEADER else b""
        if len(text) < length or not length:
            raise InputError(f"{where}: is cut short, or its header is damaged. {_FIX}")
        try:
            header = Header.model_validate_json(text)
        except ValidationError as error:
            raise InputError(f"{where}: has a damaged header: {explain(error)}. {_FIX}") from None
        file = cls(stream, header, len(front) + length, where)
        size = stream.seek(0, os.SEEK_END)
        if size != file._places.size:
            what = "is cut short" if size < file._places.size else "is too long"
            raise InputError(
                f"{where}: {what}: it has {size} bytes; its header promises "
                f"{file._places.size}. {_FIX}"
            )
        return file

    def __len__(self) -> int:
        return self.header.rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    @property
    def nbytes(self) -> int:
        """Bytes of the whole file."""
        return self._places.size

    def labels(self, k: int) -> Labels:
        """Return the class of every kind, for the k-th fact."""
        fact = self.header.facts[k]
        index = np.array([kind[k] for kind in self.header.kinds], dtype=np.int64)
        return Labels(fact.name, index, fact.classes)

    def totals(self) -> Floats:
        """Return how many rows have each code, one sensor's codes after the other's."""
        return self._totals.copy()

    def rows_digest(self) -> str:
        """Return what ``rows_digest`` gives for these rows."""
        return "sha256:" + self._read_digest(self._places.digest).hex()

    def _read_digest(self, place: int) -> bytes:
        found = bytearray(_DIGEST_BYTES)
        self._fill(found, place)
        return bytes(found)

    @cached_property
    def _totals(self) -> Floats:
        found = np.empty(self.layout.n_codes, dtype="<u8")
        self._fill(found, self._places.totals)
        return found.astype(np.float64)

    def read(self, index: Ints | slice) -> tuple[Packed, NDArray[Any]]:
        """Return some rows, in memory, and the kind of each.

        A list of rows has to be in increasing order: the file is gone through once.
        """
        if isinstance(index, slice):
            return self._read_block(*index.indices(len(self))[:2])
        parts = [self._read_few(index, begin) for begin in self._blocks_with(index)]
        packed = concatenate([packed for packed, _ in parts])
        return packed, np.concatenate([kinds for _, kinds in parts])

    def weighted_rows(self, heads: Sequence[Head]) -> FileRows:
        """Return the weighted rows of heads on ``by_kind``."""
        signed_weights = np.stack([(head.pos - head.neg) / self.by_kind.counts for head in heads])
        return FileRows(self, signed_weights)

    def verify(self) -> None:
        """Go through the whole file and hold it against its checksum.

        Raises InputError: if the file is not what was written, or holds what no packed file can
        hold.
        """
        digest = RowsDigest(self.layout, len(self.header.facts))
        totals = np.zeros(self.layout.n_codes)
        kind_rows = np.zeros(len(self.header.kinds), dtype=np.int64)
        kind_labels = np.array(self.header.kinds, dtype=np.uint8)
        widest = [self.layout.sizes[t] for t in self.layout.wide]
        for begin in range(0, len(self), _BLOCK):
            packed, kinds = self._read_block(begin, min(begin + _BLOCK, len(self)))
            if kinds.max() >= len(kind_rows) or (packed.wide >= np.array(widest, int)).any():
                raise self._damaged()
            digest.update(packed, kind_labels[kinds])
            totals += packed.totals()
            kind_rows += np.bincount(kinds, minlength=len(kind_rows))
        front = bytearray(self._begin)
        self._fill(front, 0)
        whole = hashlib.sha256(front + digest.bytes() + totals.astype("<u8").tobytes())
        # A byte beyond its cell's values is in nobody's total.
        by_sensor = np.add.reduceat(totals, self.layout.offsets)
        if (
            kind_rows.tolist() != list(self.header.kind_rows)
            or not np.array_equal(totals, self._totals)
            or not np.all(by_sensor == len(self))
            or digest.bytes() != self._read_digest(self._places.digest)
            or whole.digest() != self._read_digest(self._places.checksum)
        ):
            raise self._damaged()

    def _damaged(self) -> InputError:
        return InputError(f"{self._where}: does not match its checksum; it is damaged. {_FIX}")

    def _blocks_with(self, index: Ints) -> list[int]:
        return [int(block) * _BLOCK for block in np.unique(index // _BLOCK)]

    def _read_few(self, index: Ints, begin: int) -> tuple[Packed, NDArray[Any]]:
        end = min(begin + _BLOCK, len(self))
        packed, kinds = self._read_block(begin, end)
        low, high = np.searchsorted(index, [begin, end])
        wanted = index[low:high] - begin
        return packed.take(wanted), kinds[wanted]

    def _read_block(self, begin: int, end: int) -> tuple[Packed, NDArray[Any]]:
        rows, layout, places = max(end - begin, 0), self.layout, self._places
        narrow = tuple(np.empty(rows, dtype=f"<u{width}") for _, width in layout.words)
        wide = np.empty((rows, len(layout.wide)), dtype=places.wide_kind)
        kinds = np.empty(rows, dtype=places.kind_kind)
        for word, place in zip(narrow, places.words, strict=True):
            self._fill(word, place + begin * word.itemsize)
        self._fill(wide, places.wide + begin * wide.shape[1] * wide.itemsize)
        self._fill(kinds, places.kinds + begin * kinds.itemsize)
        return Packed(layout, narrow, wide), kinds

    def _fill(self, room: Any, place: int) -> None:
        """Read as many bytes as there is room for."""
        view = memoryview(room).cast("B") if memoryview(room).nbytes else memoryview(b"")
        while len(view):
            try:
                count = self._read_at(view, place)
            except OSError as error:
                reason = error.strerror or error
                raise InputError(f"{self._where}: cannot be read ({reason}).") from None
            if count == 0:
                raise InputError(f"{self._where}: was cut short while it was read. {_FIX}")
            view, place = view[count:], place + count

    def _read_at(self, view: memoryview, place: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._stream.fileno(), [view], place)
        with self._lock:  # where a file has one position only, threads take turns
            self._stream.seek(place)
            return self._stream.readinto(view)  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True)
class FileRows:
    """Rows in a file, and how much each of them counts for each head (see ``WeightedRows``)."""

    file: PackedFile
    signed_weights: Floats

    def __len__(self) -> int:
        return len(self.file)

    @property
    def layout(self) -> Layout:
        return self.file.layout

    def totals(self) -> Floats:
        """Return how many rows have each code."""
        return self.file.totals()

    def sample(self, most: int) -> WeightedRows:
        """Read some of the rows, always the same ones, weighted to keep the sums' scale."""
        if len(self) <= most:
            return self.take(slice(None))
        index = sample_index(len(self), most)
        return self.take(index, len(self) / most)

    def sweep(self, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
        """Go over all rows once, block by block."""
        return sweep(self, tables, loss, threads)

    def take(self, index: Ints | slice, scale: float = 1.0) -> WeightedRows:
        """Read some of the rows, with all signed weights multiplied by ``scale``."""
        packed, kinds = self.file.read(index)
        signed_weights = self.signed_weights if scale == 1.0 else scale * self.signed_weights
        return WeightedRows(packed, kinds, np.empty(0), signed_weights)
