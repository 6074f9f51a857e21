"""What users hand to the mappers: what is taken as it is meant, and what is refused in words."""

import numpy as np
import pandas as pd
import pytest
from support.helpers import refused

from discreet import NDDMapper, NPOMapper
from discreet.choices import KERNELS
from discreet.data.columns import MAX_CLASSES, label_column
from discreet.design.inputs import (
    check_kernel,
    check_name,
    describe_fact,
    group_index,
    private_facts,
    symbol_counts,
)
from discreet.design.kernels import AnovaKernel, ProductKernel

N = 40
READINGS = pd.DataFrame({"hall": np.arange(N) % 4, "door": np.arange(N) // 4 % 2})
PUBLIC = np.arange(N) % 4 // 2
PRIVATE = np.arange(N) // 4 % 2


def fitted(X=READINGS, y=PUBLIC, private=PRIVATE, groups=None, **parameters):
    mapper = NDDMapper(random_state=0, n_restarts=1, **parameters)
    return mapper.fit(X, y, private=private, groups=groups)


@pytest.fixture
def no_design(monkeypatch):
    """Whatever is refused must be refused before the work."""

    def work(*_args, **_kwargs):
        raise AssertionError("the design was begun")

    monkeypatch.setattr("discreet.mappers.base.design_sample", work)


# --- The public fact -----------------------------------------------------------------------


@pytest.mark.parametrize("X", [READINGS, READINGS.to_numpy()], ids=["frame", "array"])
@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (PUBLIC.astype(bool).astype(object), [False, True]),
        (PUBLIC.astype(object), [0, 1]),
        (np.where(PUBLIC, "fall", "quiet").astype(object), ["fall", "quiet"]),
        (pd.Series(PUBLIC, dtype="Int64"), [0, 1]),
        (pd.Series(PUBLIC == 1, dtype="boolean"), [False, True]),
        (pd.Series(np.where(PUBLIC, "b", "a"), dtype="category"), ["a", "b"]),
        (list(PUBLIC == 1), [False, True]),
    ],
)
def test_labels_of_any_container_are_taken_for_what_they_are(X, y, classes):
    mapper = fitted(X, y)
    assert list(mapper.classes_) == classes
    assert mapper.mapping_.public.classes == tuple(classes)
    assert [type(each) for each in mapper.mapping_.public.classes] == list(map(type, classes))
    assert np.mean(mapper.predict(X) == np.asarray(y)) > 0.9


@pytest.mark.parametrize("X", [READINGS, READINGS.to_numpy()], ids=["frame", "array"])
@pytest.mark.parametrize("name", ["state", "name"])
def test_a_frame_of_one_column_is_the_fact_of_that_name(X, name):
    public = fitted(X, pd.DataFrame({name: PUBLIC})).mapping_.public
    assert (public.name, public.classes) == (name, (0, 1))


