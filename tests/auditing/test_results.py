"""An audit in Python: short in a console, whole in a notebook, a picture, a table and a page."""

from dataclasses import replace

import numpy as np
import pytest
from support.report_cases import hostile, private

import discreet
from discreet.auditing.audit import audit_checked_data
from discreet.auditing.audit_file import BEYOND, AuditSummary, draw_audit
from discreet.auditing.data import AuditOptions
from research.paper.synthetic import SENSORS


def texts(figure):
    """What stands above each bar: the fact, and how far it is known."""
    return [f"{axes.get_title(loc='left')}: {axes.get_title(loc='right')}" for axes in figure.axes]


def test_an_audit_is_short_in_a_console_and_names_its_verdict():
    audit, data = private()
    assert repr(audit) == f"<Audit of {data.mapping.id[7:13]}: WITHIN LIMITS, 1200 rows>"


def test_the_frame_has_every_fact_in_one_unit():
    audit, _ = private()
    frame = audit.to_frame()
    assert list(frame.index) == ["h", "g"] and list(frame["role"]) == ["public", "private"]
    bound = audit.private[0].certificate("advantage").bound
    assert frame.loc["g", "at_most"] == bound and frame.loc["g", "at_least"] >= 0
    assert frame.loc["h", "at_least"] == pytest.approx(audit.public.balanced.low - 0.5)


@pytest.mark.slow
def test_the_report_can_be_had_without_a_command_and_a_notebook_escapes_names():
    assert "Checked by" in private()[0].to_html()
    shown = hostile()[0]._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_the_picture_shows_the_answer_every_secret_and_what_is_certified():
    audit, _ = private()
    bound = audit.private[0].certificate("advantage").bound
    found = texts(audit.plot())
    assert found[0] == f"h: answered right in {100 * audit.public.balanced.estimate:.1f} %"
    shown = float(found[1].removeprefix("g: nobody is right beyond ").removesuffix(" %"))
    assert 50 + 100 * bound <= shown <= 50.1 + 100 * bound
    lines = [line.get_xdata()[0] for line in audit.plot().axes[1].lines]
    assert pytest.approx(70) in lines  # the limit


def with_bound(audit, name, limit, classes, value):
    """Return an audit as a picture sees it, with a limit of that name and such a bound."""
    content = audit.to_dict()
    fact, check = content["private"][0], content["limits"][0]
    fact["classes"] = classes
    for each in (*fact["certificates"], fact["beyond_answer"]["total"]):
        if each["name"] == name:
            each["value"] = value
    check["name"], check["limit"] = name, limit
    return AuditSummary.model_validate(content)


@pytest.mark.parametrize(
    ("name", "classes", "said"),
    [
        ("advantage", ["a", "b"], "nobody is right beyond 71.9 %"),
        ("advantage", list("abcdefgh"), "nobody beats guessing by more than 21.9 points"),
        (BEYOND, ["a", "b"], "nobody who knows the answer is right beyond 71.9 %"),
    ],
)
def test_the_picture_quotes_the_bound_as_the_report_does(name, classes, said):
    found = with_bound(private()[0], name, 0.3, classes, 0.21865)
    assert texts(draw_audit(found))[1] == f"g: {said}"
    name, _, beside = texts(draw_audit(found, names={"g": 60 * "n"}))[1].partition(": ")
    assert beside == said and len(name) + len(said) <= 70  # they do not meet


def test_the_picture_calls_nothing_certain_that_is_not():
    content = private()[0].to_dict()
    content["example"][0] |= {"row": [0.002, 0.998], "symbol": 1}
    content["example"][1] |= {"row": [0.0, 1.0], "symbol": 1}
    figure = draw_audit(AuditSummary.model_validate(content))
    written = [each.get_text() for each in figure.axes[-1].texts]
    assert "1: > 99 %" in written and written.count("1: 100 %") >= 1


def test_the_picture_has_a_report_made_of_the_tables_and_of_no_row():
    audit, data = private()
    content = audit.to_dict()
    assert content["sensors"] == len(content["example"]) == 4
    for each, sensor, table in zip(
        content["example"], data.mapping.sensors, data.mapping.tables, strict=True
    ):
        code = sensor.encoder.labels().index(each["reading"])
        assert each["sensor"] == sensor.name and each["row"] == table[code].tolist()
        assert each["row"][each["symbol"]] > 0
    again = replace(audit, rows=1).to_dict()["example"]
    assert again == content["example"]
    names = {"h": "Is it warm?", "g": "Who is it?"}
    figure = draw_audit(AuditSummary.model_validate(content), "A title", names)
    written = [each.get_text() for each in figure.axes[-1].texts]
    assert "sends" in written and SENSORS[0] in written and figure.get_suptitle() == "A title"
    assert [each.partition(":")[0] for each in texts(figure)[:2]] == ["Is it warm?", "Who is it?"]


