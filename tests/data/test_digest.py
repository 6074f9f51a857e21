"""Digests: the same table is known again, however it is stored or read, and no other is."""

import numpy as np
import pandas as pd
import pytest
from support.helpers import home

from discreet.data.digest import TableDigest, table_digest, unordered_digest


def test_the_digest_is_of_the_contents_not_of_how_they_are_stored():
    table = pd.DataFrame({"a": [1, 2, 3], "b": [True, False, True], "c": ["x", None, "é"]})
    same = table.astype({"a": float, "b": object, "c": "category"}).set_index(pd.Index([5, 5, 1]))
    assert table_digest(same) == table_digest(table)
    narrow = pd.DataFrame({"a": np.float32([0.1, 0.2])})
    assert table_digest(narrow) == table_digest(pd.DataFrame({"a": [0.1, 0.2]}))
    gaps = pd.DataFrame({"a": [1.0, np.nan]})
    for dtype in ("Int64", "Float64", object):
        assert table_digest(gaps.astype(dtype)) == table_digest(gaps)
    empty = [
        pd.Series([None, None], dtype=dtype) for dtype in (float, object, str, "datetime64[ns]")
    ]
    assert len({table_digest(pd.DataFrame({"a": each})) for each in empty}) == 1
    zeros = [pd.DataFrame({"a": [zero, np.nan]}) for zero in (0.0, -0.0)]
    assert table_digest(zeros[0]) == table_digest(zeros[1])


def test_any_change_changes_the_digest():
    table = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": ["x", "yz", None]})
    others = [
        table.iloc[::-1],
        table.iloc[:2],
        table[["b", "a"]],
        table.rename(columns={"a": "c"}),
        table.assign(a=[1.0, np.nextafter(2.0, 3.0), np.nan]),
        table.assign(a=[1.0, 2.0, 0.0]),
        table.assign(b=["xy", "z", None]),
        table.assign(b=["x", "yz", ""]),
        table.assign(b=["x", "yz", "nan"]),
    ]
    digests = {table_digest(each) for each in [table, *others]}
    assert len(digests) == 1 + len(others)
    assert all(len(digest) == len("sha256:") + 64 for digest in digests)


def test_the_digest_of_a_table_stays_the_same_over_releases():
    frozen = "sha256:560cbcf8828f46bcc35f69bd27a7c47aa58dbe72596c6f30150fb10105d232a5"
    assert table_digest(pd.DataFrame({"a": [1, 2], "b": ["x", None]})) == frozen


@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_have_the_digest_of_the_whole_table(size):
    table = home().assign(
        late=pd.Series([None] * 50 + ["x"] * 10, dtype=object),
        later=np.r_[np.full(40, np.nan), np.arange(20.0)],
        never=None,
        narrow=np.linspace(0, 1, 60).astype(np.float32),
    )
    digest = TableDigest(*table.shape)
    for name in table:
        digest.begin(name)
        for begin in range(0, 60, size):
            digest.add(table[name][begin : begin + size])
    assert digest.result() == table_digest(table)
    parts = [table[begin : begin + size] for begin in range(0, 60, size)]
    assert unordered_digest(parts) == unordered_digest([table]) == unordered_digest(parts[::-1])
    assert unordered_digest([table.assign(hall=table["hall"] + 1)]) != unordered_digest([table])
