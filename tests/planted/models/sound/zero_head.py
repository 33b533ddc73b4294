"""A head of zeros: all logits are equal at first, and only the head has a gradient in step 1."""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)\n": """\
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        nn.init.zeros_(self.head.weight)
""",
}
