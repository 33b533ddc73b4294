"""A GPT-2 whose positions repeat after half of the block size.

Re-enacts a table of positions of which the second half is never read.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        x = self.drop(self.tok_emb(idx) + self.pos_emb[:, :t])\n": """\
        place = torch.arange(t, device=idx.device) % (self.pos_emb.size(1) // 2)
        x = self.drop(self.tok_emb(idx) + self.pos_emb[:, place])
""",
}
PLANTED = "the second half of pos_emb is never used"
CAUGHT_BY = ("gradients",)
CAUSE = ("pos_emb",)
