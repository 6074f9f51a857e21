"""What an experiment found: rows of figures with standard errors, beside the printed ones.

A ``Result`` is also its own file. The file may come from anybody, so that every part is
checked; it keeps each draw's figures, and means and errors are computed from them.
"""

import math
from os import PathLike
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer

from discreet.data.strict_model import Items, Model
from discreet.mapping.file_format import format_text, load_result, write_file
from discreet.mapping.parts import flaw

MAX_BYTES = 8 * 2**20
MAX_DRAWS = 10_000
_MAX_ROWS = 1_000
_REMEDY = "Name another folder, or remove this file."

Text = Annotated[str, Field(max_length=2_000)]
# JSON has no infinity, and an epsilon may be infinite.
Value = Annotated[
    float,
    Field(allow_inf_nan=True),
    BeforeValidator(lambda value: math.inf if value == "inf" else value),
    PlainSerializer(lambda value: "inf" if value == math.inf else value),
]


class Column(Model):
    """One figure of the table.

    ``better``: which way is good for whoever runs the sensors. ``digits``: shown after the point; a
    percentage has two.
    """

    key: Text
    title: Text
    better: Literal["low", "high"]
    digits: int = Field(default=4, ge=0, le=8)
    percent: bool = False

    def show(self, value: float, *, sign: bool = False) -> str:
        """Return a value of this column in words."""
        if math.isinf(value):
            return "infinite"
        scale, digits = (100.0, 2) if self.percent else (1.0, self.digits)
        number = round(scale * value, digits) + 0.0  # which makes -0.0 a plain zero
        text = f"{number:{'+' if sign else ''}.{digits}f}"
        return text + (" %" if self.percent and not sign else "")

    def show_printed(self, value: float) -> str:
        """Return a value with the digits that the paper prints."""
        return self.show(value) if self.percent else f"{value:g}"


class Figure(Model):
    """One figure: a value for each draw, or a single one that no draw has a part in.

    ``values``: empty if it was not measured. ``printed``: what the paper prints.
    """

    values: Items[Value] = Field(default=(), max_length=MAX_DRAWS)
    printed: float | None = None

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def error(self) -> float | None:
        """The standard error of the mean; None for a single value or an infinite one."""
        if len(self.values) < 2 or not np.isfinite(self.values).all():
            return None
        return float(np.std(self.values, ddof=1) / np.sqrt(len(self.values)))

    @property
    def difference(self) -> float | None:
        """Ours less the printed figure."""
        mean = self.mean
        return None if mean is None or self.printed is None else mean - self.printed


class Row(Model):
    """What one method reached in one setting.

    ``setting``, ``method``, ``label``: the method by its name and as it is shown. ``figures``: by
    the key of the column.
    """

    setting: Text
    method: Text
    label: Text
    figures: dict[Text, Figure] = Field(max_length=20)


class Asked(Model):
    """What was to be computed. Results are the same if this is the same for both.

    ``seed``: of the first draw; the others have those that follow. ``parameters``: the experiment's
    own choices, as they are written. ``data``: SHA-256 of the data file, if there is one.
    """

    draws: int = Field(ge=1, le=MAX_DRAWS)
    seed: int = Field(ge=0)
    parameters: dict[Text, Text] = Field(max_length=100)
    data: Text | None = None
    discreet: Text


class Result(Model):
    """The outcome of one experiment.

    ``versions``: of the libraries. ``seconds``: of computing, added up over the processes.
    ``choices``: what the paper leaves open, and what was done. ``findings``: what the rows show, in
    words. ``not_run``: why there are printed figures only.
    """

    format: Literal["discreet-reproduction"] = "discreet-reproduction"
    version: Literal[1] = 1
    name: Text
    title: Text
    asked: Asked
    versions: Text
    seconds: float = Field(ge=0)
    columns: Items[Column] = Field(min_length=1, max_length=20)
    rows: Items[Row] = Field(max_length=_MAX_ROWS)
    choices: Items[Text] = Field(max_length=100)
    findings: Items[Text] = Field(default=(), max_length=100)
    not_run: Text | None = None

    def model_post_init(self, _: Any) -> None:
        """Refuse rows whose figures have no column."""
        keys = {column.key for column in self.columns}
        for i, row in enumerate(self.rows):
            if not set(row.figures) <= keys:
                raise flaw(f"rows[{i}].figures", "has a figure without a column")

    def figure(self, setting: str, method: str, key: str) -> Figure:
        """Return one figure; an empty one if there is no such row."""
        for row in self.rows:
            if (row.setting, row.method) == (setting, method):
                return row.figures.get(key, Figure())
        return Figure()

    def of_method(self, method: str) -> list[Row]:
        """Return the rows of one method, in order."""
        return [row for row in self.rows if row.method == method]

    def column(self, key: str) -> Column:
        """Return a column by its key."""
        return next(column for column in self.columns if column.key == key)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file whole or not at all.

        Raises InputError: if it cannot be written.
        """
        write_file(path, format_text(self.model_dump()))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that ``save`` wrote.

        Raises InputError: if it is not a sound result.
        """
        return load_result(cls, path, command="make reproduce", most=MAX_BYTES, remedy=_REMEDY)
