"""The tables of a bench: every subject has its row, also where it has no number."""

import csv

import pytest
from build_run import append, begin, end, latency, measured, workload

from assay.records.schema import SHARED_STATE
from assay.reports.contents import read_contents
from assay.reports.figures import crossover
from assay.reports.headlines import comparisons, warnings
from assay.reports.ratios import baseline, ratio_table, subject_order
from assay.reports.report import compose
from assay.reports.speed_rows import short_kernel, speed_rows
from assay.reports.table_files import csv_text, frame_columns
from assay.reports.tables import head_dims, kernels, memory, speed


def lost(subject, key_length, status, reason, probes="latency+backward+training+memory"):
    ended = {"status": status, "reason": reason, "workload": workload(key_length)}
    return measured(probes, None, "", subject, **ended)


def cells(table, subject, place):
    [row] = [r for r in table.entries if r[1].text == subject and r[0].text == place]
    return dict(zip(table.columns, row, strict=True))


@pytest.fixture
def made(tmp_path):
    """Two lengths; at the longer the baseline ran out of memory and another is not supported."""
    run = begin(tmp_path / "run")
    peak = [
        measured("matmul_rate", 1.0, "TFLOP/s", "cpu", workload=None),
        measured("read_bandwidth", 100.0, "GB/s", "cpu", workload=None),
    ]
    append(run, "host", "cpu", *peak)
    append(
        run,
        "bench",
        "k128",
        latency("eager", [2.0, 2.0, 4.0] * 2),
        latency("sdpa", [1.0, 1.0, 2.0] * 2),
        measured("forward_flops", 0.5e9, "FLOP", "sdpa"),
        measured("forward_bytes", 1e6, "B", "sdpa"),
        measured("forward_peak_bytes", 3 * 2**20, "B", "sdpa", source="a counter"),
        measured("forward_peak_bytes.out", 2 * 2**20, "B", "sdpa"),
        measured("forward_peak_bytes.unexplained", 2**20, "B", "sdpa"),
        measured("kernels", 2, "count", "sdpa", source="void f::fwd<4, 2>(int) 90 %, copy 10 %"),
        measured("kernel_tensor_ops", None, "count", "sdpa", reason="no disassembler"),
        measured("sm_clock_mhz", 1000.0, "MHz", "cpu", samples=[900.0, 1000.0]),
        measured("backward_ms.power_w", None, "W", "cpu", reason="not told"),
    )
    append(
        run,
        "bench",
        "k256",
        lost("flex", 256, "unsupported", "no kernel for 256"),
        lost("eager", 256, "oom", "16 GiB wanted"),
        latency("sdpa", [3.0] * 6, 256),
    )
    end(run, "bench")
    return read_contents(run).records


def test_every_subject_has_a_row_and_endings_show_no_speed(made):
    table = speed.tables("bench", made)[0]
    assert [(row[0].text, row[1].text) for row in table.entries] == [
        ("s128", "eager"),
        ("s128", "sdpa"),
        ("s256", "eager"),
        ("s256", "sdpa"),
        ("s256", "flex"),
    ]
    gone = cells(table, "eager", "s256")
    assert gone["forward (ms)"].text == "OOM" and gone["forward (ms)"].hint == "16 GiB wanted"
    assert all(entry.value is None for entry in gone.values())
    assert cells(table, "flex", "s256")["forward (ms)"].text == "unsupported"
    assert {"16 GiB wanted", "no kernel for 256"} <= set(table.reasons)


def test_the_main_table_tells_time_ratio_rate_share_memory_and_kernel(made):
    row = cells(speed.tables("bench", made)[0], "sdpa", "s128")
    assert (row["forward (ms)"].text, row["forward (ms)"].detail) == ("1", "1–1.750")
    assert (row["over eager"].value, row["over eager"].detail) == (0.5, "0.50–0.50")
    assert row["TFLOP/s"].value == pytest.approx(0.5)
    assert (row["of ceiling"].text, row["of ceiling"].detail) == ("50 %", "compute-bound")
    assert row["tokens/s"].value == pytest.approx(128e3)
    assert row["batches/s"].value == pytest.approx(1e3)
    assert row["peak forward"].text == "3 MiB" and "a counter" in row["peak forward"].hint
    assert row["kernel"].text == "fwd" and "copy 10 %" in row["kernel"].hint


def test_files_have_whole_names_and_units(made):
    """They had what is shortened for a screen, and bytes in a column without a unit."""
    [table] = speed.tables("bench", made)
    rows = list(csv.DictReader(csv_text(table).decode().splitlines()))
    [row] = [r for r in rows if (r["workload"], r["subject"]) == (workload().name, "sdpa")]
    assert row["kernel"] == "void f::fwd<4, 2>(int)"
    assert row["peak forward (B)"] == "3145728.0" and row["of ceiling (fraction)"] == "0.5"
    assert row["over eager (ratio)"] == "0.5" and row["TFLOP/s"] == "0.5"
    frame = frame_columns(table)
    assert set(frame) >= {"workload", "forward (ms)", "peak forward (B)"}
    assert set(frame["workload"]) == {workload(n).name for n in (128, 256)}


