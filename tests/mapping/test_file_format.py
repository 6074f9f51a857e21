"""The mapping file: what is saved loads again, and no file can do harm."""

import copy
import hashlib
import json
import math
import os
import stat
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.helpers import DESIGN, joint, make_mapping

from discreet.auditing.mapping_diff import Change, compare_mappings
from discreet.data.encoders import CodesEncoder
from discreet.errors import InputError, MappingFileError
from discreet.mapping import file_format as mapping_file
from discreet.mapping.file_format import MAX_BYTES
from discreet.mapping.mapping import Mapping, now
from discreet.mapping.parts import (
    TOTAL,
    AdditiveClassesFusion,
    AdditiveFusion,
    Deciding,
    Design,
    Fact,
    TableFusion,
)


def as_content(mapping):
    return json.loads(mapping.dumps())


def signed(content):
    """Give changed content the id that an attacker would compute for it."""
    stripped = copy.deepcopy(content)
    stripped.pop("id", None)
    stripped["design"].pop("created", None)
    text = json.dumps(stripped, sort_keys=True, separators=(",", ":"))
    return {**content, "id": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


def refused(text, match="."):
    with pytest.raises(MappingFileError, match=match) as caught:
        Mapping.loads(text)
    assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)
    return str(caught.value)


# --- Saving and loading --------------------------------------------------------------------

names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=10)
scalars = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), names, st.floats(-9, 9))


@st.composite
def mappings(draw):
    sizes = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(2, 4)), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    symbols = [m for _, m in sizes]
    labels = draw(st.lists(names, min_size=2, max_size=3, unique=True))
    fusions = [
        AdditiveClassesFusion(
            weights=[[rng.normal(size=m).tolist() for m in symbols] for _ in labels],
            bias=rng.normal(size=len(labels)).tolist(),
        ),
        TableFusion(joint=joint(math.prod(symbols), len(labels))),
    ]
    if len(labels) == 2:
        fusions.append(AdditiveFusion(weights=[rng.normal(size=m).tolist() for m in symbols]))
    return Mapping.create(
        names=draw(st.lists(names, min_size=len(sizes), max_size=len(sizes), unique=True)),
        encoders=[CodesEncoder(size=n) for n, _ in sizes],
        tables=[rng.dirichlet(np.ones(m), size=n) for n, m in sizes],
        public=Fact(name=draw(names), classes=labels),
        private=[Fact(name=draw(names), classes=labels)],
        fusion=draw(st.sampled_from(fusions)),
        design=Design(
            method="x",
            parameters=draw(
                st.dictionaries(names, st.one_of(st.none(), scalars, st.lists(scalars)))
            ),
            rows=draw(st.integers(0, 2**40)),
            created=now(),
            discreet="0",
        ),
    )


