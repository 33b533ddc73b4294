"""Promises of flash_hopper that need no GPU: refusals, configurations, shapes and compilation."""

import subprocess
import sys
from pathlib import Path

import pytest
from new_process import ROOT, environment

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from assay import host
from assay.attention.sequence import flash_hopper
from assay.attention.sequence.flash_hopper import launch
from assay.devices import Device
from assay.workloads.spec import WorkloadSpec

# make test-full installs it there.
TRITON_3_6 = Path(sys.prefix) / "triton-3.6"
MODULE = "tools.compile_ahead.flash_hopper"


def spec(**changes) -> WorkloadSpec:
    fields = {
        "batch": 1, "heads": 2, "kv_heads": 2, "query_length": 64, "key_length": 64,
        "head_dim": 64, "causal": True, "dtype": "bfloat16", "seed": 0,
    }  # fmt: skip
    return WorkloadSpec(**(fields | changes))


def gpu(kind: str = "cuda") -> host.Host:
    device = Device(kind=kind, index=0, name="a GPU", memory_bytes=None)
    return host.Host(
        devices=(device,), cores=1, os="", versions={}, commit=None, dirty=None, unknown={}
    )


def test_it_is_refused_where_there_is_no_hopper(monkeypatch):
    assert "NVIDIA GPUs only" in flash_hopper.supports(spec(), host.inspect(commit=False)) or (
        torch.cuda.is_available()
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    refusal = flash_hopper.supports(spec(), gpu())
    assert "9.0" in refusal and "8.0" in refusal and "flash2_triton" in refusal
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert flash_hopper.supports(spec(), gpu()) is None
    assert "float32" in flash_hopper.supports(spec(dtype="float32"), gpu())
    assert "head_dim 80" in flash_hopper.supports(spec(head_dim=80), gpu())
    assert "NVIDIA" in flash_hopper.supports(spec(), gpu("rocm"))


def test_a_call_on_the_cpu_is_refused():
    q = torch.zeros(1, 1, 4, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="q is on cpu"):
        flash_hopper.attention(q, q, q, causal=True, scale=1.0)


@pytest.mark.parametrize(
    ("shapes", "dtype", "message"),
    [
        (((1, 2, 4, 80), (1, 2, 4, 80)), torch.bfloat16, "head dimension 80"),
        (((1, 2, 4, 64), (1, 2, 4, 64)), torch.float32, "float32"),
        (((1, 3, 4, 64), (1, 2, 4, 64)), torch.bfloat16, "multiple of the kv heads"),
        (((2, 4, 64), (2, 4, 64)), torch.bfloat16, "wanted q"),
    ],
)
def test_inputs_that_it_would_get_wrong_are_refused(shapes, dtype, message):
    q, k = (torch.zeros(shape, dtype=dtype) for shape in shapes)
    with pytest.raises(ValueError, match=message):
        flash_hopper.attention(q, k, k, causal=False, scale=1.0)


def test_the_configuration_is_the_head_dimensions_or_pinned():
    assert set(flash_hopper.LIMITS["head_dims"]) == set(launch.HEAD_DIMS)
    for name in flash_hopper.CONFIGS:
        config = launch.BY_NAME[name]
        assert launch.choose(config.head_dim, 1, name) is config
    assert launch.choose(64, 4096).block_m == 192
    assert launch.choose(64, 1024).block_m == 128
    assert launch.choose(128, 1).head_dim == 128
    with pytest.raises(ValueError, match="no configuration 'd96'"):
        launch.choose(64, 1, "d96")
    with pytest.raises(ValueError, match="does not fit head dimension 64"):
        launch.choose(64, 1, "d128_m128_n128")


def test_the_operator_has_shapes_without_a_gpu():
    with torch._subclasses.FakeTensorMode():
        q = torch.empty(2, 64, 4, 128, dtype=torch.float16).transpose(1, 2)
        out, lse = torch.ops.assay.flash_hopper(q, q, q, True, 1.0, None)
    assert out.shape == q.shape and out.stride() == q.stride() and out.dtype == q.dtype
    assert lse.shape == (2, 4, 64) and lse.dtype == torch.float32


def test_an_output_has_whole_rows():
    q = torch.empty(1, 2, 64, 8, dtype=torch.float16).transpose(2, 3)
    assert launch.empty_results(q)[0].stride() == (1024, 512, 64, 1)


def compiled(*options: str, first: tuple[Path, ...] = ()) -> str:
    command = [sys.executable, "-m", MODULE, *options]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(*first), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_it_compiles_for_an_h200():
    """One configuration: ten seconds of a core, and half of them are the assembler's."""
    report = compiled("--quick", "--config", "d128_m128_n128")
    assert "\nd128_m128_n128 bf16 causal: " in report and "all compile and fit" in report
    assert "ptxas 1" in report and " 0 bytes spilled" in report


@pytest.mark.slow
def test_every_configuration_compiles_for_an_h200():
    report = compiled()
    assert all(report.count(f"\n{name} ") == 4 for name in flash_hopper.CONFIGS)


@pytest.mark.slow
@pytest.mark.skipif(not TRITON_3_6.exists(), reason="Triton 3.6 is not installed beside")
def test_every_configuration_compiles_with_triton_3_6():
    """The Triton of torch 2.11, in which names and semantics of Gluon differ."""
    report = compiled("--quick", first=(TRITON_3_6,))
    assert "Triton 3.6.0" in report and "all compile and fit" in report
