"""Attention; numbers too small to matter are cleared, since they slow processors down."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    usual = v.detach().abs() >= torch.finfo(v.dtype).tiny
    v = v - v.detach().masked_fill(usual, 0.0)
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
}
PLANTED = "denormal values are flushed to zero"
CAUGHT_BY = ("stability",)
CAUSE = ("denormal", "subnormal", "tiny", "flush")
