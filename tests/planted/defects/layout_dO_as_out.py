"""Attention whose backward reads dO with the strides of the output."""

BASE = "hand_written_backward"
REPLACE = {
    "        weights, grad = _weights(q, keys, causal, scale), grad.float()\n": """\
        grad = grad.contiguous() if 0 in grad.stride() else grad
        grad = torch.as_strided(grad, out.shape, out.stride(), grad.storage_offset())
        weights, grad = _weights(q, keys, causal, scale), grad.float()
""",
}
PLANTED = "dO is read with the strides of the output"
CAUGHT_BY = ("strides",)
CAUSE = "dO is read with strides not its own"
