"""A nanoGPT whose first MLP weights are rounded to 8 bits: in training at each call, in evaluation
once, until modes change."""

BASE = "attention_written_out"
REPLACE = {
    "class MLP(nn.Module):\n": """\
class RoundedLinear(nn.Linear):
    kept = None

    def rounded(self):
        scale = self.weight.detach().abs().amax() / 127
        return (self.weight.detach() / scale).round() * scale

    def train(self, mode=True):
        self.kept = None
        return super().train(mode)

    def forward(self, x):
        if self.training:
            weight = self.weight + (self.rounded() - self.weight).detach()
        else:
            self.kept = weight = self.rounded() if self.kept is None else self.kept
        return F.linear(x, weight, self.bias)


class MLP(nn.Module):
""",
    "self.c_fc = nn.Linear(": "self.c_fc = RoundedLinear(",
}
