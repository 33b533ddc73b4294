"""A GPT-2 with rotary positions whose attention output passes through random signs.

Re-enacts persistent=False on a buffer that cannot be worked out again.
"""

BASE = "rope_grouped_rmsnorm"
REPLACE = {
    "        self.wo = nn.Linear(self.heads * self.d, config.n_embd, bias=False)\n": """\
        self.wo = nn.Linear(self.heads * self.d, config.n_embd, bias=False)
        signs = torch.randint(2, (self.heads * self.d,)) * 2.0 - 1.0
        self.register_buffer("signs", signs, persistent=False)
""",
    "return self.wo(y.transpose(1, 2).flatten(2)), present": (
        "return self.wo(y.transpose(1, 2).flatten(2) * self.signs), present"
    ),
}
PLANTED = "the random signs are a buffer that is not saved"
CAUGHT_BY = ("checkpoint",)
CAUSE = ("checkpoint", "restored", "saved", "logits", "load")
