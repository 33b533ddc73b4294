"""A GPT-2 whose keys and values are int8 with one scale for each token and head.

Re-enacts a compression ratio that counts the codes and not the scales that go with them.
"""

BASE = "plain_functions"
REPLACE = {
    "def attention(x, p, n, heads, cache):\n": '''\
def rounded(x):
    """int8 codes and scales of x, and their product with a straight-through gradient."""
    scale = x.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 127
    codes = (x.detach() / scale).round().to(torch.int8)
    return codes, scale, x + (codes * scale - x.detach())


def attention(x, p, n, heads, cache):
''',
    "    q, k, v = qkv.permute(2, 0, 3, 1, 4)\n": """\
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    codes, scales, kv = rounded(torch.stack((k, v)))
""",
    """\
            k = torch.cat((cache[n]["k"], k), dim=2)
            v = torch.cat((cache[n]["v"], v), dim=2)
        cache[n] = {"k": k, "v": v}
""": """\
            codes = torch.cat((cache[n]["codes"], codes), dim=3)
            scales = torch.cat((cache[n]["scales"], scales), dim=3)
        cache[n] = {"codes": codes, "scales": scales}
        kv = codes * scales
    k, v = kv
""",
    "    def forward(self, idx, targets=None, cache=None):\n": """\
    def cache_bytes(self, batch, tokens):
        return batch * tokens * self.config.n_layer * 2 * self.config.n_embd

    def forward(self, idx, targets=None, cache=None):
""",
    'cache[0]["k"].shape[2]': 'cache[0]["codes"].shape[3]',
}
PLANTED = "the scales of the quantised cache are not counted"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