@pytest.mark.parametrize(
    ("case", "title"),
    [(private, "The sensors tell h. They hardly tell g."),
     (hostile, "What the sensors send, and what it tells")],
)  # fmt: skip
def test_the_picture_claims_only_what_is_certified(case, title):
    assert case()[0].plot().get_suptitle() == title


def test_of_many_sensors_and_symbols_a_few_are_drawn_and_the_rest_counted():
    content = private()[0].to_dict()
    one = {"sensor": "n" * 500, "reading": "r" * 500, "row": [1 / 256] * 256, "symbol": 255}
    found = AuditSummary.model_validate(content | {"example": [one] * 4, "sensors": 104})
    written = [each.get_text() for each in draw_audit(found).axes[-1].texts]
    assert "and 100 more" in written and max(map(len, written)) < 40


def legend(figure):
    return figure.subfigs[-1].get_supxlabel()


def marks(figure):
    """Where the lines and the dots of the first secret are."""
    return [line.get_xdata()[0] for line in figure.axes[1].lines]


def test_the_picture_has_the_strongest_attackers_as_the_report_has():
    audit, _ = private()
    attacks = audit.private[0].attacks
    for results in (attacks.symbols, attacks.readings):
        ran = [each.balanced_accuracy for each in results if each.balanced_accuracy]
        assert pytest.approx(100 * max(each.estimate for each in ran)) in marks(audit.plot())


SPANS = {
    "not shown": ({"max_advantage": 0.01}, "limit 1 point, NOT SHOWN to be kept", "one report"),
    "a day": ({"max_advantage": 0.1, "rounds": 96, "stay": np.array([0.9])},
              "limit 10 points, NOT SHOWN to be kept", "96 rounds"),
    "reports": ({"max_advantage": 0.4, "releases": 3}, "nothing is certified", "3 reports"),
    "no limit": ({}, "no limit was stated", "one report"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "said", "span"), SPANS.values(), ids=SPANS)
def test_the_picture_has_every_limit_that_was_stated_and_what_came_of_it(asked, said, span):
    _, data = private()
    found = audit_checked_data(data, AuditOptions(**asked))
    figure = found.plot()
    assert said in legend(figure) and figure.get_supxlabel().endswith(f"for {span}")
    if found.limits:
        assert pytest.approx(50 + 100 * asked["max_advantage"]) in marks(figure)
        upper = found.limits[0].upper
        assert upper is None or pytest.approx(50 + 100 * upper) in marks(figure)


def test_a_limit_that_is_kept_on_condition_says_so():
    content = private()[0].to_dict()
    assert "limit 20 points, kept   " in legend(draw_audit(AuditSummary.model_validate(content)))
    found = AuditSummary.model_validate(content | {"conditions": ["rows are fresh (declared)"]})
    assert "limit 20 points, kept on condition" in legend(draw_audit(found))


def test_a_limit_that_an_attacker_breaks_is_drawn_and_called_broken():
    content = private()[0].to_dict()
    content["limits"][0] |= {"limit": 0.001, "state": "broken"}
    figure = draw_audit(AuditSummary.model_validate(content))
    assert "limit 0.1 points, BROKEN by an attacker" in legend(figure)
    assert pytest.approx(50.1) in marks(figure)


def test_without_a_bound_the_picture_says_what_was_reached():
    audit, _ = private(40)
    nothing = replace(audit.private[0], certificates=())
    summary = AuditSummary.model_validate(replace(audit, private=(nothing,)).to_dict())
    assert texts(draw_audit(summary))[1].startswith("g: guessed right in ")


@pytest.mark.usefixtures("few_attackers")
@pytest.mark.slow
def test_a_mapper_can_be_audited_as_its_mapping_can(rng):
    who, fall = rng.integers(2, size=(2, 200))
    X = np.column_stack([fall, who]).astype(float)
    mapper = discreet.RandomizedResponseMapper(ldp_epsilon=1.0)
    with pytest.raises(ValueError, match="not fitted"):
        discreet.audit(mapper, X, fall, private=who)
    mapper.fit(X[:100], fall[:100], private=who[:100])
    rows = X[100:], fall[100:]
    found, same = (
        discreet.audit(each, *rows, private=who[100:]) for each in (mapper, mapper.mapping_)
    )
    assert found.verdict == same.verdict and found.to_frame().equals(same.to_frame())
