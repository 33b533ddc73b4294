"""A short depthwise convolution before each MLP, padded on the left only."""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.mlp = FeedForward(config)\n": """\
        self.mlp = FeedForward(config)
        E = config.n_embd
        self.conv = nn.Conv1d(E, E, kernel_size=3, groups=E)
""",
    "        x = x + self.attn(self.ln1(x))\n": """\
        x = x + self.attn(self.ln1(x))
        x = x + self.conv(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)
""",
}
