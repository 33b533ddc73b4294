"""A metric that no table knows is in a table and a figure, without a second file."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from build_run import append, begin, checked, end, latency, measured, workload

from assay import plugins
from assay.records.run import RunFolder, load_records
from assay.reports.build import build
from assay.reports.extensions import draw_charts
from assay.reports.figures.other_metrics import MOST_DRAWN
from assay.reports.other_metrics import other_metrics

ROOT = Path(__file__).parents[2]
EVIDENCE, PAGE = ROOT / "evidence", ROOT / "docs" / "plugins.md"


def test_a_metric_of_a_users_probe_is_in_the_report(tmp_path):
    run = begin(tmp_path / "run")
    for length in (128, 256):
        own = [
            measured(
                "out_norm", value, "nats", subject, workload=workload(length), samples=[1.0, 2.0]
            )
            for subject, value in (("sdpa", 1.25), ("eager", 1.5))
        ]
        checks = [checked(subject, length) for subject in ("sdpa", "eager")]
        append(run, "bench", f"k{length}", *checks, latency("sdpa", [1.0, 2.0], length), *own)
    end(run, "bench")
    report = build(run).report
    (table,) = (table for table in report.results if table.title == "Other metrics")
    assert table.columns == ("workload", "subject", "out_norm (nats)") and len(table.rows) == 4
    assert table.entries[0][2].text == "1.250"
    (chart,) = (chart for chart in report.charts if chart.name == "out_norm_bench")
    assert chart.y_label == "out_norm (nats)" and len(chart.series) == 2
    assert chart.series[0].x == (128, 256) and chart.series[0].y == (1.25, 1.25)
    assert (tmp_path / "run" / "figures" / "out_norm_bench.png").is_file()


def test_the_probe_and_the_figure_of_the_docs_work(tmp_path):
    examples = re.findall(r"```python\n(\"\"\"Norm.*?)```", PAGE.read_text(), re.DOTALL)
    probe, figure = examples
    (tmp_path / "output_norm.py").write_text(probe)
    (tmp_path / "norms.py").write_text(figure)
    assert len(figure.splitlines()) <= 13
    folders = [tmp_path]
    measure = plugins.load(plugins.find("probes", "output_norm", folders)).measure
    (norm,) = measure(lambda: SimpleNamespace(norm=lambda: 2), None, None)
    assert norm["metric"] == "out_norm" and norm["value"] == 2.0
    assert plugins.load(plugins.find("figures", "norms", folders)).draw([]) == []
    run = begin(tmp_path / "run")
    append(
        run,
        "bench",
        "cell",
        *(measured("out_norm", n, "ratio", "sdpa", workload=workload(n)) for n in (256, 128)),
    )
    charts, problems = draw_charts(load_records(run.path), folders)
    (chart,) = (chart for chart in charts if chart.name == "norms")
    assert not problems and chart.series[0].x == chart.series[0].y == (128, 256)


def test_of_hundreds_of_metrics_some_are_drawn_and_all_are_counted(tmp_path):
    run = begin(tmp_path / "run")
    for n in (128, 256):
        own = [measured(f"own_{i}", n, "", "sdpa", workload=workload(n)) for i in range(300)]
        append(run, "bench", f"k{n}", *own)
    charts, problems = draw_charts(load_records(run.path), [])
    charts = [chart for chart in charts if chart.name.startswith("own_")]
    assert not problems and len(charts) == MOST_DRAWN
    assert "280 further metrics are in the table alone" in charts[-1].note


def test_without_any_there_is_neither(tmp_path):
    run = begin(tmp_path / "run")
    append(run, "bench", "k128", checked("sdpa"), latency("sdpa", [1.0, 2.0]))
    report = build(run).report
    assert not [table for table in report.results if "Other" in table.title]
    assert [chart.name for chart in report.charts if "latency" not in chart.name] == [
        "accuracy_bench_float32_causal"
    ]


@pytest.mark.parametrize("path", sorted(EVIDENCE.iterdir()), ids=lambda path: path.name)
def test_our_own_metrics_all_have_a_place(path):
    """Whoever adds a metric to a probe of ours says in which table it is."""
    if RunFolder(path=path).run_file.is_file():
        assert not other_metrics(load_records(path))
