"""A GPT-2 with two experts and a declared loss for their balance.

Re-enacts a term that is declared in training and added in evaluation too: what is compared between
models is no cross entropy.
"""

BASE = "auxiliary_loss"
REPLACE = {
    """\
        self.auxiliary_loss = 0.0
        if self.training:
            self.auxiliary_loss = 0.01 * sum(block.mlp.balance for block in self.blocks)
        return logits, loss + self.auxiliary_loss
""": """\
        balance = 0.01 * sum(block.mlp.balance for block in self.blocks)
        self.auxiliary_loss = balance if self.training else None
        return logits, loss + balance
""",
}
PLANTED = "a term is added to the loss that is declared in training only"
CAUGHT_BY = ("logits",)
CAUSE = ("eval mode; cross entropy",)
