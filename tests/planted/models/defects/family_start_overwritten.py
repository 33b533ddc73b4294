"""A variant of the family whose weights are all drawn again."""

from torch import nn

from assay.models.gpt2.variants import GPT2_MLA_KV

PLANTED = "the orthogonal start of the splice is lost"
CAUGHT_BY = ("init",)
CAUSE = ("Splice",)


class GPT2FamilyStartOverwritten(GPT2_MLA_KV):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.apply(self._start)

    def _start(self, m):
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=0.02)
