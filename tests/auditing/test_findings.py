import numpy as np
import pytest

from discreet.auditing.bounds import outputs_given
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.findings import contributions, outputs_of, telling_pair
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities


def world(rng, classes=3):
    sizes, n_symbols = (3, 2, 4), (2, 2, 3)
    codes = np.stack([rng.integers(size, size=200) for size in sizes], axis=1)
    index = rng.integers(classes, size=200)
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    return codes, index, tables


def given_class(tables, codes, index, classes=3):
    outputs = output_probabilities(tables, codes)
    return np.stack([outputs[index == k].mean(axis=0) for k in range(classes)])


def test_leaving_a_sensor_out_is_auditing_without_it(rng):
    codes, index, tables = world(rng)
    found = contributions(AuditRows(tuple(tables), codes, index, 3), "abc")
    whole = advantage(given_class(tables, codes, index))
    for t, each in enumerate(found):
        rest = [u for u in range(3) if u != t]
        without = given_class([tables[u] for u in rest], codes[:, rest], index)
        alone = given_class([tables[t]], codes[:, [t]], index)
        assert each.sensor == "abc"[t]
        assert each.lost == pytest.approx(whole - advantage(without))
        assert each.alone == pytest.approx(advantage(alone))


def test_alone_is_the_same_where_outputs_are_not_listed(rng, monkeypatch):
    codes, index, tables = world(rng)
    rows = AuditRows(tuple(tables), codes, index, 3)
    listed = contributions(rows, "abc")
    monkeypatch.setattr(outputs_given, "MAX_AUDIT_OUTPUTS", 1)
    separate = contributions(rows, "abc")
    for a, b in zip(listed, separate, strict=True):
        assert b.alone == pytest.approx(a.alone)
        assert b.lost is None


def test_the_telling_pair_of_an_exclusive_or():
    codes = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    index = codes[:, 0] ^ codes[:, 2]
    tables = [np.array([[0.9, 0.1], [0.1, 0.9]])] * 3
    found = telling_pair(AuditRows(tuple(tables), codes, index, 2))
    assert found[:2] == (0, 2)
    assert found[2] == pytest.approx(0.32)  # both bits right or both wrong: 0.82 of the time


def test_one_sensor_has_no_pair():
    codes = np.array([[0], [1], [1]])
    assert telling_pair(AuditRows((np.eye(2),), codes, np.array([0, 1, 1]), 2)) is None


@pytest.mark.parametrize("sensors", [(0,), (2,), (0, 2), (2, 1), (0, 1, 2)])
def test_sensors_by_themselves_send_what_the_others_are_summed_out_of(sensors, rng):
    codes, index, tables = world(rng)
    expected = given_class([tables[t] for t in sensors], codes[:, list(sensors)], index)
    rows = AuditRows(tuple(tables), codes, index, 3)
    np.testing.assert_allclose(outputs_of(sensors, rows), expected, rtol=1e-12)


def test_a_class_without_rows_sends_nothing(rng):
    codes, index, tables = world(rng, classes=2)
    assert (outputs_of((0, 1), AuditRows(tuple(tables), codes, index, 3))[2] == 0).all()
