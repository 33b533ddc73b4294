"""Copies of q, k and v inside a call: a baseline that repeats its keys first is found out."""

import pytest

pytest.importorskip("torch")

from bound_calls import bound, probed, written

from assay.performance.probes import kernels

MHA, GROUPED = "b2_h4_s33_d16", "b2_h4_kv2_s33_d16"
KEYS = 2 * 4 * 33 * 16 * 4  # of k, or of v, for every query head
RUN = "return eager.attention(q, k, v, causal=causal, scale=scale)"
PLANTED = {
    "repeats": (
        "k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))\n" + RUN, GROUPED, 2 * KEYS
    ),
    "clones": ("k = k.clone()\n" + RUN, MHA, KEYS),
    "turns": ("k = k.transpose(1, 2).contiguous().transpose(1, 2)\n" + RUN, MHA, KEYS),
    "gathers": ("v = v[:, torch.arange(4)]\n" + RUN, MHA, KEYS),
    "joins": ("k = torch.cat([k, k[:, :, :0]], dim=2)\n" + RUN, MHA, KEYS),
    "fills": ("x = torch.empty_like(k)\nx.copy_(k)\n" + RUN, MHA, KEYS),
    "widens": ("q = q.double()\n" + RUN.replace("q, k, v", "q.float(), k, v"), MHA, 3 * KEYS),
    "expands": (
        "k, v = (x[:, :, None].expand(2, 2, 2, 33, 16).reshape(2, 4, 33, 16) for x in (k, v))\n"
        + RUN, GROUPED, 2 * KEYS
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_copies_are_found_to_the_byte(tmp_path, name):
    """`widens` writes q once as float64 and, a copy of the copy, once as float32."""
    body, workload, copied = PLANTED[name]
    # eager's own flatten of a turned k copies it back: one more.
    copied += KEYS if name == "turns" else 0
    copies = probed(kernels, bound(written(tmp_path, name, body), workload))["input_copy_bytes"]
    assert copies.value == copied
    assert "dispatcher" in copies.source


@pytest.mark.parametrize(
    ("name", "workload", "copied"),
    [
        ("eager", MHA, 0),
        ("eager", GROUPED, 2 * KEYS),  # one head's keys and values for each query head
        ("flash2_torch", MHA, 0),
        ("sdpa", MHA, 0),
        ("sdpa_flash", GROUPED, 0),
        ("sdpa_math", GROUPED, 2 * KEYS),
    ],
)
def test_copies_of_ours(name, workload, copied):
    copies = probed(kernels, bound(name, workload))["input_copy_bytes"]
    assert copies.value == copied


def test_memory_used_again_is_no_copy(tmp_path):
    """A freed copy's memory may come back as something else, which is then not an input."""
    body = "x = k.clone()\ndel x\ny = torch.zeros_like(k)\nfor _ in range(9): y = y.clone()\n" + RUN
    copies = probed(kernels, bound(written(tmp_path, "again", body), MHA))["input_copy_bytes"]
    assert copies.value == KEYS
