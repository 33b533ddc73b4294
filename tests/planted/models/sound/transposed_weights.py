"""A weight that is stored transposed: a parameter whose memory is not in the order of its rows."""

BASE = "attention_written_out"
REPLACE = {
    "        self.apply(self._init)\n": """\
        self.apply(self._init)
        for block in self.h:
            weight = block.attn.c_proj.weight
            block.attn.c_proj.weight = nn.Parameter(weight.detach().T.contiguous().T)
""",
}
