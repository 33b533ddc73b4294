"""A head under weight norm: its matrix is worked out from a direction and a length in each call."""

BASE = "untied_head_no_cache"
REPLACE = {
    "from torch.nn import functional as F\n": """\
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
""",
    "self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)": (
        "self.head = weight_norm(nn.Linear(config.n_embd, config.vocab_size, bias=False))"
    ),
}
