"""A GPT-2 trained with its MLP inputs rounded to int8, straight-through.

Re-enacts a statistic taken without gradient over the whole sequence, here the quantisation
scale: a large later token coarsens all earlier ones. A test by gradients sees nothing.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        return self.drop(self.down(F.gelu(self.up(x))))\n": """\
        scale = x.detach().abs().amax(dim=(1, 2), keepdim=True) / 127
        rounded = (x.detach() / scale).round() * scale
        x = x + (rounded - x.detach())
        return self.drop(self.down(F.gelu(self.up(x))))
""",
}
PLANTED = "one quantisation scale for all tokens of a sequence"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
