import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.helpers import refused

from discreet.choices import LOSSES
from discreet.data.encoders import CodesEncoder
from discreet.data.labels import Labels
from discreet.design.code_models import Features
from discreet.design.code_solver import CodeSolver
from discreet.design.heads import private_heads, public_heads
from discreet.design.packed_file import (
    MAGIC,
    Header,
    PackedFile,
    PackedSensor,
    PackedWriter,
    packing_to,
    rows_digest,
)
from discreet.design.sweep import compiled_sweep, has_numba, plain_sweep, sweep
from discreet.design.weighted_rows import label_rows
from discreet.mapping.parts import Fact

LOGISTIC = LOSSES["logistic"]
SIZES = (16, 16, 3, 300, 2, 256)
KINDS = [[0, 0], [1, 0], [0, 1], [1, 2]]


def draw(rng, n=1000, sizes=SIZES):
    codes = np.column_stack([rng.integers(size, size=n) for size in sizes])
    return codes, rng.integers(len(KINDS), size=n)


def header(kinds, sizes=SIZES):
    return Header(
        sensors=[
            PackedSensor(name=f"s{t}", encoder=CodesEncoder(size=size))
            for t, size in enumerate(sizes)
        ],
        facts=[Fact(name="h", classes=(0, 1)), Fact(name="g", classes=("a", "b", "c"))],
        kinds=KINDS,
        kind_rows=np.bincount(kinds, minlength=len(KINDS)).tolist(),
    )


def write(path, codes, kinds, sizes=SIZES, batch=137):
    with packing_to(path, header(kinds, sizes)) as writer:
        for begin in range(0, len(codes), batch):
            writer.add(codes[begin : begin + batch], kinds[begin : begin + batch])
    return path


def labels_of(kinds):
    return np.array(KINDS)[kinds].T


@pytest.fixture
def packed(tmp_path, rng):
    codes, kinds = draw(rng)
    return write(tmp_path / "t.packed", codes, kinds), codes, kinds


# --- What was written is what is read --------------------------------------------------------


def test_a_file_gives_its_rows_back(packed):
    path, codes, kinds = packed
    with PackedFile.open(path) as file:
        assert len(file) == len(codes) and file.nbytes == path.stat().st_size
        rows, read = file.read(slice(None))
        np.testing.assert_array_equal(rows.unpack(), codes)
        np.testing.assert_array_equal(read, kinds)
        index = np.array([0, 5, 6, 998, 999])
        some, read = file.read(index)
        np.testing.assert_array_equal(some.unpack(), codes[index])
        np.testing.assert_array_equal(read, kinds[index])
        np.testing.assert_array_equal(file.totals(), rows.totals())
        np.testing.assert_array_equal(file.labels(1).index, [0, 0, 1, 2])


def test_rows_in_other_batches_make_the_same_file(tmp_path, rng):
    codes, kinds = draw(rng)
    one, two = (write(tmp_path / str(batch), codes, kinds, batch=batch) for batch in (91, 1000))
    assert one.read_bytes() == two.read_bytes()


def test_four_bits_a_code(tmp_path, rng):
    codes, kinds = draw(rng, n=20_000, sizes=(16,) * 8)
    size = write(tmp_path / "t", codes, kinds, (16,) * 8).stat().st_size
    assert size == pytest.approx(20_000 * (4 + 1), rel=0.05)  # half a byte a code, one for the kind


def test_a_file_knows_the_digest_that_an_audit_would_find(packed):
    path, codes, kinds = packed
    labels = labels_of(kinds)
    with PackedFile.open(path) as file:
        assert file.rows_digest() == rows_digest(codes, SIZES, labels)
        assert file.rows_digest() != rows_digest(codes[::-1], SIZES, labels[:, ::-1])


# --- Sweeps and solutions --------------------------------------------------------------------


def heads_of(by_kind, public, private):
    return public_heads(by_kind, public) + private_heads(by_kind, private)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.skipif(
    not has_numba(), reason="numba is not installed"))])  # fmt: skip
@pytest.mark.slow
def test_a_sweep_over_a_file_is_one_over_memory_to_the_bit(tmp_path, rng, compiled):
    codes, kinds = draw(rng, n=100_000)
    labels = labels_of(kinds)
    facts = Labels("h", labels[0], range(2)), Labels("g", labels[1], range(3))
    rows = label_rows(codes, SIZES, facts)
    assert not len(rows.counts)  # nearly all rows differ, so that nothing was collapsed
    here = rows.weighted_rows(heads_of(rows.by_kind, *facts))
    tables = 0.3 * rng.normal(size=(len(here.signed_weights), sum(SIZES)))
    with PackedFile.open(write(tmp_path / "t", codes, kinds, batch=30_000)) as file:
        there = file.weighted_rows(heads_of(file.by_kind, file.labels(0), file.labels(1)))
        for threads in (1, 2):
            each = (
                [compiled_sweep(b, tables, LOGISTIC, threads) for b in (here, there)]
                if compiled
                else [plain_sweep(b, tables, LOGISTIC) for b in (here, there)]
            )
            np.testing.assert_array_equal(each[0].values, each[1].values)
            np.testing.assert_array_equal(each[0].sums, each[1].sums)


