"""A nanoGPT with a softmax of its own and a projection of its own for keys, bias included."""

BASE = "attention_written_out"
REPLACE = {
    "        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)\n": (
        "        width = config.n_embd\n"
        "        self.wq, self.wk, self.wv = (nn.Linear(width, width) for _ in range(3))\n"
    ),
    "q, k, v = self.c_attn(x).split(C, dim=2)": "q, k, v = self.wq(x), self.wk(x), self.wv(x)",
    "        att = F.softmax(att, dim=-1)\n": """\
        att = torch.exp(att - att.amax(dim=-1, keepdim=True))
        att = att / att.sum(dim=-1, keepdim=True)
""",
}
