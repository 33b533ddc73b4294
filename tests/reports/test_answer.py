"""The answer of a run: what failed first, with its command; then speeds; else what passed."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from build_run import append, begin, checked, end, latency, measured, workload

from assay.python.loading import load_records
from assay.records.check_answer import FAIL, INCOMPLETE, PASS
from assay.records.run import RunFolder
from assay.records.schema import Measurement, Session, WorkloadIdentity
from assay.reports.answer import answer
from assay.reports.contents import read_contents
from assay.reports.report import compose
from assay.reports.run_verdict import judge
from assay.studies.execute import exit_code
from assay.verbs._decoding import check_code, chosen

EVIDENCE = Path(__file__).parents[2] / "evidence"
WRONG_AT = "b1_h8_kv2_q256_k256_d64_causal_float32"


def answered(run):
    contents = read_contents(run)
    return answer(contents.records, run=contents.run, stages=contents.stages)


def started(tmp_path, *command: str, plugins: Sequence[str] = (), **config: str):
    session = Session(
        number=1, started="2025-01-01T00:00:00.000Z", commit=None, dirty=None, host={},
        command=["assay", *command],
    )  # fmt: skip
    changes = {"sessions": [session, session], "study": command[0], "config": config}
    return begin(tmp_path / "run", **changes, plugins=list(plugins))


def wrong(subject: str, **changes):
    reason = "out is off by 1 at (0, 0, 0, 0), 9e+04 times what rounding explains"
    return checked(subject, **{"value": 9e4, "status": "failed", "reason": reason, **changes})


def timed(run, *subjects: str, slower: float = 1.4):
    """Six rounds of each subject, the first of which is the baseline."""
    times = (1.0, *(slower for _ in subjects[1:]))
    cells = [latency(s, [t * x for x in (1, 1.01, 0.99, 1, 1, 1)]) for s, t in zip(subjects, times)]
    append(run, "bench", "k128", *map(checked, subjects), *cells)
    end(run, "bench")


def test_a_bench_says_how_fast_on_how_many_workloads(tmp_path):
    run = started(tmp_path, "bench", "my.py", "--vs", "sdpa")
    timed(run, "sdpa", "my")
    assert answered(run).word == PASS
    [line] = answered(run).lines
    assert line == "my: 1.40x slower than sdpa (1.40 to 1.40) forward; float32, 1 workload"


def test_a_wrong_subject_of_a_bench_fails_and_has_no_speed(tmp_path):
    config = {"IMPLEMENTATIONS": '"sdpa,x/my.py,eager"', "DEVICE_CPU": "y"}
    run = started(tmp_path, "bench", "x/my.py", "--device=cpu", **config)
    append(run, "check", "k256", wrong("my", key_length=256), checked("sdpa", 256))
    end(run, "check", status="failed", reason="1 of 1 cells failed")
    timed(run, "sdpa", "my", "eager")
    first, second = answered(run).lines
    assert answered(run).word == FAIL
    assert first.startswith("FAIL  my: out is off by 1 at (0, 0, 0, 0)")
    assert first.endswith(
        f"repeat: assay check x/my.py --probe accuracy --workload {WRONG_AT} --device cpu"
    )
    assert second.startswith("eager: 1.40x slower")


def test_each_subject_has_one_line_and_what_is_wrong_no_second(tmp_path):
    """A wrong kernel, its peer that passed twice, and its refusal by the bench took four lines."""
    run = started(tmp_path, "bench", "my.py", "--vs", "sdpa")
    append(run, "suite", "suite/sdpa", measured("accuracy", 0.1, "", "sdpa", workload=None))
    append(run, "suite", "suite/my", wrong("my", key_length=256))
    end(run, "suite", status="failed", reason="1 of 2 cells failed")
    refused = checked("my", value=None, status="refused", reason="not timed: it fails accuracy")
    append(run, "bench", "k128", refused, checked("sdpa"), latency("sdpa", [1.0] * 6))
    end(run, "bench")
    first, second = answered(run).lines
    assert first.startswith("FAIL  my: ") and second == "PASS  sdpa: 1 probe, 1 of 1 cases"


def test_a_speed_without_a_check_is_not_told(tmp_path):
    run = started(tmp_path, "bench")
    append(run, "bench", "k128", latency("sdpa", [1.0] * 6), latency("my", [0.5] * 6))
    end(run, "bench")
    assert not any("faster" in line for line in answered(run).lines)


def test_named_workloads_are_counted_of_those_asked(tmp_path):
    run = started(tmp_path, "check", "my.py")
    gone = checked("my", 256, value=None, status="unsupported", reason="too long")
    append(run, "check", "k128", checked("my"))
    append(run, "check", "k256", gone)
    end(run, "check")
    assert answered(run).lines == ("PASS  my: 1 of 2 workloads",)


def test_what_is_for_another_device_is_told_last(tmp_path):
    run = started(tmp_path, "check", "all")
    gone = checked("cudnn", value=None, status="unsupported", reason="needs CUDA")
    append(run, "check", "k128", gone, checked("my"))
    end(run, "check")
    assert answered(run).word == PASS
    assert answered(run).lines == ("PASS  my: 1 of 1 workload", "NOT RUN  cudnn: needs CUDA")


def test_a_number_that_is_not_believed_fails(tmp_path):
    """The exit code was 1, the answer PASS, and `passed` of the records True."""
    run = started(tmp_path, "bench", "my.py", "--vs", "sdpa")
    why = "not believed (equal samples): 6 samples have 1 different values around 1 ms"
    gone = latency("my", [], status="refused", reason=why)
    append(run, "bench", "k128", *map(checked, ("sdpa", "my")), latency("sdpa", [1.0] * 6), gone)
    end(run, "bench")
    contents = read_contents(run)
    bench = SimpleNamespace(name="bench", fails_on=("failed",))
    assert exit_code(contents.records, [bench]) == 1
    assert judge(contents.stages) == ("failed", "1 not believed")
    assert answered(run).word == FAIL and not load_records(run.path).passed
    assert answered(run).lines[0] == f"FAIL  my: {why}; latency_ms, in 1 cell"


@pytest.mark.parametrize(("verb", "word"), [("check", FAIL), ("bench", PASS)])
def test_memory_that_does_not_suffice_is_a_result_of_a_bench_alone(tmp_path, verb, word):
    """A check of decode kernels on two workloads passed with 1 of 2, and its exit code was 1."""
    run = started(tmp_path, verb, "decode/my", DECODERS='"my"')
    ended = {"value": None, "status": "oom", "reason": "16 GiB wanted"}
    append(run, "decode", "k128", checked("dense:my"))
    append(run, "decode", "k256", checked("dense:my", 256, metric="accuracy+determinism", **ended))
    end(run, "decode")
    assert answered(run).word == word
    assert check_code(read_contents(run).records) == 1  # as the verb check alone asks
    if verb == "check":
        repeated = "repeat: assay check decode/my --workload b1_h8_kv2_q256_k256_d64_causal_float32"
        assert answered(run).lines == (f"FAIL  dense:my: 16 GiB wanted; {repeated}",)
        assert compose(read_contents(run)).verdict == "1 failed"


def test_a_failure_beside_what_did_not_run_has_a_line(tmp_path):
    """A failed instrument was in no line where the only kernel was for another device."""
    run = started(tmp_path, "bench", "cudnn")
    broken = measured("clock", None, "", "cpu", workload=None, status="failed", reason="it stands")
    append(run, "host", "instruments", broken)
    end(run, "host", status="failed", reason="1 of 1 cells failed")
    append(run, "check", "k128", checked("cudnn", value=None, status="unsupported", reason="CUDA"))
    end(run, "check")
    assert answered(run).word == FAIL
    assert answered(run).lines == (
        "FAIL  bench: 1 failed; cpu is failed at instruments: it stands",
        "NOT RUN  cudnn: CUDA",
    )


def test_what_fails_beside_its_checks_does_not_pass(tmp_path):
    """A kernel with a wrong timed call stood below its FAIL as PASS, for the check before."""
    run = started(tmp_path, "bench", "my.py")
    ended = {"status": "failed", "reason": "a timed call gave a wrong out"}
    append(run, "bench", "k128", checked("my"), latency("my", [], **ended))
    end(run, "bench", status="failed", reason="1 of 1 cells failed")
    [line] = answered(run).lines
    assert line == "FAIL  bench: 1 failed; my is failed at k128: a timed call gave a wrong out"


def test_each_pass_has_the_count_of_its_own_workloads(tmp_path):
    """A backward pass on one workload of four was counted as on four."""
    run = started(tmp_path, "bench", "my.py", "--vs", "sdpa")
    for length in (128, 256):
        times = {"sdpa": [1.0] * 6, "my": [2.0] * 6}
        passes = ("latency_ms", "backward_ms") if length == 128 else ("latency_ms",)
        pairs = [latency(s, t, length, metric=m) for m in passes for s, t in times.items()]
        append(run, "bench", f"k{length}", *(checked(s, length) for s in times), *pairs)
    end(run, "bench")
    assert answered(run).lines == (
        "my: 2.00x slower than sdpa (2.00 to 2.00) forward on 2 workloads, 2.00x slower "
        "(2.00 to 2.00) backward on 1 of 2 workloads; float32 (geometric mean)",
    )


def test_a_single_subject_that_fails_has_no_time(tmp_path):
    run = started(tmp_path, "bench", "my.py")
    append(run, "check", "k256", wrong("my", key_length=256))
    end(run, "check", status="failed", reason="1 of 1 cells failed")
    timed(run, "my")
    [line] = answered(run).lines
    assert line.startswith("FAIL  my: ")


@pytest.mark.parametrize(
    ("decoders", "name"),
    [
        ("int4", "int4:int4"),
        ("all", "int4:int4"),
        ("x/mine.py", "k16v8:mine"),
        ("int8:x/mine.py,int4:x/mine.py", "int4:mine"),
    ],
)
def test_the_command_that_repeats_a_decode_kernel_names_it_as_check_does(tmp_path, decoders, name):
    """It was `assay check int4:mine`, which is no name of a kernel of sequences."""
    config = {"DECODERS": f'"{decoders}"', "DEVICE_CUDA": "y", "DEVICE_INDEX": "1"}
    run = started(tmp_path, "bench", **config)
    append(run, "decode", "k128", wrong(name))
    end(run, "decode", status="failed", reason="1 of 1 cells failed")
    typed = {"all": name, "int8:x/mine.py,int4:x/mine.py": "int4:x/mine.py"}.get(decoders, decoders)
    command = f"assay check decode/{typed} --probe accuracy --workload {workload().name}"
    assert answered(run).lines[0].endswith(f"repeat: {command} --device cuda:1")
    assert chosen([f"decode/{typed}"]) == typed


def test_plugins_are_those_that_the_run_records(tmp_path):
    """Those of `assay.bench` stand in no command; --framework beside a name is refused."""
    run = started(tmp_path, "check", "--framework", "torch", plugins=["/x/k"])
    append(run, "check", "k128", wrong("my"))
    end(run, "check", status="failed", reason="1 of 1 cells failed")
    command = f"assay check my --probe accuracy --workload {workload().name} --plugins /x/k"
    assert answered(run).lines[0].endswith(f"repeat: {command}")


@pytest.mark.parametrize(("status", "word"), [("ok", PASS), ("failed", FAIL), (None, INCOMPLETE)])
def test_a_run_without_checks_or_speeds_counts_its_cells(tmp_path, status, word):
    run = started(tmp_path, "study", "run")
    broken = {"status": "failed", "reason": "no disk"} if status == "failed" else {}
    append(run, "host", "peaks", measured("copy", 1.0, "GB/s", "", workload=None, **broken))
    if status:
        end(run, "host", status=status, reason="no disk" if broken else None)
    result = answered(run)
    assert result.word == word and result.lines[0].startswith(f"{word}  study: ")
    assert ("no disk" in result.lines[0]) is bool(broken)


@pytest.mark.parametrize(
    ("run", "first"),
    [
        (
            "kv-quality-float32-h200",
            "k16v8_e5m2: 63% of the dense bytes in float32, loss +0.0000 ± 0.0008 nats, band ",
        ),
        ("train-ablation-h200", "GPT2_MLA against GPT2 over 3 seeds: +0.1085 ± 0.0089 nats, worse"),
        ("models-gates", "PASS  135 models: 1,667 of 1,667 gates"),
        ("noise-h200", "sdpa_cudnn against itself: 0 of 501 comparisons are false alarms; "),
        ("replay-h200", "sdpa reproduces the model's output bit for bit on 3 of 3 captured"),
        ("gallery-jax-cpu", "FAIL  jax_dot_product: the causal mask is aligned top-left; repeat: "),
    ],
)
def test_every_kind_of_run_has_an_answer(run, first):
    contents = read_contents(RunFolder(path=EVIDENCE / run))
    result = answer(contents.records, run=contents.run, stages=contents.stages)
    assert result.lines[0].startswith(first), result.lines[0]
    assert len(result.brief) <= 4


def test_a_cache_whose_interval_crosses_a_threshold_has_no_band(tmp_path):
    """+0.0016 ± 0.0347 was called tolerant; and of dense, in which dtype was not said."""
    run = started(tmp_path, "study", "cache_quality")
    work = WorkloadIdentity(name="a text", spec={"dtype": "float32"}, content="x")
    for layout, losses, more in (("dense", [3.6, 3.6], 0), ("int8", [3.64, 3.58], 24576)):
        band = {"band": None if more else "tolerant", "more_tokens": more}
        for name, value, rest in (
            ("cache_bytes_per_token", 200.0 if more else 800.0, {}),
            ("cache_nll", 3.6, {"samples": losses, "data": band}),
        ):
            append(run, "cache_quality", "m", Measurement(
                subject=layout, metric=name, value=value, unit="", workload=work, **rest
            ))  # fmt: skip
    end(run, "cache_quality")
    (line,) = answered(run).lines
    assert line.startswith("int8: 25% of the dense bytes in float32, loss +0.0100 ± ")
    assert line.endswith("nats, band: cannot tell, 24,576 more tokens would; m")


@pytest.mark.parametrize("layouts", [("int4",), ("int4", "k8v8")])
def test_a_layout_that_was_not_read_is_no_pass(tmp_path, layouts):
    """A codec that was refused for a false width had "PASS  kv-quality: 0 of 1 cell ok"."""
    run = started(tmp_path, "kv-quality")
    for layout in ("dense", *layouts):
        refused = {"status": "unsupported", "reason": "it encodes other widths"}
        proof = {"value": None, **refused} if layout == "int4" else {"value": 0.1}
        append(run, "cache_quality", "m", Measurement(
            subject=layout, metric="cache_proof", unit="", **proof
        ))  # fmt: skip
    end(run, "cache_quality")
    result = answered(run)
    words = f"of {len(layouts)} layout{'s' * (len(layouts) > 1)} not read: int4 of m: it encodes"
    assert f"kv-quality: 1 {words}" in result.lines[0]
    assert result.word == (INCOMPLETE if len(layouts) == 1 else PASS)
    assert result.lines[0].startswith(INCOMPLETE) is (len(layouts) == 1)
