"""Statistics taken on the model's device are those that NumPy finds on the host."""

import subprocess
import sys

import new_process
import pytest
import torch
import torch_models as made

import assay
from assay.captures.statistics import statistics
from assay.captures.store import Store
from assay.captures.torch import statistics as torch_statistics
from assay.captures.torch.transfer import as_stored


def cases():
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator)

    broken = drawn(1, 2, 9, 16)
    broken[0, 0, 1, 3], broken[0, 1, 2, 5] = float("nan"), -float("inf")
    broken[0, 1, 3] = 0
    return {
        "several stretches": drawn(2, 3, 700, 40),
        "positions before heads": drawn(2, 50, 3, 64).transpose(1, 2),
        "part of a whole": drawn(2, 50, 3, 3, 8)[:, :, 1].transpose(1, 2),
        "not all finite": broken,
        "nothing finite": torch.full((1, 1, 2, 4), float("nan")),
        "far from zero": 1000 + 1e-3 * drawn(1, 1, 300, 33),
        "half": drawn(2, 2, 20, 24).half(),
        "one number": torch.ones(1, 1, 1, 1),
    }


def agree(computed, tensor):
    expected = statistics(as_stored(tensor.contiguous()), heads_axis=1)
    for name in ("count", "nonfinite", "zeros", "minimum", "maximum", "absmax", "outliers"):
        assert getattr(computed, name) == getattr(expected, name), name
    if expected.mean is None:
        assert computed.mean is None and computed.std is None
        return
    assert computed.mean == pytest.approx(expected.mean, rel=1e-6, abs=1e-6)
    assert computed.std == pytest.approx(expected.std, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("dtype", ["as it is", torch.bfloat16, torch.float64])
def test_torch_functions(name, dtype):
    tensor = cases()[name]
    if dtype != "as it is":
        tensor = tensor.to(dtype)
    summary, finish = torch_statistics.start_summary(tensor)
    agree(finish(summary), tensor)


def test_the_kernel():
    """Interpreted, which must be chosen before triton is loaded: so in a process of its own."""
    triton = pytest.importorskip("triton")
    if triton.__version__ < "3.7":
        pytest.skip("the interpreter of this triton does not go with the NumPy of today")
    run = [sys.executable, __file__]
    tests = new_process.ROOT / "tests"
    environment = new_process.environment(tests, TRITON_INTERPRET="1")
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == list(cases())


def test_statistics_of_a_model(tmp_path):
    model = made.transformer("llama").eval()
    for mode in ("stats", "full"):
        with assay.capturing(model, tmp_path / mode, mode=mode):
            model(made.tokens())
    summed, full = (Store.open(tmp_path / mode) for mode in ("stats", "full"))
    for short, long in zip(summed.manifest().records, full.manifest().records, strict=True):
        assert short.file is None and short.mode == "stats"
        read = full.read(long)
        for name in ("q", "k", "v", "out"):
            agree(short.tensors[name].stats, made.as_torch(read[name]))
        for name in ("x", "layer_out"):
            agree(short.tensors[name].stats, made.as_torch(read[name])[:, None])
        assert "statistics are of" in short.tensors["positions"].why


if __name__ == "__main__":
    from assay.captures.torch import statistics_triton
    from assay.captures.torch.step_statistics import SummaryBuffer

    for name, tensor in cases().items():
        buffer = SummaryBuffer(statistics_triton.kernel_for(tensor), tensor.device)
        buffer._memory.fill_(float("nan"))
        buffer.add(tensor), buffer.add(tensor)
        buffer.send()
        computed, again = buffer.statistics()
        assert computed == again
        agree(computed, tensor)
        print(name)
