"""The figures of a bench: what they draw, and that a grid stays readable."""

import pytest
from build_run import append, begin, latency, measured, workload

from assay.reports import style
from assay.reports.chart import Chart, ChartGroup, Series, grouped
from assay.reports.contents import read_contents
from assay.reports.extensions import draw_charts
from assay.reports.figures import crossover, memory, roofline, throughput
from assay.reports.figures import latency as latency_figure
from assay.reports.interactive import figure_json
from assay.reports.printed import png


@pytest.fixture
def records(tmp_path):
    """Two lengths, two batches; the eager baseline ends at the longer length of batch 4."""
    run = begin(tmp_path / "run")
    ceilings = [
        measured("matmul_rate", 2.0, "TFLOP/s", "cpu", workload=None),
        measured("read_bandwidth", 100.0, "GB/s", "cpu", workload=None),
    ]
    append(run, "host", "cpu", *ceilings)
    ended = {"status": "oom", "reason": "16 GiB wanted"}
    for batch in (1, 4):
        for length in (128, 256):
            where = {"workload": workload(length, batch=batch)}
            cell = []
            for subject, slow in (("eager", 2.0), ("sdpa", 1.0)):
                if (subject, batch, length) == ("eager", 4, 256):
                    cell.append(measured("latency", None, "", subject, **where, **ended))
                    continue
                cell += [
                    latency(subject, [slow, slow * 1.5] * 3, **where),
                    measured("forward_flops", 1e9, "FLOP", subject, **where),
                    measured("forward_bytes", 1e7, "B", subject, **where),
                    measured("forward_peak_bytes", slow * length * 2**20, "B", subject, **where),
                ]
            append(run, "bench", where["workload"].name, *cell)
    return read_contents(run).records


def by_subject(chart):
    return {series.subject: series for series in chart.series}


def test_throughput_has_the_ceiling_and_says_tokens_and_bytes(records):
    charts = throughput.draw(records)
    assert [chart.panel for chart in charts] == ["batch 1", "batch 4"]
    sdpa = by_subject(charts[0])["sdpa"]
    assert sdpa.x == (128, 256) and sdpa.y[0] == pytest.approx(1e9 / 1.25e-3 / 1e12)
    assert charts[0].limit == pytest.approx(2.0)
    assert "tokens/s" in sdpa.hints[0] and "GB/s" in sdpa.hints[0]


def test_memory_is_drawn_over_length_in_both_logarithms(records):
    [first, _] = memory.draw(records)
    assert first.log_x and first.log_y
    assert by_subject(first)["eager"].y == (256.0, 512.0)


def test_crossover_is_held_against_one(records):
    [first, second] = crossover.draw(records)
    assert first.limit == 1.0 and list(by_subject(first)) == ["sdpa"]
    assert by_subject(first)["sdpa"].y == (0.5, 0.5)
    assert by_subject(first)["sdpa"].low == (0.5, 0.5)
    assert by_subject(second)["sdpa"].x == (128,), "no ratio where the baseline has no time"


def test_a_crossing_is_said_in_words(tmp_path):
    run = begin(tmp_path)
    for length, ours in ((128, 4.0), (512, 1.0)):
        pair = [latency(name, [t] * 6, length) for name, t in (("a", 2.0), ("b", ours))]
        append(run, "bench", workload(length).name, *pair)
    [chart] = crossover.draw(read_contents(run).records)
    assert "b overtakes at 256 tokens" in chart.note


def test_roofline_bends_where_the_ceilings_meet(records):
    [first, _] = roofline.draw(records)
    slope, flat = first.curves
    assert slope.x[1] == flat.x[0] == pytest.approx(20.0)  # 2 TFLOP/s over 100 GB/s
    assert slope.y[1] == pytest.approx(2.0) and flat.y == (slope.y[1],) * 2
    assert slope.y[0] == pytest.approx(slope.x[0] * 0.1)
    assert by_subject(first)["sdpa"].x == (100.0, 100.0)


def test_without_ceilings_there_is_no_roofline(records):
    assert roofline.draw([r for r in records if r.stage != "host"]) == []
    charts = throughput.draw([r for r in records if r.stage != "host"])
    assert charts and all(chart.limit is None for chart in charts)


def test_a_grid_is_few_figures_however_many_workloads(records):
    groups = grouped(draw_charts(records)[0])
    assert [group.file_stem for group in groups] == [
        "throughput_bench",
        "crossover_bench",
        "latency_bench",
        "roofline_bench",
        "memory_bench",
    ]
    assert all(len(group.charts) == 2 for group in groups)


def test_fifteen_subjects_all_look_different():
    names = [f"s{i}" for i in range(15)]
    drawn = tuple(Series(subject=name, x=(1, 2), y=(1.0, 2.0)) for name in names)
    chart = Chart(name="c", title="", x_label="", y_label="", series=drawn)
    styles = style.series_styles(chart, style.colours(names))
    assert len(set(styles)) == 15
    assert len({(each.colour, each.dash) for each in styles}) == 15


def test_a_subject_keeps_its_colour_from_chart_to_chart(records):
    """Also where a chart lacks a subject that others have."""
    charts, _ = draw_charts(records)
    colours = style.colours(s.subject for chart in charts for s in chart.series)
    for chart in charts:
        styles = style.series_styles(chart, colours)
        assert [each.colour for each in styles] == [colours[s.subject] for s in chart.series]


@pytest.mark.parametrize("figure", [throughput, crossover, latency_figure, memory, roofline])
def test_both_libraries_draw_them(records, figure):
    charts = figure.draw(records)
    colours = style.colours(s.subject for chart in charts for s in chart.series)
    assert all('"data"' in figure_json(chart, colours) for chart in charts)
    assert png(ChartGroup(charts=tuple(charts)), colours).startswith(b"\x89PNG")
