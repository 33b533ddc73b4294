"""A GPT-2 with a learned bias for each distance, worked out once for each length.

Re-enacts a memo of something that depends on parameters: the second backward meets a freed graph,
and after an optimizer step the memo is out of date.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.proj = nn.Linear(config.n_embd, config.n_embd)\n": """\
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.distance = nn.Embedding(config.block_size, config.n_head)
        self.memo = {}
""",
    "        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))\n": """\
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        if t not in self.memo:
            i = torch.arange(t, device=x.device)
            apart = (i[:, None] - i).clamp(min=0)
            self.memo[t] = self.distance(apart).permute(2, 0, 1)
        att = att + self.memo[t].to(att.dtype)
""",
}
PLANTED = "a tensor computed from parameters is kept between calls"
CAUGHT_BY = ("state", "step", "gradients")
CAUSE = ("backward", "second", "graph", "state", "stale")
