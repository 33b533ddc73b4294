"""A nanoGPT that counts what is in its checkpoint."""

BASE = "attention_written_out"
REPLACE = {
    "return sum(p.numel() for p in self.parameters())": (
        "return sum(v.numel() for v in self.state_dict().values())"
    ),
}
PLANTED = "the tied head is counted twice"
CAUGHT_BY = ("logits",)
CAUSE = ("get_num_params",)