def test_the_baseline_is_the_same_in_every_cell(made):
    """There is no ratio where it ran out of memory, and none to the subject that comes next."""
    mine = [r for r in made if r.stage == "bench"]
    assert baseline(mine, "latency_ms") == "eager"
    table = speed.tables("bench", made)[0]
    entry = cells(table, "sdpa", "s256")["over eager"]
    assert entry.value is None and "eager was not timed in this cell" in entry.hint


@pytest.mark.parametrize(
    ("theirs", "ours", "alone", "ratio", "interval", "rounds"),
    [
        # The median of per-round ratios, not the ratio of medians, which is 3.
        ([1.0, 10.0, 100.0] * 3, [0.5, 30.0, 50.0] * 3, False, "0.5000", "0.5000–3", "9"),
        # Who sat rounds out is compared over those that both have.
        ([1.0, 2.0, 3.0], [1.0, 4.0], False, "1.500", "—", "2"),
        # After a crash the others run alone; equal numbers of samples do not make them pairs.
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], True, "—", "—", "—"),
    ],
)
def test_ratios_are_of_rounds_that_were_interleaved(
    tmp_path, theirs, ours, alone, ratio, interval, rounds
):
    run = begin(tmp_path)
    pair = latency("eager", theirs, alone=alone), latency("sdpa", ours, alone=alone)
    append(run, "bench", "k128", *pair)
    [row] = ratio_table("bench", read_contents(run).records).entries
    assert [entry.text for entry in row[2:]] == ["sdpa", "eager", ratio, interval, rounds]
    assert ("ran alone" in row[4].hint) == alone


def test_order_is_merged_from_cells_that_each_lack_something(tmp_path):
    run = begin(tmp_path)
    for cell, subjects in {"1": "bd", "2": "ac", "3": "ab", "4": "cd", "5": "bc"}.items():
        append(run, "bench", cell, *(latency(name, [1.0, 2.0]) for name in subjects))
    assert subject_order(read_contents(run).records, "latency_ms") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("rounds", [1, 5])
def test_few_samples_have_no_interval(tmp_path, rounds):
    run = begin(tmp_path)
    pair = latency("eager", [2.0] * rounds), latency("sdpa", [1.0] * rounds)
    append(run, "bench", "k128", *pair)
    records = read_contents(run).records
    [table] = speed.tables("bench", records)
    time, ratio = table.entries[1][1:3]
    assert ratio.value == 0.5 and ratio.detail == "" and bool(time.detail) == (rounds > 1)
    assert "2.00x faster than eager (no interval" in comparisons(speed_rows("bench", records))[0]


def test_memory_adds_up_and_what_has_none_says_why(made):
    [table] = memory.tables("bench", made)
    row = cells(table, "sdpa", "s128")
    assert row["parts (forward)"].text == "out 2 MiB"
    assert row["unexplained (forward)"].value == 2**20
    assert cells(table, "eager", "s256")["peak forward"].hint == "16 GiB wanted"
    assert "workspace" not in table.columns


def test_a_workspace_has_a_column_where_there_is_one(tmp_path):
    run = begin(tmp_path / "run")
    sizes = {"forward_peak_bytes": 2**20, "workspace_bytes": 32 * 2**20}
    of_sdpa = (measured(metric, size, "B", "sdpa") for metric, size in sizes.items())
    append(run, "bench", "k128", latency("sdpa", [1.0] * 6), *of_sdpa)
    end(run, "bench")
    [table] = memory.tables("bench", read_contents(run).records)
    [row] = table.entries
    assert dict(zip(table.columns, row, strict=True))["workspace"].text == "32 MiB"


def test_kernels_keep_what_is_unknown(made):
    [table] = kernels.tables("bench", made)
    [row] = table.entries
    shown = dict(zip(table.columns, row, strict=True))
    assert shown["kernels"].value == 2 and shown["tensor ops"].hint == "no disassembler"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("void flash::flash_fwd_kernel<Traits<128, 64>, true>(Params) 98 %", "flash_fwd_kernel"),
        ("_forward_kernel", "_forward_kernel"),
        ("aten::bmm x2, aten::add x1", "bmm"),
        ("sm90_gemm 41 %, softmax 30 %", "sm90_gemm"),
    ],
)
def test_kernels_are_named_briefly(source, name):
    assert short_kernel(source) == name


def test_a_long_kernel_keeps_both_its_ends():
    name = short_kernel("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_knob_7 99 %")
    assert name.startswith("cudnn_gen") and name.endswith("knob_7") and len(name) < 30


