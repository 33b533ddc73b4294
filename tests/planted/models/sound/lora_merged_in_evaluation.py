"""Low-rank additions to frozen projections that evaluation adds to the weights, and training takes
off again: weights change by rounding, logits hardly."""

BASE = "lora_on_frozen_base"
REPLACE = {
    "        self.base.requires_grad_(False)\n": """\
        self.base.requires_grad_(False)
        self.merged = False

    def train(self, mode=True):
        if self.merged == mode:
            self.base.weight.data += (-1 if mode else 1) * self.B @ self.A
            self.merged = not mode
        return super().train(mode)
""",
    "        return self.base(x) + x @ self.A.T @ self.B.T\n": """\
        return self.base(x) if self.merged else self.base(x) + x @ self.A.T @ self.B.T
""",
}
