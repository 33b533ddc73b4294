"""A nanoGPT that trains in bfloat16 with scores scaled twice against overflow."""

BASE = "attention_written_out"
REPLACE = {
    "        att = F.softmax(att, dim=-1)\n": """\
        if q.dtype in (torch.float16, torch.bfloat16) and self.training:
            att = att / math.sqrt(k.size(-1))
        att = F.softmax(att, dim=-1)
""",
}
PLANTED = "in half precision scores are divided by the root of the width twice"
CAUGHT_BY = ("precision",)
CAUSE = ("train mode",)
