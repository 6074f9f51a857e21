"""Models that the rows might as well have shown are drawn where that takes little memory."""

import numpy as np
import pytest

from discreet.choices import LOSSES
from discreet.data.columns import Labels
from discreet.design.counts.counting import count_codes, counted_rows
from discreet.design.counts.design import CountDesign
from discreet.design.inputs import Settings, Target
from discreet.design.kernels import CountKernel
from discreet.design.training_rows import Sample

SETTINGS = Settings((2, 2), CountKernel(), LOSSES["logistic"], 1e-3, 1e-3)


@pytest.mark.parametrize(("n_public", "n_private", "drawn"), [(2, 3, 24), (2, 20, 24), (5, 50, 0)])
def test_models_are_drawn_unless_attackers_compare_very_much(n_public, n_private, drawn):
    """All at once, attackers on 50 private classes would compare eight gigabytes."""
    rng = np.random.default_rng(0)
    h, g = rng.integers(n_public, size=2000), rng.integers(n_private, size=2000)
    facts = Labels("h", h, range(n_public)), Labels("g", g, range(n_private))
    sample = Sample(rng.integers(3, size=(2000, 2)), (3, 3), facts[0], facts[1:], (3, 3))
    counted = counted_rows(
        count_codes(sample.codes, sample.sizes, facts), sample, np.arange(2000), None
    )
    design = CountDesign(SETTINGS, counted, None, rng)
    assert len(design._draws(None, Target(0.9))) == drawn
