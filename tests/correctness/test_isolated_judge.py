"""A judge that never loads what it judges."""

import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from assay import plugins
from assay.correctness import isolated_judge
from assay.records.schema import Measurement
from assay.workloads.spec import WorkloadSpec

SPEC = WorkloadSpec(
    batch=2, heads=4, kv_heads=2, query_length=17, key_length=40, head_dim=16, dtype="float32",
    causal=True, seed=3,
)  # fmt: skip
SOUND = [
    name
    for name in ("eager", "sdpa", "flash2_torch", "jax_xla")
    if not plugins.find("sequence", name).missing
]
HEADER = '"""A test."""\nimport os, torch\nfrom assay.attention.sequence import eager\n'
CALLED = "def attention(q, k, v, *, causal, scale):\n"
RIGHT = "eager.attention(q, k, v, causal=causal, scale=scale)"


def judged(*names, spec=SPEC, folders=()) -> dict[str, Measurement]:
    items = isolated_judge.run(
        names, spec, probes=isolated_judge.PROBES, device="cpu", folders=folders
    )
    return {item.metric: item for item in items if isinstance(item, Measurement)}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sound_implementations_hold(name, dtype):
    measured = judged(name, spec=replace(SPEC, dtype=dtype))
    wanted = {f"error_over_budget_{tensor}" for tensor in ("out", "dq", "dk", "dv")}
    assert wanted <= set(measured) and all(m.status == "ok" for m in measured.values()), measured


CHEATS = {
    "zeros": (CALLED + "    return 0 * (q + k.sum() + v.sum())\n", "out is off by"),
    "a judge that is replaced": (
        "from assay.correctness import judge, isolated_judge\n"
        "judge.compare_values = judge.measurements = lambda *given: []\n"
        "isolated_judge.run = isolated_judge._comparison = print\n"
        + CALLED
        + "    return 0 * (q + k.sum() + v.sum())\n",
        "out is off by",
    ),
    "a clock, a generator and a tensor that are replaced": (
        "import time\ntime.perf_counter_ns = lambda: 0\nos.urandom = lambda n: n * b'0'\n"
        "torch.Tensor.numpy = torch.Tensor.double = lambda tensor, *rest: tensor\n"
        + CALLED
        + f"    return 1.01 * {RIGHT}\n",
        "",
    ),
    "an end of the process": (CALLED + "    os._exit(0)\n", "it gave nothing"),
    "an exit code": (CALLED + "    os._exit(9)\n", "exit code 9"),
    "an error": (CALLED + "    raise ValueError('no')\n", "ValueError: no"),
    "a tensor of a class of its own": (
        CALLED + f"    return torch.nn.Parameter({RIGHT})\n",
        "no subclass",
    ),
    "fewer bytes than wanted": (
        "from pathlib import Path\n"
        "Path.write_bytes = lambda path, content: open(path, 'wb').write(content[:7])\n"
        + CALLED
        + f"    return {RIGHT}\n",
        "out has 7 bytes, wanted",
    ),
    "gradients that are left out": (
        "from assay.correctness import isolated_judge\n"
        "isolated_judge._given = lambda call, backward: [('out', call())]\n"
        + CALLED
        + f"    return {RIGHT}\n",
        "dq has 0 bytes, wanted",
    ),
    "a gradient of nothing": (CALLED + f"    return {RIGHT}.detach()\n", "no gradient arrives"),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_what_is_wrong_does_not_hold(tmp_path, cheat):
    source, words = CHEATS[cheat]
    (tmp_path / "cheat.py").write_text(HEADER + source)
    measured = judged("cheat", folders=[tmp_path])
    failed = [m for m in measured.values() if m.status == "failed"]
    assert failed and words in failed[0].reason, measured
    assert not [name for name in sys.modules if name.endswith("cheat")]


def test_its_own_layout_and_its_own_refusal(tmp_path):
    (tmp_path / "own.py").write_text(
        HEADER
        + 'LAYOUT = "BSHD"\n'
        + CALLED
        + "    q, k, v = (x.transpose(1, 2) for x in (q, k, v))\n"
        f"    return {RIGHT}.transpose(1, 2)\n"
    )
    assert all(m.status == "ok" for m in judged("own", folders=[tmp_path]).values())
    (tmp_path / "narrow.py").write_text(
        HEADER + CALLED + f"    return {RIGHT}\ndef supports(spec, host): return 'too wide'\n"
    )
    (refused,) = judged("narrow", folders=[tmp_path]).values()
    assert refused.status == "unsupported" and refused.reason == "too wide"
