"""A nanoGPT that keeps token ids below a bound."""

BASE = "attention_written_out"
REPLACE = {
    "        pos = torch.arange(start, start + T, device=idx.device)\n": """\
        pos = torch.arange(start, start + T, device=idx.device)
        idx.clamp_(max=self.config.vocab_size - 2)
""",
}
PLANTED = "the tokens of the caller are changed"
CAUGHT_BY = ("logits",)
CAUSE = ("tokens",)