@pytest.mark.slow
def test_heads_are_solved_alike_from_a_file(tmp_path, rng):
    sizes = (4, 3, 2)
    codes, kinds = draw(rng, n=40_000, sizes=sizes)
    labels = labels_of(kinds)
    facts = Labels("h", labels[0], range(2)), Labels("g", labels[1], range(3))
    rows = label_rows(codes, sizes, facts)
    assert len(rows.counts)  # in memory equal rows are counted
    here = rows.weighted_rows(heads_of(rows.by_kind, *facts))
    features = Features([rng.dirichlet(np.ones(2), size=size) for size in sizes])
    with PackedFile.open(write(tmp_path / "t", codes, kinds, sizes, batch=999)) as file:
        there = file.weighted_rows(heads_of(file.by_kind, file.labels(0), file.labels(1)))
        found = [
            CodeSolver(box, LOGISTIC, np.full(len(here.signed_weights), 1e-4)).solve(features)
            for box in (here, there)
        ]
    np.testing.assert_allclose(found[0].values, found[1].values, atol=1e-9)


# --- Bad files -------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_refused(packed):
    path, *_ = packed
    data = path.read_bytes()
    for length in (0, 5, 20, 30, 200, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        refused("t.packed: is (cut short|not a packed table)", PackedFile.open, path)
    path.write_bytes(data + b"x")
    refused("too long", PackedFile.open, path)


@given(place=st.integers(0, 10**9), value=st.integers(1, 255))
@pytest.mark.slow
def test_a_changed_byte_is_never_believed(tmp_path_factory, place, value):
    rng = np.random.default_rng(0)
    codes, kinds = draw(rng, n=50)
    path = write(tmp_path_factory.mktemp("packed") / "t", codes, kinds)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= value
    path.write_bytes(data)
    try:
        with PackedFile.open(path) as file:  # only a filling byte may be anything
            np.testing.assert_array_equal(file.read(slice(None))[0].unpack(), codes)
    except Exception as error:
        assert type(error).__name__ == "InputError", error


@pytest.mark.parametrize(
    "change",
    [
        {"kind_rows": [1, 2, 3]},
        {"kinds": [[0, 0], [0, 0], [0, 1], [1, 2]]},
        {"kinds": [[0, 0], [1, 0], [0, 1], [1, 9]]},
        {"kind_rows": [1 << 50, 1, 1, 1]},
        {"sensors": []},
        {"extra": 1},
    ],
)
def test_a_header_that_contradicts_itself_is_refused(packed, change):
    path, *_ = packed
    data = path.read_bytes()
    begin = len(MAGIC) + 8
    length = int.from_bytes(data[begin - 4 : begin], "little")
    content = json.loads(data[begin : begin + length]) | change
    text = json.dumps(content, separators=(",", ":")).encode().ljust(length)
    path.write_bytes(data[:begin] + text[:length] + data[begin + length :])
    refused("t.packed: has a damaged header", PackedFile.open, path)


def test_foreign_files_and_other_versions_are_refused(tmp_path, packed):
    path, *_ = packed
    data = path.read_bytes()
    path.write_bytes(data[: len(MAGIC)] + b"\2" + data[len(MAGIC) + 1 :])
    refused("version 2", PackedFile.open, path)
    path.write_bytes(b"PAR1 and more")
    refused("not a packed table", PackedFile.open, path)
    refused("cannot be read", PackedFile.open, tmp_path / "nowhere")


def test_a_file_that_shrinks_while_it_is_read_is_an_error_with_words(packed):
    path, *_ = packed
    with PackedFile.open(path) as file:
        os.truncate(path, path.stat().st_size // 2)
        refused("cut short while it was read", file.read, slice(None))


# --- Bad ends --------------------------------------------------------------------------------


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path, rng):
    codes, kinds = draw(rng)
    with pytest.raises(KeyboardInterrupt), packing_to(tmp_path / "t", header(kinds)) as writer:
        writer.add(codes[:100], kinds[:100])
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("count", [900, 1100])
def test_other_rows_than_announced_are_refused(tmp_path, rng, count):
    codes, kinds = draw(rng, n=2000)

    def pack():
        with packing_to(tmp_path / "t", header(kinds[:1000])) as writer:
            writer.add(codes[:count], kinds[:count])

    refused("changed while it was read", pack)
    assert os.listdir(tmp_path) == []


def test_a_device_that_is_full_is_one_message(rng):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    _, kinds = draw(rng)

    def pack():
        with open("/dev/full", "r+b", buffering=0) as stream:
            PackedWriter(stream, header(kinds), "/dev/full")

    refused("cannot be written there", pack)


def test_sweep_takes_rows_from_a_file(packed, rng):
    path, *_ = packed
    with PackedFile.open(path) as file:
        weighted_rows = file.weighted_rows(heads_of(file.by_kind, file.labels(0), file.labels(1)))
        tables = rng.normal(size=(len(weighted_rows.signed_weights), sum(SIZES)))
        some = weighted_rows.sample(500)
        assert len(some) == 500
        np.testing.assert_allclose(some.signed_weights, 2.0 * weighted_rows.signed_weights)
        np.testing.assert_array_equal(
            sweep(weighted_rows, tables, LOGISTIC).values,
            sweep(weighted_rows.sample(10**6), tables, LOGISTIC).values,
        )