@given(mappings())
@pytest.mark.slow
def test_a_mapping_survives_saving_whatever_it_holds(tmp_path_factory, mapping):
    file = tmp_path_factory.mktemp("round") / "home.json"
    mapping.save(file)
    again = Mapping.load(file)
    assert again == mapping and again.dumps() == mapping.dumps()
    assert again.model_dump() == mapping.model_dump()
    for ours, theirs in zip(mapping.weights, again.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_saved_file_is_readable_and_ends_with_a_newline(tmp_path):
    make_mapping(names=["hall", "Küche"]).save(tmp_path / "home.json")
    text = (tmp_path / "home.json").read_text("utf-8")
    assert text.endswith("}\n") and "Küche" in text
    assert "[3865470566, 429496730]" in text  # a row of weights on one line


def test_layout_and_order_of_keys_do_not_matter():
    content = as_content(make_mapping())
    turned = dict(reversed(content.items()))
    assert Mapping.loads(json.dumps(turned)) == make_mapping()


def test_a_mapping_of_the_method_that_is_gone_loads_decides_and_compares():
    """What ``--method model`` wrote, with the figures that it recorded."""
    old = DESIGN.model_copy(update={
        "method": "model",
        "parameters": {"privacy_ratio": 0.9, "max_advantage": 0.05, "n_restarts": 4, "seed": 0},
        "expected": {"advantage": 0.04, "advantage_error": 0.01, "public_error": 0.2, "folds": 5.0},
    })  # fmt: skip
    mapping = make_mapping(design=old)
    again = Mapping.loads(mapping.dumps())
    assert again == mapping and again.design.method == "model"
    np.testing.assert_array_equal(
        again.fuse([[0, 0], [1, 2]]), make_mapping().fuse([[0, 0], [1, 2]])
    )
    changes = compare_mappings(again, make_mapping()).design
    assert Change("method", "model", "npo") in changes


def test_the_example_of_the_design_document_loads():
    content = {
        "format": "discreet-mapping",
        "version": 1,
        "id": "sha256:c9a",
        "sensors": [
            {
                "name": "hall",
                "encoder": {"kind": "bins", "edges": [0.5, 1.5]},
                "symbols": 2,
                "weights": [[4294967295, 1], [2147483648, 2147483648], [1, 4294967295]],
            }
        ],
        "public": {"name": "fall", "classes": [False, True]},
        "private": [{"name": "who", "classes": ["a", "b"]}],
        "fusion": {"kind": "additive", "weights": [[-1.2, 1.2]], "bias": 0.0},
        "design": {
            "method": "npo", "parameters": {}, "rows": 1000, "created": "…", "discreet": "0.1.0",
        },
    }  # fmt: skip
    explicit = copy.deepcopy(content)
    explicit["sensors"][0]["encoder"]["missing"] = False  # the canonical form spells defaults out
    content["id"] = signed(explicit)["id"]
    mapping = Mapping.loads(json.dumps(content))
    assert mapping.encode([[0.5], [1.0], [9.0]]).tolist() == [[0], [1], [2]]


def test_saving_replaces_the_file_whole_and_leaves_nothing_beside_it(tmp_path, monkeypatch):
    file = tmp_path / "home.json"
    file.write_text("old")
    file.chmod(0o640)

    def broken(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(InputError, match="No space left"):
            make_mapping().save(file)
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["home.json"]
    make_mapping().save(file)
    assert Mapping.load(file) == make_mapping() and os.listdir(tmp_path) == ["home.json"]
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_saving_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    make_mapping().save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert Mapping.load(tmp_path / "real.json") == make_mapping()


@pytest.mark.parametrize("place", ["no/such/home.json", ".", "a\0b"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, place):
    with pytest.raises(InputError, match="cannot be written"):
        make_mapping().save(tmp_path / place)
    assert os.listdir(tmp_path) == []


def test_nothing_is_saved_that_could_not_be_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(mapping_file, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="a file may have 100"):
        make_mapping().save(tmp_path / "home.json")


def test_the_id_can_be_computed_from_the_file_alone():
    content = as_content(make_mapping())
    assert signed(content)["id"] == content["id"]


def test_the_schema_names_every_part():
    schema = Mapping.model_json_schema()
    assert set(schema["properties"]) == {"chain", *as_content(make_mapping())}
    assert {"BinsEncoder", "CategoriesEncoder", "CodesEncoder", "TableFusion"} <= set(
        schema["$defs"]
    )
    json.dumps(schema)


# --- Hostile files -------------------------------------------------------------------------


def test_places_that_hold_no_file_are_refused(tmp_path):
    for place, match in (
        ("no.json", "no such file"),
        (".", "directory"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(MappingFileError, match=match):
            Mapping.load(tmp_path / place)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(MappingFileError, match="not a regular file"):
            Mapping.load(tmp_path / "pipe")


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path):
    with (tmp_path / "big.json").open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(MappingFileError, match="at most"):
        Mapping.load(tmp_path / "big.json")
    refused(" " * (MAX_BYTES + 1), "characters")


def test_bytes_that_are_not_utf8_are_refused(tmp_path):
    (tmp_path / "bad.json").write_bytes(b'{"format": "\xff"}')
    with pytest.raises(MappingFileError, match="byte 0xff at 12 is not UTF-8"):
        Mapping.load(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "hall,fall,who\n1,True,ann\n",
            "is not a discreet mapping; it begins with 'hall,fall,who'",
        ),
        ("", "is not JSON"),
        ("{", "is not JSON: .* at line 1, column 2"),
        ('{"a', "is not JSON: Unterminated string starting at line 1, column 2"),
        ("\ufeff{}", "is not JSON"),
        ("[" * 1_000_000, "nested too deeply"),
        ('{"a":' * 1_000_000, "nested too deeply"),
        ("[" * 500 + "]" * 500, "not a discreet mapping"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ("1" * 5000, "is too long"),
        ("-" + "1" * 5000, "is too long"),
        ("[1]", "not a discreet mapping"),
        ("null", "not a discreet mapping"),
        ('{"format": "other"}', "not a discreet mapping"),
        ('{"format": "discreet-mapping"}', "is of version None; this discreet reads version 1"),
        ('{"format": "discreet-mapping", "version": 2}', "is of version 2"),
        ('{"format": "discreet-mapping", "version": true}', "is of version True"),
        ('{"format": "discreet-mapping", "version": 1}', r"id is missing \(and 5 more problems\)"),
        (json.dumps(dict.fromkeys(map(str, range(5000)))), "has 5000 keys"),
    ],
    ids=lambda value: value[:30],
)
def test_text_that_is_no_mapping_is_refused(text, match):
    refused(text, match)


def deciding(**changes):
    return {"rule": "balanced", "weights": [2.5, 0.625], "shares": [0.2, 0.8], **changes}


CHANGES = [
    ("sensors", [], "sensors has 0 items"),
    ("sensors", "hall", "sensors must be a list; it is 'hall'"),
    ("sensors", {}, "sensors must be a list"),
    ("sensors.0", 3, r"sensors\[0\] must be an object; it is 3"),
    ("sensors.1.name", "hall", r"sensors\[1\].name is 'hall', the name of another one"),
    ("sensors.0.name", "", r"sensors\[0\].name must have at least 1 character"),
    ("sensors.0.name", "\ud800", r"sensors\[0\].name"),
    ("sensors.0.name", "a\u202eb", "control characters"),
    ("sensors.0.name", 7, r"sensors\[0\].name must be a valid string; it is 7"),
    ("sensors.0.symbols", 1, r"sensors\[0\].symbols must be greater than or equal to 2; it is 1"),
    ("sensors.0.symbols", 10**9, r"sensors\[0\].symbols must be less"),
    ("sensors.0.symbols", 3, r"sensors\[0\].weights\[0\] has 2 weights; the sensor has 3 symbols"),
    ("sensors.0.symbols", 2.0, r"sensors\[0\].symbols must be a valid integer"),
    ("sensors.0.weights.1.0", True, r"sensors\[0\].weights\[1\]\[0\] must be a valid integer"),
    ("sensors.0.weights.1.0", -1, r"weights\[1\]\[0\] must be greater than or equal to 0; it"),
    ("sensors.0.weights.1.0", 1.5, "must be a valid integer; it is 1.5"),
    ("sensors.0.weights.1.0", "1", "must be a valid integer; it is '1'"),
    ("sensors.0.weights.1.0", None, "must be a valid integer; it is None"),
    ("sensors.0.weights.1.0", 2**64 - 1, "must be less than or equal to 4294967296"),
    ("sensors.0.weights.1.0", 5, r"sensors\[0\].weights\[1\] must sum to 2\*\*32 = 4294967296"),
    ("sensors.0.weights.1", [], r"sensors\[0\].weights\[1\] has 0 weights"),
    ("sensors.0.weights", [], r"sensors\[0\].weights has 0 rows; the encoder has 3 codes"),
    ("sensors.0.encoder.kind", "pickle", r"sensors\[0\].encoder has kind 'pickle'; the kinds are"),
    ("sensors.0.encoder.kind", "k" * 10**6, r"sensors\[0\].encoder has kind"),
    ("sensors.0.encoder.kind", [1], r"sensors\[0\].encoder"),
    ("sensors.0.encoder", {}, r"sensors\[0\].encoder has no kind"),
    ("sensors.0.encoder.edges", [1.5, 0.5], r"edges\[1\] must be more than the edge before"),
    ("sensors.0.encoder.edges", [0.5, False], r"encoder.edges\[1\] must be a valid number"),
    ("sensors.0.encoder.missing", 1, "encoder.missing must be a valid boolean"),
    ("sensors.1.encoder.categories", ["a", "a"], "encoder.categories must be distinct"),
    ("sensors.1.encoder.categories", [None], r"encoder.categories\[0\] must be text"),
    ("sensors.1.encoder.more", 1, r"sensors\[1\].encoder.more is not a known key"),
    ("public.classes", [True], "public.classes has 1 items; the least is 2"),
    ("public.classes", [1, True], "public.classes must not mix"),
    ("public.classes", ["a", "b", "c"], "fusion.kind is for 2 public classes; there are 3"),
    ("private", None, "private must be a list"),
    ("private.0.classes", [[1], [2]], r"private\[0\].classes\[0\] must be text"),
    ("private.1", {"name": "who", "classes": [0, 1]}, r"private\[1\].name is 'who'"),
    ("fusion", {}, "fusion has no kind"),
    ("fusion.kind", "eval", "fusion has kind 'eval'"),
    ("fusion.weights", [[1.0, 2.0]], "fusion.weights has 1 rows; there are 2 sensors"),
    ("fusion.weights.1", [1.0], r"fusion.weights\[1\] has 1 weights; the sensor has 3 symbols"),
    ("fusion.weights.0.0", 1e300, r"fusion.weights\[0\]\[0\] must be greater|must be less"),
    ("fusion.bias", "0", "fusion.bias must be a valid number; it is '0'"),
    ("fusion", {"kind": "table", "joint": [[1.0]]}, "fusion.joint has 1 rows"),
    ("fusion", {"kind": "table", "joint": [[1.0], [0]]}, r"fusion.joint\[0\] has 1 entries"),
    ("fusion", {"kind": "table", "joint": [[1 / 6] * 6] * 2}, "fusion.joint must sum to 1"),
    ("fusion", {"kind": "table", "joint": [[-1] * 6] * 2}, r"joint\[0\]\[0\] must be greater"),
    ("fusion", {"kind": "additive-classes", "weights": [], "bias": []}, "fusion.weights has 0"),
    ("fusion.decide", "likely", "fusion.decide must be an object"),
    ("fusion.decide", deciding(rule="random"), "fusion.decide.rule must be 'balanced', 'likely'"),
    ("fusion.decide", deciding(weights=[0.5]), "decide.weights has 1 entries; there are 2 shares"),
    ("fusion.decide", deciding(weights=[2.5, 0]), r"decide.weights\[1\] must be greater than 0"),
    ("fusion.decide", deciding(weights=[2.5, -1]), r"decide.weights\[1\] must be greater than 0"),
    ("fusion.decide", deciding(weights=[2.5, 1e12]), r"decide.weights\[1\] must be less than"),
    ("fusion.decide", deciding(weights=[2.5, "1"]), r"decide.weights\[1\] must be a valid number"),
    ("fusion.decide", deciding(weights=[2.5, None]), r"decide.weights\[1\] must be a valid number"),
    ("fusion.decide", deciding(shares=[0.2, 0.9]), "decide.shares must sum to 1; they sum to 1.1"),
    ("fusion.decide", deciding(shares=[0, 1]), r"decide.shares\[0\] must be greater than 0"),
    ("fusion.decide", deciding(weights=[], shares=[]), "decide.shares must sum to 1"),
    ("fusion.decide", deciding(weights=[1, 1]), "weights are not those of the rule 'balanced'"),
    ("fusion.decide", deciding(rule="likely"), "weights are not those of the rule 'likely'"),
    ("fusion.decide", deciding(weights=[1] * 3, shares=[1 / 3] * 3),
     "fusion.decide.weights has 3 entries; there are 2 public classes"),
    ("fusion.decide", deciding(more=1), "fusion.decide.more is not a known key"),
    ("design.rows", -1, "design.rows must be greater than or equal to 0"),
    ("design.parameters", {"a": {}}, "design.parameters.a must be text"),
    ("design.parameters", {"a": [[]]}, "design.parameters.a must be text"),
    ("design.parameters", {"a": [0] * 2000}, "design.parameters.a must have at most 1000 items"),
    ("design.parameters", [], "design.parameters must be an object"),
    ("design.parameters", {"a b\n": {}}, r"design.parameters.'a b\\n' must be text"),
    ("design.expected", {"a": "b"}, "design.expected.a must be a valid number"),
    ("design.source.digest", "md5:0", "design.source.digest must match pattern"),
    ("design.source.split.holdout", 2, "design.source.split.holdout must be less than 1"),
    ("design.created", 5, "design.created must be a valid string"),
    ("x" * 10**6, 1, "is not a known key"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "match"), CHANGES, ids=lambda value: repr(value)[:40])
def test_a_changed_file_is_refused_by_the_place_of_the_change(place, value, match):
    content = as_content(make_mapping())
    set_at(content, place.split("."), value)
    if place != "sensors.0.name" or value != "\ud800":
        content = signed(content)  # the id must not be what gives the change away
    refused(json.dumps(content), match)


def test_a_number_too_large_for_a_float_is_refused():
    text = make_mapping().dumps().replace("[0.5, 1.5]", "[0.5, 1e999]")
    refused(text, r"sensors\[0\].encoder.edges\[1\] must be a finite number; it is inf")


def set_at(content, path, value):
    for step in path[:-1]:
        content = content[int(step) if isinstance(content, list) else step]
    if isinstance(content, list) and int(path[-1]) == len(content):
        content.append(value)
    else:
        content[int(path[-1]) if isinstance(content, list) else path[-1]] = value


def test_a_change_that_would_be_sound_is_given_away_by_the_id():
    content = as_content(make_mapping())
    content["sensors"][0]["weights"][0] = [TOTAL, 0]
    refused(json.dumps(content), "id is .* changed after the mapping was made")
    content = as_content(make_mapping())
    content["design"]["created"] = "yesterday"
    assert Mapping.loads(json.dumps(content)).id == make_mapping().id


@settings(max_examples=400)
@given(st.data())
@pytest.mark.slow
def test_no_mutation_of_a_file_raises_anything_but_a_mapping_file_error(data):
    text = make_mapping(fusion=data.draw(st.sampled_from(FUSIONS))).dumps()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 1, 2, 10, 200]))
        junk = data.draw(
            st.one_of(
                st.sampled_from(["", "[", "{", '"', "0", "-", "1e999", "true", "null", ","]),
                st.text(),
            )
        )
        text = text[:start] + junk + text[start + length :]
    try:
        Mapping.loads(text)
    except MappingFileError as error:
        assert "\n" not in str(error)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)


