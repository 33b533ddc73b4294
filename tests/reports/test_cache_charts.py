"""Figures of caches: what is drawn is what the rows say, at 300 DPI, in one dtype."""

import json
import struct

import pytest
from matplotlib.axes import Axes

from assay.errors import BadInput
from assay.reports import style
from assay.reports.cache_charts import ROWS, draw, growth_chart, share_chart
from assay.reports.chart import Chart, Series
from assay.reports.interactive import figure_json
from assay.reports.row_files import read_rows, write_rows

PER_TOKEN = {("GPT2", "dense"): 36864, ("GPT2_MLA", "mla_latent"): 6144}


def rows(dtype="bfloat16", measured=(256, 512), longer=(1024, 2048)):
    return [
        {
            "model": model, "layout": layout, "dtype": dtype, "tokens": tokens,
            "measured": size * tokens if tokens in measured else None, "formula": size * tokens,
            "commit": "0123456789ab",
        }
        for (model, layout), size in PER_TOKEN.items()
        for tokens in (*measured, *longer)
    ]  # fmt: skip


@pytest.fixture
def drawn(monkeypatch):
    """Whatever matplotlib is given to draw, by its label; it is drawn all the same."""
    points = {}

    def recorded(method):
        plain = getattr(Axes, method)

        def draw_and_record(axes, x, y, **options):
            points[options["label"]] = (tuple(x), tuple(y))
            return plain(axes, x, y, **options)

        monkeypatch.setattr(Axes, method, draw_and_record)

    recorded("errorbar")
    recorded("barh")
    return points


def test_the_points_drawn_are_those_of_the_rows(tmp_path, drawn):
    write_rows(tmp_path / ROWS, rows())
    draw(tmp_path)
    assert drawn == {
        "GPT2 dense, measured": ((256, 512), (9, 18)),
        "GPT2 dense, formula": ((256, 512, 1024, 2048), (9, 18, 36, 72)),
        "GPT2_MLA mla_latent, measured": ((256, 512), (1.5, 3)),
        "GPT2_MLA mla_latent, formula": ((256, 512, 1024, 2048), (1.5, 3, 6, 12)),
        "GPT2 dense": (("GPT2 dense",), (1,)),
        "GPT2_MLA mla_latent": (("GPT2_MLA mla_latent",), (1 / 6,)),
    }


def test_figures_are_at_300_dpi_and_name_their_source(tmp_path):
    write_rows(tmp_path / ROWS, rows())
    draw(tmp_path)
    for name in ("cache_bytes.png", "cache_shares.png"):
        png = (tmp_path / name).read_bytes()
        at = png.index(b"pHYs") + 4
        assert struct.unpack(">IIB", png[at : at + 9]) == (11811, 11811, 1)  # 300 / 0.0254
        assert b"commit 0123456789ab" in png


def test_the_dtype_is_in_both_titles():
    """Published figures set KVSplice in single precision beside GPT-2 in half: 36 to 6 MiB, where
    one dtype gives 36 to 3."""
    for chart in (growth_chart(rows()), share_chart(rows())):
        assert "bfloat16" in chart.title
    mixed = [*rows(), *rows("float32")]
    for chart in (growth_chart, share_chart):
        with pytest.raises(BadInput, match="bfloat16 and float32; a figure compares caches of one"):
            chart(mixed)


def test_bars_are_bars_on_the_page_too():
    chart = share_chart(rows())
    page = json.loads(figure_json(chart, style.colours(s.subject for s in chart.series)))
    assert [(trace["type"], trace["x"]) for trace in page["data"]] == [
        ("bar", [1]),
        ("bar", [1 / 6]),
    ]


def test_bars_need_a_list_and_a_zero():
    for x, log in (((1.0,), False), (("a",), True)):
        with pytest.raises(ValueError, match="has bars, which need"):
            Chart(
                name="c", title="", x_label="", y_label="", log_y=log, bars=True,
                series=(Series(subject="a", x=x, y=(1.0,)),),
            )  # fmt: skip


def test_rows_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / ROWS).write_text("{\n")
    with pytest.raises(BadInput, match="cannot be read as JSON lines"):
        read_rows(tmp_path / ROWS)
