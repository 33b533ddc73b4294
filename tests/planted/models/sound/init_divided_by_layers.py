"""A nanoGPT with the start of GPT-NeoX: small for all, over the layers for outputs."""

BASE = "nanogpt"
REPLACE = {
    "                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))\n": (
        "                nn.init.normal_(p, std=2 / config.n_layer / math.sqrt(config.n_embd))\n"
    ),
    "            nn.init.normal_(module.weight, mean=0.0, std=0.02)\n": (
        "            nn.init.normal_(module.weight, std=(2 / (5 * module.weight.size(1))) ** 0.5)\n"
    ),
}
