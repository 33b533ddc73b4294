"""Which kernels ran: traces, declared backends, compiled binaries, operators on a CPU."""

import json
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from bound_calls import bound, probed, written

from assay.attention import contract
from assay.errors import BadInput
from assay.frameworks import torch as torch_framework
from assay.frameworks.jax import program
from assay.performance.probes import kernels
from assay.performance.profile import binary, device, occupancy, trace

MATH = "s = ((q @ k.mT) * scale).softmax(-1)\nreturn s @ v"


def event(name, start, duration, stream=7, category="kernel", **details):
    return {
        "ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "pid": 0,
        "tid": stream, "args": {"stream": stream, **details},
    }  # fmt: skip


def trace_of(*events):
    other = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 2},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "a range", "ts": 1, "dur": 900},
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 5},
    ]
    return {"traceEvents": [*other, *events]}


MAIN = {
    "registers per thread": 168, "shared memory": 98304, "est. achieved occupancy %": 12,
    "grid": [64, 1, 1], "block": [256, 1, 1],
}  # fmt: skip


def test_a_trace_gives_kernels_copies_and_fills_in_order(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace_of(
        event("forward_kernel", 120.0, 80.0, **MAIN),
        event("Memset (Device)", 100.0, 2.5, category="gpu_memset"),
    )))  # fmt: skip
    events = trace.kernels_in(trace.content(path))
    assert [kernel.name for kernel in events] == ["Memset (Device)", "forward_kernel"]
    assert trace.busy_ms(events) == pytest.approx(0.0825)
    assert trace.span_ms(events) == pytest.approx(0.1)
    assert trace.streams(events) == [7]
    main = trace.longest(events)
    assert (main.registers, main.shared_bytes, main.occupancy) == (168, 98304, 0.12)
    assert (main.grid, main.block) == ((64, 1, 1), (256, 1, 1))


def call_range(start, duration, name="a call"):
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": start, "dur": duration}


def test_kernels_are_told_apart_by_the_call_in_whose_time_they_begin():
    """Two calls, each after a flush; neither the flushes nor another's range is part of one."""
    by_call = trace.by_range(trace_of(
        event("flush", 10.0, 80.0), call_range(100.0, 100.0), event("a", 110.0, 20.0),
        event("b", 140.0, 50.0, stream=14), event("flush", 210.0, 80.0),
        call_range(300.0, 50.0), event("a", 310.0, 20.0), call_range(0.0, 900.0, name="another"),
        event("later", 400.0, 5.0),
    ), "a call", count=2)  # fmt: skip
    assert [[kernel.name for kernel in call] for call in by_call] == [["a", "b"], ["a"]]


@pytest.mark.parametrize(
    ("events", "count", "reason"),
    [
        ([call_range(100.0, 50.0)], 2, "has 1 of the 2 calls"),
        ([call_range(100.0, 50.0), event("early", 90.0, 11.0)], 1, "early was at work when a call"),
        ([call_range(100.0, 50.0), event("late", 140.0, 11.0)], 1, "late was at work when its"),
    ],
)
def test_a_timeline_that_does_not_say_whose_a_kernel_is_is_unclear(events, count, reason):
    with pytest.raises(trace.Unclear, match=reason):
        trace.by_range(trace_of(*events), "a call", count=count)


def test_calls_that_cannot_be_told_apart_are_unknown_with_a_reason(monkeypatch):
    def unclear(*_, **__):
        raise trace.Unclear("the profiler's timeline has 1 of the 2 calls")

    monkeypatch.setattr(device, "profiled", unclear)
    monkeypatch.setattr(torch_framework, "flusher", lambda device: None)
    measurements = kernels._ran(replace(bound("eager", "b1_h1_s16_d16"), device="cuda:0"))
    assert {m.metric for m in measurements} >= {"device_ms", "kernels", "kernel_registers"}
    assert all(m.value is None and "1 of the 2 calls" in m.reason for m in measurements)


