"""A nanoGPT with a path for training that was never run without a graph."""

BASE = "attention_written_out"
REPLACE = {
    "        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)\n": """\
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        if self.training and torch.is_grad_enabled():
            mask = torch.ones_like(mask)
""",
}
PLANTED = "no mask in train mode where graphs are built"
CAUGHT_BY = ("causality",)
CAUSE = ("in train mode",)