@pytest.mark.usefixtures("no_design")
@pytest.mark.parametrize("X", [READINGS, READINGS.to_numpy()], ids=["frame", "array"])
@pytest.mark.parametrize(
    ("y", "match"),
    [
        (pd.DataFrame({"a": PUBLIC, "b": PUBLIC}), "y has 2 columns; the public fact is one"),
        (np.column_stack([PUBLIC, PUBLIC]), "y should be a 1d array"),
        (np.linspace(0, 1, N), "[Cc]ontinuous"),
        (np.linspace(0, 1, N).astype(object), "public fact 'public' looks continuous"),
        (pd.Series(["a", 1] * (N // 2), dtype=object), "mixes numbers and text"),
        (pd.Series([True, 1, 0, False] * (N // 4), dtype=object), "mixes numbers and true and"),
        (pd.Series(PUBLIC, name=""), "the name of a fact must have at least 1 character"),
        (pd.Series(PUBLIC, name="a\nb"), r"the name of a fact must .* it is 'a\\nb'. Rename it"),
        (pd.to_datetime(["2024", "2025"] * (N // 2)), "holds dates"),
        (PUBLIC[1:], "39"),
        (pd.Series([None, True] * (N // 2), dtype="boolean"), "missing in 20 of 40|contains NaN"),
        (pd.Series([None, "a"] * (N // 2)), "missing in 20 of 40|contains NaN"),
    ],
)
def test_a_public_fact_that_cannot_be_used_is_refused_in_one_line(X, y, match):
    refused(match, fitted, X, y)


@pytest.mark.usefixtures("no_design")
@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.parametrize("text", [True, False])
def test_no_fact_has_more_classes_than_the_command_line_allows(text):
    X = pd.concat([READINGS, READINGS])
    many, two = np.arange(2 * N) % (MAX_CLASSES + 1), np.arange(2 * N) % 2
    if text:
        many = np.char.add("c", many.astype(str))
    refused("public fact 'public' has 51 classes; at most 50", fitted, X, many, two)
    refused("private fact 'private' has 51 classes; at most 50", fitted, X, two, many)


# --- The private facts and the groups ------------------------------------------------------


@pytest.mark.usefixtures("no_design")
@pytest.mark.parametrize(
    ("private", "match"),
    [
        (pd.DataFrame([[0, 1]] * N, columns=["who", "who"]), "more than one column is called"),
        (pd.DataFrame({"who": PRIVATE, "age": np.linspace(0, 9, N)}), "'age' looks continuous"),
        (np.linspace(0, 1, N), "private fact 'private' looks continuous: it holds 0.0256"),
        (pd.Series(PRIVATE, name="a\tb"), r"the name of a fact must .* it is 'a\\tb'"),
        (pd.DataFrame({"": PRIVATE}), "private: column 1 has no name"),
        (pd.Series(["a", 1] * (N // 2), dtype=object, name="who"), "'who' mixes numbers and text"),
        ("who", "private must have 1 or 2 dimensions, got 0: 'who'. Give the values themselves"),
        ([[0, 1], [0]], "private has rows of different lengths"),
        (pd.Series(pd.date_range("2024", periods=N)), "holds dates"),
        (np.where(PRIVATE, "a" * 2000, "b"), r"hold the classes of 'private': classes\[0\] must"),
    ],
)
def test_a_private_fact_that_cannot_be_used_is_refused_in_one_line(private, match):
    refused(match, fitted, private=private)


def test_private_facts_keep_the_names_and_kinds_of_their_columns():
    frame = pd.DataFrame({"who": PRIVATE == 1, 7: PRIVATE.astype(object)})
    facts = [describe_fact(fact.name, fact.classes) for fact in private_facts(frame, N)]
    assert [(fact.name, fact.classes) for fact in facts] == [("who", (False, True)), ("7", (0, 1))]
    both = private_facts(frame.to_numpy(), N)
    assert [fact.name for fact in both] == ["private0", "private1"]


def test_a_class_may_have_one_row():
    assert label_column("who", [0, 0, 1]).index.tolist() == [0, 0, 1]


def test_groups_are_numbered_in_order():
    assert group_index(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert group_index(pd.Series(pd.to_datetime(["2025", "2024"])), 2).tolist() == [1, 0]
    assert group_index(None, 3) is None


@pytest.mark.usefixtures("no_design")
@pytest.mark.parametrize(
    ("groups", "match"),
    [
        (np.zeros((N, 2)), "groups must have 1 dimension, got 2"),
        (pd.DataFrame({"day": PRIVATE}), "groups must have 1 dimension"),
        ("day", "got 0: 'day'. Give the values themselves"),
        (3, "got 0: 3"),
        ([[1], [1, 2]], "rows of different lengths"),
        (["a", 1] * (N // 2) + [None], "groups has 41 rows; X has 40"),
        (np.array(["a", 1] * (N // 2), dtype=object), "groups mixes kinds of values"),
        ([None] + ["a"] * (N - 1), "groups is missing in 1 of 40 rows"),
        ([np.nan] * 2 + [1.0] * (N - 2), "groups is missing in 2 of 40 rows"),
    ],
)
def test_groups_that_cannot_be_used_are_refused_in_one_line(groups, match):
    refused(match, fitted, groups=groups)


# --- The sensors ---------------------------------------------------------------------------


@pytest.mark.usefixtures("no_design")
@pytest.mark.parametrize(
    ("X", "match"),
    [
        (READINGS[["hall", "hall"]], "X has two columns called 'hall'. Rename one"),
        (pd.DataFrame(index=range(N)), "no columns"),
        (np.empty((N, 0)), r"0 feature\(s\)"),
        (READINGS.rename(columns={"hall": "a\x1b"}), "the name of a sensor must be text without"),
        (READINGS.rename(columns={"hall": "x" * 201}), "the name of a sensor must have at most"),
        (READINGS["hall"].to_numpy(), "Expected 2D array, got 1D array instead"),
    ],
)
def test_sensors_that_cannot_be_used_are_refused_before_the_design(X, match):
    refused(match, fitted, X)


def test_columns_named_by_numbers_have_choices_by_number():
    mapper = fitted(
        pd.DataFrame(READINGS.to_numpy()), n_symbols={0: 3}, n_bins={0: 2}, binning={1: "codes"}
    )
    assert mapper.mapping_.names == ["0", "1"]
    assert mapper.mapping_.n_symbols == [3, 2]
    assert [sensor.encoder.kind for sensor in mapper.mapping_.sensors] == ["bins", "codes"]
    assert len(mapper.mapping_.sensors[0].encoder.edges) == 1
    assert mapper.transform(pd.DataFrame(READINGS.to_numpy())).shape == (N, 2)


@pytest.mark.usefixtures("no_design")
@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_symbols": {"hal": 3}}, "n_symbols names the column 'hal'.* Did you mean 'hall'"),
        ({"n_symbols": 257}, "n_symbols of 'hall' must be .* at least 2 and at most 256, got 257"),
        ({"n_symbols": {"door": 300}}, "n_symbols of 'door' must be .* at most 256, got 300"),
        ({"n_symbols": "two"}, "got 'two'"),
        ({"n_bins": {0: 3}}, "n_bins names the column 0"),
        ({"binning": {"hal": "uniform"}}, "binning names the column 'hal'"),
    ],
)
def test_choices_that_do_not_fit_the_sensors_are_refused_before_the_design(parameters, match):
    refused(match, fitted, **parameters)


def test_symbols_are_counted_for_all_in_order_or_by_name():
    names = ["0", "1", "2"]
    assert symbol_counts(3, names) == (3, 3, 3)
    assert symbol_counts([2, 3, 4], names) == symbol_counts(np.array([2, 3, 4]), names) == (2, 3, 4)
    assert symbol_counts({1: 256, "2": 3}, names) == (2, 256, 3)
    refused("n_symbols names the column '1' twice", symbol_counts, {1: 3, "1": 4}, names)


# --- What a file can hold ------------------------------------------------------------------


def test_a_fact_is_described_or_the_flaw_of_its_name_or_classes_is_told():
    assert describe_fact("who", np.array([True, False])).classes == (True, False)
    refused("the name of a fact must have at least 1", describe_fact, "", [0, 1])
    refused("cannot hold the classes of 'who'", describe_fact, "who", [0, 2**70])
    refused("the name of a sensor must be text without control", check_name, "sensor", "\x00")


# --- Kernels -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_found_by_name_or_taken_as_it_is(name):
    kernel = check_kernel(name)
    assert isinstance(kernel, KERNELS[name])
    assert check_kernel(kernel) is kernel


class Half:
    """A kernel that somebody has begun to write."""

    name = "half"

    def combine(self, tables):
        return tables[0]


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        ("gauss", r"kernel must be one of \['anova', .*\] or a Kernel, got 'gauss'\."),
        (3, "kernel must be one of .*, got 3"),
        (None, "kernel must be one of .*, got None"),
        (["product"], "kernel must be one of .*, got"),
        (ProductKernel, r"Give an instance: ProductKernel\(\)"),
        (Half(), "It lacks .*components, split"),
    ],
)
def test_what_is_no_kernel_is_refused_with_the_choices(kernel, match):
    refused(match, check_kernel, kernel)


def test_a_kernel_with_parameters_of_its_own_learns():
    kernel = check_kernel(AnovaKernel(2))
    mapper = NPOMapper(kernel=kernel, privacy_ratio=0.9, n_restarts=1, random_state=0)
    assert mapper.fit(READINGS, PUBLIC, private=PRIVATE).score(READINGS, PUBLIC) > 0.7
