from dataclasses import replace

import numpy as np
import pytest

from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.findings import count_telling_groups, group_advantages
from discreet.leakage.joint_outputs import output_probabilities

NOISY = np.array([[0.9, 0.1], [0.1, 0.9]])


def homes(telling, n=20, rows=10):
    """Homes of both classes; in the first few the reading is the class, elsewhere nothing."""
    g = np.tile([0, 1], n * rows // 2)
    home = np.repeat(np.arange(n), rows)
    codes = np.where(home < telling, g, 0)[:, None]
    return AuditRows((NOISY,), codes, g, 2, home, unit="home")


def test_homes_that_tell_are_counted():
    found = count_telling_groups(homes(3), 0.1, 0.05)
    assert (found.judged, found.beyond) == (20, 3)
    # Clopper and Pearson for 3 of 20, from any table.
    assert found.upper == pytest.approx(0.3437, abs=1e-4)
    assert "Of 20 homes" in found.words and "95 %" in found.words
    assert count_telling_groups(homes(3), 0.45, 0.05).beyond == 0  # the noise keeps it at 0.4


@pytest.mark.parametrize("classes", [2, 3])
def test_advantages_are_those_of_each_groups_own_rows(classes, rng):
    codes = rng.integers(2, size=(90, 2))
    index, groups = rng.integers(classes, size=90), rng.integers(12, size=90)
    rows = AuditRows((NOISY, NOISY), codes, index, classes, groups)
    outputs = output_probabilities(rows.tables, codes)
    for j, found in enumerate(group_advantages(rows)):
        means = [outputs[(groups == j) & (index == k)] for k in range(classes)]
        means = [each.mean(axis=0) for each in means if len(each)]
        wanted = max((0.25 * np.abs(a - b).sum() for a in means for b in means), default=0.0)
        assert found == pytest.approx(wanted)


def test_homes_of_one_class_have_nothing_to_tell_apart():
    rows = homes(0)
    single = replace(rows, index=(rows.groups % 2).astype(int))
    assert count_telling_groups(single, 0.1, 0.05) is None
    assert count_telling_groups(replace(rows, groups=None), 0.1, 0.05) is None


def test_the_share_holds_as_often_as_promised(rng):
    fails, trials = 0, 300
    for _ in range(trials):
        telling = int((rng.random(20) < 0.15).sum())
        fails += count_telling_groups(homes(telling), 0.1, 0.1).upper < 0.15
    assert fails <= 0.1 * trials
