import gzip
import re

import numpy as np
import pandas as pd
import pytest
from support.helpers import refused
from support.reproductions import drill_file, drill_rows

from discreet import NPOMapper
from discreet.errors import InputError
from research.paper import datasets
from research.paper.datasets import (
    Labelled,
    draw_cells,
    draw_rows,
    find_file,
    load_adult,
    load_occupancy,
    load_opportunity,
    most_correlated,
)
from research.peers.features import CodeFeatures
from research.peers.projections import DCA
from research.peers.svm import svm_error


def stored(name):
    """The path of a real file, if it is on this machine."""
    try:
        return find_file(name, download=False)
    except InputError:
        pytest.skip(f"{name} is not here; DISCREET_DATA can say where it is")


# -- Adult ---------------------------------------------------------------------------

LINE = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
    "Male, 2174, 0, 40, United-States, <=50K"
)


def adult_file(folder, *lines, name="adult.data"):
    file = folder / name
    file.write_text("\n".join(lines) + "\n\n")
    return file


def test_adult_is_read_from_lines_like_its_own(tmp_path):
    other = LINE.replace("39", "90").replace("Never-married", "Widowed").replace("<=50K", ">50K")
    file = adult_file(tmp_path, LINE, other.replace("Adm-clerical", "?"))
    data = load_adult(file)
    assert list(data.readings.columns) == ["age", "education", "occupation", "relationship", "sex"]
    assert data.readings["age"].tolist() == [0, 14]
    assert data.readings["occupation"].isna().tolist() == [False, True]
    assert data.public.tolist() == ["<=50K", ">50K"]
    assert data.private.tolist() == ["Never married", "Used to be married"]
    assert load_adult(file, age_levels=None).readings["age"].tolist() == [39, 90]


def test_the_test_file_of_adult_has_a_first_line_and_full_stops(tmp_path):
    file = adult_file(tmp_path, "|1x3 Cross validator", LINE + ".", name="adult.test")
    assert load_adult(file).public.tolist() == ["<=50K"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([LINE, LINE + ", more"], "line 2 has 16 values instead of 15"),
        ([LINE.rpartition(",")[0]], "line 1 has 14 values"),
        ([LINE.replace("39", "old")], "the age is 'old'"),
        ([LINE.replace("39", "1e9")], "the age is '1e9'"),
        ([LINE.replace("39", "٣٩")], "the age is"),
        ([LINE.replace("Never-married", "Engaged")], "'Engaged' is no known marital status"),
        ([LINE.replace("<=50K", "1M")], "the income is '1M'"),
        ([""], "has no rows"),
        (["\0" * 10], "line 1"),
        (["x" * 200_000], "not readable"),
        (["|1x3 Cross validator", "|1x3 Cross validator"], "line 2 has 1 values"),
    ],
)
def test_what_is_not_adult_is_refused_with_its_line(tmp_path, lines, message):
    refused(message, load_adult, adult_file(tmp_path, *lines))


def test_a_truncated_archive_of_adult_is_refused(tmp_path):
    file = tmp_path / "adult.data.gz"
    file.write_bytes(gzip.compress(f"{LINE}\n".encode() * 500)[:-20])
    refused("damaged gzip", load_adult, tmp_path)


def test_the_real_adult_has_the_known_counts():
    data = load_adult(stored("adult.data"))
    counts = pd.crosstab(data.public, data.private)
    assert counts.loc["<=50K"].tolist() == [8681, 10192, 5847]
    assert counts.loc[">50K"].tolist() == [6736, 491, 614]
    assert sorted(data.readings["age"].unique()) == list(range(15))
    assert [data.readings[name].nunique() for name in data.readings] == [15, 16, 14, 6, 2]


@pytest.mark.slow
def test_dca_on_adult_comes_near_the_printed_errors():
    """Printed: 38.38 % for income, 56.33 % for marital status; raw 34.05 % and 30.48 %.

    Five draws have a standard error of one to two points. The attacker on raw readings
    does better here than in print.
    """
    data = load_adult(stored("adult.data"))
    found = {"dca": [], "raw": []}
    for seed in range(5):
        train, test = draw_cells(data, seed)
        for name, method in (("dca", DCA), ("raw", CodeFeatures)):
            sender = method(categories="codes", n_bins=15).fit(train.readings, train.public)
            found[name].append(
                [
                    svm_error(sender, train.readings, old, test.readings, new)
                    for old, new in ((train.public, test.public), (train.private, test.private))
                ]
            )
    np.testing.assert_allclose(np.mean(found["dca"], axis=0), [0.3838, 0.5633], atol=0.05)
    np.testing.assert_allclose(np.mean(found["raw"], axis=0), [0.3405, 0.23], atol=0.05)


