"""The start of vLLM, as far as it runs without vLLM: what it stops at, on real tensors."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from assay.integrations import vllm_start
from assay.integrations.vllm_start import (
    cache_faults,
    described_caches,
    interface_faults,
    version_faults,
)

SHAPE = (4, 16, 2, 64)  # blocks, page, heads, D


def worker(*caches):
    return SimpleNamespace(model_runner=SimpleNamespace(kv_caches=list(caches)))


def split(keys=torch.bfloat16, values=torch.float8_e4m3fn):
    return torch.zeros(SHAPE, dtype=keys), torch.zeros(SHAPE, dtype=values)


def faults(*caches, layers=1, key_elements=128):
    return cache_faults(described_caches(worker(*caches)), layers=layers, key_elements=key_elements)


def test_two_tensors_of_their_own_dtypes_pass():
    assert not faults(split(), split(keys=torch.float16), layers=2)
    (described,) = described_caches(worker(split()))
    assert described["bytes"] == [4 * 16 * 2 * 64 * 2, 4 * 16 * 2 * 64]


@pytest.mark.parametrize(
    ("cache", "why"),
    [
        (torch.zeros(2, *SHAPE, dtype=torch.uint8), "one tensor of torch.uint8"),
        (split(values=torch.bfloat16), "values in torch.bfloat16"),
        (split(keys=torch.float8_e4m3fn), "keys in torch.float8_e4m3fn"),
        (split(values=torch.float8_e5m2), "values in torch.float8_e5m2"),
        ((split()[0], split()[1][:2]), "has shapes"),
    ],
)
def test_everything_else_stops(cache, why):
    (fault,) = faults(cache)
    assert why in fault


def test_layers_and_sizes_are_those_of_the_model():
    assert "1 caches for 2 layers" in faults(split(), layers=2)[0]
    assert "wanted 256 to a token" in faults(split(), key_elements=256)[0]


def test_versions_of_flashinfer_must_agree():
    own = {"flashinfer-python": "0.6.7"}
    assert not version_faults(own, {})
    assert not version_faults(
        own | {"flashinfer-cubin": "0.6.7", "flashinfer-jit-cache": "0.6.7+cu129"}, {}
    )
    assert "flashinfer-cubin is 0.6.6" in version_faults(own | {"flashinfer-cubin": "0.6.6"}, {})[0]
    (fault,) = version_faults(own | {"flashinfer-jit-cache": "0.6.8+cu129"}, {})
    assert "flashinfer-jit-cache is 0.6.8" in fault
    assert "not installed" in version_faults({"flashinfer-python": None}, {})[0]


def test_switches_that_would_hide_the_truth_stop_it():
    for name in ("FLASHINFER_DISABLE_VERSION_CHECK", "VLLM_ATTENTION_BACKEND"):
        (fault,) = version_faults({"flashinfer-python": "0.6.7"}, {name: "1"})
        assert name in fault


def test_interfaces_of_released_packages_stop_it():
    def released(indptr, kv_data_type=None): ...
    def forked(indptr, kv_data_type=None, k_data_type=None, v_data_type=None): ...

    settings = SimpleNamespace(is_asymmetric_kv=bool)
    assert not interface_faults(forked, settings)
    assert len(interface_faults(released, SimpleNamespace())) == 3


def test_it_needs_nothing_of_assay_and_says_what_is_missing(tmp_path):
    """It is run where assay is not installed: isolated, and here without FlashInfer."""
    command = [sys.executable, "-I", "-S", vllm_start.__file__]
    words = [str(tmp_path), "--layers", "1", "--key-elements", "128"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.strip() == "flashinfer-python is not installed"
