"""A nanoGPT that was made cheaper for sampling.

Re-enacts a decorator that stayed on forward: there is no graph to train.
"""

BASE = "nanogpt"
REPLACE = {
    "    def forward(self, idx, targets=None, cache=None):\n": """\
    @torch.no_grad()
    def forward(self, idx, targets=None, cache=None):
""",
}
PLANTED = "forward runs under no_grad"
CAUGHT_BY = ("step", "gradients")
CAUSE = ("grad", "backward")
