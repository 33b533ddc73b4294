"""Gates that start at 0.88 through a bias of 2, in a model that draws all other weights itself."""

BASE = "context_between_blocks"
REPLACE = {
    """\
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)
""": """\
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)) and "gate" not in name:
                nn.init.normal_(module.weight, std=0.02)
                if getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)
""",
}
