"""What flash2_triton promises beside accuracy: bits, blindness, refusals and configurations."""

import subprocess
import sys

import pytest
from new_process import ROOT, environment

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from flash2_problem import Problem

from assay.attention import contract
from assay.attention.sequence import flash2_triton
from assay.attention.sequence.flash2_triton import configs, launch, operator
from assay.devices import Device
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="kernels are compiled here: see test_on_gpu.py"
)
SMALL_TILES = ["forward_m32_n16_w8_s2", "forward_m64_n64_w4_s3", "forward_m32_n32_w8_s2"]


def test_the_listed_configurations_are_those_there_are():
    assert tuple(configs.BY_NAME) == flash2_triton.CONFIGS
    assert len(set(flash2_triton.CONFIGS)) == len(flash2_triton.CONFIGS)
    assert all(len(named) <= 8 for named in configs.BY_KERNEL.values())


@pytest.mark.parametrize("head_dim", [1, 16, 24, 64, 80, 128, 192, 256])
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("target", configs.TARGETS.values(), ids=lambda target: target.name)
def test_every_target_has_a_configuration_for_every_input(target, bits, head_dim):
    for kernel in configs.BY_KERNEL:
        chosen = configs.choose(kernel, bits=bits, head_dim=head_dim, target=target)
        assert chosen.misfit(bits=bits, head_dim=head_dim, target=target) is None


def test_a_pinned_configuration_is_taken_by_its_kernel_only():
    asked = {"bits": 16, "head_dim": 64, "target": configs.TARGETS["sm_90"]}
    pinned = configs.choose("dq", **asked, pinned="dq_m64_n32_w4_s2")
    assert pinned.name == "dq_m64_n32_w4_s2"
    default = configs.choose("forward", **asked)
    assert configs.choose("forward", **asked, pinned="dq_m64_n32_w4_s2") == default != pinned


def test_a_configuration_that_does_not_fit_is_refused_and_not_chosen():
    asked = {"head_dim": 256, "target": configs.TARGETS["sm_90"]}
    name = "forward_m128_n128_w8_s3"
    with pytest.raises(ValueError, match="does not fit 16-bit inputs of head dimension 256"):
        configs.choose("forward", bits=16, **asked, pinned=name)
    assert configs.choose("forward", bits=16, **asked).name != name
    with pytest.raises(ValueError, match="float32 multiplications"):
        configs.choose("forward", bits=32, **asked, pinned="forward_m32_n32_w8_s2")
    with pytest.raises(ValueError, match="registers"):
        configs.choose("dkdv", bits=16, **asked, pinned="dkdv_m32_n128_w8_s3")


def test_an_unknown_configuration_is_refused():
    with pytest.raises(ValueError, match="no configuration 'fast'; it has forward_m128"):
        Problem(config="fast").results()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_repeats_are_bit_equal_and_inputs_are_left_alone(dtype):
    problem = Problem(dtype=dtype, kv_heads=1, heads=3, queries=70)
    given = problem.tensors()
    copies = {name: tensor.clone() for name, tensor in given.items()}
    inputs = [given[name].requires_grad_() for name in ("q", "k", "v")]
    runs = []
    for _ in range(2):
        out, lse = flash2_triton.attention(*inputs, causal=True, scale=0.3, lse=True)
        runs.append((out, lse, *torch.autograd.grad(out, inputs, given["grad_out"])))
    assert all(map(torch.equal, *runs))
    assert all(torch.equal(given[name], copies[name]) for name in given)


