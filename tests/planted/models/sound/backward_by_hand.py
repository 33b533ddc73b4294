"""A GELU and a normalization with a backward of their own, and rounding that lets gradients pass.

Rounding has slope zero: its backward is another one on purpose. `setup_context` is the newer way
to write a function, a name for its `apply` the usual one to call it.
"""

BASE = "attention_written_out"
REPLACE = {
    "class Attention(nn.Module):\n": """\
class HandGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        below = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        return dy * (below + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


class HandNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, gain):
        scale = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return x * scale * gain, scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx, dy, _):
        x, gain, scale = ctx.saved_tensors
        unit, wide = x * scale, dy * gain
        dx = scale * (wide - unit * (wide * unit).mean(-1, keepdim=True))
        return dx, (dy * unit).flatten(0, -2).sum(0)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        return (x / step).round() * step

    @staticmethod
    def backward(ctx, dy):
        return dy, None


gelu = HandGelu.apply


class Attention(nn.Module):
""",
    "        self.drop = nn.Dropout(config.dropout)\n\n    def forward(self, x):\n": """\
        self.drop = nn.Dropout(config.dropout)
        self.gain = nn.Parameter(torch.ones(config.n_embd))

    def forward(self, x):
        x = Rounded.apply(HandNorm.apply(x, self.gain)[0], 2**-6)
""",
    "h = F.gelu(self.c_fc(x))": "h = gelu(self.c_fc(x))",
}
