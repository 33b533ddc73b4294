"""Ratios of subjects that were measured side by side."""

from build_run import append, begin, latency

from assay.reports.contents import read_contents
from assay.reports.ratios import ratio_table


def test_paired_ratio_is_the_median_of_rounds_not_the_ratio_of_medians(tmp_path):
    run = begin(tmp_path)
    peer, ours = [1.0, 10.0, 100.0] * 3, [0.5, 30.0, 50.0] * 3
    append(run, "bench", "k128", latency("eager", peer), latency("sdpa", ours))
    [row] = ratio_table("bench", read_contents(run).records).entries
    assert [cell.text for cell in row[2:4]] == ["sdpa", "eager"]
    assert row[4].value == 0.5
    assert row[5].text == "0.5000–3" and row[6].value == 9


def test_who_sat_rounds_out_is_compared_over_those_that_both_have(tmp_path):
    run = begin(tmp_path)
    append(run, "bench", "k128", latency("eager", [1.0, 2.0, 3.0]), latency("sdpa", [1.0, 4.0]))
    [row] = ratio_table("bench", read_contents(run).records).entries
    assert row[4].text == "1.500" and row[6].text == "2"


def test_samples_of_different_cells_are_not_paired(tmp_path):
    run = begin(tmp_path)
    append(run, "bench", "one", latency("eager", [1.0, 2.0]))
    append(run, "bench", "two", latency("sdpa", [1.0, 2.0]))
    [row] = ratio_table("bench", read_contents(run).records).entries
    assert row[4].value is None and "eager was not timed in this cell" in row[4].hint


def test_samples_of_different_rounds_are_not_paired(tmp_path):
    """After a crash the others run alone; equal numbers of samples do not make them pairs."""
    run = begin(tmp_path)
    both = [latency(name, [1.0, 2.0, 3.0], alone=True) for name in ("eager", "sdpa")]
    append(run, "bench", "k128", *both)
    (row,) = ratio_table("bench", read_contents(run).records).entries
    assert row[4].text == "—" and "ran alone" in row[4].hint
