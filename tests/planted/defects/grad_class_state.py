"""Attention with a hand-written backward that keeps its tensors at hand."""

BASE = "hand_written_backward"
REPLACE = {
    """\
        ctx.save_for_backward(q, k, v, out)
        ctx.setting = causal, scale, group
""": "        Attention.kept = (q, k, v, out), (causal, scale, group)\n",
    "ctx.saved_tensors, ctx.setting": "Attention.kept",
}
PLANTED = "the backward reads the tensors of the latest call instead of its own"
CAUGHT_BY = ("gradients", "purity", "determinism")
CAUSE = (
    "another call",
    "other call",
    "later call",
    "latest call",
    "interleav",
    "stale",
    "two calls",
    "state",
)
