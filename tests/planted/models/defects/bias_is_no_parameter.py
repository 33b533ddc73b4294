"""A nanoGPT with a learned shift before its head."""

BASE = "attention_written_out"
REPLACE = {
    "        self.lm_head.weight = self.wte.weight\n": """\
        self.lm_head.weight = self.wte.weight
        self.bias_t = torch.zeros(config.n_embd, requires_grad=True)
""",
    "            new.append(kv)\n": """\
            new.append(kv)
        x = x + self.bias_t
""",
}
PLANTED = "a tensor that asks for a gradient and is no parameter"
CAUGHT_BY = ("gradients",)
CAUSE = ("not among",)
