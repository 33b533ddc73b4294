"""Dropout of 0.1 by default in the code, but always given the rate of the configuration."""

BASE = "untied_head_no_cache"
REPLACE = {
    """\
class FeedForward(nn.Module):
    def __init__(self, config):
""": """\
class FeedForward(nn.Module):
    def __init__(self, config, dropout=0.1):
""",
    """\
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
""": """\
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
        self.dropout = dropout
""",
    "return self.drop(self.down(F.gelu(self.up(x))))": (
        "return F.dropout(self.down(F.gelu(self.up(x))), self.dropout, self.training)"
    ),
    "self.mlp = FeedForward(config)": "self.mlp = FeedForward(config, dropout=config.dropout)",
}
