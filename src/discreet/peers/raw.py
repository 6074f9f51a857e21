"""Raw readings, Z = X: what the fusion centre and the attacker get when nothing is hidden."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.codes import Encoder
from discreet.design.folds import Sample
from discreet.design.kernels import Kernel
from discreet.design.problem import Settings
from discreet.design.risks import Tables
from discreet.errors import InputError
from discreet.mapping_parts import MAX_SYMBOLS
from discreet.peers.fixed import FixedMapper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class RawMapper(FixedMapper):
    """Send every code as it is.

    One symbol for each code, that for a missing reading included. Nothing is protected;
    the private fact is required so that an audit knows what to look for.

    Parameters
    ----------
    kernel, reg, binning, n_bins, decide, random_state
        As in ``NPOMapper``. The first two shape the fusion rule only.

    Attributes
    ----------
    mapping_, classes_, useful_, structural_epsilon_, expected_
        As in ``NPOMapper``.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet.peers.raw import RawMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10})
    >>> mapper = RawMapper().fit(readings, [0, 0, 1, 1] * 10, private=["a", "b"] * 20)
    >>> mapper.mapping_.n_symbols  # four readings, and one for none
    [5]
    """

    _method = "raw"
    # What the base reads and a mapper without choices does not offer.
    n_symbols: int | Sequence[int] | Dict[str, int] = 2
    loss = "logistic"
    privacy_ratio: float | None = None
    max_advantage: float | None = None
    epsilon: float | None = None
    ldp_epsilon: float | None = None
    private_reg: float | None = None
    relaxed = True
    pairs = "all"
    solver = "fast"
    n_restarts = 1
    n_folds = 2

    def __init__(
        self,
        *,
        kernel: str | Kernel = "product",
        reg: float | None = None,
        binning: str | Dict[str, str] = "quantile",
        n_bins: int | Dict[str, int] = 10,
        decide: str | Dict[Any, float] = "balanced",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.reg = reg
        self.binning = binning
        self.n_bins = n_bins
        self.decide = decide
        self.random_state = random_state

    def _settings(self, names: list[str], sizes: tuple[int, ...], n_rows: int) -> Settings:
        return replace(super()._settings(names, sizes, n_rows), n_symbols=sizes)

    def _tables(self, settings: Settings, sample: Sample) -> Tables:
        most = max(sample.sizes)
        if most > MAX_SYMBOLS:
            raise InputError(
                f"a sensor has {most} codes; at most {MAX_SYMBOLS} can be sent as they are. "
                "Ask for fewer bins, or group its values."
            )
        return [np.eye(size) for size in sample.sizes]

    def _fill_unseen(
        self, tables: Tables, counts: Sequence[Floats], encoders: Sequence[Encoder]
    ) -> Tables:
        return tables

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags
