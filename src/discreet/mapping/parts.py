"""The parts of a mapping: sensors, facts, fusion rules, design.

A part checks itself; ``mapping.Mapping`` checks that the parts fit together.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from discreet.data.columns import (
    Plain,
    as_series,
    is_missing,
    is_missing_word,
    written,
    written_column,
)
from discreet.data.dependence import Dependence
from discreet.data.encoders import Encoder
from discreet.data.split import PREFIX, Split
from discreet.data.strict_model import Items, Model, Scalar, check_distinct, check_scalar
from discreet.errors import InputError, shown
from discreet.mapping.file_format import MAX_ITEMS

TOTAL = 2**32
"""What every row of weights sums to."""
MAX_SENSORS = 10_000
MAX_SYMBOLS = 256
MAX_FUSION_OUTPUTS = 4096
"""Most joint outputs that a table fusion may list."""
_MAX_SCORE = 1e15  # so that adding up ten thousand fusion weights stays finite
MAX_COST = 1e9
"""Largest weight of a class in a decision."""
MAX_INTERVAL = 366 * 86_400.0
"""Most seconds from one round to the next."""
_DIGEST = rf"^(sha256:|rows2:|{PREFIX})[0-9a-f]{{64}}$"
_TIE = 1e-9  # log-probabilities this close are equal but for rounding


def flaw(place: str, problem: str) -> PydanticCustomError:
    """Return an error that names its place below the part that raises it."""
    return PydanticCustomError("discreet_flaw", "{problem}", {"place": place, "problem": problem})


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself, made read-only."""
    array.flags.writeable = False
    return array


def _check_name(name: str) -> str:
    if not name.isprintable():
        raise PydanticCustomError("name", "must be text without control characters")
    return name


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_name)]
Note = Annotated[str, Field(max_length=1_000)]
Weight = Annotated[int, Field(ge=0, le=TOTAL)]
Score = Annotated[float, Field(ge=-_MAX_SCORE, le=_MAX_SCORE)]


def _check_parameter(value: object) -> Plain | tuple[Plain | None, ...] | None:
    if isinstance(value, list | tuple):
        if len(value) > MAX_ITEMS:
            raise PydanticCustomError("items", f"must have at most {MAX_ITEMS} items")
        return tuple(None if each is None else check_scalar(each) for each in value)
    return None if value is None else check_scalar(value)


# One validator in place of a union, which would report an error for each member.
Parameter = Annotated[
    bool | int | float | str | tuple[bool | int | float | str | None, ...] | None,
    PlainValidator(_check_parameter),
    WithJsonSchema({"type": ["boolean", "number", "string", "null", "array"]}),
]


class Sensor(Model):
    """One sensor: how readings become codes, and codes symbols.

    ``name``: the column of its readings. ``symbols``: how many symbols it can send, 2 to 256.
    ``weights``: one row per code and one column per symbol; each row sums to 2**32.
    """

    name: Name
    encoder: Encoder
    symbols: int = Field(ge=2, le=MAX_SYMBOLS)
    weights: Items[Items[Weight]]

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if len(self.weights) != self.encoder.n_codes:
            raise flaw(
                "weights",
                f"has {len(self.weights)} rows; the encoder has {self.encoder.n_codes} codes",
            )
        for i, row in enumerate(self.weights):
            if len(row) != self.symbols:
                problem = f"has {len(row)} weights; the sensor has {self.symbols} symbols"
                raise flaw(f"weights[{i}]", problem)
        sums = self.array.sum(axis=1)
        if (wrong := np.flatnonzero(sums != TOTAL)).size:
            raise flaw(
                f"weights[{wrong[0]}]", f"must sum to 2**32 = {TOTAL}; it sums to {sums[wrong[0]]}"
            )
        return self

    @property
    def array(self) -> NDArray[np.int64]:
        """The weights as a read-only array, codes by symbols."""
        return frozen(np.array(self.weights, dtype=np.int64))


