"""Speeds of decode kernels in a report: bytes a second, and no ratio that bytes cannot explain."""

import pytest
from build_run import append, begin, end, measured
from laws.law_records import workload

from assay.reports.contents import read_contents
from assay.reports.headlines import comparisons
from assay.reports.ratios import ratio_table
from assay.reports.report import compose
from assay.reports.speed_rows import speed_rows
from assay.reports.tables import decode

STEP = workload(4096, query_length=1)
BYTES = {"dense:sdpa_cudnn": 4e9, "dense:dense": 4e9, "k16v8:k16v8": 3e9}


def kernel(subject, ms, work=True):
    times = {"samples": [ms] * 7, "level": "kernel", "workload": STEP}
    yield measured("error_over_budget_out", 0.1, "ratio", subject, workload=STEP)
    yield measured("latency_ms", ms, "ms", subject, **times)
    if work:
        for metric in ("kv_cache_bytes", "forward_bytes"):
            yield measured(metric, BYTES[subject], "B", subject, workload=STEP)


def records_of(folder, *, host=True, work=True, **times):
    run = begin(folder / "run")
    if host:
        append(run, "host", "cpu", measured("read_bandwidth", 4000.0, "GB/s", "cpu", workload=None))
    names = {"cudnn": "dense:sdpa_cudnn", "dense": "dense:dense", "ours": "k16v8:k16v8"}
    rows = [m for name, ms in times.items() for m in kernel(names[name], ms, work)]
    append(run, "decode", STEP.name, *rows)
    end(run, "decode")
    return read_contents(run)


def table_of(contents) -> dict:
    [table] = decode.tables("decode", contents.records)
    place = table.columns.index("subject")
    return {row[place].text: dict(zip(table.columns, row, strict=True)) for row in table.entries}


def test_bytes_a_second_and_the_share_of_reading(tmp_path) -> None:
    ours = table_of(records_of(tmp_path, cudnn=1.0, dense=1.05, ours=0.8))["k16v8:k16v8"]
    assert ours["GB/s"].text == "3,750" and ours["of reading"].text == "93.75%"
    assert ours["over dense:sdpa_cudnn"].text == "0.80" and ours["bytes explain"].text == "0.75"
    assert ours["over dense:dense"].text == "0.76"


def test_a_ratio_within_its_bytes_needs_no_second_baseline(tmp_path) -> None:
    contents = records_of(tmp_path, host=False, cudnn=1.0, ours=0.74)
    assert table_of(contents)["k16v8:k16v8"]["over dense:sdpa_cudnn"].text == "0.74"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"cudnn": 1.0}, "dense:dense beside it (in DECODERS)"),
        ({"cudnn": 1.0, "dense": 0.8, "host": False}, "bandwidth that dense:sdpa_cudnn reaches"),
        ({"cudnn": 1.0, "dense": 0.8, "work": False}, "add work to PROBES"),
    ],
)  # fmt: skip
def test_a_ratio_beyond_its_bytes_is_withheld(tmp_path, settings, wanted) -> None:
    contents = records_of(tmp_path, **settings, ours=0.6)
    entry = table_of(contents)["k16v8:k16v8"]["over dense:sdpa_cudnn"]
    assert (entry.text, entry.tone) == ("withheld", "refused") and wanted in entry.hint
    assert not any("k16v8" in line for line in comparisons(speed_rows("decode", contents.records)))


def test_a_slow_baseline_is_named_and_the_second_stands_beside(tmp_path) -> None:
    contents = records_of(tmp_path, cudnn=1.6, dense=1.0, ours=0.76)
    row = table_of(contents)["k16v8:k16v8"]
    assert row["over dense:sdpa_cudnn"].text == "0.47" and row["over dense:dense"].text == "0.76"
    assert "dense:sdpa_cudnn reads at 62% of the bandwidth" in row["over dense:sdpa_cudnn"].hint
    assert compose(contents).headlines


def test_files_of_one_layout_need_no_second_baseline(tmp_path) -> None:
    """A second version of a kernel could not be compared with the first."""
    row = table_of(records_of(tmp_path, cudnn=1.3, dense=1.1))["dense:dense"]
    assert row["over dense:sdpa_cudnn"].text == "0.85"
    assert "reads at 77% of the bandwidth" in row["over dense:sdpa_cudnn"].hint
    beyond = table_of(records_of(tmp_path / "other", cudnn=1.3, dense=0.8))["dense:dense"]
    assert beyond["over dense:sdpa_cudnn"].text == "refused"
    unknown = table_of(records_of(tmp_path / "third", host=False, cudnn=1.3, dense=1.1))
    assert unknown["dense:dense"]["over dense:sdpa_cudnn"].text == "withheld"


def test_beyond_the_bytes_against_both_is_refused(tmp_path) -> None:
    contents = records_of(tmp_path, cudnn=1.0, dense=1.0, ours=0.6)
    row = table_of(contents)["k16v8:k16v8"]
    assert row["over dense:sdpa_cudnn"].text == "refused"
    assert "something was not read" in row["over dense:sdpa_cudnn"].hint
    assert row["over dense:dense"].text == "withheld"
    paired = ratio_table("decode", contents.records)
    [ours] = [r for r in paired.entries if r[2].text == "k16v8:k16v8"]
    assert ours[4].text == "—" and "something was not read" in ours[4].hint


def test_where_our_own_is_the_baseline_there_is_one_column(tmp_path) -> None:
    contents = records_of(tmp_path, dense=1.0, ours=0.8)
    [table] = decode.tables("decode", contents.records)
    assert [c for c in table.columns if c.startswith("over")] == ["over dense:dense"]
