"""The page about captured calls: drawings that are sound SVG, small, and in the page's colours."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import captured_calls as made
import pytest

from assay.captures.inspect.drawing import HeatMap, HistogramPlot, heat_map, histogram_plot
from assay.captures.inspect.inspection import inspect_path
from assay.captures.inspect.page import page
from assay.captures.store import Store


def parsed(svg):
    return ElementTree.fromstring(svg)


def texts(svg):
    return ["".join(element.itertext()) for element in parsed(svg).iter("text")]


def heat(cells, **more):
    labels = {"low_text": "0", "high_text": "1", "row_label": "layer", "column_label": "head"}
    return HeatMap(cells=cells, low=0.0, high=1.0, **{**labels, **more})


def covered(svg):
    """Number of cells that each opacity covers, in a map without hints."""
    cells = {}
    for path in parsed(svg).iter("path"):
        if path.get("class") == "heat":
            widths = re.findall(r"h(\d+)v1", path.get("d"))
            cells[float(path.get("fill-opacity"))] = sum(map(int, widths))
    return cells


def test_cells_of_a_colour_are_one_path():
    svg = heat_map(heat(((0.0, 1.0, 1.0), (1.0, 0.5, None))), label="map")
    assert covered(svg) == {1.0: 3, 0.5: 1}  # zero and None are left to the ground


def test_values_beyond_the_scale_are_at_its_ends():
    svg = heat_map(heat(((-3.0, 9.0, float("nan")),)), label="map")
    assert covered(svg) == {1.0: 1}


def test_hints_say_what_a_cell_is():
    svg = heat_map(heat(((0.2, None),), hints=(("layer 0 <b>", "none"),)), label="map")
    titles = [element.text for element in parsed(svg).iter("title")]
    assert titles == ["layer 0 <b>", "none"]


@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 256), (80, 64), (1, 48)])
def test_labels_keep_apart(rows, columns):
    svg = heat_map(heat(((0.5,) * columns,) * rows), label="map")
    places = [
        (float(e.get("x")), float(e.get("y")))
        for e in parsed(svg).iter("text")
        if e.get("text-anchor") == "middle" and (e.text or "").isdigit()
    ]
    along = sorted(x for x, _ in places)
    assert all(b - a >= 14 for a, b in pairwise(along))
    height = float(parsed(svg).get("viewBox").split()[3])
    assert height < 560


def test_a_coarse_map_is_labelled_by_places():
    svg = heat_map(
        heat(((0.5,) * 48,) * 48, square=True, row_places=480, column_places=960), label="map"
    )
    assert "900" in texts(svg) and "475" in texts(svg) and "47" not in texts(svg)


def shares(*values, **more):
    made = HistogramPlot(
        low=-2.0,
        width=1.0,
        shares={"k": values},
        ticks=((0.0, "0"),),
        x_label="size",
        **more,
    )
    return histogram_plot(made, label="sizes")


def outline(svg):
    """Heights of the only outline in a plot, from bin to bin."""
    curves = [path for path in parsed(svg).iter("path") if path.get("class") == "curve"]
    (steps,) = [path.get("d") for path in curves if "V" in path.get("d")]
    return [float(y) for y in re.findall(r"V([\d.]+)", steps)]


def test_an_outline_steps_over_its_bins():
    svg = shares(0.0, 0.25, 0.75, 0.0)
    heights = outline(svg)
    ground = heights[-1]
    assert ground - heights[1] == pytest.approx(3 * (ground - heights[0]), rel=0.02)


def test_a_logarithmic_axis_keeps_small_shares_visible():
    svg = shares(1e-5, 0.5, 0.5, 0.0, log_floor=1e-7)
    heights = outline(svg)
    assert heights[-1] - heights[0] > 40
    assert "10⁻⁵" in texts(svg)


def test_nothing_to_draw_is_no_error():
    assert "<svg" in shares(0.0, 0.0)


def page_of(store):
    return page(inspect_path(store.path, with_maps=True))


@pytest.fixture(scope="module")
def planted_page(tmp_path_factory):
    return page_of(made.planted(tmp_path_factory.mktemp("page") / "store"))


def test_the_page_needs_no_network_and_has_both_colours(tmp_path):
    store = Store.create(tmp_path / "store")
    made.add(store, made.call())
    html = page_of(store)
    assert not re.search(r'(src|href)="(?!#)', html) and "url(" not in html
    assert "prefers-color-scheme: dark" in html and "--heat" in html
    assert "plotly" not in html[:2000].lower() and len(html) < 60_000


def test_sentences_come_first_and_names_stay_text(tmp_path):
    store = Store.create(tmp_path / "store")
    made.add(store, made.call(plant=made.plant_outliers), layer=-1, site="<b>&")
    html = page_of(store)
    assert html.index("&lt;b&gt;&amp;: 2 key channels") < html.index("<svg")
    assert "<b>" not in html


def test_the_layer_with_the_largest_outlier_is_shown_at_first(planted_page):
    assert planted_page.count("<option selected>layer 1</option>") == 4
    panels = re.findall(r'data-panel="(layer \d)"( hidden)?', planted_page)
    assert panels == 4 * [("layer 0", " hidden"), ("layer 1", ""), ("layer 2", " hidden")]


def test_two_modules_of_one_layer_have_panels_of_their_own(tmp_path):
    """Panels were named by their layer, so one of cross- and self-attention was lost."""
    store = Store.create(tmp_path / "store")
    for site in ("self", "cross"):
        made.add(store, made.call(), site=site)
    panels = re.findall(r'data-panel="(layer [^"]*)"', page_of(store))
    assert panels == 4 * ["layer 0 cross", "layer 0 self"]


def test_figures_without_drawings_are_left_out(tmp_path, planted_page):
    html = page_of(made.planted(tmp_path / "store", steps=1, mode="stats"))
    assert "Layer by layer" in planted_page and "<figure>" in planted_page
    assert "Layer by layer" not in html and "<figure>" not in html
