"""A nanoGPT that attends in chunks of 64 tokens where a sequence is longer than one."""

BASE = "attention_written_out"
REPLACE = {
    "        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)\n": """\
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        if past is None and T > 64:
            mask = mask | (torch.arange(S)[None] // 64 == torch.arange(T)[:, None] // 64)
""",
}
PLANTED = "within a chunk of 64 every token sees every other"
CAUGHT_BY = ("causality",)
CAUSE = ("block of 272",)
