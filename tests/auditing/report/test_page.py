import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from support.report_cases import CATEGORIES, COMMAND, HOSTILE, PEOPLE, hostile, large, page, private

from discreet.auditing.audit_file import BEYOND, AuditSummary
from discreet.auditing.bounds.certificates import NotCertifiable
from discreet.auditing.bounds.intervals import Interval
from discreet.auditing.report.page import first_screen, render_report
from discreet.auditing.report.page import words as report_words
from discreet.auditing.report.pictures import draw_sensor, sensor_axis, tidy
from discreet.data.encoders import BinsEncoder, CategoriesEncoder
from discreet.errors import InputError
from discreet.mapping.parts import TOTAL, Sensor
from discreet.plots import embed_svg

CASES = {
    "private": (private,),
    "forty rows": (private, 40),
    "hostile": (hostile,),
    "16 sensors": (large, 16),
    "30 sensors": (large, 30),
}
MARKS = {"private": (), "forty rows": (), "16 sensors": pytest.mark.exhaustive}
each_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=MARKS.get(name, pytest.mark.slow))
        for name, case in CASES.items()
    ],
)
VOID = {"meta", "br", "img", "link", "hr", "input", "base"}


class Page(HTMLParser):
    """A page taken apart; it must be nested as it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.ids = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for key, value in attributes if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def attributes(self, name):
        return [found[name] for _, found in self.tags if name in found]


def text_of(case):
    return Page(page(*case)).text


@each_case
@pytest.mark.slow
def test_the_page_is_well_formed_and_every_reference_is_answered(case):
    found = Page(page(*case))
    assert len(set(found.ids)) == len(found.ids)
    for href in found.attributes("href"):
        assert href.startswith("data:image/png;base64,") or href[1:] in found.ids
    for label in found.attributes("aria-labelledby"):
        assert label in found.ids
    references = re.findall(r"url\(#([^)]+)\)", page(*case))
    assert references and set(references) <= set(found.ids)


@each_case
@pytest.mark.slow
def test_headings_come_in_order_and_tables_say_what_they_head(case):
    tags = Page(page(*case)).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(found.get("scope") in ("row", "col") for tag, found in tags if tag == "th")
    pictures = [found for tag, found in tags if tag == "svg"]
    assert all(p.get("role") == "img" or p.get("aria-hidden") == "true" for p in pictures)
    counts = [sum(tag == name for tag, _ in tags) for name in ("figure", "figcaption")]
    assert counts[0] == counts[1] > 3
    assert not [held for _, held in tags if "tabindex" in held]  # nothing scrolls by itself


@pytest.mark.slow
@each_case
def test_nothing_is_loaded_and_nothing_runs(case):
    text, found = page(*case), Page(page(*case))
    assert "http://" not in text and "https://" not in text
    kinds = {tag for tag, _ in found.tags}
    assert not kinds & {"script", "img", "link", "iframe", "object", "embed", "base", "form"}
    assert not found.attributes("src") and not found.attributes("style")
    assert not [key for _, held in found.tags for key in held if key.startswith("on")]
    policy = next(held["content"] for _, held in found.tags if "http-equiv" in held)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


@each_case
@pytest.mark.slow
def test_no_number_is_left_unsaid(case):
    assert not re.search(r"\b(nan|inf|NaN|Infinity|None)\b", page(*case))


@each_case
def test_the_page_is_small(case):
    size = len(page(*case).encode())
    assert size < 300_000, size


@pytest.mark.slow
def test_the_same_audit_gives_the_same_bytes():
    assert render_report(private()[0], command=COMMAND) == page(private)


def test_both_verdicts_come_first_then_the_attackers():
    text = text_of((private,))
    places = [text.index(each) for each in ("Private enough", "Useful", "Covers:", "Checked by",
              "Real attackers on", "Which sensors carry", "Limits, in plain words")]  # fmt: skip
    assert places == sorted(places)
    assert page(private).count('class="verdict good"') == 2


def test_the_first_screen_has_one_number_a_verdict_and_its_yardstick():
    audit, _ = private()
    found = first_screen(audit)
    bound = audit.private[0].certificate("advantage").bound
    shown = float(found.privacy.number.split()[0])
    assert 100 * bound <= shown <= 100 * bound + 0.1  # never less than what is certified
    assert found.privacy.yardstick == "You allowed 20\N{NO-BREAK SPACE}points."
    assert found.use.number == f"{100 * audit.public.balanced.estimate:.1f}\N{NO-BREAK SPACE}%"
    assert found.use.yardstick == "Guessing: 50.0\N{NO-BREAK SPACE}%."
    leak, answer = found.scales
    assert leak.bar == pytest.approx(200 * bound, abs=0.01) and leak.limit == 40
    ran = [each.balanced_accuracy for each in audit.private[0].attacks.readings]
    best = max(each.estimate for each in ran if each)
    assert leak.raw == pytest.approx(200 * (best - 0.5), abs=0.01)
    assert answer.interval[0] < answer.bar < answer.interval[1]
    assert found.span == "one report per sensor" and "many reports" in found.not_covered
    assert (found.recheck_by - date.fromisoformat(audit.date)).days == 30


def test_an_interval_reads_the_same_wherever_it_stands():
    """Its ends are rounded outwards: to the nearest, 68.787 would read as more than it is."""
    audit, _ = private()
    public = replace(audit.public, balanced=Interval(0.7512, 0.68787, 0.8104))
    text = Page(render_report(replace(audit, public=public))).text
    assert text.count("68.7 to 81.1") >= 2 and "68.8" not in text and "81.0" not in text


def with_readings(audit, *right):
    """Have attackers on the raw readings be right so often."""
    fact = audit.private[0]
    some = [each for each in fact.attacks.readings if each.balanced_accuracy][: len(right)]
    ran = [replace(each, balanced_accuracy=Interval(share, 0.0, 1.0))
           for each, share in zip(some, right, strict=True)]  # fmt: skip
    attacks = replace(fact.attacks, readings=tuple(ran))
    return replace(audit, private=(replace(fact, attacks=attacks),))


def test_the_diamond_is_the_best_attacker_on_readings_wherever_it_stands():
    audit = with_readings(private()[0], 0.586, 0.551)
    leak = first_screen(audit).scales[0]
    assert leak.keys[-1].words == "best attacker on raw readings: about 8.6\N{NO-BREAK SPACE}points"
    assert leak.raw == pytest.approx(2 * 8.6)
    summary = AuditSummary.model_validate(audit.to_dict())
    assert summary.private[0].strongest_on_readings == pytest.approx(0.086)
    diamonds = [line.get_xdata()[0] for line in audit.plot().axes[1].lines
                if line.get_marker() == "D"]  # fmt: skip
    assert diamonds == [pytest.approx(58.6)]
    assert "best attacker on raw readings in about 58.6 %" in (Page(render_report(audit)).text)


def test_an_attacker_who_knows_the_answer_is_named_at_the_bar():
    audit, _ = private()
    assert first_screen(audit).scales[0].what == "how far an attacker beats guessing"
    beyond = first_screen(with_limit(audit, name=BEYOND))
    assert beyond.scales[0].what == "how far an attacker who knows the answer beats guessing"


def test_readings_that_tell_nothing_have_no_diamond():
    audit = with_readings(private()[0], 0.48)
    leak = first_screen(audit).scales[0]
    assert leak.raw is None and leak.keys[-1].mark == ""
    assert leak.keys[-1].words == "best attacker on raw readings: no better than guessing"


def with_limit(audit, **changes):
    return replace(audit, limits=(replace(audit.limits[0], **changes),))


def test_the_overall_state_is_the_worse_of_the_two():
    audit, _ = private()
    useless = replace(audit, public=replace(audit.public, constant=True))
    on_word = replace(audit, conditions=("rows are independent (declared)",))
    broken = with_limit(audit, state="broken", lower=0.3)
    open_ = with_limit(audit, state="not shown")
    cases = (
        (audit, "good", "Private enough, useful"),
        (useless, "warn", "Not useful"),
        (on_word, "warn", "Private on condition"),
        (open_, "warn", "Not shown to be private"),
        (broken, "bad", "It leaks"),
        (replace(broken, public=useless.public), "bad", "It leaks"),
        (replace(audit, limits=()), "warn", "No limit was stated"),
    )
    for each, kind, headline in cases:
        found = first_screen(each)
        assert (found.kind, found.headline) == (kind, headline)
    assert first_screen(broken).privacy.number == "30.0\N{NO-BREAK SPACE}points"
    assert first_screen(replace(on_word, public=useless.public)).headline == (
        "Private on condition, not useful"
    )


@pytest.mark.slow
def test_a_condition_is_on_the_page():
    audit, _ = private()
    on_word = replace(audit, conditions=("rows are independent (declared)",))
    text = render_report(on_word, command=COMMAND)
    assert "verdict warn" in text
    assert "The verdict rests on this: rows are independent (declared)." in text


def test_a_leak_of_which_nothing_is_certified_fills_its_scale():
    audit, _ = private(40)
    found = first_screen(audit)
    assert found.privacy.number == "not known" and found.kind == "warn"
    leak = found.scales[0]
    assert leak.bar == 100 and not leak.sure and leak.keys[0].words == "nothing is certified"
    assert found.span == "24 reports of each sensor together"


def test_few_rows_are_called_few():
    text = text_of((private, 40))
    assert "At 40 to 180 rows no method can certify a useful ε" in text
    assert "At 40 to 180 rows" not in text_of((private,))


@pytest.mark.slow
def test_what_is_not_certifiable_says_so_and_why():
    audit, _ = large(30)
    found = audit.private[0].certificates
    reasons = [each.value for each in found if isinstance(each.value, NotCertifiable)]
    assert len(reasons) == len(found)
    text = text_of((large, 30))
    assert "What says nothing. Gain over guessing; How far two classes differ" in text
    assert all(f"not certifiable, because {each.reason}" in text for each in reasons)


def test_bounds_that_say_nothing_are_one_sentence():
    audit, _ = private()
    fact = audit.private[0]
    large = [replace(each, value=9.0) if "epsilon" in each.name else each
             for each in fact.certificates]  # fmt: skip
    table = report_words.bound_table(audit, replace(fact, certificates=tuple(large)))
    assert [row["title"] for row in table["rows"]][:1] == ["Gain over guessing"]
    assert not any(row["title"].endswith("ε") for row in table["rows"])
    said = " ".join(table["silent"])
    assert "What one output can change, ε" in said and "is above 7, too large to help" in said


def test_the_null_floor_stands_beside_the_estimate():
    audit, _ = private()
    plug_in = audit.private[0].plug_in
    told = f"would show {plug_in.null_low:.3f} to {plug_in.null_high:.3f} on the same rows"
    assert told in text_of((private,))
    assert not plug_in.beyond_chance and "no more than chance" in text_of((private,))


def test_budgets_of_the_paper_are_called_asymptotic():
    assert "asymptotic: beyond an unknown number of rows" in text_of((private,))


def test_a_certificate_has_a_date_and_expires():
    audit, _ = private()
    text = text_of((private,))
    assert (
        text.count(audit.date) >= 3
        and "Re-check by" in text
        and "It expires when that world changes" in text
    )


def test_the_page_tells_how_to_make_it_again():
    audit, data = private()
    text = text_of((private,))
    assert COMMAND in text and data.mapping.id in text
    assert audit.program in text and "discreet frontier TABLE --public h --private g --out" in text


def test_reports_over_time_are_added_up():
    text = text_of((private, 40))
    assert "over 24 reports" in text and "Independent readings" in text
    assert "over 24 reports" not in text_of((private,))


@pytest.mark.slow
def test_nobody_is_said_to_have_reached_nothing():
    audit, _ = private()
    fact = audit.private[0]
    for lower in (0.0, 0.02):
        best = replace(fact.attacks.best, lower=lower)
        shown = replace(fact, attacks=replace(fact.attacks, best=best))
        text = Page(render_report(replace(audit, private=(shown,)), command=COMMAND)).text
        assert ("gained nothing that is certain" in text) == (lower == 0)
        assert ("real attackers: at least 2.0" in text) == (lower > 0)
        assert not re.search(r"at least 0\.0", text)


@pytest.mark.slow
def test_hostile_names_are_shown_as_they_are():
    text = text_of((hostile,))
    for name in (*HOSTILE, *PEOPLE):
        assert tidy(name, 60) in text, name
    assert "49" not in HOSTILE[6] and "{{ 7 * 7 }}" in text
    for category in CATEGORIES:
        assert tidy(category, 18) in text, category
    assert "\u202e" not in page(hostile) and "\x00" not in page(hostile)


@pytest.mark.slow
def test_categories_show_the_unknown_and_the_missing():
    text = text_of((hostile,))
    assert "no reading" in text and "unknown" in text  # one category is called missing itself


@pytest.mark.slow
def test_all_private_facts_have_their_section():
    found = Page(page(hostile))
    assert {"fact-0", "fact-1"} <= set(found.ids)
    assert found.text.count("Real attackers on") == 2


@pytest.mark.slow
def test_of_many_sensors_the_telling_ones_are_drawn():
    audit, data = large(30)
    found = Page(page(large, 30))
    drawn = {int(name[7:]) for name in found.ids if re.fullmatch(r"sensor-\d+", name)}
    assert len(drawn) == 12
    parts = (*audit.private[0].contributions, *audit.public.contributions)
    most = max(parts, key=lambda each: each.alone).sensor
    assert data.mapping.names.index(most) in drawn
    assert all(name in found.text for name in data.mapping.names)


@pytest.mark.slow
def test_endless_lists_are_cut():
    audit, _ = private()
    fact = replace(audit.private[0], findings=tuple(f"finding {k}" for k in range(20_000)))
    other = replace(audit, private=(fact,), remarks=("long " * 100_000,))
    text = render_report(other, command=COMMAND)
    assert len(text) < 150_000 and "And 19970 more" in text


@pytest.mark.slow
def test_a_frontier_is_shown_in_place_of_the_single_point():
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10" onload="alert(1)">'
        '<script>alert(1)</script><path d="M 0 0 L 1.23456 1" style="stroke: #000000"/></svg>'
    )
    text = render_report(private()[0], command=COMMAND, frontier_svg=svg)
    found = Page(text)
    assert "alert" not in text and "discreet frontier TABLE" not in found.text
    assert '<path d="M0 0L1.23 1" stroke="currentColor" />' in text


# --- Pictures --------------------------------------------------------------------------------


def drawn(encoder, n_symbols=2):
    table = np.random.default_rng(0).dirichlet(np.ones(n_symbols), size=encoder.n_codes)
    weights = np.round(table * TOTAL).astype(np.int64)
    weights[:, 0] += TOTAL - weights.sum(axis=1)
    sensor = Sensor(name="s", encoder=encoder, symbols=n_symbols, weights=weights.tolist())
    return draw_sensor(sensor, weights / TOTAL, "p")


def test_bins_lie_where_they_are():
    axis = sensor_axis(BinsEncoder(edges=[10, 20, 40], missing=True), np.eye(5))
    assert axis.places[1:3] == ((10, 20), (20, 40))
    assert {(10, "10"), (20, "20"), (40, "40")} <= set(axis.ticks)
    assert axis.places[-1][0] > axis.places[-2][1]  # missing stands apart
    assert ">20<" in drawn(BinsEncoder(edges=[10, 20, 40]))


def test_bins_too_uneven_for_an_axis_keep_their_labels():
    axis = sensor_axis(BinsEncoder(edges=[-1e300, 0, 1e-9, 1e300]), np.eye(5))
    assert [label for _, label in axis.ticks] == ["−1e+300", "0", "1e−09", "1e+300"]
    assert "to scale" in axis.note


@pytest.mark.parametrize("codes", [1000, 20_000])
@pytest.mark.slow
def test_pictures_of_long_tables_stay_small(codes):
    categories = CategoriesEncoder(categories=list(range(codes)))
    for encoder in (BinsEncoder(edges=list(range(codes))), categories):
        assert len(drawn(encoder)) < 60_000
    assert "first 30 of" in sensor_axis(categories, np.zeros((codes + 1, 2))).note


@pytest.mark.parametrize("n_symbols", [6, 256])
@pytest.mark.slow
def test_as_many_pictures_as_a_page_may_have_stay_below_a_megabyte(n_symbols):
    size = len(drawn(BinsEncoder(edges=list(range(300)), missing=True), n_symbols))
    assert 12 * size < 800_000, size


def test_many_symbols_are_drawn_as_shades():
    assert "data:image/png;base64," in drawn(BinsEncoder(edges=[1, 2]), n_symbols=200)


def test_a_picture_of_another_kind_is_refused():
    for text in ("no picture", "<html/>", '<!DOCTYPE a [<!ENTITY b "c">]><svg/>'):
        with pytest.raises(InputError, match="picture 'x'"):
            embed_svg(text, name="x", title="")


def test_foreign_parts_of_a_picture_are_left_out():
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        '<a href="https://a.b"><text>x</text></a><image xlink:href="https://a.b/c.png"/>'
        '<rect fill="url(https://a.b/#c)" style="fill: url(https://a.b); stroke: #ffffff"/>'
        '<use xlink:href="#gone"/><foreignObject><p>x</p></foreignObject></svg>'
    )
    found = embed_svg(svg, name="x", title="<t>")
    assert "a.b" not in found and "foreign" not in found and "gone" not in found
    assert "&lt;t&gt;" in found and 'stroke="var(--page)"' in found


@pytest.mark.parametrize(
    ("share", "told"), [(0.0, "0"), (1.0, "1"), (1e-9, "< 0.001"), (1 - 1e-9, "> 0.999")]
)
def test_a_possible_symbol_never_reads_as_impossible(share, told):
    assert report_words.probability(share) == told


def test_bounds_beyond_rare_outputs_that_are_no_smaller_fold_into_a_sentence():
    audit, _ = private()
    fact = audit.private[0]
    whole = fact.certificate("information epsilon")
    same = [replace(each, value=whole.value) if "beyond" in each.name else each
            for each in fact.certificates]  # fmt: skip
    table = report_words.bound_table(audit, replace(fact, certificates=tuple(same)))
    assert not any(row["title"].startswith("The same") for row in table["rows"])
    assert any(each.endswith("no smaller than with them") for each in table["silent"])