@pytest.mark.parametrize(("seconds", "calls"), [(0.0, 5), (0.04, 3)])
def test_each_call_is_a_range_of_one_profile(monkeypatch, seconds, calls):
    """With torch's own timeline; on a CPU no kernel is in it. Long calls are fewer."""
    done = []

    def run():
        done.append(1)
        time.sleep(seconds)

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    profiles = device.profiled(run, calls=5)
    assert profiles == [[]] * calls
    assert len(done) == calls + 2


def test_occupancy_is_estimated_where_the_profiler_says_zero():
    """On an H200 a block of 8 warps with 255 registers each is alone; two blocks share the memory;
    four blocks leave most of the 132 multiprocessors idle."""
    hopper = occupancy.Multiprocessor(
        count=132, threads=2048, warp=32, registers=65536, shared_bytes=233472
    )
    details = {"est. achieved occupancy %": 0, "grid": [999, 1, 1]}
    alone = {"registers per thread": 255, "shared memory": 229376, "block": [256, 1, 1]}
    main = kernel("forward_kernel", **details, **alone)
    assert main.occupancy is None
    assert occupancy.estimated(main, hopper) == 8 / 64
    twice = alone | {"registers per thread": 64, "shared memory": 110 * 1024, "block": [128, 1, 1]}
    assert occupancy.estimated(kernel("a", **details, **twice), hopper) == 2 * 4 / 64
    few = details | alone | {"grid": [4, 1, 1]}
    assert occupancy.estimated(kernel("a", **few), hopper) == pytest.approx(4 / 132 * 8 / 64)
    assert occupancy.estimated(kernel("untold", **details), hopper) is None


def test_work_on_two_streams_overlaps_and_is_told(tmp_path):
    """Two kernels of 50 us side by side: 100 us of work in 60 us."""
    events = [event("a", 100.0, 50.0, stream=7), event("b", 110.0, 50.0, stream=13)]
    call = trace.kernels_in(trace_of(*events))
    assert trace.busy_ms(call) == pytest.approx(0.1)
    assert trace.span_ms(call) == pytest.approx(0.06)
    measured = {
        m.metric: m for m in kernels.on_device(bound("eager", "b1_h1_s16_d16"), [call, call])
    }
    assert "on 2 streams (7, 13)" in measured["device_span_ms"].source
    assert measured["device_ms"].samples == pytest.approx([0.1, 0.1])
    assert measured["device_span_ms"].value == pytest.approx(0.06)


def test_measurements_of_a_call_name_the_longest_kernel():
    call = trace.kernels_in(trace_of(
        event("sm90_xmma_gemm", 0.0, 90.0, **MAIN), event("softmax_warp", 95.0, 10.0),
        event("Memcpy DtoD", 106.0, 5.0, category="gpu_memcpy"),
    ))  # fmt: skip
    measured = {m.metric: m for m in kernels.on_device(bound("eager", "b1_h1_s16_d16"), [call])}
    assert measured["kernels"].value == 2 and measured["kernels"].source.startswith(
        "sm90_xmma_gemm 90%"
    )
    assert measured["kernel_registers"].value == 168
    assert measured["kernel_registers"].source.startswith("sm90_xmma_gemm;")
    assert measured["device_ms"].value == pytest.approx(0.105)
    spills = measured["kernel_spills"]
    assert spills.value is None and "'sm90'" in spills.reason
    assert measured["kernel_tensor_ops"].value is None


def test_a_declared_backend_that_did_not_run_is_an_error(tmp_path):
    """The fraud: a kernel is named flash and computes the plain way."""
    head = 'KERNELS = {"cpu": "flash_attention", "cuda": "flash_fwd"}'
    call = bound(written(tmp_path, "not_flash", MATH, head), "b1_h2_s32_d16_full")
    measured = probed(kernels, call)["kernels"]
    assert measured.status == "failed"
    assert "it declares 'flash_attention', but what ran is" in measured.reason
    assert "bmm" in measured.reason or "softmax" in measured.reason


