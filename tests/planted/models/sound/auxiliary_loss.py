"""Two experts whose loss has a term for balance, in training, that the model declares."""

BASE = "tokens_choose_experts"
REPLACE = {
    "        y = torch.zeros_like(x)\n": """\
        used = torch.nn.functional.one_hot(best, 2).to(share).mean(dim=(0, 1))
        self.balance = 2 * (used * share.mean(dim=(0, 1))).sum()
        y = torch.zeros_like(x)
""",
    "        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), "
    "ignore_index=-1)\n": """\
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        self.auxiliary_loss = 0.0
        if self.training:
            self.auxiliary_loss = 0.01 * sum(block.mlp.balance for block in self.blocks)
        return logits, loss + self.auxiliary_loss
""",
}
