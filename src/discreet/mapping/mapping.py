"""The mapping: integer tables, fusion rule, origin (stage 4).

A mapping holds, for each sensor, one row of integer weights per code. A row sums to
2**32 exactly and a 32-bit random word picks the symbol, so every language draws from
the very distribution that was audited. The file is JSON; its id is the SHA-256 of the
canonical form of everything but ``id`` and ``design.created``.

A file may come from anybody. ``mapping_parts`` therefore checks every part and this module
the whole, and the first place that is wrong is named; ``mapping_file`` bounds the text itself.
"""

import math
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationError, model_validator

from discreet.data.encoders import Encoder, encode_table
from discreet.data.strict_model import Items, Model, explain
from discreet.errors import CodeRangeError, InputError, MappingFileError, shown
from discreet.mapping.file_format import (
    FORMAT,
    MAX_ITEMS,
    RESTORE,
    VERSION,
    content_id,
    format_text,
    parse_text,
    read_file,
    write_file,
)
from discreet.mapping.parts import (
    MAX_SENSORS,
    MAX_SYMBOLS,
    TOTAL,
    Design,
    Fact,
    Fusion,
    PublicChain,
    Sensor,
    TableFusion,
    flaw,
    frozen,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLOCK_WORDS = 2**20  # comparisons made at once by `sample`, which bounds its memory
_SHOWN_ROWS = 20  # of a mapping, in a notebook


# --- The mapping ---------------------------------------------------------------------------


class Mapping(Model):
    """The learned tables, the fusion rule and where they came from.

    Make one with ``Mapping.create`` or ``Mapping.load``; it cannot be changed after.

    Attributes
    ----------
    id : str
        "sha256:" and the hash of everything but itself and ``design.created``.
    sensors : tuple of Sensor
    public : Fact
    private : tuple of Fact
    fusion : AdditiveFusion, AdditiveClassesFusion or TableFusion
    design : Design
    chain : PublicChain, optional
        How the public fact moves from round to round; with it the fusion centre remembers.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import Mapping, RandomizedResponseMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall, who = [0, 0, 1, 1] * 10, ["a", "b"] * 20
    >>> mapper = RandomizedResponseMapper(ldp_epsilon=1.0).fit(readings, fall, private=who)
    >>> mapping = mapper.mapping_
    >>> mapping
    <Mapping ...: 2 sensors, public 'public'>
    >>> mapping.to_frame().shape, mapping.plot().axes[0].get_title()
    ((8, 2), 'hall')
    >>> codes = mapping.encode(readings)
    >>> symbols = mapping.sample(codes)  # both at once: mapping.transform(readings)
    >>> mapping.fuse(symbols).shape, mapping.decide(symbols).shape, mapping.posterior(symbols).shape
    ((40,), (40,), (40, 2))
    >>> mapping.with_noise(0.5).names  # says less
    ['hall', 'door']
    >>> mapping.save("home.json")
    >>> Mapping.load("home.json") == Mapping.loads(mapping.dumps()) == mapping
    True
    """

    format: Literal["discreet-mapping"] = FORMAT
    version: Literal[1] = VERSION
    id: str = Field(max_length=100)
    sensors: Items[Sensor] = Field(min_length=1, max_length=MAX_SENSORS)
    public: Fact
    private: Items[Fact] = Field(max_length=MAX_ITEMS)
    fusion: Fusion
    design: Design
    chain: PublicChain | None = None

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        for part, names in (
            ("sensors", [sensor.name for sensor in self.sensors]),
            ("private", [fact.name for fact in self.private]),
        ):
            seen: set[str] = set()
            for i, name in enumerate(names):
                if name in seen:
                    raise flaw(f"{part}[{i}].name", f"is {shown(name)}, the name of another one")
                seen.add(name)
        self.fusion.fits(self.n_symbols, len(self.public.classes))
        if self.chain is not None:
            self.chain.fits(len(self.public.classes))
        if self.id != (actual := _own_id(self)):
            problem = f"is {shown(self.id, 20)} but the contents have {actual[:17]}...: they were "
            raise flaw("id", problem + "changed after the mapping was made")
        return self

    @classmethod
    def create(
        cls,
        *,
        names: Sequence[str],
        encoders: Sequence[Encoder],
        tables: Sequence[ArrayLike],
        public: Fact,
        private: Sequence[Fact],
        fusion: Fusion,
        design: Design,
    ) -> Self:
        """Round float tables to integers and bind them into a mapping.

        Parameters
        ----------
        names : sequence of str
            The sensors' columns.
        encoders : sequence of Encoder
        tables : sequence of arrays, codes by symbols
            Each row is a distribution over the sensor's symbols; see ``round_rows``.
        public, private, fusion, design
            The other parts of the file.

        Raises
        ------
        InputError
            If the parts do not fit together.
        """
        if not len(names) == len(encoders) == len(tables):
            raise InputError(
                f"{len(names)} names, {len(encoders)} encoders and {len(tables)} tables were "
                "given. Give one of each per sensor."
            )
        parts: dict[str, Any] = {
            "sensors": tuple(map(_make_sensor, names, encoders, tables)),
            "public": public,
            "private": tuple(private),
            "fusion": fusion,
            "design": design,
        }
        return cls._bind(parts)

    @classmethod
    def _bind(cls, parts: dict[str, Any]) -> Self:
        draft = cls.model_construct(id="", **parts)
        try:
            return cls.model_validate({"id": _own_id(draft), **parts})
        except ValidationError as error:
            raise InputError(f"the parts do not make a mapping: {explain(error)}.") from None

    def with_chain(self, chain: PublicChain) -> Self:
        """Return the same mapping, with an id of its own, for decisions that remember."""
        return self._bind(self._parts() | {"chain": chain})

    def with_noise(self, kept: float) -> Self:
        """Return the mapping whose symbols are kept with a probability and else drawn evenly.

        Noise comes after the tables, so that one report tells nobody more than before. The fusion
        rule is the same estimate for the noisy symbols, which only a rule that lists outputs has.

        Parameters
        ----------
        kept : float
            Above 0 and at most 1.

        Raises
        ------
        InputError
            If ``kept`` is out of range, or the fusion rule adds up scores of sensors.
        """
        if not 0.0 < kept <= 1.0:
            raise InputError(f"kept must be above 0 and at most 1, got {kept}.")
        if not isinstance(self.fusion, TableFusion):
            raise InputError(
                f"the fusion rule of mapping {self.id[7:13]} adds up scores of its sensors; noise "
                "needs one that lists their outputs. Learn with fewer sensors or symbols."
            )
        sensors = (
            _make_sensor(each.name, each.encoder, kept * table + (1.0 - kept) / each.symbols)
            for each, table in zip(self.sensors, self.tables, strict=True)
        )
        parameters = self.design.parameters | {"kept": kept}
        design = {"parameters": parameters, "created": now(), "expected": None}
        changed = {
            "sensors": tuple(sensors),
            "fusion": self.fusion.with_noise(kept, self.n_symbols),
            "design": self.design.model_copy(update=design),
        }
        return self._bind(self._parts() | changed)

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields if name != "id"}

    def __repr__(self) -> str:
        return (
            f"<Mapping {self.id[7:13]}: {len(self.sensors)} sensors, public {self.public.name!r}>"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the tables, of long ones the first and last rows."""
        tables = self.to_frame().to_html(float_format="{:.3f}".format, max_rows=_SHOWN_ROWS)
        return f"<p>{escape(repr(self))}</p>{tables}"

    def to_frame(self) -> pd.DataFrame:
        """Return for every sensor and reading the probability of each symbol."""
        parts = [
            pd.DataFrame(
                table, pd.MultiIndex.from_product([[sensor.name], sensor.encoder.labels()])
            )
            for sensor, table in zip(self.sensors, self.tables, strict=True)
        ]
        found = pd.concat(parts)
        found.index.names, found.columns.name = ["sensor", "reading"], "symbol"
        return found

    def plot(self) -> "Figure":
        """Draw the tables, how likely each symbol is for every reading: a Matplotlib figure.

        A mapping of many sensors shows the first twelve.
        """
        from discreet.plots import symbol_tables

        found = zip(self.sensors, self.tables, strict=True)
        return symbol_tables([(each.name, each.encoder.labels(), table) for each, table in found])

    # By id, since the arrays kept below cannot be compared with ==.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return (self.id, self.design.created) == (other.id, other.design.created)

    def __hash__(self) -> int:
        return hash(self.id)

    # -- views --

    @property
    def names(self) -> list[str]:
        """The sensors' names, in order."""
        return [sensor.name for sensor in self.sensors]

    @property
    def n_symbols(self) -> list[int]:
        """How many symbols each sensor can send."""
        return [sensor.symbols for sensor in self.sensors]

    @cached_property
    def weights(self) -> list[NDArray[np.int64]]:
        """The integer tables, codes by symbols, read-only."""
        return [sensor.array for sensor in self.sensors]

    @cached_property
    def thresholds(self) -> list[NDArray[np.int64]]:
        """The running sums of the integer tables, read-only; see ``sample``."""
        return [frozen(np.cumsum(rows, axis=1)) for rows in self.weights]

    @cached_property
    def tables(self) -> list[NDArray[np.float64]]:
        """The tables as probabilities, exactly ``weights / 2**32``, read-only."""
        return [frozen(rows / TOTAL) for rows in self.weights]

    # -- readings to symbols to decisions --

    def encode(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.int64]:
        """Return the code of every reading, rows by sensors.

        Parameters
        ----------
        X : DataFrame or 2-D array
            A DataFrame is matched by column name, in any order, and may have more
            columns; an array has the sensors' columns in order and no others.

        Raises
        ------
        InputError
            If columns are missing or their number is wrong.
        CodeRangeError
            If a reading does not fit its encoder.
        """
        if not isinstance(X, pd.DataFrame):
            array = np.asarray(X)
            if array.ndim != 2 or array.shape[1] != len(self.sensors):
                raise InputError(
                    f"the readings have shape {array.shape}; the mapping has {len(self.sensors)} "
                    "sensors. Give a DataFrame, or an array with one column per sensor."
                )
            X = pd.DataFrame(array, columns=self.names)
        return encode_table(X, [(sensor.name, sensor.encoder) for sensor in self.sensors])

    def sample(self, codes: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
        """Draw a symbol for every code.

        A 32-bit word w picks the symbol z for which ``cumulative[z-1] <= w < cumulative[z]``.
        Every threshold of the row is compared, whatever the word: an early exit would
        let the time taken tell the symbol.

        Parameters
        ----------
        codes : 2-D array of int, rows by sensors
        rng : Generator, optional
            For experiments that must repeat, and for nothing else: who knows the seed
            knows the noise. Without it the words come from the operating system.

        Raises
        ------
        CodeRangeError
            If a code has no row in its sensor's table.
        """
        codes = self._check_range(
            codes, "code", "produced", [len(sensor.weights) for sensor in self.sensors]
        )
        symbols = np.empty_like(codes)
        block = max(1, _BLOCK_WORDS // max(len(self.sensors), *self.n_symbols))
        for start in range(0, len(codes), block):
            rows = slice(start, start + block)
            words = _draw_words(codes[rows].shape, rng)
            for t, cumulative in enumerate(self.thresholds):
                passed = cumulative[codes[rows, t]] <= words[:, t, None]
                symbols[rows, t] = passed.sum(axis=1)
        return symbols

    def transform(
        self, X: pd.DataFrame | ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Return symbols for readings, drawn afresh: ``sample(encode(X), rng)``."""
        return self.sample(self.encode(X), rng)

    def posterior(self, Z: ArrayLike) -> NDArray[np.float64]:
        """Return the estimated probability of each public class, rows by classes.

        Parameters
        ----------
        Z : 2-D array of int, rows by sensors
            Symbols.
        """
        scores = self._scores(Z)
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def fuse(self, Z: ArrayLike) -> NDArray[Any]:
        """Return the public class that is decided for each row of symbols, see ``decide``."""
        return np.asarray(self.public.array[self.decide(Z)])

    def decide(self, Z: ArrayLike) -> NDArray[np.int64]:
        """Return the number of the public class that is decided for each row of symbols.

        By the rule that the mapping states in ``fusion.decide``, the same wherever it is used.
        The most probable class is decided if it states none, and a tie goes to the first.

        Parameters
        ----------
        Z : 2-D array of int, rows by sensors
            Symbols.
        """
        return self.fusion.choose(self._scores(Z))

    def _scores(self, Z: ArrayLike) -> NDArray[np.float64]:
        checked = self._check_range(Z, "symbol", "sent", self.n_symbols)
        return self.fusion.scores(checked, self.n_symbols)

    def _check_range(
        self, values: ArrayLike, what: str, verb: str, sizes: list[int]
    ) -> NDArray[np.int64]:
        array = np.asarray(values)
        if array.ndim != 2 or array.shape[1] != len(self.sensors):
            raise InputError(
                f"the {what}s have shape {array.shape}; the mapping has {len(self.sensors)} "
                "sensors. Give one row per moment and one column per sensor."
            )
        if array.dtype.kind not in "iu" and array.size:
            raise InputError(f"{what}s must be integers; the array is of {array.dtype}.")
        wrong = (array < 0) | (array >= np.array(sizes))
        if wrong.any():
            row, t = np.argwhere(wrong)[0]
            raise CodeRangeError(
                f"sensor {self.names[t]!r} {verb} {what} {array[row, t]}; mapping {self.id[7:13]} "
                f"covers 0..{sizes[t] - 1}. Use the mapping that the data was made with."
            )
        return array.astype(np.int64)

    # -- files --

    def dumps(self) -> str:
        """Return the file as readable JSON, one line per row of weights."""
        return format_text(_content(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file whole or not at all.

        Raises
        ------
        InputError
            If the file cannot be written, or would be too large to load again.
        """
        write_file(path, self.dumps())

    @classmethod
    def loads(cls, text: str, *, where: str = "mapping") -> Self:
        """Read a mapping from the text of a file.

        Parameters
        ----------
        text : str
        where : str, default="mapping"
            What to call the text in messages.

        Raises
        ------
        MappingFileError
            Naming the first place that is wrong.
        """
        content = parse_text(text, where)
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise MappingFileError(f"{where}: {explain(error)}. {RESTORE}") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a mapping file.

        Raises
        ------
        MappingFileError
            If there is no such file, or it is not a sound mapping of this version.
        """
        return cls.loads(read_file(Path(path)), where=str(path))


def _content(mapping: Mapping) -> dict[str, Any]:
    content = mapping.model_dump()
    for part in (content["design"], content["design"]["source"] or {}):
        for key in ("source", "expected", "split", "unordered", "training", "read", "dependence"):
            if key in part and part[key] is None:
                del part[key]
    for part, key in ((content["fusion"], "decide"), (content, "chain")):
        if part[key] is None:  # older files have none, and keep their id
            del part[key]
    return content


def _own_id(mapping: Mapping) -> str:
    content = _content(mapping)
    del content["id"], content["design"]["created"]
    return content_id(content)


def _make_sensor(name: str, encoder: Encoder, table: ArrayLike) -> Sensor:
    try:
        rows = round_rows(table)
        return Sensor(
            name=name, encoder=encoder, symbols=rows.shape[1], weights=tuple(rows.tolist())
        )
    except ValidationError as error:
        raise InputError(f"sensor {name!r}: {explain(error)}.") from None
    except InputError as error:
        raise InputError(f"sensor {name!r}: {error}") from None


def now() -> str:
    """Return the time in ISO 8601, for ``Design.created``."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# --- Rounding ------------------------------------------------------------------------------


def round_rows(table: ArrayLike) -> NDArray[np.int64]:
    """Round each row of probabilities to integers that sum to 2**32.

    Largest remainders round up. A positive probability never becomes 0, which would make
    a symbol's absence certain and epsilon infinite; the units that this takes come from
    the row's largest entry. Zeros stay 0.

    ``table``: non-negative, each row summing to 1 within 1e-9. Returns integers, each within 1 of
    ``table * 2**32`` once rows sum to 1 exactly, forced minimums aside. Raises InputError: if a row
    is not a distribution.
    """
    rows = np.array(table, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1 or rows.shape[1] > MAX_SYMBOLS:
        raise InputError(
            f"a table must be 2-D with 1 to {MAX_SYMBOLS} columns; its shape is {rows.shape}."
        )
    _check_distributions(rows)
    scaled = rows / rows.sum(axis=1, keepdims=True) * TOTAL
    weights: NDArray[np.int64] = np.floor(scaled).astype(np.int64)
    forced = (rows > 0) & (weights == 0)
    remainders = np.where((rows > 0) & ~forced, scaled - weights, -1.0)
    weights[forced] = 1
    spare = TOTAL - weights.sum(axis=1)
    rank = np.argsort(np.argsort(-remainders, axis=1, kind="stable"), axis=1)
    weights += rank < spare[:, None]
    weights[np.arange(len(rows)), weights.argmax(axis=1)] += np.minimum(spare, 0)
    return weights


def _check_distributions(rows: NDArray[np.float64]) -> None:
    advice = "Each row must be non-negative and sum to 1."
    wrong = ~np.isfinite(rows) | (rows < 0)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise InputError(f"row {i}, column {j} of a table is {rows[i, j]}. {advice}")
    sums = rows.sum(axis=1)
    if (off := np.flatnonzero(~(np.abs(sums - 1) <= 1e-9))).size:
        raise InputError(f"row {off[0]} of a table sums to {float(sums[off[0]])!r}. {advice}")


# --- Random words --------------------------------------------------------------------------


def _draw_words(shape: tuple[int, ...], rng: np.random.Generator | None) -> NDArray[np.int64]:
    if rng is not None:
        return np.asarray(rng.integers(0, TOTAL, size=shape, dtype=np.int64), dtype=np.int64)
    words = np.frombuffer(os.urandom(4 * math.prod(shape)), dtype="<u4")
    return np.asarray(words.reshape(shape), dtype=np.int64)
