"""The page for a keyboard, for a screen reader, on a phone, and at first sight."""

import json
import re
import shutil
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import pytest

from assay.host import CHECKOUT
from assay.records.run import RunFolder
from assay.reports.build import build
from assay.reports.interactive import plotly_script

VOID = {"meta", "wbr"}
HEADINGS = ("h1", "h2", "h3")


class Outline(HTMLParser):
    """The elements of a page in order, each a tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(run):
    return build(run).html.read_text().replace(plotly_script(), "")


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    """The page of a kept run in which all is ok."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    shutil.copytree(CHECKOUT / "evidence" / "quickstart-cpu", folder)
    return page_of(RunFolder(path=folder))


def test_what_a_screen_reader_walks_through_is_in_order(passed):
    outline = Outline(passed)
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in outline.elements if tag in HEADINGS]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    (skip,) = outline.all("a")
    assert outline.elements.index(("a", skip)) < outline.elements.index(("h1", {}))
    assert {"id": skip["href"][1:], "tabindex": "-1"} in outline.all("main")


def test_every_table_has_a_name_and_headers_of_columns_and_rows(passed):
    outline = Outline(passed)
    tables, rows = outline.all("table"), outline.all("tr")
    assert len(tables) == len(outline.all("caption")) > 3
    scopes = [attributes["scope"] for attributes in outline.all("th")]
    assert set(scopes) == {"col", "row"} and scopes.count("row") == len(rows) - len(tables)


def test_a_keyboard_reaches_what_scrolls_and_is_trapped_nowhere(passed):
    outline = Outline(passed)
    scrolling = [e for e in outline.all("div") if e.get("class") == "scroll"]
    assert all(e["tabindex"] == "0" and e["aria-label"] for e in scrolling) and scrolling
    orders = {e["tabindex"] for _, e in outline.elements if "tabindex" in e}
    assert orders <= {"0", "-1"}
    assert all(e.get("type") == "button" for e in outline.all("button"))
    assert len([e for e in outline.all("button") if "data-copy" in e]) == 2 * len(scrolling)


def test_every_chart_is_told_in_words(passed):
    charts = [e for e in Outline(passed).all("div") if e.get("class") == "chart"]
    assert charts and all(e["role"] == "img" for e in charts)
    first = charts[0]["aria-label"]
    assert first.startswith("Forward time relative to eager") and "key length" in first
    assert "for sdpa" in first


def test_the_first_screen_has_the_answer_two_figures_and_the_table(passed):
    parts = ("faster than eager", 'id="summary"', "<figure", "<figure", "<h3>Speed", 'id="figures"')
    at = -1
    for part in parts:
        at = passed.index(part, at + 1)


def test_what_failed_comes_before_the_figures(run):
    page = page_of(run)
    assert page.index('id="outcomes"') < page.index('id="summary"')


def test_no_figure_is_wider_than_a_phone(passed):
    """A column of figures may be narrower than its least width, and a chart takes its column's."""
    css = files("assay.reports").joinpath("page", "page.css").read_text()
    assert 'name="viewport" content="width=device-width' in passed
    columns = re.findall(r"minmax\(\s*([^,]*\)?)", css)
    assert columns and all(column.startswith("min(100%") for column in columns)
    figures = re.findall(r'id="figure-[^"]*">(.*?)</script>', passed, re.DOTALL)
    layouts = [json.loads(figure)["layout"] for figure in figures]
    assert layouts and all(each["autosize"] and "width" not in each for each in layouts)
