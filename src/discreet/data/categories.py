"""Values of a column that are distinguished one by one, and what they may stand for."""

from __future__ import annotations

import math

from pydantic import ValidationError

from discreet.data.columns import (
    Column,
    Plain,
    distinct_values,
    is_missing_word,
    map_distinct,
    plain,
    word_kind,
    written,
)
from discreet.data.encoders import CategoriesEncoder
from discreet.data.strict_model import explain
from discreet.errors import InputError, shown

MAX_CATEGORIES = 1_000
"""Most categories that fitting accepts; more is nearly always an identifier."""


class Categories:
    """The different values of a column.

    ``present``: readings without gaps. ``may_be_numbers``: whether texts that all turn out to be
    numbers, or words for a missing one, are to be taken for numbers; there may be any number of
    these. ``words``: rows with such a word. Raises InputError: if there are too many different
    values.
    """

    def __init__(self, sensor: str, present: Column, *, may_be_numbers: bool) -> None:
        self.sensor = sensor
        self._wanted = may_be_numbers
        self._kinds: set[str] = set()
        self._values: dict[str, Plain] = {}
        for value in distinct_values(present):
            found = plain(value)
            self._kinds.add(word_kind(value))
            # JSON has no infinity; such a reading shares the code of the unknown.
            endless = isinstance(found, float) and math.isinf(found)
            if found is not None and not endless and len(self._values) <= MAX_CATEGORIES:
                self._values[written(found)] = found
        self.words = int(map_distinct(present, is_missing_word).sum())
        if not self.are_numbers:
            self._check_few()

    @property
    def are_numbers(self) -> bool:
        """Whether all are numbers, and words tell that this is how they are meant."""
        return self._wanted and self._kinds == {"missing", "number"}

    @property
    def missing(self) -> int:
        """How many rows have no reading, as a word says."""
        return self.words if self.are_numbers or self._are_switches else 0

    @property
    def values(self) -> list[Plain]:
        """The different values, but for words that say that there is none."""
        if self.are_numbers:
            return []
        found = self._values.values()
        return [each for each in found if not (self._are_switches and is_missing_word(each))]

    def encoder(self) -> CategoriesEncoder:
        """Return the encoder for these values."""
        self._check_few()
        try:
            return CategoriesEncoder(categories=tuple(sorted(self.values, key=_rank)), missing=True)
        except ValidationError as error:
            raise InputError(
                f"sensor {self.sensor!r} cannot be encoded: {explain(error)}."
            ) from None

    @property
    def _are_switches(self) -> bool:
        return self._kinds == {"missing", "switch"}

    def _check_few(self) -> None:
        if len(self._values) > MAX_CATEGORIES:
            raise InputError(
                f"sensor {self.sensor!r} has more than {MAX_CATEGORIES} different values, like "
                f"{shown(next(reversed(self._values.values())))}, which is the most that can be "
                "categories. Group them, convert the column to numbers, or leave it out with "
                f"--exclude {self.sensor!r}."
            )


def _rank(value: Plain) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 2, 0.0, value
    return (0 if isinstance(value, bool) else 1), value, written(value)
