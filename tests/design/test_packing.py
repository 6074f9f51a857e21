import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.design.packing import Layout, pack
from discreet.errors import InputError

alphabets = st.lists(
    st.sampled_from([1, 2, 3, 4, 9, 10, 16, 17, 100, 255, 256, 257, 300, 70_000]),
    min_size=1,
    max_size=40,
)


def random_codes(sizes, n, seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=n) for size in sizes], axis=1)


@given(sizes=alphabets, n=st.integers(0, 50), seed=st.integers(0, 2**32 - 1))
def test_unpacking_gives_back_the_codes(sizes, n, seed):
    codes = random_codes(sizes, n, seed)
    packed = pack(codes, sizes)
    assert len(packed) == n
    np.testing.assert_array_equal(packed.unpack(), codes)
    np.testing.assert_array_equal(packed.take(slice(1, 5)).unpack(), codes[1:5])


@given(sizes=alphabets, seed=st.integers(0, 2**32 - 1))
@pytest.mark.slow
def test_a_table_over_cells_adds_up_what_its_codes_have(sizes, seed):
    rng = np.random.default_rng(seed)
    codes = random_codes(sizes, 20, seed)
    packed = pack(codes, sizes)
    tables = rng.normal(size=(2, sum(sizes)))
    narrow, wide = packed.layout.spread(tables)
    scores = np.zeros((2, 20))
    for j in range(len(packed.layout.narrow)):
        scores += narrow[:, j, packed.byte(j)]
    for j in range(packed.wide.shape[1]):
        scores += wide[:, j, packed.wide[:, j]]
    index = codes + packed.layout.offsets
    np.testing.assert_allclose(scores, tables[:, index].sum(axis=2), atol=1e-12)


@pytest.mark.parametrize("n_sensors", range(1, 40))
def test_words_hold_the_bytes_of_a_row_in_order_and_nothing_else(n_sensors):
    sizes = [256] * n_sensors
    packed = pack(random_codes(sizes, 9, n_sensors), sizes)
    assert packed.nbytes == 9 * n_sensors
    row_bytes = [word[:, None].view(np.uint8) for word in packed.narrow]
    np.testing.assert_array_equal(np.concatenate(row_bytes, axis=1), packed.unpack())


@given(sizes=alphabets, seed=st.integers(0, 2**32 - 1))
@pytest.mark.slow
def test_folding_is_the_transpose_of_spreading(sizes, seed):
    rng = np.random.default_rng(seed)
    layout = Layout.of(sizes)
    tables = rng.normal(size=(3, sum(sizes)))
    narrow, wide = layout.spread(tables)
    sums = rng.normal(size=narrow.shape), rng.normal(size=wide.shape)
    there = np.sum(narrow * sums[0]) + np.sum(wide * sums[1])
    assert np.sum(tables * layout.fold(*sums)) == pytest.approx(there, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("sizes", "n_bytes"),
    [([16] * 32, 16), ([10] * 7, 4), ([2] * 16, 2), ([4] * 8, 2), ([6] * 6, 2), ([17] * 3, 3)],
)
def test_sensors_share_a_byte_where_their_joint_alphabet_fits(sizes, n_bytes):
    assert len(Layout.of(sizes).narrow) == n_bytes


@pytest.mark.parametrize("n_sensors", [2, 32, 34, 100, 106])
def test_half_a_byte_is_held_for_each_of_sixteen_codes(n_sensors):
    packed = pack(np.zeros((10, n_sensors), dtype=np.int64), (16,) * n_sensors)
    assert packed.nbytes == 10 * n_sensors // 2


def test_a_large_alphabet_takes_two_bytes_or_four():
    assert pack(np.array([[3, 299]]), (16, 300)).wide.dtype == np.uint16
    assert pack(np.array([[3, 69_999]]), (16, 70_000)).wide.dtype == np.uint32


def test_sixteen_codes_take_half_a_byte_each_however_many_sensors():
    for n_sensors in (8, 32, 100):
        packed = pack(np.zeros((100, n_sensors), dtype=np.int64), [16] * n_sensors)
        assert packed.nbytes <= 0.52 * 100 * n_sensors


@pytest.mark.parametrize("code", [-1, 4])
def test_a_code_outside_the_alphabet_is_refused(code):
    with pytest.raises(InputError, match=f"sensor 1 has code {code}; its codes are 0 to 3"):
        pack(np.array([[0, code]]), (4, 4))