# -- drawing -------------------------------------------------------------------------


def made_up(n=120):
    place = np.arange(n)
    return Labelled(
        pd.DataFrame({"place": place}),
        pd.Series(place % 2, name="h"),
        pd.Series(place // 2 % 3, name="g"),
        pd.Series(place // 10, name="day"),
    )


def test_every_cell_gives_as_many_rows_and_none_twice():
    train, test = draw_cells(made_up(), 0, n_train=5, n_test=15)
    for part, count in ((train, 5), (test, 15)):
        assert pd.crosstab(part.public, part.private).to_numpy().tolist() == [[count] * 3] * 2
        assert (part.public == part.readings["place"] % 2).all()
        assert (part.groups == part.readings["place"] // 10).all()
    places = pd.concat([train.readings, test.readings])["place"]
    assert places.nunique() == 120


def test_a_seed_draws_the_same_rows():
    first, again, other = (draw_cells(made_up(), seed, n_train=3, n_test=3) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first[1].readings, again[1].readings)
    assert not first[1].readings.equals(other[1].readings)


def test_rows_are_drawn_from_all_alike():
    train, test = draw_rows(made_up(), 0, n_train=20)
    assert (len(train), len(test)) == (20, 100)
    assert not set(train.readings["place"]) & set(test.readings["place"])
    assert len(draw_rows(made_up(), 0, n_train=20, n_test=30)[1]) == 30


def test_more_rows_than_there_are_cannot_be_drawn():
    refused("has 20 rows; 21 are", draw_cells, made_up(), 0, n_train=1, n_test=20)
    refused("there are 120 rows; 121", draw_rows, made_up(), 0, n_train=1, n_test=120)


# -- OPPORTUNITY ---------------------------------------------------------------------


def test_opportunity_keeps_standing_and_walking_with_a_drawer_or_the_dishwasher(tmp_path):
    values = drill_rows()
    data = load_opportunity(drill_file(tmp_path, values))
    kept = np.isin(values[:, 243], (1, 2)) & np.isin(
        values[:, 249], (406505, 404505, 406519, 404519)
    )
    assert len(data) == kept.sum()
    np.testing.assert_array_equal(data.readings.to_numpy(), values[kept, 1:243])
    assert (data.readings.columns[0], data.readings.columns[-1]) == ("c2", "c243")
    np.testing.assert_array_equal(data.public == "Walk", values[kept, 243] == 2)
    np.testing.assert_array_equal(data.private == "Dishwasher", data.readings["c195"] == 1)
    assert set(data.private) == {"Dishwasher", "Drawer"}
    every = load_opportunity(tmp_path, drawers=(1, 2, 3))
    assert len(every) > len(data)


@pytest.mark.slow
def test_the_most_correlated_sensors_of_opportunity_are_those_that_tell(tmp_path):
    data = most_correlated(load_opportunity(drill_file(tmp_path, drill_rows(1500))))
    assert data.readings.shape[1] == 15
    assert {"c37", "c195"} <= set(data.readings.columns)
    assert "c231" not in data.readings
    refused("242 are to be", most_correlated, data, 242)


@pytest.mark.slow
def test_a_mapping_can_be_learned_from_opportunity(tmp_path):
    data = most_correlated(load_opportunity(drill_file(tmp_path, drill_rows(1500))), 4)
    train, test = draw_rows(data, 0, n_train=60)
    mapper = NPOMapper(binning="uniform", random_state=0)
    mapper.fit(train.readings, train.public, private=train.private)
    assert mapper.score(test.readings, test.public) > 0.8


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("\n", " 7\n", 1), "row 1 has 251 values instead of 250"),
        (lambda text: text[: len(text) // 2], "values instead of 250"),
        (lambda text: text.replace("NaN", "none", 1), "none"),
        (lambda text: text.replace("NaN", "inf", 1), "infinite"),
        (lambda text: "\n\n", "has no rows"),
        (lambda text: re.sub(r"40[46]5(05|19)", "0", text), "no row stands or walks"),
    ],
)
def test_what_is_not_opportunity_is_refused(tmp_path, spoil, message):
    file = drill_file(tmp_path, drill_rows(60))
    file.write_text(spoil(file.read_text()))
    refused(message, load_opportunity, file)


def test_a_truncated_archive_of_opportunity_is_refused(tmp_path):
    text = drill_file(tmp_path, drill_rows(60)).read_bytes()
    (tmp_path / "cut.dat.gz").write_bytes(gzip.compress(text)[:-100])
    refused("damaged gzip", load_opportunity, tmp_path / "cut.dat.gz")


def test_there_are_three_drawers(tmp_path):
    refused("drawers must be", load_opportunity, tmp_path, drawers=(4,))


def test_columns_and_gestures_are_those_of_the_data_sets_own_lists():
    columns = stored("opportunity_column_names.txt").read_text()
    named = dict(re.findall(r"^Column: (\d+) ([^;\n]*)", columns, re.MULTILINE))
    assert len(named) == datasets.OPPORTUNITY_COLUMNS
    assert named[str(datasets.LOCOMOTION_COLUMN)] == "Locomotion"
    assert named[str(datasets.GESTURE_COLUMN)] == "ML_Both_Arms"
    assert named[str(datasets.SENSOR_COLUMNS[0] - 1)] == "MILLISEC"
    assert named[str(datasets.SENSOR_COLUMNS[-1])] == "LOCATION TAG4 Z"
    legend = stored("opportunity_label_legend.txt").read_text()
    labels = {
        int(code): (track, label.strip())
        for code, track, label in re.findall(r"^(\d+)\s+-\s+(\w+)\s+-\s+(.+)$", legend, re.M)
    }
    for code, name in datasets.LOCOMOTION.items():
        assert labels[code] == ("Locomotion", name)
    for name, (opened, closed) in datasets.OPEN_CLOSE.items():
        assert labels[opened] == ("ML_Both_Arms", f"Open {name}")
        assert labels[closed] == ("ML_Both_Arms", f"Close {name}")


# -- Occupancy -----------------------------------------------------------------------

HEADER = "part,date,Temperature,Humidity,Light,CO2,HumidityRatio,Occupancy"
OFFICE = [
    "train,2015-02-04 17:51:00,23.18,27.272,426.0,721.25,0.00479,1",
    "test1,2015-02-05 03:00:00,21.0,27.0,0.0,450.5,0.004,0",
]


def office_file(folder, *lines, header=HEADER):
    file = folder / "occupancy_detection.csv"
    file.write_text("\n".join((header, *lines)) + "\n")
    return file


def test_occupancy_has_quarters_days_and_parts(tmp_path):
    data = load_occupancy(office_file(tmp_path, *OFFICE))
    assert data.public.tolist() == [1, 0]
    assert data.private.tolist() == ["afternoon", "night"]
    assert data.groups.tolist() == ["2015-02-04", "2015-02-05"]
    assert data.readings["CO2"].tolist() == [721.25, 450.5]
    assert load_occupancy(tmp_path, part="test1").public.tolist() == [0]
    refused("part must be", load_occupancy, tmp_path, part="all")


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        (OFFICE, HEADER.replace("CO2", "CO"), "no column 'CO2'"),
        ([OFFICE[0] + ",1"], HEADER, "line 2 has 9 values"),
        ([OFFICE[0].replace("721.25", "much")], HEADER, "'CO2' does not hold numbers"),
        ([OFFICE[0].replace("17:51", "57:51")], HEADER, "is no date and time"),
        ([OFFICE[0][:-1] + "2"], HEADER, "'Occupancy' holds more"),
        ([OFFICE[0].replace("train", "rest")], HEADER, "'part' holds more"),
    ],
)
def test_what_is_not_occupancy_is_refused(tmp_path, lines, header, message):
    refused(message, load_occupancy, office_file(tmp_path, *lines, header=header))


def test_the_real_occupancy_has_the_known_rows():
    file = stored("occupancy_detection.csv")
    sizes = [len(load_occupancy(file, part=part)) for part in datasets.OCCUPANCY_PARTS]
    assert sizes == [8143, 2665, 9752]
