"""A nanoGPT with a shortcut for prompts that do not fill the block."""

BASE = "attention_written_out"
REPLACE = {
    "        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)\n": """\
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        if not self.training and past is None and self.config.block_size > T:
            mask = torch.ones_like(mask)
""",
}
PLANTED = "no mask in evaluation of shorter sequences"
CAUGHT_BY = ("causality",)
CAUSE = ("in eval mode",)
