"""torch's scaled_dot_product_attention, cuDNN kernel only (NVIDIA GPUs).

float16 and bfloat16; head dimensions that are multiples of 8, up to 128 or 256 as torch and cuDNN
have it. torch gives cuDNN the top-left causal mask only: with fewer queries than keys, but more
than one, it is handed a mask in memory and skips no block.
"""

from functools import partial

from torch.nn.attention import SDPBackend

from assay.attention.sequence._sdpa import attend, refusal
from assay.attention.tensor_bytes import Held, tiled_bytes
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False
KERNELS = {"cuda": "cudnn"}

attention = partial(attend, backend=SDPBackend.CUDNN_ATTENTION)
supports = partial(refusal, backend=SDPBackend.CUDNN_ATTENTION)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs, without cuDNN's workspace; an LSE only in training."""
    held = tiled_bytes(spec, training=training)
    return held if training else {"out": held["out"]}