@pytest.mark.parametrize("name", ["sdpa_flash", "sdpa_math"])
def test_a_declared_backend_that_ran_is_found_on_the_cpu(name):
    call = bound(name, "b1_h2_s64_d32")
    assert call.implementation.kernels["cpu"]
    assert probed(kernels, call)["kernels"].status == "ok"


def test_a_declared_kernel_is_held_against_device_events():
    call = bound("sdpa_flash", "b1_h2_s32_d16")
    here = SimpleNamespace(kind="cuda")
    call = replace(call, host=SimpleNamespace(devices=(here,)))
    right = trace.kernels_in(trace_of(event("void pytorch_flash::flash_fwd_kernel<A>()", 0.0, 9.0)))
    wrong = trace.kernels_in(trace_of(event("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", 0.0, 9.0)))
    verdicts = [
        next(m for m in kernels.on_device(call, [variant]) if m.metric == "kernels")
        for variant in (right, wrong)
    ]
    assert [verdict.status for verdict in verdicts] == ["ok", "failed"]


@pytest.mark.parametrize("given", ["{'gpu': 'x'}", "{'cuda': '('}", "'flash'", "{'cuda': 3}"])
def test_kernels_that_cannot_be_looked_for_are_refused(tmp_path, given):
    path = written(tmp_path, f"odd{abs(hash(given))}", MATH, head=f"KERNELS = {given}")
    with pytest.raises(BadInput, match="KERNELS is"):
        contract.load(str(path))


def test_on_a_cpu_operators_are_counted_by_what_works():
    measured = probed(kernels, bound("sdpa_flash", "b1_h2_s256_d64"))
    assert measured["kernels"].value == 1
    assert "_flash_attention_for_cpu" in measured["kernels"].source
    for metric in ("device_ms", "device_span_ms", "kernel_registers", "kernel_tensor_ops"):
        assert measured[metric].value is None and "CPU" in measured[metric].reason


class _Compiled:
    """Stands for what Triton's compiler gives, in every version that there is."""

    def __init__(self, name, registers, spills, ptx, shared=1024):
        self.name, self.n_regs, self.n_spills = name, registers, spills
        self.asm, self.metadata = {"ptx": ptx}, SimpleNamespace(shared=shared)


@pytest.fixture
def compiled(monkeypatch):
    module = SimpleNamespace(CompiledKernel=_Compiled)
    monkeypatch.setitem(sys.modules, "triton.compiler.compiler", module)


def kernel(name, **details):
    return trace.kernels_in(trace_of(event(name, 0.0, 1.0, **details)))[0]


def test_spills_and_tensor_instructions_are_read_from_the_binary(compiled):
    ptx = "wgmma.mma_async.sync.aligned.m64n128k16 x;\nmma.sync.aligned.m16n8k16 y;\nadd.f32 z;\n"
    kept = [
        _Compiled("forward_kernel", 168, 4, ptx),
        _Compiled("forward_kernel", 90, 0, "fma.rn.f32 a;"),
    ]
    facts = binary.of(kernel("forward_kernel", **{"registers per thread": 168}))
    assert (facts.spills, facts.tensor_operations) == (4, 2)
    unclear = binary.of(kernel("forward_kernel"))
    assert unclear.spills is None and "2 different compiled kernels" in unclear.reason
    assert kept


def test_a_librarys_binary_is_not_guessed_at(compiled):
    facts = binary.of(kernel("cutlass_80_tensorop_f16_s16816gemm"))
    assert facts.spills is None and facts.tensor_operations is None
    assert "'tensorop'" in facts.reason


def test_instructions_of_a_program_are_counted_outside_its_fusions():
    text = """HloModule m
%fused_computation (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %copy.1 = f32[4]{0} copy(%p)
}
ENTRY %main (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  %call = f32[4]{0} custom-call(%a), custom_call_target="__cudnn$fmha"
  ROOT %fusion = f32[4]{0} fusion(%call), kind=kLoop, calls=%fused_computation
}
"""
    names = [operation.name for operation in program.operations_in(text)]
    assert names == ["custom-call __cudnn$fmha", "fusion"]
