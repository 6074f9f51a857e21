from dataclasses import replace

import numpy as np
import pytest

from discreet.auditing.audit_file import BEYOND
from discreet.auditing.bounds.certificates import (
    certify_advantage,
    certify_beyond_answer,
    rows_within,
)
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.data.columns import Labels

NOISY = np.array([[0.9, 0.1], [0.1, 0.9]])


def labelled(index):
    return Labels("h", index, ("no", "yes"))


def cancelling(rng, n):
    """The sensor reads h xor g: it tells nothing of g unless one knows h."""
    h, g = rng.integers(2, size=(2, n))
    return AuditRows((NOISY,), (h ^ g)[:, None], g, 2), labelled(h)


def test_leaks_that_cancel_show_once_the_public_fact_is_known(rng):
    rows, public = cancelling(rng, 4000)
    found = certify_beyond_answer(rows, public, "who", 0.05, 0)
    assert certify_advantage(rows, 0.05).bound < 0.05
    assert found.total.bound >= 0.4  # the exact value within either class
    assert min(found.estimates) == pytest.approx(0.4, abs=1e-12)
    assert found.answer.bound < 0.05
    assert "who knows 'h'" in found.total.words


def test_an_answer_that_gives_all_away_leaves_nothing_beyond(rng):
    h = rng.integers(2, size=4000)
    g = np.where(rng.random(4000) < 0.9, h, 1 - h)
    rows = AuditRows((NOISY,), h[:, None], g, 2)
    found = certify_beyond_answer(rows, labelled(h), "who", 0.05, 0)
    assert max(found.estimates) < 1e-12
    assert found.total.bound < 0.03 < 0.4 <= found.answer.bound  # 176 rows in the rarer cell
    assert found.answer_estimate == pytest.approx(0.4, abs=0.02)


def test_each_class_is_certified_by_its_own_rows(rng):
    rows, public = cancelling(rng, 400)
    found = certify_beyond_answer(rows, public, "who", 0.05, 0)
    for h, certificate in enumerate(found.by_class):
        own = rows.take(public.index == h)
        assert certificate.bound == certify_advantage(own, 0.05).bound
        assert certificate.rows == own.counts
    assert found.total.bound == max(each.bound for each in found.by_class)
    assert found.total.name == BEYOND and found.total.rows == rows.counts


def test_a_class_without_one_of_the_private_ones_is_not_certifiable():
    g = np.array([0, 1] * 50 + [0] * 100)
    rows = AuditRows((np.eye(2),), np.zeros((200, 1), int), g, 2)
    found = certify_beyond_answer(rows, labelled(np.repeat([0, 1], 100)), "who", 0.05, 0)
    assert found.total.bound is None and "within h='yes'" in found.total.value.reason
    assert found.estimates[1] is None


@pytest.mark.parametrize("cap", [None, 2])
def test_groups_are_kept_within_a_class(cap, rng):
    rows, public = cancelling(rng, 400)
    grouped = replace(rows, groups=np.arange(400) // 4, unit="home", cap=cap)
    for h, own in enumerate(rows_within(grouped, public)):
        assert own.counts == rows.take(public.index == h).counts
        assert own.n_groups <= 100 and own.cap == cap
    found = certify_beyond_answer(grouped, public, "who", 0.05, 0)
    assert "drawn at random" in found.answer.words


@pytest.mark.slow
def test_the_bound_holds_as_often_as_promised(rng):
    # Within h=0 the classes differ by 0.2 of 0.8, within h=1 not at all; the first one counts.
    fails, trials, alpha = 0, 200, 0.2
    for _ in range(trials):
        h, g = rng.integers(2, size=(2, 120))
        ones = rng.random(120) < np.where(h == 0, 0.4 + 0.2 * g, 0.5)
        rows = AuditRows((NOISY,), ones.astype(int)[:, None], g, 2)
        bound = certify_beyond_answer(rows, labelled(h), "who", alpha, 0).total.bound
        fails += bound is not None and bound < 0.5 * 0.8 * 0.2
    assert fails <= alpha * trials
