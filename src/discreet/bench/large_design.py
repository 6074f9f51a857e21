"""A whole NPO design with the count kernel, beside one fit of scikit-learn's classifier.

Both begin where the readings are coded: scikit-learn with the one-hot table (CSR), the design
with the codes, which it packs itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.bench.logistic import fit_classifier
from discreet.bench.measure import Promise, Setup
from discreet.bench.size import CODES, Size
from discreet.bench.tables import draw_large, one_hot
from discreet.design.folds import Sample
from discreet.design.heads import Labels
from discreet.design.kernels import CountKernel
from discreet.design.losses import LOSSES
from discreet.design.problem import Place, Settings, Target, design_sample
from discreet.design.results import Designed

Ints = NDArray[np.int64]

_OURS, _PEER = "ours, a whole design", "scikit-learn LogisticRegression"
_RATIO = 0.998


def prepare(size: Size) -> Setup:
    """Draw a table and get both ready."""
    codes, public, private = draw_large(size.rows, size.sensors)
    matrix = one_hot(codes, CODES, np.float64)
    found: list[Designed] = []

    def notes() -> list[str]:
        slack = float(np.min(found[-1].private_risks - found[-1].floors))
        passes = found[-1].passes or 0.0
        return [f"{passes:.0f} passes, F = {found[-1].public_risk:.5f}, least slack {slack:.1e}"]

    return Setup(
        name="design",
        title="A whole design, count kernel, beside one fit of a classifier, one thread",
        size=size.text(),
        contestants={
            _OURS: lambda _: found.append(design(codes, public, private)),
            _PEER: lambda _: fit_classifier(matrix, public),
        },
        rounds=size.rounds_of(3),
        ours=_OURS,
        yardstick=_PEER,
        promised=() if size.quick else [_NOT_TWICE],
        notes=notes,
    )


_NOT_TWICE = Promise("times as long as scikit-learn", lambda t: t[_OURS].over(t[_PEER]), 2.0, True)


def design(codes: Ints, public: Ints, private: Ints, place: Place | None = None) -> Designed:
    """Design the tables of a made-up table's sensors."""
    n, s = codes.shape
    sample = Sample(codes, (CODES,) * s, Labels("h", public, 2), (Labels("g", private, 2),))
    settings = Settings((2,) * s, CountKernel(), LOSSES["logistic"], 0.3 / n, 0.1 / n, place=place)
    return design_sample(settings, sample, Target(_RATIO), rng=np.random.default_rng(0))