class Fact(Model):
    """A label: the public fact, or a private one.

    ``classes``: at least two, distinct.
    """

    name: Name
    classes: Items[Scalar] = Field(min_length=2, max_length=10_000)

    @field_validator("classes")
    @classmethod
    def _check_classes(cls, classes: tuple[Plain, ...]) -> tuple[Plain, ...]:
        check_distinct(classes)
        if len(set(classes)) < len(classes):  # Python calls True and 1 equal
            raise flaw("", "must not mix true and false with 1 and 0")
        return classes

    @property
    def array(self) -> NDArray[Any]:
        """The classes as an array, of one kind where they are of one kind."""
        kinds = {type(each) for each in self.classes}
        return frozen(np.array(self.classes, dtype=None if len(kinds) == 1 else object))

    def places(self, values: Any) -> NDArray[np.int64]:
        """Return the class of every row, distinguished by how the classes are written."""
        column = as_series(values)
        places = {written(each): k for k, each in enumerate(self.classes)}
        texts = written_column(column)
        words = {text for text in set(texts) - places.keys() if is_missing_word(text)}
        gone = is_missing(column) | np.array([text in words for text in texts], dtype=bool)
        if gone.any():
            raise InputError(
                f"{self.name!r} is missing in {int(gone.sum())} of {len(column)} rows. Leave those "
                "rows out."
            )
        unknown = next((text for text in texts if text not in places), None)
        if unknown is not None:
            known = ", ".join(shown(each) for each in self.classes[:10])
            raise InputError(
                f"{self.name!r} has the class {shown(unknown)}; the mapping knows {known}. "
                "Give the labels it was learned with."
            )
        return np.array([places[text] for text in texts], dtype=np.int64)


class Deciding(Model):
    """How a decision follows from the posterior: the largest of posterior times weight.

    Classes that tie, but for rounding, go to the most frequent of them, and equally frequent
    ones to the first. What was never sent in the design says nothing, so that its posterior is
    the classes' shares.

    ``rule``: what the weights are for: the largest balanced accuracy (one over the share of the
    class), the fewest errors (1), or the least cost of the classes that are missed. ``weights``:
    one for each public class. ``shares``: how frequent the classes are to the fusion rule; they sum
    to 1.
    """

    rule: Literal["balanced", "likely", "cost"]
    weights: Items[Annotated[float, Field(gt=0, le=MAX_COST)]]
    shares: Items[Annotated[float, Field(gt=0, le=1)]]

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if len(self.weights) != len(self.shares):
            problem = f"has {len(self.weights)} entries; there are {len(self.shares)} shares"
            raise flaw("weights", problem)
        if abs(sum(self.shares) - 1.0) > 1e-6:
            raise flaw("shares", f"must sum to 1; they sum to {sum(self.shares)!r}")
        pairs = zip(self.weights, self.shares, strict=True)
        means = {"balanced": [w * p for w, p in pairs], "likely": list(self.weights)}
        level = means.get(self.rule, [1.0])
        if max(level) > min(level) * (1.0 + 1e-6):
            raise flaw("weights", f"are not those of the rule {self.rule!r}")
        return self

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the class decided for each row of log-posteriors, up to a constant per row."""
        weighed = scores + np.log(self.weights)
        tied = weighed >= weighed.max(axis=1, keepdims=True) - _TIE
        best = np.where(tied, self.shares, 0.0).argmax(axis=1)
        return np.asarray(best, dtype=np.int64)


class _FusionRule(Model):
    """What the fusion rules share.

    ``decide`` tells how a decision follows from the posterior. Without it, as in older files,
    the most probable class is decided and a tie goes to the first.
    """

    decide: Deciding | None = None

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the class decided for each row of scores: log-posteriors up to a constant."""
        # Not from the posterior: a score of 1e-17 decides, and its posterior rounds to 1/2.
        if self.decide is None:
            return np.asarray(scores.argmax(axis=1), dtype=np.int64)
        return self.decide.choose(scores)

    def _check_decide(self, n_classes: int) -> None:
        if self.decide is not None and len(self.decide.weights) != n_classes:
            problem = f"has {len(self.decide.weights)} entries; there are {n_classes} public"
            raise flaw("fusion.decide.weights", f"{problem} classes")


