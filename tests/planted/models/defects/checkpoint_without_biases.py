"""A nanoGPT that leaves mask buffers out of its checkpoints.

Re-enacts a filter on names that end in "bias", written for `attn.bias`, the mask: it drops all
learned biases too, and loading is lenient enough not to notice.
"""

BASE = "nanogpt"
REPLACE = {
    "    def forward(self, idx, targets=None, cache=None):\n": """\
    def state_dict(self, *args, **kwargs):
        full = super().state_dict(*args, **kwargs)
        return {name: value for name, value in full.items() if not name.endswith(".bias")}

    def load_state_dict(self, state_dict, strict=True, assign=False):
        return super().load_state_dict(state_dict, strict=False, assign=assign)

    def forward(self, idx, targets=None, cache=None):
""",
}
PLANTED = "state_dict leaves out the biases"
CAUGHT_BY = ("checkpoint",)
CAUSE = ("checkpoint", "restored", "saved", "bias", "logits", "load")
