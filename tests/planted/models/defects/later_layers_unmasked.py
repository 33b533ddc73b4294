"""A nanoGPT whose layers from the seventh on were ported without their mask."""

BASE = "attention_written_out"
REPLACE = {
    "        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)\n": """\
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        if self.layer >= 6:
            mask = torch.ones_like(mask)
""",
}
PLANTED = "layers 6 and up see the future"
CAUGHT_BY = ("causality",)
CAUSE = ("8 layers",)