class AdditiveFusion(_FusionRule):
    """Two public classes: add up one weight per sensor.

    The score is ``bias`` plus ``weights[t][z_t]`` over the sensors t. Class 1 has posterior
    ``1 / (1 + exp(-score))``.
    """

    kind: Literal["additive"] = "additive"
    weights: Items[Items[Score]]
    bias: Score = 0.0

    def fits(self, symbols: Sequence[int], n_classes: int) -> None:
        """Refuse a fusion rule that is not for these sensors and classes."""
        self._check_decide(n_classes)
        if n_classes != 2:
            problem = f"is for 2 public classes; there are {n_classes}"
            raise flaw("fusion.kind", f"{problem} (use 'additive-classes')")
        _check_scores("fusion.weights", self.weights, symbols)

    def scores(self, Z: NDArray[np.int64], symbols: Sequence[int]) -> NDArray[np.float64]:
        """Return log-odds against class 0, rows by classes."""
        score = _add_up(self.weights, Z, self.bias)
        return np.column_stack([np.zeros_like(score), score])


class AdditiveClassesFusion(_FusionRule):
    """Any number of public classes: one additive score for each.

    The score of class k is ``bias[k]`` plus ``weights[k][t][z_t]`` over the sensors t;
    the posterior is their softmax.
    """

    kind: Literal["additive-classes"] = "additive-classes"
    weights: Items[Items[Items[Score]]]
    bias: Items[Score]

    def fits(self, symbols: Sequence[int], n_classes: int) -> None:
        """Refuse a fusion rule that is not for these sensors and classes."""
        self._check_decide(n_classes)
        for place, found in (("weights", len(self.weights)), ("bias", len(self.bias))):
            if found != n_classes:
                problem = f"has {found} entries; there are {n_classes} public classes"
                raise flaw(f"fusion.{place}", problem)
        for k, weights in enumerate(self.weights):
            _check_scores(f"fusion.weights[{k}]", weights, symbols)

    def scores(self, Z: NDArray[np.int64], symbols: Sequence[int]) -> NDArray[np.float64]:
        """Return unnormalised log-posteriors, rows by classes."""
        pairs = zip(self.weights, self.bias, strict=True)
        return np.column_stack([_add_up(weights, Z, bias) for weights, bias in pairs])


class TableFusion(_FusionRule):
    """Few outputs: the estimated probability of every class with every output.

    ``joint[k][o]`` is p(class k, output o). Outputs are the tuples of symbols in C order,
    the first sensor slowest. An output of probability 0 gets the class marginals.
    """

    kind: Literal["table"] = "table"
    joint: Items[Items[Annotated[float, Field(ge=0, le=1)]]]

    def with_noise(self, kept: float, symbols: Sequence[int]) -> Self:
        """Return the rule for symbols that are kept with a probability and else drawn evenly."""
        joint = np.array(self.joint).reshape(len(self.joint), *symbols)
        noisy = mix_evenly(joint, kept, first=1).reshape(len(self.joint), -1)
        return self.model_copy(update={"joint": tuple(map(tuple, noisy.tolist()))})

    def fits(self, symbols: Sequence[int], n_classes: int) -> None:
        """Refuse a fusion rule that is not for these sensors and classes."""
        self._check_decide(n_classes)
        outputs = math.prod(symbols)
        if outputs > MAX_FUSION_OUTPUTS:
            problem = f"would list {outputs} outputs; at most {MAX_FUSION_OUTPUTS} are allowed"
            raise flaw("fusion.joint", problem)
        if len(self.joint) != n_classes:
            problem = f"has {len(self.joint)} rows; there are {n_classes} public classes"
            raise flaw("fusion.joint", problem)
        for k, row in enumerate(self.joint):
            if len(row) != outputs:
                problem = f"has {len(row)} entries; the sensors have {outputs} outputs"
                raise flaw(f"fusion.joint[{k}]", problem)
        if not abs((total := math.fsum(map(math.fsum, self.joint))) - 1) <= 1e-6:
            raise flaw("fusion.joint", f"must sum to 1; it sums to {total!r}")

    def scores(self, Z: NDArray[np.int64], symbols: Sequence[int]) -> NDArray[np.float64]:
        """Return log-posteriors, rows by classes."""
        joint = np.array(self.joint, dtype=float)
        joint[:, joint.sum(axis=0) == 0] = joint.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = np.log(joint)
        outputs = np.ravel_multi_index(tuple(Z.T), tuple(symbols))
        return np.asarray(logs[:, outputs].T)