@pytest.mark.sampled
@pytest.mark.parametrize("config", SMALL_TILES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_future_does_not_matter(dtype, config):
    """A published kernel let its unmasked loop run into the future where tiles are oblong."""
    problem = Problem(dtype=dtype, heads=1, queries=70, keys=130)
    given = problem.tensors()
    q, k, v = (given[name] for name in ("q", "k", "v"))
    before = flash2_triton.attention(q, k, v, causal=True, scale=0.3, config=config)
    for query in (0, 31, 32, 50, 68):
        k2, v2, seen = k.clone(), v.clone(), query + 130 - 70 + 1
        k2[:, :, seen:] += 50.0
        v2[:, :, seen:] = -1000.0
        after = flash2_triton.attention(q, k2, v2, causal=True, scale=0.3, config=config)
        assert torch.equal(before[:, :, : query + 1], after[:, :, : query + 1])
        assert not torch.equal(before[:, :, query + 1 :], after[:, :, query + 1 :])


def test_what_lies_beyond_the_lengths_is_never_read():
    """As in a cache whose unused rows were never written."""
    problem = Problem(batch=2, heads=1, queries=33, keys=100, lengths=(70, 3))
    given, expected = problem.tensors(), problem.results()
    for row, length in enumerate(problem.lengths):
        given["k"][row, :, length:] = given["v"][row, :, length:] = float("nan")
    inputs = [given[name].requires_grad_() for name in ("q", "k", "v")]
    out = flash2_triton.attention(*inputs, causal=True, scale=problem.scale, **problem.extras())
    assert torch.equal(out, expected["out"])
    for name, grad in zip("qkv", torch.autograd.grad(out, inputs, given["grad_out"]), strict=True):
        assert torch.equal(grad, expected[f"d{name}"])


@pytest.mark.parametrize("causal", [True, False])
def test_tiles_that_no_row_sees_are_not_read(causal):
    problem = Problem(heads=1, queries=96, keys=96, window=8, causal=causal)
    given, expected = problem.tensors(), problem.results()
    given["k"][:, :, 16:48] = given["v"][:, :, 16:48] = float("nan")  # two tiles of 16 keys
    setting = {"causal": causal, "scale": problem.scale, "window": 8}
    out = flash2_triton.attention(
        *(given[name] for name in ("q", "k", "v")), **setting, config="forward_m32_n16_w8_s2"
    )
    assert out[:, :, 32:64].isnan().any()
    assert torch.allclose(out[:, :, 64:], expected["out"][:, :, 64:], atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_queries_that_see_nothing(dtype):
    problem = Problem(dtype=dtype, heads=1, queries=150, keys=17)
    actual = problem.assert_right()
    blind = 150 - 17
    assert (actual["out"][:, :, :blind] == 0).all() and (actual["dq"][:, :, :blind] == 0).all()
    assert actual["lse"][:, :, :blind].isneginf().all()


@pytest.mark.parametrize("needed", [("q",), ("k",), ("v",), ("q", "v")])
def test_only_what_is_needed_is_computed(needed, monkeypatch):
    problem = Problem(queries=33, keys=40)
    everything = problem.results()
    run = []
    for name in ("run_dq", "run_dkdv"):
        kept = getattr(operator, name)
        monkeypatch.setattr(
            operator, name, lambda *given, name=name, kept=kept: run.append(name) or kept(*given)
        )
    given = problem.tensors()
    inputs = [given[name].requires_grad_(name in needed) for name in ("q", "k", "v")]
    out = flash2_triton.attention(*inputs, causal=True, scale=problem.scale)
    grads = torch.autograd.grad(out, [given[name] for name in needed], given["grad_out"])
    assert all(torch.equal(g, everything[f"d{n}"]) for n, g in zip(needed, grads, strict=True))
    assert ("run_dq" in run) == ("q" in needed)
    assert ("run_dkdv" in run) == ("k" in needed or "v" in needed)


def test_outputs_and_gradients_lie_as_the_inputs_do():
    """A model that keeps heads inside rows can join the heads of the output without a copy."""
    given = Problem(batch=2, queries=9, keys=9).tensors()
    q, k, v = (
        given[name].transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        for name in ("q", "k", "v")
    )
    out = flash2_triton.attention(q, k, v, causal=True, scale=0.3)
    assert out.stride() == q.stride() and not out.is_contiguous()
    assert torch.autograd.grad(out.sum(), k)[0].stride() == k.stride()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scale": 0.0}, "scale must be positive"),
        ({"window": 0}, "window must be at least 1"),
        ({"lengths": torch.zeros(3, dtype=torch.int32)}, "lengths is"),
        ({"lengths": torch.zeros(1)}, "lengths is torch.float32"),
        ({"cu_seqlens": (torch.zeros(2, dtype=torch.int32), None)}, "one of them is None"),
        ({"k": torch.zeros(1, 1, 4, 8)}, "wanted q"),
        ({"q": torch.zeros(1, 2, 4, 16).double()}, "float64"),
        ({"q": torch.zeros(2, 4, 16)}, "wanted q"),
        ({"q": torch.zeros(2, 2, 4, 16)}, "batch and head dimension must be the same"),
    ],
)
def test_what_cannot_be_right_is_refused(change, reason):
    usual = {name: torch.zeros(1, 1, 4, 16) for name in ("q", "k", "v")}
    given = {**usual, "causal": True, "scale": 1.0, **change}
    with pytest.raises(ValueError, match=reason):
        flash2_triton.attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)


