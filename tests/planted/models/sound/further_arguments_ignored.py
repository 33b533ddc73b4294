"""No cache, and a forward that takes further arguments and leaves them."""

BASE = "attention_written_out"
REPLACE = {
    """\
    def forward(self, idx, targets=None, cache=None):
        T = idx.size(1)
        start = cache[0][0].size(2) if cache else 0
        pos = torch.arange(start, start + T, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        new = []
        for i, block in enumerate(self.h):
            x, kv = block(x, cache[i] if cache else None)
            new.append(kv)
""": """\
    def forward(self, idx, targets=None, **unused):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x, _ = block(x)
""",
    """\
        if cache is None:
            return logits, loss
        return logits, loss, new
""": """\
        return logits, loss
""",
}
