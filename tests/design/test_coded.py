"""Learning from a packed file gives what learning from memory gives."""

import warnings

import numpy as np
import pandas as pd
import pytest
from support.helpers import refused

from discreet import ModelMapper, NPOMapper
from discreet.data.encoders import encode_table
from discreet.data.fit_encoders import fit_encoders
from discreet.design import coded
from discreet.design.packed_file import Header, PackedFile, PackedSensor, packing_to
from discreet.errors import DiscreetWarning
from discreet.mapping.parts import Fact


def world(n=30_000, n_sensors=3, seed=0):
    rng = np.random.default_rng(seed)
    h, g = rng.integers(2, size=(2, n))
    shares = rng.normal(size=(3, n_sensors))
    readings = np.column_stack([h - 0.5, g - 0.5, rng.normal(size=n)]) @ shares
    readings += rng.normal(size=readings.shape)
    table = pd.DataFrame(readings.round(1), columns=[f"s{t}" for t in range(n_sensors)])
    return table, pd.Series(h, name="h"), pd.Series(np.array(["a", "b"])[g], name="g")


def pack_world(path, table, h, g):
    encoders = fit_encoders(table)
    codes = encode_table(table, list(zip(table.columns, encoders, strict=True)))
    kinds = 2 * h.to_numpy() + (g == "b").to_numpy()
    header = Header(
        sensors=[
            PackedSensor(name=name, encoder=encoder)
            for name, encoder in zip(table.columns, encoders, strict=True)
        ],
        facts=[Fact(name="h", classes=(0, 1)), Fact(name="g", classes=("a", "b"))],
        kinds=[[0, 0], [0, 1], [1, 0], [1, 1]],
        kind_rows=np.bincount(kinds).tolist(),
    )
    with packing_to(path, header) as writer:
        writer.add(codes, kinds)
    return path


def quiet(call, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscreetWarning)  # what is learned is no matter here
        return call(*args, **kwargs)


@pytest.mark.parametrize("kernel", ["count", "product"])
@pytest.mark.slow
def test_a_file_teaches_what_the_table_in_memory_teaches(tmp_path, kernel):
    table, h, g = world(n=21_000, n_sensors=5)  # nearly all rows differ, so none are counted
    mapper = NPOMapper(kernel=kernel, binning="quantile", random_state=0)
    here = quiet(mapper.fit, table, h, private=g).mapping_
    expected = mapper.expected_
    quiet(mapper.fit_packed, pack_world(tmp_path / "t", table, h, g))
    there = mapper.mapping_
    assert there.names == here.names and there.public == here.public
    assert [s.encoder for s in there.sensors] == [s.encoder for s in here.sensors]
    for one, two in zip(here.tables, there.tables, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
    assert mapper.expected_ == expected
    assert "sampled_rows" not in there.design.parameters
    assert mapper.predict(table[:50]).shape == (50,)


@pytest.mark.slow
def test_beyond_the_sample_the_design_still_sees_every_row(tmp_path, monkeypatch):
    table, h, g = world(n=40_000)
    mapper = NPOMapper(kernel="count", binning="quantile", random_state=0)
    quiet(mapper.fit, table, h, private=g)
    risks = mapper.public_risk_, mapper.private_risk_
    monkeypatch.setattr(coded, "SAMPLED_ROWS", 5_000)
    quiet(mapper.fit_packed, pack_world(tmp_path / "t", table, h, g))
    # Equal rows are counted in memory and not in a file: another way to the same end, which a
    # design takes as reached when a round gains less than 5e-4.
    np.testing.assert_allclose((mapper.public_risk_, mapper.private_risk_), risks, rtol=5e-4)
    assert mapper.mapping_.design.rows == 40_000
    assert mapper.mapping_.design.parameters["sampled_rows"] == 5_000


@pytest.mark.slow
def test_a_wish_is_searched_for_on_the_sample(tmp_path, monkeypatch):
    table, h, g = world(n=40_000)
    path = pack_world(tmp_path / "t", table, h, g)
    monkeypatch.setattr(coded, "SAMPLED_ROWS", 4_000)
    mapper = NPOMapper(kernel="count", max_advantage=0.05, n_folds=2, random_state=0)
    quiet(mapper.fit_packed, path)
    assert mapper.expected_.met and mapper.expected_.advantage <= 0.05
    assert mapper.private_risk_ >= mapper.threshold_


@pytest.mark.parametrize(
    ("mapper", "words"),
    [
        (NPOMapper(loss="hinge"), "the hinge loss needs all rows in memory"),
        (NPOMapper(kernel="inverse-multiquadric"), "'inverse-multiquadric' kernel needs all rows"),
        (NPOMapper(solver="thorough"), "solver='thorough' needs all rows"),
        (NPOMapper(relaxed=False), "relaxed=False needs all rows"),
        (NPOMapper(epsilon=1.0), "epsilon with 8 outputs"),
        (ModelMapper(), "method 'model' needs all rows in memory"),
    ],
)
def test_what_needs_all_rows_in_memory_is_refused(tmp_path, mapper, words):
    path = pack_world(tmp_path / "t", *world(n=200))
    refused(words, mapper.fit_packed, path)


@pytest.mark.slow
def test_an_open_file_may_be_given_and_stays_open(tmp_path):
    path = pack_world(tmp_path / "t", *world(n=3000))
    with PackedFile.open(path) as file:
        first = quiet(
            NPOMapper(kernel="count", binning="quantile", random_state=0).fit_packed, file
        ).mapping_
        second = quiet(
            NPOMapper(kernel="count", binning="quantile", random_state=0).fit_packed, file
        ).mapping_
    assert first.id == second.id
    assert first.design.source.training == first.design.source.digest
