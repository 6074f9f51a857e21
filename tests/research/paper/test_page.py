import re
from html.parser import HTMLParser

import pytest
from support.reproductions import COMMAND, ORIGINS, make_page

from research.paper.pictures import svg_of
from research.paper.report import render_page
from research.reproduce import EXPERIMENTS

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Nesting(HTMLParser):
    """Notes every element that is closed out of turn."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.ids, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[key] for key in ("href", "src") if key in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.fixture(scope="module")
def made():
    return make_page()


@pytest.mark.slow
def test_the_page_is_well_formed_and_its_ids_are_its_own(made):
    found = Nesting()
    found.feed(made[1])
    assert not found.wrong and not found.open
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)


@pytest.mark.slow
def test_the_page_loads_and_runs_nothing(made):
    page = made[1]
    assert "<script" not in page and "<link" not in page and "<img" not in page
    assert " style=" not in page and "@import" not in page
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_every_table_choice_and_finding_is_on_the_page(made):
    results, page = made
    for each in results:
        assert f'id="{each.name}"' in page and each.title in page
        assert page.count("<li>") > sum(len(one.choices) for one in results)
    assert page.count("<svg") == len(results) - 1
    assert "printed 37.67 %" in page and "printed 0.0362" in page
    assert (
        "python -m research.reproduce --all" in page and "numpy" in page and "seeds 0 to 2" in page
    )


@pytest.mark.slow
def test_what_did_not_run_is_marked_and_its_reason_is_no_markup(made):
    page = made[1]
    assert "Not run here." in page and "No &lt;such&gt; file." in page and "<such>" not in page


@pytest.mark.slow
def test_the_same_results_give_the_same_page(made):
    pictures = {
        each.name: svg_of(EXPERIMENTS[each.name].picture, each)
        for each in made[0]
        if each.not_run is None
    }
    assert render_page(made[0], ORIGINS, pictures, COMMAND) == made[1]
