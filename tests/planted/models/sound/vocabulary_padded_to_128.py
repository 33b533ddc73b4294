"""An embedding padded to a multiple of 128 rows; logits are cut to the vocabulary."""

BASE = "attention_written_out"
REPLACE = {
    "self.wte = nn.Embedding(config.vocab_size, config.n_embd)": (
        "self.wte = nn.Embedding(-(-config.vocab_size // 128) * 128, config.n_embd)"
    ),
    "self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)": (
        "self.lm_head = nn.Linear(config.n_embd, -(-config.vocab_size // 128) * 128, bias=False)"
    ),
    "logits = self.lm_head(x)": "logits = self.lm_head(x)[..., : self.config.vocab_size]",
}
