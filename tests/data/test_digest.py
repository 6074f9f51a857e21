"""Digests: the same table is known again, however it is stored or read, and no other is."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.helpers import home

from discreet.data.split import RowSums, coded_digest, table_digest, table_sums


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
    assert all(len(digest) == len("rows3:") + 64 for digest in digests)


def test_the_digest_of_a_table_stays_the_same_over_releases():
    frozen = "rows3:586f5057e23def96060bb61724b7f559ab312863c0b740e4418ce70222f6459f"
    assert table_digest(pd.DataFrame({"a": [1, 2], "b": ["x", None]})) == frozen


@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_have_the_digest_of_the_whole_table(size):
    table = home().assign(
        late=pd.Series([None] * 50 + ["x"] * 10, dtype=object),
        later=np.r_[np.full(40, np.nan), np.arange(20.0)],
        never=None,
        narrow=np.linspace(0, 1, 60).astype(np.float32),
    )
    whole = table_sums(table)
    parts = [table_sums(table[begin : begin + size], begin) for begin in range(0, 60, size)]
    for order in (parts, parts[::-1]):
        assert sum(order, start=RowSums()) == whole
    assert whole.ordered == table_digest(table)


def test_a_shuffled_table_is_known_in_any_order_and_not_in_its_own():
    table = home()
    shuffled = table.sample(frac=1, random_state=0)
    assert table_sums(shuffled).unordered == table_sums(table).unordered
    assert table_sums(shuffled).ordered != table_sums(table).ordered
    other = table.assign(hall=table["hall"] + 1)
    assert table_sums(other).unordered != table_sums(table).unordered
    twice = pd.concat([table, table[:1]])
    assert table_sums(twice).unordered != table_sums(pd.concat([table, table[1:2]])).unordered


def test_what_is_written_alike_is_the_same_in_any_batch():
    mixed = pd.Series([1, "x", 2.5, True, None], dtype=object)
    texts = pd.Series(["1", "x", "2.5", "True", None], dtype=object)
    first = pd.Series([1.0, np.nan])  # as a part of the column would be read
    for part, whole in ((mixed, texts), (first, pd.Series(["1", None], dtype=object))):
        assert table_sums(part.to_frame("a")) == table_sums(whole.to_frame("a"))


def _slow_codes(codes, labels):
    """The multiset of rows itself, which the digest stands for."""
    return sorted(zip(*codes.T.tolist(), *(each.tolist() for each in labels), strict=True))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 9))
def test_coded_rows_have_one_digest_if_and_only_if_they_are_the_same_rows(seed, n_rows, n_sensors):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 16, 90_000], size=n_sensors).tolist()
    codes = np.column_stack([rng.integers(min(size, 3), size=n_rows) for size in sizes])
    labels, order = [rng.integers(2, size=n_rows)], rng.permutation(n_rows)
    found = coded_digest(codes, sizes, labels, [2])
    assert coded_digest(codes[order], sizes, [labels[0][order]], [2]) == found
    other = codes.copy()
    other[rng.integers(n_rows), rng.integers(n_sensors)] ^= 1
    same = _slow_codes(other, labels) == _slow_codes(codes, labels)
    assert (coded_digest(other, sizes, labels, [2]) == found) == same