def paths(value, above=()):
    yield above
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items if isinstance(value, dict | list) else ():
        if isinstance(each, dict | list):
            yield from paths(each, (*above, str(key)))
        else:
            yield (*above, str(key))


@settings(max_examples=400)
@given(st.data())
@pytest.mark.slow
def test_no_value_anywhere_raises_anything_but_a_mapping_file_error(data):
    content = as_content(make_mapping(fusion=data.draw(st.sampled_from(FUSIONS))))
    path = data.draw(st.sampled_from([path for path in paths(content) if path]))
    set_at(content, list(path), data.draw(json_values))
    text = json.dumps(content)
    try:
        Mapping.loads(text)
    except MappingFileError as error:
        assert "\n" not in str(error)


FUSIONS = [
    AdditiveFusion(weights=[[-1.2, 1.2], [0.25, -0.5, 0.0]], bias=0.1),
    AdditiveClassesFusion(weights=[[[0, 1], [1, 0, 1]], [[1, 0], [0, 1, 0]]], bias=[0.1, 0]),
    TableFusion(joint=joint()),
    TableFusion(joint=joint(), decide=Deciding.model_validate(deciding())),
]


def test_loading_never_recurses_past_the_callers_limit():
    deep = as_content(make_mapping())
    text = json.dumps(deep).replace(
        '"parameters": {', '"parameters": {"d": ' + "[" * 900 + "]" * 900 + ","
    )
    refused(text)
    limit = sys.getrecursionlimit()
    refused("[" * (limit * 50))
