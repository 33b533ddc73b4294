"""Charts before any library draws them: panels, series and what is left off."""

import pytest
from build_run import append, begin, checked, end, latency, workload

from assay.reports import style
from assay.reports.build import build
from assay.reports.chart import Chart, Series, grouped, log_ticks, spaced_ticks
from assay.reports.contents import read_contents
from assay.reports.figures import accuracy
from assay.reports.figures import latency as latency_figure


def test_latency_is_the_median_with_quartiles_in_order_of_length(run):
    [chart] = latency_figure.draw(read_contents(run).records)
    sdpa = next(series for series in chart.series if series.subject == "sdpa")
    assert (sdpa.x, sdpa.y) == ((128, 256), (2.0, 2.5))
    assert (sdpa.low, sdpa.high) == ((1.5, 2.0), (3.0, 3.0))
    assert chart.log_x and chart.log_y


def test_a_curve_that_ends_early_says_why(run):
    [chart] = latency_figure.draw(read_contents(run).records)
    assert "not drawn" in chart.note and "(oom)" in chart.note


def test_a_crash_under_its_probes_name_is_named_too(tmp_path):
    run = begin(tmp_path)
    crash = latency("eager", [], metric="latency", unit="", status="failed", reason="signal 11")
    append(run, "bench", "k128", crash, latency("sdpa", [1.0, 2.0]))
    [chart] = latency_figure.draw(read_contents(run).records)
    assert "not drawn: eager at 128 (failed)" in chart.note
    assert [series.subject for series in chart.series] == ["sdpa"]


@pytest.mark.parametrize(
    ("name", "values", "panels"),
    [
        ("batch", (1, 4), ["batch 1", "batch 4"]),
        ("dtype", ("float32", "bfloat16"), ["float32", "bfloat16"]),
        ("causal", (True, False), ["causal", "full"]),
    ],
)
def test_workloads_that_differ_in_more_than_length_are_panels(tmp_path, name, values, panels):
    run = begin(tmp_path)
    for value in values:
        for length in (128, 256):
            identity = workload(length, **{name: value})
            append(run, "bench", identity.name, latency("sdpa", [1.0, 2.0], workload=identity))
    charts = latency_figure.draw(read_contents(run).records)
    assert [chart.panel for chart in charts] == panels
    assert len({chart.file_stem for chart in charts}) == 2
    assert [group.file_stem for group in grouped(charts)] == ["latency_bench"]
    assert all("heads 8/2" in chart.note and panels[0] not in chart.note for chart in charts)
    assert all(series.x == (128, 256) for chart in charts for series in chart.series)


def test_a_single_length_lists_the_subjects(tmp_path):
    run = begin(tmp_path)
    append(run, "bench", "k128", latency("eager", [2.0, 3.0]), latency("sdpa", [1.0, 2.0]))
    [chart] = latency_figure.draw(read_contents(run).records)
    assert chart.listed and chart.names_itself and chart.x_values == ["eager", "sdpa"]


def test_accuracy_draws_the_budget_and_what_exceeds_it(run):
    [chart] = accuracy.draw(read_contents(run).records)
    assert chart.limit == 1.0 and chart.log_y
    drawn = {(series.subject, series.variant): series.y for series in chart.series}
    assert drawn["sdpa", "dq"] == (4.5,) and drawn["sdpa", "out"] == (0.25, 0.25, 0.25)


def test_a_check_of_one_workload_needs_no_figure(tmp_path):
    """Its four errors are in the table, and the page held 4.9 MB for four points."""
    run = begin(tmp_path)
    append(run, "check", "one", checked("sdpa"))
    end(run, "check")
    assert build(run, prints=False).html.stat().st_size < 100_000


def test_exact_results_are_drawn_unless_the_axis_has_no_zero(tmp_path):
    run = begin(tmp_path)
    append(run, "check", "one", checked("sdpa", 1, value=0.0), checked("sdpa", value=0.5))
    [chart] = accuracy.draw(read_contents(run).records)
    assert chart.series[0].y == (0.0, 0.5) and not chart.log_y
    assert chart.series[0].x == ("q1_k1", "q128_k128")
    append(run, "check", "two", checked("eager", value=9.0))
    [chart] = accuracy.draw(read_contents(run).records)
    assert chart.log_y and "1 error of exactly zero" in chart.note


def test_colours_are_fixed_by_sorted_subjects_and_distinct():
    colours = style.colours(["sdpa", "eager", "sdpa"])
    assert colours == {"eager": style.PALETTE[0], "sdpa": style.PALETTE[1]}
    assert len(set(style.PALETTE)) == len(style.PALETTE)


@pytest.mark.parametrize("page", [style.LIGHT, style.DARK])
def test_colours_keep_their_contrast_on_both_pages(page):
    """WCAG 2.1 asks 3:1 of lines and 4.5:1 of text."""
    for colour in style.PALETTE:
        assert contrast(colour, page["page"]) >= 3
    for name in ("ink", "quiet", "failed", "warned", "ok", "limit"):
        assert min(contrast(page[name], page[back]) for back in ("page", "raised")) >= 4.5, name


def test_a_series_that_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="2 x, 1 y"):
        Series(subject="a", x=(1, 2), y=(1.0,))
    flat = Series(subject="a", x=(1,), y=(0.0,))
    with pytest.raises(ValueError, match="logarithmic"):
        Chart(name="c", title="", x_label="", y_label="", series=(flat,), log_y=True)


@pytest.mark.parametrize("values", [[0.3], [1.0], [0.24, 36.0], [1e-7, 1e9]])
def test_ticks_enclose_the_values(values):
    ticks = log_ticks(values)
    assert ticks[0] <= min(values) and max(values) <= ticks[-1] and len(ticks) <= 10


def test_ticks_that_would_touch_are_left_out():
    assert spaced_ticks([1, 63, 111, 128, 4096]) == [1, 63, 128, 4096]
    assert spaced_ticks([5]) == [5] and spaced_ticks([]) == []


def test_stages_that_measure_the_same_do_not_share_a_file(tmp_path):
    run = begin(tmp_path)
    for stage in ("bench", "replay"):
        append(run, stage, "k128", latency("sdpa", [1.0, 2.0]))
        end(run, stage)
    charts = latency_figure.draw(read_contents(run).records)
    assert len({chart.file_stem for chart in charts}) == 2


def contrast(colour, background):
    lighter, darker = sorted(map(luminance, (colour, background)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    """Relative luminance as WCAG 2.1 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
