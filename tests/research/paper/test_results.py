import json
import math

import numpy as np
import pytest
from support.helpers import refused
from support.reproductions import every_result, result

from research.paper.experiment import compare
from research.paper.report import text_table
from research.paper.results import Column, Figure, Result

ERROR = Column(key="public", title="error", better="low")


def test_means_and_standard_errors_are_those_of_numpy(rng):
    values = rng.normal(size=12)
    figure = Figure(values=tuple(values), printed=0.25)
    assert figure.mean == pytest.approx(values.mean())
    assert figure.error == pytest.approx(values.std(ddof=1) / math.sqrt(12))
    assert figure.difference == pytest.approx(values.mean() - 0.25)


def test_a_single_value_has_no_error_and_an_infinite_one_no_spread():
    assert Figure(values=(0.3,)).error is None
    assert Figure(values=(0.3, math.inf)).mean == math.inf
    assert Figure(values=(0.3, math.inf)).error is None
    assert Figure(printed=0.2).mean is None and Figure(printed=0.2).difference is None


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (ERROR, 0.03624, "0.0362"),
        (ERROR, -1e-9, "0.0000"),
        (ERROR, math.inf, "infinite"),
        (Column(key="h", title="H", better="low", percent=True), 0.37666, "37.67 %"),
    ],
)
def test_values_are_shown_with_the_digits_of_their_column(column, value, text):
    assert column.show(value) == text


def test_printed_figures_keep_the_digits_of_the_print():
    assert ERROR.show_printed(0.03) == "0.03" and ERROR.show_printed(0.0362) == "0.0362"
    assert ERROR.show(0.001, sign=True) == "+0.0010" and ERROR.show(-1e-9, sign=True) == "+0.0000"


def test_a_result_comes_back_from_its_file_infinite_values_included(tmp_path):
    found = result("skewed-prior")
    endless = found.rows[0].model_copy(update={"figures": {"epsilon": Figure(values=(math.inf,))}})
    found = found.model_copy(update={"rows": (endless, *found.rows[1:])})
    found.save(tmp_path / "r.json")
    assert Result.load(tmp_path / "r.json") == found
    assert json.loads((tmp_path / "r.json").read_text())["rows"][0]["figures"]["epsilon"][
        "values"
    ] == ["inf"]


def test_files_that_are_no_results_are_refused(tmp_path):
    file = tmp_path / "r.json"
    refused("no such file", Result.load, file)
    refused("not a regular file", Result.load, tmp_path)
    file.write_text('{"format": "discreet-mapping"}')
    refused("is not a file that `make reproduce` wrote", Result.load, file)
    file.write_text('{"format": "discreet-reproduction", ')
    refused("is not JSON", Result.load, file)
    result("m-ary").save(file)
    content = json.loads(file.read_text())
    for change, words in (
        ({"seconds": -1}, "seconds"),
        ({"columns": []}, "columns"),
        ({"more": 1}, "more is not a known key"),
        ({"rows": [content["rows"][0] | {"figures": {"height": {"values": [1.0]}}}]}, "column"),
        ({"rows": [content["rows"][0] | {"figures": {"public": {"values": ["nan"]}}}]}, "rows"),
    ):
        file.write_text(json.dumps(content | change))
        refused(words, Result.load, file)


def test_the_text_has_ours_the_printed_and_the_difference():
    found = result("adult")
    lines = text_table(found)
    row = next(k for k, line in enumerate(lines) if " NPO " in line)
    figure = found.figure("Adult", "npo", "public")
    assert f"{100 * figure.mean:.2f} ± {100 * figure.error:.2f} %" in lines[row]
    assert lines[row + 1].split()[:3] == ["printed", "37.67", "%"]
    assert lines[row + 2].split()[:2] == ["difference", f"{100 * figure.difference:+.2f}"]
    assert any(line.startswith("- ") and "180 and 2100" in line for line in lines)
    assert any("3 draws, seeds 0 to 2" in line for line in lines)


def test_what_has_no_printed_figures_says_so():
    lines = text_table(result("correlation"))
    assert not any("printed  " in line or "difference" in line for line in lines)
    assert any("nothing to compare with" in line for line in lines)


@pytest.mark.slow
def test_what_did_not_run_shows_the_printed_figures_and_why():
    lines = text_table(every_result()[-1])
    assert any("Not run here: No <such> file." in line for line in lines)
    assert any("10.53 %" in line for line in lines) and not any("±" in line for line in lines)


@pytest.mark.parametrize(("mean", "verdict"), [(0.30, "no worse"), (0.40, "not better")])
def test_a_comparison_looks_at_every_column(mean, verdict):
    found = result("adult")
    rows = []
    for row in found.rows:
        figures = dict(row.figures)
        if row.method == "auto":
            values = {"public": mean, "svm": 0.65, "strongest": 0.63, "epsilon": 0.5}
            figures |= {key: Figure(values=(value,)) for key, value in values.items()}
        rows.append(row.model_copy(update={"figures": figures}))
    found = found.model_copy(update={"rows": tuple(rows)})
    words = compare(found, "Adult", "auto", ("Adult", "npo"))
    assert verdict in words and "against 37.67 %" in words and "0.50 against 0.82" in words


@pytest.mark.slow
def test_standard_errors_shrink_with_draws():
    few, many = (
        result("m-ary", draws).figure("m = 3, 80 rows", "npo", "public") for draws in (4, 64)
    )
    assert len(many.values) == 64 and many.error < few.error
    np.testing.assert_array_equal(many.values[:4], few.values)