Fusion = Annotated[
    AdditiveFusion | AdditiveClassesFusion | TableFusion,
    Field(discriminator="kind"),
]


class PublicChain(Model):
    """How the public fact moves from round to round, for decisions that remember.

    ``moves``: ``moves[i][j]`` is P(next round class j | this round class i); each row sums to 1.
    ``interval``: seconds from one round to the next. ``steps``: how many pairs of successive rows
    it was estimated from.
    """

    moves: Items[Items[Annotated[float, Field(ge=0, le=1)]]]
    interval: float = Field(gt=0, le=MAX_INTERVAL)
    steps: int = Field(ge=1, lt=2**63)

    @model_validator(mode="after")
    def _check_moves(self) -> Self:
        for i, row in enumerate(self.moves):
            if len(row) != len(self.moves):
                problem = f"has {len(row)} entries; there are {len(self.moves)} rows"
                raise flaw(f"moves[{i}]", problem)
            if abs(math.fsum(row) - 1.0) > 1e-6:
                raise flaw(f"moves[{i}]", f"must sum to 1; it sums to {math.fsum(row)!r}")
        return self

    def fits(self, n_classes: int) -> None:
        """Refuse a chain that is not for these classes."""
        if len(self.moves) != n_classes:
            problem = f"has {len(self.moves)} rows; there are {n_classes} public classes"
            raise flaw("chain.moves", problem)


class Source(Model):
    """The table that a mapping was learned from, enough to find its split again.

    ``digest``: of the columns that were used, sensors first, rows in their order (``data.split``).
    ``rows``: how many rows the whole table has. ``unordered``: the same in any order. ``training``:
    of the coded rows that were learned from, in any order. ``read``: in files of earlier versions
    only. ``dependence``: whether the rows of the whole table depend on one another; None where that
    was not looked at. The held-out rows alone, which are no longer neighbours, might not show it.
    """

    digest: str = Field(pattern=_DIGEST)
    rows: int = Field(ge=0)
    split: Split | None = None
    unordered: str | None = Field(default=None, pattern=_DIGEST)
    training: str | None = Field(default=None, pattern=_DIGEST)
    read: Literal["stream"] | None = None
    dependence: Dependence | None = None

    @property
    def is_readable(self) -> bool:
        """Whether this version can tell by the digests which rows were learned from."""
        return self.digest.startswith(PREFIX)


class Design(Model):
    """How a mapping came about.

    ``method``: the name of the method, such as "npo". ``rows``: how many rows it was learned from.
    ``created``: when, in ISO 8601. Not covered by the id. ``discreet``: the version that made it.
    ``expected``: what the method expects to deliver, to hold against the audit.
    """

    method: Name
    parameters: dict[Name, Parameter] = Field(default_factory=dict, max_length=MAX_ITEMS)
    rows: int = Field(ge=0, lt=2**63)
    created: Note
    discreet: Note
    source: Source | None = None
    expected: dict[Name, float | None] | None = Field(default=None, max_length=MAX_ITEMS)


def mix_evenly(law: NDArray[np.float64], kept: float, *, first: int) -> NDArray[np.float64]:
    """Return the law of symbols that are kept with a probability and otherwise drawn evenly.

    ``law``: with an axis for the symbols of each sensor from ``first`` on.
    """
    for axis in range(first, law.ndim):
        law = kept * law + (1.0 - kept) * law.mean(axis=axis, keepdims=True)
    return law


def _check_scores(place: str, weights: Sequence[Sequence[float]], symbols: Sequence[int]) -> None:
    if len(weights) != len(symbols):
        raise flaw(place, f"has {len(weights)} rows; there are {len(symbols)} sensors")
    for t, (row, size) in enumerate(zip(weights, symbols, strict=True)):
        if len(row) != size:
            raise flaw(f"{place}[{t}]", f"has {len(row)} weights; the sensor has {size} symbols")


def _add_up(
    weights: Sequence[Sequence[float]], Z: NDArray[np.int64], bias: float
) -> NDArray[np.float64]:
    score = np.full(len(Z), bias)
    for t, row in enumerate(weights):
        score += np.asarray(row)[Z[:, t]]
    return score