def test_headlines_say_how_much_faster_and_how_sure(tmp_path):
    run = begin(tmp_path)
    samples = [1.0, 1.01, 0.99, 1.0, 1.02, 1.0]
    slow, same = [1.42 * s for s in samples], [1.02, 0.99, 1.0, 1.01, 1.0, 1.0]
    append(run, "bench", "k", *(latency(n, s) for n, s in zip("abc", (slow, samples, same))))
    lines = comparisons(speed_rows("bench", read_contents(run).records))
    assert lines[0] == "b: 1.42x faster than a (1.42 to 1.42) forward; float32, 1 workload"
    append(run, "bench", "k256", latency("a", samples, 256), latency("b", slow, 256))
    lines = comparisons(speed_rows("bench", read_contents(run).records))
    assert lines[0].startswith("b: no difference from a (")
    assert lines[0].endswith("; float32, 2 workloads (geometric mean)")
    assert lines[1].endswith("; float32, 1 workload")


def test_head_dimensions_by_length_is_a_pivot_with_oom_cells(tmp_path):
    run = begin(tmp_path)
    for dim in (16, 32):
        for length in (256, 1024):
            where = {"workload": workload(length, head_dim=dim)}
            eager = [
                latency("eager", [float(dim), float(dim)], **where),
                measured("backward_ms", 3.0, "ms", "eager", samples=[3.0], **where),
                measured("saved_bytes", 1024.0, "B", "eager", **where),
            ]
            if length == 1024:
                ended = {"status": "oom", "reason": "x"}
                eager = [measured("latency", None, "", "eager", **where, **ended)]
            append(
                run, "bench", f"d{dim}_s{length}", *eager, latency("compiled", [1.0, 2.0], **where)
            )
    [table] = head_dims.tables("bench", read_contents(run).records)
    assert table.columns[:5] == (
        "head_dim",
        "length",
        "eager forward (ms)",
        "eager backward (ms)",
        "eager saved",
    )
    texts = [[entry.text for entry in row] for row in table.entries]
    assert [row[:3] for row in texts] == [
        ["16", "256", "16"],
        ["16", "1,024", "OOM"],
        ["32", "256", "32"],
        ["32", "1,024", "OOM"],
    ]
    assert texts[0][4] == "1 KiB" and texts[0][5] == "1.500"


def test_doubts_are_told_before_numbers(tmp_path):
    run = begin(tmp_path, config={"ROUNDS": "5"})
    append(run, "host", "cpu", measured("matmul_rate", 1e-6, "TFLOP/s", "cpu", workload=None))
    append(
        run,
        "bench",
        "k128",
        latency("sdpa", [1.0, 1.0]),
        measured("forward_flops", 1e9, "FLOP", "sdpa"),
        measured("forward_bytes", 1e6, "B", "sdpa"),
        measured(SHARED_STATE, None, "", "mine", reason="set torch's threads"),
        measured(
            "latency_ms.sm_clock_mhz", 1900.0, "MHz", "cuda:0", samples=[1700.0, 1900.0, 1900.0]
        ),
    )
    report = compose(read_contents(run))
    assert "mine" not in str(report.results), "a remark is no result"
    problems = "\n".join(report.problems)
    assert "mine set torch's threads" in problems
    assert "clock varied by more than 5 % within 1 cell, by 11 %" in problems
    assert "fewer samples than the 5 rounds" in problems and ": 2" in problems
    assert "implausibly fast: sdpa, latency_ms" in problems


@pytest.mark.parametrize("others", [(), ("mine",)])
def test_copies_of_the_baseline_object_to_ratios_alone(tmp_path, others):
    """A bench of one subject was told that ratios against it are not fair."""
    run = begin(tmp_path)
    copied = measured("input_copy_bytes", 4 * 2**20, "B", "sdpa")
    times = (latency(subject, [1.0, 2.0]) for subject in ("sdpa", *others))
    append(run, "bench", "k128", *times, copied)
    records = read_contents(run).records
    doubts = warnings(speed_rows("bench", records), records, {})
    assert len(doubts) == len(others)
    assert all(d.startswith("baseline sdpa copies up to 4 MiB") and "not fair" in d for d in doubts)


def test_a_sound_bench_raises_no_doubt(made):
    run = [r for r in made if r.metric != "sm_clock_mhz"]
    assert warnings(speed_rows("bench", run), run, {"ROUNDS": "6"}) == []


def test_a_probe_that_does_not_apply_does_not_explain_another(tmp_path):
    """No CUDA graph on a CPU says nothing about a missing backward, and loses no drawn subject."""
    run = begin(tmp_path)
    for length in (128, 256):
        graph = [lost(n, length, "unsupported", "no graphs", "graph") for n in ("eager", "sdpa")]
        pair = [latency(name, [1.0, 2.0] * 3, length) for name in ("eager", "sdpa")]
        append(run, "bench", f"k{length}", *pair, *graph)
    records = read_contents(run).records
    row = speed_rows("bench", records)[0]
    assert row.ending("backward_ms") == ("ok", "no record of this metric")
    assert row.ending("graph_ms") == ("unsupported", "no graphs")
    [chart] = crossover.draw(records)
    assert "not drawn" not in chart.note
