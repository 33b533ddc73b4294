"""Attention whose backward reads the incoming gradient as a plain array."""

BASE = "hand_written_backward"
REPLACE = {
    "        weights, grad = _weights(q, keys, causal, scale), grad.float()\n": """\
        rows, dim = out.shape[2:]
        strides = (out.shape[1] * rows * dim, rows * dim, dim, 1)
        grad = torch.as_strided(grad, out.shape, strides)
        weights, grad = _weights(q, keys, causal, scale), grad.float()
""",
}
PLANTED = "the strides of grad_out are ignored"
CAUGHT_BY = ("gradients", "strides")
CAUSE = ("grad_out", "expanded", "contiguous", "stride")
