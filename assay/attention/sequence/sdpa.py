"""torch's scaled_dot_product_attention, with the kernel that torch itself picks."""

from assay.attention.sequence._sdpa import attend

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False  # whatever is picked: on a GPU mostly cuDNN or flash, with atomics

attention = attend