def test_bfloat16_is_refused_by_the_interpreter():
    """Triton's interpreter multiplies the bits of bfloat16 as integers, without a word."""
    tensor = torch.zeros(1, 1, 4, 16, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="interpreter multiplies the bits of bfloat16"):
        flash2_triton.attention(tensor, tensor, tensor, causal=True, scale=1.0)


def spec(**given) -> WorkloadSpec:
    usual = {
        "batch": 1, "heads": 1, "kv_heads": 1, "query_length": 64, "key_length": 64,
        "head_dim": 64, "dtype": "float32", "causal": True, "seed": 0,
    }  # fmt: skip
    return WorkloadSpec(**{**usual, **given})


def host(*devices: Device) -> Host:
    return Host(
        devices=devices, cores=2, os="", versions={}, commit=None, dirty=None, unknown={}
    )  # fmt: skip


def test_what_is_supported_on_the_cpu():
    here = host(Device(kind="cpu", index=0, name="", memory_bytes=1))
    assert flash2_triton.supports(spec(), here) is None
    assert flash2_triton.supports(spec(query_length=1025, key_length=1025), here) is None
    assert flash2_triton.supports(spec(batch=8, query_length=512, key_length=512), here) is None
    assert "too long" in flash2_triton.supports(spec(query_length=2048), here)
    assert "too long" in flash2_triton.supports(
        spec(heads=9, query_length=512, key_length=512), here
    )
    implementation = contract.load("flash2_triton")  # one rule for all kernels of Triton
    assert "computes bfloat16 wrongly" in implementation.refusal(spec(dtype="bfloat16"), here)
    assert "above 256" in flash2_triton.supports(spec(head_dim=288), here)


def test_compiled_kernels_are_refused_for_the_cpu(monkeypatch):
    """On a machine with a GPU the kernels are compiled, and CPU tensors have none."""
    from assay.attention.sequence.flash2_triton import arguments

    monkeypatch.setattr(arguments, "INTERPRETED", False)
    here = host(Device(kind="cpu", index=0, name="", memory_bytes=1))
    assert "cannot run on the CPU" in flash2_triton.supports(spec(), here)
    with pytest.raises(ValueError, match="cannot run on the CPU"):
        Problem().results()


def test_a_gpu_with_too_little_shared_memory_is_refused(monkeypatch):
    from assay.attention.sequence.flash2_triton import arguments

    small = configs.Target(name="sm_75", backend="cuda", shared_bytes=16384)
    monkeypatch.setattr(arguments, "INTERPRETED", False)
    monkeypatch.setattr(arguments, "target_of", lambda device: small)
    gpu = host(Device(kind="cuda", index=0, name="", memory_bytes=1))
    assert "no configuration" in flash2_triton.supports(spec(head_dim=256), gpu)
    assert flash2_triton.supports(spec(head_dim=16), gpu) is None


def test_this_machine_interprets():
    assert launch.INTERPRETED


LATE = """
import triton, triton.language
import torch
from assay.attention.sequence import flash2_triton
q = torch.ones(1, 1, 3, 16, requires_grad=True)
flash2_triton.attention(q, q, q, causal=True, scale=1.0).sum().backward()
assert q.grad.isfinite().all()
"""


@pytest.mark.slow
def test_triton_may_have_been_imported_before():
    """Then Triton's own library functions are compiled ones, which an interpreter cannot call."""
    environ = {k: v for k, v in environment().items() if k != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", LATE], check=True, cwd=ROOT, env=environ)
