"""What the first launch of a Triton kernel imports and works out in every process, 3 s on an H200:
imported by a process that forks, it is there in its forks. No device is touched."""

# ruff: noqa: F401 - imported to be there

import torch._dynamo  # by the first call of an operator of torch.library
import triton.experimental.gluon
import triton.language
from triton.runtime.cache import triton_key

triton_key()  # a digest of all of Triton's files, which it keeps
