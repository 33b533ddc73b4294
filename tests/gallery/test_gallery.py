"""Wrappers of public implementations: what each states of its upstream, and how it refuses.

No upstream is needed: they are somebody else's, and a small one of our own stands in for one.
"""

from importlib import util

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from assay import plugins
from assay.attention import contract
from assay.host import CHECKOUT, inspect
from assay.studies import kconfig
from assay.workloads.spec import WorkloadSpec

GALLERY = CHECKOUT / "gallery"
WRAPPERS = {
    name: plugin
    for name, plugin in plugins.listing("sequence", [GALLERY]).items()
    if plugin.path.parent == GALLERY
}
FROM_GITHUB = [n for n, p in WRAPPERS.items() if "repository" in p.literals.get("UPSTREAM", {})]
SPEC = WorkloadSpec(
    batch=1, heads=2, kv_heads=2, query_length=128, key_length=128, head_dim=64, dtype="float16",
    causal=True, seed=0,
)  # fmt: skip

# Laid out as an upstream is: a package whose __init__ cannot be run here, and einops.
FAKE = """
from einops import rearrange
from .helpers import masked

def causal_attention(q, k, v):
    scores = masked(q @ rearrange(k, 'b h n d -> b h d n') * q.shape[-1] ** -0.5)
    return scores.softmax(-1) @ v
"""
HELPERS = """
import torch

def masked(scores):
    ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.float().masked_fill(ahead, float('-inf')).to(scores.dtype)
"""
WRAPPER = """
from _upstream import Upstream

UPSTREAM = {
    "repository": "somebody/attention", "commit": "c0ffee", "files": {"fake/core.py": "BLOB"}
}
LIMITS = {"queries": "equal", "masks": "causal", "groups": [1]}
upstream = Upstream(**UPSTREAM)


def attention(q, k, v, *, causal, scale):
    return upstream.load().causal_attention(q, k, v)


def supports(spec, host):
    return upstream.refusal() or (None if spec.scale_percent == 100 else "no scale")
"""


def neighbour(name: str):
    """A module of the gallery that is no wrapper."""
    spec = util.spec_from_file_location(name, GALLERY / f"{name}.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", WRAPPERS)
def test_each_wrapper_names_its_upstream(name):
    upstream = WRAPPERS[name].literals["UPSTREAM"]
    if "package" in upstream:
        assert upstream["package"] in WRAPPERS[name].requires and upstream["file"].endswith(".py")
        return
    assert upstream["repository"].count("/") == 1 and len(upstream["commit"]) == 40
    assert upstream["files"] and all(len(blob) == 20 for blob in upstream["files"].values())


def test_the_study_has_them_all(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    study = kconfig.load(CHECKOUT / "defconfigs/gallery", [], [])
    assert set(study.implementations) == set(WRAPPERS)


@pytest.mark.parametrize("name", FROM_GITHUB)
def test_without_its_upstream_a_wrapper_refuses_and_says_how_to_get_it(name, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_UPSTREAMS", str(tmp_path))
    wrapper = WRAPPERS[name]
    if wrapper.missing:
        pytest.skip(f"{wrapper.missing} is not installed")
    implementation = contract.load(name, [GALLERY])
    spec = implementation.limits.fitted(SPEC)
    reason = implementation.refusal(spec, inspect(commit=False))
    commit = wrapper.literals["UPSTREAM"]["commit"]
    assert reason and f"checkout {commit}" in reason and "git clone https://github.com/" in reason


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """The folder of an upstream's checkout, and its wrapper's file."""
    checkout, file = tmp_path / "somebody/attention", GALLERY / "_upstream.py"
    (checkout / "fake").mkdir(parents=True)
    (checkout / "fake/__init__.py").write_text("import a_package_that_nobody_has")
    (checkout / "fake/core.py").write_text(FAKE)
    (checkout / "fake/helpers.py").write_text(HELPERS)
    blob = neighbour("_upstream").git_blob(FAKE.encode())[:20]
    (tmp_path / "_upstream.py").write_text(file.read_text())
    (tmp_path / "_einops.py").write_text((GALLERY / "_einops.py").read_text())
    wrapper = tmp_path / "fake_wrapper.py"
    wrapper.write_text(WRAPPER.replace("BLOB", blob))
    monkeypatch.setenv("ASSAY_UPSTREAMS", str(tmp_path))
    monkeypatch.syspath_prepend(str(GALLERY))
    return checkout, wrapper


def test_a_wrapper_runs_its_upstream_from_the_checkout(fake):
    _, wrapper = fake
    attention = contract.load(str(wrapper)).attention
    q = torch.randn(1, 2, 5, 8)
    out = attention(q, q, q, causal=True, scale=8**-0.5)
    right = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    np.testing.assert_allclose(out, right, atol=1e-5)


def test_an_altered_upstream_is_refused_by_its_blob(fake):
    checkout, wrapper = fake
    implementation = contract.load(str(wrapper))
    spec = SPEC
    assert implementation.refusal(spec, inspect(commit=False)) is None
    (checkout / "fake/core.py").write_text(FAKE.replace("-0.5", "-0.25"))
    reason = implementation.refusal(spec, inspect(commit=False))
    assert "core.py is git blob" in reason and "checkout c0ffee" in reason
    with pytest.raises(ImportError, match="git blob"):
        implementation.attention(*(torch.zeros(1, 1, 2, 2),) * 3, causal=True, scale=1.0)


@pytest.mark.parametrize(
    ("pattern", "sizes", "wanted"),
    [
        ("b h n d -> b n (h d)", {}, (2, 4, 15)),
        ("b h n d -> b h 1 n d", {}, (2, 3, 1, 4, 5)),
        ("... n d -> ... d n", {}, (2, 3, 5, 4)),
        ("b (g h) n d -> g b h n d", {"g": 3}, (3, 2, 1, 4, 5)),
    ],
)
def test_what_stands_in_for_einops(pattern, sizes, wanted):
    einops = neighbour("_einops")
    array = torch.randn(2, 3, 4, 5)
    assert einops.rearrange(array, pattern, **sizes).shape == wanted
    repeated = einops.repeat(array, "b h n d -> b (h g) n d", g=2)
    assert torch.equal(repeated, array.repeat_interleave(2, dim=1))
    summed = einops.reduce(repeated, "b (h g) n d -> b h n d", "sum", g=2)
    assert torch.equal(summed, 2 * array)
