import numpy as np
import pandas as pd
import pytest
from helpers import refused

from discreet import Mapping
from discreet.errors import MissingPrivateError
from discreet.paper.synthetic import draw_table, exact_figures, tables_by_reading
from discreet.peers.raw import RawMapper


def test_every_code_is_sent_as_it_is(tmp_path):
    X, h, g = draw_table(300, 0.0, 0)
    mapper = RawMapper(random_state=0).fit(X, h, private=g)
    np.testing.assert_array_equal(mapper.transform(X), mapper.mapping_.encode(X))
    mapper.mapping_.save(tmp_path / "raw.json")
    loaded = Mapping.load(tmp_path / "raw.json")
    assert loaded.design.method == "raw"
    for table in loaded.tables:
        np.testing.assert_array_equal(table, np.eye(10))  # nine readings, and none
    assert mapper.structural_epsilon_ == np.inf


def test_missing_and_unknown_readings_have_symbols_of_their_own():
    X = pd.DataFrame({"room": ["bed", "hall"] * 10, "level": [1.0, 2.0] * 10})
    mapper = RawMapper(random_state=0).fit(X, [0, 1] * 10, private=np.arange(20) // 10)
    new = pd.DataFrame({"room": ["hall", "cellar", None], "level": [2.0, np.nan, 7.0]})
    np.testing.assert_array_equal(mapper.transform(new), [[1, 1], [2, 2], [3, 1]])


def test_both_facts_are_told():
    X, h, g = draw_table(1000, 0.0, 0)
    mapper = RawMapper(random_state=0).fit(X, h, private=g)
    figures = exact_figures(tables_by_reading(mapper.mapping_), 0.0)
    assert figures.risk < 0.01
    assert mapper.score(X, h) > 0.98
    assert mapper.expected_.public_error < 0.05
    assert mapper.expected_.advantage > 0.4


def test_a_missing_private_fact_is_an_error():
    X, h, _ = draw_table(40, 0.0, 0)
    with pytest.raises(MissingPrivateError, match="private="):
        RawMapper().fit(X, h)


def test_more_codes_than_symbols_can_be_are_refused():
    X = pd.DataFrame({"level": np.arange(600.0)})
    labels = np.arange(600) % 2
    refused("at most 256", RawMapper(n_bins=300).fit, X, labels, private=np.arange(600) // 300)
